"""Whether a drain of nodes ends: which of their pods no budget lets go, and which find no other node."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.assessment.controllers import find_reference
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground, reference_of
from rebalancer.lint.manifest import ROOT, Manifest
from rebalancer.lint.placement import describe_most, describe_reason, find_not_whole
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.words import name_list, plural
from rebalancer.resilience.loss import NODE_OWNERS, lose
from rebalancer.resilience.rows import Remaining, Verdict

_SEVERAL: Final = 2


def check_drain(ground: Ground, nodes: Sequence[str], source: str) -> Iterator[Finding]:
    """Yield what keeps a drain of these nodes from its end; `source` names the cluster, where no manifest is meant."""
    view, there = ground.now, defaultdict[Reference, list[Pod]](list)
    for node in nodes:
        for pod in view.pods_on(node):
            if _is_drained(pod):
                there[find_reference(pod, view)].append(pod)
    manifests = {reference_of(one): one for one in ground.manifests.workloads}
    rows = find_not_whole(lose(view, frozenset(nodes), Phase.SILENT, drained=True), there) if nodes else {}
    short = {workload: row for workload, row in rows.items() if row.verdict is Verdict.NO}
    for workload, pods in there.items():
        budgets = view.snapshot.budget_selection.budgets_of(pods[0])
        found = _find(pods, budgets, short.get(workload))
        if found is not None:
            severity, message = found
            yield Finding(
                rule=Rule.DRAIN_NEVER_ENDS if severity is Severity.ERROR else Rule.DRAIN_LEAVES_FEWER,
                severity=severity,
                manifest=manifests.get(workload) or _stub(workload, source),
                path=ROOT,
                message=f"drain of {name_list(nodes)}: {message}",
            )


def _is_drained(pod: Pod) -> bool:
    """Return whether a drain evicts a pod: none of a DaemonSet or of the node itself, none that ends by itself."""
    own = pod.owner is not None and pod.owner.kind in NODE_OWNERS
    return not (own or pod.mirror or pod.finished or pod.terminating)


def _find(
    pods: Sequence[Pod], budgets: Sequence[DisruptionBudget], row: Remaining | None
) -> tuple[Severity, str] | None:
    """Return what becomes of the pods of a workload on the nodes, None where all are evicted and come back."""
    number = plural(len(pods), "pod")
    if kept := _find_kept(budgets, row):
        return Severity.ERROR, f"{number} there: {kept}"
    if pods[0].owner is None:
        return Severity.WARNING, f"{number} there that nobody creates anew: kubectl drain refuses without --force"
    return (Severity.WARNING, f"{number} there: {_without(row)}") if row is not None else None


def _find_kept(budgets: Sequence[DisruptionBudget], row: Remaining | None) -> str:
    """Return why some pod is never evicted, "" where each is."""
    if len(budgets) >= _SEVERAL:
        return f"the API server refuses the eviction of pods that two budgets select ({name_list(map(str, budgets))})"
    for budget in budgets:
        desired = budget.desired_of(budget.expected)
        if budget.expected and desired >= budget.expected:
            kept = f"{desired} of {plural(budget.expected, 'pod')}"
            return f"the budget {budget} keeps {kept}, and never allows an eviction"
        # Right after the last eviction so many are healthy: all of them on other nodes.
        if row is not None and budget.expected == row.wanted and desired > row.possible:
            return f"the budget {budget} keeps {desired} of {plural(row.wanted, 'pod')} healthy, and {_without(row)}"
    return ""


def _without(row: Remaining) -> str:
    return f"without these nodes {describe_most(row)}{describe_reason(row)}"


def _stub(workload: Reference, source: str) -> Manifest:
    """Return what a finding about an object of the cluster stands at."""
    kind, namespace, name = workload.kind, workload.namespace, workload.name
    return Manifest(file=source, kind=kind, namespace=namespace, name=name, value=None, find_line=lambda _: 1)
