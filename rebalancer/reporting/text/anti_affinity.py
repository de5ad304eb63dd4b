"""The anti-affinity of a report as text: a table of the terms that are not satisfied, why, and a summary."""

from collections.abc import Sequence
from typing import Final

from rebalancer.documents.anti_affinity import ConflictingPods, ReportedAntiAffinity, ReportedConflict
from rebalancer.documents.phrases import workload_names
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.words import plural, short_key
from rebalancer.reporting.text.layout import STATE_STYLES, TextLayout, more_text

_COLUMNS: Final = ("NAMESPACE", "ANTI-AFFINITY OF", "KEY", "TO", "EXCESS", "STATE", "SHARED DOMAINS")


def anti_affinity_sections(
    terms: Sequence[ReportedAntiAffinity], layout: TextLayout, most: int | None
) -> list[list[str]]:
    """Show the terms that are not satisfied; show nothing if no pod has such a term.

    `most` is how many are shown, None for all.
    """
    if not terms:
        return []
    unsatisfied = [term for term in terms if term.state != State.SATISFIED]
    shown = unsatisfied[:most]
    parts = []
    if shown:
        more = layout.wrap(more_text(len(unsatisfied) - len(shown))) if len(shown) < len(unsatisfied) else []
        notes = [line for term in shown if term.message for line in layout.wrap(_note(term), hang="  ")]
        parts.append([*layout.table(_COLUMNS, [_row(term, layout) for term in shown]), *more, *notes])
    required, preferred = ([term for term in terms if bool(term.weight) is of] for of in (False, True))
    summary = [
        *([_summary(required, "required")] if required else []),
        *([_summary(preferred, "preferred")] if preferred else []),
    ]
    return [*parts, [line for text in summary for line in layout.wrap(text)]]


def _summary(terms: Sequence[ReportedAntiAffinity], kind: str) -> str:
    satisfied = sum(term.state == State.SATISFIED for term in terms)
    verb = "is" if len(terms) == 1 else "are"
    how = "satisfied" if kind == "required" else "honoured as far as counting allows"
    return f"{satisfied} of {plural(len(terms), f'{kind} podAntiAffinity term')} {verb} {how}."


def _note(term: ReportedAntiAffinity) -> str:
    text = f"{term.namespace}/{workload_names(term.workloads)}: {term.state}: {term.message}"
    text = f"{text}. {term.reason}: {term.obstacle}" if term.reason else text
    cause = f"Cause: {term.cause}." if term.cause and term.cause != ViolationCause.UNKNOWN else ""
    more = " ".join(filter(None, (cause, term.remedy)))
    return f"{text.removesuffix('.')}. {more}" if more else text


def _row(term: ReportedAntiAffinity, layout: TextLayout) -> tuple[str, ...]:
    conflicts = [_conflict_text(conflict) for conflict in term.conflicts]
    if term.omitted_domains:
        conflicts.append(f"and {plural(term.omitted_domains, 'more domain')}")
    return (
        term.namespace,
        workload_names(term.workloads),
        short_key(term.topology_key),
        term.selects,
        f"weight {term.weight}" if term.weight else str(term.excess),
        layout.paint(term.state, STATE_STYLES.get(State(term.state))),
        "; ".join(conflicts),
    )


def _conflict_text(conflict: ReportedConflict) -> str:
    workloads = [_pods_text(one) for one in conflict.workloads]
    if conflict.omitted_workloads:
        workloads.append(f"{plural(conflict.omitted_workloads, 'more workload')}")
    return f"{conflict.domain}: {', '.join(workloads)}"


def _pods_text(one: ConflictingPods) -> str:
    more = f" and {one.omitted} more" if one.omitted else ""
    return f"{', '.join(one.pods)}{more}"
