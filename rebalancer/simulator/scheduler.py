"""The scheduler: a queue of pending pods; each pod is bound to a feasible node, or backs off if there is none.

Filters and scores come from `rebalancer.scheduling`. This module has only the queue with its times, and the cache: the
view by which pods are placed, updated after changes instead of rebuilt for every pod. A pod that no node admits
preempts other pods as the model says (`rebalancer.scheduling.preemption`); the seed picks one of several outcomes. If
not all outcomes are known, it preempts no pod.

Source: `pkg/scheduler/backend/queue/scheduling_queue.go`.
"""

from heapq import heappop, heappush
from random import Random

from msgspec import structs

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.scheduling.place import Choose, candidate_nodes
from rebalancer.scheduling.preemption import find_preemptions, has_lower_pods
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.rejections import map_verdicts, reject_nodes
from rebalancer.scheduling.scoring import best
from rebalancer.scheduling.view import View
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import PodTable, Table
from rebalancer.simulator.trace import TraceKind
from rebalancer.simulator.watch import follow

_MOST_CHANGES = 64
"""After this many changes a new view is cheaper than a view with changes, which every query applies again."""

LONGEST_BACK_OFF = 10.0
"""The longest back-off in seconds; it starts at one second and doubles with each attempt (podMaxBackoffSeconds)."""


class SchedulerCache:
    """A view of what the scheduler has seen, and of the pods that it has bound, but has not yet seen bound."""

    def __init__(self, state: ClusterState, profile: Profile) -> None:
        self._state = state
        self._profile = profile
        self._pods = follow(state, state.store.pods, "scheduler pods")
        self._nodes = follow(state, state.store.nodes, "scheduler nodes")
        self._assumed: dict[str, Pod] = {}
        self._view: View | None = None
        self._changes = 0
        self._pods.listeners.append(self._pod_changed)
        self._nodes.listeners.append(self._node_changed)

    @property
    def pods(self) -> PodTable:
        """The pods that the scheduler has seen; listeners are called after the view has changed."""
        return self._pods

    @property
    def nodes(self) -> Table[Node]:
        """The nodes that the scheduler has seen."""
        return self._nodes

    @property
    def view(self) -> View:
        """The view by which the scheduler decides."""
        if self._view is None:
            now = self._state.event_queue.now
            pods = [self._assumed.get(pod.uid, pod) for pod in self._pods]
            seen = {pod.uid for pod in pods}
            pods += [pod for pod in self._assumed.values() if pod.uid not in seen]
            self._view = View(self._state.store.snapshot(now, pods=pods, nodes=self._nodes), self._profile)
            self._changes = 0
        return self._view

    def assume(self, before: Pod, bound: Pod) -> None:
        """Count a pod on its node before its binding has been seen."""
        self._assumed[bound.uid] = bound
        self._follow(before, bound)

    def nominate(self, nominated: Pod) -> None:
        """Reserve a pod's place on the node for which it is nominated, before that nomination has been seen."""
        self._assumed[nominated.uid] = nominated
        self._view = None

    def latest(self, pod: Pod) -> Pod:
        """Return a pod with the changes that the scheduler itself has written."""
        return self._assumed.get(pod.uid, pod)

    def _node_changed(self, _: Node | None, __: Node | None) -> None:
        """Discard the view, because any cached result may depend on the node."""
        self._view = None

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if pod.uid not in self._assumed:
            self._follow(before, after)
        elif after is None or after.node is not None:
            bound = self._assumed.pop(pod.uid)
            if bound.node is None:
                self._view = None  # the place that its nomination reserved is free
            self._follow(bound, after)

    def _follow(self, before: Pod | None, after: Pod | None) -> None:
        """Apply the change to the view if a pod was bound, deleted or removed; other changes do not affect the view."""
        if self._view is None:
            return
        if after is None:
            if before is not None:
                self._step(self._view.without([before]))
        elif before is not None and after.node is not None and after.node in self._view.nodes.by_name:
            if after.node != before.node:
                self._step(self._view.with_placed(after, after.node))
            elif after.deleted != before.deleted:
                self._step(self._view.terminating([after]))

    def _step(self, view: View) -> None:
        self._changes += 1
        self._view = view if self._changes < _MOST_CHANGES else None


def pick_random_best(random: Random) -> Choose:
    """Return a random one of the top-scoring nodes, as the real scheduler does."""

    def choose(pod: Pod, view: View, nodes: frozenset[str]) -> tuple[str]:
        return (random.choice(sorted(best(pod, view, nodes))),)

    return choose


def pick_most_crowded(pod: Pod, view: View, nodes: frozenset[str]) -> tuple[str]:
    """Return an adversary's choice: the feasible node with the most pods of the pod's owner.

    A property that is true with this choice is true with many other scores, too.
    """

    def crowd(node: str) -> int:
        return sum(other.owner == pod.owner and not other.terminating for other in view.pods_on(node))

    return (max(sorted(nodes), key=crowd),)


class SimulatedScheduler:
    """A scheduler with one profile; it ignores pods that name another scheduler or have scheduling gates."""

    def __init__(self, state: ClusterState, profile: Profile, choose: Choose) -> None:
        self._state = state
        self._name = profile.name
        self._choose = choose
        self._cache = SchedulerCache(state, profile)
        self._active: list[tuple[int, int, str]] = []
        self._queued = 0
        self._attempts: dict[str, int] = {}
        self._parked: dict[str, int] = {}
        self._backing_off: set[str] = set()
        self._missed: set[str] = set()
        # The queue of pods and the cache are handlers of their own: neither waits for the other.
        self._queue = follow(state, state.store.pods, "queue")
        self._queue.listeners.append(self._queue_changed)
        self._cache.pods.listeners.append(self._pod_changed)
        self._cache.nodes.listeners.append(self._node_changed)
        for pod in sorted(state.store.pods, key=lambda pod: (pod.created, pod.namespace, pod.name)):
            self._queue_changed(None, pod)

    def _queue_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            self._forget(before)
        elif before is None and self._is_mine(after):
            self._activate(after, self._number())

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or after.node != before.node or after.deleted != before.deleted):
            self._try_again()

    def _node_changed(self, _: Node | None, __: Node | None) -> None:
        self._try_again()

    def _is_mine(self, pod: Pod) -> bool:
        return pod.waiting and not pod.spec.gated and pod.spec.scheduler == self._name

    def _forget(self, gone: Pod | None) -> None:
        if gone is not None:
            self._attempts.pop(gone.uid, None)
            self._parked.pop(gone.uid, None)
            self._backing_off.discard(gone.uid)
            self._missed.discard(gone.uid)

    def _number(self) -> int:
        """Return the next number in the queue; an unschedulable pod gets a new number when it is parked."""
        self._queued += 1
        return self._queued

    def _activate(self, pod: Pod, number: int) -> None:
        heappush(self._active, (-pod.spec.priority, number, pod.uid))
        self._state.event_queue.after(self._state.timings.placing, self._attempt, key="scheduler")

    def _try_again(self) -> None:
        """Queue the unschedulable pods again after a change.

        A pod in back-off is queued when its back-off is over.
        """
        for uid in list(self._parked):
            if uid in self._backing_off:
                self._missed.add(uid)
            else:
                self._unpark(uid)

    def _unpark(self, uid: str) -> None:
        number = self._parked.pop(uid)
        self._missed.discard(uid)
        pod = self._queue.get(uid)
        if pod is not None:
            self._activate(pod, number)

    def _back_off_over(self, uid: str) -> None:
        self._backing_off.discard(uid)
        if uid in self._missed:
            self._unpark(uid)

    def _attempt(self) -> None:
        """Place the pod at the head of the queue; if no node admits it, try to preempt others, and park it."""
        _, _, uid = heappop(self._active)
        pod = self._queue.get(uid)
        if pod is not None and pod.waiting:
            pod = self._cache.latest(pod)
            nodes = candidate_nodes(pod, self._cache.view, self._choose).chosen
            if nodes:
                self._bind(pod, next(iter(nodes)))
            else:
                self._preempt(pod)
                self._park(pod)
        if self._active:
            self._state.event_queue.after(self._state.timings.placing, self._attempt, key="scheduler")

    def _bind(self, pod: Pod, node: str) -> None:
        """Count a pod on its node, and write its binding while the next pods are placed."""
        self._attempts.pop(pod.uid, None)
        self._cache.assume(pod, structs.replace(pod, node=node))
        binding = self._state.timings.binding
        if binding.longest:
            delay = binding.draw(self._state.random)
            self._state.event_queue.after(delay, lambda: self._write_binding(pod, node), key=f"bind {pod.uid}")
        else:
            self._write_binding(pod, node)

    def _write_binding(self, pod: Pod, node: str) -> None:
        """Write the binding of a pod, unless the pod was deleted meanwhile."""
        stored = self._state.store.pods.get(pod.uid)
        if stored is not None:
            self._state.note(TraceKind.SCHEDULED, f"Pod {pod}", f"to {node}")
            self._state.store.pods.put(structs.replace(stored, node=node, starting_since=self._state.stamp))

    def _preempt(self, pod: Pod) -> None:
        """Delete the pods that a pod preempts, and nominate it for the node of those pods."""
        view = self._cache.view
        if not has_lower_pods(pod, view):
            return
        outlook = find_preemptions(pod, map_verdicts(reject_nodes(pod, view)), view)
        if not outlook.complete or not outlook.outcomes:
            return
        outcome = self._state.random.choice(outlook.outcomes)
        pods = self._state.store.pods
        stored = pods.get(pod.uid)
        if stored is not None:
            nominated = structs.replace(stored, nominated_node=outcome.node)
            self._cache.nominate(nominated)
            pods.put(nominated)
        for victim in outcome.victims:
            going = pods.get(victim.uid)
            if going is not None and not going.terminating:
                self._state.note(TraceKind.PREEMPTED, f"Pod {victim}", f"on {outcome.node} for {pod}")
                pods.put(structs.replace(going, preempted=True))
                self._state.delete(going)

    def _park(self, pod: Pod) -> None:
        attempts = self._attempts[pod.uid] = self._attempts.get(pod.uid, 0) + 1
        if attempts == 1:
            self._state.note(TraceKind.UNSCHEDULABLE, f"Pod {pod}")
        self._parked[pod.uid] = self._number()
        self._backing_off.add(pod.uid)
        delay = min(2.0 ** (attempts - 1), LONGEST_BACK_OFF)
        self._state.event_queue.after(delay, lambda: self._back_off_over(pod.uid), key=f"back-off {pod.uid}")
