"""The plan as a value: evictions now, evictions that wait and for what, proved bounds, refusals and their reasons."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Protocol

from msgspec import Struct, structs

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.moves import Reference, Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.planning.diagnosis.relaxation import Relaxable
from rebalancer.planning.scope.components import Component, Counts
from rebalancer.planning.scope.victims import RankedPods
from rebalancer.planning.search.report import Attempt, Method


class OutlookSource(Protocol):
    """Computes where a step leads, from the layout or from the nodes that a search followed."""

    def targets(self) -> tuple[Target, ...]:
        """Return for each key the domains on which replacements may be placed."""

    def counts(self) -> Counts | None:
        """Return the counts once the step has taken effect; None where they are not known."""

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return those of these nodes on which a replacement may be placed, none where that is not known."""


class Outlook:
    """Where a step leads: a value that is computed when it is first read; it and `Proof` are not data yet in a plan.

    Computing all of them with the plan costs 0.34 s for the 5,000 repairs of 150,000 pods, where assess and plan take
    1.2 s: 1.28 times as long. Few cycles read more than those of the evictions that go now.
    """

    def __init__(self, source: OutlookSource) -> None:
        self._source = source

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """For each key the domains on which replacements may be placed."""
        return self._source.targets()

    @cached_property
    def counts(self) -> Counts | None:
        """The counts once the step has taken effect; None where they are not known."""
        return self._source.counts()

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return those of these nodes on which a replacement may be placed.

        None of an outlook that was read from a file, which has the domains alone.
        """
        return self._source.landings(nodes)

    def __eq__(self, other: object) -> bool:
        """Return whether two outlooks say the same; this computes both."""
        if not isinstance(other, Outlook):
            return NotImplemented
        return self.targets == other.targets and self.counts == other.counts

    def __hash__(self) -> int:
        return hash(self.targets)


class Proof:
    """Why no fewer evictions are enough: a fact that is found when it is first read, since few of a plan are shown.

    Finding all of them with the plan takes another 15% of the time of assess and plan for the same 5,000 repairs.
    """

    def __init__(self, find: Callable[[], Fact]) -> None:
        self._find = find

    @cached_property
    def fact(self) -> Fact:
        return self._find()

    def __eq__(self, other: object) -> bool:
        """Return whether two proofs say the same; this finds both."""
        return self.fact == other.fact if isinstance(other, Proof) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fact)


class ViolatedRequirement(Struct, frozen=True, kw_only=True, gc=False):
    """A violated constraint or limit, as far as it concerns the victims of a step.

    `limit` is the name of a limit with its group, "" for a constraint; `bound` is the limit's bound as documents show
    it, a constraint's maxSkew. `emptiest` is the least count of a domain. `domain` are the domains of the victims'
    nodes that count, `held` how many pods these hold.
    """

    key: str
    limit: str
    bound: str
    emptiest: int
    domain: Mapping[str, str]
    held: Mapping[str, int]

    def __hash__(self) -> int:
        """Hash what it is, not the counts, which are mappings: so evictions and plans can be hashed."""
        return hash((self.key, self.limit, self.bound, self.emptiest))


class Preempted(Struct, frozen=True, gc=False):
    """The pods of lower priority that kube-scheduler deletes if it takes this node for a replacement."""

    node: str
    pods: tuple[Pod, ...]


class Repair(Struct, frozen=True, kw_only=True):
    """What the evictions of one step have in common.

    `needed`: a prefix of the step is a step too if it has at least so many evictions. `forced`: the scheduler can only
    repay them; otherwise its scores predict that it does. `extra`: the step may take the one eviction above the minimum
    that a repair may take; it did if more than `goal` evictions are left after it. `lasting`: how long the violation
    must have lasted before a pod is evicted. `violated` are the requirements that it repairs. `preempts` are the
    outcomes of a repair by preemption, one of which will be; () of every other.
    """

    step: int
    group: str
    cause: Cause
    needed: int = 1
    forced: bool = True
    extra: bool = False
    goal: int = 0
    lasting: timedelta = timedelta(0)
    outlook: Outlook | None = None
    violated: tuple[ViolatedRequirement, ...] = ()
    preempts: tuple[Preempted, ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """Where the replacements may be placed."""
        return () if self.outlook is None else self.outlook.targets


class Eviction(Struct, frozen=True, kw_only=True, gc=False):
    """One eviction that may go now, a part of a repair's next step."""

    repair: Repair
    pod: Pod
    workload: Reference

    @property
    def step(self) -> int:
        """The step's number in the plan."""
        return self.repair.step

    @property
    def group(self) -> str:
        """The name of the component that it repairs."""
        return self.repair.group

    @property
    def cause(self) -> Cause:
        """The kind of violation that it repairs."""
        return self.repair.cause

    @property
    def needed(self) -> int:
        """The least number of the step's pods that must be evicted together."""
        return self.repair.needed

    @property
    def forced(self) -> bool:
        """Whether the scheduler can only repay it."""
        return self.repair.forced

    @property
    def targets(self) -> tuple[Target, ...]:
        """Where its replacement may be placed."""
        return self.repair.targets

    @property
    def preempted(self) -> tuple[str, ...]:
        """The UIDs of the pods that may be preempted for its replacement, sorted."""
        return tuple(sorted({pod.uid for outcome in self.repair.preempts for pod in outcome.pods}))

    @property
    def concerned(self) -> tuple[str, ...]:
        """The UIDs of all pods that it may cost."""
        return (self.pod.uid, *self.preempted)

    @property
    def owner_uid(self) -> str:
        """The UID of the pod's controller."""
        return self.pod.owner.uid if self.pod.owner else ""


class Waiting(Struct, frozen=True, kw_only=True, gc=False):
    """A decided eviction that must wait, and the reason."""

    eviction: Eviction
    refusal: Refusal

    @property
    def reason(self) -> Reason:
        """Why it waits, as a value of the closed enum."""
        return self.refusal.reason


class ComponentPlan(Struct, frozen=True, kw_only=True, eq=False):
    """The decision about one component: groups and limits that are repaired together.

    `refusal` says why it is not repaired now, or only in part; None while it is. `evictions` is the number that the
    whole repair takes, `lower_bound` the least number that it can take, `optimal` whether the two are equal; `proved`
    says why no fewer are enough, `detour` why it may take more. `method` gave the step, None where there is none;
    `attempts` are all methods that were tried. `outlook` is where the step leads. `relaxable` has the relaxation of a
    component for which one can be searched; comparing would compute it. `ranked` are the pods of one class from which
    the step was chosen, cheapest first; they are no part of the decision either.
    """

    component: Component
    state: State
    refusal: Refusal | None
    evictions: int
    lower_bound: int
    optimal: bool
    proved: Proof | None = None
    detour: Fact | None = None
    method: Method | None = None
    attempts: tuple[Attempt, ...] = ()
    outlook: Outlook | None = None
    relaxable: Relaxable | None = None
    ranked: RankedPods | None = None

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def reason(self) -> Reason | None:
        """Why it is not repaired now, or only in part, as a value of the closed enum."""
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
        """Why no fewer evictions are enough, None where no number of them is known."""
        return None if self.proved is None else self.proved.fact

    @property
    def after(self) -> Counts | None:
        """The counts once the step has taken effect, None where they are not known."""
        return None if self.outlook is None else self.outlook.counts

    def __eq__(self, other: object) -> bool:
        """Return whether two decisions are equal, whatever a relaxation would be."""
        if not isinstance(other, ComponentPlan):
            return NotImplemented
        compared = [name for name in self.__struct_fields__ if name not in {"relaxable", "ranked"}]
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __ne__(self, other: object) -> bool:
        """Return the opposite: without it, msgspec compares by identity here."""
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
        """Why, as a value of the closed enum."""
        return self.refusal.reason


class Plan(Struct, frozen=True, kw_only=True):
    """The plan of one cycle. Everything in it is in a stable order."""

    made_at: datetime
    expires_at: datetime
    policy_hash: str
    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    components: tuple[ComponentPlan, ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()

    @property
    def lower_bound(self) -> int:
        """The fewest evictions that all violated groups together take."""
        return sum(group.lower_bound for group in self.components)


def narrow_plan(plan: Plan, workloads: frozenset[Reference] | None) -> Plan:
    """Return the part of a plan that concerns these workloads; None is all.

    Workloads that are repaired together stay together: half of a repair has neither a proof nor counts after it.
    """
    if workloads is None:
        return plan
    groups = tuple(group for group in plan.components if not workloads.isdisjoint(group.workloads))
    names = {group.name for group in groups}
    concerned = workloads.union(*(group.workloads for group in groups))
    return structs.replace(
        plan,
        evictions=tuple(eviction for eviction in plan.evictions if eviction.group in names),
        waiting=tuple(waiting for waiting in plan.waiting if waiting.eviction.group in names),
        components=groups,
        refusals=tuple(refusal for refusal in plan.refusals if refusal.workload in concerned),
    )
