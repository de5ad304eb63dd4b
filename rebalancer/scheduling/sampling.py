"""What every sample of nodes contains if kube-scheduler stops filtering before it has seen all nodes.

Problem: from 100 nodes on the scheduler scores the first feasible nodes that it finds. Where it starts is not known.

Idea: its list takes one node of each zone in turn. Workers take chunks of the list in order, so all taken chunks are
finished, except one for each worker. A sample without any wanted node needs enough other nodes before them. Wanted
nodes in the taken part of the list can only be in unfinished chunks, and nodes that follow the first of them in its
chunk are not found: one node of each other zone for each further wanted node.

Example: 150 nodes, three zones of 50, all feasible; the scheduler wants 100. Without a node of zone c, it finds only
the nodes before the first node of zone c in each chunk: 2 in each of 15 chunks. So every sample has a node of zone c.

Nothing is assumed of the order of zones, the order of nodes within a zone, the start, or the speed of the workers. The
list is rebuilt only when a node comes or goes. If a cloud controller manager labelled a node with its zone after that,
the list may have the node without a zone. The bound is sound and not exact: a node that is in every sample may go
unnoticed.

Cost: zones times the logarithm of their nodes. Source: `schedule_one.go` (findNodesThatPassFilters,
numFeasibleNodesToFind), `backend/cache/node_tree.go`, `framework/parallelize/parallelism.go`, client-go
`util/workqueue/parallelizer.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final

from rebalancer.model.nodes import BETA_REGION, BETA_ZONE, REGION, ZONE, Node
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_affinity import NodeAffinityFilter, find_named_nodes
from rebalancer.scheduling.view import View

ALWAYS_EXAMINED: Final = 100
"""The scheduler searches for at least this many feasible nodes."""
LEAST_PERCENTAGE: Final = 5


@dataclass(frozen=True)
class Search:
    """How the scheduler searches a list of nodes for feasible nodes.

    `enough` is the number of feasible nodes after which it stops. `workers` are the chunks of the list that may be
    unfinished when it stops. `zones` is the number of nodes of each zone, in any order. `late`: the nodes of the last
    zone may be listed with any other zone, or apart.
    """

    enough: int
    workers: int
    zones: tuple[int, ...]
    late: bool = False

    def must_find(self, feasible: Sequence[int], wanted: Sequence[int]) -> bool:
        """Say whether every sample has a wanted node; False if that is not proved.

        `feasible` and `wanted` count nodes by zone, in the order of `zones`; wanted nodes are feasible. With fewer than
        `enough` feasible nodes there is no sample: all of them are scored.
        """
        others = [number - chosen for number, chosen in zip(feasible, wanted, strict=True)]
        if sum(others) < self.enough:
            return any(wanted)
        listed = wanted[:-1] if self.late else wanted
        return any(
            number and self._most_before(zone, number, others) < self.enough for zone, number in enumerate(listed)
        )

    def _most_before(self, zone: int, wanted: int, others: Sequence[int]) -> int:
        """Return a bound for the nodes, `others` by zone, that are found before any wanted node of one zone."""
        more = self.zones[-1] if self.late else 0
        known = self.zones[:-1] if self.late else self.zones
        apart = others[-1] if self.late else 0
        # If the number of a zone's nodes is not known, each part of the bound takes the worst case.
        least, size = self.zones[zone], self.zones[zone] + more
        rest = [(size_there + more, others[there]) for there, size_there in enumerate(known) if there != zone]

        def find_most(inside: int) -> int:
            """Return the bound for a taken part of the list that has `inside` nodes of the zone."""
            reached = [min(size_there, inside + 1 + max(0, size_there - least)) for size_there, _ in rest]
            forced = max(0, wanted - (size - inside))
            lost = self._count_lost(size, forced - self.workers, [there - more for there, _ in rest])
            elsewhere = min(
                sum(min(number, most) for (_, number), most in zip(rest, reached, strict=True)), sum(reached) - lost
            )
            return elsewhere + apart + min(others[zone], inside - forced)

        # It rises to its greatest value and falls from there: each part is concave.
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if find_most(middle + 1) > find_most(middle):
                low = middle + 1
            else:
                high = middle
        return find_most(low)

    def _count_lost(self, size: int, following: int, rest: Sequence[int]) -> int:
        """Return how many nodes of other zones lie between wanted nodes of one chunk, at least.

        `following` wanted nodes follow another wanted node of their chunk. Between two of neighbouring turns lies a
        node of each zone that has not run out. One pair may be where the list ends and begins again, with none between.
        """
        turns = following - 1
        return sum(min(max(0, there - size + turns), turns) for there in rest) if turns > 0 else 0


def prepare_search(pod: Pod, view: View) -> Search:
    """Return how the scheduler searches the nodes for a pod.

    If the pod's affinity names nodes, the list has only these, in any order, like a single zone.
    """
    profile = view.profile
    named = None if NodeAffinityFilter.name in profile.filters_off else find_named_nodes(pod)
    if named is not None:
        return make_search((len(named & view.nodes.names),), profile.percentage, profile.parallelism)
    return view.memo("search", lambda: _search_all(view))


def _search_all(view: View) -> Search:
    """Return the search of all nodes."""
    profile, late = view.profile, bool(_find_late(view))
    return make_search(_count_by_zone(view), profile.percentage, profile.parallelism, late)


def make_search(zones: tuple[int, ...], percentage: int, parallelism: int, late: bool = False) -> Search:
    """Return the search of a list with these numbers of nodes by zone, the last for `late` nodes if there are any."""
    nodes = sum(zones)
    chunks = -(-nodes // chunk_size(nodes, parallelism))
    return Search(count_examined_nodes(nodes, percentage), min(chunks, parallelism), zones, late)


def count_examined_nodes(nodes: int, percentage: int = 0) -> int:
    """Return after how many feasible nodes the scheduler stops its search in a list of `nodes` nodes.

    Below 100 nodes it examines all. From 100 nodes on it examines `percentage` percent of them, by default 50 less one
    for each 125 nodes.
    """
    if nodes < ALWAYS_EXAMINED:
        return nodes
    share = percentage or max(LEAST_PERCENTAGE, 50 - nodes // 125)
    return max(ALWAYS_EXAMINED, nodes * share // 100)


def chunk_size(nodes: int, parallelism: int) -> int:
    """Return how many nodes of the list a worker takes at once."""
    return max(1, min(isqrt(nodes), nodes // parallelism + 1))


def zone_numbers(view: View) -> Mapping[str, int]:
    """Return the position in `Search.zones` of each node's zone."""
    return view.memo("zone numbers", lambda: _number_zones(view))


def zone_of(node: Node) -> tuple[str, str]:
    """Return region and zone, by which the scheduler's list takes turns (component-helpers `GetZoneKey`)."""
    labels = node.labels
    return labels.get(BETA_REGION, labels.get(REGION, "")), labels.get(BETA_ZONE, labels.get(ZONE, ""))


def _number_zones(view: View) -> Mapping[str, int]:
    numbers: dict[tuple[str, str], int] = {}
    late = _find_late(view)
    by_name = view.nodes.by_name
    found = {
        name: numbers.setdefault(zone_of(node), len(numbers)) for name, node in by_name.items() if name not in late
    }
    return {**found, **dict.fromkeys(late, len(numbers))}


def _find_late(view: View) -> frozenset[str]:
    """Return the nodes that may have been listed without their zone.

    The list may not have been rebuilt since the newest node was created.
    """

    def find() -> frozenset[str]:
        nodes = view.nodes.by_name.values()
        newest = max((node.created for node in nodes), default=None)
        return frozenset(
            node.name for node in nodes if node.zone_since is not None and newest and node.zone_since >= newest
        )

    return view.memo("late zones", find)


def _count_by_zone(view: View) -> tuple[int, ...]:
    numbers = zone_numbers(view)
    counts = [0] * (max(numbers.values(), default=-1) + 1)
    for number in numbers.values():
        counts[number] += 1
    return tuple(counts)
