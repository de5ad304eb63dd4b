"""The map as shapes: zones side by side, their nodes as columns, a lane for each workload, arrows along the lanes.

The filled squares of a lane on a node are exactly the pods that its rule counts there. Dashed squares are no pods: they
show where a moving pod was, and where replacements may land. Lengths are in pixels.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from rebalancer.adapters.web.bars import common_prefix
from rebalancer.documents.map import (
    CLOSED,
    DomainState,
    MapDocument,
    MapDomain,
    MapLane,
    MapMove,
    MapNode,
    MapZone,
    MoveKind,
    NodeState,
    node_word,
)
from rebalancer.model.words import format_rest, plural, short_key

WIDE: Final = 1208.0
NARROW: Final = 340.0

_LABEL, _NARROW_LABEL = 118.0, 84.0
_COUNT: Final = 70.0
"""The width of the column with a zone's count and the sign before it."""

_GAP: Final = 12.0
_EDGE: Final = 1.0
"""Margin, so that the frame of the last zone lies within the drawing."""

_HEAD: Final = 25.0
"""The height of a zone's head with one line."""

_LINE: Final = 15.0
"""The height of each further line of the head."""

_NODE_HEAD: Final = 33.0
_PITCH: Final = 18.0
"""The distance from one square to the next."""

_INSET: Final = 7.0
_TRACK: Final = 5.0
"""The distance from one arrow to the next."""

_MOST_TRACKS: Final = 7
"""Most arrows of a lane; with more, only numbers say where pods go."""

_LEAST_CELL: Final = 40.0
"""Narrower columns have no room for squares; if nodes' columns were narrower, each zone has one column."""

_NO_ZONE: Final = "(none)"
_ALL_NODES: Final = "nodes"
"""The name of a zone's only column, for all its nodes: the zone's own name is above."""

_LETTER: Final = 7.0
_BOLD, _REGULAR = 7.6, 6.7
"""The width of a letter of a zone's head."""

_BEFORE: Final = 10.0
_LONGEST: Final = 15


class Square(NamedTuple):
    """A square: `kind` is pod, waiting, moving, blocked, landed, gone or ghost; `text` its number."""

    kind: str
    x: float
    y: float
    text: str


class Column(NamedTuple):
    """A node: its box, its short name, its state in words, and the pattern of its box, "" if it is ready."""

    x: float
    width: float
    name: str
    state: str
    pattern: str


class HeadLine(NamedTuple):
    """A line of a zone's head: a part of its title and a part of its detail, either may be ""."""

    y: float
    title: str
    detail: str


class ZoneBox(NamedTuple):
    """A zone: its box, its title and detail, and the lines of both, because a name is never cut."""

    x: float
    width: float
    title: str
    detail: str
    lines: Sequence[HeadLine]
    columns: Sequence[Column]


class Count(NamedTuple):
    """The count of a zone in a lane against its bound; `mark` is a sign if it is short, `frame`: it is above."""

    x: float
    pods: int
    bound: str
    mark: str
    frame: str
    frame_x: float
    frame_width: float


class Arrow(NamedTuple):
    """Where the pods of one step go: the arrow's kind, the shared lines, and a line with a point to each landing."""

    kind: str
    trunk: str
    tips: Sequence[str]


class Lane(NamedTuple):
    """A lane: its place, name, counts, squares and arrows (as SVG paths)."""

    y: float
    height: float
    middle: float
    namespace: str
    name: str
    counts: Sequence[Count]
    squares: Sequence[Square]
    arrows: Sequence[Arrow]


class Drawing(NamedTuple):
    """A map: its size, zones and lanes, and its description in words; its nodes begin at `top`."""

    width: float
    height: float
    top: float
    title: str
    zones: Sequence[ZoneBox]
    lanes: Sequence[Lane]
    sentence: str


class Table(NamedTuple):
    """The map as a table: its columns, and a row of counts for each lane."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


class _Layout(NamedTuple):
    zones: Sequence[MapZone]
    boxes: Sequence[ZoneBox]
    node_x: Mapping[str, float]
    cell: float


def draw_map(document: MapDocument, now: datetime, width: float = WIDE) -> Drawing:
    """Draw the whole map."""
    return _draw(document, document.zones, now, width, _LABEL, arrows=True)


def draw_zones(document: MapDocument, now: datetime, width: float = NARROW) -> Sequence[Drawing]:
    """Draw each zone separately, for a narrow screen; only numbers say where pods go."""
    return [_draw(document, [zone], now, width, _NARROW_LABEL, arrows=False) for zone in document.zones]


def tabulate(document: MapDocument) -> Table:
    """Return the map as a table: pods by zone against the bound, and by node."""
    nodes = [node.name for zone in document.zones for node in zone.nodes]
    head = [*(_zone_title(document, zone) for zone in document.zones), *nodes]
    rows = [
        (
            lane_name(lane),
            [
                *(_bounded(lane.zones.get(zone.name, 0), _domain(document, lane, zone)) for zone in document.zones),
                *(str(lane.nodes.get(name, 0)) for name in nodes),
            ],
        )
        for lane in document.lanes
    ]
    return Table(head, rows)


def lane_name(lane: MapLane) -> str:
    """Name a lane: NAMESPACE/WORKLOAD, and how many more workloads it has."""
    more = f" and {len(lane.workloads) - 1} more" if len(lane.workloads) > 1 else ""
    return f"{lane.namespace}/{lane.workloads[0].name}{more}"


def _draw(
    document: MapDocument, zones: Sequence[MapZone], now: datetime, width: float, label: float, *, arrows: bool
) -> Drawing:
    if not _has_room(zones, width, label):
        document, zones = _fold(document), [_fold_zone(zone) for zone in zones]
        width = max(width, width - _room(zones, width, label) + len(zones) * _LEAST_CELL)
    layout = _lay_out(document, zones, now, width, label)
    lanes: list[Lane] = []
    top = _HEAD + _LINE * (max((len(box.lines) for box in layout.boxes), default=1) - 1)
    y = top + _NODE_HEAD
    for lane in document.lanes:
        drawn = _draw_lane(document, lane, layout, y, arrows=arrows)
        lanes.append(drawn)
        y += drawn.height
    title = _zone_title(document, zones[0]) if len(zones) == 1 < len(document.zones) else "Map of the cluster"
    sentence = ". ".join(_describe(document, lane, zones, moves=arrows) for lane in document.lanes)
    return Drawing(width, y + 6, top, title, layout.boxes, lanes, sentence)


def _room(zones: Sequence[MapZone], width: float, label: float) -> float:
    """Return the width of all columns together."""
    return width - _EDGE - label - len(zones) * (_COUNT + 5) - (len(zones) - 1) * _GAP


def _has_room(zones: Sequence[MapZone], width: float, label: float) -> bool:
    """Return whether the nodes that matter are listed, and their columns are wide enough for squares."""
    nodes = sum(len(zone.nodes) for zone in zones)
    return nodes * _LEAST_CELL <= _room(zones, width, label) and all(zone.nodes or not zone.folded for zone in zones)


def _fold(document: MapDocument) -> MapDocument:
    """Return the map with one column for each zone, which has the zone's name."""
    return replace(
        document,
        zones=tuple(map(_fold_zone, document.zones)),
        lanes=tuple(
            replace(
                lane,
                nodes={name or _NO_ZONE: count for name, count in lane.zones.items() if count},
                moves=tuple(
                    replace(
                        move,
                        node=move.zone or _NO_ZONE,
                        to_nodes=tuple(name or _NO_ZONE for name in move.to_zones),
                        landed=None,
                    )
                    for move in lane.moves
                ),
            )
            for lane in document.lanes
        ),
    )


def _fold_zone(zone: MapZone) -> MapZone:
    states = Counter({NodeState(state): number for state, number in zone.folded.items()})
    states.update(node.state for node in zone.nodes)
    state = NodeState.READY if zone.ready or not states else states.most_common(1)[0][0]
    return replace(zone, nodes=(MapNode(name=zone.name or _NO_ZONE, state=state),))


def _lay_out(document: MapDocument, zones: Sequence[MapZone], now: datetime, width: float, label: float) -> _Layout:
    nodes = sum(len(zone.nodes) for zone in zones)
    cell = _room(zones, width, label) / nodes if nodes else 0.0
    prefix = common_prefix([node.name for zone in document.zones for node in zone.nodes])
    boxes, node_x = [], {}
    x = label
    for zone in zones:
        columns = []
        start = x + _COUNT
        for number, node in enumerate(zone.nodes):
            node_x[node.name] = start + number * cell
            named = node.name.removeprefix(prefix) if node.name != (zone.name or _NO_ZONE) else _ALL_NODES
            columns.append(_column(node, named, start + number * cell, cell, now))
        across = _COUNT + cell * len(columns) + 5
        title, detail = _zone_title(document, zone), _zone_detail(zone)
        lines = list(_head_lines(title, detail, across - 2 * _BEFORE))
        boxes.append(ZoneBox(round(x, 1), round(across, 1), title, detail, lines, columns))
        x += across + _GAP
    return _Layout(zones, boxes, node_x, cell)


def _head_lines(title: str, detail: str, width: float) -> Iterator[HeadLine]:
    """Yield the lines of a zone's head: one line if there is room, else the title's lines, then the detail's."""
    if len(title) * _BOLD + len(detail) * _REGULAR + _BEFORE <= width:
        yield HeadLine(17.0, title, detail)
        return
    parts = [(text, "") for text in _wrap(title, width / _BOLD)]
    parts += [("", text) for text in _wrap(detail, width / _REGULAR)]
    for number, (first, second) in enumerate(parts):
        yield HeadLine(17.0 + number * _LINE, first, second)


def _wrap(text: str, most: float) -> Sequence[str]:
    return textwrap.wrap(text, max(4, int(most)), break_on_hyphens=False)


def _column(node: MapNode, name: str, x: float, width: float, now: datetime) -> Column:
    state = node_word(node.state)
    if node.state is NodeState.SETTLING and node.until is not None and node.until > now:
        state = f"{f'{CLOSED} ' if width >= 84 else ''}{format_rest(node.until - now)}"  # as wide as that
    most = max(3, int((width - 12) / _LETTER))
    shown = name if len(name) <= most else f"\N{HORIZONTAL ELLIPSIS}{name[1 - most :]}"
    pattern = "" if node.state is NodeState.READY else node.state.replace(" ", "-")
    return Column(round(x, 1), round(width, 1), shown, state, pattern)


def _zone_title(document: MapDocument, zone: MapZone) -> str:
    return f"{short_key(document.key) if document.key else 'nodes'} {zone.name or _NO_ZONE}"


def _zone_detail(zone: MapZone) -> str:
    states = ({NodeState.CORDONED: zone.cordoned} if zone.cordoned else {}) | {
        state: number for state, number in zone.folded.items() if state not in {NodeState.READY, NodeState.CORDONED}
    }
    folded = ", ".join(f"{number} {node_word(state)}" for state, number in states.items())
    if zone.lost is not None and zone.lost.whole:
        return f"lost at {zone.lost.at:%H:%M:%S}: {plural(zone.lost.nodes, 'node')}, {plural(zone.lost.pods, 'pod')}"
    back = f", back since {zone.back:%H:%M}" if zone.back is not None else ""
    return f"{zone.ready + zone.cordoned} of {plural(zone.of, 'node')} ready{back}{f', {folded}' if folded else ''}"


def _draw_lane(document: MapDocument, lane: MapLane, layout: _Layout, y: float, *, arrows: bool) -> Lane:
    tracked: dict[tuple[object, ...], list[MapMove]] = {}
    for move in lane.moves if arrows and layout.node_x else ():
        if move.kind is not MoveKind.BLOCKED:
            tracked.setdefault((move.kind, move.step, move.landed, move.to_nodes), []).append(move)
    drawn = list(tracked.values()) if len(tracked) <= _MOST_TRACKS else []
    top = y + 8 + _TRACK * max(1, len(drawn))
    height = 8 + _TRACK * max(1, len(drawn)) + 15 + 9
    squares: list[Square] = []
    places: dict[tuple[str, str, str], float] = {}
    for zone in layout.zones:
        for node in zone.nodes:
            if node.name in layout.node_x:
                squares += _squares(lane, node.name, layout, top, places)
    counts = [_count(document, lane, zone, box) for zone, box in zip(layout.zones, layout.boxes, strict=True)]
    paths = [
        arrow
        for number, moves in enumerate(drawn)
        if (arrow := _arrow(moves, places, y + 6 + _TRACK * number, top - 1)) is not None
    ]
    name = lane.workloads[0].name + (f" +{len(lane.workloads) - 1}" if len(lane.workloads) > 1 else "")
    shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    return Lane(y, height, top + 11, lane.namespace[:_LONGEST], shown, counts, squares, paths)


def _count(document: MapDocument, lane: MapLane, zone: MapZone, box: ZoneBox) -> Count:
    domain = _domain(document, lane, zone)
    mark = frame = ""
    if domain is not None and domain.state is DomainState.ABOVE:
        frame = "above"
    elif domain is not None and domain.state is DomainState.SHORT:
        is_alone = all(other.state is not DomainState.ABOVE for other in lane.domains.values())
        mark, frame = "\N{MINUS SIGN}", "short" if is_alone else ""
    bound = f"/{domain.max}" if domain is not None and domain.max is not None else ""
    pods = domain.pods if domain is not None else lane.zones.get(zone.name, 0)
    return Count(box.x + 25, pods, bound, mark, frame, box.x + 3, box.width - 6)


def _domain(document: MapDocument, lane: MapLane, zone: MapZone) -> MapDomain | None:
    """Return the zone as a domain of the lane's rule, None if the rule has another key."""
    return lane.domains.get(zone.name) if lane.topology_key == document.key else None


def _bounded(pods: int, domain: MapDomain | None) -> str:
    return str(pods) if domain is None else f"{domain.pods}{'' if domain.max is None else f' of at most {domain.max}'}"


def _squares(
    lane: MapLane, node: str, layout: _Layout, y: float, places: dict[tuple[str, str, str], float]
) -> Iterator[Square]:
    """Yield the squares of a node; note in `places` where arrows begin and end."""
    items = list(_items(lane, node, max(1, int((layout.cell - _INSET) / _PITCH))))
    for number, (kind, text, pod) in enumerate(items):
        x = round(layout.node_x[node] + _INSET + number * _PITCH, 1)
        if pod:
            places["to" if kind in {"ghost", "landed"} else "from", pod, node] = x + 7.5
        yield Square(kind, x, y, text)


def _items(lane: MapLane, node: str, room: int) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the text and the moving pod of each square, up to `room` squares.

    If several pods of a step may land on a node, one outline stands for them.
    """
    leaving = [move for move in lane.moves if move.node == node and move.kind is not MoveKind.MOVING]
    gone = [move for move in lane.moves if move.node == node and move.kind is MoveKind.MOVING]
    landed = [move for move in lane.moves if move.landed == node]
    arriving = [
        move
        for move in lane.moves
        if node in move.to_nodes and move.landed is None and move.kind is not MoveKind.BLOCKED
    ]
    pods = lane.nodes.get(node, 0)
    marks = [(str(move.kind), _number(move), move.pod) for move in leaving]
    marks += [("landed", _number(move), move.pod) for move in landed]
    marks = marks[:pods]
    outlines = [("gone", _number(move), move.pod) for move in gone]
    outlines += [("ghost", number, pod) for number, pod in {_number(move): move.pod for move in arriving}.items()]
    plain = pods - len(marks)
    if plain + len(marks) + len(outlines) > room and plain > 1:
        yield "pod", str(plain), ""
        plain, room = 0, room - 1
    yield from [("pod", "", "")] * plain
    yield from (*marks, *outlines)[: max(0, room - plain)]


def _number(move: MapMove) -> str:
    if move.kind is MoveKind.BLOCKED:
        return "\N{MULTIPLICATION SIGN}"
    return str(move.step) if move.step is not None else "\N{RIGHTWARDS ARROW}"


def _arrow(
    moves: Sequence[MapMove], places: Mapping[tuple[str, str, str], float], track: float, bottom: float
) -> Arrow | None:
    """Return the arrow of moves with common landing nodes; None if its start or its end is not on the map."""
    first = moves[0]
    starts = [x for move in moves if (x := places.get(("from", move.pod, move.node))) is not None]
    landings = (first.landed,) if first.landed is not None else first.to_nodes
    marks = [x for node in landings for move in moves if (x := places.get(("to", move.pod, node))) is not None]
    ends = sorted(set(marks))
    if not starts or not ends:
        return None
    among = (*starts, *ends)
    trunk = f"M{min(among):g} {track:g}H{max(among):g}" + "".join(f"M{x:g} {bottom:g}V{track:g}" for x in starts)
    kind = "moving" if first.kind is MoveKind.MOVING else "waiting"
    return Arrow(kind, trunk, [f"M{x:g} {track:g}V{bottom:g}" for x in ends])


def _describe(document: MapDocument, lane: MapLane, zones: Sequence[MapZone], *, moves: bool) -> str:
    counts = ", ".join(
        f"{zone.name or _NO_ZONE} {_bounded(lane.zones.get(zone.name, 0), _domain(document, lane, zone))}"
        for zone in zones
    )
    steps = "; ".join(
        f"{'evicted' if move.step is None else f'repair {move.step}'}: {move.pod} from {move.node}"
        f" to {move.landed or ' or '.join(move.to_nodes or move.to_zones) or 'any feasible node'}"
        for move in (lane.moves if moves else ())
        if move.kind is not MoveKind.BLOCKED
    )
    return f"{lane_name(lane)}, {lane.what}: {counts}{f'; {steps}' if steps else ''}"
