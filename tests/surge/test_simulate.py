"""`simulate` plays surges to their end, and tells them."""

from datetime import timedelta
from pathlib import Path

import pytest

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.simulator import ZONE
from rebalancer.simulator.changes import parse_change
from rebalancer.simulator.play import Outcome, Play
from rebalancer.simulator.scenario import shipped_scenario
from rebalancer.simulator.story import Story
from tests.build import a_cluster
from tests.cli.files import write_list, write_policy
from tests.simulator.test_play import by_zone
from tests.surge.build import blocked_cluster, surging
from tests.surge.test_plan import EAGER, crowded


def a_play(*changes: str) -> Play:
    cluster = blocked_cluster()
    first = cluster.snapshot(cluster.now)
    return Play(
        first,
        surging(),
        [parse_change("scale", f"default/deployment/web={one}") for one in changes],
        seed=1,
        profile=DEFAULT_PROFILE,
    )


def kinds(outcome: Outcome) -> list[str]:
    return [event.what for event in outcome.events if event.what in {"SurgeBegan", "Scaled", "SurgeEnded", "Evicted"}]


def test_what_no_budget_lets_go_is_repaired_without_an_eviction_and_no_pod_is_ever_missing() -> None:
    outcome = a_play().run()
    assert outcome.settled
    assert (outcome.evictions, outcome.surged, outcome.lower_bound) == (0, 3, 3)
    assert by_zone(outcome) == {"a": 2, "b": 2, "c": 2}
    assert not outcome.cycle.assessment.violated
    assert outcome.readiness == []
    assert kinds(outcome) == ["SurgeBegan", "Scaled", "Scaled", "SurgeEnded"] * 2


def test_a_pod_that_is_missing_beside_a_surge_is_seen() -> None:
    """The replicas of the surge do not count as wanted, those before it do."""
    play = a_play()
    for _ in play.advance():
        if play.state.reported.surges.under_way and play.cluster.snapshot(play.cluster.now).workloads[0].replicas > 6:
            break
    pods = [pod for pod in play.cluster.snapshot(play.cluster.now).pods if pod.ready and not pod.terminating]
    for pod in pods[:3]:
        play.cluster.state.delete(pod)
    (lowest,) = play.run().readiness
    assert (lowest.ready, lowest.wanted) == (len(pods) - 3, 6)


def test_a_step_that_ends_with_a_surge_counts_its_pods() -> None:
    """A scale-up comes once all is repaired."""
    outcome = a_play("6", "9").run()
    assert outcome.settled
    assert [step.surged for step in outcome.steps] == [3, 0]


def test_nothing_is_over_while_added_pods_wait() -> None:
    """However long that is without a change, and although nothing looks violated beside the added pod."""
    blueprint = a_cluster("ab", 1, {"a-1": 2, "b-1": 0}, spread={ZONE: 1})
    policy = surging(settle=timedelta(minutes=7))
    outcome = Play(blueprint.snapshot(), policy, seed=1, profile=DEFAULT_PROFILE).run()
    assert (outcome.surged, outcome.settled, by_zone(outcome)) == (1, True, {"a": 1, "b": 1})


def test_equal_arguments_play_equal_surges() -> None:
    one, other = a_play().run(), a_play().run()
    assert one.events == other.events


def test_the_story_has_the_begin_and_the_end_of_each_surge() -> None:
    story = Story(shipped_scenario("zone"), a_play())
    texts = [line.text for lines in story.advance() for line in lines]
    assert "The repair needs 3 evictions (proved minimum)" in texts
    assert sum(text.startswith("SurgeBegan: Deployment default/web: adds ") for text in texts) == 2
    assert sum(text.startswith("SurgeEnded: Deployment default/web: added ") for text in texts) == 2
    assert texts[-1] == story.scenario.repaired


def test_the_command_says_how_many_pods_went_and_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = write_policy(tmp_path, EAGER.format(method="Surge", mode="Observe"))
    command = ["simulate", "--snapshot", write_list(tmp_path / "all.yaml", crowded()), "--policy", policy]
    assert entry.main(command) == Exit.FINE
    text = capsys.readouterr().out
    assert "Simulated: no eviction, 3 pods went after as many were added, " in text
    assert "AT  CHANGE  EVICTIONS  BY SURGES  WITHOUT A NODE" in text
    assert "SurgeBegan  ReplicaSet shop/web: adds 2 pods to 6; once all are Ready, web-0 and web-1 go" in text
    assert "pods Ready" not in text
