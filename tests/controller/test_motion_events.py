"""Domains in motion are reported once, at their beginning and at their end, whoever leads meanwhile."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, InForce, Leading, LoopState, ProcessFacts, Publish, Watched
from rebalancer.model.events import EventReason, Regarding
from rebalancer.model.motion import DomainMotion
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.controller.simulated import eager
from tests.planning.clusters import nodes

POLICY_OBJECT = Regarding(kind="ConfigMap", namespace="ns", name="rebalancer-policy")
RULES = eager(nodes=Nodes(settle=timedelta(minutes=1)))
MOTION = {EventReason.DOMAIN_UNSETTLED, EventReason.DOMAIN_SETTLED}


def snapshot() -> Snapshot:
    return a_cluster("abc", 3, {"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()


CALM = snapshot()
NOW = CALM.taken_at


def cordoned(at: datetime, *names: str) -> Snapshot:
    changed = nodes(CALM, lambda node: structs.replace(node, unschedulable=True) if node.name in names else node)
    return replace(changed, taken_at=at)


def run(state: LoopState, seconds: int, *names: str) -> tuple[LoopState, Counter[str]]:
    """Complete a cycle; return what was reported of domains in motion."""
    now = NOW + timedelta(seconds=seconds)
    following, requests = step(state, CycleDue(snapshot=cordoned(now, *names)), now)
    reasons = (request.event.reason for request in requests if isinstance(request, Publish))
    return following, Counter(reason for reason in reasons if reason in MOTION)


def lead(state: LoopState, seconds: int, memory: Memory = NO_MEMORY) -> LoopState:
    return step(state, Leading(leads=True, memory=memory), NOW + timedelta(seconds=seconds))[0]


def watch(state: LoopState, seconds: int, *names: str) -> LoopState:
    now = NOW + timedelta(seconds=seconds)
    return step(state, Watched(snapshot=cordoned(now, *names)), now)[0]


@pytest.fixture
def started() -> LoopState:
    """Return the state of a process that does not lead, and has seen the nodes."""
    process = ProcessFacts(policy_object=POLICY_OBJECT)
    return watch(LoopState(in_force=InForce(policy=RULES, policy_since=NOW), process=process), 0)


def test_a_leader_reports_a_domain_once_at_each_end(started: LoopState) -> None:
    state, _ = run(lead(started, 0), 1)
    state, first = run(state, 2, "c-1", "c-2")
    state, more = run(state, 4, "c-1", "c-2", "c-3")
    state, none = run(state, 6)
    state, end = run(state, 70)
    assert (first, more, none, end) == ({EventReason.DOMAIN_UNSETTLED: 1}, {}, {}, {EventReason.DOMAIN_SETTLED: 1})


def test_what_began_while_nobody_led_is_reported_by_the_next_leader(started: LoopState) -> None:
    """It has watched the nodes; the memory that it reads is from before."""
    _, reported = run(lead(watch(started, 2, "c-1", "c-2"), 5), 6, "c-1", "c-2")
    assert reported == {EventReason.DOMAIN_UNSETTLED: 1}


def test_what_the_last_leader_has_reported_is_not_reported_again(started: LoopState) -> None:
    """Its end is, if it comes before the first cycle of the next one."""
    last, _ = run(lead(started, 0), 2, "c-1", "c-2")
    follower = watch(started, 2, "c-1", "c-2")
    state, first = run(lead(follower, 5, last.memory), 6, "c-1", "c-2")
    assert first == {}
    _, end = run(lead(watch(follower, 8), 100, run(state, 7)[0].memory), 101)
    assert end == {EventReason.DOMAIN_SETTLED: 1}


def test_a_domain_that_still_loses_nodes_after_an_hour_settles_once(started: LoopState) -> None:
    """Its end was reported when the hour was over; it is stored until it is quiet."""
    at = NOW - timedelta(hours=2)
    motion = DomainMotion(key=ZONE, value="c", since=at, until=NOW, moved=NOW, lasting=False, had=4, lost=4)
    _, reported = run(lead(started, 5, Memory(domains_in_motion=(motion,))), 6)
    assert reported == {}
