"""Pending pods in the order of the scheduler's queue: the pod that is placed next, and its possible nodes.

Planner and simulator call these functions; there is no second scheduler. They differ only in the rule that chooses one
of the feasible nodes (`Choose`). Volumes for unbound claims are not reserved here, so two pods of one queue may both be
promised the last volume.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.scoring import best, scores, totals
from rebalancer.scheduling.tie_breaking import pick_winner
from rebalancer.scheduling.view import View

Choose: TypeAlias = Callable[[Pod, View, frozenset[str]], Collection[str]]
"""Given a pod, the state and the feasible nodes: the nodes that it may get, the likeliest first if they are ordered."""

Nodes = TypeVar("Nodes", bound=Collection[str])


class Candidates(NamedTuple):
    """The nodes that admit a pod, and those of them that a rule may choose."""

    feasible: frozenset[str]
    chosen: Collection[str]


class Placement(Struct, frozen=True, kw_only=True):
    """How a queue was placed: each pod's node, the pods that stay pending, and the state after it."""

    placed: tuple[tuple[Pod, str], ...] = ()
    pending: tuple[Pod, ...] = ()
    view: View

    @property
    def node(self) -> dict[str, str]:
        """Node by pod UID."""
        return {pod.uid: node for pod, node in self.placed}


def most_likely(pod: Pod, view: View, nodes: frozenset[str]) -> Collection[str]:
    """Choose the one node that the model thinks most likely."""
    if len(nodes) <= 1:
        return nodes
    ordered = sorted(nodes)
    return (pick_winner(totals(scores(pod, view, ordered), view, ordered), view),)


def top_scoring(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Choose the top-scoring nodes: the scheduler picks one of them, but it is not known which."""
    return best(pod, view, nodes)


def any_feasible(_: Pod, __: View, nodes: frozenset[str]) -> frozenset[str]:
    """Choose every feasible node: a result for all of them does not depend on the scheduler's scores."""
    return nodes


def queue(pods: Iterable[Pod]) -> Sequence[Pod]:
    """Put pods in the order in which the scheduler takes them: priority, then age (`queuesort/priority_sort.go`)."""
    return sorted(pods, key=lambda pod: (-pod.spec.priority, pod.created, pod.namespace, pod.name))


def candidate_nodes(pod: Pod, view: View, choose: Choose) -> Candidates:
    """Return the nodes that admit a pod, and the nodes that it may get; both are empty if no node does."""
    nodes = feasible(pod, view)
    return Candidates(nodes, choose(pod, view, nodes) if nodes else ())


def next_placement(waiting: Iterable[Pod], nodes_of: Callable[[Pod], Nodes]) -> tuple[int, Pod, Nodes] | None:
    """Return position, pod and nodes of the first pod that finds a node; None if none does."""
    for position, pod in enumerate(waiting):
        nodes = nodes_of(pod)
        if nodes:
            return position, pod, nodes
    return None


def place(pods: Iterable[Pod], view: View, choose: Choose = most_likely) -> Placement:
    """Simulate the queue once, each pod on the first node of its choice.

    Pods that do not fit are tried again after a success, behind all other pods.
    """
    waiting, placed = tuple(queue(pods)), list[tuple[Pod, str]]()

    def nodes_of(pod: Pod) -> Collection[str]:
        return candidate_nodes(pod, view, choose).chosen

    while (following := next_placement(waiting, nodes_of)) is not None:
        position, pod, nodes = following
        node = next(iter(nodes))
        placed.append((pod, node))
        waiting = waiting[position + 1 :] + waiting[:position]
        view = view.with_placed(pod, node)
    return Placement(placed=tuple(placed), pending=tuple(queue(waiting)), view=view)
