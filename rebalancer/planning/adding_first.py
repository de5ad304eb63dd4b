"""Whether a repair adds pods before others go: if the policy says so, and a scale-up and scale-down repairs it.

An eviction takes a pod away before its replacement exists. A Deployment can be scaled up by the number of victims, and
down again once all pods are Ready: its controller deletes the pods with the lowest deletion costs, which the victims
have by then. No pod is missing in between, so no budget of unavailable pods is spent.

If the policy wants a component repaired by a surge and none is possible, evictions repair it only with the method
SurgeWhereBlocked. With the method Surge no pod is ever missing.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import structs

from rebalancer.assessment.controllers import PodController
from rebalancer.creation.quotas import find_charges, name_quota, quotas_of
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.deletion_costs import SURGE_COST, is_foreign
from rebalancer.model.facts import End, Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload
from rebalancer.planning.case import Decision
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Waits
from rebalancer.planning.problem.protocol import Infeasible, Problem
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.victims import Allowed
from rebalancer.planning.search.report import Method
from rebalancer.policy import Policy, RepairMethod
from rebalancer.scheduling.view import View

_SCALED: Final = frozenset({"ReplicaSet", "Deployment"})
"""Kinds with a number of replicas, whose controller deletes pods in the order of their deletion costs."""


class AddedFirst(Refusal):
    """Nothing keeps the pod back, but it is not evicted: this many pods are added, and it goes once they are Ready."""

    reason = Reason.SURGING
    added: int

    def _end(self) -> End:
        verb = "is" if self.added == 1 else "are"
        return End(event=f"when {plural(self.added, 'more pod')} of its workload {verb} Ready")

    def __str__(self) -> str:
        verb = "is" if self.added == 1 else "are"
        return f"{plural(self.added, 'pod')} {verb} added first (repair.method), so that none is missing"


class SurgeUnderWay(Refusal):
    """Pods have been added to a workload, and other pods of it are to go."""

    reason = Reason.SURGING
    ends = "when the surge of its workload has ended"

    def __str__(self) -> str:
        return "a surge of its workload is under way"


class NotAddedTo(Refusal):
    """The policy adds pods first for this workload, but none can be added to it."""

    reason = Reason.SURGE_REFUSED
    why: str

    def __str__(self) -> str:
        return f"repair.method adds pods first, and none can be added: {self.why}"


class NoSafeAddition(Refusal):
    """The scheduler could place the added pods where they do not help."""

    reason = Reason.NOT_FORCED
    most: int

    def __str__(self) -> str:
        return (
            f"no safe addition found: the scheduler could place {plural(self.most, 'added pod')} where none helps "
            "(repair.maxSurge says how many are added at once)"
        )


def add_first(fates: Fates) -> Fates:
    """Keep back every eviction that ends a surge, because a surge begins with the added pods."""

    def find_refusal(eviction: Eviction) -> AddedFirst | None:
        return AddedFirst(eviction.repair.added) if eviction.repair.added else None

    return fates.hold(find_refusal)


def hold_surging(fates: Fates, owners: Collection[str]) -> Fates:
    """Keep back every eviction of pods with these owners, to which pods are added already."""

    def find_refusal(eviction: Eviction) -> SurgeUnderWay | None:
        return SurgeUnderWay() if eviction.owner_uid in owners else None

    def find_later(wait: Waits) -> SurgeUnderWay | None:
        return find_refusal(wait.eviction) if isinstance(wait.refusal, AddedFirst) else None

    return fates.hold(find_refusal).replace(find_later) if owners else fates


class AdditionPlanner:
    """Decides for one plan which repairs add pods first."""

    def __init__(self, view: View, policy: Policy, ledger: BudgetLedger) -> None:
        self._view = view
        self._rules = policy.repair
        self._ledger = ledger
        self._charged: Counter[tuple[str, str]] = Counter()
        """How much of each quota's resources the steps of this plan use."""

    def revise(self, problem: Problem, decision: Decision) -> Decision:
        """Return a decision with a step that adds first, or why there is none; else the given decision.

        While a pod of the component is marked, a surge is under way. Nothing else begins then, even if the policy has
        changed.
        """
        if any(pod.own_deletion_cost == SURGE_COST for pod in problem.component.pods):
            return structs.replace(decision, refusal=SurgeUnderWay(), step=None, method=None)
        if not self._adds_for(problem.component):
            return decision
        only_blocked = self._rules.method is RepairMethod.SURGE_WHERE_BLOCKED
        if isinstance(problem.minimum(), Infeasible) or not decision.evictions:
            # Evictions may reduce the violation, and the policy forbids evictions there.
            refusal = decision.refusal or self.find_eviction_ban(problem.component)
            return decision if only_blocked else structs.replace(decision, refusal=refusal, step=None, method=None)
        if only_blocked and not self._is_blocked(decision):
            return decision
        added = self._add_first(problem, decision)
        if isinstance(added, Decision):
            return added
        if only_blocked:
            return decision
        return structs.replace(decision, state=State.UNFIXABLE, refusal=added, step=None, method=None)

    def find_eviction_ban(self, component: Component) -> NotAddedTo | None:
        """Return why nothing is evicted for a component that no addition repairs, None if evictions are allowed."""
        if self._rules.method is RepairMethod.SURGE and self._adds_for(component):
            return NotAddedTo("only evictions would help")
        return None

    def _adds_for(self, component: Component) -> bool:
        if not self._rules.adds_in(component.namespace):
            return False
        selector = self._rules.selector
        return selector is None or all(selector.compiled.matches(pod.labels) for pod in component.pods)

    def _is_blocked(self, decision: Decision) -> bool:
        """Return whether no eviction repairs a component: none is safe, or the budgets never allow a safe eviction."""
        step = decision.step
        if step is None:
            refusal = decision.refusal
            return refusal is not None and refusal.reason in {Reason.NOT_FORCED, Reason.STEP_EXCEEDS_BUDGET}
        return Allowed.NEVER in self._ledger.when_allowed(step.victims, step.needed).values()

    def _add_first(self, problem: Problem, decision: Decision) -> Decision | Refusal:
        why = self._find_obstacle(problem)
        if why or not isinstance(problem, SingleClassProblem):
            return NotAddedTo(why)
        (member,) = problem.component.members
        most, bound = min(self._find_bounds(member), key=lambda one: one[0])
        if not most:
            return NotAddedTo(bound)
        search = problem.addition_step(most)
        if search.step is None:
            return search.refusal or NoSafeAddition(most)
        self._charge(member, len(search.step.victims))
        return structs.replace(
            decision,
            state=State.VIOLATED,
            refusal=None,
            step=search.step,
            forced=True,
            extra=False,
            method=Method.ADDITION,
            attempts=(*decision.attempts, *search.attempts),
            ranked=problem.pods.ranked,
        )

    def _find_obstacle(self, problem: Problem) -> str:
        """Return why no pod can be added to a component's only owner, budgets aside; "" if a pod can be added."""
        component = problem.component
        if len(component.members) > 1:
            return f"{plural(len(component.members), 'owner')} of pods are repaired together"
        (member,) = component.members
        owner, top = member.owner, member.top
        if owner is None or not {owner.kind, *((top.kind,) if top is not None else ())} <= _SCALED:
            return f"{member.reference} chooses itself which of its pods goes"
        if not isinstance(problem, SingleClassProblem):
            return "its pods are counted by rules that do not nest"
        return self._find_change(member, owner, top or owner)

    def _find_change(self, member: PodController, owner: Workload, workload: Workload) -> str:
        """Return what changes, or may change, an owner's number of pods or which of them go, "" for nothing."""
        if (workload.namespace, workload.kind, workload.name) in self._view.snapshot.autoscalers_of:
            return "an autoscaler sets its number of replicas"
        wanted = workload.replicas
        ready = sum(pod.ready for pod in member.pods)
        if not wanted == len(member.pods) == ready or self._is_leaving(owner.uid):
            return f"{ready} of {plural(wanted, 'pod')} are Ready, and others are being created or deleted"
        if any(is_foreign(pod) for pod in member.pods):
            return "people or other programs have set deletion costs of its pods"
        return ""

    def _is_leaving(self, owner: str) -> bool:
        runs = self._view.snapshot.runs_of.get(owner, ())
        return any(pod.terminating for run in runs for pod in run.pods)

    def _find_bounds(self, member: PodController) -> Iterator[tuple[int, str]]:
        """Yield upper bounds on the pods that may be added to an owner at once, each with its source."""
        yield self._rules.max_surge, "repair.maxSurge"
        new, old = member.next_pod, member.pods[0]
        assert isinstance(new, Pod), "the pods of an owner move only where its next pod is known"
        for quota in quotas_of(old.namespace, self._view.snapshot):
            hard, used = dict(quota.hard), dict(quota.used)
            for charge in find_charges(quota, old, new):
                taken = used.get(charge.resource, 0) + self._charged[name_quota(quota), charge.resource]
                free = max(0, hard[charge.resource] - taken)
                fits = free // charge.requested if charge.requested else self._rules.max_surge
                yield fits, f"{name_quota(quota)} has no {charge.resource} left for another pod"
        if not self._rules.overrides_budgets_in(member.reference.namespace):
            for budget in self._ledger.budgets_of(old):
                yield (
                    self._fit(budget),
                    (
                        f"PodDisruptionBudget {budget} would let none of {budget.expected + 1} pods go, and "
                        "repair.overBudget does not list the namespace"
                    ),
                )

    def _charge(self, member: PodController, pods: int) -> None:
        """Note how much of the quotas the added pods of a step use, for the steps planned after it."""
        new, old = member.next_pod, member.pods[0]
        assert isinstance(new, Pod), "the pods of an owner move only where its next pod is known"
        for quota in quotas_of(old.namespace, self._view.snapshot):
            for charge in find_charges(quota, old, new):
                self._charged[name_quota(quota), charge.resource] += pods * charge.requested

    def _fit(self, budget: DisruptionBudget) -> int:
        """Return how many pods a budget lets go once an equal number is added and Ready."""
        pods = self._view.snapshot.budget_selection.pods_of(budget)
        healthy = sum(pod.ready and not pod.terminating for pod in pods)
        numbers = range(1, self._rules.max_surge + 1)
        return max((one for one in numbers if healthy >= budget.desired_of(budget.expected + one)), default=0)
