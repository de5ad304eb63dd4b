"""The state of one problem while it is decided, and the resulting decision."""

from collections.abc import Sequence
from functools import cached_property
from typing import Generic, TypeVar

from msgspec import Struct, structs

from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.moves import MAX_FAILED_PREDICTIONS
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.words import plural
from rebalancer.planning.diagnosis.relaxation import Relaxable
from rebalancer.planning.plan import Proof
from rebalancer.planning.problem.protocol import Problem, Step, StepSearch
from rebalancer.planning.scope.budgets import BudgetLedger, KeptPods
from rebalancer.planning.scope.victims import RankedPods
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.planning.search.report import Attempt, Method
from rebalancer.planning.steps.lookahead import LookaheadModel, lookahead_step
from rebalancer.scheduling.place import any_feasible, top_scoring
from rebalancer.scheduling.sampling import count_examined_nodes
from rebalancer.scheduling.scoring import best_of_all
from rebalancer.scheduling.view import View

P = TypeVar("P", bound=Problem)


class Detour(Fact):
    """The repair may take more evictions than the minimum: no order of them is certain to reach it, or none was found.

    Up to `at_once` concurrent evictions, the search visited every order in which no excess grows in between; None if
    the search proves nothing.
    """

    minimum: int
    enough: int
    at_once: int | None

    def __str__(self) -> str:
        text = f"{plural(self.minimum, 'eviction')} would be enough by counting, but no order "
        if self.at_once is None:
            return f"{text}was found that is certain to lead there: the repair may take {self.enough}"
        within = f"with at most {plural(self.at_once, 'pod')} evicted at once"
        return (
            f"{text}is certain to lead there {within} and no violation made worse on the way: {self.enough} are enough"
        )


class ComponentContext(Struct, frozen=True, kw_only=True, gc=False):
    """The history of a component, and the budgets of its searches."""

    extra_goal: int | None = None
    """If the last extra eviction was not wasted, at most this many evictions are left; None if none was used."""
    failed_predictions: int = 0
    """How many predictions failed in a row."""
    moving: bool = False
    """Whether a move of the component is in flight."""
    lookahead: SearchBudget | None
    """The budget left for searches on the real nodes, None to leave them for later."""
    quick: SearchBudget
    """The budget of quick searches."""
    contingent: SearchBudget
    """The budget of contingent plans."""

    @property
    def predictions_failed(self) -> bool:
        """Whether so many predictions failed in a row that no further prediction is acted on."""
        return self.failed_predictions >= MAX_FAILED_PREDICTIONS

    @property
    def may_predict(self) -> bool:
        """Whether a prediction may be acted on."""
        return not self.predictions_failed and not self.moving

    def goals(self, evictions: int) -> Sequence[StepGoal]:
        """Return the goals to try for a step, in order; the extra eviction of a repair can be used once."""
        used = self.extra_goal is not None and evictions > self.extra_goal
        return [StepGoal.FULL] if used else [StepGoal.FULL, StepGoal.ONE_EXTRA]


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The decision about one problem."""

    state: State = State.VIOLATED
    refusal: Refusal | None = None
    evictions: int = 0
    """How many evictions the whole repair takes, proved minimal if `optimal`."""
    lower_bound: int = 0
    """The least number of evictions, also if `evictions` is not optimal."""
    proved: Proof | None = None
    """Why no fewer evictions are enough."""
    detour: Detour | None = None
    """Why the repair may take more than the minimum."""
    step: Step | None = None
    """The next step, None if there is none: `refusal` says why."""
    forced: bool = True
    """The scheduler can only repay the step."""
    extra: bool = False
    """The step may take the repair's one eviction above the minimum."""
    method: Method | None = None
    """The method that gave the step."""
    attempts: tuple[Attempt, ...] = ()
    """All methods that were tried."""
    needs_lookahead: bool = False
    """Searches on the real nodes were left for later."""
    kept: KeptPods | None = None
    """The pods that the budgets never let go, if the step takes one of them."""
    relaxable: Relaxable | None = None
    """The component for which a relaxation can be searched, if it is infeasible."""
    ranked: RankedPods | None = None
    """The pods of one class from which the step was chosen."""

    @property
    def optimal(self) -> bool:
        """Whether the number of evictions is proved."""
        return bool(self.evictions) and self.evictions == self.lower_bound


class Case(Generic[P]):
    """One problem while it is decided; the methods search through it, and it records what they tried."""

    def __init__(
        self, problem: P, view: View, context: ComponentContext, ledger: BudgetLedger, limits: SearchLimits
    ) -> None:
        self.problem = problem
        self.context = context
        self._view = view
        self._ledger = ledger
        self._limits = limits
        self.attempts: list[Attempt] = []
        """Every method that was tried, in order."""
        self.last_search = StepSearch()
        """The last search without the real nodes."""
        self.deferred = False
        """Whether a search on the real nodes was left for later."""

    @cached_property
    def concurrent(self) -> int:
        """How many pods may be evicted at once; the usual limit if budgets allow none, as they then refuse the step."""
        return self._ledger.most_concurrent(self.problem.victims) or self._limits.step_evictions

    def concurrent_in_part(self, refused: Decision) -> int:
        """Return how many pods a step of a partial repair may evict; budgets count if a whole repair is known."""
        most = self._limits.step_evictions
        return min(self.concurrent, most) if refused.evictions else most

    def take(self, decision: Decision, search: StepSearch) -> Decision | None:
        """Add the step of a search to a decision, or its final refusal; None if other searches may answer."""
        self.last_search = search
        self.attempts += search.attempts
        step = search.step
        if step is not None:
            detour = self._detour(decision, step) if step.extra else None
            method, ranked = _answering(search.attempts), self.problem.pods.ranked
            return structs.replace(decision, step=step, method=method, detour=detour, ranked=ranked)
        if search.final:
            return structs.replace(decision, refusal=search.refusal)
        return None

    def look_ahead(self, decision: Decision, goal: StepGoal, *, forced: bool, quick: bool = False) -> Decision | None:
        """Add a step that keeps the goal on the real nodes to a decision; None if no such step is found."""
        whole = self.context.lookahead
        if whole is None:
            self.deferred = True
            return None
        budget = (self.context.quick if quick else whole).part(self._limits.lookahead_nodes)
        choose = any_feasible if forced else top_scoring
        predicted, attempt = lookahead_step(
            self._view, self._lookahead_model, goal, budget, self._limits, choose=choose, quick=quick
        )
        self.attempts.append(attempt)
        if predicted is None:
            return None
        step = Step(victims=(predicted.victim,), concurrent=predicted.concurrent, nodes=predicted.nodes)
        extra = goal is StepGoal.ONE_EXTRA
        detour = Detour(decision.evictions, decision.evictions + 1, None) if extra else None
        return structs.replace(
            decision,
            step=step,
            forced=forced,
            extra=extra,
            method=attempt.method,
            detour=detour,
            ranked=self.problem.pods.ranked,
        )

    def find_deciding_sample(self, decision: Decision) -> tuple[int, int] | None:
        """Return (scored, feasible nodes) if scoring all feasible nodes would give a step.

        None if the sample makes no difference, or no step is found quickly.
        """
        nodes = len(self._view.nodes.by_name)
        examined = count_examined_nodes(nodes, self._view.profile.percentage)
        if examined == nodes or self.context.lookahead is None:
            return None
        differs = False

        def choose_of_all(pod: Pod, view: View, feasible: frozenset[str]) -> frozenset[str]:
            nonlocal differs
            chosen = best_of_all(pod, view, feasible)
            differs = differs or chosen != top_scoring(pod, view, feasible)
            return chosen

        for goal in self.context.goals(decision.evictions):
            budget = self.context.quick.part(self._limits.lookahead_nodes)
            step, _ = lookahead_step(
                self._view, self._lookahead_model, goal, budget, self._limits, choose=choose_of_all, quick=True
            )
            if step is not None:
                return (examined, nodes) if differs else None
        return None

    def _detour(self, decision: Decision, step: Step) -> Detour:
        at_once = min(self.concurrent, self._limits.concurrent)
        return Detour(decision.evictions, decision.evictions + step.extra, at_once)

    @cached_property
    def _lookahead_model(self) -> LookaheadModel:
        assert self.context.lookahead is not None, "searches on the real nodes have a budget"
        return self.problem.lookahead_model(self.context.lookahead)


def _answering(attempts: Sequence[Attempt]) -> Method | None:
    return next((attempt.method for attempt in attempts if attempt.answered), None)
