"""Why something is violated no longer although nothing satisfies it: it is not required any more.

A violation ends when its constraint or limit is satisfied. It ends, too, when the constraint, the limit or the pods are
gone: then nothing was repaired, and nobody may say so.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import members
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.model.words import short_key
from rebalancer.model.workloads import reference_of
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


class Gone(StrEnum):
    """What is not there any more."""

    WORKLOAD = "the workload does not exist any more"
    LIMIT = "the policy has no such limit"
    CONSTRAINT = "the workload has no such constraint any more"
    PODS = "no pod of the workload is counted any more"
    EVALUATION = "the constraints of the workload are not evaluated any more, as they cost too much"
    GROUP = "it is counted together with other constraints or workloads now"
    UNKNOWN = "neither policy nor workload has it"


class Dropped(NamedTuple):
    """What was violated is not required any more; `what` names it, `since` is when the policy came into force."""

    gone: Gone
    what: str = ""
    since: datetime | None = None

    def __str__(self) -> str:
        since = f" since {self.since:%Y-%m-%d %H:%M:%SZ}" if self.since is not None else ""
        return f"{f'{self.what}: ' if self.what else ''}{self.gone}{since}"


def find_dropped(
    evaluated: EvaluatedGroup | EvaluatedLimit,
    assessment: Assessment,
    view: View,
    policy: Policy,
    policy_since: datetime,
) -> Dropped | None:
    """Return why a group or limit that an assessment lacks is not required; None where its constraints are satisfied.

    `evaluated` is from the last assessment that has it.
    """
    there = {reference_of(workload) for workload in view.snapshot.workloads if workload.deleted is None}
    if isinstance(evaluated, EvaluatedLimit):
        return _find_dropped_limit(evaluated, there, policy, policy_since)
    return _find_dropped_group(evaluated, assessment, there, {member.reference for member in members(view)})


def _find_dropped_limit(
    limit: EvaluatedLimit, there: Iterable[Reference], policy: Policy, policy_since: datetime
) -> Dropped:
    what = f"limit {limit.group}/{limit.limit}"
    in_force = {(group.name, rule.name) for group in policy.groups for rule in group.limits}
    if (limit.group, limit.limit) not in in_force:
        return Dropped(Gone.LIMIT, what, policy_since)
    owners = {part.member.reference for part in limit.parts}
    return Dropped(Gone.PODS if owners.intersection(there) else Gone.WORKLOAD, what)


def _find_dropped_group(
    group: EvaluatedGroup, assessment: Assessment, there: Iterable[Reference], with_pods: Iterable[Reference]
) -> Dropped | None:
    violated = [one for one in group.hard if one.counts.violated] or list(group.hard)
    what = ", ".join(f"{short_key(one.topology_key)} maxSkew {one.max_skew}" for one in violated)
    left = set(group.workloads).intersection(there)
    if not left:
        return Dropped(Gone.WORKLOAD, what)
    if any(left.intersection(one.workloads) for one in assessment.too_costly):
        return Dropped(Gone.EVALUATION, what)
    now = [other for other in assessment.groups if left.intersection(other.workloads)]
    same = [other for other in now if _rules(violated) & _rules(other.hard)]
    if any(other.violated for other in same):
        return Dropped(Gone.GROUP, what)
    if same:
        return None
    return Dropped(Gone.CONSTRAINT if now or left.intersection(with_pods) else Gone.PODS, what)


def _rules(constraints: Iterable[EvaluatedConstraint]) -> set[tuple[str, int]]:
    return {(one.topology_key, one.max_skew) for one in constraints}
