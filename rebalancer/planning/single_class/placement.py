"""The placement of equal pods: a tree of domains, made of classes of equal nodes.

Problem: searches visit very many placements of one workload. Idea: names do not matter, so a placement is a multiset. A
leaf is a node of the cluster, (count, immovable, capacity, leaving): its pods of the group, how many of those cannot
move, how many it can hold, and how many are to be evicted in the step under examination. An inner subtree is a domain
of a coarser key, a multiset of equal children. Equal placements are equal values whatever the names of the nodes, so
results are shared between states and between workloads of one shape.

Example: zones a (nodes of 2 and 1 pods) and b (nodes of 1 and 2 pods), all movable, capacity for 9 each, are
`((((1, 0, 9, 0), 1), ((2, 0, 9, 0), 1)), 2),`: one class of zones, twice, with two classes of nodes.

Cost: in proportion to the classes, not to nodes or pods.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.cache import SearchCache

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # narrows the type without calling `cast` for each of millions of states

Leaf = tuple[int, int, int, int]
"""(count, immovable, capacity, leaving); a node that takes no more pods has capacity == count."""

Inner = tuple[tuple["Subtree", int], ...]
"""Sorted (child, how many such children)."""

Subtree = Leaf | Inner

Bounds = tuple[Bound, ...]
"""A bound for each level below the root; the last bound is for the leaves."""

Path = tuple[Subtree, ...]
"""The classes from the level below the root down to a leaf."""


def is_leaf(subtree: Subtree) -> "TypeIs[Leaf]":
    """Return whether a subtree is a single node. An inner subtree holds pairs, a leaf holds numbers."""
    return len(subtree) == 4 and isinstance(subtree[0], int)


def make_inner(children: Iterable[Subtree]) -> Inner:
    """Merge equal children, in canonical order."""
    counted: dict[Subtree, int] = {}
    for child in children:
        counted[child] = counted.get(child, 0) + 1
    return tuple(sorted(counted.items()))


def _canonical(children: Counter[Subtree]) -> Inner:
    return tuple(sorted((child, times) for child, times in children.items() if times))


def count_pods(subtree: Subtree, cache: SearchCache) -> int:
    """Count the pods in a subtree."""
    if is_leaf(subtree):
        return subtree[0]
    known = cache.pod_counts.known.get(subtree)
    if known is not None:
        return known
    total = sum([count_pods(child, cache) * times for child, times in subtree])
    return cache.pod_counts.store(subtree, total)


def count_range(subtree: Subtree, level: int, cache: SearchCache) -> tuple[int, int]:
    """Return the (least, greatest) count over the domains `level` levels below; of no domain at all it is (0, 0)."""
    if level == 0:
        count = count_pods(subtree, cache)
        return count, count
    known = cache.count_ranges.known.get((subtree, level))
    if known is not None:
        return known
    ranges = [count_range(child, level - 1, cache) for child, _ in cast("Inner", subtree)]
    both = min((low for low, _ in ranges), default=0), max((high for _, high in ranges), default=0)
    return cache.count_ranges.store((subtree, level), both)


def count_domains(subtree: Subtree, level: int) -> int:
    """Count the domains `level` levels below a subtree, at least one."""
    if level == 1:
        return sum([times for _, times in cast("Inner", subtree)])
    return sum([times * count_domains(child, level - 1) for child, times in cast("Inner", subtree)])


def excess_by_level(root: Inner, bounds: Bounds, cache: SearchCache) -> tuple[int, ...]:
    """Return for each level by how many pods its bound is exceeded with no pod pending; 0 where it holds."""
    return tuple([bound.excess(*count_range(root, level, cache)) for level, bound in enumerate(bounds, start=1)])


def is_no_worse(after: Sequence[int], before: Sequence[int]) -> bool:
    """Return whether no bound is exceeded by more than before."""
    return all(now <= then for now, then in zip(after, before, strict=True))


def ceilings(root: Inner, bounds: Bounds, cache: SearchCache) -> tuple[int | None, ...]:
    """Return for each level the highest count to which the scheduler fills a domain now; None: no limit.

    This is the filter's rule count + 1 - minimum <= maxSkew (`podtopologyspread/filtering.go`). The policy's limits
    bind the plan but not the scheduler, so they are left out.
    """
    tops: list[int | None] = []
    for level, bound in enumerate(bounds, start=1):
        allowed = bound.by_scheduler
        if allowed is None:
            tops.append(None)
        else:
            low = 0 if bound.floor_at_zero else count_range(root, level, cache)[0]
            tops.append(low + allowed)
    return tuple(tops)


def placements_of_next(root: Inner, bounds: Bounds, cache: SearchCache) -> Iterator[Inner]:
    """Yield the placements after the scheduler places one more pod, one for each class of equal nodes."""
    yield from cast("Iterator[Inner]", _grow(root, (None, *ceilings(root, bounds, cache)), cache))


def _grow(subtree: Subtree, limits: Sequence[int | None], cache: SearchCache) -> Iterator[Subtree]:
    limit = limits[0]
    if is_leaf(subtree):
        held, fixed, cap, leaving = subtree
        if held < cap and (limit is None or held < limit):
            yield (held + 1, fixed, cap, leaving)
        return
    if limit is not None and count_pods(subtree, cache) >= limit:
        return
    for child, _ in subtree:
        for grown in _grow(child, limits[1:], cache):
            yield exchange_child(subtree, child, grown)


def map_leaves(root: Inner, change: Callable[[Leaf], Leaf]) -> Inner:
    """Return the placement with every leaf changed."""
    children: Counter[Subtree] = Counter()
    for child, times in root:
        new = change(child) if is_leaf(child) else map_leaves(child, change)
        children[new] += times
    return _canonical(children)


def exchange_child(subtree: Inner, old: Subtree, new: Subtree) -> Inner:
    """Return the subtree with one child of a class turned into one of another."""
    children = dict(subtree)
    children[old] -= 1
    if not children[old]:
        del children[old]
    children[new] = children.get(new, 0) + 1
    return tuple(sorted(children.items()))


def leaf_paths(root: Inner) -> Iterator[Path]:
    """Yield the path to every class of leaves."""
    for child, _ in root:
        if is_leaf(child):
            yield (child,)
        elif child and is_leaf(child[0][0]):  # the common case; searches call this most often
            for leaf, _ in child:
                yield (child, leaf)
        else:
            for rest in leaf_paths(child):
                yield (child, *rest)


def has_places(root: Inner) -> bool:
    """Return whether any node can hold a further pod."""
    leaves = (cast("Leaf", path[-1]) for path in leaf_paths(root))
    return any(held < cap for held, _, cap, _ in leaves)


def mark_leaving(root: Inner, path: Path) -> Inner:
    """Return the placement in which one more pod of a leaf of this class is to be evicted."""
    held, fixed, cap, leaving = cast("Leaf", path[-1])
    return _replace_leaf(root, path, (held, fixed, cap, leaving + 1))


def evict_one(root: Inner, path: Path) -> Inner:
    """Return the placement after one of the pods that are to leave a leaf of this class has left."""
    held, fixed, cap, leaving = cast("Leaf", path[-1])
    return _replace_leaf(root, path, (held - 1, fixed, cap, leaving - 1))


def evict_unmarked(root: Inner, path: Path) -> Inner:
    """Return the placement after an unmarked pod of a leaf of this class has left."""
    held, fixed, cap, leaving = cast("Leaf", path[-1])
    return _replace_leaf(root, path, (held - 1, fixed, cap, leaving))


def evict_leaving(root: Inner) -> Inner:
    """Return the placement after everything that is to leave has left."""
    children: Counter[Subtree] = Counter()
    for child, times in root:
        if is_leaf(child):
            held, fixed, cap, leaving = child
            children[held - leaving, fixed, cap, 0] += times
        else:
            children[evict_leaving(child)] += times
    return _canonical(children)


def _replace_leaf(root: Inner, path: Path, leaf: Leaf) -> Inner:
    if len(path) == 1:
        return exchange_child(root, path[0], leaf)
    return exchange_child(root, path[0], _replace_leaf(cast("Inner", path[0]), path[1:], leaf))
