"""Where the equal pods of one group stand: a tree of domains, made of classes of equal places.

A leaf is a node of the cluster, (count, immovable, cap, leaving): pods of the group on it, how many of those cannot
move, how many it can hold, and how many are to be evicted in the step under examination. An inner place is a domain of
a coarser key, a multiset of equal children. Equal states are equal values whatever the nodes are called, so searches
can be memoised and workloads of one shape share their answers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import cast

from msgspec import Struct

Leaf = tuple[int, int, int, int]
"""(count, immovable, cap, leaving); a node that takes no more pods has cap == count."""

Inner = tuple[tuple["Subtree", int], ...]
"""Sorted (child, how many such children)."""

Subtree = Leaf | Inner


class Same(Enum):
    """Says that the scheduler enforces what is wished for."""

    SAME = "same"


class Bound(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """What is asked of the domains of one level.

    `max_skew` is what is wished for, None for any. `floor_at_zero`: the minimum counts as 0, as it does while fewer
    domains exist than minDomains asks for. `cap`: no domain may hold more, None for no limit; `least`: none less.
    `enforced` is the maxSkew to which the scheduler itself holds pods, None where it lets them be anywhere: by default
    the same.
    """

    max_skew: int | None = None
    floor_at_zero: bool = False
    cap: int | None = None
    least: int = 0
    enforced: int | Same | None = Same.SAME

    @property
    def by_scheduler(self) -> int | None:
        """The maxSkew that the scheduler enforces."""
        return self.max_skew if self.enforced is Same.SAME else self.enforced


FREE = Bound()
Bounds = tuple[Bound, ...]
"""One for each level below the root; the last is the leaves'."""


def is_leaf(place: Subtree) -> bool:
    """Say whether a place is a single node. An inner place holds pairs, a leaf holds numbers."""
    return len(place) == 4 and isinstance(place[0], int)


def make_inner(children: Iterable[Subtree]) -> Inner:
    """Put equal children together, in canonical order."""
    counted: dict[Subtree, int] = {}
    for child in children:
        counted[child] = counted.get(child, 0) + 1
    return tuple(sorted(counted.items()))


def _canonical(children: Counter[Subtree]) -> Inner:
    return cast("Inner", tuple(sorted((child, times) for child, times in children.items() if times)))


@lru_cache(maxsize=1 << 16)
def count_pods(place: Subtree) -> int:
    """Count the pods in a place."""
    if is_leaf(place):
        return cast("Leaf", place)[0]
    return sum(count_pods(child) * times for child, times in cast("Inner", place))


@lru_cache(maxsize=1 << 16)
def count_range(place: Subtree, level: int) -> tuple[int, int]:
    """Return the (least, greatest) count over the domains `level` levels below; of no domain at all it is (0, 0)."""
    if level == 0:
        return count_pods(place), count_pods(place)
    found = [count_range(child, level - 1) for child, _ in cast("Inner", place)]
    return min((low for low, _ in found), default=0), max((high for _, high in found), default=0)


def count_domains(place: Subtree, level: int) -> int:
    """Count the domains `level` levels below a place."""
    if level == 0:
        return 1
    return sum(times * count_domains(child, level - 1) for child, times in cast("Inner", place))


def excess_by_level(root: Inner, bounds: Bounds) -> tuple[int, ...]:
    """Return for each level by how many pods its bound is exceeded at rest; 0 where it holds."""
    return tuple(_excess(root, level, bound) for level, bound in enumerate(bounds, start=1))


def _excess(root: Inner, level: int, bound: Bound) -> int:
    return excess_of(*count_range(root, level), bound)


def excess_of(low: int, high: int, bound: Bound) -> int:
    """Return by how many pods a bound is exceeded where domains hold from `low` to `high`; 0 where it holds."""
    over = [0, bound.least - low]
    if bound.max_skew is not None:
        over.append(high - (0 if bound.floor_at_zero else low) - bound.max_skew)
    if bound.cap is not None:
        over.append(high - bound.cap)
    return max(over)


def is_no_worse(after: Sequence[int], before: Sequence[int]) -> bool:
    """Say whether nothing is exceeded by more than before."""
    return all(now <= then for now, then in zip(after, before, strict=True))


def ceilings(root: Inner, bounds: Bounds) -> tuple[int | None, ...]:
    """Return for each level the count up to which the scheduler lets a domain grow now; None: without end.

    This is the filter's rule count + 1 - minimum <= maxSkew (docs/semantics.md). Limits of ours bind the plan, never
    the scheduler, so they are not in here.
    """
    found: list[int | None] = []
    for level, bound in enumerate(bounds, start=1):
        allowed = bound.by_scheduler
        if allowed is None:
            found.append(None)
        else:
            low = 0 if bound.floor_at_zero else count_range(root, level)[0]
            found.append(low + allowed)
    return tuple(found)


def placements_of_next(root: Inner, bounds: Bounds) -> Iterator[Inner]:
    """Yield every state that follows when the scheduler places one more pod, one for each class of equal nodes."""
    for place in _grown(root, (None, *ceilings(root, bounds))):
        yield cast("Inner", place)


def _grown(place: Subtree, limits: Sequence[int | None]) -> Iterator[Subtree]:
    limit = limits[0]
    if limit is not None and count_pods(place) >= limit:
        return
    if is_leaf(place):
        held, fixed, cap, leaving = cast("Leaf", place)
        if held < cap:
            yield (held + 1, fixed, cap, leaving)
        return
    for child, _ in cast("Inner", place):
        for grown in _grown(child, limits[1:]):
            yield exchange_child(cast("Inner", place), child, grown)


def map_leaves(root: Inner, change: Callable[[Leaf], Leaf]) -> Inner:
    """Return the arrangement with every leaf changed."""
    children: Counter[Subtree] = Counter()
    for child, times in root:
        new = change(cast("Leaf", child)) if is_leaf(child) else map_leaves(cast("Inner", child), change)
        children[new] += times
    return _canonical(children)


def exchange_child(place: Inner, old: Subtree, new: Subtree) -> Inner:
    """Return the place with one child of a class turned into one of another."""
    children = dict(place)
    children[old] -= 1
    if not children[old]:
        del children[old]
    children[new] = children.get(new, 0) + 1
    return tuple(sorted(children.items()))


Path = tuple[Subtree, ...]
"""The classes that lead from below the root down to a leaf."""


def leaf_paths(root: Inner) -> Iterator[Path]:
    """Yield the path to every class of leaves."""
    for child, _ in root:
        if is_leaf(child):
            yield (child,)
        else:
            for rest in leaf_paths(cast("Inner", child)):
                yield (child, *rest)


def mark_leaving(root: Inner, path: Path) -> Inner:
    """Return the state in which one more pod of a leaf of this class is to be evicted."""
    held, fixed, cap, leaving = cast("Leaf", path[-1])
    return _replaced(root, path, (held, fixed, cap, leaving + 1))


def evict_one(root: Inner, path: Path) -> Inner:
    """Return the state after one of the pods that are to leave a leaf of this class has left."""
    held, fixed, cap, leaving = cast("Leaf", path[-1])
    return _replaced(root, path, (held - 1, fixed, cap, leaving - 1))


def evict_leaving(root: Inner) -> Inner:
    """Return the state after everything that is to leave has left."""
    children: Counter[Subtree] = Counter()
    for child, times in root:
        if is_leaf(child):
            held, fixed, cap, leaving = cast("Leaf", child)
            children[held - leaving, fixed, cap, 0] += times
        else:
            children[evict_leaving(cast("Inner", child))] += times
    return _canonical(children)


def _replaced(root: Inner, path: Path, leaf: Leaf) -> Inner:
    if len(path) == 1:
        return exchange_child(root, path[0], leaf)
    return exchange_child(root, path[0], _replaced(cast("Inner", path[0]), path[1:], leaf))
