"""The report as text: a summary, a table of constraints with violated ones first, the reasons, and the limits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.documents.domain_counts import ListedCounts
from rebalancer.documents.map import MapDocument
from rebalancer.documents.phrases import NO_CONTROLLER, listed_text, workload_names
from rebalancer.documents.report import ReportDocument, ReportedConstraint
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.reporting.text.anti_affinity import anti_affinity_sections
from rebalancer.reporting.text.layout import PLAIN, STATE_STYLES, Style, TextLayout, join_lines, more_text, sections
from rebalancer.reporting.text.limits import limit_sections
from rebalancer.reporting.text.map import map_lines, rule_lines
from rebalancer.reporting.text.resilience import resilience_lines

_COLUMNS: Final = ("NAMESPACE", "WORKLOAD", "KEY", "MAXSKEW", "SKEW", "ACTION", "STATE", "COUNTS")
_LEGEND: Final = "SKEW is the fullest domain less the emptiest; hard is DoNotSchedule, soft ScheduleAnyway."
_WHY_NOT: Final = "WHY NOT REPAIRED"
_LONGEST_BAR: Final = 12


def report_text(
    document: ReportDocument,
    held: str = "",
    layout: TextLayout = PLAIN,
    *,
    head: Sequence[str] = (),
    most: int | None = None,
    wide: bool = False,
    idle: str = "",
) -> str:
    """Show a report: a summary, constraints, reasons, causes, deadlocks, findings, limits, anti-affinity, losses.

    `head` names the controller and the policy. `held` says how many pods local volumes keep. `most` is how many
    workloads, and limits, are shown, None for all; `wide` shows every domain. `idle` says why the controller moves
    nothing: if none runs, no repair goes on even when a passing reason ends.
    """
    shown = _first_workloads(document.constraints, most)
    why_not = f"{_WHY_NOT}, BESIDES THAT {NO_CONTROLLER.upper()}" if idle == NO_CONTROLLER else _WHY_NOT
    parts = [
        [layout.heading(line) for text in (*head, _summary(document)) for line in layout.wrap(text)],
        _constraint_lines(document.constraints, shown, layout, wide=wide),
        _noted(why_not, _reasons(shown), layout),
        _noted("CAUSES", _causes(shown), layout),
        _noted(
            "DEADLOCKS",
            [f"{row.namespace}/{row.pod}: {Reason.PLACEMENT_DEADLOCK}: {row.message}" for row in document.deadlocks],
            layout,
        ),
        _noted("WITHOUT A NODE", _waiting(document), layout),
        _noted("FINDINGS", [f"{row.kind}: {row.object}: {row.message}" for row in document.findings], layout),
        layout.wrap(held, hang="  ") if held else [],
        *limit_sections(document.limits, layout, most, why_not),
        *anti_affinity_sections(document.anti_affinity, layout, most),
        _resilience(document, layout, most, wide=wide),
    ]
    return join_lines(sections(parts))


def report_map_text(
    document: ReportDocument,
    drawn: MapDocument,
    layout: TextLayout = PLAIN,
    *,
    head: Sequence[str] = (),
    rules: bool = False,
) -> str:
    """Show the map of a report in place of its tables; with `rules`, also all rules of its workloads."""
    parts = [
        [layout.heading(line) for text in (*head, _summary(document)) for line in layout.wrap(text)],
        map_lines(drawn, layout),
        rule_lines(drawn, layout) if rules else [],
    ]
    return join_lines(sections(parts))


def _resilience(document: ReportDocument, layout: TextLayout, most: int | None, *, wide: bool) -> list[str]:
    if document.resilience is None:
        return []
    return [layout.heading("IF LOST"), *resilience_lines(document.resilience, layout, most=most, wide=wide)]


def _summary(document: ReportDocument) -> str:
    """Count what is not satisfied."""
    violated = [row for row in document.constraints if row.state not in {State.SATISFIED, State.UNKNOWN}]
    workloads = {(row.namespace, workload) for row in violated for workload in row.workloads}
    where = f" in {plural(len(workloads), 'workload')}" if workloads else ""
    limits = sum(row.state not in {State.SATISFIED, State.UNKNOWN} for row in document.limits)
    apart = [row.state for row in document.anti_affinity if not row.weight]
    states = [row.state for row in document.constraints] + [row.state for row in document.limits] + apart
    unknown = states.count(State.UNKNOWN)
    waiting = sum(len(row.pods) for row in document.waiting)
    parts = [
        f"{_count_satisfied(len(violated), [row.state for row in document.constraints], 'constraint')}{where}",
        _count_satisfied(limits, [row.state for row in document.limits], "limit"),
    ]
    if apart:
        broken = sum(state not in {State.SATISFIED, State.UNKNOWN} for state in apart)
        parts.append(_count_satisfied(broken, apart, "anti-affinity term"))
    parts += [f"{unknown} not known"] if unknown else []
    parts += [f"{plural(waiting, 'pod')} without a node"] if waiting else []
    parts += [plural(len(document.deadlocks), "deadlock")] if document.deadlocks else []
    parts += [plural(len(document.findings), "finding")] if document.findings else []
    return f"Report: {', '.join(parts)}."


def _count_satisfied(broken: int, states: Sequence[str], noun: str) -> str:
    """Say how many constraints are not satisfied, or that all are, as far as is known."""
    if broken:
        return f"{broken} of {plural(len(states), noun)} not satisfied"
    if unknown := states.count(State.UNKNOWN):
        return f"{len(states) - unknown} of {plural(len(states), noun)} satisfied"
    if len(states) < 2:
        return f"{plural(len(states), noun)} satisfied" if states else f"no {noun}"
    return f"all {plural(len(states), noun)} satisfied"


def _first_workloads(rows: Sequence[ReportedConstraint], most: int | None) -> Sequence[ReportedConstraint]:
    """Return the rows of the first workloads; workloads that are repaired together count as one."""
    if most is None:
        return rows
    first = list(dict.fromkeys((row.namespace, row.workloads) for row in rows))[:most]
    return [row for row in rows if (row.namespace, row.workloads) in first]


def _constraint_lines(
    rows: Sequence[ReportedConstraint], shown: Sequence[ReportedConstraint], layout: TextLayout, *, wide: bool
) -> list[str]:
    if not rows:
        return ["No workload has a topology spread constraint."]
    lines = layout.table(_COLUMNS, [_row(row, layout, wide=wide) for row in shown])
    hidden = {(row.namespace, row.workloads) for row in rows} - {(row.namespace, row.workloads) for row in shown}
    more = layout.wrap(more_text(len(hidden))) if hidden else []
    legend = [layout.paint(line, Style.QUIET) for line in layout.wrap(_LEGEND)]
    repairable = {
        (row.namespace, row.workloads)
        for row in rows
        if row.state == State.VIOLATED and _is_hard(row) and not row.reason
    }
    hint = f"{plural(len(repairable), 'workload')} can be repaired by evictions: rebalancer plan shows them."
    return [*lines, *more, *legend, *(layout.wrap(hint) if repairable else [])]


def _noted(title: str, lines: Iterable[str], layout: TextLayout) -> list[str]:
    """Return a section under its title; [] if it has no line."""
    wrapped = [line for text in lines for line in layout.wrap(text, hang="  ")]
    return [layout.heading(title), *wrapped] if wrapped else []


def _reasons(rows: Iterable[ReportedConstraint]) -> Iterable[str]:
    """Return a line for each reason why something is not repaired, once for all keys of a workload."""
    return dict.fromkeys(
        f"{row.namespace}/{workload_names(row.workloads)}: {row.reason or row.state}: {row.message}"
        for row in rows
        if row.message
    )


def _waiting(document: ReportDocument) -> Iterator[str]:
    for row in document.waiting:
        names = f"{workload_names((row.workload,))}: {plural(len(row.pods), 'pod')} ({name_list(row.pods)})"
        yield f"{row.namespace}/{names}: {row.message}"


def _causes(rows: Iterable[ReportedConstraint]) -> Iterator[str]:
    """Yield each cause once, with its remedy and the workloads that it concerns."""
    workloads: dict[tuple[str, str], dict[str, None]] = {}
    seen = set()
    for row in rows:
        name = f"{row.namespace}/{workload_names(row.workloads)}"
        if _has_cause_line(row) and (name, row.cause) not in seen:  # the first key of a workload is enough
            seen.add((name, row.cause))
            workloads.setdefault((row.cause or "", row.remedy), {})[f"{name}: {short_key(row.topology_key)}"] = None
    for (cause, remedy), names in workloads.items():
        yield f"{name_list(names)}: cause {cause}. {remedy}"


def _has_cause_line(row: ReportedConstraint) -> bool:
    """Return whether to show the cause: a soft constraint has only one, and an unknown cause has no remedy."""
    return bool(row.cause and row.remedy) and _is_hard(row)


def _is_hard(row: ReportedConstraint) -> bool:
    return row.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE


def _row(row: ReportedConstraint, layout: TextLayout, *, wide: bool) -> tuple[str, ...]:
    listed = ListedCounts(row.counts, {}, row.empty_domains)
    return (
        row.namespace,
        workload_names(row.workloads),
        short_key(row.topology_key),
        str(row.max_skew),
        str(row.skew),
        "hard" if _is_hard(row) else f"soft ({row.origin})",
        layout.paint(row.state, STATE_STYLES.get(State(row.state))),
        _bars(row.counts, layout.bar)
        if layout.bar and row.counts and not row.empty_domains
        else listed_text(listed, wide=wide),
    )


def _bars(counts: Mapping[str, int], bar: str) -> str:
    """Draw the pods of each domain as a bar: `a ██████ 6`; the longest bar has twelve characters at most."""
    scale = min(1.0, _LONGEST_BAR / max(1, *counts.values()))
    drawn = []
    for domain, count in counts.items():
        length = max(1, round(count * scale)) if count else 0
        drawn.append("\xa0".join(filter(None, (domain or "(empty)", bar * length, str(count)))))
    return "   ".join(drawn)
