"""The plan as a value: evictions with their fates, proved bounds, refusals and their reasons."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from msgspec import Struct, structs

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.relaxation import Relaxable
from rebalancer.planning.eviction import Outlook
from rebalancer.planning.fates import NO_FATES, Fates
from rebalancer.planning.scope.components import Component, Counts
from rebalancer.planning.scope.victims import RankedPods
from rebalancer.planning.search.report import Attempt, Method


class Proof:
    """Why no fewer evictions are enough. Computed when first read, since few proofs of a plan are shown.

    Computing all proofs with the plan of 5,000 repairs takes another 15% of the time of assess and plan.
    """

    def __init__(self, find: Callable[[], Fact]) -> None:
        self._find = find

    @cached_property
    def fact(self) -> Fact:
        return self._find()

    def __eq__(self, other: object) -> bool:
        """Return whether two proofs say the same; this computes both."""
        return self.fact == other.fact if isinstance(other, Proof) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fact)


class ComponentPlan(Struct, frozen=True, kw_only=True, eq=False):
    """The decision about one component: groups and limits that are repaired together."""

    component: Component
    state: State
    refusal: Refusal | None
    """Why the component is not repaired now, or only in part; None while it is repaired."""
    first: Refusal | None = None
    """What the component waits for first if `refusal` ends later, else None."""
    evictions: int
    """How many evictions the whole repair takes."""
    lower_bound: int
    """The least number of evictions that the repair can take."""
    optimal: bool
    """Whether `evictions` equals `lower_bound`."""
    proved: Proof | None = None
    """Why no fewer evictions are enough."""
    detour: Fact | None = None
    """Why the repair may take more evictions than the minimum."""
    method: Method | None = None
    """The method that gave the step, None without a step."""
    attempts: tuple[Attempt, ...] = ()
    """All methods that were tried."""
    outlook: Outlook | None = None
    """Where the step leads: targets and counts."""
    relaxable: Relaxable | None = None
    """The infeasible component for which a relaxation can be searched. Not compared: that would compute it."""
    ranked: RankedPods | None = None
    """The pods of one class from which the step was chosen, cheapest first. Not compared."""

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def reason(self) -> Reason | None:
        """Why the component is not repaired now, or only in part, as a value of the closed enum."""
        return self.refusal.reason if self.refusal is not None else None

    @property
    def groups(self) -> tuple[EvaluatedGroup, ...]:
        """The groups that are repaired together."""
        return self.component.groups

    @property
    def limits(self) -> tuple[EvaluatedLimit, ...]:
        """The limits that are repaired together."""
        return self.component.limits

    @property
    def workloads(self) -> tuple[Reference, ...]:
        return self.component.workloads

    @property
    def proof(self) -> Fact | None:
        """Why no fewer evictions are enough, None if no number of evictions is known."""
        return None if self.proved is None else self.proved.fact

    @property
    def after(self) -> Counts | None:
        """The counts once the step has taken effect, None if they are not known."""
        return None if self.outlook is None else self.outlook.counts

    def __eq__(self, other: object) -> bool:
        """Return whether two decisions are equal, relaxations left aside."""
        if not isinstance(other, ComponentPlan):
            return NotImplemented
        compared = [name for name in self.__struct_fields__ if name not in {"relaxable", "ranked"}]
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __ne__(self, other: object) -> bool:
        """Return the opposite: without it, msgspec compares by identity."""
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)


class PlanRefusal(Struct, frozen=True, kw_only=True, gc=False):
    """A pod, or with `pod` None a whole workload, that is not moved although its group is violated."""

    workload: Reference
    pod: str | None
    refusal: Refusal

    @property
    def reason(self) -> Reason:
        """Why the pod or workload is not moved, as a value of the closed enum."""
        return self.refusal.reason


class Plan(Struct, frozen=True, kw_only=True):
    """The plan of one cycle. Everything in it is in a stable order."""

    made_at: datetime
    expires_at: datetime
    policy_hash: str
    fates: Fates = NO_FATES
    """The fates of the decided evictions: which may go now, and which wait for budgets or their turn."""
    components: tuple[ComponentPlan, ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()

    @property
    def lower_bound(self) -> int:
        """The fewest evictions that all violated groups together take."""
        return sum(group.lower_bound for group in self.components)


def narrow_plan(plan: Plan, workloads: frozenset[Reference] | None) -> Plan:
    """Return the part of a plan that concerns these workloads; None means all.

    Workloads that are repaired together stay together: half of a repair has neither a proof nor counts after it.
    """
    if workloads is None:
        return plan
    groups = tuple(group for group in plan.components if not workloads.isdisjoint(group.workloads))
    names = {group.name for group in groups}
    concerned = workloads.union(*(group.workloads for group in groups))
    return structs.replace(
        plan,
        fates=plan.fates.select(names),
        components=groups,
        refusals=tuple(refusal for refusal in plan.refusals if refusal.workload in concerned),
    )
