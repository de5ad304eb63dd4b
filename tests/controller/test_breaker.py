"""The breaker in the loop: from cycle to cycle, with the requests of the process and the moves of the controller."""

from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from rebalancer.admission.breaker import NO_REQUESTS, RequestCounts
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, Leading, LoopState
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState
from rebalancer.model.pods import PodPhase
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ZONE
from tests.build import a_cluster, a_state
from tests.controller.simulated import eager, skewed
from tests.reports import rows_of
from tests.tracking.build import move

SNAPSHOT = skewed([[3, 3], [3, 3], [0, 0]], budget=None).snapshot()
"""One that nothing is wrong with: twelve pods in two of three zones, of which four have to move."""
NOW = SNAPSHOT.taken_at


def cycle(
    state: LoopState, snapshot: Snapshot, at: datetime, counted: RequestCounts = NO_REQUESTS
) -> tuple[LoopState, bool]:
    """Run a cycle; return whether it requests an eviction."""
    state, requests = step(state, CycleDue(snapshot=replace(snapshot, taken_at=at), requests=counted), at)
    assert requests
    return state, bool(state.queue.evictions)


def test_it_is_carried_from_cycle_to_cycle() -> None:
    """Nodes fail: nothing is evicted, also not for `clearAfter` after their return; then the repair goes on."""
    nodes = tuple(structs.replace(node, ready=node.name not in {"c-1", "c-2"}) for node in SNAPSHOT.nodes)
    state, evicts = cycle(a_state(eager(), NOW), replace(SNAPSHOT, nodes=nodes), NOW)
    assert not evicts
    assert state.cycle is not None
    assert [known.cause for known in state.cycle.context.breaker.causes] == [
        BreakerCause.UNREADY_NODES,
        BreakerCause.UNREADY_ZONE,
    ]
    opened = rows_of(state, "rebalancer_breaker_open")
    assert opened == {(BreakerCause.UNREADY_NODES,): 1, (BreakerCause.UNREADY_ZONE,): 1}
    state, _ = step(state, Leading(leads=False), NOW)
    state, _ = step(
        a_state(eager(), NOW), Leading(leads=True, memory=state.memory), NOW
    )  # another process, which reads the memory
    state, evicts = cycle(state, SNAPSHOT, NOW + timedelta(seconds=299))
    assert not evicts
    assert state.cycle is not None
    possible = state.cycle.plan.fates.going
    assert {one.reason for one in state.cycle.fates.kept if one.eviction in possible} == {Reason.BREAKER_OPEN}
    state, evicts = cycle(state, SNAPSHOT, NOW + timedelta(seconds=300))
    assert evicts


def test_failed_requests_open_it() -> None:
    state, evicts = cycle(a_state(eager(), NOW), SNAPSHOT, NOW, RequestCounts(total=10, failed=5))
    assert not evicts
    assert state.cycle is not None
    assert [known.cause for known in state.cycle.context.breaker.causes] == [BreakerCause.API_ERRORS]
    _, evicts = cycle(a_state(eager(), NOW), SNAPSHOT, NOW, RequestCounts(total=10, failed=2))
    assert evicts


def test_after_an_outage_evictions_wait_for_clear_after_from_the_first_fresh_view_on() -> None:
    """Five outages in a row open it; the time to clear begins once the watches have caught up, and only once."""
    counted = RequestCounts(total=20, failed=5, outage_ended=timedelta(seconds=20))
    event = CycleDue(snapshot=SNAPSHOT, requests=counted, stale="the watch has failed for 70s")
    state, _ = step(a_state(eager(), NOW), event, NOW)
    for seconds, expected in ((1, False), (299, False), (300, True)):
        late = structs.replace(counted, outage_ended=timedelta(seconds=20 + seconds))
        state, evicts = cycle(state, SNAPSHOT, NOW + timedelta(seconds=seconds), late)
        assert evicts is expected, seconds


def test_a_repair_of_many_pods_does_not_stop_itself() -> None:
    """Six replacements that nobody has seen before wait for a node: they are the moves' own. Other pods are not."""
    gone, staying = SNAPSHOT.pods[:6], SNAPSHOT.pods[6:]
    waiting = tuple(
        structs.replace(
            pod,
            uid=f"{pod.uid}-new",
            name=f"{pod.name}-new",
            node=None,
            ready=False,
            phase=PodPhase.PENDING,
            created=NOW,
        )
        for pod in gone
    )
    snapshot = replace(SNAPSHOT, pods=(*staying, *waiting))
    moves = tuple(
        move(pod.uid, NOW, owner_uid=pod.owner.uid, replicas=12, state=MoveState.EVICTED)
        for pod in gone
        if pod.owner is not None
    )
    for memory, causes in ((Memory(moves=moves), []), (NO_MEMORY, [BreakerCause.PENDING_PODS])):
        state, _ = cycle(replace(a_state(eager(), NOW), memory=memory), snapshot, NOW + timedelta(minutes=1))
        assert state.cycle is not None
        assert [known.cause for known in state.cycle.context.breaker.causes] == causes


def test_pods_that_replace_those_of_a_node_that_is_gone_open_it() -> None:
    """They wait for a type of node that is lost: the loss was observed minutes ago, and nothing else is left of it."""
    blueprint = a_cluster("abc", 2)
    blueprint.node("big", cpu=200_000, zone="d")
    blueprint.deployment("web", on=dict.fromkeys(("a-1", "a-2", "b-1", "b-2", "c-1", "c-2"), 2), spread={ZONE: 1})
    blueprint.deployment("batch", on={"big": 6}, cpu=20_000)
    whole = blueprint.snapshot()
    new = tuple(
        structs.replace(
            pod,
            uid=f"{pod.uid}-new",
            node=None,
            ready=False,
            phase=PodPhase.PENDING,
            created=NOW + timedelta(seconds=2),
        )
        for pod in whole.pods
        if pod.node == "big"
    )
    left = tuple(pod for pod in whole.pods if pod.node != "big")
    nodes = tuple(node for node in whole.nodes if node.name != "big")
    lost = replace(whole, nodes=nodes, pods=(*left, *new))
    for first, causes in ((whole, [BreakerCause.PENDING_PODS]), (replace(whole, nodes=nodes, pods=left), [])):
        state, _ = cycle(a_state(eager(), NOW), first, NOW)
        for seconds in (5, 70):
            state, _ = cycle(state, lost, NOW + timedelta(seconds=seconds))
        assert state.cycle is not None
        assert [known.cause for known in state.cycle.context.breaker.causes] == causes


def test_a_quiet_cluster_whose_pods_have_waited_long_enough_opens_it() -> None:
    """Time alone does it: no object changes, and the assessment of the cycle before still holds."""
    quiet = a_cluster(
        "abc", 2, dict.fromkeys(("a-1", "a-2", "b-1", "b-2", "c-1", "c-2"), 2), spread={ZONE: 1}
    ).snapshot()
    waiting = tuple(
        structs.replace(pod, uid=f"{pod.uid}-new", name=f"{pod.name}-new", owner=None, node=None, created=NOW)
        for pod in quiet.pods[:6]
    )
    quiet, state, assessments = replace(quiet, pods=(*quiet.pods, *waiting)), a_state(eager(), NOW), []
    for seconds, causes in ((3, []), (59, []), (60, [BreakerCause.PENDING_PODS])):
        state, _ = cycle(state, quiet, NOW + timedelta(seconds=seconds))
        assert state.cycle is not None
        assert [known.cause for known in state.cycle.context.breaker.causes] == causes
        assessments.append(state.cycle.assessment)
    assert assessments[2] is assessments[1]
