"""What surges cost: pods that go in them count for the rates and the standing approval, as evicted ones do."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.admission.surges import count_surges
from rebalancer.admission.written import WholeApproval, Written
from rebalancer.controller.state import ApprovalRead, PolicyLoaded
from rebalancer.model.moves import NO_MEMORY
from rebalancer.policy import Amount, Mode
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.surge.record import Ending, Phase
from rebalancer.surge.report import Ended, SurgeReport
from rebalancer.tracking.backoff import find_backoff, record_failure
from tests.build import a_cluster
from tests.surge.build import START, a_surge, under_way
from tests.surge.play import Play, Watched, surging

TWO_WORKLOADS = ("cart", "web")


def a_play(mode: Mode = Mode.EVICT, **budgets: int) -> Play:
    """Return a play of two workloads that lie in two of three zones; `budgets` are numbers of the policy."""
    blueprint = a_cluster("abc", 2)
    for name in TWO_WORKLOADS:
        blueprint.deployment(name, on={"a-1": 3, "a-2": 2, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 2})
        blueprint.budget(name, max_unavailable=0)
    policy = surging()
    numbers = {name: Amount(value=number) for name, number in budgets.items()}
    changed = policy.budgets.model_copy(update=numbers)
    return Play(Watched(blueprint.snapshot(), seed=1), policy.model_copy(update={"mode": mode, "budgets": changed}))


def begun_within(played: Play, seconds: int) -> int:
    """Return how many pods were to go in the surges that have begun within this time."""
    seen: dict[tuple[str, datetime], int] = {}
    for _ in range(seconds):
        played.seconds(1)
        seen |= {(one.uid, one.begun): len(one.victims) for one in played.records}
    return sum(seen.values())


def test_no_more_pods_go_in_a_minute_than_the_rate_allows() -> None:
    """Two surges of two pods each are planned: one begins, the other in the minute after."""
    played = a_play(per_minute=2)
    assert begun_within(played, 55) == 2
    assert begun_within(played, 240) > 2


def test_the_rate_is_known_to_the_next_leader_too() -> None:
    """Although the last one died right after it had stored the records."""
    played = a_play(per_minute=2)
    while not played.records:
        played.seconds(1)
    runner = played.simulation.runner
    state = runner.state
    assert len(state.memory.sent) == 2
    runner.tell(PolicyLoaded(policy=state.in_force.policy))
    played.restart()
    played.seconds(3)
    assert len(runner.state.memory.sent) == 2


def approve(played: Play, evictions: int) -> None:
    runner = played.simulation.runner
    while runner.state.memory.proposal is None:
        played.seconds(1)
    approval = WholeApproval(
        plan=runner.state.memory.proposal.hash,
        evictions=evictions,
        until=played.cluster.now + timedelta(hours=1),
        by="ada",
    )
    runner.tell(ApprovalRead(approved="", written=Written(approval=approval)))
    runner.drain()


def test_what_is_approved_as_a_whole_counts_the_pods_that_go() -> None:
    """Of four pods that would go at once, two are approved: one surge begins, and no other ever does."""
    played = a_play(Mode.APPROVE)
    approve(played, 2)
    played.seconds(240)
    assert [(one.ending, len(one.surge.victims)) for one in played.ended] == [(Ending.DONE, 2)]
    assert played.simulation.runner.state.memory.standing is not None
    assert not played.records


def test_what_was_taken_back_is_not_charged() -> None:
    """No pod of them has gone."""
    played = a_play(Mode.APPROVE)
    approve(played, 4)
    while not any(one.phase is Phase.WAITING for one in played.records):
        played.seconds(1)
    runner = played.simulation.runner
    standing = runner.state.memory.standing
    assert standing
    left = standing.left
    assert left < 4
    uid = played.records[0].victims[0].uid
    victim = next(pod for pod in played.cluster.snapshot(played.cluster.now).pods if pod.uid == uid)
    played.cluster.state.delete(victim)
    played.seconds(30, cycle=10**6)
    assert Ending.VICTIM_GONE in {one.ending for one in played.ended}
    standing = runner.state.memory.standing
    assert standing
    assert standing.left == left + 2


@pytest.mark.parametrize("ending", list(Ending))
def test_what_did_not_end_as_predicted_backs_off_and_what_did_is_forgotten(ending: Ending) -> None:
    """As evictions do: tried again after five minutes, then ten, and so on."""
    surge = a_surge()
    once = record_failure(NO_MEMORY, surge.group, START)
    after = count_surges(once, SurgeReport(ended=(Ended(surge, ending),)), START)
    times = [one.times for one in after.failed_predictions]
    assert times == {Ending.TIMED_OUT: [2], Ending.MISPREDICTED: [2], Ending.DONE: []}.get(ending, [1])
    backoff = find_backoff(after, surge.group, START)
    assert (backoff is None) == (ending is Ending.DONE)


@given(st.integers(0, 120), st.integers(1, 3))
def test_a_surge_is_counted_once_and_for_a_minute(seconds: int, times: int) -> None:
    """However often it is reported."""
    memory, now = NO_MEMORY, START + timedelta(seconds=seconds)
    for _ in range(times):
        memory = count_surges(memory, SurgeReport(under_way=(under_way(),)), now)
    assert len(memory.sent) == (2 if seconds < 60 else 0)
