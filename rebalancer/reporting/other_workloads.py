"""The workloads outside of a plan: those that satisfy everything, and those that evictions do not repair."""

from typing import NamedTuple

from rebalancer.assessment.assess import Assessment
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.planning.plan import Plan
from rebalancer.reporting.state_reasons import limit_workloads


class OtherWorkloads(NamedTuple):
    """How many workloads outside of a plan satisfy everything, and how many violate what evictions do not repair."""

    satisfied: int
    unplanned: int


def count_other_workloads(plan: Plan, assessment: Assessment, chosen: frozenset[Reference] | None) -> OtherWorkloads:
    """Count the chosen workloads that a plan does not concern; None chooses all.

    Evictions repair neither soft constraints that `spread.actOn` does not list nor limits with `action: Alert`.
    """
    violated: dict[Reference, bool] = {}
    for group in assessment.groups:
        is_violated = any(evaluated.counts.violated for evaluated in (*group.hard, *group.soft))
        for workload in group.spread.workloads:
            violated[workload] = violated.get(workload, False) or is_violated
    for limit in assessment.limits:
        for workload in limit_workloads(limit):
            violated[workload] = violated.get(workload, False) or limit.state is not State.SATISFIED
    planned = {workload for group in plan.groups for workload in group.workloads}
    others = [
        is_violated
        for workload, is_violated in violated.items()
        if workload not in planned and (chosen is None or workload in chosen)
    ]
    return OtherWorkloads(satisfied=others.count(False), unplanned=others.count(True))
