"""Others' evictions: which they are, how long a run of them lasts, and what is stored of it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.model.moves import NO_MEMORY, Drain, Memory, Move, MoveState, OthersEvictions, Reference
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ZONE
from rebalancer.tracking.evicted import RUN_END, SeenEviction, evictions_in, find_evicted, note_evictions
from tests.build import a_cluster
from tests.planning.clusters import nodes
from tests.scheduling.build import taint
from tests.tracking.build import move

SHOP = a_cluster("ab", 1, {"a-1": 3, "b-1": 2}, spread={ZONE: 1}).snapshot()
NOW = SHOP.taken_at
WEB = Reference("default", "Deployment", "web")
POD = min((pod for pod in SHOP.pods if pod.node == "a-1"), key=lambda pod: pod.name)
OTHER = max((pod for pod in SHOP.pods if pod.node == "a-1"), key=lambda pod: pod.name)
MINUTE = timedelta(minutes=1)


def evicted(pod: Pod = POD, **fields: object) -> Pod:
    """Return a pod whose eviction was granted."""
    return structs.replace(pod, **{"evicted_at": NOW, "deleted": NOW + timedelta(seconds=30), **fields})


def noted(*pods: Pod, memory: Memory = NO_MEMORY, after: timedelta = timedelta(0), snapshot: Snapshot = SHOP) -> Memory:
    """Return the memory after pods were seen to be evicted, so long after the first look."""
    at = NOW + after
    return note_evictions(memory, [SeenEviction(pod, at) for pod in pods], replace(snapshot, taken_at=at), at)


def only(memory: Memory) -> OthersEvictions:
    (run,) = memory.evicted_by_others
    return run


class TestWhichChangesAreEvictions:
    def test_a_pod_that_begins_to_end_with_the_condition_is_evicted(self) -> None:
        assert find_evicted(POD, evicted()) == evicted()

    def test_a_pod_without_a_grace_period_is_gone_at_once(self) -> None:
        marked = structs.replace(POD, evicted_at=NOW)
        assert find_evicted(POD, marked) is None
        assert find_evicted(marked, None) == marked

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (POD, structs.replace(evicted(), evicted_at=None)),  # deleted by hand, preempted
            (POD, None),
            (evicted(), structs.replace(evicted(), ready=False)),  # it was noted when it began to end
            (evicted(), None),
            (structs.replace(POD, deleted=NOW), evicted()),  # deleted by hand before
            (POD, evicted(phase=PodPhase.FAILED)),  # nothing of it runs
            (None, evicted()),  # nothing says when it began to end
            (SHOP.nodes[0], None),
        ],
    )
    def test_nothing_else_is(self, before: object, after: object) -> None:
        assert find_evicted(before, after) is None


class TestWhoseTheyAre:
    def test_a_pod_without_a_move_was_evicted_by_others(self) -> None:
        expected = OthersEvictions(workload=WEB, since=NOW, last=NOW, number=1, pods=(POD.name,), elsewhere=True)
        assert only(noted(evicted())) == expected

    @pytest.mark.parametrize("state", [state for state in MoveState if state is not MoveState.REFUSED])
    def test_a_pod_with_a_move_was_not(self, state: MoveState) -> None:
        """Whatever has become of it: without an answer, of an earlier leader, ended while its pod still terminates."""
        for own in (move(POD.uid, NOW, state=state), move(POD.uid, NOW, state=state, unexecuted=True)):
            assert noted(evicted(), memory=Memory(moves=(own,))).evicted_by_others == ()

    def test_one_that_was_refused_is_evicted_by_others_afterwards(self) -> None:
        """Unless whoever refused it may still carry it out, as KubeVirt does."""
        refused = move(POD.uid, NOW, state=MoveState.REFUSED)
        assert only(noted(evicted(), memory=Memory(moves=(refused,)))).number == 1
        deferred: Move = structs.replace(refused, deferred_until=NOW + MINUTE)
        assert noted(evicted(), memory=Memory(moves=(deferred,))).evicted_by_others == ()

    def test_pods_that_no_known_workload_owns_are_not_of_interest(self) -> None:
        assert noted(evicted(owner=None)).evicted_by_others == ()


class TestRuns:
    def test_evictions_one_soon_after_the_other_are_one_run(self) -> None:
        """However long it lasts: the wait for it counts from its first eviction."""
        memory = noted(evicted())
        for number in range(1, 5):
            memory = noted(evicted(OTHER), memory=memory, after=number * (RUN_END - MINUTE))
        run = only(memory)
        assert (run.since, run.last, run.number) == (NOW, NOW + 4 * (RUN_END - MINUTE), 5)
        assert run.pods == (OTHER.name,) * 3

    def test_a_run_ends_when_none_was_seen_for_long(self) -> None:
        before, after = RUN_END - timedelta(seconds=1), RUN_END
        assert only(noted(memory=noted(evicted()), after=before)).since == NOW
        assert noted(memory=noted(evicted()), after=after).evicted_by_others == ()
        assert only(noted(evicted(OTHER), memory=noted(evicted()), after=after)).since == NOW + after

    def test_the_workload_that_lost_a_pod_last_is_the_last(self) -> None:
        two = a_cluster("ab", 1, {"a-1": 1}, spread={ZONE: 1})
        two.deployment("api", on={"b-1": 1}, spread={ZONE: 1})
        snapshot = two.snapshot()
        api, web = sorted(snapshot.pods, key=lambda pod: pod.name)
        memory = noted(evicted(web), snapshot=snapshot)
        memory = noted(evicted(api), memory=memory, after=MINUTE, snapshot=snapshot)
        assert [run.workload.name for run in memory.evicted_by_others] == ["web", "api"]
        memory = noted(evicted(web), memory=memory, after=2 * MINUTE, snapshot=snapshot)
        assert [run.workload.name for run in memory.evicted_by_others] == ["api", "web"]

    def test_a_clock_that_is_set_back_makes_no_wait_longer(self) -> None:
        memory = noted(evicted(), after=60 * MINUTE)
        assert (only(noted(memory=memory)).since, only(noted(memory=memory)).last) == (NOW, NOW)


class TestDrains:
    def test_a_cordoned_node_is_being_drained_by_who_has_cordoned_it(self) -> None:
        drained = nodes(SHOP, lambda node: structs.replace(node, unschedulable=True, cordoned_by="kubectl-drain"))
        run = only(noted(evicted(), snapshot=drained))
        assert (run.drains, run.elsewhere) == ((Drain("a-1", "kubectl-drain"),), False)
        assert "node a-1 is being drained by kubectl-drain" in str(run)
        assert "audit log" not in str(run)

    def test_a_node_that_an_autoscaler_removes_is_drained_by_it(self) -> None:
        removed = nodes(SHOP, lambda node: structs.replace(node, taints=(taint("karpenter.sh/disrupted"),)))
        assert only(noted(evicted(), snapshot=removed)).drains == (Drain("a-1", "an autoscaler"),)

    def test_pods_of_other_nodes_are_evicted_by_somebody_else(self) -> None:
        drained = nodes(SHOP, lambda node: structs.replace(node, unschedulable=node.name == "b-1"))
        (on_b, *_) = (pod for pod in SHOP.pods if pod.node == "b-1")
        run = only(noted(evicted(on_b), evicted(), snapshot=drained))
        assert (run.drains, run.elsewhere) == ((Drain("b-1"),), True)
        assert "node b-1 is being drained; only the API server's audit log" in str(run)


class TestFiles:
    def test_a_snapshot_shows_the_evicted_pods_that_still_terminate(self) -> None:
        """Those of the last run; it does not say whether they are the rebalancer's own."""
        old = evicted(OTHER, evicted_at=NOW - MINUTE - RUN_END)
        fields = {POD.uid: evicted(evicted_at=NOW - MINUTE), OTHER.uid: old}
        (run,) = evictions_in(replace(SHOP, pods=tuple(fields.get(pod.uid, pod) for pod in SHOP.pods)))
        assert (run.pods, run.since, run.perhaps_own) == ((POD.name,), NOW - MINUTE, True)
        assert "by others, or by a rebalancer in this cluster" in str(run)

    def test_a_pod_that_was_marked_and_stays_was_not_evicted(self) -> None:
        """Its deletion was refused: a controller takes the condition back after two minutes."""
        marked = tuple(structs.replace(pod, evicted_at=NOW) for pod in SHOP.pods)
        finished = tuple(evicted(pod, phase=PodPhase.SUCCEEDED) for pod in SHOP.pods)
        assert evictions_in(replace(SHOP, pods=(*marked, *finished))) == ()
