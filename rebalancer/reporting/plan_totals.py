"""Totals of a plan: evictions now, waiting, later and out of reach; and the workloads outside of the plan."""

from typing import NamedTuple

from rebalancer.assessment.assess import Assessment
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.reporting.state_reasons import limit_workloads


class PlanTotals(NamedTuple):
    """Numbers of evictions.

    `needed` evictions repair some groups completely, `lower_bound` is the proved minimum for these groups. `now` and
    `waiting` are decided, `later` follow; `partial` counts those among the decided that repair groups in part.
    `out_of_reach` is the proved minimum for all other groups. An eviction that waits for a budget that never allows
    it is not counted as waiting.
    """

    now: int
    waiting: int
    later: int
    partial: int
    needed: int
    lower_bound: int
    out_of_reach: int


def plan_totals(plan: Plan) -> PlanTotals:
    """Count the evictions of a plan."""
    repaired = {group.name: group for group in plan.groups if is_fully_repaired(group)}
    waiting = [waiting.eviction for waiting in plan.waiting if waiting.reason is not Reason.STEP_EXCEEDS_BUDGET]
    partial = sum(eviction.group not in repaired for eviction in (*plan.evictions, *waiting))
    needed = sum(group.evictions for group in repaired.values())
    lower_bound = sum(group.lower_bound for group in repaired.values())
    return PlanTotals(
        now=len(plan.evictions),
        waiting=len(waiting),
        later=max(0, needed + partial - len(plan.evictions) - len(waiting)),
        partial=partial,
        needed=needed,
        lower_bound=lower_bound,
        out_of_reach=plan.lower_bound - lower_bound,
    )


def is_fully_repaired(group: ComponentPlan) -> bool:
    """Say whether evictions repair a group completely, now or once something else is over."""
    return group.state is State.VIOLATED and bool(group.evictions)


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
        for workload in group.group.workloads:
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
