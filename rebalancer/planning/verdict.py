"""What is to be done about one problem: the proof, the next step, or the reason why there is none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rebalancer.model.verdicts import Reason, State
from rebalancer.planning.boards import MixedBoard, UniformBoard
from rebalancer.planning.certificate import certain
from rebalancer.planning.distance import least
from rebalancer.planning.eligibility import Refusal
from rebalancer.planning.foresight import Board, Foreseen, foreseen_step
from rebalancer.planning.game import forced_step
from rebalancer.planning.layout import Layout, Victim
from rebalancer.planning.mixture import Mixed
from rebalancer.planning.obstacles import mixed_obstacle, obstacle
from rebalancer.planning.problem import Uniform
from rebalancer.planning.program import Unsolved, solve
from rebalancer.planning.reach import WIDEST, Aim, Effort, Step, TooLarge, next_step
from rebalancer.planning.reach import State as Standing
from rebalancer.planning.unreachable import out_of_reach
from rebalancer.planning.victims import cheapest
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View

_FORESIGHT = 6_000
"""How many nodes one search of a component on the real nodes may look at, counted once for each pod and state."""

MOST_FORESIGHT = 60_000
"""The same for all searches of one plan."""

MOST_MOVES = 150_000
"""How many states all games of one plan may look at."""

MOST_MISSES = 3
"""Moves in a row that did not come out as predicted, after which nothing is predicted for the component any more."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What is remembered of a component: the promise of a step that might take one eviction to spare, misses, moves.

    `room` says how many of its pods may ever be out at once. `effort` is what is left for looking ahead on the real
    nodes in this plan, `moves` for searching games to the end.
    """

    spare_goal: int | None = None
    misses: int = 0
    moving: bool = False
    room: Callable[[], int] = lambda: WIDEST
    effort: Effort = field(default_factory=lambda: Effort(MOST_FORESIGHT))
    moves: Effort = field(default_factory=lambda: Effort(MOST_MOVES))

    def spare_used(self, fewest: int) -> bool:
        """Say whether the repair has taken its eviction to spare, if it is so far from right now."""
        return self.spare_goal is not None and fewest > self.spare_goal


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found out.

    `victims` are the next step, a prefix of at least `needed` being a step too. `out` is how many may have to be out
    at once, those among them that follow only where a replacement is seen to be stuck.

    `evictions` is what the whole repair takes, proved to be the least where `optimal`; `lower_bound` holds in any case.
    `landing` are nodes on which replacements may land, None where that follows from counting alone.
    """

    state: State = State.VIOLATED
    refusal: Refusal | None = None
    evictions: int = 0
    lower_bound: int = 0
    victims: tuple[Victim, ...] = ()
    needed: int = 1
    out: int = 1
    forced: bool = True
    spare: bool = False
    landing: frozenset[str] | None = None

    @property
    def optimal(self) -> bool:
        """Whether the number of evictions is proved."""
        return bool(self.evictions) and self.evictions == self.lower_bound


@dataclass(frozen=True)
class _Found:
    victims: tuple[Victim, ...]
    needed: int
    forced: bool = True
    spare: bool = False
    landing: frozenset[str] | None = None
    out: int = 1


def of_uniform(problem: Uniform, view: View, known: Circumstances) -> Verdict:
    """Decide about equal pods."""
    layout, pending = problem.layout, problem.pending
    solved = least(layout.root, layout.bounds, pending)
    if solved is None:
        state, refusal = obstacle(problem)
        if refusal.reason is Reason.ZONE_IN_MAINTENANCE:
            return Verdict(state=state, refusal=refusal)
        return _in_part(UniformBoard(problem, None), view, known, Verdict(state=state, refusal=refusal), problem)
    fewest, windows = solved
    proved = Verdict(evictions=fewest, lower_bound=fewest)
    if not fewest:
        return _waiting(UniformBoard(problem, 0), view, known, problem)
    if certain(layout.root, layout.bounds, pending, problem.lost):
        return _with(proved, _Found(tuple(cheapest(layout, windows, fewest)), 1))
    if problem.lost:
        taken = "room that it needs may be taken by what is on its way; planned anew after"
        return _refused(proved, State.VIOLATED, Reason.GROUP_IN_FLIGHT, taken)
    now, board = Standing(layout.root, pending), UniformBoard(problem, fewest)
    step = forced_step(now, layout.bounds, min(fewest, WIDEST), out=known.room(), effort=known.moves)
    if step.victims:
        return _with(proved, _Found(_named(layout, step), step.needed))
    aims = _aims(known, fewest)
    found, waits = _predicted(board, view, known, aims)
    if found is not None:
        return _with(proved, found)
    if waits is not None:
        return _refused(proved, State.VIOLATED, waits.reason, waits.message)
    return _in_part(board, view, known, _unforced(proved, now, layout, known, complete=step.complete), problem)


def _aims(known: Circumstances, fewest: int) -> Sequence[Aim]:
    return [Aim.EVERY] if known.spare_used(fewest) else [Aim.EVERY, Aim.ALL_BUT_ONE]


def _named(layout: Layout, step: Step) -> tuple[Victim, ...]:
    """Name the victims of a step, the cheapest of each class."""
    chosen = []
    for path in step.victims:
        site, victim = layout.best(path)
        layout.mark(site, victim)
        chosen.append(victim)
    for victim in chosen:
        layout.unmark(layout.sites[victim.pod.node or ""], victim)
    return tuple(chosen)


def of_mixed(mixed: Mixed, view: View, known: Circumstances) -> Verdict:
    """Decide about pods of several kinds."""
    solution = solve(mixed)
    if isinstance(solution, Unsolved):
        state, refusal = mixed_obstacle(mixed, solution)
        nearest = solve(mixed, relaxed=True)
        board = MixedBoard(mixed, None if isinstance(nearest, Unsolved) else nearest)
        return _in_part(board, view, known, Verdict(state=state, refusal=refusal), mixed)
    proved = Verdict(evictions=solution.evictions, lower_bound=solution.bound)
    board = MixedBoard(mixed, solution)
    if not solution.evictions:
        return _waiting(board, view, known, mixed)
    aims = _aims(known, solution.evictions)
    for aim in aims:
        found = _foreseen(board, view, known, aim, forced=True)
        if found is not None:
            return _with(proved, found)
    predicted, waits = _predicted(board, view, known, aims)
    if predicted is not None:
        return _with(proved, predicted)
    if waits is not None:
        return _refused(proved, State.VIOLATED, waits.reason, waits.message)
    return _in_part(board, view, known, _unforced(proved, None, None, known, complete=False), mixed)


def _waiting(board: Board, view: View, known: Circumstances, problem: Uniform | Mixed) -> Verdict:
    """Decide where everything can stand right without an eviction: pods that wait may be stuck all the same."""
    stuck = [pod for pod in board.sorted.waiting if not feasible(pod, view)]
    if not stuck:
        waits = f"{problem.pending} pods without a node will bring it right"
        return _refused(Verdict(), State.VIOLATED, Reason.GROUP_IN_FLIGHT, waits)
    message = f"no node admits pod {stuck[0].name}, though there is a place for every pod"
    refusal = Refusal(Reason.PLACEMENT_DEADLOCK, message)
    return _in_part(board, view, known, Verdict(state=State.UNFIXABLE, refusal=refusal), problem)


def _predicted(
    board: Board, view: View, known: Circumstances, aims: Sequence[Aim]
) -> tuple[_Found | None, Refusal | None]:
    """Look for a step that the scheduler is predicted to repay; or say why none is tried now."""
    if known.misses >= MOST_MISSES:
        return None, None
    if known.moving:
        return None, Refusal(Reason.GROUP_IN_FLIGHT, "a move that was only predicted is to be verified first")
    for aim in aims:
        found = _foreseen(board, view, known, aim, forced=False)
        if found is not None:
            return found, None
    return None, None


def _foreseen(board: Board, view: View, known: Circumstances, aim: Aim, *, forced: bool) -> _Found | None:
    try:
        found = foreseen_step(view, board, aim, known.effort.part(_FORESIGHT), forced=forced)
    except TooLarge:
        return None
    return None if found is None else _of(found, aim, forced=forced)


def _of(found: Foreseen, aim: Aim, *, forced: bool) -> _Found:
    return _Found((found.victim,), 1, forced, aim is Aim.ALL_BUT_ONE, found.landing, found.out)


def _in_part(board: Board, view: View, known: Circumstances, otherwise: Verdict, problem: Uniform | Mixed) -> Verdict:
    """Repair what can be repaired of a component that cannot be brought right as a whole."""
    found: _Found | None = None
    if isinstance(problem, Uniform):
        layout = problem.layout
        step = next_step(Standing(layout.root, problem.pending), layout.bounds, WIDEST, Aim.PART)
        if step.victims:
            found = _Found(_named(layout, step), step.needed)
    else:
        found = _foreseen(board, view, known, Aim.PART, forced=True)
    if found is None and known.misses < MOST_MISSES and not known.moving:
        found = _foreseen(board, view, known, Aim.PART, forced=False)
    return otherwise if found is None else _with(otherwise, found)


def _with(verdict: Verdict, found: _Found) -> Verdict:
    return Verdict(
        state=verdict.state,
        refusal=verdict.refusal,
        evictions=verdict.evictions,
        lower_bound=verdict.lower_bound,
        victims=found.victims,
        needed=found.needed,
        out=found.out,
        forced=found.forced,
        spare=found.spare,
        landing=found.landing,
    )


def _refused(verdict: Verdict, state: State, reason: Reason, message: str) -> Verdict:
    return Verdict(
        state=state,
        refusal=Refusal(reason, message),
        evictions=verdict.evictions,
        lower_bound=verdict.lower_bound,
    )


def _unforced(
    proved: Verdict, now: Standing | None, layout: Layout | None, known: Circumstances, *, complete: bool
) -> Verdict:
    """Say why no step leads to the end: proved, or only not found."""
    if now is not None and layout is not None and out_of_reach(now, layout.bounds):
        message = f"{proved.evictions} evictions would do on paper, but no sequence of placements ever gets there"
        return _refused(proved, State.UNFIXABLE, Reason.UNREACHABLE, message)
    message = "no eviction was found after which the scheduler must, or by its scores will, bring it nearer to right"
    if known.misses >= MOST_MISSES:
        message = f"{known.misses} moves in a row did not come out as predicted, and nothing forces them to"
    elif not complete:
        message = "too many ways for the scheduler to go: the search for a safe step was cut short"
    return _refused(proved, State.UNFIXABLE, Reason.NOT_FORCED, message)
