"""Evictions are counted by workload: from 0, in a limited number of series, and for an hour after the last one."""

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from prometheus_client import Counter

from rebalancer.controller.counters import EVICTIONS, WORKLOAD_EVICTIONS
from rebalancer.controller.happened import note_happened
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, InForce, Leading, LoopEvent, LoopState, Saved, Watched
from rebalancer.controller.telemetry import Telemetry
from rebalancer.controller.workload_evictions import MOST_WORKLOADS, WorkloadEvictions
from rebalancer.model.moves import Memory, Move, MoveState, Reference
from rebalancer.model.reasons import Cause
from rebalancer.planning.eviction import Eviction, Repair
from rebalancer.planning.fates import Fates, Goes
from rebalancer.planning.plan import Plan
from rebalancer.policy import Mode
from rebalancer.simulator import ZONE, ClusterBuilder, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import examples
from tests.tracking.build import move

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEB = ("default", "Deployment", "web", "SkewViolated")
OTHER = ("", "", "other", "SkewViolated")

Exported = Mapping[tuple[str, ...], float]


def exported(counter: Counter) -> Exported:
    (family,) = counter.collect()
    return {
        tuple(sample.labels[label] for label in WORKLOAD_EVICTIONS.labels): sample.value
        for sample in family.samples
        if sample.name == WORKLOAD_EVICTIONS.name
    }


def counting() -> tuple[WorkloadEvictions, Callable[[], Exported]]:
    """Return evictions by workload, and what is exported of them."""
    counter = Counter(WORKLOAD_EVICTIONS.name, WORKLOAD_EVICTIONS.help, WORKLOAD_EVICTIONS.labels, registry=None)
    return WorkloadEvictions(counter), lambda: exported(counter)


def named(number: int, namespace: str = "default") -> Reference:
    return Reference(namespace, "Deployment", f"w{number:04}")


def in_namespaces_of_their_own(*numbers: int) -> Sequence[Reference]:
    return [named(number, f"n{number:04}") for number in numbers]


def planned(*workloads: Reference) -> Plan:
    """Return a plan with an eviction of each workload."""
    (victim,) = a_cluster("a", 1, {"a-1": 1}).snapshot().pods
    repair = Repair(step=1, group="g", cause=Cause.SKEW_VIOLATED)
    fates = Fates(tuple(Goes(Eviction(repair=repair, pod=victim, workload=workload)) for workload in workloads))
    return Plan(made_at=NOW, expires_at=NOW, policy_hash="", fates=fates)


def granted(workload: Reference, at: datetime = NOW) -> Move:
    return move("uid", at, workload=workload, state=MoveState.EVICTED)


def test_a_series_begins_at_zero_with_the_plan() -> None:
    """So `increase()` sees the first eviction; planning it again takes nothing back."""
    evictions, series = counting()
    evictions.plan(planned(named(1)), NOW)
    assert series() == {("default", "Deployment", "w0001", "SkewViolated"): 0}
    evictions.count(granted(named(1)))
    evictions.plan(planned(named(1)), NOW)
    assert series() == {("default", "Deployment", "w0001", "SkewViolated"): 1}


def test_a_series_ends_an_hour_after_the_last_eviction_and_begins_at_zero_again() -> None:
    evictions, series = counting()
    evictions.plan(planned(named(1)), NOW)
    last = NOW + timedelta(minutes=5)
    evictions.count(granted(named(1), last))
    evictions.end(last + HOUR - timedelta(seconds=1))
    assert list(series().values()) == [1]
    evictions.end(last + HOUR)
    assert not series()
    evictions.plan(planned(named(1)), last + HOUR)
    assert list(series().values()) == [0]


def test_while_an_eviction_is_planned_its_series_does_not_end() -> None:
    """It would begin again in the same moment, and lose what it has counted."""
    evictions, series = counting()
    evictions.count(granted(named(1)))
    for minutes in range(0, 180, 10):
        evictions.plan(planned(named(1)), NOW + timedelta(minutes=minutes))
        evictions.end(NOW + timedelta(minutes=minutes))
    assert list(series().values()) == [1]


def test_names_that_are_shown_alike_are_counted_together_and_end_together() -> None:
    """A name cannot write a line into the metrics, nor make Prometheus refuse a scrape."""
    evictions, series = counting()
    evictions.count(granted(Reference("default", "Own\x1b", "web")))
    evictions.count(granted(Reference("default", "Own\\x1b", "web"), NOW + HOUR / 2))
    assert series() == {("default", "Own\\x1b", "web", "SkewViolated"): 2}
    evictions.end(NOW + HOUR)
    assert list(series().values()) == [2]
    evictions.end(NOW + HOUR + HOUR / 2)
    assert not series()


def test_every_reason_of_a_workload_ends_with_it() -> None:
    """They are read together."""
    evictions, series = counting()
    evictions.count(granted(named(1)))
    evictions.count(structs.replace(granted(named(1), NOW + HOUR / 2), cause=Cause.SHARE_LIMIT_VIOLATED))
    evictions.end(NOW + HOUR)
    assert len(series()) == 2
    evictions.end(NOW + HOUR + HOUR / 2)
    assert not series()


def test_beyond_5000_workloads_the_rest_are_counted_together() -> None:
    """Also when they are planned at once; those that go first have series of their own."""
    evictions, series = counting()
    everything = in_namespaces_of_their_own(*range(MOST_WORKLOADS + 30))
    evictions.plan(planned(*everything), NOW)
    assert len(series()) == MOST_WORKLOADS + 1 == 5_001
    assert series()[OTHER] == 0
    for workload in everything:
        evictions.count(granted(workload))
    assert len(series()) == 5_001
    assert series()[OTHER] == 30
    assert series()["n4999", "Deployment", "w4999", "SkewViolated"] == 1


def test_a_place_that_is_free_again_is_given_away() -> None:
    """A workload that was counted among the others has a series of its own from then on; the others keep theirs."""
    evictions, series = counting()
    later = NOW + HOUR / 2
    evictions.plan(planned(*in_namespaces_of_their_own(0)), NOW)
    evictions.plan(planned(*in_namespaces_of_their_own(*range(1, MOST_WORKLOADS + 1))), later)
    evictions.end(NOW + HOUR)
    assert len(series()) == MOST_WORKLOADS
    evictions.plan(planned(*in_namespaces_of_their_own(MOST_WORKLOADS, MOST_WORKLOADS + 1)), later)
    assert len(series()) == MOST_WORKLOADS + 1
    assert series()[OTHER] == 0
    assert ("n5000", "Deployment", "w5000", "SkewViolated") in series()
    evictions.end(later + HOUR)
    assert not series()


def test_a_namespace_that_evicts_from_thousands_of_workloads_has_half_of_the_series() -> None:
    """And all of its places again an hour after they are free."""
    evictions, series = counting()
    flood = [named(number) for number in range(MOST_WORKLOADS)]
    for _ in range(2):
        evictions.plan(planned(*flood), NOW)
        assert len(series()) == MOST_WORKLOADS / 2 + 1
        evictions.plan(planned(named(0, "shop")), NOW)
        assert series()["shop", "Deployment", "w0000", "SkewViolated"] == 0
        evictions.end(NOW + HOUR)
        assert not series()


@examples(50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3_000)), max_size=6))
def test_a_namespace_gets_a_series_only_while_it_has_fewer_than_are_free(drawn: list[tuple[str, int]]) -> None:
    """Whoever comes, in whatever order: nobody has more than half of what it found free, and all stay within 5,000."""
    evictions, series = counting()
    number = 0
    for namespace, wanted in drawn:
        held = Tally(place for place, *_ in series() if place)
        free = MOST_WORKLOADS - held.total()
        evictions.plan(planned(*(named(number + one, namespace) for one in range(wanted))), NOW)
        number += wanted
        now_held = Tally(place for place, *_ in series() if place)
        # It takes x of f places while held + x < f - x.
        expected = min(wanted, max(0, -((held[namespace] - free) // 2)))
        assert now_held == held + Tally({namespace: expected})


def telemetry() -> tuple[Telemetry, Callable[[], Exported]]:
    """Return the telemetry of a process that nobody scrapes, and its evictions by workload."""
    made = Telemetry(
        cast("Any", SimpleNamespace(threads=(), watches=())), None, cast("Any", SimpleNamespace()), interval=60
    )
    return made, lambda: exported(made._metrics.counter(WORKLOAD_EVICTIONS))


def skewed() -> ClusterBuilder:
    """Four of six pods of each workload have to move: three of each wait for the first."""
    blueprint = a_cluster("abc", 2)
    for name in ("web", "db"):
        blueprint.deployment(name, on={"a-1": 3, "a-2": 3}, spread={ZONE: 1})
    return blueprint


def test_what_is_only_planned_is_not_counted() -> None:
    made, series = telemetry()
    simulation = Simulation(SimulatedCluster(skewed().snapshot(), seed=1), eager(Mode.OBSERVE), made)
    simulation.cycles(3)
    assert series() == {WEB: 0, ("default", "Deployment", "db", "SkewViolated"): 0}


def test_an_eviction_that_waits_has_a_series_already() -> None:
    """The cycle that lets it go may evict in the same second, before anybody has scraped a 0."""
    made, series = telemetry()
    blueprint = skewed()
    blueprint.budget("web", min_available=5)
    snapshot = blueprint.snapshot()
    snapshot = replace(snapshot, budgets=tuple(structs.replace(budget, allowed=0) for budget in snapshot.budgets))
    state = after(leading(), CycleDue(snapshot=snapshot), snapshot.taken_at)
    assert state.cycle is not None
    assert "web" not in {eviction.workload.name for eviction in state.cycle.plan.fates.going}
    made.changed(state)
    assert series()[WEB] == 0


def test_the_evictions_of_all_workloads_add_up_to_those_that_were_granted() -> None:
    made, series = telemetry()
    simulation = Simulation(SimulatedCluster(skewed().snapshot(), seed=1), eager(), made)
    simulation.cycles(40)
    (family,) = made._metrics.counter(EVICTIONS).collect()
    evicted = sum(sample.value for sample in family.samples if sample.labels["result"] == "evicted")
    assert sum(series().values()) == evicted == 8
    assert series()[WEB] == 4


def after(state: LoopState, event: LoopEvent, at: datetime) -> LoopState:
    return step(state, event, at)[0]


def leading() -> LoopState:
    state = LoopState(in_force=InForce(policy=eager(), policy_since=NOW))
    return after(state, Leading(leads=True), NOW)


def with_move(state: LoopState, now: MoveState, uid: str = "uid") -> LoopState:
    """Return the state after a step in which the only move has come into this state."""
    before = replace(state, happened=())
    memory = structs.replace(state.memory, moves=(move(uid, NOW, state=now),))
    return note_happened(before, Saved(), replace(before, memory=memory), NOW)


@pytest.mark.parametrize(
    ("last", "counted"),
    [
        (MoveState.EVICTED, True),
        (MoveState.VERIFIED, True),
        (MoveState.PLANNED, False),
        (MoveState.REFUSED, False),
        (MoveState.GONE, False),
    ],
)
def test_an_eviction_counts_once_and_only_if_it_was_granted(last: MoveState, counted: bool) -> None:
    """Also one whose answer was lost, and that a later cycle has seen; not one that was refused."""
    made, series = telemetry()
    state = leading()
    for now in (MoveState.PLANNED, last, last, MoveState.VERIFIED if counted else last):
        state = with_move(state, now)
        made.changed(state)
    assert series() == ({WEB: 1} if counted else {})


def test_after_a_lost_lease_nothing_grows_and_what_was_counted_ends_within_the_hour() -> None:
    """The last eviction may not have been scraped yet; what another leader evicts is that one's."""
    made, series = telemetry()
    snapshot = skewed().snapshot()
    now = snapshot.taken_at
    state = after(leading(), CycleDue(snapshot=snapshot), now)
    for seen in (MoveState.PLANNED, MoveState.EVICTED):
        state = with_move(state, seen)
        made.changed(state)
    assert series()[WEB] == 1
    state = after(state, Leading(leads=False), now)
    for minutes in (1, 30, 59):
        at = now + timedelta(minutes=minutes)
        state = after(state, Watched(snapshot=replace(snapshot, taken_at=at)), at)
        made.changed(with_move(state, MoveState.EVICTED, f"another-{minutes}"))
        assert series()[WEB] == 1
    at = now + HOUR
    made.changed(after(state, Watched(snapshot=replace(snapshot, taken_at=at)), at))
    assert not series()


def test_a_new_leader_does_not_count_what_the_last_one_has_evicted() -> None:
    """Only what becomes known while it leads."""
    made, series = telemetry()
    state = LoopState(in_force=InForce(policy=eager(), policy_since=NOW))
    made.changed(state)
    memory = Memory(moves=(move("uid", NOW, state=MoveState.EVICTED),))
    made.changed(after(state, Leading(leads=True, memory=memory), NOW))
    assert not series()
