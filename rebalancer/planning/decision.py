"""Decide about one problem: the proof, the next step and the method that gave it, or why there is no step."""

from collections.abc import Iterable

from msgspec import structs

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason, State
from rebalancer.model.words import plural
from rebalancer.planning.case import Case, ComponentContext, Decision
from rebalancer.planning.methods import PART_OF_REPAIR, WHOLE_REPAIR, SearchMethod
from rebalancer.planning.problem.protocol import Infeasible, Problem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.search.report import merge_attempts
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View


class PendingWillSatisfy(Refusal):
    """Scheduling the pending pods repairs it."""

    reason = Reason.GROUP_IN_FLIGHT
    pods: int

    def __str__(self) -> str:
        return (
            f"waiting for {plural(self.pods, 'pending pod')}: scheduling {'it' if self.pods == 1 else 'them'} will "
            "satisfy all"
        )


class NoNodeAdmits(Refusal):
    """No node admits a pending pod, though a placement of all pods exists."""

    reason = Reason.PLACEMENT_DEADLOCK
    pod: str

    def __str__(self) -> str:
        return f"no node admits pod {self.pod}, although a placement of all pods exists"


class FailedPredictions(Refusal):
    """The replacements of several moves in a row were not placed as predicted, and nothing forces them to be."""

    reason = Reason.NOT_FORCED
    moves: int

    def __str__(self) -> str:
        return (
            f"{plural(self.moves, 'move')} in a row did not come out as predicted; nothing forces the scheduler to do "
            "better"
        )


class NoSafeEviction(Refusal):
    """The scheduler could place the replacement of every candidate where it does not help."""

    reason = Reason.NOT_FORCED

    def __str__(self) -> str:
        return "no safe eviction found: the scheduler could place the replacement where it does not help"


class StepSearchLimit(Refusal):
    """The search for a safe step reached its limit."""

    reason = Reason.NOT_FORCED

    def __str__(self) -> str:
        return "the search for a safe eviction reached its limit; it is tried again each cycle"


def decide(
    problem: Problem, view: View, context: ComponentContext, ledger: BudgetLedger, limits: SearchLimits
) -> Decision:
    """Decide about one problem; `ledger` says how many evictions its budgets ever allow at once."""
    case = Case(problem, view, context, ledger, limits)
    decision = _decide(case, view)
    return structs.replace(decision, attempts=merge_attempts(case.attempts), needs_lookahead=case.deferred)


def _decide(case: Case, view: View) -> Decision:
    """Decide: try the methods for the whole repair where there is one, then those for a part of it."""
    minimum = case.problem.minimum()
    if isinstance(minimum, Infeasible):
        refused = Decision(state=minimum.state, refusal=minimum.refusal, relaxable=minimum.relaxable)
        if minimum.refusal.reason is Reason.ZONE_IN_MAINTENANCE:
            return refused
    elif minimum.evictions:
        proved = Decision(evictions=minimum.evictions, lower_bound=minimum.lower_bound, proved=minimum.proof)
        decision = _try(WHOLE_REPAIR, case, proved)
        if decision is not None:
            return decision
        refused = _refuse(case, proved)
    else:
        refused = _wait(case, view)
        if refused.state is State.VIOLATED:
            return refused  # nodes admit the pending pods
    return _try(PART_OF_REPAIR, case, refused) or refused


def _try(methods: Iterable[SearchMethod], case: Case, decision: Decision) -> Decision | None:
    """Return what the first method that finds something makes of a decision; None if none does."""
    for method in methods:
        if method.applies(case):
            result = method.search(case, decision)
            if result is not None:
                return result
    return None


def _wait(case: Case, view: View) -> Decision:
    """Decide where no eviction is needed by counting: a pending pod that no node admits may still need one."""
    pods = case.problem.pods
    stuck = next((pod for pod in pods.waiting if not feasible(pod, view)), None)
    if stuck is None:
        return Decision(refusal=PendingWillSatisfy(pods.missing))
    return Decision(state=State.UNFIXABLE, refusal=NoNodeAdmits(stuck.name))


def _refuse(case: Case, proved: Decision) -> Decision:
    """Refuse with the reason why there is no step of the whole repair: it is proved, or none was found."""
    search = case.last_search
    if search.refusal is not None:
        return structs.replace(proved, state=search.state, refusal=search.refusal)
    refusal = case.problem.proof_of_no_step() or _why_no_step(case)
    return structs.replace(proved, state=State.UNFIXABLE, refusal=refusal)


def _why_no_step(case: Case) -> FailedPredictions | StepSearchLimit | NoSafeEviction:
    context = case.context
    if context.predictions_failed:
        return FailedPredictions(context.failed_predictions)
    looked_ahead = context.lookahead is not None and context.lookahead.limit_reached
    if not case.last_search.complete or case.deferred or looked_ahead:
        return StepSearchLimit()
    return NoSafeEviction()
