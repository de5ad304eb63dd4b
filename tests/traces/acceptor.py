"""Whether the simulator allows a trace: it is run with every free choice taken from the trace.

Free are the delays, the order of events that do not depend on each other, and ties: which of the best nodes the
scheduler picks, and which of equal pods an owner deletes first. Everything else must be what the simulator's own
controllers do: each observed change is made by an action that is due in the simulated cluster, and it makes exactly
this change.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import combinations
from random import Random

from msgspec import structs

from rebalancer.adapters.simulator.disruption import Disruptions
from rebalancer.adapters.simulator.event_queue import Action, EventQueue
from rebalancer.adapters.simulator.evictions import Evictions
from rebalancer.adapters.simulator.kubelets import Kubelets
from rebalancer.adapters.simulator.node_changes import NodeChanges
from rebalancer.adapters.simulator.pod_factory import PodFactory
from rebalancer.adapters.simulator.replica_sets import ReplicaSets
from rebalancer.adapters.simulator.scheduler import SimulatedScheduler
from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.adapters.simulator.stateful_sets import StatefulSets
from rebalancer.adapters.simulator.store import Store
from rebalancer.adapters.simulator.timings import Faults, Timings
from rebalancer.model.moves import Move, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.ports import EvictionResult
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.scheduling.place import candidate_nodes, top_scoring
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.scheduling.view import View
from tests.traces.changes import Change, Trace, What


class RejectedError(AssertionError):
    """The simulator cannot make a change; the message has its index."""


class FreeQueue(EventQueue):
    """Actions without an order: whoever follows a trace says which is next."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self.pending: dict[str, Action] = {}

    def after(self, seconds: float, action: Action, *, key: str = "") -> None:
        """Note the action; one of each key."""
        del seconds
        self.pending.setdefault(key, action)

    def run_now(self, key: str) -> bool:
        """Run the action of a key; False if none is due."""
        action = self.pending.pop(key, None)
        if action is not None:
            action()
        return action is not None


def accept(trace: Trace) -> None:
    """Follow a trace; raise RejectedError where the simulator does not allow it.

    An owner's controller may not have seen yet what somebody else has just done: before each such change its work may
    be done or not, and every choice is tried.
    """
    by_others = [index for index, change in enumerate(trace.changes) if _is_by_others(change, trace)]
    first: RejectedError | None = None
    for many in range(len(by_others) + 1):
        for early in combinations(by_others, many):
            try:
                Acceptor(trace, frozenset(early)).follow()
            except RejectedError as error:
                first = first or error
            else:
                return
    assert first is not None
    raise first


def _is_by_others(change: Change, trace: Trace) -> bool:
    requested = change.uid in trace.evicted or change.uid in trace.deleted
    return change.what is What.SCALED or (change.what is What.TERMINATING and requested)


class Acceptor:
    """A simulated cluster that follows one trace; before the changes `early`, owners do what is due."""

    def __init__(self, trace: Trace, early: frozenset[int]) -> None:
        self._trace = trace
        self._early = early
        self._queue = FreeQueue(trace.before.taken_at)
        store = Store(trace.before)
        random = Random(0)
        self._state = ClusterState(store=store, event_queue=self._queue, random=random, timings=Timings())
        factory = PodFactory(self._state, trace.before)
        SimulatedScheduler(self._state, DEFAULT_PROFILE, self._choose)
        Kubelets(self._state)
        ReplicaSets(self._state, factory)
        StatefulSets(self._state, factory, ())
        Disruptions(self._state)
        self._evictions = Evictions(self._state, Faults())
        self._nodes = NodeChanges(self._state)
        self._real = {pod.uid: pod.uid for pod in store.pods}
        """The simulated pod of each real one."""
        self._unseen: list[str] = []
        """Simulated pods that were created and not observed yet."""
        self._possible: dict[str, set[str]] = {}
        """For each simulated pod the best nodes of every state since it was created: the scheduler may lag behind."""
        self._wanted: tuple[str, str] = ("", "")
        self._deleting: dict[str, tuple[list[Pod], int]] = {}
        """For each ReplicaSet the pods among which it chose last, and how many it still deletes of them."""

    def follow(self) -> None:
        """Follow the trace to its end; raise RejectedError at the first change that the simulator cannot make."""
        for index, change in enumerate(self._trace.changes):
            if change.at is not None:
                self._queue.now = max(self._queue.now, change.at)
            if index in self._early:
                self._reconcile()
            if not self._make(change):
                raise RejectedError(f"change {index}, {change.what} {change.uid} {change.detail}: no action makes it")
            self._note_best()
        self._reconcile()
        if self._unseen:
            raise RejectedError(f"change {len(self._trace.changes)}: {len(self._unseen)} pods were never created")

    def _reconcile(self) -> None:
        """Run what owners have to do; which of too many pods a ReplicaSet deletes, the trace says."""
        for owner in list(self._state.store.workloads):
            if owner.kind == "StatefulSet" or len(self._active(owner.uid)) <= owner.replicas:
                self._run(f"owner {owner.uid}")

    def _active(self, owner: str) -> list[Pod]:
        return [pod for pod in self._state.store.pods.of(owner) if not pod.terminating]

    def _make(self, change: Change) -> bool:
        makers: dict[What, Callable[[Change], bool]] = {
            What.CREATED: self._created,
            What.BOUND: self._bound,
            What.READY: self._ready,
            What.TERMINATING: self._terminating,
            What.GONE: self._gone,
            What.SCALED: self._scaled,
            What.CORDONED: self._cordoned,
        }
        return makers[change.what](change)

    def _run(self, key: str) -> bool:
        """Run an action that is due; note the pods that it creates."""
        before = {pod.uid for pod in self._state.store.pods}
        ran = self._queue.run_now(key)
        self._unseen += [pod.uid for pod in self._state.store.pods if pod.uid not in before]
        return ran

    def _pod(self, real: str) -> Pod | None:
        return self._state.store.pods.get(self._real.get(real, ""))

    # One function for each kind of change

    def _created(self, change: Change) -> bool:
        for ran in (False, True):
            if ran and not self._run(f"owner {change.owner}"):
                return False
            for uid in self._unseen:
                pod = self._state.store.pods.get(uid)
                if pod is not None and pod.owner is not None and pod.owner.uid == change.owner:
                    if pod.owner.kind == "StatefulSet" and pod.name != change.detail:
                        continue
                    self._unseen.remove(uid)
                    self._real[change.uid] = uid
                    return True
        return False

    def _choose(self, pod: Pod, view: View, nodes: frozenset[str]) -> tuple[str, ...]:
        """Return the node of the trace if it is among the best."""
        uid, node = self._wanted
        possible = top_scoring(pod, view, nodes) | self._possible.get(pod.uid, set())
        return (node,) if pod.uid == uid and node in nodes and node in possible else ()

    def _note_best(self) -> None:
        waiting = [pod for pod in self._state.store.pods if pod.node is None]
        if waiting:
            view = View(self._state.store.snapshot(self._queue.now), DEFAULT_PROFILE)
            for pod in waiting:
                best = candidate_nodes(pod, view, top_scoring).chosen
                self._possible.setdefault(pod.uid, set()).update(best)

    def _bound(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None or pod.node is not None:
            return False
        self._wanted = pod.uid, change.detail
        waiting = sum(other.node is None for other in self._state.store.pods)
        for _ in range(2 * waiting):
            for key in [key for key in self._queue.pending if key.startswith("back-off ")]:
                self._run(key)
            self._run("scheduler")
            placed = self._state.store.pods.get(pod.uid)
            if placed is not None and placed.node is not None:
                return placed.node == change.detail
        return False

    def _ready(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        return pod is not None and self._run(f"start {pod.uid}") and self._is_ready(pod.uid)

    def _is_ready(self, uid: str) -> bool:
        pod = self._state.store.pods.get(uid)
        return pod is not None and pod.ready

    def _terminating(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None or pod.terminating:
            return False
        if change.uid in self._trace.evicted and self._evicted(pod):
            return True
        if change.uid in self._trace.deleted:
            self._state.delete(pod)
            return True
        return self._deleted_by_owner(pod, change.at or self._queue.now)

    def _evicted(self, pod: Pod) -> bool:
        """Evict a pod; a budget's status may have been updated before."""
        move = Move(
            uid=pod.uid,
            namespace=pod.namespace,
            pod=pod.name,
            node=pod.node or "",
            workload=Reference(pod.namespace, "", ""),
            owner_uid="",
            cause=Cause.SKEW_VIOLATED,
            requested_at=self._queue.now,
            changed_at=self._queue.now,
        )
        answer = self._evictions.evict(move)
        if answer.result is EvictionResult.BUDGET:
            for key in [key for key in self._queue.pending if key.startswith("budget ")]:
                self._run(key)
            answer = self._evictions.evict(move)
        return answer.result is EvictionResult.EVICTED

    def _deleted_by_owner(self, pod: Pod, at: datetime) -> bool:
        owner = self._state.store.workloads.get(pod.owner.uid) if pod.owner is not None else None
        if owner is None or f"owner {owner.uid}" not in self._queue.pending:
            return False
        if owner.kind == "StatefulSet":
            self._run(f"owner {owner.uid}")
            after = self._state.store.pods.get(pod.uid)
            return after is None or after.terminating
        now_active = self._active(owner.uid)
        if len(now_active) <= owner.replicas:
            return False
        among, left = self._deleting.get(owner.uid, ([], 0))
        if not left:
            among, left = now_active, len(now_active) - owner.replicas
        # Of equal pods the lowest UID goes; and a time in whole seconds says little about ages of a few.
        first = structs.replace(pod, uid="")
        others = [other for other in among if other.uid != pod.uid]
        crowds = Counter(other.node for other in among if owner.owner is not None)
        moments = [at + timedelta(seconds=quarters / 4) for quarters in range(-4, 9)]
        chosen = len(among) - owner.replicas
        if all(first not in sort_for_deletion([*others, first], crowds, moment)[:chosen] for moment in moments):
            return False
        self._deleting[owner.uid] = among, left - 1
        self._state.delete(pod)
        return True

    def _gone(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None:
            # One without a node is removed at once when its owner deletes it.
            return self._real.get(change.uid) is not None
        if pod.node is None:
            return self._deleted_by_owner(pod, self._queue.now)
        return self._run(f"stop {pod.uid}") and self._state.store.pods.get(pod.uid) is None

    def _scaled(self, change: Change) -> bool:
        """Take the operator's number; a Deployment's is written to its ReplicaSet by its controller."""
        workloads = self._state.store.workloads
        owner = workloads.get(change.uid)
        if owner is None:
            return False
        workloads.put(structs.replace(owner, replicas=int(change.detail), observed=False))
        above = workloads.get(owner.owner.uid) if owner.owner is not None else None
        if above is not None:
            workloads.put(structs.replace(above, replicas=int(change.detail)))
        return True

    def _cordoned(self, change: Change) -> bool:
        self._nodes.cordon(change.detail)
        return True
