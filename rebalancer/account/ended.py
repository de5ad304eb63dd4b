"""Why a violation is over although nothing satisfies it: its requirement is gone.

A violation ends when its constraint or limit is satisfied. It also ends when the constraint, the limit or the pods are
gone. Then nothing was repaired, and no report may say so.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import structs

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import members
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.model.words import short_key
from rebalancer.model.workloads import reference_of
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


class Gone(StrEnum):
    """What no longer exists."""

    WORKLOAD = "the workload does not exist any more"
    LIMIT = "the policy has no such limit"
    RELAXED = "the policy asks for less"
    TERM = "the workload has no such podAntiAffinity any more"
    CONSTRAINT = "the workload has no such constraint any more"
    PODS = "no pod of the workload is counted any more"
    EVALUATION = "the constraints of the workload are not evaluated any more, as they cost too much"
    GROUP = "it is counted together with other constraints or workloads now"


class Dropped(NamedTuple):
    """A violated requirement no longer exists.

    `what` names it; `since` is when the policy came into force that dropped it.
    """

    gone: Gone
    what: str = ""
    since: datetime | None = None

    def __str__(self) -> str:
        since = f" since {self.since:%Y-%m-%d %H:%M:%SZ}" if self.since is not None else ""
        return f"{f'{self.what}: ' if self.what else ''}{self.gone}{since}"


class Requirements:
    """The requirements after a step, by workload: made once, since one step may end thousands of violations."""

    def __init__(self, assessment: Assessment, view: View, policy: Policy, policy_since: datetime) -> None:
        self._policy_since = policy_since
        self._there = {reference_of(workload) for workload in view.snapshot.workloads if workload.deleted is None}
        self._with_pods = {member.reference for member in members(view)}
        self._limits = {(group.name, rule.name) for group in policy.groups for rule in group.limits}
        self._too_costly = {workload for one in assessment.too_costly for workload in one.workloads}
        self._groups: dict[Reference, list[EvaluatedGroup]] = {}
        for group in assessment.groups:
            for workload in group.workloads:
                self._groups.setdefault(workload, []).append(group)

    def find_relaxed(self, before: EvaluatedLimit, now: EvaluatedLimit) -> Dropped | None:
        """Return a result if a limit is satisfied only because of a new policy: the old one would still be violated."""
        rule, what = before.rule, f"limit {now.group}/{now.limit}"
        cap = rule.max_share.cap(now.total) if rule.max_share is not None else rule.max_pods
        as_before = structs.replace(now, rule=rule, cap=cap)
        if now.state is not State.SATISFIED or rule == now.rule or as_before.state is State.SATISFIED:
            return None
        changed = f"{what} {rule.bound} -> {now.rule.bound}" if rule.bound != now.rule.bound else what
        return Dropped(Gone.RELAXED, changed, self._policy_since)

    def find_dropped(self, evaluated: EvaluatedGroup | EvaluatedLimit | EvaluatedTerm) -> Dropped | None:
        """Return why a group, limit or term that the assessment lacks is no longer required; None if it is satisfied.

        `evaluated` comes from the last assessment that has it.
        """
        if isinstance(evaluated, EvaluatedLimit):
            return self._find_dropped_limit(evaluated)
        if isinstance(evaluated, EvaluatedTerm):
            what = f"podAntiAffinity over {short_key(evaluated.term.topology_key)}"
            return Dropped(Gone.WORKLOAD if self._there.isdisjoint(evaluated.workloads) else Gone.TERM, what)
        return self._find_dropped_group(evaluated)

    def _find_dropped_limit(self, limit: EvaluatedLimit) -> Dropped:
        what = f"limit {limit.group}/{limit.limit}"
        if (limit.group, limit.limit) not in self._limits:
            return Dropped(Gone.LIMIT, what, self._policy_since)
        owners = {part.member.reference for part in limit.parts}
        return Dropped(Gone.WORKLOAD if self._there.isdisjoint(owners) else Gone.PODS, what)

    def _find_dropped_group(self, group: EvaluatedGroup) -> Dropped | None:
        violated = [one for one in group.hard if one.counts.violated] or list(group.hard)
        what = ", ".join(f"{short_key(one.topology_key)} maxSkew {one.max_skew}" for one in violated)
        left = self._there.intersection(group.workloads)
        if not left:
            return Dropped(Gone.WORKLOAD, what)
        if not self._too_costly.isdisjoint(left):
            return Dropped(Gone.EVALUATION, what)
        now = [other for workload in left for other in self._groups.get(workload, ())]
        same = [other for other in now if _rules(violated) & _rules(other.hard)]
        if any(other.violated for other in same):
            return Dropped(Gone.GROUP, what)
        if same:
            return None
        return Dropped(Gone.PODS if not now and self._with_pods.isdisjoint(left) else Gone.CONSTRAINT, what)


def _rules(constraints: Iterable[EvaluatedConstraint]) -> set[tuple[str, int]]:
    return {(one.topology_key, one.max_skew) for one in constraints}
