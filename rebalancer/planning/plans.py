"""The plan as a value: what goes now, what waits and for what, what was proved, what was refused and why."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from rebalancer.assessment.judgement import JudgedGroup
from rebalancer.model.moves import Reference, Target
from rebalancer.model.pods import Pod
from rebalancer.model.verdicts import Cause, Reason, State


@dataclass(frozen=True, kw_only=True)
class Eviction:
    """One eviction that may go now.

    `step` numbers the steps of a plan. A prefix of a step is a step again if it has at least `needed` evictions.
    """

    step: int
    group: str
    pod: Pod
    workload: Reference
    owner_uid: str
    cause: Cause
    message: str
    targets: tuple[Target, ...]
    needed: int = 1
    forced: bool = True


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """An eviction that is decided and must wait. `reason` says for what."""

    eviction: Eviction
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """What was found out about one violated group.

    `evictions` is how many the whole repair takes, `lower_bound` how many it takes at the least, `optimal` whether
    the two were proved equal. `after` are the counts, by key and value, once what goes now has landed well.
    """

    judged: JudgedGroup
    state: State
    reason: Reason | None = None
    message: str = ""
    evictions: int = 0
    lower_bound: int = 0
    optimal: bool = False
    after: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class Refused:
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
    groups: tuple[GroupPlan, ...] = ()
    refusals: tuple[Refused, ...] = ()

    @property
    def lower_bound(self) -> int:
        """The fewest evictions that all violated groups together take."""
        return sum(group.lower_bound for group in self.groups)

    @property
    def optimal(self) -> bool:
        """Whether the plan's number is proved least for every group that can be repaired."""
        return all(group.optimal for group in self.groups if group.evictions)


def narrowed(plan: Plan, workloads: frozenset[Reference] | None) -> Plan:
    """Return the part of a plan that concerns these workloads; None is all."""
    if workloads is None:
        return plan
    return replace(
        plan,
        evictions=tuple(each for each in plan.evictions if each.workload in workloads),
        waiting=tuple(each for each in plan.waiting if each.eviction.workload in workloads),
        groups=tuple(each for each in plan.groups if not workloads.isdisjoint(each.judged.group.workloads)),
        refusals=tuple(each for each in plan.refusals if each.workload in workloads),
    )
