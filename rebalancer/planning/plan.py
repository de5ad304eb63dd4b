"""The plan as a value: what goes now, what waits and for what, what was proved, what was refused and why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import Struct

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference, Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.planning.scope.components import Component


@dataclass(kw_only=True)
class Repair:
    """What the evictions of one step have in common; what costs time is worked out when it is asked for.

    `needed`: a prefix of the step is a step again if it has at least so many evictions. `forced`: the scheduler can
    only repay them; else it is foreseen to, by its scores. `spare`: the step may take the one eviction above the
    minimum that a repair may take; it has if more than `goal` evictions are left after it. `lasting`: how long what it
    repairs must have lasted before anything goes.
    """

    step: int
    group: str
    cause: Cause
    needed: int = 1
    forced: bool = True
    spare: bool = False
    goal: int = 0
    lasting: timedelta = timedelta(0)
    foresee: Callable[[], tuple[Target, ...]] = field(default=tuple, compare=False)
    explain: Callable[[Pod], str] = field(default=str, compare=False)

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """Where the replacements may land."""
        return self.foresee()


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
        """The name of the group that it repairs."""
        return self.repair.group

    @property
    def cause(self) -> Cause:
        """What it repairs."""
        return self.repair.cause

    @property
    def needed(self) -> int:
        """How many of the step must go at the least."""
        return self.repair.needed

    @property
    def forced(self) -> bool:
        """Whether the scheduler can only repay it."""
        return self.repair.forced

    @property
    def targets(self) -> tuple[Target, ...]:
        """Where its replacement may land."""
        return self.repair.targets

    @property
    def owner_uid(self) -> str:
        """The UID of the pod's controller."""
        return self.pod.owner.uid if self.pod.owner else ""

    @property
    def message(self) -> str:
        """Why it goes, in a sentence."""
        return self.repair.explain(self.pod)


class Waiting(Struct, frozen=True, kw_only=True, gc=False):
    """An eviction that is decided and must wait. `reason` says for what."""

    eviction: Eviction
    reason: Reason
    message: str


Counts = Mapping[str, Mapping[str, int]]
"""Pods by topology key and domain."""


class ComponentPlan(Struct, kw_only=True, eq=False, dict=True):
    """What was found out about one component: groups, and limits, that are repaired together.

    `evictions` is how many the whole repair takes, `lower_bound` how many it takes at the least, `optimal` whether
    the two were proved equal. `after` are the counts, by key and value, once what goes now has landed well.
    """

    component: Component
    state: State
    reason: Reason | None
    message: str
    evictions: int
    lower_bound: int
    optimal: bool
    outlook: Callable[[], Counts]

    @property
    def name(self) -> str:
        """The component's name."""
        return self.component.name

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
        """The workloads that it is about."""
        return self.component.workloads

    @cached_property
    def after(self) -> Counts:
        """The counts once what goes now has landed well; worked out when a document asks for it."""
        return self.outlook()


@dataclass(frozen=True, kw_only=True)
class PlanRefusal:
    """A pod, or with `pod` None a whole workload, that is not moved although its group is violated."""

    workload: Reference
    pod: str | None
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of one cycle. Everything in it is in a stable order."""

    made_at: datetime
    expires_at: datetime
    policy_hash: str
    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    groups: tuple[ComponentPlan, ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()

    @property
    def lower_bound(self) -> int:
        """The fewest evictions that all violated groups together take."""
        return sum(group.lower_bound for group in self.groups)

    @property
    def optimal(self) -> bool:
        """Whether the plan's number is proved least for every group that can be repaired."""
        return all(group.optimal for group in self.groups if group.evictions)


def narrow_plan(plan: Plan, workloads: frozenset[Reference] | None) -> Plan:
    """Return the part of a plan that concerns these workloads; None is all."""
    if workloads is None:
        return plan
    return replace(
        plan,
        evictions=tuple(each for each in plan.evictions if each.workload in workloads),
        waiting=tuple(each for each in plan.waiting if each.eviction.workload in workloads),
        groups=tuple(each for each in plan.groups if not workloads.isdisjoint(each.workloads)),
        refusals=tuple(each for each in plan.refusals if each.workload in workloads),
    )
