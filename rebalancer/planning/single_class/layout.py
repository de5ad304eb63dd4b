"""One group on its real nodes: the placement as a tree of classes, and the nodes and pods behind each class.

Searches work on classes of equal nodes; this module maps a class back to a node and its cheapest victim. Only nodes
that hold pods of the group are objects; all other nodes are counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import cast

from msgspec import Struct

from rebalancer.model.nodes import HOSTNAME
from rebalancer.planning.scope.capacity import NodeCapacity, ReservedCapacity
from rebalancer.planning.scope.topology import NODE_LEVEL, DomainPath, DomainTree
from rebalancer.planning.scope.victims import RankedPods, Victim
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.placement import Bounds, Inner, Leaf, Path, Subtree, make_inner

Leaves = tuple[tuple[Leaf, int], ...]
"""The nodes of a domain by their leaf, as a subtree."""

_Tree = tuple[Mapping[DomainPath, Subtree], Inner]
"""The subtree of each domain, and the whole tree."""


class Site(Struct, frozen=True, eq=False, gc=False):
    """A node with pods of the group: their number, its capacity, and the pods that may move, cheapest first."""

    node: str
    path: DomainPath
    count: int
    cap: int
    movable: Sequence[Victim]

    @property
    def leaf(self) -> Leaf:
        """The node as a leaf of the tree."""
        return self.leaf_without(0)

    def leaf_without(self, leaving: int) -> Leaf:
        """Return the node as a leaf that this many pods, the cheapest first, are to leave."""
        return self.count, self.count - len(self.movable), self.cap, leaving


class Layout:
    """The tree of one group: the topology's nodes under its keys, with the group's pods on them.

    `counts` are the group's pods by node, `ranked` the pods that may move. `useful` is the most that any node can ever
    hold: capacity beyond it is left out, so that most nodes are equal. `reserved` is capacity that other pods may take.
    """

    def __init__(
        self,
        topology: DomainTree,
        bounds: Bounds,
        counts: Mapping[str, int],
        ranked: RankedPods,
        capacity: NodeCapacity,
        reserved: ReservedCapacity,
        useful: int,
        cache: SearchCache,
    ) -> None:
        self.topology = topology
        self.keys = topology.keys
        self.bounds = bounds
        self.capacity = capacity
        self._reserved = reserved
        self._useful = useful
        self._cache = cache
        self.pods_on = counts
        """The group's pods by node; nodes without any are left out."""
        self.ranked = ranked
        self._ranks_alone: Mapping[DomainPath, Sequence[int]] | None = None
        """The ranks of the pods that are alone on their nodes, once computed."""
        self.crowded: list[Site] = []
        """The nodes that hold more than one pod, or a pod that must stay, or have little capacity."""
        self.alone: Mapping[DomainPath, int] = self._count_alone()
        """How many pods may move and are alone on a node with enough capacity, by domain.

        Most pods are alone, so they become sites only when `sites` is read: a plan of 150,000 pods takes 1.35 times as
        long if each pod is a site from the beginning. Counts alone show which pods are alone, and workloads with equal
        counts share a tree. Sharing makes `plan -o json` 1.03 times as fast and saves 14 of 372 MiB.
        """
        self._all_alone = not self.crowded and not reserved.on
        """Whether the pods in each domain determine the whole tree."""

    @cached_property
    def _leaves(self) -> dict[DomainPath, dict[Leaf, int]]:
        """The nodes of each domain by their leaf."""
        useful, reserved = self._useful, self._reserved
        made = {
            path: {(0, 0, places, 0): nodes for places, nodes in node_counts.items()}
            for path, node_counts in self.capacity.node_counts(self.topology, useful, reserved.everywhere).items()
        }
        for path, before, after in self._reserved_leaves():
            _exchange(made[path], before, after)
        for path, number in self.alone.items():
            _exchange(made[path], (0, 0, useful, 0), (1, 0, useful, 0), number)
        for site in self.crowded:
            _exchange(made[site.path], (0, 0, self._places_in_leaf(site.node), 0), site.leaf)
        return made

    def _reserved_leaves(self) -> Iterator[tuple[DomainPath, Leaf, Leaf]]:
        """Yield the nodes whose leaf changes with the capacity reserved on them; thousands have enough left anyway."""
        places, paths, useful = self.capacity.places, self.topology.path, self._useful
        for name, there in self._reserved.on.items():
            free = places.get(name, 0)
            before, after = max(0, min(useful, free - self._reserved.everywhere)), max(0, min(useful, free - there))
            if before != after and name in paths and name not in self.pods_on:
                yield paths[name], (0, 0, before, 0), (0, 0, after, 0)

    def without_reservations(self) -> "Layout | None":
        """Return the layout with all free capacity, reserved or not; None if no capacity is reserved for other pods."""
        if not (self._reserved.everywhere or self._reserved.on):
            return None
        free = ReservedCapacity(0, {})
        return Layout(
            self.topology, self.bounds, self.pods_on, self.ranked, self.capacity, free, self._useful, self._cache
        )

    def with_capacity(self, places: Mapping[str, int]) -> "Layout":
        """Return the layout in which nodes have places for this many pods."""
        capacity = NodeCapacity({**self.capacity.places, **places})
        return Layout(
            self.topology, self.bounds, self.pods_on, self.ranked, capacity, self._reserved, self._useful, self._cache
        )

    def with_ranked(self, ranked: RankedPods) -> "Layout":
        """Return the layout in which only these pods may move."""
        return Layout(
            self.topology, self.bounds, self.pods_on, ranked, self.capacity, self._reserved, self._useful, self._cache
        )

    def _count_alone(self) -> Mapping[DomainPath, int]:
        """Find the pods that are alone on their nodes, and count them by domain."""
        counts, capacity, topology = self.pods_on, self.capacity, self.topology
        least = self._useful + self._reserved.everywhere
        if self._are_all_alone(least):
            return topology.count(counts)  # a quick test that looks at no single pod
        uncrowded = capacity.paths_with(topology, least) if not self._reserved.on else {}
        names = [pod.node or "" for pod in self.ranked.pods]
        alone = {name: rank for rank, name in enumerate(names) if name in uncrowded and counts.get(name) == 1}
        self.crowded = [self._site(name) for name in counts if name not in alone]
        ranks: defaultdict[DomainPath, list[int]] = defaultdict(list)
        for name, rank in alone.items():
            ranks[uncrowded[name]].append(rank)
        self._ranks_alone = ranks
        return {path: len(among) for path, among in ranks.items()}

    def _are_all_alone(self, least: int) -> bool:
        """Return whether the counts show that all pods may move and are alone on nodes with capacity for `least`."""
        counts = self.ranked.counted
        if not counts or counts is not self.pods_on or not counts.are_alone or self._reserved.on:
            return False
        lacking = self.capacity.lacking(self.topology, least)
        return not lacking or lacking.isdisjoint(counts)

    def cheapest_alone(self, most: Mapping[DomainPath, int]) -> dict[DomainPath, list[int]]:
        """Return the ranks of up to this many pods of each domain that are alone on their nodes, cheapest first."""
        if self._ranks_alone is not None:
            return {path: [*self._ranks_alone[path][:number]] for path, number in most.items()}
        ranks: dict[DomainPath, list[int]] = {path: [] for path in most}
        left = sum([min(number, self.alone[path]) for path, number in most.items()])
        for rank, pod in enumerate(self.ranked.pods):
            if not left:
                break
            path = self.topology.path[pod.node or ""]
            if len(ranks[path]) < most[path]:
                ranks[path].append(rank)
                left -= 1
        return ranks

    @cached_property
    def sites(self) -> Mapping[str, Site]:
        """Every node that holds pods of the group, by name."""
        sites = {site.node: site for site in self.crowded}
        for ranks in self.cheapest_alone(self.alone).values():
            for rank in ranks:
                name = self.ranked.pods[rank].node or ""
                sites[name] = self._site(name)
        return sites

    def _site(self, name: str) -> Site:
        movable = self.ranked.by_node.get(name, [])
        return Site(name, self.topology.path[name], self.pods_on[name], self.cap(name), movable)

    def _places_in_leaf(self, name: str) -> int:
        """Return the capacity that a node has among the empty leaves."""
        return min(self._useful, max(0, self.capacity.places.get(name, 0) - self._reserved.everywhere))

    def cap(self, name: str) -> int:
        """Return how many pods of the group a node can hold."""
        count = self.pods_on.get(name, 0)
        left = self.capacity.places.get(name, 0) - self._reserved.of(name)
        return count if left <= 0 else max(count, min(count + left, self._useful))

    def spare(self, site: Site) -> int:
        """Return how many more pods a node can take beside reserved capacity, and in place of its movable pods."""
        return self.capacity.places.get(site.node, 0) - self._reserved.of(site.node) + len(site.movable)

    @property
    def root(self) -> Inner:
        """The placement as a tree of classes."""
        return self._tree[1]

    @cached_property
    def _tree(self) -> _Tree:
        return self._shared_tree() if self._all_alone else self._make_tree()

    def _make_tree(self) -> _Tree:
        subtrees = {path: tuple(sorted(leaves.items())) for path, leaves in self._leaves.items()}
        return subtrees, _nest(subtrees)

    def _shared_tree(self) -> _Tree:
        """Return the tree of pods that are all alone: thousands of workloads have equal numbers in each domain."""
        held = tuple(map(self.alone.get, self.topology.members, repeat(0)))
        key = self.topology, self.capacity, self._useful, self._reserved.everywhere, held
        known = self._cache.trees.known.get(key)
        return cast("_Tree", known or self._cache.trees.store(key, self._make_tree()))

    def shifted(self, deltas: Mapping[str, int]) -> Inner:
        """Return the placement with pods added to or removed from nodes; added pods count as movable."""
        subtrees = dict(self._tree[0])
        changed: dict[DomainPath, dict[Leaf, int]] = {}
        for name, change in deltas.items():
            path = self.topology.path.get(name)
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
            subtrees[path] = tuple(sorted((leaf, times) for leaf, times in leaves.items() if times))
        return _nest(subtrees)

    def place(self, path: DomainPath) -> Subtree:
        """Return the subtree of a domain."""
        return self._tree[0][path]

    def closed_nodes(self) -> frozenset[str]:
        """Return the nodes that have no capacity for another pod."""
        places, reserved = self.capacity.places, self._reserved
        lacking = self.capacity.lacking(self.topology, reserved.everywhere + 1)
        taken = [name for name, there in reserved.on.items() if places.get(name, 0) <= there]
        full = [name for name, pods in self.pods_on.items() if pods >= self._useful]
        return lacking.union(taken, full) & self.topology.nodes

    def domains(self) -> Iterator[tuple[str, Mapping[str, frozenset[str]]]]:
        """Yield each key that is not the nodes' own, from the coarsest on, with its nodes by domain."""
        for key in self.keys:
            if key not in {NODE_LEVEL, HOSTNAME}:
                yield key, self.topology.domains(key)

    def count_open(self, path: DomainPath, full: int | None) -> int:
        """Count the nodes of a domain that have capacity for another pod and hold fewer than `full`."""
        return sum(
            times
            for (held, _, cap, _), times in self._leaves[path].items()
            if cap > held and (full is None or held < full)
        )

    def held(self, path: DomainPath) -> int:
        """Count the pods in a domain."""
        return sum(leaf[0] * times for leaf, times in self._leaves[path].items())

    def name_victims(self, classes: Iterable[Path]) -> list[Victim]:
        """Return the cheapest victim of each class of nodes; each class is of the tree without the victims before."""
        subtrees, leaving, victims = dict(self._tree[0]), Counter[str](), []
        for path in classes:
            site = min(self._sites(path, subtrees, leaving), key=lambda site: site.movable[leaving[site.node]].rank)
            leaves, before = dict(cast("Leaves", subtrees[site.path])), site.leaf_without(leaving[site.node])
            victims.append(site.movable[leaving[site.node]])
            leaving[site.node] += 1
            _exchange(leaves, before, site.leaf_without(leaving[site.node]))
            subtrees[site.path] = tuple(sorted(leaves.items()))
        return victims

    def _sites(self, path: Path, subtrees: Mapping[DomainPath, Subtree], leaving: Mapping[str, int]) -> Iterator[Site]:
        """Yield the nodes of a class that still have a pod to leave after those in `leaving`, by node."""
        fitting: dict[DomainPath, bool] = {}
        for site in self.sites.values():
            gone = leaving.get(site.node, 0)
            if site.leaf_without(gone) == path[-1] and len(site.movable) > gone:
                fits = fitting.get(site.path)
                if fits is None:
                    fits = fitting[site.path] = _is_under(subtrees, site.path, path[:-1])
                if fits:
                    yield site

    def counts(self, level: int, going: Mapping[str, int]) -> Mapping[str, int]:
        """Count the pods that stay, by domain of a level; on the last level empty domains are left out.

        `going` are the pods that leave, by node.
        """
        coarse = level < len(self.keys) - 1
        counts = dict.fromkeys(self.topology.values(level), 0) if coarse else {}
        counts.update(self.topology.count_level(level, self.pods_on))
        for name, number in going.items():
            counts[self.topology.domain(level, name)] -= number
        return counts


def _exchange(leaves: dict[Leaf, int], old: Leaf, new: Leaf, times: int = 1) -> None:
    """Turn this many nodes of one leaf into nodes of another leaf."""
    if leaves[old] == times:
        del leaves[old]
    else:
        leaves[old] -= times
    leaves[new] = leaves.get(new, 0) + times


def _is_under(subtrees: Mapping[DomainPath, Subtree], domain: DomainPath, path: Path) -> bool:
    """Return whether the subtrees above a domain equal those of a path, from the coarsest on."""
    return all(
        _nest({key[level + 1 :]: subtree for key, subtree in subtrees.items() if key[: level + 1] == head})
        == path[level]
        for level, head in enumerate(domain[: level + 1] for level in range(len(domain)))
    )


def _nest(subtrees: Mapping[DomainPath, Subtree]) -> Inner:
    """Nest the domains under their common parents, level by level, and merge equal ones."""
    depth = max((len(path) for path in subtrees), default=0)
    if depth == 0:
        return cast("Inner", next(iter(subtrees.values()), ()))
    if depth == 1:
        return make_inner(subtrees.values())
    by_head: dict[str, dict[DomainPath, Subtree]] = {}
    for path, subtree in subtrees.items():
        by_head.setdefault(path[0], {})[path[1:]] = subtree
    return make_inner(_nest(under) for under in by_head.values())
