"""Which evictions the scheduler is forced to repay.

An arrangement on paper is not always one that the default scheduler can get to: it places one pod at a time, on any
feasible node, and its own constraints can lock it out. Here a set of evictions counts as a step only if after it, in
every interleaving of evictions and placements and whichever feasible nodes the scheduler picks, nothing is left
pending and the distance has fallen by their number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from rebalancer.planning.arrangement import (
    Bounds,
    Inner,
    Leaf,
    Path,
    count,
    departed,
    evicted,
    excess,
    landings,
    leaves,
    marked,
    spread_of,
)
from rebalancer.planning.certificate import certain
from rebalancer.planning.distance import distance, summary

WIDEST = 12
"""Beyond this many at once the interleavings are not explored; the rest goes in the next step."""

_DEEPEST = 3
"""How many evictions a smallest step may need before it is given up as not forced; more never helped in trials."""

_EFFORT = 20_000
"""How many states and classes one search may look at: a bound in numbers, not in seconds, so that the same snapshot
gives the same plan on every machine."""


@dataclass(frozen=True)
class State:
    """Where the pods stand and how many of the group have no place yet."""

    root: Inner
    pending: int = 0


@dataclass(frozen=True)
class Step:
    """Leaf classes to evict from, in an order of which every prefix is a step again; empty where none was found.

    `needed` is how many must be out at once at the least; more than the room given means that the step waits for
    room. `complete` is false where the search was cut short.
    """

    victims: tuple[Path, ...] = ()
    needed: int = 0
    complete: bool = True


class _TooLarge(Exception):  # noqa: N818  # internal signal: the search would look at more than it may
    pass


class Effort:
    """What is left of a search's bound."""

    def __init__(self, left: int = _EFFORT) -> None:
        self._left = left

    def spend(self, number: int) -> None:
        """Count what is looked at; raises _TooLarge when nothing is left."""
        self._left -= number
        if self._left < 0:
            raise _TooLarge


@lru_cache(maxsize=1 << 14)
def next_step(state: State, bounds: Bounds, room: int) -> Step:
    """Find evictions of which the scheduler is forced to make good every one; at most `room` of them.

    Where a certificate says that any minimal victims will do, they are taken without a search. Else the smallest step
    first (one eviction, or two or three where only a stuck replacement's successor frees it), then
    grown while every interleaving still settles. A step that is larger than `room` is returned without victims but
    with the number it needs.
    """
    effort = Effort()
    try:
        if certain(state.root, bounds, state.pending):
            return _taken(state, bounds, room)
        for size in range(1, _DEEPEST + 1):
            found = _smallest(state, bounds, size, effort)
            if found is not None:
                return _grown(state, bounds, found, room, effort) if size <= room else Step(needed=size)
    except _TooLarge:
        return Step(complete=False)
    return Step()


def _taken(state: State, bounds: Bounds, room: int) -> Step:
    """Take the most promising victims, one after the other, without looking where their replacements go."""
    now = state
    taken: list[Path] = []
    while len(taken) < room:
        found = candidates(now, bounds)
        if not found:
            break
        path, now = found[0]
        taken.append(path)
    return Step(victims=tuple(taken), needed=min(1, len(taken)))


def _smallest(state: State, bounds: Bounds, size: int, effort: Effort) -> tuple[Path, ...] | None:
    """Look for exactly `size` evictions that settle; each must lower the distance by one."""
    for victims, after in _choices(state, bounds, size, effort):
        if settles(after, bounds, effort):
            return victims
    return None


def _choices(state: State, bounds: Bounds, size: int, effort: Effort) -> Iterator[tuple[tuple[Path, ...], State]]:
    """Yield (victims, state in which they are marked) for each useful set of `size` victims, most promising first."""
    if size == 0:
        yield (), state
        return
    for path, after in candidates(state, bounds, effort):
        for rest, end in _choices(after, bounds, size - 1, effort):
            yield (path, *rest), end


def candidates(state: State, bounds: Bounds, effort: Effort | None = None) -> list[tuple[Path, State]]:
    """Return the leaf classes of which one more eviction lowers the distance by one, most promising first.

    First those after which the scheduler has the fewest ways to go, then the fullest domain, then the highest node.
    """
    leaving = _leaving(state.root)
    before = distance(departed(state.root), bounds, state.pending + leaving)
    if not before:
        return []
    found = []
    for path in leaves(state.root):
        held, fixed, _, going = cast("Leaf", path[-1])
        if held - going <= fixed:
            continue
        if effort is not None:
            effort.spend(1)
        after = State(marked(state.root, path), state.pending)
        gone = departed(after.root)
        if distance(gone, bounds, state.pending + leaving + 1) == before - 1:
            ways = sum(1 for _ in landings(gone, bounds))
            found.append((ways, tuple(-count(place) for place in path), path, after))
    found.sort(key=lambda each: each[:3])
    return [(path, after) for _, _, path, after in found]


def _grown(state: State, bounds: Bounds, victims: tuple[Path, ...], room: int, effort: Effort) -> Step:
    now = state
    for path in victims:
        now = State(marked(now.root, path), now.pending)
    grown = list(victims)
    complete = True
    while len(grown) < min(room, WIDEST) and complete:
        try:
            following = candidates(now, bounds, effort)
            more = next(((path, after) for path, after in following if settles(after, bounds, effort)), None)
        except _TooLarge:
            complete = False
            continue
        if more is None:
            break
        grown.append(more[0])
        now = more[1]
    return Step(victims=tuple(grown), needed=len(victims), complete=complete)


def settles(state: State, bounds: Bounds, effort: Effort | None = None) -> bool:
    """Say whether evicting the marked pods, in whatever order it happens and is answered, is a step.

    Without a bound on the effort every state is looked at.
    """
    leaving = _leaving(state.root)
    before = distance(state.root, bounds, state.pending)
    if before is None:
        return False
    worst = excess(state.root, bounds)
    seen = {state}
    open_ = [state]
    while open_:
        now = open_.pop()
        following = _following(now, bounds)
        if not following and not _right(now, bounds, before - leaving, worst):
            return False
        for each in following:
            if each not in seen:
                seen.add(each)
                open_.append(each)
        if effort is not None:
            effort.spend(1 + len(following))
    return True


def _following(now: State, bounds: Bounds) -> list[State]:
    found = [State(evicted(now.root, path), now.pending + 1) for path in leaves(now.root) if cast("Leaf", path[-1])[3]]
    if now.pending:
        found += [State(root, now.pending - 1) for root in landings(now.root, bounds)]
    return found


def _right(end: State, bounds: Bounds, goal: int, worst: tuple[int, ...]) -> bool:
    """Say whether the scheduler came to rest where the step promises: nothing pending, nothing worse."""
    if end.pending or distance(end.root, bounds, 0) != goal:
        return False
    return all(after <= now for after, now in zip(excess(end.root, bounds), worst, strict=True))


def _leaving(root: Inner) -> int:
    return sum(_times(root, path) * cast("Leaf", path[-1])[3] for path in leaves(root))


def _times(root: Inner, path: Path) -> int:
    """Count the leaves of a class."""
    times = dict(root)[path[0]]
    return times if len(path) == 1 else times * _times(cast("Inner", path[0]), path[1:])


def forget() -> None:
    """Empty the caches: states of one plan are of no use to the next, and their trees are large."""
    for cached in (next_step, distance, summary, count, spread_of):
        cached.cache_clear()
