"""Several pending pods in turn, as the scheduler's queue would take them.

Planner and simulator ask this one function; there is no second scheduler. A volume that an unbound claim would take is
not taken here: two pods of one queue may both be promised the last one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.node_order import node_order, pick_winner
from rebalancer.scheduling.scoring import best, scores, totals
from rebalancer.scheduling.view import View

Choose: TypeAlias = Callable[[Pod, View, frozenset[str]], Iterable[str]]
"""Given a pod, the state and the feasible nodes: the nodes that it may get, in the order to try them."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One way it can go: who lands where, who stays pending, and the state after it."""

    placed: tuple[tuple[Pod, str], ...] = ()
    pending: tuple[Pod, ...] = ()
    view: View = field(compare=False)

    @property
    def node(self) -> dict[str, str]:
        """Node by pod UID."""
        return {pod.uid: node for pod, node in self.placed}


def modelled(pod: Pod, view: View, nodes: frozenset[str]) -> Iterable[str]:
    """Choose the one node that the model thinks most likely."""
    if len(nodes) <= 1:
        return nodes
    ordered = sorted(nodes)
    return (pick_winner(totals(scores(pod, view, ordered), view, ordered), view),)


def any_best(pod: Pod, view: View, nodes: frozenset[str]) -> Iterable[str]:
    """Choose each of the top-scoring nodes in turn."""
    return _in_order(best(pod, view, nodes), view)


def any_feasible(_: Pod, view: View, nodes: frozenset[str]) -> Iterable[str]:
    """Choose each feasible node in turn: what holds for all of these holds whatever the scheduler's scores are."""
    return _in_order(nodes, view)


def _in_order(nodes: frozenset[str], view: View) -> Sequence[str]:
    return [node for node in node_order(view) if node in nodes]


def queue(pods: Iterable[Pod]) -> Sequence[Pod]:
    """Put pods in the order in which the scheduler takes them: priority, then age (`queuesort/priority_sort.go`)."""
    return sorted(pods, key=lambda pod: (-pod.spec.priority, pod.created, pod.namespace, pod.name))


def place(pods: Iterable[Pod], view: View, choose: Choose = modelled) -> Placement:
    """Play the queue once, with the first choice each time. Pods that do not fit are tried again after a success."""
    return next(outcomes(pods, view, choose))


def outcomes(pods: Iterable[Pod], view: View, choose: Choose = any_best) -> Iterator[Placement]:
    """Yield every way the queue can go, with every choice that `choose` offers.

    Ways that put the same pods on the same nodes in another order are yielded more than once; their number grows with
    the product of the choices, so take no more than is needed.
    """
    unfinished = [(tuple(queue(pods)), Placement(view=view))]
    while unfinished:
        waiting, so_far = unfinished.pop()
        position, nodes = _first_that_fits(waiting, so_far.view)
        if not nodes:
            yield Placement(placed=so_far.placed, pending=tuple(queue(waiting)), view=so_far.view)
            continue
        pod = waiting[position]
        rest = waiting[position + 1 :] + waiting[:position]
        landings = [
            Placement(placed=(*so_far.placed, (pod, node)), view=so_far.view.with_placed(pod, node))
            for node in choose(pod, so_far.view, nodes)
        ]
        unfinished.extend((rest, landing) for landing in reversed(landings))


def _first_that_fits(waiting: Sequence[Pod], view: View) -> tuple[int, frozenset[str]]:
    for position, pod in enumerate(waiting):
        nodes = feasible(pod, view)
        if nodes:
            return position, nodes
    return 0, frozenset()
