"""The demo's display in a terminal: the pods of each workload by zone, moves in flight, evictions and their minimum."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rebalancer.adapters.simulator import START, ZONE
from rebalancer.cli.demo_play import ZONES, DemoRun, StoryLine
from rebalancer.model.pods import Pod
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.refusals import component_text

_MOVES = 6
_LINES = 8
"""Rows of fixed number, so that the display does not jump."""

_STYLES = {"ready": "green", "starting": "yellow", "going": "red"}
_MARKS = {"ready": "■", "starting": "□", "going": "x"}
_ASCII_MARKS = {"ready": "#", "starting": "o", "going": "x"}


def format_clock(line: StoryLine) -> str:
    """Return a time as minutes and seconds since the beginning."""
    seconds = int((line.at - START).total_seconds())
    return f"{seconds // 60:02}:{seconds % 60:02}"


def draw(play: DemoRun, lines: Sequence[StoryLine], *, ascii_only: bool) -> RenderableType:
    """Draw the state of the demo; `lines` are the lines of the story so far."""
    head = Text(f"{format_clock(StoryLine(at=play.cluster.now, text=''))}  ", style="dim")
    head.append(play.scene, style="bold")
    return Group(
        head,
        _workload_table(play, _ASCII_MARKS if ascii_only else _MARKS),
        Text(_legend(_ASCII_MARKS if ascii_only else _MARKS), style="dim"),
        _summary(play),
        *_pad(_moves_in_flight(play), _MOVES),
        Text("-" * 40 if ascii_only else "─" * 40, style="dim"),
        *_pad((_format_line(line, ascii_only=ascii_only) for line in lines[-_LINES:]), _LINES),
    )


def _legend(marks: dict[str, str]) -> str:
    return "   ".join(f"{mark} {name}" for name, mark in marks.items())


def _workload_table(play: DemoRun, marks: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("WORKLOAD")
    for zone in ZONES:
        table.add_column(f"ZONE {zone}", min_width=14)
    table.add_column("NO NODE")
    table.add_column("SKEW")
    snapshot = play.cluster.snapshot(play.cluster.now)
    placed: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        node = snapshot.node.get(pod.node or "")
        placed[pod.labels["app"], node.labels[ZONE] if node is not None else ""].append(pod)
    zones = {node.labels[ZONE] for node in snapshot.nodes}
    for app in sorted({app for app, _ in placed}):
        cells = [_draw_pods(placed[app, zone], marks) if zone in zones else Text("away", style="dim") for zone in ZONES]
        table.add_row(app, *cells, _draw_pods(placed[app, ""], marks), _draw_skews(play, app))
    return table


def _draw_pods(pods: Iterable[Pod], marks: dict[str, str]) -> Text:
    states = sorted(("going" if pod.terminating else "ready" if pod.ready else "starting") for pod in pods)
    states.sort(key=list(marks).index)
    shown = Text()
    for state in states:
        shown.append(marks[state], style=_STYLES[state])
    staying = sum(state != "going" for state in states)
    return shown.append(f" {staying}") if states else shown


def _draw_skews(play: DemoRun, app: str) -> Text:
    """Show a workload's skews against what its constraints allow."""
    cycle = play.loop.cycle
    shown = Text()
    for group in cycle.assessment.groups if cycle is not None else ():
        if any(workload.name == app for workload in group.group.workloads):
            for evaluated in group.hard:
                counts, constraint = evaluated.counts, evaluated.constraint
                style = "red" if counts.violated else "green"
                shown.append(f"{short_key(constraint.key)} {counts.skew}/{constraint.max_skew}  ", style=style)
    return shown


def _summary(play: DemoRun) -> Text:
    if play.minimum:
        return Text(f"{play.evicted} evicted; the proven minimum for the whole repair is {play.minimum}.")
    cycle = play.loop.cycle
    waiting = next((group for group in cycle.plan.groups if group.reason), None) if cycle is not None else None
    if waiting is None:
        return Text("Nothing to repair so far.")
    return Text(f"Nothing is evicted yet: {waiting.reason}: {component_text(waiting)}.")


def _moves_in_flight(play: DemoRun) -> Iterable[Text]:
    for move in play.loop.memory.in_flight:
        zones = next((target.values for target in move.targets if target.topology_key == ZONE), ())
        yield Text(f"  {move.pod}  {move.node} -> zone {'/'.join(zones) or 'any'}  ").append(move.state, "yellow")


def _format_line(line: StoryLine, *, ascii_only: bool) -> Text:
    moment = Text(f"{format_clock(line)}  ", style="dim", no_wrap=True, overflow="crop" if ascii_only else "ellipsis")
    return moment.append(line.text, style="default")


def _pad(rows: Iterable[Text], number: int) -> list[Text]:
    shown = list(rows)[:number]
    return [*shown, *(Text() for _ in range(number - len(shown)))]
