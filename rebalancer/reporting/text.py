"""The report as a person reads it in a terminal: the violated first, and why they are not repaired; no more."""

from rebalancer.model.reasons import Reason
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.reporting.documents import ReportDocument, ReportedConstraint
from rebalancer.reporting.failure_text import failure_lines
from rebalancer.reporting.keys import short
from rebalancer.reporting.limit_text import aligned, limit_lines
from rebalancer.reporting.phrases import change, workloads

_COLUMNS = ("NAMESPACE", "WORKLOAD", "KEY", "MAXSKEW", "SKEW", "ACTION", "STATE", "COUNTS")


def report_text(document: ReportDocument) -> str:
    """Show a report as a table, the violated first, and why they are not repaired."""
    if document.constraints:
        lines = aligned([_COLUMNS, *map(_row, document.constraints)])
    else:
        lines = ["No workload has a topology spread constraint."]
    notes = dict.fromkeys(
        f"{each.namespace}/{workloads(each.workloads)}: {each.reason}: {each.message}"
        for each in document.constraints
        if each.reason
    )
    if notes:
        lines += ["", *notes]
    led = dict.fromkeys(map(_led, filter(_told, document.constraints)))
    lines += ["", *led] if led else []
    stuck = [f"{each.namespace}/{each.pod}: {Reason.PLACEMENT_DEADLOCK}: {each.message}" for each in document.deadlocks]
    lines += ["", *stuck] if stuck else []
    found = [f"{each.kind}: {each.object}: {each.message}" for each in document.findings]
    lines += ["", *found] if found else []
    lines += limit_lines(document.limits)
    lines += failure_lines(document)
    return "\n".join([*lines, ""])


def _told(each: ReportedConstraint) -> bool:
    """Say whether its cause is worth a line: of a soft constraint it is known, and of an unknown one nothing is."""
    return bool(each.cause and each.remedy) and each.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE


def _led(each: ReportedConstraint) -> str:
    return (
        f"{each.namespace}/{workloads(each.workloads)}: {short(each.topology_key)}: cause {each.cause}. {each.remedy}"
    )


def _row(each: ReportedConstraint) -> tuple[str, ...]:
    return (
        each.namespace,
        workloads(each.workloads),
        short(each.topology_key),
        str(each.max_skew),
        str(each.skew),
        "hard" if each.when_unsatisfiable == "DoNotSchedule" else f"soft ({each.origin})",
        each.state,
        change(each.counts, {}),
    )
