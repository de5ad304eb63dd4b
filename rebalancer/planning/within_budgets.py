"""The choice among minimal repairs: a repair that the budgets allow now, else a repair allowed later.

Problem: budgets may tell the pods of one component apart, such as a budget over the pods with a role, or the limits of
two owners. Then the cheapest repair may wait, even forever, while another with equally few evictions is allowed. Idea:
treat a pod that may not be evicted as if it could not move. If the minimum does not change, every repair of what
remains is a minimal repair of the whole, with the same proof, and all methods work on it as they are. The first attempt
leaves only pods that may go now. The second adds pods that may go later. The last has all pods; then a budget is the
reason.

Example: zone a holds db-0, the leader, under a budget that allows nothing, and db-1; zone c is empty. With db-0 left
out one eviction is still enough: db-1 goes.

Cost: one check if the budgets do not distinguish the pods. Else up to three decisions about the component, and up to
three more if the budgets allow fewer concurrent evictions than the step takes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import structs

from rebalancer.planning.case import Decision
from rebalancer.planning.problem.protocol import Infeasible, Problem
from rebalancer.planning.scope.budgets import BudgetLedger, KeptPods, StepExceedsBudget
from rebalancer.planning.scope.victims import Allowed

P = TypeVar("P", bound=Problem)

_ROUNDS: Final = 3
"""How often pods whose budget allows fewer evictions than the step takes are put behind the others."""


def decide_within_budgets(problem: P, decide: Callable[[P], Decision], ledger: BudgetLedger) -> Decision:
    """Decide about a problem; `decide` is called with the problem, and with fewer movable pods."""
    if not ledger.may_differ(problem.component.members):
        return decide(problem)
    allowed = ledger.when_allowed(problem.victims, 1)
    if problem.component.terms and Allowed.NEVER in allowed.values():
        # If a term keeps two sides apart, the other side goes, even if that takes more evictions.
        without = problem.within(allowed, Allowed.LATER)
        problem = problem if isinstance(without.minimum(), Infeasible) else without
    choice = _Choice(problem, decide, ledger)
    allowed = ledger.when_allowed(problem.victims, 1)
    best = choice.decide(allowed)
    needed = _concurrency(best)
    if needed > 1 and not choice.count_granted(best):
        allowed = ledger.when_allowed(problem.victims, needed)
        best = choice.decide(allowed)
    return choice.prefer_plentiful(best, allowed)


def _concurrency(decision: Decision) -> int:
    """Return how many evictions at once a decision takes, or would take."""
    if decision.step is not None:
        return max(decision.step.needed, decision.step.concurrent)
    return decision.refusal.needed if isinstance(decision.refusal, StepExceedsBudget) else 1


class _Choice(Generic[P]):
    """The decisions about one problem, for several sets of pods that may move."""

    def __init__(self, problem: P, decide: Callable[[P], Decision], ledger: BudgetLedger) -> None:
        self._problem = problem
        self._decide = decide
        self._ledger = ledger

    def count_granted(self, decision: Decision) -> int:
        """Return how many victims of a decision's step the budgets let go now."""
        step = decision.step
        return 0 if step is None else self._ledger.count_granted(step.victims, step.needed, step.concurrent)

    def decide(self, allowed: Mapping[str, Allowed]) -> Decision:
        """Return a repair with the pods that are allowed soonest, or the result for all pods together."""
        if len(set(allowed.values())) < 2:
            return self._decide(self._problem)
        latests = sorted({max(when, Allowed.SCARCE) for when in allowed.values()})
        decisions: list[Decision] = []
        for latest in latests:
            narrowed = self._problem.within(allowed, latest)
            if latest is latests[-1] or self._takes_as_few(narrowed):
                decisions.append(self._decide(narrowed))
                if _is_whole(decisions[-1]):
                    break
        chosen = _first_of_its_kind(decisions)
        if latest is Allowed.NEVER and chosen.step is decisions[-1].step:
            chosen = self._name_kept(chosen, allowed)
        deferred = any(decision.needs_lookahead for decision in decisions)
        return structs.replace(self._with_proof(chosen), needs_lookahead=deferred)

    def prefer_plentiful(self, best: Decision, allowed: Mapping[str, Allowed]) -> Decision:
        """Return a repair of which the budgets let more pods go now than of `best`; `best` if none is found.

        Pods like the first victim that has to wait are put behind the others that may go now.
        """
        latest, granted = best, self.count_granted(best)
        for _ in range(_ROUNDS):
            step, many = latest.step, self.count_granted(latest)
            if step is None or not many or many == len(step.victims):
                break
            scarce = self._ledger.terms_of(step.victims[many])
            allowed = {
                **allowed,
                **{
                    victim.pod.uid: max(Allowed.SCARCE, allowed[victim.pod.uid])
                    for victim in self._problem.victims
                    if self._ledger.terms_of(victim) == scarce
                },
            }
            latest = self.decide(allowed)
            if self.count_granted(latest) > granted:
                best, granted = latest, self.count_granted(latest)
        return best

    def _takes_as_few(self, narrowed: P) -> bool:
        """Return whether a problem with fewer movable pods still takes equally few evictions."""
        whole, part = self._problem.minimum(), narrowed.minimum()
        if isinstance(whole, Infeasible) or isinstance(part, Infeasible):
            return isinstance(whole, Infeasible)
        return part.evictions == whole.evictions

    def _with_proof(self, decision: Decision) -> Decision:
        """Return a decision with the proof for all pods: its own proof covers only a part."""
        minimum = self._problem.minimum()
        if isinstance(minimum, Infeasible) or decision.proved is None:
            return decision
        return structs.replace(decision, lower_bound=minimum.lower_bound, proved=minimum.proof)

    def _name_kept(self, decision: Decision, allowed: Mapping[str, Allowed]) -> Decision:
        """If a decision takes a pod that may never be evicted, because no other repair is found, name such pods."""
        fewest, without = self._problem.minimum(), self._problem.within(allowed, Allowed.LATER).minimum()
        if isinstance(fewest, Infeasible):
            return decision
        pods = [victim.pod for victim in self._problem.victims if allowed[victim.pod.uid] is Allowed.NEVER]
        enough = None if isinstance(without, Infeasible) else without.evictions
        kept = KeptPods(tuple(sorted(f"{pod.name} (node {pod.node})" for pod in pods)), fewest.evictions, enough)
        refusal = decision.refusal
        if isinstance(refusal, StepExceedsBudget):
            refusal = structs.replace(refusal, kept=kept)
        return structs.replace(decision, refusal=refusal, kept=kept)


def _is_whole(decision: Decision) -> bool:
    """Return whether a decision has a step of the whole repair, without a detour."""
    step = decision.step
    return step is not None and decision.refusal is None and not decision.extra and not step.extra


def _first_of_its_kind(decisions: Sequence[Decision]) -> Decision:
    """Return the first decision that is as good as the last; pods that are allowed soonest come first.

    If no step without a detour is found for all pods, a step with a detour is as good, and so are steps of a part.
    """
    last = decisions[-1]
    stepping = [one for one in decisions if one.step is not None]
    first = next((one for one in stepping if (one.refusal is None) >= (last.refusal is None)), last)
    return first if first.refusal is None else structs.replace(first, state=last.state, refusal=last.refusal)
