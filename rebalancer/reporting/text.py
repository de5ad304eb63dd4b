"""Documents as a person reads them in a terminal: what changes, what cannot, and the proof; no more."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.model.verdicts import State
from rebalancer.reporting.documents import (
    PlanDocument,
    PlannedEviction,
    PlannedGroup,
    ReportDocument,
    ReportedConstraint,
    WaitingEviction,
    WorkloadName,
)

_SHORT = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "node",
}
_DOMAINS = 12
"""More domains than this are summed up."""


def short(key: str) -> str:
    """Name a topology key as people say it."""
    return _SHORT.get(key, key)


def plan_text(document: PlanDocument, *, mode: str, satisfied: int) -> str:
    """Show a plan. `satisfied` is how many groups hold all their constraints."""
    totals = document.totals
    proof = "proved" if totals.optimal else "not proved least"
    lines = [
        f"view of {document.generated_at:%Y-%m-%d %H:%M:%SZ}  policy {document.policy_hash} ({mode})",
        f"{_many(totals.lower_bound, 'eviction')} at least ({proof}): {totals.now} now, {len(document.waiting)} wait",
    ]
    for group in document.groups:
        names = set(group.workloads)
        going = [each for each in document.evictions if each.namespace == group.namespace and each.workload in names]
        lines += ["", *_group(group, going)]
    lines += ["", *_waiting(document.waiting)] if document.waiting else []
    lines += ["", f"{_many(satisfied, 'group')} of workloads within all constraints."]
    return "\n".join([*lines, "Nothing was changed.", ""])


def _group(group: PlannedGroup, going: Sequence[PlannedEviction]) -> Iterable[str]:
    mark = "!" if group.state == State.VIOLATED else "x"
    yield f"{mark} {group.namespace}/{_names(group.workloads)}  {group.state}" + (
        f"  {_many(group.evictions, 'eviction')} at least" if group.evictions else ""
    )
    for constraint in group.constraints:
        before, after = group.before[constraint.topology_key], group.after.get(constraint.topology_key, {})
        yield f"    {short(constraint.topology_key)} (maxSkew {constraint.max_skew}): {_change(before, after)}"
    if group.reason:
        yield f"    {group.reason}: {group.message}"
    for eviction in going:
        places = ", ".join(
            f"{short(key)} {_listed(values)}" for key, values in eviction.predicted.domains.items() if values
        )
        yield f"    {eviction.step}  {eviction.pod}  {eviction.node} -> {places}"
        yield f"       {eviction.message}"


def _waiting(waiting: Sequence[WaitingEviction]) -> Iterable[str]:
    yield "waiting"
    for each in waiting:
        yield f"    {each.namespace}/{each.pod}  {each.for_}: {each.message}"


def _change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    if len(before) > _DOMAINS:
        return f"{_range(before)} -> {_range(after)}" if after != before else _range(before)
    start = " ".join(f"{value or '(empty)'}:{before[value]}" for value in sorted(before))
    if not after or after == before:
        return start
    return f"{start} -> {' '.join(str(after.get(value, 0)) for value in sorted(before))}"


def _range(counts: Mapping[str, int]) -> str:
    if not counts:
        return "no domains"
    return f"{min(counts.values())} to {max(counts.values())} over {len(counts)} domains"


def _listed(values: Sequence[str]) -> str:
    return "/".join(values[:4]) + (f" or {len(values) - 4} more" if len(values) > 4 else "")


def _names(workloads: Sequence[WorkloadName]) -> str:
    shown = ", ".join(f"{each.name} ({each.kind})" for each in workloads[:3])
    return shown + (f" and {len(workloads) - 3} more" if len(workloads) > 3 else "")


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_COLUMNS = ("NAMESPACE", "WORKLOAD", "KEY", "MAXSKEW", "SKEW", "ACTION", "STATE", "COUNTS")


def report_text(document: ReportDocument) -> str:
    """Show a report as a table, the violated first, and why they are not repaired."""
    if not document.constraints:
        return "No workload has a topology spread constraint.\n"
    rows = [_COLUMNS, *(_row(each) for each in document.constraints)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    lines = [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1])) for row in rows
    ]
    notes = dict.fromkeys(
        f"{each.namespace}/{_names(each.workloads)}: {each.reason}: {each.message}"
        for each in document.constraints
        if each.reason
    )
    if notes:
        lines += ["", *notes]
    return "\n".join([*lines, ""])


def _row(each: ReportedConstraint) -> tuple[str, ...]:
    return (
        each.namespace,
        _names(each.workloads),
        short(each.topology_key),
        str(each.max_skew),
        str(each.skew),
        "hard" if each.when_unsatisfiable == "DoNotSchedule" else f"soft ({each.origin})",
        each.state,
        _change(each.counts, {}),
    )
