"""PodDisruptionBudgets that never allow an eviction, and pods that two budgets select."""

from collections.abc import Iterator, Sequence

from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.manifest import Manifest, Manifests, Path
from rebalancer.lint.refusals import check_refusals
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.words import plural

_NO_DRAIN = "no drain of a node with one of them ends"


def check_budgets(manifests: Manifests) -> Iterator[Finding]:
    """Yield budgets that allow nothing while all pods are healthy, and budgets that select another budget's pods."""
    first_of: dict[int, Manifest] = {}
    for manifest in manifests.every:
        budget = manifest.budget
        if budget is None or any(check_refusals(manifest)):
            continue
        selected = [one for one in manifests.workloads_in.get(manifest.namespace, ()) if _selects(budget, one)]
        if found := _allowing_nothing(manifest, budget, selected):
            yield found
        shared = [one for one in selected if first_of.setdefault(id(one), manifest) is not manifest]
        if shared:
            yield _overlapping(manifest, first_of[id(shared[0])], shared[0])


def _selects(budget: DisruptionBudget, workload: Manifest) -> bool:
    template = workload.workload.template if workload.workload is not None else None
    return template is not None and budget.selector is not None and budget.selector.matches(template.labels)


def _allowing_nothing(manifest: Manifest, budget: DisruptionBudget, selected: Sequence[Manifest]) -> Finding | None:
    expected = sum(max(0, one.sizes[0]) for one in selected)
    forbids = budget.max_unavailable in {0, "0%"} or budget.min_available == "100%"
    if not expected and not forbids:
        return None
    desired = budget.desired_of(expected)
    if expected and expected > desired:
        return None
    path: Path = ("spec", "minAvailable" if budget.max_unavailable is None else "maxUnavailable")
    written = budget.min_available if budget.max_unavailable is None else budget.max_unavailable
    chosen = ", which an autoscaler may choose," if expected < sum(max(0, one.replicas) for one in selected) else ""
    pods = f" of {plural(expected, 'replica')}{chosen}" if expected else ""
    return Finding(
        rule=Rule.BUDGET_ALLOWS_NOTHING,
        severity=Severity.WARNING,
        manifest=manifest,
        path=path,
        message=f"{path[1]}: {written}{pods} never allows an eviction: {_NO_DRAIN}, and nothing is repaired",
        patch=_allow_one(manifest, path),
    )


def _allow_one(manifest: Manifest, path: Path) -> tuple[Operation, ...]:
    if path[1] == "maxUnavailable":
        return set_field(manifest, path, 1)
    return Operation("remove", path), Operation("add", ("spec", "maxUnavailable"), 1)


def _overlapping(manifest: Manifest, first: Manifest, workload: Manifest) -> Finding:
    return Finding(
        rule=Rule.BUDGETS_OVERLAP,
        severity=Severity.WARNING,
        manifest=manifest,
        path=("spec", "selector"),
        message=f"it selects the pods of {workload.title}, as {first.title} ({first.file}) does: the API server "
        f"refuses every eviction of pods with two budgets, so {_NO_DRAIN}",
    )
