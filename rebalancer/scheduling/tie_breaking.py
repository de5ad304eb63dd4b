"""Ties: which nodes share the highest total, and which of them the scheduler picks.

kube-scheduler picks one of the top-scoring nodes, depending on the order in which it visits the nodes. The winner is a
guess, never a promise, because filters run in parallel and disturb the order a little. Versions before 1.35 (and after
the fix of kubernetes/kubernetes#141024) draw ties at random.
"""

from collections.abc import Mapping, Sequence

from rebalancer.scheduling.sampling import zone_of
from rebalancer.scheduling.view import View


def node_order(view: View) -> Sequence[str]:
    """Return all nodes: zones in order of first sight, one node of each in turn.

    Source: `backend/cache/node_tree.go`. The API server's order of nodes is taken for the order of their arrival.
    """
    return view.memo("node order", lambda: _interleave_zones(view))


def _interleave_zones(view: View) -> Sequence[str]:
    zones: dict[tuple[str, str], list[str]] = {}
    for node in view.nodes.by_name.values():
        zones.setdefault(zone_of(node), []).append(node.name)
    longest = max(map(len, zones.values()), default=0)
    return [members[turn] for turn in range(longest) for members in zones.values() if turn < len(members)]


def find_top(totals: Mapping[str, int]) -> frozenset[str]:
    """Return the nodes that share the highest total: the scheduler picks any of them."""
    highest = max(totals.values())
    return frozenset([node for node, total in totals.items() if total == highest])


def guess_winner(top: frozenset[str], totals: Mapping[str, int], view: View) -> str | None:
    """Return the top-scoring node that the scheduler picks; None if its version draws it at random."""
    if len(top) <= 1:
        return next(iter(top), None)
    return None if view.rules.ties_random else pick_winner(totals, view)


def pick_winner(totals: Mapping[str, int], view: View) -> str:
    """Return the node that a binary heap over the candidates in node order has at its root.

    Source: `schedule_one.go` (newSortedNodeScores), Go's `container/heap.Init`.
    """
    heap = [node for node in node_order(view) if node in totals]
    for start in reversed(range(len(heap) // 2)):
        parent = start
        while (child := 2 * parent + 1) < len(heap):
            right = child + 1
            if right < len(heap) and totals[heap[right]] > totals[heap[child]]:
                child = right
            if totals[heap[child]] <= totals[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0]
