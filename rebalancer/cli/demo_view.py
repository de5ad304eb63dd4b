"""The demo's display in a terminal: the pods of each workload by zone, limits, moves in flight, evictions.

Bars, skews and limits are those of one moment: of the cluster as it is now, not as the last cycle saw it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.cli.demo_play import DemoRun, Instant, StoryLine
from rebalancer.cli.demo_scenarios import ZONES
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.phrases import plural
from rebalancer.reporting.refusals import component_text
from rebalancer.simulator import START, ZONE

_MOVES = 4
_LINES = 8
"""Rows of fixed number, so that the display does not jump."""

_STYLES = {"ready": "green", "starting": "yellow", "terminating": "magenta", "no node": "red"}
_MARKS = {"ready": "■", "starting": "□", "terminating": "x", "no node": "●"}
_ASCII_MARKS = {"ready": "#", "starting": "o", "terminating": "x", "no node": "!"}


def format_clock(line: StoryLine) -> str:
    """Return a time as minutes and seconds since the beginning."""
    seconds = int((line.at - START).total_seconds())
    return f"{seconds // 60:02}:{seconds % 60:02}"


def draw(play: DemoRun, lines: Sequence[StoryLine], *, ascii_only: bool) -> RenderableType:
    """Draw the state of the demo; `lines` are the lines of the story so far."""
    head = Text().append(f"{format_clock(StoryLine(at=play.cluster.now, text=''))}  ", style="dim")
    head.append(play.scene, style="bold")
    instant = play.look()
    marks = _ASCII_MARKS if ascii_only else _MARKS
    return Group(
        head,
        _workload_table(instant, marks),
        Text("   ".join(f"{mark} {name}" for name, mark in marks.items()), style="dim"),
        *(_limit_line(limit) for limit in instant.assessment.limits),
        _summary(play, instant),
        *_pad(_moves_in_flight(play), _MOVES),
        Text("-" * 40 if ascii_only else "─" * 40, style="dim"),
        *_pad((_format_line(line, ascii_only=ascii_only) for line in lines[-_LINES:]), _LINES),
    )


def _workload_table(instant: Instant, marks: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("WORKLOAD", no_wrap=True)
    for zone in ZONES:
        table.add_column(f"ZONE {zone}", min_width=12, no_wrap=True)
    table.add_column("NO NODE", no_wrap=True)
    table.add_column("SKEW", no_wrap=True)
    nodes = instant.snapshot.node
    placed: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in instant.snapshot.pods:
        node = nodes.get(pod.node or "")
        placed[pod.labels["app"], node.labels[ZONE] if node is not None else ""].append(pod)
    zones = {node.labels[ZONE] for node in instant.snapshot.nodes}
    for app in sorted({app for app, _ in placed}):
        cells = [_draw_pods(placed[app, zone], marks) if zone in zones else Text("lost", style="red") for zone in ZONES]
        table.add_row(app, *cells, _draw_pods(placed[app, ""], marks, is_placed=False), _draw_skews(instant, app))
    return table


def _draw_pods(pods: Iterable[Pod], marks: dict[str, str], *, is_placed: bool = True) -> Text:
    states = Counter(_state(pod, is_placed=is_placed) for pod in pods)
    shown = Text()
    for state, mark in marks.items():
        shown.append(mark * states[state], style=_STYLES[state])
    staying = states.total() - states["terminating"]
    return shown.append(f" {staying}", style="" if is_placed else "red") if states else shown


def _state(pod: Pod, *, is_placed: bool) -> str:
    if pod.terminating:
        return "terminating"
    if not is_placed:
        return "no node"
    return "ready" if pod.ready else "starting"


def _draw_skews(instant: Instant, app: str) -> Text:
    """Show a workload's skews against what its constraints allow."""
    shown = Text()
    for group in instant.assessment.groups:
        if any(workload.name == app for workload in group.group.workloads):
            for evaluated in group.hard:
                counts, constraint = evaluated.counts, evaluated.constraint
                style = "red" if counts.violated else "green"
                shown.append(f"{short_key(constraint.key)} {counts.skew}/{constraint.max_skew}  ", style=style)
    return shown


def _limit_line(limit: EvaluatedLimit) -> Text:
    largest = limit.largest
    held = (
        f"{largest.count} of {limit.total} in {largest.domain} ({float(largest.share):.0%})" if largest else "no pods"
    )
    text = f"Limit {limit.group}/{limit.limit}, {limit.rule.bound} per {short_key(limit.topology_key)}: {held}: "
    satisfied = limit.state is State.SATISFIED
    return Text(text).append(limit.state, style="green" if satisfied else "bold red")


def _summary(play: DemoRun, instant: Instant) -> Text:
    """Say in one line what matters most now."""
    if play.loop.in_force.pause is not None:
        message = play.loop.in_force.pause.message
        return Text(f"{message[:1].upper()}{message[1:]}. {play.evicted} evicted so far.", style="yellow")
    without_node = instant.without_node
    if without_node and not play.loop.memory.in_flight:
        return Text(f"{plural(len(without_node), 'pod')} without a node.", style="bold red")
    if play.minimum:
        return Text(f"{play.evicted} evicted; the proven minimum for the whole repair is {play.minimum}.")
    cycle = play.loop.cycle
    waiting = next((group for group in cycle.plan.groups if group.reason), None) if cycle is not None else None
    if waiting is None:
        if all(limit.state is State.SATISFIED for limit in instant.assessment.limits):
            return Text("Every pod has a node; nothing to repair so far.")
        return Text("Every pod has a node; no eviction can satisfy the limit now.", style="yellow")
    return Text(f"Nothing is evicted yet: {waiting.reason}: {component_text(waiting)}.")


def _moves_in_flight(play: DemoRun) -> Iterable[Text]:
    for move in play.loop.memory.in_flight:
        zones = next((target.values for target in move.targets if target.topology_key == ZONE), ())
        yield Text(f"  {move.pod}  {move.node} -> zone {'/'.join(zones) or 'any'}  ").append(move.state, "yellow")


def _format_line(line: StoryLine, *, ascii_only: bool) -> Text:
    shown = Text(no_wrap=True, overflow="crop" if ascii_only else "ellipsis")
    shown.append(f"{format_clock(line)}  ", style="dim")
    return shown.append(line.text, style="bold red" if line.is_alert else "default")


def _pad(rows: Iterable[Text], number: int) -> list[Text]:
    shown = list(rows)[:number]
    return [*shown, *(Text() for _ in range(number - len(shown)))]
