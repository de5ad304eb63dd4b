"""The whole repair as a game against the scheduler: the evictions from which every way of its leads on to the end.

`reach.next_step` is short-sighted: a step that keeps its own promise may lead to a state from which nothing is forced
any more, where another would not, and it cannot answer a landing that turned out badly. Here one pod is evicted; the
scheduler places what is pending, on whichever feasible nodes, until nothing is pending or no node admits a pod; then it
is our turn again, knowing where the pods went. What is returned is the first move, or as much of a step as leaves the
end in reach. The number of evictions that are enough falls with each of them, so that neither a spare eviction nor a
plan has to be remembered: together they are never more than were enough at the beginning.
"""

from collections.abc import Iterator
from typing import cast

from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import (
    Bounds,
    Leaf,
    Path,
    evict_leaving,
    excess_by_level,
    is_no_worse,
    leaf_paths,
    mark_leaving,
    placements_of_next,
)
from rebalancer.planning.steps.forced import (
    WIDEST,
    SearchBudget,
    SearchLimitReached,
    SearchState,
    Step,
    next_step,
    rest_states,
)

Excess = tuple[int, ...]

_Question = tuple[SearchState, Bounds, int, int]
played: dict[_Question, Step | None] = {}
"""What games of this plan came to: workloads of one shape share it, and only the first of them pays for it."""

_EFFORT = 10_000
"""How many states one search may look at."""

_LONGEST = 50
"""Evictions, and waiting pods, beyond which no game is played to the end: it would be too large in any case."""

_OUT = 4
"""How many pods may be out at once; more never helped in trials."""


def contingent_step(
    state: SearchState, bounds: Bounds, room: int, *, effort: SearchBudget | None = None, spare: int = 1
) -> Step | None:
    """Return evictions after which the whole repair is still forced, at the distance or with `spare` more.

    `room` is how many may be out at once; a prefix of what is returned, not shorter than `needed`, will do as well.
    None where there are none, where pods are still to be placed without them, or where the game is too large: beyond
    its own bound, or beyond what is left of `effort`.
    """
    out = min(room, _OUT)
    question = state, bounds, out, spare
    if question in played:
        return played[question]
    own = effort.part(_EFFORT) if effort is not None else SearchBudget(_EFFORT)
    try:
        found = _outcome(_Game(bounds, out, own), state, bounds, spare)
    except SearchLimitReached:
        if own.left >= 0:
            return None  # for want of what others have spent: no answer to keep
        found = None
    played[question] = found
    return found


def _outcome(game: "_Game", state: SearchState, bounds: Bounds, spare: int) -> Step | None:
    least = min_evictions(state.root, bounds, state.pending)
    if least is None or least > _LONGEST or state.pending > _LONGEST or game.rests(state) != {state}:
        return None
    worst = excess_by_level(state.root, bounds)
    enough = game.enough(state, worst, spare)
    if not enough:
        return None
    return game.batch(state, worst, enough) or game.move(state, worst, enough)


def forced_step(
    state: SearchState, bounds: Bounds, room: int, *, out: int = _OUT, effort: SearchBudget | None = None
) -> Step:
    """Return the step that the scheduler is forced to repay; empty where none is found.

    The game's first move with `out` at once; where the game is too large, or cannot be won, a step of at most `room`
    that keeps its own promise, rather one that leaves further pods a place. What needs more than `out` at once is
    returned without victims, with the least number that would do.
    """
    move = contingent_step(state, bounds, out, effort=effort)
    if move is not None and move.victims:
        return move
    steps = [next_step(state, bounds, room, stay_open=True), next_step(state, bounds, room)]
    fitting = next((step for step in steps if step.victims and step.needed <= out), None)
    if fitting is not None:
        return fitting
    for more in range(out + 1, _OUT + 1):
        move = contingent_step(state, bounds, more, effort=effort)
        if move is not None and move.victims:
            return Step(needed=more)
    return Step(needed=max(step.needed for step in steps), complete=steps[-1].complete)


class _Game:
    """One group's game. `worst` is by how much each bound was exceeded when last nothing was pending.

    By more than that it may not be exceeded when nothing is pending again.
    """

    def __init__(self, bounds: Bounds, out: int, effort: SearchBudget) -> None:
        self._bounds = bounds
        self._out = out
        self._effort = effort
        self._rests: dict[SearchState, frozenset[SearchState]] = {}
        self._won: dict[tuple[SearchState, Excess], int] = {}
        self._lost: dict[tuple[SearchState, Excess], int] = {}

    def enough(self, state: SearchState, worst: Excess, spare: int) -> int | None:
        """Return the fewest evictions that repair it whatever the scheduler picks, None if there is no such number."""
        least = self._distance(state) or 0
        return next((number for number in range(least, least + spare + 1) if self._wins(state, worst, number)), None)

    def batch(self, state: SearchState, worst: Excess, enough: int) -> Step | None:
        """Return as much of a step as may go at once: after each prefix, in every interleaving, the rest is enough."""
        step = next_step(state, self._bounds, min(enough, WIDEST))
        victims = step.victims if step.needed <= self._out else ()
        root, taken = state.root, 0
        for size, path in enumerate(victims, start=1):
            root = mark_leaving(root, path)
            if size >= step.needed:
                found = rest_states(SearchState(root, state.pending), self._bounds, self._effort)
                if not all(self._wins(end, worst, enough - size) for end in found):
                    break
                taken = size
        return Step(victims=victims[:taken], needed=step.needed) if taken else None

    def move(self, state: SearchState, worst: Excess, enough: int) -> Step | None:
        """Return the one eviction to begin with."""
        path = self._move(state, worst, enough)
        return None if path is None else Step(victims=(path,), needed=1)

    def rests(self, state: SearchState) -> frozenset[SearchState]:
        """Return every state in which the scheduler can come to rest from here."""
        found = self._rests.get(state)
        if found is None:
            following = [SearchState(root, state.pending - 1) for root in placements_of_next(state.root, self._bounds)]
            if not state.pending or not following:
                found = frozenset({state})
            else:
                found = frozenset().union(*(self.rests(each) for each in following))
            self._effort.spend(1 + len(following))
            self._rests[state] = found
        return found

    def _wins(self, now: SearchState, worst: Excess, evictions: int) -> bool:
        least = self._distance(now)
        if least is None or least > evictions:
            return False
        if not now.pending:
            found = excess_by_level(now.root, self._bounds)
            if not is_no_worse(found, worst):
                return False
            if not least:
                return True
            worst = found
        if not evictions or now.pending >= self._out:
            return False
        key = now, worst
        if self._won.get(key, evictions + 1) <= evictions:
            return True
        if self._lost.get(key, -1) >= evictions:
            return False
        won = self._move(now, worst, evictions) is not None
        (self._won if won else self._lost)[key] = evictions
        return won

    def _move(self, now: SearchState, worst: Excess, evictions: int) -> Path | None:
        for path, after in self._choices(now, evictions):
            if all(self._wins(end, worst, evictions - 1) for end in self.rests(after)):
                return path
        return None

    def _choices(self, now: SearchState, evictions: int) -> list[tuple[Path, SearchState]]:
        """Return what may be evicted, most promising first: the fewest ways for the scheduler, the least distance."""
        found = []
        for path, after in _evictions(now):
            self._effort.spend(1)
            least = self._distance(after)
            if least is not None and least < evictions:
                found.append((len(self.rests(after)), least, path, after))
        found.sort(key=lambda each: each[:3])
        return [(path, after) for _, _, path, after in found]

    def _distance(self, state: SearchState) -> int | None:
        return min_evictions(state.root, self._bounds, state.pending)


def _evictions(now: SearchState) -> Iterator[tuple[Path, SearchState]]:
    for path in leaf_paths(now.root):
        held, fixed, _, _ = cast("Leaf", path[-1])
        if held > fixed:
            yield path, SearchState(evict_leaving(mark_leaving(now.root, path)), now.pending + 1)
