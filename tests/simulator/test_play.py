"""The loop on a copy of the cluster: what it does to the end, and what is recorded of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import CapacityMode, Mode, Policy, ScaleDownPrevention, default_policy
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.simulator.changes import Change, parse_change
from rebalancer.simulator.play import ImpossibleChangeError, Outcome, Play, simulated_policy, with_prevention
from rebalancer.simulator.scenario import load_scenario
from tests.build import a_cluster, a_policy

LOSE, RETURN = (parse_change(f"{verb}-domain", f"{ZONE}=c") for verb in ("remove", "restore"))


def shop(on: Mapping[str, int]) -> Snapshot:
    """Three zones of two nodes; a Deployment with pods on some of them, at most one unavailable."""
    blueprint = a_cluster("abc", 2, on, namespace="shop", spread={ZONE: 1})
    blueprint.budget("web", namespace="shop", max_unavailable=1)
    return blueprint.snapshot()


EVEN = dict.fromkeys(("a-1", "b-1", "c-1", "a-2", "b-2", "c-2"), 2)
SKEWED = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}

PATIENT = a_policy("spread: {for: 1h}")
"""Nothing is evicted within the hour."""


def scale(replicas: int) -> Change:
    return parse_change("scale", f"shop/deployment/web={replicas}")


def play(first: Snapshot, *changes: Change, policy: Policy | None = None, seed: int = 1) -> Outcome:
    return Play(first, policy or default_policy(), changes, seed=seed, profile=DEFAULT_PROFILE).run()


def by_zone(outcome: Outcome) -> Counter[str]:
    nodes = outcome.snapshot.node
    return Counter(nodes[pod.node].labels[ZONE] for pod in outcome.snapshot.pods if pod.node is not None)


def test_what_is_skewed_is_repaired_at_its_minimum() -> None:
    """Without a change the simulation is that of the repair."""
    outcome = play(shop(SKEWED))
    assert outcome.settled
    assert outcome.evictions == outcome.lower_bound == 4
    assert by_zone(outcome) == {"a": 4, "b": 4, "c": 4}
    assert not outcome.cycle.assessment.violated
    # `spread.for` is 2 minutes: nothing is evicted before.
    assert min(event.at for event in outcome.events if event.what == "Evicted") >= timedelta(minutes=2)
    assert timedelta(minutes=2) < outcome.took < timedelta(minutes=10)


def test_a_zone_is_lost_and_comes_back() -> None:
    """Each change is made once nothing moves any more; all pods are Ready again before the zone is back."""
    outcome = play(shop(EVEN), LOSE, RETURN)
    lost, back = outcome.steps
    assert (lost.evictions, lost.waiting) == (0, 0)
    assert (back.evictions, back.lower_bound) == (4, 4)
    assert by_zone(outcome) == {"a": 4, "b": 4, "c": 4}
    assert back.at > timedelta(seconds=40), "pods of a lost node are deleted after a while"


def test_the_worst_moments_are_recorded() -> None:
    """A lost zone takes four of twelve pods at once; the repair takes one at a time."""
    outcome = play(shop(EVEN), LOSE)
    (web,) = outcome.readiness
    assert (web.wanted, web.ready, str(web.workload)) == (12, 8, "shop/web (Deployment)")
    assert outcome.most_waiting >= 1
    headroom = {one.limit: one.headroom for one in outcome.headrooms}
    assert headroom["zone-half"] == 0
    repaired = play(shop(SKEWED))
    (web,) = repaired.readiness
    assert (web.wanted, web.ready) == (12, 11)


def test_a_step_with_a_wait_ends_after_it() -> None:
    """The zone is back before its pods were deleted: nothing has to be repaired."""
    steps = load_scenario(
        f"steps: [{{removeDomain: {ZONE}=c, wait: 10s}}, {{restoreDomain: {ZONE}=c}}]".encode(), "file"
    ).steps
    outcome = play(shop(EVEN), *steps)
    assert outcome.steps[1].at == timedelta(seconds=10)
    assert outcome.steps[0].lower_bound == 0


def test_what_cannot_be_repaired_is_left_after_an_hour() -> None:
    """A budget that allows nothing is waited for, but not for ever."""
    blueprint = a_cluster("abc", 2, SKEWED, namespace="shop", spread={ZONE: 1})
    blueprint.budget("web", namespace="shop", max_unavailable=0)
    outcome = play(blueprint.snapshot())
    assert outcome.settled
    assert outcome.evictions == 0
    assert outcome.cycles >= 60
    assert outcome.took == timedelta(0), "nothing has ever moved"


def test_equal_seeds_give_equal_outcomes() -> None:
    """Every event at its moment; another seed gives another."""
    one, same, other = (play(shop(EVEN), LOSE, RETURN, seed=seed).events for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_scale_downs_leave_no_skew_where_they_are_steered() -> None:
    """The same night with prevention and without: fewer evictions with it."""
    first = a_cluster("abc", 4, namespace="shop", replicas=30, spread={ZONE: 1}).snapshot()
    steps = [scale(number) for number in (20, 12, 6, 3)]
    evictions = {
        mode: sum(
            play(first, *steps, seed=seed, policy=a_policy(f"prevention: {{scaleDown: '{mode}'}}")).evictions
            for seed in range(3)
        )
        for mode in ("Off", "Steer")
    }
    assert evictions["Steer"] == 0
    assert evictions["Off"] > 0


def night(mode: ScaleDownPrevention, seed: int) -> list[tuple[int, ...]]:
    """Scale 30 pods down to 3 in steps of a minute; return the pods by zone right after each step."""
    blueprint = a_cluster("abc", 4, namespace="shop", replicas=30, spread={ZONE: 1, HOSTNAME: 1})
    steps = [replace(scale(number), wait=timedelta(minutes=1)) for number in (20, 12, 6, 3)]
    steps[0] = replace(scale(20), after=timedelta(minutes=4))
    played = Play(blueprint.snapshot(), with_prevention(PATIENT, mode), steps, seed=seed)
    counted: list[tuple[int, ...]] = []
    for _ in played.advance():
        if len(played.steps) > len(counted):  # the next change has been made, but no controller has acted on it
            snapshot = played.cluster.snapshot(played.cluster.now)
            staying = [pod for pod in snapshot.pods if pod.node and not pod.terminating]
            zones = Counter(snapshot.node[pod.node or ""].labels[ZONE] for pod in staying)
            counted.append(tuple(zones[zone] for zone in "abc"))
    return counted


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_night_of_scale_downs_stays_spread_with_prevention_only(seed: int) -> None:
    """At every step the zones differ by one pod at most with Steer, and at some step by more with Off."""
    without, steered = (night(mode, seed) for mode in (ScaleDownPrevention.OFF, ScaleDownPrevention.STEER))
    assert [sum(zones) for zones in without] == [sum(zones) for zones in steered] == [30, 20, 12, 6, 3]
    assert max(max(zones) - min(zones) for zones in steered) <= 1
    assert max(max(zones) - min(zones) for zones in without) > 1


def test_what_the_cluster_does_not_have_is_named_with_the_change() -> None:
    with pytest.raises(ImpossibleChangeError, match="remove-node z-9: node z-9 not found"):
        play(shop(EVEN), parse_change("remove-node", "z-9"))


def test_a_simulation_acts_whatever_mode_and_window_the_policy_has() -> None:
    """And asks no autoscaler that is not there; everything else is the policy's."""
    text = """\
mode: Observe
interval: 30s
windows: [{schedule: "0 3 * * *", duration: 1h}]
capacity: {mode: Request}
"""
    policy = a_policy(text)
    simulated = simulated_policy(policy)
    assert (simulated.mode, simulated.windows, simulated.capacity.mode) == (Mode.EVICT, (), CapacityMode.OBSERVE)
    assert simulated.interval == policy.interval
    assert play(shop(SKEWED), policy=policy).evictions == 4


def test_a_simulation_ends_although_something_moves_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr("rebalancer.simulator.play._LONGEST", timedelta(minutes=2))
    outcome = play(shop(SKEWED))
    assert not outcome.settled
    assert {row.state for group in outcome.cycle.assessment.groups for row in group.hard} == {State.VIOLATED}
