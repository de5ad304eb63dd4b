"""Decide about one problem: the proof, the next step and the method that gave it, or why there is no step.

Each kind of problem has its own methods, tried in order: each proves less, or costs more, than the method before.
Methods for the whole repair are tried if a placement satisfies everything:

* a certificate: arithmetic shows that any minimal set of victims is a step;
* a contingent plan: the whole repair is forced, each eviction chosen after the last placement;
* a forced step: it is safe by itself, whatever follows;
* lookahead on the real nodes for a step that the scheduler is forced to repay, where pods are of several classes;
* lookahead for a step that the scheduler is predicted to repay, by its scores.

If these find nothing, or if no placement satisfies everything, methods for a part of the repair search for a step that
reduces the evictions that some constraint alone needs. The step is forced (by counting or on the real nodes) or
predicted.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import structs

from rebalancer.model.facts import End, Refusal
from rebalancer.model.reasons import Reason, State
from rebalancer.model.words import plural
from rebalancer.planning.anti_affinity.unplanned import OthersNeedNotMove
from rebalancer.planning.case import Case, ComponentContext, Decision
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.protocol import Infeasible, Problem
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.search.report import merge_attempts
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View


class PendingWillSatisfy(Refusal):
    """Scheduling the pending pods repairs the component."""

    reason = Reason.GROUP_IN_FLIGHT
    pods: int

    def _end(self) -> End:
        return End(event=f"when the {plural(self.pods, 'pending pod')} {'has' if self.pods == 1 else 'have'} a node")

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
            f"{plural(self.moves, 'replacement')} in a row {'was' if self.moves == 1 else 'were'} not placed as "
            "predicted, and the scheduler may place the next one elsewhere, too"
        )


class NoSafeEviction(Refusal):
    """The scheduler could place the replacement of every candidate where it does not help."""

    reason = Reason.NOT_FORCED

    def __str__(self) -> str:
        return "no safe eviction found: the scheduler could place the replacement where it does not help"


class SampleDecides(Refusal):
    """The scheduler scores only a sample of the nodes, and the sample decides where the replacement is placed."""

    reason = Reason.NOT_FORCED
    scored: int
    nodes: int

    def __str__(self) -> str:
        return (
            f"no safe eviction found: of {plural(self.nodes, 'node')} kube-scheduler scores only {self.scored:,} for "
            "a pod, and the replacement's place depends on which. Set percentageOfNodesToScore: 100, so that it scores "
            "all of them and an eviction is safe"
        )


class StepSearchLimit(Refusal):
    """The search for a safe step reached its limit."""

    reason = Reason.NOT_FORCED
    ends = "when the search of a later cycle finds one"

    def __str__(self) -> str:
        return "the search for a safe eviction reached its limit; each cycle searches again"


class PredictionUnverified(Refusal):
    """A predicted move of the component is to be verified first."""

    reason = Reason.GROUP_IN_FLIGHT

    def _end(self) -> End:
        return End(event="when the last predicted move has ended", of_move=True)

    def __str__(self) -> str:
        return "waiting until the last predicted move is verified"


class DomainNotFree(Refusal):
    """A terminating pod keeps replacements from its domain by required podAntiAffinity until it is gone."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when pod {self.pod} is gone"
    pod: str
    node: str

    def __str__(self) -> str:
        return (
            f"pod {self.pod} is terminating on node {self.node}, and required podAntiAffinity keeps replacements from "
            "there until it is gone"
        )


P = TypeVar("P", bound=Problem)

Search = Callable[[Case[P], Decision], Decision | None]
"""A method: given the case and the decision so far, it returns that decision with a step or a final refusal.

None if the next method may find a step.
"""


class Methods(NamedTuple, Generic[P]):
    """The methods of one kind of problem: for the whole repair, for a part of it, to prove that there is no step."""

    whole: tuple[Search[P], ...]
    part: tuple[Search[P], ...]
    prove_none: Callable[[P], Refusal | None]


def _certificate(case: Case[SingleClassProblem], proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.certified_step())


def _contingent_plan(case: Case[SingleClassProblem], proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.contingent_step(case.concurrent, case.context.contingent))


def _forced_step(case: Case[SingleClassProblem], proved: Decision) -> Decision | None:
    return case.take(proved, case.problem.forced_step(case.concurrent, case.context.contingent))


def _forced_lookahead(case: Case[P], proved: Decision) -> Decision | None:
    """Search with each goal, first quickly."""
    return _look_ahead_forced(case, proved, case.context.goals(proved.evictions))


def _forced_by_the_fewest(case: Case[P], proved: Decision) -> Decision | None:
    """Search without an eviction above the minimum."""
    return _look_ahead_forced(case, proved, [StepGoal.FULL])


def _look_ahead_forced(case: Case[P], proved: Decision, goals: Iterable[StepGoal]) -> Decision | None:
    searches = (case.look_ahead(proved, goal, forced=True, quick=quick) for goal in goals for quick in (True, False))
    return next((found for found in searches if found is not None), None)


def _await_terminating(case: Case[MultiClassProblem], refused: Decision) -> Decision | None:
    """Wait for a terminating pod, because a term keeps other pods out of its domain until it is gone."""
    pod = case.problem.find_terminating()
    return None if pod is None else structs.replace(refused, refusal=DomainNotFree(pod.name, pod.node or ""))


def _predicted_lookahead(case: Case[P], proved: Decision) -> Decision | None:
    """Search with each goal, unless predictions have failed, or a prediction is to be verified first."""
    if case.context.predictions_failed:
        return None
    if case.context.moving:
        return structs.replace(proved, refusal=PredictionUnverified())
    for goal in case.context.goals(proved.evictions):
        decision = case.look_ahead(proved, goal, forced=False)
        if decision is not None:
            return decision
    return None


def _part_by_counting(case: Case[SingleClassProblem], refused: Decision) -> Decision | None:
    return case.take(refused, case.problem.partial_step(case.concurrent_in_part(refused)))


def _part_by_forced_lookahead(case: Case[P], refused: Decision) -> Decision | None:
    return case.look_ahead(refused, StepGoal.PARTIAL, forced=True)


def _part_by_predicted_lookahead(case: Case[P], refused: Decision) -> Decision | None:
    return case.look_ahead(refused, StepGoal.PARTIAL, forced=False) if case.context.may_predict else None


SINGLE_CLASS: Final[Methods[SingleClassProblem]] = Methods(
    whole=(_certificate, _contingent_plan, _forced_step, _predicted_lookahead),
    part=(_part_by_counting, _part_by_predicted_lookahead),
    prove_none=SingleClassProblem.proof_of_no_step,
)
"""Counting answers most questions; the rest is searched on the real nodes."""

MULTI_CLASS: Final[Methods[MultiClassProblem]] = Methods(
    whole=(_forced_lookahead, _predicted_lookahead),
    part=(_part_by_forced_lookahead, _part_by_predicted_lookahead),
    prove_none=lambda _: None,
)
"""Where pods of several classes are placed follows only from the real nodes."""


APART: Final[Methods[MultiClassProblem]] = Methods(
    whole=(_forced_by_the_fewest, _await_terminating),
    part=(_part_by_forced_lookahead,),
    prove_none=lambda _: None,
)
"""Where a required term is violated, no placement is left to scores, and no eviction is spent on a detour."""


def decide(
    problem: Problem, view: View, context: ComponentContext, ledger: BudgetLedger, limits: SearchLimits
) -> Decision:
    """Decide about one problem; `ledger` has the most evictions that its budgets ever allow at once."""
    if isinstance(problem, SingleClassProblem):
        return _decide(Case(problem, view, context, ledger, limits), view, SINGLE_CLASS)
    assert isinstance(problem, MultiClassProblem), "pods are of one class or of several"
    methods = APART if problem.component.terms else MULTI_CLASS
    return _decide(Case(problem, view, context, ledger, limits), view, methods)


def _decide(case: Case[P], view: View, methods: Methods[P]) -> Decision:
    decision = _find_step(case, view, methods)
    return structs.replace(decision, attempts=merge_attempts(case.attempts), needs_lookahead=case.deferred)


def _find_step(case: Case[P], view: View, methods: Methods[P]) -> Decision:
    """Try the methods for the whole repair if one exists, then the methods for a part of it."""
    minimum = case.problem.minimum()
    if isinstance(minimum, Infeasible):
        refused = Decision(state=minimum.state, refusal=minimum.refusal, relaxable=minimum.relaxable)
        if minimum.refusal.reason is Reason.ZONE_IN_MAINTENANCE:
            return refused
    elif minimum.evictions:
        proved = Decision(evictions=minimum.evictions, lower_bound=minimum.lower_bound, proved=minimum.proof)
        decision = _try(methods.whole, case, proved)
        if decision is not None:
            return decision
        refused = _refuse(case, proved, methods)
    else:
        refused = _wait(case, view, methods)
        if refused.state is State.VIOLATED:
            return refused  # nodes admit the pending pods
    return _try(methods.part, case, refused) or refused


def _try(methods: tuple[Search[P], ...], case: Case[P], decision: Decision) -> Decision | None:
    """Return the decision of the first method that finds something; None if none does."""
    return next(filter(None, (method(case, decision) for method in methods)), None)


def _wait(case: Case[P], view: View, methods: Methods[P]) -> Decision:
    """Decide if counting needs no eviction: a pending pod that no node admits may still need an eviction."""
    pods = case.problem.pods
    stuck = next((pod for pod in pods.waiting if not feasible(pod, view)), None)
    if stuck is None and not pods.missing:
        # Pending pods are the only reason for constraints and limits; a violated term may concern staying pods only.
        return Decision(state=State.UNFIXABLE, refusal=OthersNeedNotMove())
    if stuck is None:
        return Decision(refusal=PendingWillSatisfy(pods.missing))
    return Decision(state=State.UNFIXABLE, refusal=methods.prove_none(case.problem) or NoNodeAdmits(stuck.name))


def _refuse(case: Case[P], proved: Decision, methods: Methods[P]) -> Decision:
    """Refuse a step of the whole repair: it is proved that there is none, or none was found."""
    search = case.last_search
    if search.refusal is not None:
        return structs.replace(proved, state=search.state, refusal=search.refusal)
    refusal = methods.prove_none(case.problem) or _why_no_step(case, proved)
    return structs.replace(proved, state=State.UNFIXABLE, refusal=refusal)


def _why_no_step(case: Case[P], proved: Decision) -> Refusal:
    context = case.context
    if context.predictions_failed:
        return FailedPredictions(context.failed_predictions)
    sampled = case.find_deciding_sample(proved)
    if sampled is not None:
        return SampleDecides(*sampled)
    looked_ahead = context.lookahead is not None and context.lookahead.limit_reached
    if not case.last_search.complete or case.deferred or looked_ahead:
        return StepSearchLimit()
    return NoSafeEviction()
