"""What it costs to say why violations have ended: one step may end thousands, as an edit of the policy does."""

import sys
from dataclasses import replace
from datetime import timedelta
from types import FrameType

from msgspec import structs

from rebalancer.account.happened import ViolationEnded
from rebalancer.controller.happened import note_happened
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.simulator import ZONE, ClusterBuilder
from tests.build import a_state, change_specs


def violated(workloads: int) -> Snapshot:
    """Return workloads that each violate their constraint."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    for number in range(workloads):
        builder.deployment(f"web-{number:03}", on={"a-1": 2}, spread={ZONE: 1})
    return builder.snapshot()


def count_calls(workloads: int, ended: int) -> int:
    """Return how many calls it takes to note what has happened when the first workloads drop their constraints."""
    before = violated(workloads)
    free = {f"web-{number:03}" for number in range(ended)}
    after = change_specs(before, lambda app, spec: structs.replace(spec, spread=()) if app in free else spec)
    start, later = before.taken_at, before.taken_at + timedelta(minutes=1)
    old, _ = step(a_state(default_policy(), start), CycleDue(snapshot=before), start)
    event = CycleDue(snapshot=replace(after, taken_at=later))
    new, _ = step(old, event, later)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    plain = replace(new, happened=())
    sys.setprofile(count)
    try:
        noted = note_happened(old, event, plain, old.in_force.policy_since)
    finally:
        sys.setprofile(None)
    ends = [one.subject for one in noted.happened if isinstance(one, ViolationEnded)]
    why = "zone maxSkew 1: the workload has no such constraint any more"
    assert [str(one.dropped) for one in ends if one is not None] == [why] * ended
    return calls


def test_each_end_costs_the_same_however_many_workloads_there_are() -> None:
    """Counted in calls: thirty ends more, among forty workloads and among a hundred and twenty."""
    few, many = (count_calls(workloads, 40) - count_calls(workloads, 10) for workloads in (40, 120))
    assert 0 < many <= 1.1 * few
