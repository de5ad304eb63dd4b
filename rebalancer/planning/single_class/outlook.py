"""Where the replacements of a step of equal pods may be placed, and the counts afterwards."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from heapq import heapify, heappop, heapreplace
from operator import getitem

from rebalancer.model.moves import Target
from rebalancer.planning.scope.components import Counts
from rebalancer.planning.scope.topology import DomainPath
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.placement import Bounds


class SingleClassOutlook:
    """The outlook of a step of equal pods.

    `going` are the pods that leave, by node; `arriving` is the number of pods that will be placed. A key is left out if
    more than `most_domains` of its domains may take a replacement.
    """

    def __init__(self, layout: Layout, going: Mapping[str, int], arriving: int, most_domains: int) -> None:
        self._layout = layout
        self._going = going
        self._arriving = arriving
        self._most_domains = most_domains

    def targets(self) -> tuple[Target, ...]:
        """Return for each key the domains on which the scheduler may place one of the arriving pods.

        The minimum of a key can rise only as far as the other arriving pods can fill its emptiest domains; a node in a
        domain that is full even then, of any key, is no target, nor is one without capacity. So the keys agree: each
        domain has a node that lies in one of the named domains of every other key. Capacity that is reserved for other
        pods counts as free: no step relies on it, but the scheduler does not know of it.
        """
        full = self._full_counts
        free = self._layout.without_reservations() or self._layout  # not stored, because each step holds its own ranks
        return tuple(
            Target(key, tuple(sorted(domains)))
            for key, bound, domains in zip(self._layout.keys, full, self._open_domains(free, full), strict=True)
            if bound is not None and domains is not None and len(domains) <= self._most_domains
        )

    def landings(self, nodes: Iterable[str]) -> frozenset[str]:
        """Return which of these nodes may take an arriving pod of a step.

        A full node is no target even if a pod leaves it, because a replacement there would undo the eviction. Capacity
        that is reserved for other pods counts as free.
        """
        full, capacity, path = self._full_counts, self._layout.capacity.nodes, self._layout.topology.path
        return frozenset(
            name
            for name in nodes
            if name in path
            and name in capacity
            and not any(
                most is not None and self._staying[level].get(self._layout.topology.domain(level, name), 0) >= most
                for level, most in enumerate(full)
            )
        )

    @cached_property
    def _full_counts(self) -> Sequence[int | None]:
        return [self._full(level) for level in range(len(self._layout.keys))]

    def _full(self, level: int) -> int | None:
        """Return the count from which a domain of a level takes no arriving pod, None without such a count."""
        layout, bound = self._layout, self._layout.bounds[level]
        if bound.by_scheduler is None:
            return None
        counts = self._staying[level]
        empty = len(layout.topology.nodes) - len(counts) if level == len(layout.keys) - 1 else 0
        highest = 0 if bound.floor_at_zero else _highest_minimum(counts.values(), empty, self._arriving - 1)
        return highest + bound.by_scheduler

    def _open_domains(self, layout: Layout, full: Sequence[int | None]) -> Sequence[set[str] | None]:
        """Return for each level the domains of the nodes that have capacity and lie in no full domain.

        For the last level None if there are more than `most_domains`, or if no domain is ever full. Nodes that no pod
        leaves are counted by class, because thousands of nodes are equal.
        """
        topology, last = layout.topology, len(full) - 1
        open_nodes = self._count_open(layout, full)
        coarse = [{path[level] for path in open_nodes} for level in range(last)]
        if full[last] is None or sum(open_nodes.values()) > self._most_domains:
            return (*coarse, None)
        names = (
            name for path in open_nodes for name in topology.members[path] if self._is_open(layout, name, full[last])
        )
        return (*coarse, {topology.last[name] for name in names})

    def _count_open(self, layout: Layout, full: Sequence[int | None]) -> Mapping[DomainPath, int]:
        """Return the paths with open nodes (with capacity, in no full domain), and a lower bound on their number.

        Nodes that are full only until pods leave them are not counted.
        """
        *coarse, last = full
        left: set[DomainPath | None] | None = None
        counted = {}
        for path in layout.topology.members:
            levels = zip(coarse, self._staying, path, strict=False)
            if any(most is not None and counts[domain] >= most for most, counts, domain in levels):
                continue
            number = layout.count_open(path, last)
            if not number and left is None:
                left = {layout.topology.path.get(name) for name in self._going if self._is_open(layout, name, last)}
            if number or (left and path in left):
                counted[path] = number
        return counted

    def _is_open(self, layout: Layout, node: str, full: int | None) -> bool:
        """Return whether a node has capacity and holds fewer than `full` pods."""
        held = layout.pods_on.get(node, 0) - self._going.get(node, 0)
        return (full is None or held < full) and layout.cap(node) > held

    def counts(self) -> Counts | None:
        """Return the counts by key and domain once the arriving pods are on the emptiest domains with capacity.

        This possible outcome shows the purpose of a step. All arriving pods find a node, or the group would have no
        minimum. The counts of the last key leave out empty domains. None if the pods would come back to where they
        were: a step improves the placement, so the scheduler must place them elsewhere.
        """
        layout = self._layout
        topology = layout.topology
        levels = [dict(counts) for counts in self._staying]
        *coarse, held = levels
        heap = [(_counts_on(path, coarse), path) for path in topology.members]
        heapify(heap)
        open_nodes: dict[DomainPath, _OpenNodes] = {}
        arriving = self._arriving
        while arriving and heap:
            counted, path = heap[0]
            now = _counts_on(path, coarse)
            if now != counted:  # counts only grow, so an outdated entry comes too early, never too late
                heapreplace(heap, (now, path))
                continue
            nodes = open_nodes.get(path)
            if nodes is None:
                filled = partial(self._find_filled, path)
                nodes = open_nodes[path] = _OpenNodes(layout, topology.members[path], held, filled)
            name = nodes.take()
            if name is None:
                heappop(heap)
                continue
            arriving -= 1
            value = topology.last[name]
            held[value] = held.get(value, 0) + 1
            for counts, domain in zip(coarse, path, strict=True):
                counts[domain] += 1
        if self._are_as_before(levels):
            return None
        return _counts_of_bounded(layout.keys, layout.bounds, levels)

    def _are_as_before(self, levels: Sequence[Mapping[str, int]]) -> bool:
        """Return whether, for each key with a maxSkew, these counts equal the counts before the evictions."""
        for level in (level for level, bound in enumerate(self._layout.bounds) if bound.max_skew):
            before = dict(self._staying[level])
            for name, count in self._going.items():
                before[self._layout.topology.domain(level, name)] += count
            if before != levels[level]:
                return False
        return True

    @cached_property
    def _staying(self) -> Sequence[Mapping[str, int]]:
        """The counts of each level once the pods have left."""
        return [self._layout.counts(level, self._going) for level in range(len(self._layout.keys))]

    @cached_property
    def _filled(self) -> Mapping[DomainPath, list[tuple[int, str]]]:
        """The nodes that hold pods after the evictions and have capacity, with the number of pods, by path."""
        layout, staying = self._layout, self._staying[-1]
        filled: dict[DomainPath, list[tuple[int, str]]] = {}
        for name in layout.pods_on:
            count = staying.get(layout.topology.last[name], 0)
            if 0 < count < layout.cap(name):
                filled.setdefault(layout.topology.path[name], []).append((count, name))
        return filled

    def _find_filled(self, path: DomainPath) -> list[tuple[int, str]]:
        return self._filled.get(path, [])


class AdditionOutlook:
    """The outlook of a step that adds `added` pods: the pods that go, by node, still exist meanwhile."""

    def __init__(self, layout: Layout, going: Mapping[str, int], added: int, most_domains: int) -> None:
        self._layout = layout
        self._going = going
        self._placing = SingleClassOutlook(layout, {}, added, most_domains)

    def targets(self) -> tuple[Target, ...]:
        """Return for each key the domains on which the scheduler may place one of the added pods."""
        return self._placing.targets()

    def landings(self, nodes: Iterable[str]) -> frozenset[str]:
        """Return which of these nodes may take an added pod."""
        return self._placing.landings(nodes)

    def counts(self) -> Counts | None:
        """Return the counts once the added pods are in the emptiest domains with capacity and the victims are gone."""
        placed = self._placing.counts()
        if placed is None:
            return None
        last = len(self._layout.keys) - 1
        after: dict[str, Mapping[str, int]] = {}
        for level, key in enumerate(self._layout.keys):
            if key in placed:
                left = dict(placed[key])
                for node, number in self._going.items():
                    left[self._layout.topology.domain(level, node)] -= number
                after[key] = {name: count for name, count in left.items() if count or level != last}
        return after


class _OpenNodes:
    """The nodes of a path that have capacity, the emptiest first.

    Empty nodes come first and are visited only when taken, because a step needs a few of thousands.
    """

    def __init__(
        self,
        layout: Layout,
        members: Iterable[str],
        held: Mapping[str, int],
        find_filled: Callable[[], list[tuple[int, str]]],
    ) -> None:
        last = layout.topology.last
        self._layout = layout
        self._empty = (name for name in members if not held.get(last[name], 0) and layout.cap(name) > 0)
        self._taken: list[str] = []
        self._find_filled = find_filled

    @cached_property
    def _filled(self) -> list[tuple[int, str]]:
        filled = self._find_filled() + [(1, name) for name in self._taken if self._layout.cap(name) > 1]
        heapify(filled)
        return filled

    def take(self) -> str | None:
        """Return the first node and count one more pod on it; None if no node is open."""
        name = next(self._empty, None)
        if name is not None:
            self._taken.append(name)
            return name
        if not self._filled:
            return None
        count, name = self._filled[0]
        if count + 1 < self._layout.cap(name):
            heapreplace(self._filled, (count + 1, name))
        else:
            heappop(self._filled)
        return name


def _counts_on(path: Sequence[str], coarse: Sequence[Mapping[str, int]]) -> Sequence[int]:
    return list(map(getitem, coarse, path))


def _counts_of_bounded(keys: Sequence[str], bounds: Bounds, levels: Sequence[Mapping[str, int]]) -> Counts:
    """Return the counts of the keys with a required maxSkew; for the last key without empty domains."""
    last = len(keys) - 1
    return {
        key: {domain: counts[domain] for domain in sorted(counts) if counts[domain] or level != last}
        for level, (key, bound, counts) in enumerate(zip(keys, bounds, levels, strict=True))
        if bound.max_skew
    }


def _highest_minimum(counts: Iterable[int], empty: int, arriving: int) -> int:
    """Return the highest minimum that this many more pods can bring about; `empty` domains hold no pod."""
    if arriving < empty:
        return 0
    ordered = [0] * empty + sorted(counts)
    level, below = (ordered[0] if ordered else 0), 0
    for below, held in enumerate(ordered):
        cost = below * (held - level)
        if cost > arriving:
            return level + arriving // below
        arriving -= cost
        level = held
    return level + arriving // (below + 1)
