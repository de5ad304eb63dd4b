"""The report as text: a table of constraints, violations first, with reasons and remedies; then limits and losses."""

from collections.abc import Iterable

from rebalancer.model.reasons import Reason
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.plan import PlanRefusal
from rebalancer.reporting.documents.report import ReportDocument, ReportedConstraint
from rebalancer.reporting.domain_counts import ListedCounts
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.local_storage import local_storage_line
from rebalancer.reporting.phrases import listed_text, workload_names
from rebalancer.reporting.text.failures import failure_lines
from rebalancer.reporting.text.limits import align_columns, limit_lines

_COLUMNS = ("NAMESPACE", "WORKLOAD", "KEY", "MAXSKEW", "SKEW", "ACTION", "STATE", "COUNTS")


def report_text(document: ReportDocument, refusals: Iterable[PlanRefusal] = ()) -> str:
    """Show a report: the constraints as a table, reasons, causes, deadlocks, findings, limits, domain losses.

    `refusals` are the plan's; of these only the number of pods that local volumes keep is shown.
    """
    if document.constraints:
        lines = align_columns([_COLUMNS, *map(_row, document.constraints)])
    else:
        lines = ["No workload has a topology spread constraint."]
    sections = (
        dict.fromkeys(
            f"{row.namespace}/{workload_names(row.workloads)}: {row.reason}: {row.message}"
            for row in document.constraints
            if row.reason
        ),
        dict.fromkeys(_cause_line(row) for row in document.constraints if _has_cause_line(row)),
        [f"{row.namespace}/{row.pod}: {Reason.PLACEMENT_DEADLOCK}: {row.message}" for row in document.deadlocks],
        [f"{row.kind}: {row.object}: {row.message}" for row in document.findings],
    )
    held = local_storage_line(refusals)
    for section in (*sections, [held] if held else []):
        lines += ["", *section] if section else []
    lines += limit_lines(document.limits)
    lines += failure_lines(document)
    return "\n".join([*lines, ""])


def _has_cause_line(row: ReportedConstraint) -> bool:
    """Say whether to show the cause: it is always the same for a soft constraint, and an unknown one has no remedy."""
    return bool(row.cause and row.remedy) and row.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE


def _cause_line(row: ReportedConstraint) -> str:
    workloads = workload_names(row.workloads)
    return f"{row.namespace}/{workloads}: {short_key(row.topology_key)}: cause {row.cause}. {row.remedy}"


def _row(row: ReportedConstraint) -> tuple[str, ...]:
    return (
        row.namespace,
        workload_names(row.workloads),
        short_key(row.topology_key),
        str(row.max_skew),
        str(row.skew),
        "hard" if row.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE else f"soft ({row.origin})",
        row.state,
        listed_text(ListedCounts(row.counts, {}, row.empty_domains)),
    )
