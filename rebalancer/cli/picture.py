"""The picture of a running simulation: the pods of each workload by zone, limits, moves in flight, evictions.

Bars, skews and limits show the same moment: the cluster that the controller's last cycle saw.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.phrases import component_text, key_text
from rebalancer.engine import Evaluation
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.visible import visible
from rebalancer.model.words import plural, short_key
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.reporting.text.layout import STATE_STYLES, Style, TextLayout
from rebalancer.simulator import ZONE
from rebalancer.simulator.story import Story, StoryLine

_MOVES: Final = 4
_LINES: Final = 8
"""A fixed number of rows, so that the picture does not jump."""

_WORKLOADS: Final = 12
_LIMITS: Final = 4
_ZONES: Final = 4
"""Up to this many zones are drawn; the rest are counted."""

_WIDEST: Final = 12
"""A bar draws up to this many pods; a larger number is written."""

_NARROWEST: Final = 12
"""Least number of columns of a zone, so that the picture does not jump."""

_STYLES: Final = {
    "ready": Style.GOOD,
    "starting": Style.CAUTION,
    "terminating": Style.QUIET,
    "no node": Style.BAD,
}
_MARKS: Final = {"ready": "■", "starting": "□", "terminating": "x", "no node": "●"}
_ASCII_MARKS: Final = {"ready": "#", "starting": "o", "terminating": "x", "no node": "!"}


def format_clock(elapsed: timedelta) -> str:
    """Return a time since the beginning as minutes and seconds."""
    seconds = int(elapsed.total_seconds())
    return f"{seconds // 60:02}:{seconds % 60:02}"


def draw(story: Story, lines: Sequence[StoryLine], layout: TextLayout, *, ascii_only: bool) -> list[str]:
    """Draw the state of a simulation after its last cycle; `lines` are the lines of its story so far."""
    seen = story.evaluation
    marks = _ASCII_MARKS if ascii_only else _MARKS
    return [
        *layout.wrap(f"{layout.paint(format_clock(story.elapsed), Style.QUIET)}  {layout.heading(story.scene)}"),
        *_workload_rows(story, seen, layout, marks),
        layout.paint("   ".join(f"{mark} {name}" for name, mark in marks.items()), Style.QUIET),
        *_limit_lines(seen.assessment.limits, layout),
        *layout.wrap(_summary(story, seen, layout)),
        *_pad(_moves_in_flight(story, layout), _MOVES),
        layout.paint(("-" if ascii_only else "─") * 40, Style.QUIET),
        *_pad((_format_line(line, layout, ascii_only=ascii_only) for line in lines[-_LINES:]), _LINES),
    ]


def _workload_rows(story: Story, seen: Evaluation, layout: TextLayout, marks: dict[str, str]) -> Iterable[str]:
    """Yield the table of workloads, and how many workloads and zones it leaves out."""
    snapshot = seen.view.snapshot
    tops = {top.uid: top for top in map(snapshot.top_owner_of, snapshot.pods) if top is not None}
    has_several = len({top.namespace for top in tops.values()}) > 1
    names = {uid: f"{top.namespace}/{top.name}" if has_several else top.name for uid, top in tops.items()}
    placed = _sort_pods(snapshot)
    present = {node.labels.get(ZONE, "") for node in snapshot.nodes}
    zones = sorted(story.zones | present)
    head = ["WORKLOAD", *(f"ZONE {zone or '-'}".ljust(_NARROWEST) for zone in zones[:_ZONES]), "NO NODE", "SKEW"]
    rows = []
    for uid in sorted(tops, key=lambda uid: names[uid])[:_WORKLOADS]:
        cells = [
            _draw_pods(placed[uid, zone], layout, marks) if zone in present else layout.paint("lost", Style.BAD)
            for zone in zones[:_ZONES]
        ]
        without = _draw_pods(placed[uid, None], layout, marks, is_placed=False)
        rows.append([names[uid], *cells, without, _draw_skews(seen.assessment, tops[uid], layout)])
    yield from layout.table(head, rows)
    left = [(len(zones) - _ZONES, "zone"), (len(tops) - _WORKLOADS, "workload")]
    yield from (f"{plural(number, f'more {what}')} not shown." for number, what in left if number > 0)


def _sort_pods(snapshot: Snapshot) -> defaultdict[tuple[str, str | None], list[Pod]]:
    """Return the pods by the UID of their workload and by zone; None for pods without an existing node."""
    placed: defaultdict[tuple[str, str | None], list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        top, node = snapshot.top_owner_of(pod), snapshot.node.get(pod.node or "")
        if top is not None:
            placed[top.uid, node.labels.get(ZONE, "") if node is not None else None].append(pod)
    return placed


def _draw_pods(pods: Iterable[Pod], layout: TextLayout, marks: dict[str, str], *, is_placed: bool = True) -> str:
    states = Counter(_state(pod, is_placed=is_placed) for pod in pods)
    if not states:
        return ""
    shown = "".join(
        layout.paint(mark * states[state] if states.total() <= _WIDEST else f"{mark}{states[state]} ", _STYLES[state])
        for state, mark in marks.items()
        if states[state]
    )
    staying = states.total() - states["terminating"]
    return shown + layout.paint(f" {staying}", None if is_placed else Style.BAD)


def _state(pod: Pod, *, is_placed: bool) -> str:
    if pod.terminating:
        return "terminating"
    if not is_placed:
        return "no node"
    return "ready" if pod.ready else "starting"


def _draw_skews(assessment: Assessment, top: Workload, layout: TextLayout) -> str:
    """Show a workload's skews against the maxSkew of its constraints."""
    return "  ".join(
        layout.paint(
            f"{short_key(evaluated.constraint.key)} {evaluated.counts.skew}/{evaluated.constraint.max_skew}",
            Style.BAD if evaluated.counts.violated else Style.GOOD,
        )
        for evaluated_group in assessment.groups
        if reference_of(top) in evaluated_group.spread.workloads
        for evaluated in evaluated_group.hard
    )


def _limit_lines(limits: Sequence[EvaluatedLimit], layout: TextLayout) -> Iterable[str]:
    """Yield the limits with the least headroom."""
    shown = sorted(limits, key=lambda limit: limit.headroom)[:_LIMITS] if len(limits) > _LIMITS else limits
    several = Counter((limit.group, limit.limit) for limit in limits)
    for limit in shown:
        yield from layout.wrap(_limit_text(limit, layout, is_one_of_several=several[limit.group, limit.limit] > 1))
    if len(limits) > len(shown):
        text = f"{plural(len(limits) - len(shown), 'more limit')} with at least as much headroom."
        yield layout.paint(text, Style.QUIET)


def _limit_text(limit: EvaluatedLimit, layout: TextLayout, *, is_one_of_several: bool) -> str:
    largest = limit.largest
    held = (
        f"{largest.count} of {limit.total} in {largest.domain} ({float(largest.share):.0%})" if largest else "no pods"
    )
    whose = f" of {key_text(limit.key)}" if is_one_of_several else ""
    state = layout.paint(limit.state, STATE_STYLES.get(limit.state))
    return (
        f"Limit {limit.group}/{limit.limit}{whose}, {limit.rule.bound} per {short_key(limit.topology_key)}: "
        f"{held}: {state}"
    )


def _summary(story: Story, seen: Evaluation, layout: TextLayout) -> str:
    """Say in one line what matters most now."""
    evicted = story.play.evicted
    if story.loop.in_force.pause is not None:
        message = story.loop.in_force.pause.message
        return layout.paint(f"{message[:1].upper()}{message[1:]}. {evicted} evicted so far.", Style.CAUTION)
    snapshot = seen.view.snapshot
    without_node = sum(not pod.terminating and pod.node not in snapshot.node for pod in snapshot.pods)
    if without_node and not story.loop.memory.in_flight:
        return layout.paint(f"{plural(without_node, 'pod')} without a node.", Style.BAD)
    if story.minimum:
        return f"{evicted} evicted; the proven minimum for the whole repair is {story.minimum}."
    waiting = next((group for group in seen.plan.components if group.reason), None)
    if waiting is None:
        if all(limit.state is State.SATISFIED for limit in seen.assessment.limits):
            return "Every pod has a node; nothing to repair so far."
        return layout.paint("Every pod has a node; no eviction can satisfy the limit now.", Style.STUCK)
    return f"Nothing is evicted yet: {waiting.reason}: {component_text(waiting)}."


def _moves_in_flight(story: Story, layout: TextLayout) -> Iterable[str]:
    for move in story.loop.memory.in_flight:
        zones = next((target.values for target in move.targets if target.topology_key == ZONE), ())
        state = layout.paint(move.state, Style.MOVING)
        yield f"  {move.pod}  {move.node} -> zone {'/'.join(zones) or 'any'}  {state}"


def _format_line(line: StoryLine, layout: TextLayout, *, ascii_only: bool) -> str:
    clock = f"{format_clock(line.at)}  "
    text = visible(line.text)
    if layout.width is not None and len(clock) + len(text) > layout.width:
        ellipsis = "..." if ascii_only else "…"
        text = f"{text[: layout.width - len(clock) - len(ellipsis)]}{ellipsis}"
    return layout.paint(clock, Style.QUIET) + layout.paint(text, Style.BAD if line.is_alert else None)


def _pad(rows: Iterable[str], number: int) -> list[str]:
    shown = list(rows)[:number]
    return [*shown, *[""] * (number - len(shown))]
