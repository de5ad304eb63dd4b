"""The zones of a large cluster as shapes: a bar for the pods of violated workloads, a small square for each node.

Squares of a kind are together, notable kinds first. They are drawn as runs: a patterned rectangle for the rest of a
row, one for all full rows, one for the start of the last row. So a zone takes at most three rectangles for each kind,
for any number of nodes. Lengths are in pixels.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rebalancer.documents.map import CLOSED
from rebalancer.documents.zones import NodeMark, ZoneEntry, ZonesDocument
from rebalancer.model.words import short_key

WIDTH: Final = 380.0
PITCH: Final = 10.0
"""The distance from one square to the next."""

ROW: Final = 38
"""Squares in a row."""

_MANY: Final = 2_000
"""From this many nodes on, a square stands for several nodes."""

_MOST_SQUARES: Final = 10 * ROW
"""Most squares of a zone if a square stands for several nodes."""

_BAR: Final = 366.0
"""The longest bar, apart from small parts that are drawn longer to be visible."""

_LEAST: Final = 2.5
_NO_ZONE: Final = "(none)"

_PATTERNS: Final = {"waiting": "striped", "blocked": "crossed", "arriving": "arriving"}
_NODE_WORDS: Final = {
    NodeMark.LOST: "lost",
    NodeMark.NOT_READY: "not ready",
    NodeMark.CORDONED: "cordoned",
    NodeMark.SETTLING: CLOSED,
    NodeMark.LOSING: "losing pods",
    NodeMark.RECEIVING: "receiving pods",
    NodeMark.UNCHANGED: "without a move",
}
_STATES: Final = (NodeMark.LOST, NodeMark.NOT_READY, NodeMark.CORDONED, NodeMark.SETTLING)
"""The states in the words on nodes; the time is added after the last state."""


_MOVING: Final = "moving"


class Segment(NamedTuple):
    """A part of a bar: `kind` is staying, moving, waiting, blocked or arriving; `pattern` is "" if plain."""

    kind: str
    pattern: str
    x: float
    width: float


class Run(NamedTuple):
    """Squares of one kind, side by side or in full rows."""

    kind: str
    x: float
    y: float
    width: float
    height: float


class ZonePanel(NamedTuple):
    """A zone: its title, its moves, its pods in words and as a bar, and its nodes in words and as squares."""

    title: str
    above: bool
    """Whether pods are above a bound, which a sign shows."""
    flow: str
    pods: str
    segments: Sequence[Segment]
    line: float | None
    """The place on the bar of the most pods that the zone may have once repaired, None without a bound."""
    moves: str
    whole: str
    """All numbers of the bar."""
    nodes: str
    runs: Sequence[Run]
    height: float
    every: str
    """All numbers of the squares."""


class ZonesDrawing(NamedTuple):
    """The zones, the most nodes per square, and how many zones are not drawn.

    `concerned`: something is violated or moves; otherwise there are no bars.
    """

    zones: Sequence[ZonePanel]
    concerned: bool
    square: int
    more: int


class ZonesTable(NamedTuple):
    """The same numbers as a table."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def draw_zone_panels(document: ZonesDocument, now: datetime, moving: str = _MOVING) -> ZonesDrawing:
    """Draw every zone, all bars to one scale; `moving` is the word for pods that were evicted or go now."""
    square = _nodes_of_square(document)
    lengths = [max(sum(number for _, number, _ in _parts(zone, moving)), zone.goal or 0) for zone in document.zones]
    unit = _BAR / (max(lengths, default=0) or 1)
    return ZonesDrawing(
        zones=[_draw(document.key, zone, now, unit, square, moving) for zone in document.zones],
        concerned=any(lengths),
        square=square,
        more=document.more_zones,
    )


def tabulate_zones(document: ZonesDocument, moving: str = _MOVING) -> ZonesTable:
    """Return the numbers of all zones as a table."""
    pods = (
        "pods",
        "stay",
        moving,
        "will move",
        "cannot move",
        "may arrive",
        "above the bounds",
        "at most when repaired",
    )
    rows = [
        (
            _title(document.key, zone),
            [
                f"{sum(zone.marks.values()):,}",
                *(f"{zone.marks.get(mark, 0):,}" for mark in NodeMark),
                f"{zone.pods:,}",
                *(f"{number:,}" for _, number, _ in _parts(zone, moving)),
                f"{zone.above:,}",
                f"{zone.goal:,}" if zone.goal is not None else "",
            ],
        )
        for zone in document.zones
    ]
    return ZonesTable(("nodes", *_NODE_WORDS.values(), *pods), rows)


def _nodes_of_square(document: ZonesDocument) -> int:
    if document.nodes < _MANY:
        return 1
    largest = max((sum(zone.marks.values()) for zone in document.zones), default=0)
    return max(2, -(-largest // _MOST_SQUARES))


def _draw(key: str, zone: ZoneEntry, now: datetime, unit: float, square: int, moving: str) -> ZonePanel:
    segments, x = [], 0.0
    for kind, number, _ in _parts(zone, moving):
        if number:
            width = round(max(_LEAST, number * unit), 1)
            segments.append(Segment(kind, _PATTERNS.get(kind, ""), x, width))
            x = round(x + width, 1)
    squares = [(mark, -(-number // square)) for mark in NodeMark if (number := zone.marks.get(mark, 0))]
    rows = -(-sum(number for _, number in squares) // ROW)
    going = zone.moving + zone.waiting
    verb = "moves" if going == 1 else "move"
    flow = [f"{_count(going, 'pod')} {verb if moving == _MOVING else 'evicted or planned'}"] if going else []
    flow += [f"{zone.arriving:,} may arrive"] if zone.arriving else []
    bound = f", at most {zone.goal:,} when repaired" if zone.goal is not None else ""
    words = [(kind, f"{number:,} {words}") for kind, number, words in _parts(zone, moving) if number]
    return ZonePanel(
        title=_title(key, zone),
        above=zone.above > 0,
        flow=", ".join(flow),
        pods=f"{_count(zone.pods, 'pod')} of violated workloads{bound}",
        segments=segments,
        line=round(zone.goal * unit, 1) if zone.goal is not None else None,
        moves=", ".join(text for kind, text in words if kind != "staying"),
        whole=f"{_count(zone.pods, 'pod')}{bound}: {', '.join(text for _, text in words) or 'none'}",
        nodes=_describe_nodes(zone, now),
        runs=list(_find_runs(squares)),
        height=rows * PITCH,
        every=_count_nodes(zone, NodeMark),
    )


def _parts(zone: ZoneEntry, moving: str) -> Sequence[tuple[str, int, str]]:
    """Return the parts of a bar: their kinds, numbers and words."""
    return (
        ("staying", zone.staying, "stay"),
        ("moving", zone.moving, moving),
        ("waiting", zone.waiting, "will move"),
        ("blocked", zone.blocked, "cannot move"),
        ("arriving", zone.arriving, "may arrive"),
    )


def _find_runs(squares: Sequence[tuple[NodeMark, int]]) -> Iterator[Run]:
    at = 0
    for mark, number in squares:
        kind, end = mark.replace(" ", "-"), at + number
        while at < end:
            row, column = divmod(at, ROW)
            rows = (end - at) // ROW if column == 0 else 0
            here = rows * ROW or min(end - at, ROW - column)
            width, height = (ROW, rows) if rows else (here, 1)
            yield Run(kind, column * PITCH, row * PITCH, width * PITCH, height * PITCH)
            at += here


def _describe_nodes(zone: ZoneEntry, now: datetime) -> str:
    settles = zone.settles_at is not None and zone.settles_at > now
    return _count_nodes(zone, _STATES) + (f", the last until {zone.settles_at:%H:%M:%S}" if settles else "")


def _count_nodes(zone: ZoneEntry, marks: Iterable[NodeMark]) -> str:
    """Say how many nodes a zone has, and how many have each of the marks."""
    number = sum(zone.marks.values())
    parts = ", ".join(f"{zone.marks[mark]:,} {_NODE_WORDS[mark]}" for mark in marks if mark in zone.marks)
    return f"{_count(number, 'node')}{f': {parts}' if parts else ''}"


def _title(key: str, zone: ZoneEntry) -> str:
    return f"{short_key(key) if key else 'nodes'} {zone.name or _NO_ZONE}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"
