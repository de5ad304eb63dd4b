"""What is to be done about one problem: the proof, the next step, or the reason why there is none."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from rebalancer.model.moves import MAX_FAILED_PREDICTIONS
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.obstacles import diagnose_multi_class, diagnose_single_class
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.multi_class.solve import prefer_cheap_victims as cheapest_solution
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import minimum_repair
from rebalancer.planning.single_class.selection import select_victims
from rebalancer.planning.steps.boards import MultiClassBoard, SingleClassBoard
from rebalancer.planning.steps.contingent import forced_step
from rebalancer.planning.steps.forced import WIDEST, SearchBudget, SearchLimitReached, Step, StepGoal, next_step
from rebalancer.planning.steps.forced import SearchState as Standing
from rebalancer.planning.steps.lookahead import Board, lookahead_step
from rebalancer.planning.steps.reachability import is_unreachable
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View

_FORESIGHT = 6_000
"""How much one search of a component on the real nodes may cost, in nodes looked at."""

_NEAREST = 1_000_000
"""What the arrangement may take that comes nearest to what is asked; where nothing is right, it says who goes first."""

COMPONENT_FORESIGHT = 12_000
"""The same for all searches of a component."""

LEAST_FORESIGHT = 8_000
"""The same where there are many components: fewer have their turn then, not less of it."""

MOST_FORESIGHT = 40_000
"""The same for all searches of one plan."""

MOST_HASTE = 20_000
"""What all searches in haste of one plan may cost beside that: what they look at in vain is not missing later."""

MOST_MOVES = 150_000
"""How many states all games of one plan may look at."""


class ComponentContext(Struct, frozen=True, kw_only=True, gc=False):
    """What is remembered of a component: the promise of a step that might take one eviction to spare, misses, moves.

    `effort` is what is left for looking ahead on the real nodes in this plan, `haste` for doing so in haste, and
    `moves` for searching games to the end.
    """

    spare_goal: int | None = None
    failed_predictions: int = 0
    moving: bool = False
    effort: SearchBudget = field(default_factory=lambda: SearchBudget(MOST_FORESIGHT))
    haste: SearchBudget = field(default_factory=lambda: SearchBudget(MOST_HASTE))
    moves: SearchBudget = field(default_factory=lambda: SearchBudget(MOST_MOVES))

    def spare_used(self, fewest: int) -> bool:
        """Say whether the repair has taken its eviction to spare, if it is so far from right now."""
        return self.spare_goal is not None and fewest > self.spare_goal


class Decision(Struct, frozen=True, kw_only=True, gc=False):
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


def decide_single_class(
    problem: SingleClassProblem, view: View, known: ComponentContext, room: Callable[[], int]
) -> Decision:
    """Decide about equal pods; `room` says how many of them may ever be out at once."""
    layout, pending = problem.layout, problem.pending
    solved = minimum_repair(layout.root, layout.bounds, pending)
    if solved is None:
        state, refusal = diagnose_single_class(problem)
        if refusal.reason is Reason.ZONE_IN_MAINTENANCE:
            return Decision(state=state, refusal=refusal)
        return _in_part(SingleClassBoard(problem, None), view, known, Decision(state=state, refusal=refusal), problem)
    fewest = solved[0]
    proved = Decision(evictions=fewest, lower_bound=fewest)
    if not fewest:
        return _waiting(SingleClassBoard(problem, 0), view, known, problem)
    windows = certify(layout.root, layout.bounds, pending, problem.lost)
    if windows is not None:
        return replace(proved, victims=tuple(select_victims(layout, windows, fewest)))
    if problem.lost:
        taken = "room that it needs may be taken by what is on its way; planned anew after"
        return replace(proved, refusal=Refusal(Reason.GROUP_IN_FLIGHT, taken))
    now, board = Standing(layout.root, pending), SingleClassBoard(problem, fewest)
    most = room() or WIDEST  # where nobody may ever go, the budgets say so of the step
    step = forced_step(now, layout.bounds, min(fewest, WIDEST), out=most, effort=known.moves)
    if step.victims:
        return replace(proved, victims=_named(layout, step), needed=step.needed)
    found = _predicted(board, view, known, proved)
    if found is not None:
        return found
    otherwise = _unforced(proved, known, now, layout, complete=step.complete)
    if step.needed > most:
        exceeding = f"{step.needed} must be out at once, and its budgets never allow over {most}"
        otherwise = replace(proved, state=State.UNFIXABLE, refusal=Refusal(Reason.STEP_EXCEEDS_BUDGET, exceeding))
    return _in_part(board, view, known, otherwise, problem, most)


def _aims(known: ComponentContext, fewest: int) -> Sequence[StepGoal]:
    return [StepGoal.EVERY] if known.spare_used(fewest) else [StepGoal.EVERY, StepGoal.ALL_BUT_ONE]


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


def decide_multi_class(mixed: MultiClassProblem, view: View, known: ComponentContext) -> Decision:
    """Decide about pods of several kinds."""
    solution = solve(mixed)
    if isinstance(solution, Unsolved):
        state, refusal = diagnose_multi_class(mixed, solution)
        nearest = solve(mixed, relaxed=True, effort=_NEAREST)
        proven = isinstance(nearest, Solution) and nearest.evictions == nearest.bound
        if state is State.INFEASIBLE and isinstance(nearest, Solution) and proven:
            refusal = Refusal(refusal.reason, f"{refusal.message}; {_short_of(nearest)}")
        board = MultiClassBoard(mixed, None if isinstance(nearest, Unsolved) else nearest, known.effort)
        return _in_part(board, view, known, Decision(state=state, refusal=refusal), mixed)
    proved = Decision(evictions=solution.evictions, lower_bound=solution.bound)
    board = MultiClassBoard(mixed, cheapest_solution(mixed, solution), known.effort)
    if not solution.evictions:
        return _waiting(board, view, known, mixed)
    for aim in _aims(known, solution.evictions):
        for hasty in (True, False):
            found = _foreseen(board, view, known, aim, proved, forced=True, hasty=hasty)
            if found is not None:
                return found
    predicted = _predicted(board, view, known, proved)
    if predicted is not None:
        return predicted
    return _in_part(board, view, known, _not_forced(proved, known, complete=True), mixed)


def _short_of(nearest: Solution) -> str:
    """Say how near to what is asked an arrangement can come."""
    placeless = f"leaves {nearest.unplaced} without a place" if nearest.unplaced else ""
    exceeding = f"exceeds what is asked by {nearest.excess} in all" if nearest.excess else ""
    return f"the nearest arrangement {' and '.join(each for each in (placeless, exceeding) if each)}"


def _waiting(
    board: Board, view: View, known: ComponentContext, problem: SingleClassProblem | MultiClassProblem
) -> Decision:
    """Decide where everything can stand right without an eviction: pods that wait may be stuck all the same."""
    stuck = [pod for pod in board.sorted.waiting if not feasible(pod, view)]
    if not stuck:
        waits = f"{problem.pending} pods without a node will bring it right"
        return Decision(refusal=Refusal(Reason.GROUP_IN_FLIGHT, waits))
    message = f"no node admits pod {stuck[0].name}, though there is a place for every pod"
    refusal = Refusal(Reason.PLACEMENT_DEADLOCK, message)
    return _in_part(board, view, known, Decision(state=State.UNFIXABLE, refusal=refusal), problem)


def _predicted(board: Board, view: View, known: ComponentContext, proved: Decision) -> Decision | None:
    """Look for a step that the scheduler is predicted to repay, or say that one is to be waited for."""
    if known.failed_predictions >= MAX_FAILED_PREDICTIONS:
        return None
    if known.moving:
        waits = Refusal(Reason.GROUP_IN_FLIGHT, "a move that was only predicted is to be verified first")
        return replace(proved, refusal=waits)
    for aim in _aims(known, proved.evictions):
        found = _foreseen(board, view, known, aim, proved, forced=False)
        if found is not None:
            return found
    return None


def _foreseen(
    board: Board,
    view: View,
    known: ComponentContext,
    aim: StepGoal,
    proved: Decision,
    *,
    forced: bool,
    hasty: bool = False,
) -> Decision | None:
    """Return what is proved with a step that keeps what the aim promises; None where none is found."""
    effort = (known.haste if hasty else known.effort).part(_FORESIGHT)
    try:
        found = lookahead_step(view, board, aim, effort, forced=forced, hasty=hasty)
    except SearchLimitReached:
        return None
    if found is None:
        return None
    return replace(
        proved,
        victims=(found.victim,),
        out=found.out,
        forced=forced,
        spare=aim is StepGoal.ALL_BUT_ONE,
        landing=found.landing,
    )


def _in_part(
    board: Board,
    view: View,
    known: ComponentContext,
    otherwise: Decision,
    problem: SingleClassProblem | MultiClassProblem,
    most: int = WIDEST,
) -> Decision:
    """Repair what can be repaired of a component that cannot be brought right as a whole, `most` out at once."""
    found: Decision | None = None
    if isinstance(problem, SingleClassProblem):
        layout = problem.layout
        step = next_step(Standing(layout.root, problem.pending), layout.bounds, min(most, WIDEST), StepGoal.PART)
        if step.victims:
            found = replace(otherwise, victims=_named(layout, step), needed=step.needed)
    else:
        found = _foreseen(board, view, known, StepGoal.PART, otherwise, forced=True)
    if found is None and known.failed_predictions < MAX_FAILED_PREDICTIONS and not known.moving:
        found = _foreseen(board, view, known, StepGoal.PART, otherwise, forced=False)
    return found or otherwise


def _unforced(proved: Decision, known: ComponentContext, now: Standing, layout: Layout, *, complete: bool) -> Decision:
    """Say why no step leads to the end: proved, or only not found."""
    if is_unreachable(now, layout.bounds):
        message = f"{proved.evictions} evictions would do on paper, but no sequence of placements ever gets there"
        return replace(proved, state=State.UNFIXABLE, refusal=Refusal(Reason.UNREACHABLE, message))
    return _not_forced(proved, known, complete=complete)


def _not_forced(proved: Decision, known: ComponentContext, *, complete: bool) -> Decision:
    message = "no eviction was found after which the scheduler must, or by its scores will, bring it nearer to right"
    if known.failed_predictions >= MAX_FAILED_PREDICTIONS:
        message = f"{known.failed_predictions} moves in a row did not come out as predicted, and nothing forces them to"
    elif not complete or known.effort.cut:
        message = "too many ways for the scheduler to go: the search for a safe step was cut short"
    return replace(proved, state=State.UNFIXABLE, refusal=Refusal(Reason.NOT_FORCED, message))
