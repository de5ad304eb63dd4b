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
)
from rebalancer.planning.certificate import certain
from rebalancer.planning.distance import distance

WIDEST = 12
"""Beyond this many at once the interleavings are not explored; the rest goes in the next step."""

_DEEPEST = 3
"""How many evictions a smallest step may need before it is given up as not forced; more never helped in trials."""

_STATES = 5_000
"""How many states one check may visit: a bound in states, not in seconds, so that the same snapshot gives the same
plan on every machine."""


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


class _TooLarge(Exception):  # noqa: N818  # internal signal: the check would visit more states than it may
    pass


@lru_cache(maxsize=1 << 14)
def next_step(state: State, bounds: Bounds, room: int) -> Step:
    """Find evictions of which the scheduler is forced to make good every one; at most `room` of them.

    Where a certificate says that any minimal victims will do, they are taken without a search. Else the smallest step
    first (one eviction, or two or three where only a stuck replacement's successor frees it), then
    grown while every interleaving still settles. A step that is larger than `room` is returned without victims but
    with the number it needs.
    """
    if certain(state.root, bounds, state.pending):
        return _taken(state, bounds, room)
    complete = True
    for size in range(1, _DEEPEST + 1):
        try:
            found = _smallest(state, bounds, size)
        except _TooLarge:
            complete = False
            continue
        if found is not None:
            return _grown(state, bounds, found, room) if size <= room else Step(needed=size)
    return Step(complete=complete)


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


def _smallest(state: State, bounds: Bounds, size: int) -> tuple[Path, ...] | None:
    """Look for exactly `size` evictions that settle; each must lower the distance by one."""
    for victims, after in _choices(state, bounds, size):
        if settles(after, bounds):
            return victims
    return None


def _choices(state: State, bounds: Bounds, size: int) -> Iterator[tuple[tuple[Path, ...], State]]:
    """Yield (victims, state in which they are marked) for each useful set of `size` victims, most promising first."""
    if size == 0:
        yield (), state
        return
    for path, after in candidates(state, bounds):
        for rest, end in _choices(after, bounds, size - 1):
            yield (path, *rest), end


def candidates(state: State, bounds: Bounds) -> list[tuple[Path, State]]:
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
        after = State(marked(state.root, path), state.pending)
        gone = departed(after.root)
        if distance(gone, bounds, state.pending + leaving + 1) == before - 1:
            ways = sum(1 for _ in landings(gone, bounds))
            found.append((ways, tuple(-count(place) for place in path), path, after))
    found.sort(key=lambda each: each[:3])
    return [(path, after) for _, _, path, after in found]


def _grown(state: State, bounds: Bounds, victims: tuple[Path, ...], room: int) -> Step:
    now = state
    for path in victims:
        now = State(marked(now.root, path), now.pending)
    grown = list(victims)
    complete = True
    while len(grown) < min(room, WIDEST) and complete:
        try:
            more = next(((path, after) for path, after in candidates(now, bounds) if settles(after, bounds)), None)
        except _TooLarge:
            complete = False
            continue
        if more is None:
            break
        grown.append(more[0])
        now = more[1]
    return Step(victims=tuple(grown), needed=len(victims), complete=complete)


def settles(state: State, bounds: Bounds) -> bool:
    """Say whether evicting the marked pods, in whatever order it happens and is answered, is a step.

    Raises _TooLarge where that would take too many states to tell.
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
        if len(seen) > _STATES:
            raise _TooLarge
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
