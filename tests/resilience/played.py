"""Losses played on the scheduler's model: pods and nodes go one by one, in every order, and pods land on every node."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.resilience.loss import Loss, Phase, Service
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

    def key(self) -> object:
        left = tuple(tuple(sorted(Counter(pod.node for pod in pods).items())) for pods in self.lost)
        return left, self.nodes, self.waiting, self.running


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
                yield self._without(state, state.view.without([pod]), [pod], state.nodes, self._replaces)

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
        return State(view, lost, nodes, tuple(waiting), state.running)

    def _place(self, state: State, number: int) -> Iterator[State]:
        sample = self.loss.services[number].sample
        for node in sorted(feasible(sample, state.view) - self.loss.nodes):
            self._new += 1
            pod = structs.replace(sample, uid=f"new-{self._new}", name=f"new-{self._new}", node=None)
            waiting = tuple(many - (at == number) for at, many in enumerate(state.waiting))
            running = tuple(
                tuple(sorted((*nodes, node))) if at == number else nodes for at, nodes in enumerate(state.running)
            )
            yield State(state.view.with_placed(pod, node), state.lost, state.nodes, waiting, running)

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
        return tuple(
            service.bound + len(nodes) for service, nodes in zip(self.loss.services, state.running, strict=True)
        )


def by_workload(loss: Loss) -> Mapping[Reference | None, int]:
    """Return the number of each workload's service."""
    return {service.workload: number for number, service in enumerate(loss.services)}
