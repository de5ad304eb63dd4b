"""Steps that wait while others evict pods of the workload, and for how long."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.admission.memory import update_memory
from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.engine import evaluate
from rebalancer.model.moves import Memory, OthersEvictions, Reference
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.simulator import ZONE
from rebalancer.tracking.evicted import LONGEST_WAIT
from tests.build import a_cluster
from tests.planning.clusters import planned, policy

WEB = Reference("default", "Deployment", "web")
SECOND = timedelta(seconds=1)


def skewed(name: str = "web", *, stateful: bool = False) -> Snapshot:
    """Seven pods in zone a, two in zone b: three evictions to go."""
    snapshot = a_cluster("ab", 2, {"a-1": 4, "a-2": 3, "b-1": 2}, name=name, spread={ZONE: 1}, stateful=stateful)
    return snapshot.snapshot()


def unready(snapshot: Snapshot) -> Snapshot:
    """Let the replacement of one pod be on its way."""
    last = max(snapshot.pods, key=lambda pod: (pod.node or "", pod.name))
    changed = structs.replace(last, ready=False, ready_since=None)
    return replace(snapshot, pods=tuple(changed if pod is last else pod for pod in snapshot.pods))


def memory(since: datetime, workload: Reference = WEB) -> Memory:
    run = OthersEvictions(workload=workload, since=since, last=since, number=1, pods=("web-1",), elsewhere=True)
    return Memory(evicted_by_others=(run,))


def reasons(plan: Plan) -> set[Reason | None]:
    return {group.reason for group in plan.components}


@pytest.mark.parametrize("stateful", [False, True])
def test_a_workload_waits_until_all_its_pods_are_ready(stateful: bool) -> None:
    snapshot = skewed(stateful=stateful)
    known = memory(snapshot.taken_at, Reference("default", "StatefulSet" if stateful else "Deployment", "web"))
    assert planned(snapshot, memory=known).fates.going
    waiting = planned(unready(snapshot), memory=known)
    assert (waiting.fates.going, reasons(waiting)) == ((), {Reason.EVICTED_BY_OTHERS})
    assert {type(one.refusal) for one in waiting.fates.kept} == {EvictedByOthers}
    assert planned(unready(snapshot)).fates.going, "nobody else evicts"


def test_a_pod_that_terminates_is_not_ready() -> None:
    """Its replacement has still to come."""
    snapshot = skewed()
    last = max(snapshot.pods, key=lambda pod: (pod.node or "", pod.name))
    ending = structs.replace(last, deleted=snapshot.taken_at + 30 * SECOND)
    state = replace(snapshot, pods=tuple(ending if pod is last else pod for pod in snapshot.pods))
    assert reasons(planned(state, memory=memory(snapshot.taken_at))) == {Reason.EVICTED_BY_OTHERS}


def test_it_waits_ten_minutes_at_most() -> None:
    """From the first eviction on: the evaluation holds until then."""
    snapshot = unready(skewed())
    for passed, waits in ((LONGEST_WAIT - SECOND, True), (LONGEST_WAIT, False)):
        known = memory(snapshot.taken_at - passed)
        made = planned(snapshot, memory=known)
        assert (bool(made.fates.kept) and not made.fates.going) == waits
    first = memory(snapshot.taken_at)
    assert evaluate(snapshot, policy(), memory=first).valid_until == snapshot.taken_at + LONGEST_WAIT


def test_another_workload_does_not_wait() -> None:
    snapshot = unready(skewed())
    other = memory(snapshot.taken_at, Reference("default", "Deployment", "api"))
    assert planned(snapshot, memory=other).fates.going


def test_only_evictions_of_what_a_constraint_or_limit_concerns_are_stored() -> None:
    snapshot = skewed()
    for workload, kept in ((WEB, True), (Reference("default", "Deployment", "plain"), False)):
        known = memory(snapshot.taken_at, workload)
        made = evaluate(snapshot, policy(), memory=known)
        after = update_memory(known, made.assessment, made.plan, snapshot.taken_at)
        assert after.evicted_by_others == (known.evicted_by_others if kept else ())
