"""The notes of a plan besides its groups.

* One line for each domain without nodes: which workloads would violate their constraints with a node there.
* One line for each repair that lacks only capacity: what it needs, and why that is missing.
* The numbers of workloads outside of the plan: satisfied, not repaired by evictions, and not countable.
* The number of violated terms of podAntiAffinity, which are not repaired.
* The number of pods that stay for their local volumes. By default every pod with an emptyDir stays, so a cluster of
  such pods is hardly repaired. Readers of a plan or a report must see this at a glance.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes
from rebalancer.assessment.findings.domains import describe_source
from rebalancer.capacity.decision import OF_CAPACITY
from rebalancer.documents.state_reasons import is_constraint_unknown, is_limit_unknown, limit_workloads
from rebalancer.documents.waits import MOST_WAITS, RepairWait, limit_waits
from rebalancer.model.moves import Reference
from rebalancer.model.pods import LocalStorage
from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.planning.anti_affinity.unplanned import TermNotActedOn
from rebalancer.planning.plan import Plan, PlanRefusal
from rebalancer.planning.scope.eligibility import SAFE_TO_EVICT, LocalVolumes, local_storage_fields

_NEVER: Final = frozenset({State.INFEASIBLE, State.UNFIXABLE})


def missing_domain_lines(rows: Iterable[DomainWithoutNodes], chosen: Collection[Reference] | None = None) -> list[str]:
    """Return a line for each domain and source; `chosen` are the workloads of interest, None for all."""
    workloads: dict[str, dict[Reference, None]] = {}
    for row in rows:
        affected = [workload for workload in row.workloads if chosen is None or workload in chosen]
        if row.would_violate and affected:
            domain = f"{short_key(row.topology_key)} {row.domain.value} has no node ({describe_source(row.domain)})"
            workloads.setdefault(domain, {}).update(dict.fromkeys(affected))
    return [
        f"{FindingKind.DOMAIN_WITHOUT_NODES}: {domain}: with a node there, the pods of {name_list(map(str, names))} "
        "would violate maxSkew"
        for domain, names in workloads.items()
    ]


def needed_capacity_lines(refusals: Iterable[PlanRefusal], chosen: Collection[Reference] | None = None) -> list[str]:
    """Return a line for each need of capacity; `chosen` are the workloads of interest, None for all."""
    workloads: dict[str, dict[Reference, None]] = {}
    for row in refusals:
        if isinstance(row.refusal, OF_CAPACITY) and (chosen is None or row.workload in chosen):
            text = f"{row.reason}: {{}}: {row.refusal}"
            workloads.setdefault(text, {})[row.workload] = None
    return [text.replace("{}", name_list(map(str, names)), 1) for text, names in workloads.items()]


class PlanNotes(NamedTuple):
    """The workloads outside of a plan, in numbers, and further notes."""

    satisfied: int = 0
    """How many workloads satisfy everything."""
    unplanned: int = 0
    """How many workloads violate only rules that evictions do not repair."""
    unrepairable: int = 0
    """How many workloads violate a limit that no placement satisfies now."""
    stuck: tuple[RepairWait, ...] = ()
    """The first limits that no placement satisfies now."""
    unknown: tuple[Reference, ...] = ()
    """Workloads without a known violation whose rules could not all be counted, in order."""
    lines: tuple[str, ...] = ()
    """The other notes."""


NO_NOTES: Final = PlanNotes()


def anti_affinity_line(
    plan: Plan, evaluated: Iterable[EvaluatedTerm], chosen: Collection[Reference] | None = None
) -> str:
    """Count the violated terms of podAntiAffinity of the `chosen` workloads that are not planned, None for all."""
    planned = {term.name for component in plan.components for term in component.component.terms}
    number = sum(
        one.violated and one.name not in planned and (chosen is None or not one.concerned.isdisjoint(chosen))
        for one in evaluated
    )
    if not number:
        return ""
    verb = "is" if number == 1 else "are"
    text = f"{plural(number, 'required podAntiAffinity term')} {verb} violated and not repaired"
    why = {str(row.refusal) for row in plan.refusals if isinstance(row.refusal, TermNotActedOn)}
    return f"{text} ({name_list(sorted(why))}); see rebalancer report" if why else f"{text}; see rebalancer report"


def find_notes(plan: Plan, assessment: Assessment, chosen: frozenset[Reference] | None = None) -> PlanNotes:
    """Return the notes on the chosen workloads besides their plan; None chooses all.

    Evictions repair neither soft constraints that `spread.actOn` does not list nor limits with `action: Alert`.
    """
    states: dict[Reference, set[State]] = {}
    for group in assessment.groups:
        found = {
            State.UNKNOWN if is_constraint_unknown(evaluated) else evaluated.state
            for evaluated in (*group.hard, *group.soft)
        }
        for workload in group.spread.workloads:
            states.setdefault(workload, set()).update(found)
    for limit in assessment.limits:
        state = State.UNKNOWN if is_limit_unknown(limit) else limit.state
        for workload in limit_workloads(limit):
            states.setdefault(workload, set()).add(state)
    planned = {workload for group in plan.components for workload in group.workloads}
    others = {
        workload: found - {State.SATISFIED}
        for workload, found in states.items()
        if workload not in planned and (chosen is None or workload in chosen)
    }
    unknown = tuple(sorted(workload for workload, found in others.items() if found == {State.UNKNOWN}))
    satisfied = sum(not found for found in others.values())
    unrepairable = {workload for workload, found in others.items() if found & _NEVER}
    stuck = (one for one in assessment.limits if one.state in _NEVER and unrepairable & limit_workloads(one))
    held = local_storage_line(plan.refusals)
    return PlanNotes(
        satisfied=satisfied,
        unplanned=len(others) - satisfied - len(unknown) - len(unrepairable),
        unrepairable=len(unrepairable),
        stuck=tuple(limit_waits(stuck, MOST_WAITS)),
        unknown=unknown,
        lines=(
            *([held] if held else []),
            *filter(None, [anti_affinity_line(plan, assessment.anti_affinity, chosen)]),
            *missing_domain_lines(assessment.domains_without_nodes, chosen),
            *needed_capacity_lines(plan.refusals, chosen),
        ),
    )


def local_storage_line(refusals: Iterable[PlanRefusal]) -> str:
    """Count the pods that stay for their local volumes and say how to allow their eviction; "" if there are none."""
    pods = 0
    kinds: set[LocalStorage] = set()
    for refused in refusals:
        cause = refused.refusal
        if isinstance(cause, LocalVolumes):
            pods += 1
            kinds.update(volume.kind for volume in cause.volumes)
    if not pods:
        return ""
    return (
        f"{Reason.LOCAL_STORAGE}: {plural(pods, 'pod')} {'is' if pods == 1 else 'are'} not evicted because of local "
        f"volumes. To allow it, set {local_storage_fields(kinds)} to Allow in the policy, or annotate the "
        f'{"pod" if pods == 1 else "pods"} {SAFE_TO_EVICT}: "true".'
    )
