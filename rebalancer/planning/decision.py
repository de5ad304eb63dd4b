"""Decide about one problem: the proof, the next step and the method that gave it, or why there is no step.

The methods are tried in this order; each proves less or costs more than the one before:

1. a certificate: arithmetic shows that any minimal set of victims is a step;
2. a step that the scheduler is forced to repay: from a contingent plan for the whole repair, or one that is safe by
   itself; for several pod classes by lookahead on the real nodes, first with a quick search;
3. a step that the scheduler is predicted to repay, by lookahead with its scores;
4. a part of the repair, forced or predicted.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from rebalancer.model.moves import MAX_FAILED_PREDICTIONS
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.causes import (
    FailedPredictions,
    NoNodeAdmits,
    NoSafeEviction,
    PendingWillSatisfy,
    PredictionUnverified,
    Refusal,
    StepSearchLimit,
)
from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.problem.protocol import Infeasible, Problem, Step, StepSearch
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.planning.search.report import Attempt, Method, merge_attempts
from rebalancer.planning.steps.lookahead import LookaheadModel, lookahead_step
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View


class ComponentContext(Struct, frozen=True, kw_only=True, gc=False):
    """The history of a component, and the budgets of its searches.

    `extra_goal`: at most so many evictions are left if the last extra eviction was not wasted; None if none was used.
    `failed_predictions` is how many failed in a row; `moving`: a move of the component is in flight. `lookahead` is the
    budget left for searches on the real nodes, None to leave them for later; `quick` is the budget of quick searches,
    and `contingent` that of contingent plans.
    """

    extra_goal: int | None = None
    failed_predictions: int = 0
    moving: bool = False
    lookahead: SearchBudget | None
    quick: SearchBudget
    contingent: SearchBudget

    @property
    def may_predict(self) -> bool:
        """Whether a prediction may be acted on."""
        return self.failed_predictions < MAX_FAILED_PREDICTIONS and not self.moving

    def goals(self, evictions: int) -> Sequence[StepGoal]:
        """Return the goals of a step in turn: the extra eviction of a repair is used once."""
        used = self.extra_goal is not None and evictions > self.extra_goal
        return [StepGoal.FULL] if used else [StepGoal.FULL, StepGoal.ONE_EXTRA]


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The decision about one problem.

    `evictions` is the number that the whole repair takes, proved minimal where `optimal`; `lower_bound` holds in any
    case. `step` is the next step, None if there is none: `refusal` says why. `forced`: the scheduler can only repay it.
    `extra`: it may take the repair's one eviction above the minimum. `method` gave the step; `attempts` are all methods
    that were tried. `needs_lookahead`: searches on the real nodes were left for later. `infeasible` are the pod classes
    of a component for which a relaxation can be searched.
    """

    state: State = State.VIOLATED
    refusal: Refusal | None = None
    evictions: int = 0
    lower_bound: int = 0
    step: Step | None = None
    forced: bool = True
    extra: bool = False
    method: Method | None = None
    attempts: tuple[Attempt, ...] = ()
    needs_lookahead: bool = False
    infeasible: PodClasses | None = None

    @property
    def optimal(self) -> bool:
        """Whether the number of evictions is proved."""
        return bool(self.evictions) and self.evictions == self.lower_bound


def decide(
    problem: Problem, view: View, context: ComponentContext, ledger: BudgetLedger, limits: SearchLimits
) -> Decision:
    """Decide about one problem; `ledger` says how many evictions its budgets ever allow at once."""
    return _Decider(problem, view, context, limits).decide(ledger)


class _Decider:
    """One decision; it collects the attempts."""

    def __init__(self, problem: Problem, view: View, context: ComponentContext, limits: SearchLimits) -> None:
        self._problem = problem
        self._view = view
        self._context = context
        self._limits = limits
        self._attempts: list[Attempt] = []
        self._deferred = False
        self._lookahead_model: LookaheadModel | None = None

    def decide(self, ledger: BudgetLedger) -> Decision:
        """Return the decision with everything that was tried."""
        decision = self._decide(ledger)
        return structs.replace(decision, attempts=merge_attempts(self._attempts), needs_lookahead=self._deferred)

    def _decide(self, ledger: BudgetLedger) -> Decision:
        problem, widest = self._problem, self._limits.step_evictions
        minimum = problem.minimum()
        if isinstance(minimum, Infeasible):
            refused = Decision(state=minimum.state, refusal=minimum.refusal, infeasible=minimum.classes)
            if minimum.refusal.reason is Reason.ZONE_IN_MAINTENANCE:
                return refused
            return self._repair_partially(refused, widest)
        proved = Decision(evictions=minimum.evictions, lower_bound=minimum.lower_bound)
        if not minimum.evictions:
            return self._wait()
        certified = self._take(proved, problem.certified_step())
        if certified is not None:
            return certified
        # Where nobody may ever go, the budgets say so of the step.
        victims = (victim for on_node in problem.pods.movable.values() for victim in on_node)
        concurrent = ledger.most_concurrent(victims) or widest
        search = problem.forced_step(concurrent, self._context.contingent)
        forced = self._take(proved, search)
        if forced is not None:
            return forced
        return (
            self._look_ahead_forced(proved)
            or self._predict(proved)
            or self._repair_partially(self._refuse(proved, search), concurrent)
        )

    def _take(self, proved: Decision, search: StepSearch) -> Decision | None:
        """Add the step of a search to what is proved, or its final refusal; None where other searches may answer."""
        self._attempts += search.attempts
        if search.step is not None:
            return structs.replace(proved, step=search.step, method=_answering(search.attempts))
        if search.final:
            return structs.replace(proved, refusal=search.refusal)
        return None

    def _look_ahead_forced(self, proved: Decision) -> Decision | None:
        """Search for a forced step on the real nodes, where classes of equal nodes are not precise enough."""
        if not self._problem.always_looks_ahead:
            return None
        for goal in self._context.goals(proved.evictions):
            for quick in (True, False):
                decision = self._look_ahead(proved, goal, forced=True, quick=quick)
                if decision is not None:
                    return decision
        return None

    def _predict(self, proved: Decision) -> Decision | None:
        """Search for a step that the scheduler is predicted to repay, or say that one is to be verified first."""
        if self._context.failed_predictions >= MAX_FAILED_PREDICTIONS:
            return None
        if self._context.moving:
            return structs.replace(proved, refusal=Refusal(Reason.GROUP_IN_FLIGHT, PredictionUnverified()))
        for goal in self._context.goals(proved.evictions):
            decision = self._look_ahead(proved, goal, forced=False)
            if decision is not None:
                return decision
        return None

    def _look_ahead(self, proved: Decision, goal: StepGoal, *, forced: bool, quick: bool = False) -> Decision | None:
        """Add a step that keeps the goal on the real nodes to what is proved; None where no such step is found."""
        whole = self._context.lookahead
        if whole is None:
            self._deferred = True
            return None
        budget = (self._context.quick if quick else whole).part(self._limits.lookahead_nodes)
        predicted, attempt = lookahead_step(
            self._view, self._model(whole), goal, budget, self._limits, forced=forced, quick=quick
        )
        self._attempts.append(attempt)
        if predicted is None:
            return None
        step = Step(victims=(predicted.victim,), concurrent=predicted.concurrent, nodes=predicted.nodes)
        extra = goal is StepGoal.ONE_EXTRA
        return structs.replace(proved, step=step, forced=forced, extra=extra, method=attempt.method)

    def _model(self, budget: SearchBudget) -> LookaheadModel:
        if self._lookahead_model is None:
            self._lookahead_model = self._problem.lookahead_model(budget)
        return self._lookahead_model

    def _wait(self) -> Decision:
        """Decide where no eviction is needed by counting: a pending pod that no node admits may still need one."""
        pods = self._problem.pods
        stuck = next((pod for pod in pods.waiting if not feasible(pod, self._view)), None)
        if stuck is None:
            return Decision(refusal=Refusal(Reason.GROUP_IN_FLIGHT, PendingWillSatisfy(pods.missing)))
        refusal = Refusal(Reason.PLACEMENT_DEADLOCK, NoNodeAdmits(stuck.name))
        refused = Decision(state=State.UNFIXABLE, refusal=refusal)
        return self._repair_partially(refused, self._limits.step_evictions)

    def _repair_partially(self, otherwise: Decision, concurrent: int) -> Decision:
        """Repair what can be repaired of a component that cannot be repaired as a whole."""
        search = self._problem.partial_step(min(concurrent, self._limits.step_evictions))
        decision = self._take(otherwise, search)
        if decision is None and self._problem.always_looks_ahead:
            decision = self._look_ahead(otherwise, StepGoal.PARTIAL, forced=True)
        if decision is None and self._context.may_predict:
            decision = self._look_ahead(otherwise, StepGoal.PARTIAL, forced=False)
        return decision or otherwise

    def _refuse(self, proved: Decision, search: StepSearch) -> Decision:
        """Refuse with the reason why there is no step: it is proved, or none was found."""
        if search.refusal is not None:
            return structs.replace(proved, state=search.state, refusal=search.refusal)
        refusal = self._problem.proof_of_no_step() or Refusal(Reason.NOT_FORCED, self._why_no_step(search))
        return structs.replace(proved, state=State.UNFIXABLE, refusal=refusal)

    def _why_no_step(self, search: StepSearch) -> FailedPredictions | StepSearchLimit | NoSafeEviction:
        context = self._context
        if context.failed_predictions >= MAX_FAILED_PREDICTIONS:
            return FailedPredictions(context.failed_predictions)
        if not search.complete or self._deferred or (context.lookahead is not None and context.lookahead.limit_reached):
            return StepSearchLimit()
        return NoSafeEviction()


def _answering(attempts: Sequence[Attempt]) -> Method | None:
    return next((attempt.method for attempt in attempts if attempt.answered), None)
