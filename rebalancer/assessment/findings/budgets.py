"""SeveralBudgets, BudgetAlwaysZero, BudgetNotComputed: disruption budgets that allow no eviction, even by a drain."""

from collections.abc import Iterator

from rebalancer.assessment.controllers import members
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View


def budget_findings(view: View) -> Iterator[Finding]:
    """Yield workloads that several budgets select, and budgets that allow no eviction, ever or now."""
    snapshot = view.snapshot
    for budget in snapshot.budgets:
        why = _why_never(budget)
        if why:
            yield Finding(
                kind=FindingKind.BUDGET_ALWAYS_ZERO,
                object=f"PodDisruptionBudget {budget}",
                message=f"{why}: no pod can ever be evicted, and no node drained. Allow at least one disruption",
                workloads=_workloads(budget, view),
            )
        elif not budget.synced:
            said = f"SyncFailed: {budget.failure}" if budget.failure else "SyncFailed"
            yield Finding(
                kind=FindingKind.BUDGET_NOT_COMPUTED,
                object=f"PodDisruptionBudget {budget}",
                message=f"could not be computed ({said}): no pod can be evicted, and no node drained. {budget.remedy}",
                workloads=_workloads(budget, view),
            )
    for member in members(view):
        if len(snapshot.budgets_in.get(member.reference.namespace, ())) > 1:
            labels = {id(pod.labels): pod.labels for pod in member.pods}.values()
            for own in labels:
                selecting = snapshot.budget_selection.selecting(member.reference.namespace, own)
                names = sorted(budget.name for budget in selecting)
                if len(names) > 1:
                    message = (
                        f"PodDisruptionBudgets {list_names(names)} select the same pods: the API server refuses to "
                        "evict them, and nodes cannot be drained. Keep only one of these budgets"
                    )
                    yield workload_finding(FindingKind.SEVERAL_BUDGETS, member.reference, message)
                    break


def _why_never(budget: DisruptionBudget) -> str:
    """Return why a budget can never allow a disruption, "" if it can.

    A percentage of few pods may round up to all of them; the status has the number, unless it is out of date.
    """
    if budget.max_unavailable in {0, "0%"}:
        return f"maxUnavailable is {budget.max_unavailable}"
    if budget.min_available == "100%":
        return "minAvailable is 100%"
    current = budget.synced and budget.observed_generation >= budget.generation
    if current and budget.min_available is not None and 0 < budget.expected <= budget.desired_healthy:
        return f"minAvailable {budget.min_available} means {budget.desired_healthy} of {budget.expected} pods"
    return ""


def _workloads(budget: DisruptionBudget, view: View) -> tuple[Reference, ...]:
    if budget.selector is None:
        return ()
    workloads = {
        member.reference
        for member in members(view)
        if member.reference.namespace == budget.namespace and budget.selector.matches(member.pods[0].labels)
    }
    return tuple(sorted(workloads))
