"""What one sees of a demo in a terminal: where the pods of each workload stand, what moves, plan against minimum."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rebalancer.adapters.simulator import START, ZONE
from rebalancer.cli.demo_play import ZONES, Line, Play
from rebalancer.model.pods import Pod
from rebalancer.reporting.keys import short_key

_MOVES = 6
_LINES = 8
"""So many rows are always there, so that nothing jumps."""

_STYLES = {"ready": "green", "starting": "yellow", "going": "red"}
_MARKS = {"ready": "■", "starting": "□", "going": "x"}
_ASCII_MARKS = {"ready": "#", "starting": "o", "going": "x"}


def clock(line: Line) -> str:
    """Show a moment as minutes and seconds since the beginning."""
    seconds = int((line.at - START).total_seconds())
    return f"{seconds // 60:02}:{seconds % 60:02}"


def picture(play: Play, told: Sequence[Line], *, ascii_only: bool) -> RenderableType:
    """Draw the play as it stands; `told` are the lines so far."""
    head = Text(f"{clock(Line(at=play.cluster.now, text=''))}  ", style="dim")
    head.append(play.scene, style="bold")
    return Group(
        head,
        _workloads(play, _ASCII_MARKS if ascii_only else _MARKS),
        Text(_legend(_ASCII_MARKS if ascii_only else _MARKS), style="dim"),
        _figures(play),
        *_padded(_moves(play), _MOVES),
        Text("-" * 40 if ascii_only else "─" * 40, style="dim"),
        *_padded((_narrated(line, ascii_only=ascii_only) for line in told[-_LINES:]), _LINES),
    )


def _legend(marks: dict[str, str]) -> str:
    return "   ".join(f"{mark} {name}" for name, mark in marks.items())


def _workloads(play: Play, marks: dict[str, str]) -> Table:
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
        cells = [_pods(placed[app, zone], marks) if zone in zones else Text("away", style="dim") for zone in ZONES]
        table.add_row(app, *cells, _pods(placed[app, ""], marks), _skew(play, app))
    return table


def _pods(pods: Iterable[Pod], marks: dict[str, str]) -> Text:
    states = sorted(("going" if pod.terminating else "ready" if pod.ready else "starting") for pod in pods)
    states.sort(key=list(marks).index)
    shown = Text()
    for state in states:
        shown.append(marks[state], style=_STYLES[state])
    staying = sum(state != "going" for state in states)
    return shown.append(f" {staying}") if states else shown


def _skew(play: Play, app: str) -> Text:
    """Show a workload's skews against what its constraints allow."""
    cycle = play.loop.cycle
    shown = Text()
    for group in cycle.assessment.groups if cycle is not None else ():
        if any(workload.name == app for workload in group.group.workloads):
            for judged in group.hard:
                counts, constraint = judged.counts, judged.constraint
                style = "red" if counts.violated else "green"
                shown.append(f"{short_key(constraint.key)} {counts.skew}/{constraint.max_skew}  ", style=style)
    return shown


def _figures(play: Play) -> Text:
    if play.minimum:
        return Text(f"{play.evicted} evicted; the proven minimum for the whole repair is {play.minimum}.")
    cycle = play.loop.cycle
    waiting = next((group for group in cycle.plan.groups if group.reason), None) if cycle is not None else None
    if waiting is None:
        return Text("Nothing to repair so far.")
    return Text(f"Nothing is evicted yet: {waiting.reason}: {waiting.message}.")


def _moves(play: Play) -> Iterable[Text]:
    for move in play.loop.memory.in_flight:
        zones = next((target.values for target in move.targets if target.topology_key == ZONE), ())
        yield Text(f"  {move.pod}  {move.node} -> zone {'/'.join(zones) or 'any'}  ").append(move.state, "yellow")


def _narrated(line: Line, *, ascii_only: bool) -> Text:
    moment = Text(f"{clock(line)}  ", style="dim", no_wrap=True, overflow="crop" if ascii_only else "ellipsis")
    return moment.append(line.text, style="default")


def _padded(rows: Iterable[Text], number: int) -> list[Text]:
    shown = list(rows)[:number]
    return [*shown, *(Text() for _ in range(number - len(shown)))]
