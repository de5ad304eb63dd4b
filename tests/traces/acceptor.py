"""Whether the simulator allows a trace: it is run with every free choice taken from the trace.

Free are the delays, also those after which the scheduler and the owners' controllers see a change; the order of
events that do not depend on each other; and ties: which of the best nodes the scheduler picks, and which of equal pods
an owner deletes first. Everything else must be what the simulator's own controllers do: each observed change is made by
an action that is due in the simulated cluster, and it makes exactly this change.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from msgspec import structs

from rebalancer.model.moves import Move, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.model.workloads import Workload
from rebalancer.ports import EvictionResult
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.scheduling.place import top_scoring
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.scheduling.view import View
from rebalancer.simulator.disruption import Disruptions
from rebalancer.simulator.event_queue import Action, EventQueue
from rebalancer.simulator.evictions import Evictions
from rebalancer.simulator.kubelets import Kubelets
from rebalancer.simulator.node_changes import NodeChanges
from rebalancer.simulator.owners import ReplicaSets, StatefulSets
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.simulator.scheduler import SimulatedScheduler
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Store
from rebalancer.simulator.timings import Faults, Span, Timings
from tests.traces.changes import Change, Trace, What

_MOST_WAYS = 2_000
_OWNERS = {kind: f"inform {kind}s" for kind in ("StatefulSet", "ReplicaSet")}


class RejectedError(AssertionError):
    """The simulator cannot make the change of this index."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(f"change {index}: {why}")
        self.index = index


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


class Counting(StrEnum):
    """When budgets' status is updated: wherever it matters, nowhere, or at some of these times."""

    PROMPT = "prompt"
    LATE = "late"
    FREE = "free"


class Choices:
    """One way through all choices: the first ones are given, every further one is the first of its options."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self._given = given
        self._taken: list[int] = []
        self._options: list[int] = []

    def pick(self, options: int) -> int:
        """Return which of so many options is taken."""
        depth = len(self._taken)
        self._taken.append(self._given[depth] if depth < len(self._given) else 0)
        self._options.append(options)
        return self._taken[-1]

    def next_way(self) -> tuple[int, ...] | None:
        """Return the way with the last choice taken otherwise, None after the last one."""
        for depth in reversed(range(len(self._taken))):
            if self._taken[depth] + 1 < self._options[depth]:
                return (*self._taken[:depth], self._taken[depth] + 1)
        return None


def accept(trace: Trace) -> None:
    """Follow a trace; raise RejectedError where the simulator does not allow it.

    Every client sees as little as the trace lets it, so that it may still see more later. Where it must see more, it
    may be of one kind of objects or of another: every choice is tried, up to a number of them.
    """
    furthest: RejectedError | None = None
    for counting in Counting:
        way: tuple[int, ...] | None = ()
        for _ in range(_MOST_WAYS):
            if way is None:
                break
            choices = Choices(way)
            try:
                Acceptor(trace, choices, counting).follow()
            except RejectedError as error:
                if furthest is None or error.index > furthest.index:
                    furthest = error
            else:
                return
            way = choices.next_way()
    assert furthest is not None
    raise furthest


class Acceptor:
    """A simulated cluster that follows one trace."""

    def __init__(self, trace: Trace, choices: Choices, counting: Counting) -> None:
        self._trace = trace
        self._counting = counting
        self._choices = choices
        self._queue = FreeQueue(trace.before.taken_at)
        store = Store(trace.before)
        lagging = Timings(informing=Span(0.0, 1.0), binding=Span(0.0, 1.0))
        self._state = ClusterState(store=store, event_queue=self._queue, random=Random(0), timings=lagging)
        factory = PodFactory(self._state, trace.before)
        SimulatedScheduler(self._state, DEFAULT_PROFILE, self._choose)
        Kubelets(self._state)
        self._replica_sets = ReplicaSets(self._state, factory)
        StatefulSets(self._state, factory)
        Disruptions(self._state)
        self._evictions = Evictions(self._state, Faults())
        self._nodes = NodeChanges(self._state)
        self._real = {pod.uid: pod.uid for pod in store.pods}
        """The simulated pod of each real one."""
        self._unseen: list[str] = []
        """Simulated pods that were created and not observed yet."""
        self._unseen_deletions: set[str] = set()
        """Simulated pods that their owner has deleted, which was not observed yet."""
        self._bound_to = {change.uid: change.detail for change in trace.changes if change.what is What.BOUND}
        """The node of each real pod that is bound in the trace."""
        self._wanted = ""
        """The simulated pod that is to be placed now."""
        self._index = 0
        """Of the change that is made now."""
        self._deleting: dict[str, tuple[list[Pod], int, int]] = {}
        """For each ReplicaSet the pods among which it chose last, how many of them, and how many are left to delete."""

    def follow(self) -> None:
        """Follow the trace to its end; raise RejectedError at the first change that the simulator cannot make."""
        for index, change in enumerate(self._trace.changes):
            self._index = index
            if change.at is not None:
                self._queue.now = max(self._queue.now, change.at)
            self._count_budgets(index)
            if not self._make(change):
                raise RejectedError(index, f"{change.what} {change.uid} {change.detail}: no action makes it")
        self._settle()

    def _count_budgets(self, index: int) -> None:
        """Update the status of budgets, or do not, right before an eviction and right after a pod began to terminate.

        In between it makes no difference to any change of the trace.
        """
        changes, evicted = self._trace.changes, self._trace.evicted
        matters = changes[index].uid in evicted or (index and changes[index - 1].what is What.TERMINATING)
        due = [key for key in self._queue.pending if key.startswith("budget ")]
        asks = any(change.what is What.TERMINATING and change.uid in evicted for change in changes[index:])
        if not (matters and due and asks) or self._counting is Counting.LATE:
            return
        if self._counting is Counting.PROMPT or self._choices.pick(2):
            for key in due:
                self._run(key)

    def _settle(self) -> None:
        """Let everybody see everything, and do what is left to do: that must be nothing."""
        self._index = end = len(self._trace.changes)
        while self._inform(("inform",)):
            pass
        for owner in list(self._state.store.workloads):
            if owner.kind in {"ReplicaSet", "ReplicationController"} and len(self._active(owner.uid)) > owner.replicas:
                raise RejectedError(end, f"{owner.name} has more pods than replicas")
            self._run(f"owner {owner.uid}")
        if self._unseen:
            raise RejectedError(end, f"{len(self._unseen)} pods were never created")
        if self._unseen_deletions:
            raise RejectedError(end, f"{len(self._unseen_deletions)} pods were never deleted")

    def _active(self, owner: str) -> list[Pod]:
        """Return the pods of a ReplicaSet that its controller counts, as far as it has seen them."""
        return [pod for pod in self._replica_sets.pods.of(owner) if not pod.terminating]

    def _inform(self, streams: tuple[str, ...]) -> bool:
        """Let a client see its next change in one of these streams; False if it has seen all."""
        waiting = sorted(key for key in self._queue.pending if key.startswith(streams))
        if not waiting:
            return False
        return self._queue.run_now(waiting[self._choices.pick(len(waiting))])

    def _may_see_more(self, kind: str) -> bool:
        """Return whether an owner's controller sees more before it acts: a free choice where there is more to see."""
        return any(key.startswith(_OWNERS[kind]) for key in self._queue.pending) and bool(self._choices.pick(2))

    def _until(self, made: Callable[[], bool], streams: tuple[str, ...]) -> bool:
        """Try to make a change; let its client see one change more each time that it cannot."""
        while not made():
            if not self._inform(streams):
                return False
        return True

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
        """Run an action that is due; note the pods that it creates and deletes."""
        before = {pod.uid: pod.terminating for pod in self._state.store.pods}
        ran = self._queue.run_now(key)
        after = {pod.uid: pod.terminating for pod in self._state.store.pods}
        self._unseen += [uid for uid in after if uid not in before]
        self._unseen_deletions |= {uid for uid, was in before.items() if not was and after.get(uid, True)}
        self._check_unseen()
        return ran

    def _check_unseen(self) -> None:
        """Give up as soon as more was done than the rest of the trace shows."""
        rest = Counter(change.what for change in self._trace.changes[self._index :])
        names = {change.detail for change in self._trace.changes[self._index :] if change.what is What.CREATED}
        created = [pod for uid in self._unseen if (pod := self._state.store.pods.get(uid)) is not None]
        numbered = [pod for pod in created if pod.owner is not None and pod.owner.kind == "StatefulSet"]
        if len(self._unseen) > rest[What.CREATED] or any(pod.name not in names for pod in numbered):
            raise RejectedError(self._index, f"{len(self._unseen)} pods are never created")
        if len(self._unseen_deletions) > rest[What.TERMINATING] + rest[What.GONE]:
            raise RejectedError(self._index, f"{len(self._unseen_deletions)} pods are never deleted")

    def _pod(self, real: str) -> Pod | None:
        return self._state.store.pods.get(self._real.get(real, ""))

    # One function for each kind of change

    def _created(self, change: Change) -> bool:
        owner = self._state.store.workloads.get(change.owner)
        if owner is None:
            return False

        def made() -> bool:
            if self._match(change):
                return True
            seen = self._replica_sets.workloads.get(owner.uid)
            too_few = seen is not None and len(self._active(owner.uid)) < seen.replicas
            if self._may_see_more(owner.kind):
                return False
            return (owner.kind == "StatefulSet" or too_few) and self._run(f"owner {owner.uid}") and self._match(change)

        return self._until(made, (_OWNERS[owner.kind],))

    def _match(self, change: Change) -> bool:
        """Find the simulated pod of a new one."""
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
        """Return the node of the trace if it is among the best.

        Another pod than the wanted one may be placed before it and bound after it, or not be placed now.
        """
        node = next((self._bound_to.get(real) for real, uid in self._real.items() if uid == pod.uid), None)
        if node not in top_scoring(pod, view, nodes):
            return ()
        return (node,) if pod.uid == self._wanted or self._choices.pick(2) else ()

    def _bound(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None or pod.node is not None:
            return False
        self._wanted = pod.uid
        while self._queue.run_now("inform queue"):
            pass

        def made() -> bool:
            waiting = sum(other.node is None for other in self._state.store.pods)
            for _ in range(2 * waiting):
                if self._run(f"bind {pod.uid}"):
                    return True
                for key in [key for key in self._queue.pending if key.startswith("back-off ")]:
                    self._run(key)
                self._run("scheduler")
            return self._run(f"bind {pod.uid}")

        return self._until(made, ("inform scheduler",))

    def _ready(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        return pod is not None and self._run(f"start {pod.uid}") and self._is_ready(pod.uid)

    def _is_ready(self, uid: str) -> bool:
        pod = self._state.store.pods.get(uid)
        return pod is not None and pod.ready

    def _terminating(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None:
            return False
        if pod.terminating:
            seen = pod.uid in self._unseen_deletions
            self._unseen_deletions.discard(pod.uid)
            return seen
        if change.uid in self._trace.evicted and self._evicted(pod):
            return True
        if change.uid in self._trace.deleted:
            self._state.delete(pod)
            return True
        return self._deleted_by_owner(pod, change.at or self._queue.now)

    def _evicted(self, pod: Pod) -> bool:
        """Evict a pod."""
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
        return self._evictions.evict(move).result is EvictionResult.EVICTED

    def _deleted_by_owner(self, pod: Pod, at: datetime) -> bool:
        owner = self._state.store.workloads.get(pod.owner.uid) if pod.owner is not None else None
        if owner is None:
            return False
        if owner.kind == "StatefulSet":
            return self._until(lambda: self._deleted_by_stateful_set(pod, owner), (_OWNERS[owner.kind],))
        return self._until(lambda: self._deleted_by_replica_set(pod, owner.uid, at), (_OWNERS["ReplicaSet"],))

    def _deleted_by_stateful_set(self, pod: Pod, owner: Workload) -> bool:
        if pod.uid not in self._unseen_deletions and not self._may_see_more(owner.kind):
            self._run(f"owner {owner.uid}")
        if pod.uid not in self._unseen_deletions:
            return False
        self._unseen_deletions.remove(pod.uid)
        return True

    def _deleted_by_replica_set(self, pod: Pod, uid: str, at: datetime) -> bool:
        owner = self._replica_sets.workloads.get(uid)
        assert owner is not None
        among, many, left = self._deleting.get(uid, ([], 0, 0))
        if not left or not self._is_among_first(pod, among, many, owner, at):
            among = self._active(uid)
            many = left = len(among) - owner.replicas
            if self._replica_sets.expected.get(uid) or many <= 0:
                return False
            if not self._is_among_first(pod, among, many, owner, at):
                return False
        self._deleting[uid] = among, many, left - 1
        self._replica_sets.expected.setdefault(uid, set()).add(pod.uid)
        self._state.delete(pod)
        return True

    def _is_among_first(self, pod: Pod, among: list[Pod], many: int, owner: Workload, at: datetime) -> bool:
        """Say whether a ReplicaSet that deletes so many pods may delete this one.

        Of equal pods the lowest UID goes; and a time in whole seconds says little about ages of a few.
        """
        seen = next((other for other in among if other.uid == pod.uid), None)
        if seen is None:
            return False
        first = structs.replace(seen, uid="")
        others = [other for other in among if other.uid != pod.uid]
        crowds = Counter(other.node for other in among if owner.owner is not None)
        moments = [at + timedelta(seconds=quarters / 4) for quarters in range(-4, 9)]
        return any(first in sort_for_deletion([*others, first], crowds, moment)[:many] for moment in moments)

    def _gone(self, change: Change) -> bool:
        pod = self._pod(change.uid)
        if pod is None:
            # One without a node is removed at once when its owner deletes it.
            self._unseen_deletions.discard(self._real.get(change.uid, ""))
            return change.uid in self._real
        if pod.node is None:
            if change.uid not in self._trace.deleted:
                return self._deleted_by_owner(pod, self._queue.now)
            self._state.delete(pod)
            return True
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
