"""The picture of a running simulation: the pods of each workload by zone, limits, moves in flight, evictions.

Bars, skews and limits are those of one moment: of the cluster as the controller's last cycle saw it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.engine import Evaluation
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import plural, short_key
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.reporting.phrases import component_text, key_text
from rebalancer.simulator import ZONE
from rebalancer.simulator.story import Story, StoryLine

_MOVES: Final = 4
_LINES: Final = 8
"""Rows of fixed number, so that the picture does not jump."""

_WORKLOADS: Final = 12
_LIMITS: Final = 4
_ZONES: Final = 4
"""At most; the others are counted."""

_WIDEST: Final = 12
"""Pods that a bar has at most; of more their number is shown."""

_STYLES: Final = {"ready": "green", "starting": "yellow", "terminating": "magenta", "no node": "red"}
_MARKS: Final = {"ready": "■", "starting": "□", "terminating": "x", "no node": "●"}
_ASCII_MARKS: Final = {"ready": "#", "starting": "o", "terminating": "x", "no node": "!"}


def format_clock(elapsed: timedelta) -> str:
    """Return a time since the beginning as minutes and seconds."""
    seconds = int(elapsed.total_seconds())
    return f"{seconds // 60:02}:{seconds % 60:02}"


def draw(story: Story, lines: Sequence[StoryLine], *, ascii_only: bool) -> RenderableType:
    """Draw the state of a simulation after its last cycle; `lines` are the lines of its story so far."""
    head = Text().append(f"{format_clock(story.elapsed)}  ", style="dim").append(story.scene, style="bold")
    seen = story.evaluation
    marks = _ASCII_MARKS if ascii_only else _MARKS
    return Group(
        head,
        *_workload_rows(story, seen, marks),
        Text("   ".join(f"{mark} {name}" for name, mark in marks.items()), style="dim"),
        *_limit_lines(seen.assessment.limits),
        _summary(story, seen),
        *_pad(_moves_in_flight(story), _MOVES),
        Text("-" * 40 if ascii_only else "─" * 40, style="dim"),
        *_pad((_format_line(line, ascii_only=ascii_only) for line in lines[-_LINES:]), _LINES),
    )


def _workload_rows(story: Story, seen: Evaluation, marks: dict[str, str]) -> Iterable[RenderableType]:
    """Yield the table of workloads, and how many workloads and zones it leaves out."""
    snapshot = seen.view.snapshot
    tops = {top.uid: top for top in map(snapshot.top_owner_of, snapshot.pods) if top is not None}
    has_several = len({top.namespace for top in tops.values()}) > 1
    names = {uid: f"{top.namespace}/{top.name}" if has_several else top.name for uid, top in tops.items()}
    placed = _sort_pods(snapshot)
    present = {node.labels.get(ZONE, "") for node in snapshot.nodes}
    zones = sorted(story.zones | present)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("WORKLOAD", no_wrap=True)
    for zone in zones[:_ZONES]:
        table.add_column(f"ZONE {zone or '-'}", min_width=12, no_wrap=True)
    table.add_column("NO NODE", no_wrap=True)
    table.add_column("SKEW", no_wrap=True)
    for uid in sorted(tops, key=lambda uid: names[uid])[:_WORKLOADS]:
        cells = [
            _draw_pods(placed[uid, zone], marks) if zone in present else Text("lost", style="red")
            for zone in zones[:_ZONES]
        ]
        without = _draw_pods(placed[uid, None], marks, is_placed=False)
        table.add_row(names[uid], *cells, without, _draw_skews(seen.assessment, tops[uid]))
    yield table
    left = [(len(zones) - _ZONES, "zone"), (len(tops) - _WORKLOADS, "workload")]
    yield from (Text(f"{plural(number, f'more {what}')} not shown.") for number, what in left if number > 0)


def _sort_pods(snapshot: Snapshot) -> defaultdict[tuple[str, str | None], list[Pod]]:
    """Return the pods by the UID of their workload and by zone, None: without a node that exists."""
    placed: defaultdict[tuple[str, str | None], list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        top, node = snapshot.top_owner_of(pod), snapshot.node.get(pod.node or "")
        if top is not None:
            placed[top.uid, node.labels.get(ZONE, "") if node is not None else None].append(pod)
    return placed


def _draw_pods(pods: Iterable[Pod], marks: dict[str, str], *, is_placed: bool = True) -> Text:
    states = Counter(_state(pod, is_placed=is_placed) for pod in pods)
    shown = Text()
    for state, mark in marks.items():
        if number := states[state]:
            shown.append(mark * number if states.total() <= _WIDEST else f"{mark}{number} ", style=_STYLES[state])
    staying = states.total() - states["terminating"]
    return shown.append(f" {staying}", style="" if is_placed else "red") if states else shown


def _state(pod: Pod, *, is_placed: bool) -> str:
    if pod.terminating:
        return "terminating"
    if not is_placed:
        return "no node"
    return "ready" if pod.ready else "starting"


def _draw_skews(assessment: Assessment, top: Workload) -> Text:
    """Show a workload's skews against what its constraints allow."""
    shown = Text()
    for evaluated_group in assessment.groups:
        if reference_of(top) in evaluated_group.spread.workloads:
            for evaluated in evaluated_group.hard:
                counts, constraint = evaluated.counts, evaluated.constraint
                style = "red" if counts.violated else "green"
                shown.append(f"{short_key(constraint.key)} {counts.skew}/{constraint.max_skew}  ", style=style)
    return shown


def _limit_lines(limits: Sequence[EvaluatedLimit]) -> Iterable[Text]:
    """Yield the limits with the least headroom."""
    shown = sorted(limits, key=lambda limit: limit.headroom)[:_LIMITS] if len(limits) > _LIMITS else limits
    several = Counter((limit.group, limit.limit) for limit in limits)
    for limit in shown:
        yield _limit_line(limit, is_one_of_several=several[limit.group, limit.limit] > 1)
    if len(limits) > len(shown):
        yield Text(f"{plural(len(limits) - len(shown), 'more limit')} with at least as much headroom.", style="dim")


def _limit_line(limit: EvaluatedLimit, *, is_one_of_several: bool) -> Text:
    largest = limit.largest
    held = (
        f"{largest.count} of {limit.total} in {largest.domain} ({float(largest.share):.0%})" if largest else "no pods"
    )
    whose = f" of {key_text(limit.key)}" if is_one_of_several else ""
    text = f"Limit {limit.group}/{limit.limit}{whose}, {limit.rule.bound} per {short_key(limit.topology_key)}: {held}: "
    satisfied = limit.state is State.SATISFIED
    return Text(text).append(limit.state, style="green" if satisfied else "bold red")


def _summary(story: Story, seen: Evaluation) -> Text:
    """Say in one line what matters most now."""
    evicted = story.play.evicted
    if story.loop.in_force.pause is not None:
        message = story.loop.in_force.pause.message
        return Text(f"{message[:1].upper()}{message[1:]}. {evicted} evicted so far.", style="yellow")
    snapshot = seen.view.snapshot
    without_node = sum(not pod.terminating and pod.node not in snapshot.node for pod in snapshot.pods)
    if without_node and not story.loop.memory.in_flight:
        return Text(f"{plural(without_node, 'pod')} without a node.", style="bold red")
    if story.minimum:
        return Text(f"{evicted} evicted; the proven minimum for the whole repair is {story.minimum}.")
    waiting = next((group for group in seen.plan.components if group.reason), None)
    if waiting is None:
        if all(limit.state is State.SATISFIED for limit in seen.assessment.limits):
            return Text("Every pod has a node; nothing to repair so far.")
        return Text("Every pod has a node; no eviction can satisfy the limit now.", style="yellow")
    return Text(f"Nothing is evicted yet: {waiting.reason}: {component_text(waiting)}.")


def _moves_in_flight(story: Story) -> Iterable[Text]:
    for move in story.loop.memory.in_flight:
        zones = next((target.values for target in move.targets if target.topology_key == ZONE), ())
        yield Text(f"  {move.pod}  {move.node} -> zone {'/'.join(zones) or 'any'}  ").append(move.state, "yellow")


def _format_line(line: StoryLine, *, ascii_only: bool) -> Text:
    shown = Text(no_wrap=True, overflow="crop" if ascii_only else "ellipsis")
    shown.append(f"{format_clock(line.at)}  ", style="dim")
    return shown.append(line.text, style="bold red" if line.is_alert else "default")


def _pad(rows: Iterable[Text], number: int) -> list[Text]:
    shown = list(rows)[:number]
    return [*shown, *(Text() for _ in range(number - len(shown)))]
