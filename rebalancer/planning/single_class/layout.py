"""One group on its real nodes: the arrangement with names, and the way back from a class to a pod.

Searches work on classes of equal places; this module knows which node and which pod is meant in the end, and chooses
the cheapest victim among equals. Only nodes that hold pods of the group are objects; the others are counted.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import cast

from msgspec import Struct

from rebalancer.planning.scope.capacity import NodeCapacity, ReservedCapacity
from rebalancer.planning.scope.topology import DomainPath, Topology
from rebalancer.planning.scope.victims import RankedPods, Victim
from rebalancer.planning.single_class.placement import Bound, Bounds, Inner, Leaf, Path, Subtree, make_inner


class Site(Struct, eq=False, gc=False):
    """One node that holds pods of the group: how many, how many it can hold, and which may move, cheapest first."""

    node: str
    path: DomainPath
    count: int
    cap: int
    movable: list[Victim]
    leaving: int = 0

    @property
    def leaf(self) -> Leaf:
        """The node as the search sees it."""
        return self.count, self.count - len(self.movable) - self.leaving, self.cap, self.leaving


class Layout:
    """The tree of one group: the ground's nodes under its keys, with the group's pods on them.

    `counts` are the group's pods by node, `ranked` those that may go. `useful` is the most that any
    node can come to hold: room beyond it is left out, so that most nodes look alike. `taken` is the room that is
    spoken for.
    """

    def __init__(
        self,
        ground: Topology,
        bounds: tuple[Bound, ...],
        counts: Mapping[str, int],
        ranked: RankedPods,
        reception: NodeCapacity,
        taken: ReservedCapacity,
        useful: int,
    ) -> None:
        self.ground = ground
        self.keys = ground.keys
        self.bounds: Bounds = bounds
        self.reception = reception
        self._taken = taken
        self._useful = useful
        self._counts = counts
        self.ranked = ranked
        self._leaves: dict[DomainPath, dict[Leaf, int]] = {
            path: leaves.copy() for path, leaves in reception.background(ground, useful, taken.everywhere).items()
        }
        self.singles: dict[DomainPath, list[int]] = {}
        """The ranks, cheapest first, of pods that may move and are alone on a node with room enough.

        Most are, so they are no sites at first.
        """
        self.crowded: list[Site] = []
        """The nodes that hold more than one pod, or one that must stay, or have little room."""
        self._places: dict[DomainPath, Subtree] = {}
        self._root: Inner | None = None
        for name in taken.on:
            if name in ground.path and name not in counts:
                self._swap(ground.path[name], (0, 0, self._bare(name), 0), (0, 0, self._empty(name), 0))
        self._sort_out(reception.roomy(useful + taken.everywhere) if not taken.on else frozenset())

    def _sort_out(self, roomy: frozenset[str]) -> None:
        """Count the group's pods into the leaves."""
        paths, singles, counts, useful = self.ground.path, self.singles, self._counts, self._useful
        alone = {pod.node or "": rank for rank, pod in enumerate(self.ranked.pods)}
        if not (roomy.issuperset(alone) and alone.keys() == counts.keys() and max(counts.values(), default=0) == 1):
            alone = {name: rank for name, rank in alone.items() if name in roomy and counts.get(name) == 1}
            self.crowded = [self._site(name) for name in counts if name not in alone]
        for name, rank in alone.items():
            path = paths[name]
            if path in singles:
                singles[path].append(rank)
            else:
                singles[path] = [rank]
        for path, found in singles.items():
            leaves, bare, held = self._leaves[path], (0, 0, useful, 0), (1, 0, useful, 0)
            leaves[bare] -= len(found)
            if not leaves[bare]:
                del leaves[bare]
            leaves[held] = leaves.get(held, 0) + len(found)
        for site in self.crowded:
            self._swap(site.path, (0, 0, self._bare(site.node), 0), site.leaf)

    @cached_property
    def sites(self) -> Mapping[str, Site]:
        """Every node that holds pods of the group, by name."""
        found = {site.node: site for site in self.crowded}
        for ranks in self.singles.values():
            for rank in ranks:
                name = self.ranked.pods[rank].node or ""
                found[name] = self._site(name)
        return found

    def _site(self, name: str) -> Site:
        count, movers = self._counts[name], self.ranked.by_node.get(name, [])
        left = self.reception.room.get(name, 0) - self._taken.of(name)
        cap = count if left <= 0 else max(count, min(count + left, self._useful))
        return Site(name, self.ground.path[name], count, cap, movers)

    def _bare(self, name: str) -> int:
        """Return the room that the background counts for a node."""
        return min(self._useful, max(0, self.reception.room.get(name, 0) - self._taken.everywhere))

    def _empty(self, name: str) -> int:
        return min(self._useful, max(0, self.reception.room.get(name, 0) - self._taken.of(name)))

    def cap(self, name: str) -> int:
        """Return how many pods of the group a node can hold."""
        site = self.sites.get(name)
        return site.cap if site is not None else self._empty(name)

    def _swap(self, path: DomainPath, old: Leaf, new: Leaf) -> None:
        leaves = self._leaves[path]
        if leaves[old] == 1:
            del leaves[old]
        else:
            leaves[old] -= 1
        leaves[new] = leaves.get(new, 0) + 1

    def spare(self, site: Site) -> int:
        """Return how many more a node takes beside what is on its way; room that a leaving pod frees is its own."""
        return self.reception.room.get(site.node, 0) - self._taken.of(site.node) + len(site.movable)

    @property
    def root(self) -> Inner:
        """The arrangement as the search sees it."""
        if self._root is None:
            for path, leaves in self._leaves.items():
                if path not in self._places:
                    self._places[path] = tuple(sorted(leaves.items()))
            self._root = _nested(self._places)
        return self._root

    def unmark(self, site: Site, victim: Victim) -> None:
        """Undo `mark`."""
        before = site.leaf
        site.movable.append(victim)
        site.movable.sort(key=attrgetter("rank"))
        site.leaving -= 1
        self._swap(site.path, before, site.leaf)
        self._places.pop(site.path, None)
        self._root = None

    def shifted(self, deltas: Mapping[str, int]) -> Inner:
        """Return the arrangement with pods more or less on nodes; those that come can move again."""
        assert self.root, "its places are known"
        places = dict(self._places)
        changed: dict[DomainPath, dict[Leaf, int]] = {}
        for name, change in deltas.items():
            path = self.ground.path.get(name)
            if path is None or not change:
                continue
            leaves = changed.setdefault(path, self._leaves[path].copy())
            site = self.sites.get(name)
            held, fixed, cap, leaving = site.leaf if site is not None else (0, 0, self.cap(name), 0)
            leaves[held, fixed, cap, leaving] -= 1
            count = held + change
            new = count, min(fixed, count), max(cap, count), leaving
            leaves[new] = leaves.get(new, 0) + 1
        for path, leaves in changed.items():
            places[path] = tuple(sorted((leaf, times) for leaf, times in leaves.items() if times))
        return _nested(places)

    def place(self, path: DomainPath) -> Subtree:
        """Return a part of the ground as the search sees it."""
        assert self.root, "its places are known"
        return self._places[path]

    def takes_more(self, path: DomainPath) -> bool:
        """Say whether some node of a part of the ground has room for another pod."""
        return any(cap > held for held, _, cap, _ in self._leaves[path])

    def held(self, path: DomainPath) -> int:
        """Count the pods in a part of the ground."""
        return sum(leaf[0] * times for leaf, times in self._leaves[path].items())

    def best(self, path: Path) -> tuple[Site, Victim]:
        """Return the cheapest victim among all nodes of the class that a path describes."""
        site = min((site for site in self._sites(path) if site.movable), key=lambda site: site.movable[0].rank)
        return site, site.movable[0]

    def _sites(self, path: Path) -> Iterator[Site]:
        assert self.root, "its places are known"
        fitting: dict[DomainPath, bool] = {}
        for site in self.sites.values():
            if site.leaf == path[-1]:
                fits = fitting.get(site.path)
                if fits is None:
                    fits = fitting[site.path] = self._leads(site.path, path[:-1])
                if fits:
                    yield site

    def _leads(self, domain: DomainPath, path: Path) -> bool:
        """Say whether the places above a domain are those of a path, from the coarsest on."""
        return all(
            _nested({key[level + 1 :]: place for key, place in self._places.items() if key[: level + 1] == head})
            == path[level]
            for level, head in enumerate(domain[: level + 1] for level in range(len(domain)))
        )

    def mark(self, site: Site, victim: Victim) -> None:
        """Note that a pod is to leave its node."""
        before = site.leaf
        site.movable.remove(victim)
        site.leaving += 1
        self._swap(site.path, before, site.leaf)
        self._places.pop(site.path, None)
        self._root = None

    def counts(self, level: int, going: Mapping[str, int]) -> Mapping[str, int]:
        """Count the pods that stay, by domain of a level; of the last level only domains that hold any.

        `going` are the pods that leave, by node.
        """
        found: dict[str, int] = {}
        last = level == len(self.keys) - 1
        if not last:
            found = dict.fromkeys(self.ground.values(level), 0)
        for site in self.sites.values():
            value = self.ground.last[site.node] if last else site.path[level]
            found[value] = found.get(value, 0) + site.count - going.get(site.node, 0)
        return found


def _nested(places: Mapping[DomainPath, Subtree]) -> Inner:
    """Put the domains under their common heads, level by level, equal ones together."""
    depth = max((len(path) for path in places), default=0)
    if depth == 0:
        return cast("Inner", next(iter(places.values()), ()))
    if depth == 1:
        return make_inner(places.values())
    by_head: dict[str, dict[DomainPath, Subtree]] = {}
    for path, place in places.items():
        by_head.setdefault(path[0], {})[path[1:]] = place
    return make_inner(_nested(under) for under in by_head.values())
