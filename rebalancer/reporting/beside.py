"""What a plan is not about: groups of workloads that are as they should be, and what nothing is evicted for."""

from collections.abc import Sequence

from rebalancer.assessment.assess import Assessment
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.planning.plan import Plan
from rebalancer.reporting.report_document import owners_of


def beside(plan: Plan, assessment: Assessment, chosen: frozenset[Reference] | None) -> tuple[int, int]:
    """Count the chosen groups within all constraints and limits, and those that break what is not planned for.

    Soft constraints and limits that only alert are not. A workload that limits alone are about is a group by itself.
    """
    limited = {owner: False for limit in assessment.limits for owner in owners_of(limit)}
    limited |= {
        owner: True for limit in assessment.limits if limit.state is not State.SATISFIED for owner in owners_of(limit)
    }
    groups: list[tuple[Sequence[Reference], bool]] = []
    for judged in assessment.groups:
        owners = judged.group.workloads
        broken = any(each.counts.violated for each in (*judged.hard, *judged.soft))
        groups.append((owners, broken or any(limited.get(owner, False) for owner in owners)))
    counted = {owner for owners, _ in groups for owner in owners}
    groups += [((owner,), broken) for owner, broken in limited.items() if owner not in counted]
    planned = {owner for group in plan.groups for owner in group.workloads}
    shown = [each for each in groups if chosen is None or not chosen.isdisjoint(each[0])]
    satisfied = sum(not broken for _, broken in shown)
    return satisfied, sum(broken and planned.isdisjoint(owners) for owners, broken in shown)
