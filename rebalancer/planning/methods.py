"""The methods that search for the next step of a repair, in the order in which they are tried.

Each proves less, or costs more, than the one before. `WHOLE_REPAIR` is tried where a placement satisfies everything:

* a certificate: arithmetic shows that any minimal set of victims is a step;
* a contingent plan: the whole repair is forced, each eviction chosen after the last placement;
* a forced step: it is safe by itself, whatever follows;
* lookahead on the real nodes for a step that the scheduler is forced to repay, where pods are of several classes;
* lookahead for a step that the scheduler is predicted to repay, by its scores.

Where these find nothing, and where no placement satisfies everything, `PART_OF_REPAIR` searches for a step after which
what some constraint needs by itself falls: forced, by counting and on the real nodes, or predicted.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason
from rebalancer.planning.case import Case, Decision
from rebalancer.planning.search.driver import StepGoal


class PredictionUnverified(Refusal):
    """A predicted move of the component is to be verified first."""

    reason = Reason.GROUP_IN_FLIGHT

    def __str__(self) -> str:
        return "waiting until the last predicted move is verified"


class SearchMethod(NamedTuple):
    """One method: whether it applies to a problem, and the search.

    `search` gets the case and what is decided so far; it returns that with a step or a final refusal, None if the next
    method may find a step.
    """

    name: str
    applies: Callable[[Case], bool]
    search: Callable[[Case, Decision], Decision | None]


def _always(_: Case) -> bool:
    return True


def _always_looks_ahead(case: Case) -> bool:
    """Return whether classes of equal nodes are not precise enough for the problem."""
    return case.problem.always_looks_ahead


def _trusts_predictions(case: Case) -> bool:
    return not case.context.predictions_failed


def _may_predict(case: Case) -> bool:
    return case.context.may_predict


def _certificate(case: Case, proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.certified_step())


def _contingent_plan(case: Case, proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.contingent_step(case.concurrent, case.context.contingent))


def _forced_step(case: Case, proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.forced_step(case.concurrent, case.context.contingent))


def _forced_lookahead(case: Case, proved: Decision) -> Decision | None:
    """Search with each goal, first quickly."""
    for goal in case.context.goals(proved.evictions):
        for quick in (True, False):
            decision = case.look_ahead(proved, goal, forced=True, quick=quick)
            if decision is not None:
                return decision
    return None


def _predicted_lookahead(case: Case, proved: Decision) -> Decision | None:
    """Search with each goal, unless a prediction is to be verified first."""
    if case.context.moving:
        return structs.replace(proved, refusal=PredictionUnverified())
    for goal in case.context.goals(proved.evictions):
        decision = case.look_ahead(proved, goal, forced=False)
        if decision is not None:
            return decision
    return None


def _part_by_counting(case: Case, refused: Decision) -> Decision | None:
    return case.take(refused, case.problem.partial_step(case.concurrent_in_part(refused)))


def _part_by_forced_lookahead(case: Case, refused: Decision) -> Decision | None:
    return case.look_ahead(refused, StepGoal.PARTIAL, forced=True)


def _part_by_predicted_lookahead(case: Case, refused: Decision) -> Decision | None:
    return case.look_ahead(refused, StepGoal.PARTIAL, forced=False)


WHOLE_REPAIR = (
    SearchMethod("certificate", applies=_always, search=_certificate),
    SearchMethod("contingent plan", applies=_always, search=_contingent_plan),
    SearchMethod("forced step", applies=_always, search=_forced_step),
    SearchMethod("forced lookahead", applies=_always_looks_ahead, search=_forced_lookahead),
    SearchMethod("predicted lookahead", applies=_trusts_predictions, search=_predicted_lookahead),
)
"""Steps that bring the whole repair nearer."""

PART_OF_REPAIR = (
    SearchMethod("partial step", applies=_always, search=_part_by_counting),
    SearchMethod("partial forced lookahead", applies=_always_looks_ahead, search=_part_by_forced_lookahead),
    SearchMethod("partial predicted lookahead", applies=_may_predict, search=_part_by_predicted_lookahead),
)
"""Steps that repair a part."""
