"""The terms of podAntiAffinity in the Report document: who declares them, whom they select, who conflicts with whom."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from rebalancer.assessment.anti_affinity.result import Conflict, EvaluatedTerm
from rebalancer.assessment.causes import term_token
from rebalancer.documents.bounds import DomainBounds
from rebalancer.documents.document import CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.documents.state_reasons import StateReason
from rebalancer.model.reasons import ViolationCause

_MOST: Final = 12
"""Up to this many domains of a term, and workloads of a domain, are listed; the rest are counted."""

_MOST_PODS: Final = 5
"""Up to this many pods of a workload in a domain are listed."""


class ConflictingPods(CamelCaseStruct, frozen=True, kw_only=True):
    """Pods of one workload that conflict with other pods of their domain; `omitted` counts the unlisted pods.

    If `declares`, the pods declare the term; otherwise the term selects them.
    """

    namespace: Text
    workload: WorkloadName
    declares: bool
    pods: tuple[Text, ...]
    omitted: Number


class ReportedConflict(CamelCaseStruct, frozen=True, kw_only=True):
    """The pods of one domain that conflict; `excess` is the fewest of them that would have to move.

    `omittedWorkloads` counts the unlisted workloads.
    """

    domain: str
    excess: Number
    workloads: tuple[ConflictingPods, ...]
    omitted_workloads: Number


class ReportedAntiAffinity(CamelCaseStruct, frozen=True, kw_only=True):
    """One term of podAntiAffinity, as kube-scheduler reads it; `weight` is 0 for a required term.

    `workloads` declare it, `selects` says which pods it selects. `excess` is the fewest pods that would have to move
    for this term alone. `conflicts` lists the first domains in which pods conflict, `omittedDomains` counts the rest.

    `message` has the numbers of a violation, or says why the state is Unknown. `reason` and `obstacle` say why a
    violation is not repaired, and are null and empty otherwise. `since` is when the violation was first seen, null if
    that is not stored. `cause` is what led to a violation, null where there is none.
    """

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    topology_key: Text
    selects: Text
    excess: Number
    conflicts: tuple[ReportedConflict, ...]
    omitted_domains: Number
    state: Text
    message: str
    reason: str | None = None
    obstacle: str = ""
    since: datetime | None = None
    weight: Number = 0
    cause: str | None = None
    remedy: str = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """The pods that conflict in each listed domain."""
        return {
            conflict.domain: sum(len(one.pods) + one.omitted for one in conflict.workloads)
            for conflict in self.conflicts
        }

    @property
    def bounds(self) -> Mapping[str, DomainBounds]:
        """How many of the conflicting pods may stay in each listed domain."""
        counts = self.counts
        return {one.domain: DomainBounds(min=0, max=counts[one.domain] - one.excess) for one in self.conflicts}


def report_term(
    one: EvaluatedTerm, state: StateReason, seen: Mapping[str, datetime], cause: ViolationCause | None, remedy: str
) -> ReportedAntiAffinity:
    """Return the entry of one term; `seen` maps the token of a violation to the time when it was first seen."""
    return ReportedAntiAffinity(
        namespace=one.namespace,
        workloads=tuple(map(workload_name, one.workloads)),
        topology_key=one.term.topology_key,
        selects=one.selected,
        excess=one.excess,
        conflicts=tuple(map(_report_conflict, one.conflicts[:_MOST])),
        omitted_domains=max(0, len(one.conflicts) - _MOST),
        state=state.state,
        message=one.message,
        reason=state.reason,
        obstacle=state.message,
        weight=one.weight,
        cause=cause,
        remedy=remedy,
        since=seen.get(term_token(one)) if seen and one.violated else None,
    )


def _report_conflict(conflict: Conflict) -> ReportedConflict:
    return ReportedConflict(
        domain=conflict.domain,
        excess=conflict.excess,
        workloads=tuple(_list_conflicting(conflict)),
        omitted_workloads=max(0, len(conflict.sides) - _MOST),
    )


def _list_conflicting(conflict: Conflict) -> Iterator[ConflictingPods]:
    for side in conflict.sides[:_MOST]:
        yield ConflictingPods(
            namespace=side.workload.namespace,
            workload=workload_name(side.workload),
            declares=side.declares,
            pods=tuple(pod.name for pod in side.pods[:_MOST_PODS]),
            omitted=max(0, len(side.pods) - _MOST_PODS),
        )
