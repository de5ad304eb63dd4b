"""Losses played on the scheduler's model: pods and nodes go one by one, in every order, and pods land on every node.

A pod that no node admits preempts pods of lower priority on any node where that helps: as few as the scheduler would,
the least important first. What they were replaced by waits in turn.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from rebalancer.model.loss_phase import Phase
from rebalancer.model.pods import Pod
from rebalancer.resilience.loss import Loss, Service
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import UNREACHABLE, View

Left = tuple[int, ...]
"""How many pods of each service run."""


@dataclass(frozen=True)
class State:
    """A moment of a loss: the view, the pods that are still to be deleted by service, and those that wait."""

    view: View
    lost: tuple[tuple[Pod, ...], ...]
    nodes: frozenset[str]
    """Nodes that are still to be deleted."""
    waiting: Left
    running: tuple[tuple[str, ...], ...]
    """The nodes of the replacements by service."""
    preempted: frozenset[str]
    """The UIDs of pods that ran elsewhere before."""

    def key(self) -> object:
        left = tuple(tuple(sorted(Counter(pod.node for pod in pods).items())) for pods in self.lost)
        return left, self.nodes, self.waiting, self.running, self.preempted


class Play:
    """All that can come of a loss."""

    def __init__(self, loss: Loss, seed: int = 0) -> None:
        self.loss = loss
        self._random = Random(seed)
        self._new = 0

    def start(self) -> State:
        """Return the first moment: silent nodes are tainted, and their pods there."""
        view = self.loss.before
        if self.loss.phase is Phase.SILENT:
            nodes = tuple(
                structs.replace(node, taints=(*node.taints, *UNREACHABLE)) if node.name in self.loss.nodes else node
                for node in view.snapshot.nodes
            )
            view = View(replace(view.snapshot, nodes=nodes))
        services = self.loss.services
        return State(
            view,
            tuple(service.lost for service in services),
            self.loss.nodes,
            tuple(service.waiting for service in services),
            tuple(() for _ in services),
            frozenset(),
        )

    def following(self, state: State) -> Iterator[State]:
        """Yield what may come next: a lost pod, or a lost node with its pods, is deleted; a pod lands on a node."""
        if self.loss.phase is Phase.SILENT:
            yield from self._delete_pods(state)
        else:
            yield from self._delete_nodes(state)
        for number, waiting in enumerate(state.waiting):
            if waiting:
                yield from self._place(state, number)

    def _delete_pods(self, state: State) -> Iterator[State]:
        for pods in state.lost:
            for node in sorted({pod.node or "" for pod in pods}):
                pod = next(one for one in pods if one.node == node)
                yield self._without(state, state.view.terminating([pod]), [pod], state.nodes, self._replaces)

    def _delete_nodes(self, state: State) -> Iterator[State]:
        for node in sorted(state.nodes):
            gone = [pod for pods in state.lost for pod in pods if pod.node == node]
            view = state.view.without_nodes([node])
            yield self._without(state, view, gone, state.nodes - {node}, lambda _: True)

    def _replaces(self, service: Service) -> bool:
        return service.pending > service.waiting

    def _without(
        self, state: State, view: View, gone: list[Pod], nodes: frozenset[str], replaces: Callable[[Service], bool]
    ) -> State:
        uids = {pod.uid for pod in gone}
        lost = tuple(tuple(pod for pod in pods if pod.uid not in uids) for pods in state.lost)
        waiting = list(state.waiting)
        for number, service in enumerate(self.loss.services):
            many = sum(pod.uid in uids for pod in service.lost)
            if many and replaces(service):
                waiting[number] += many
        return replace(state, view=view, lost=lost, nodes=nodes, waiting=tuple(waiting))

    def _place(self, state: State, number: int) -> Iterator[State]:
        sample = self.loss.services[number].sample
        nodes = feasible(sample, state.view) - self.loss.nodes
        for node in sorted(nodes):
            yield self._land(state, number, node)
        if not nodes and sample.spec.preempts:
            for node in sorted(state.view.nodes.names - self.loss.nodes):
                yield from self._preempt(state, number, node)

    def _land(self, state: State, number: int, node: str) -> State:
        self._new += 1
        sample = self.loss.services[number].sample
        uid = f"new-{number}-{self._new}"
        pod = structs.replace(sample, uid=uid, name=uid, node=None)
        waiting, running = list(state.waiting), list(state.running)
        waiting[number] -= 1
        running[number] = tuple(sorted((*running[number], node)))
        return replace(state, view=state.view.with_placed(pod, node), waiting=tuple(waiting), running=tuple(running))

    def _preempt(self, state: State, number: int, node: str) -> Iterator[State]:
        sample = self.loss.services[number].sample
        lower = [pod for pod in state.view.pods_on(node) if pod.spec.priority < sample.spec.priority]
        victims = {pod.uid: pod for pod in lower}
        if not lower or node not in feasible(sample, state.view.without(lower)):
            return
        for pod in sorted(lower, key=lambda pod: -pod.spec.priority):
            rest = [other for uid, other in victims.items() if uid != pod.uid]
            if node in feasible(sample, state.view.without(rest)):
                del victims[pod.uid]
        yield self._land(self._evict(state, node, list(victims.values())), number, node)

    def _evict(self, state: State, node: str, victims: list[Pod]) -> State:
        waiting, running, preempted = list(state.waiting), list(state.running), set(state.preempted)
        for victim in victims:
            if victim.uid.startswith("new-"):
                at = int(victim.uid.split("-")[1])
                nodes = list(running[at])
                nodes.remove(node)
                running[at] = tuple(nodes)
            else:
                at = self._service_of(victim)
                preempted.add(victim.uid)
            waiting[at] += 1
        view = state.view.without(victims)
        return replace(state, view=view, waiting=tuple(waiting), running=tuple(running), preempted=frozenset(preempted))

    def _service_of(self, pod: Pod) -> int:
        owners = (service.sample.owner for service in self.loss.services)
        return next(at for at, owner in enumerate(owners) if owner == pod.owner)

    def ends(self, most: int) -> tuple[set[Left], bool]:
        """Return how many pods of each service run at the ends, and whether these are all ends there are.

        Where there are more than `most` states, the ends of 100 orders are returned.
        """
        start = self.start()
        seen, open_, ends = {start.key()}, [start], set[Left]()
        while open_:
            state = open_.pop()
            after = list(self.following(state))
            if not after:
                ends.add(self._left(state))
            for one in after:
                key = one.key()
                if key not in seen:
                    seen.add(key)
                    open_.append(one)
            if len(seen) > most:
                return ends | {self._play(start) for _ in range(100)}, False
        return ends, True

    def _play(self, state: State) -> Left:
        while after := list(self.following(state)):
            state = self._random.choice(after)
        return self._left(state)

    def _left(self, state: State) -> Left:
        gone = Counter(self._service_of(pod) for pod in self.loss.before.snapshot.pods if pod.uid in state.preempted)
        return tuple(
            service.bound - gone[number] + len(state.running[number])
            for number, service in enumerate(self.loss.services)
        )
