"""Which evictions the scheduler is forced to repay.

An arrangement on paper is not always one that the default scheduler can get to: it places one pod at a time, on any
feasible node, and its own constraints can lock it out. Here a set of evictions counts as a step only if after it, in
every interleaving of evictions and placements and whichever feasible nodes the scheduler picks, nothing is left
pending and the distance has fallen by their number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import cast

from rebalancer.planning.single_class.minimum import min_evictions, sum_of_minima
from rebalancer.planning.single_class.placement import (
    Bounds,
    Inner,
    Leaf,
    Path,
    count_pods,
    evict_leaving,
    evict_one,
    excess_by_level,
    is_no_worse,
    leaf_paths,
    mark_leaving,
    placements_of_next,
)

WIDEST = 12
"""Beyond this many at once the interleavings are not explored; the rest goes in the next step."""

_DEEPEST = 4
"""How many evictions a smallest step may need before it is given up as not forced; more never helped in trials."""

_EFFORT = 20_000
"""How many states and classes one search may look at: a bound in numbers, not in seconds, so that the same snapshot
gives the same plan on every machine."""


@dataclass(frozen=True)
class SearchState:
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


class SearchLimitReached(Exception):  # noqa: N818  # a signal: the search would look at more than it may
    """Nothing is left of a search's bound."""


class SearchBudget:
    """What is left of a search's bound."""

    def __init__(self, left: int = _EFFORT, wholes: "tuple[SearchBudget, ...]" = ()) -> None:
        self.left = left
        self.cut = False
        """Whether something was not looked at for it, here or in a part."""
        self._all = (self, *wholes)

    def spend(self, number: int) -> None:
        """Count what is looked at; raises TooLarge when nothing is left."""
        for each in self._all:
            each.left -= number
        if any(each.left < 0 for each in self._all):
            self.cut_short()
            raise SearchLimitReached

    def cut_short(self) -> None:
        """Note that something was not looked at, here and in what this is a part of."""
        for each in self._all:
            each.cut = True

    def part(self, most: int) -> "SearchBudget":
        """Return a bound of its own for a part of the search, which counts against this one too."""
        return SearchBudget(most, self._all)


class StepGoal(Enum):
    """What a step promises."""

    EVERY = "every eviction lowers the distance by one"
    ALL_BUT_ONE = "one eviction may turn out to have been for nothing"
    PART = (
        "the constraints come nearer to right one by one, and with each eviction an arrangement of all, if there is one"
    )


@lru_cache(maxsize=1 << 14)
def next_step(
    state: SearchState, bounds: Bounds, room: int, aim: StepGoal = StepGoal.EVERY, *, stay_open: bool = False
) -> Step:
    """Find evictions of which the scheduler is forced to make good what the aim says; at most `room` of them.

    With `stay_open` no end may be a state that admits no further pod, unless it is right.

    The smallest step first (one eviction, or two or three where only a stuck replacement's successor frees it), then
    grown while every interleaving still settles. A step that is larger than `room` is returned without victims but
    with the number it needs.
    """
    effort = SearchBudget()
    try:
        for size in range(1, _DEEPEST + 1):
            found = _smallest(state, bounds, size, aim, effort, stay_open=stay_open)
            if found is not None:
                return (
                    _grown(state, bounds, found, room, aim, effort, stay_open=stay_open)
                    if size <= room
                    else Step(needed=size)
                )
    except SearchLimitReached:
        return Step(complete=False)
    return Step()


def _smallest(
    state: SearchState, bounds: Bounds, size: int, aim: StepGoal, effort: SearchBudget, *, stay_open: bool
) -> tuple[Path, ...] | None:
    """Look for exactly `size` evictions that settle."""
    for victims, after in eviction_sets(state, bounds, size, effort, aim):
        if is_step(after, bounds, effort, aim, stay_open=stay_open):
            return victims
    return None


def eviction_sets(
    state: SearchState, bounds: Bounds, size: int, effort: SearchBudget, aim: StepGoal = StepGoal.EVERY
) -> Iterator[tuple[tuple[Path, ...], SearchState]]:
    """Yield (victims, state in which they are marked) for each useful set of `size` victims, most promising first."""
    if size == 0:
        yield (), state
        return
    for path, after in eviction_candidates(state, bounds, effort, aim):
        for rest, end in eviction_sets(after, bounds, size - 1, effort, aim):
            yield (path, *rest), end


def eviction_candidates(
    state: SearchState, bounds: Bounds, effort: SearchBudget, aim: StepGoal = StepGoal.EVERY
) -> list[tuple[Path, SearchState]]:
    """Return the leaf classes of which one more eviction lowers the distance by one, most promising first.

    First those after which the scheduler has the fewest ways to go, then the fullest domain, then the highest node.
    Where only a part is aimed at, every class that has pods to give is one.
    """
    leaving = _leaving(state.root)
    before = min_evictions(evict_leaving(state.root), bounds, state.pending + leaving)
    if aim is not StepGoal.PART and not before:
        return []
    found = []
    for path in leaf_paths(state.root):
        held, fixed, _, going = cast("Leaf", path[-1])
        if held - going <= fixed:
            continue
        effort.spend(1)
        after = SearchState(mark_leaving(state.root, path), state.pending)
        gone = evict_leaving(after.root)
        if aim is StepGoal.PART or (before and min_evictions(gone, bounds, state.pending + leaving + 1) == before - 1):
            ways = sum(1 for _ in placements_of_next(gone, bounds))
            found.append((ways, tuple(-count_pods(place) for place in path), path, after))
    found.sort(key=lambda each: each[:3])
    return [(path, after) for _, _, path, after in found]


def _grown(
    state: SearchState,
    bounds: Bounds,
    victims: tuple[Path, ...],
    room: int,
    aim: StepGoal,
    effort: SearchBudget,
    *,
    stay_open: bool,
) -> Step:
    now = state
    for path in victims:
        now = SearchState(mark_leaving(now.root, path), now.pending)
    grown = list(victims)
    complete = True
    while aim is StepGoal.EVERY and len(grown) < min(room, WIDEST) and complete:
        try:
            following = eviction_candidates(now, bounds, effort)
            more = next(
                ((path, after) for path, after in following if is_step(after, bounds, effort, stay_open=stay_open)),
                None,
            )
        except SearchLimitReached:
            complete = False
            continue
        if more is None:
            break
        grown.append(more[0])
        now = more[1]
    return Step(victims=tuple(grown), needed=len(victims), complete=complete)


def is_step(
    state: SearchState,
    bounds: Bounds,
    effort: SearchBudget | None = None,
    aim: StepGoal = StepGoal.EVERY,
    *,
    stay_open: bool = False,
) -> bool:
    """Say whether evicting the marked pods, in whatever order it happens and is answered, is a step.

    Without a bound on the effort every state is looked at.
    """
    goal = _goal(state, bounds, aim)
    return goal is not None and all(
        goal(end) and not (stay_open and admits_no_pod(end, bounds)) for end in rest_states(state, bounds, effort)
    )


def admits_no_pod(state: SearchState, bounds: Bounds) -> bool:
    """Say whether a state that is not right admits no further pod: the next eviction there would be stuck."""
    return not any(True for _ in placements_of_next(state.root, bounds)) and bool(
        min_evictions(state.root, bounds, state.pending)
    )


def rest_states(state: SearchState, bounds: Bounds, effort: SearchBudget | None = None) -> Iterator[SearchState]:
    """Yield every state in which the scheduler can come to rest after the marked evictions, whatever the order."""
    seen = {state}
    open_ = [state]
    while open_:
        now = open_.pop()
        following = _following(now, bounds)
        if not following:
            yield now
        for each in following:
            if each not in seen:
                seen.add(each)
                open_.append(each)
        if effort is not None:
            effort.spend(1 + len(following))


def _goal(state: SearchState, bounds: Bounds, aim: StepGoal) -> Callable[[SearchState], bool] | None:
    """Return what every end of a step must satisfy: nothing pending, nothing worse, and what the aim asks."""
    worst = excess_by_level(state.root, bounds)

    def at_rest(end: SearchState) -> bool:
        return not end.pending and is_no_worse(excess_by_level(end.root, bounds), worst)

    least = min_evictions(state.root, bounds, state.pending)

    def near(end: SearchState) -> bool:
        found = min_evictions(end.root, bounds, 0)
        return found is not None and least is not None and found <= least - _leaving(state.root)

    if aim is StepGoal.PART:
        before = sum_of_minima(state.root, bounds), state.pending
        return lambda end: at_rest(end) and (sum_of_minima(end.root, bounds), 0) < before and (not least or near(end))
    return None if least is None else lambda end: at_rest(end) and near(end)


def _following(now: SearchState, bounds: Bounds) -> list[SearchState]:
    found = [
        SearchState(evict_one(now.root, path), now.pending + 1)
        for path in leaf_paths(now.root)
        if cast("Leaf", path[-1])[3]
    ]
    if now.pending:
        found += [SearchState(root, now.pending - 1) for root in placements_of_next(now.root, bounds)]
    return found


def _leaving(root: Inner) -> int:
    return sum(_times(root, path) * cast("Leaf", path[-1])[3] for path in leaf_paths(root))


def _times(root: Inner, path: Path) -> int:
    """Count the leaves of a class."""
    times = dict(root)[path[0]]
    return times if len(path) == 1 else times * _times(cast("Inner", path[0]), path[1:])
