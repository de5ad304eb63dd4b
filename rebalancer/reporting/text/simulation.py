"""A simulation as text: first the summary, then steps, worst moments, the events in order, and the report."""

from collections.abc import Sequence
from typing import Final

from rebalancer.documents.phrases import key_text, proof_text
from rebalancer.documents.simulation import SimulationDocument, WorstMoments
from rebalancer.model.words import plural
from rebalancer.reporting.text.layout import PLAIN, TextLayout, join_lines, sections
from rebalancer.reporting.text.report import report_text
from rebalancer.reporting.text.resilience import changed_loss_lines

_SHOWN: Final = frozenset(
    {
        "Evicted",
        "Refused",
        "Scaled",
        "SurgeBegan",
        "SurgeEnded",
        "Unschedulable",
        "NodeRemoved",
        "NodeAdded",
        "NodeCordoned",
        "NodeUncordoned",
    }
)
"""Events that the table shows; others are shown only with `wide`."""

_MOST_EVENTS: Final = 40
_MOST_WORST: Final = 10
"""Without `wide`, at most this many rows are shown; the rest are counted."""


def simulation_text(document: SimulationDocument, note: str, layout: TextLayout = PLAIN, *, wide: bool = False) -> str:
    """Show a simulation; `note` says which part of the policy is simulated in another way, "" if none is."""
    parts = [
        [layout.heading(line) for line in layout.wrap(_summary(document))],
        [line for text in (note, _one_order(document)) if text for line in layout.wrap(text)],
        _steps(document, layout),
        _worst(document.worst, layout, wide=wide),
        _events(document, layout, wide=wide),
        _losses(document, layout),
        [layout.heading("AT THE END")],
    ]
    text = join_lines(sections(parts))
    return f"{text}{report_text(document.report, layout=layout, wide=wide)}"


def format_seconds(seconds: float) -> str:
    """Show a time since the start in whole seconds: `1h02m03s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m{rest:02}s"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _summary(document: SimulationDocument) -> str:
    took = format_seconds(document.seconds)
    if document.evictions:
        cost = proof_text(document.evictions, min(document.lower_bound, document.evictions))
    else:
        cost = "no eviction"
    if document.surged:
        cost += f", {plural(document.surged, 'pod')} went after as many were added"
    end = "then nothing moves any more" if document.settled else "something still moves then"
    return f"Simulated: {cost}, {took} until the last change; {end}."


def _losses(document: SimulationDocument, layout: TextLayout) -> list[str]:
    lines = [line for text in changed_loss_lines(document.resilience) for line in layout.wrap(text, hang="  ")]
    return [layout.heading("IF A ZONE IS LOST"), *lines] if lines else []


def _one_order(document: SimulationDocument) -> str:
    """Say what a simulated loss can show, and which command shows more; return "" if no node is lost."""
    if all(event.what != "NodeRemoved" for event in document.events):
        return ""
    return (
        "One order of many was played, and lost nodes were deleted at once with their pods; rebalancer resilience says "
        "what holds in every order, also while lost nodes are silent."
    )


def _steps(document: SimulationDocument, layout: TextLayout) -> list[str]:
    surged = ("BY SURGES",) if document.surged else ()
    rows = [
        (
            format_seconds(step.at),
            step.change or "(none)",
            _of_minimum(step.evictions, step.lower_bound),
            *([str(step.surged)] if surged else []),
            str(step.without_node),
        )
        for step in document.steps
    ]
    return [layout.heading("STEPS"), *layout.table(("AT", "CHANGE", "EVICTIONS", *surged, "WITHOUT A NODE"), rows)]


def _of_minimum(evictions: int, lower_bound: int) -> str:
    return f"{evictions} (minimum {lower_bound})" if evictions and lower_bound else str(evictions)


def _worst(worst: WorstMoments, layout: TextLayout, *, wide: bool) -> list[str]:
    """Return the worst moments, worst first."""
    limits = [
        (row.headroom, f"limit {row.group}/{row.limit} of {row.namespace}{_key(row.key)}", _pods(row.headroom), row.at)
        for row in worst.limits
    ]
    missing = [
        (
            row.ready - row.wanted,
            f"{row.workload.kind} {row.namespace}/{row.workload.name}",
            f"{row.ready} of {row.wanted} pods Ready",
            row.at,
        )
        for row in worst.workloads
    ]
    rows = [(format_seconds(at), what, how) for _, what, how, at in (*sorted(limits), *sorted(missing))]
    if worst.without_node.pods:
        pods = plural(worst.without_node.pods, "pod")
        rows.insert(0, (format_seconds(worst.without_node.at), "pods without a node", pods))
    if not rows:
        return []
    shown = rows if wide else rows[:_MOST_WORST]
    return [
        layout.heading("WORST MOMENTS"),
        *layout.table(("AT", "OF", "HOW"), shown),
        *_more(len(rows) - len(shown)),
    ]


def _pods(headroom: int) -> str:
    if headroom < 0:
        return f"violated by {plural(-headroom, 'pod')}"
    return f"headroom of {plural(headroom, 'pod')}"


def _key(key: object) -> str:
    text = key_text(key) if key else ""  # type: ignore[arg-type]
    return f" ({text})" if text else ""


def _events(document: SimulationDocument, layout: TextLayout, *, wide: bool) -> list[str]:
    chosen = [event for event in document.events if wide or event.what in _SHOWN]
    shown = chosen if wide else chosen[:_MOST_EVENTS]
    if not shown:
        return []
    rows = [(format_seconds(event.at), event.what, _about(event.object, event.detail)) for event in shown]
    return [
        layout.heading("WHAT HAPPENED"),
        *layout.table(("AT", "WHAT", "OBJECT"), rows),
        *_more(len(chosen) - len(shown)),
    ]


def _about(name: str, detail: str) -> str:
    return f"{name}: {detail}" if detail else name


def _more(number: int) -> Sequence[str]:
    return [f"and {number:,} more: -o wide, -o json"] if number else []
