"""The map as text: zones side by side with their nodes as columns, and a lane for each workload.

If the columns do not fit, the nodes of a zone share one column. If that does not fit either, zones have lines of their
own. All signs of the map are ASCII, so that it does not depend on the locale; colours only repeat the signs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from rebalancer.documents.map import (
    CLOSED,
    DomainState,
    MapDocument,
    MapDomain,
    MapLane,
    MapMove,
    MapNode,
    MapRule,
    MapZone,
    MoveKind,
    NodeState,
)
from rebalancer.model.reasons import State
from rebalancer.model.words import SHORT_KEYS, format_rest, plural, short_key
from rebalancer.reporting.text.layout import STATE_STYLES, Style, TextLayout, more_text

_WIDTH: Final = 80
"""The width if there is no terminal; nobody searches a map line by line."""

_MOST_SIGNS: Final = 4
"""The most pods that are shown by a sign each; more pods are shown by one sign and their number."""

_MOST_DOMAINS: Final = 4
"""Up to this many domains of a rule are all listed; of more domains, only those beyond a bound."""

_LONGEST_BAR: Final = 24
_WIDEST_POD: Final = 3
"""Characters of a bar, and of one pod in it."""

_SHORTEST_PREFIX: Final = 3
"""A common beginning of names is left out only if it is at least this long."""

_GAP: Final = " | "
_NEAR: Final = timedelta(minutes=2)
"""The end of a wait that is nearer than this is written with its seconds."""

_MARKS: Final = {State.VIOLATED: "!", State.UNFIXABLE: "x"}
_NEVER: Final = frozenset({State.INFEASIBLE, State.UNFIXABLE})
_NODE_SIGNS: Final = {
    NodeState.CORDONED: ("cord", "cordoned"),
    NodeState.NOT_READY: ("down", "not ready"),
    NodeState.LOST: ("lost", "lost"),
}


class _Piece(NamedTuple):
    text: str
    style: Style | None = None


_Cell = Sequence[_Piece]


class _Column(NamedTuple):
    """A column of a zone: its name, the state of the node, and its cell in each lane."""

    name: str
    state: str
    cells: Sequence[_Cell]

    @property
    def width(self) -> int:
        return max(len(self.name), len(self.state), *map(_width, self.cells))


class _Block(NamedTuple):
    """A zone: the lines of its title, and its columns."""

    titles: Sequence[str]
    columns: Sequence[_Column]

    @property
    def width(self) -> int:
        return max(sum(column.width + 1 for column in self.columns) - 1, *map(len, self.titles))


class Words(NamedTuple):
    """The words for pods in flight and for the pods of the next step, and the time to which they refer."""

    flight: str = "moving now"
    step: str = "moves now"
    now: datetime | None = None
    """The time to which the words refer; None: the time of the map."""


_WORDS: Final = Words()


def map_lines(document: MapDocument, layout: TextLayout, words: Words = _WORDS) -> list[str]:
    """Draw a map, and explain its signs."""
    return _MapText(document, layout, words).lines()


def rule_lines(document: MapDocument, layout: TextLayout) -> list[str]:
    """Show all rules of a map's chosen workloads, each with its domains against their bounds."""
    rules = [rule for lane in document.lanes for rule in (lane, *lane.others)]
    return [layout.heading("RULES"), *(line for rule in rules for line in _rule_lines(rule, layout))] if rules else []


class _MapText:
    """The text of one map."""

    def __init__(self, document: MapDocument, layout: TextLayout, words: Words) -> None:
        self._words = words
        self._width = _WIDTH if layout.width is None else layout.width
        self._document, self._layout = document, layout._replace(width=self._width)
        self._labels = _make_labels(document)
        self._label_width = max(map(len, self._labels), default=0)
        self._zone_prefix = _common_prefix([zone.name for zone in document.zones])
        nodes = [node.name for zone in document.zones for node in zone.nodes]
        self._node_suffix = _common_domain(nodes)
        self._node_prefix = _common_prefix([name.removesuffix(self._node_suffix) for name in nodes])

    def lines(self) -> list[str]:
        document, layout = self._document, self._layout
        if not document.lanes:
            return [layout.heading("MAP"), *layout.wrap("No workload is violated, and no pod moves.")]
        blocks = [self._make_block(zone) for zone in document.zones]
        unfolded = any(zone.nodes for zone in document.zones) and self._fits(blocks)
        if not unfolded:
            blocks = [self._fold_block(zone) for zone in document.zones]
        drawn = self._draw(blocks) if self._fits(blocks) else self._list()
        more = layout.wrap(more_text(document.more)) if document.more else []
        entries = self._legend(unfolded=unfolded)
        legend = "   ".join(entry.replace(" ", "\xa0") if len(entry) <= self._width else entry for entry in entries)
        return [
            *(layout.heading(line) for line in layout.wrap(self._title(unfolded=unfolded), hang="  ")),
            *drawn,
            *more,
            *(layout.paint(line, Style.QUIET) for line in layout.wrap(legend)),
        ]

    def _title(self, *, unfolded: bool) -> str:
        """Say how many lanes there are, and which part of the names of zones and nodes is left out."""
        parts = [f"MAP  {plural(len(self._document.lanes), 'workload')}"]
        if self._zone_prefix:
            parts.append(f"{self._key_word()}s {self._zone_prefix}*".strip())
        if unfolded and (self._node_prefix or self._node_suffix):
            parts.append(f"nodes {self._node_prefix}*{self._node_suffix}")
        if self._document.more_zones:
            parts.append(f"{self._document.more_zones} more not shown")
        return ", ".join(parts)

    # Zones side by side

    def _fits(self, blocks: Sequence[_Block]) -> bool:
        return self._label_width + sum(len(_GAP) + block.width for block in blocks) <= self._width

    def _make_block(self, zone: MapZone) -> _Block:
        """Make the block of a zone with a column for each node."""
        lanes = self._document.lanes
        columns = [_Column("/max", "", [self._zone_cell(lane, zone, folded=False) for lane in lanes])]
        columns += [
            _Column(self._node_name(node), self._node_sign(node), [_node_cell(lane, node.name) for lane in lanes])
            for node in zone.nodes
        ]
        hidden = sum(zone.folded.values())
        if hidden:
            columns.append(_Column(f"+{hidden}", "", [()] * len(lanes)))
        return _Block([", ".join(self._zone_titles(zone, folded=False))], columns)

    def _fold_block(self, zone: MapZone) -> _Block:
        """Make the block of a zone with its nodes in one column."""
        cells = [self._zone_cell(lane, zone, folded=True) for lane in self._document.lanes]
        return _Block(self._zone_titles(zone, folded=True), [_Column("", "", cells)])

    def _draw(self, blocks: Sequence[_Block]) -> list[str]:
        heading = Style.HEADING
        lines = []
        for number in range(max(len(block.titles) for block in blocks)):
            titles = [_Piece("".join(block.titles[number : number + 1]), heading) for block in blocks]
            lines.append(self._join(_Piece(""), [[[title]] for title in titles], blocks))
        if any(column.name for block in blocks for column in block.columns):
            names = [[[_Piece(column.name, heading)] for column in block.columns] for block in blocks]
            lines.append(self._join(_Piece(""), names, blocks))
        if any(column.state for block in blocks for column in block.columns):
            states = [[[_Piece(_right(column), Style.QUIET)] for column in block.columns] for block in blocks]
            lines.append(self._join(_Piece(""), states, blocks))
        for number, (lane, label) in enumerate(zip(self._document.lanes, self._labels, strict=True)):
            cells = [[column.cells[number] for column in block.columns] for block in blocks]
            lines.append(self._join(_Piece(label, STATE_STYLES.get(_lane_state(lane))), cells, blocks))
        return lines

    def _join(self, label: _Piece, rows: Sequence[Sequence[_Cell]], blocks: Sequence[_Block]) -> str:
        """Join the cells of one line of all zones."""
        line = [self._pad([label], self._label_width)]
        for row, block in zip(rows, blocks, strict=True):
            whole = len(row) == 1  # a title, over all columns; it may be wider than these are
            widths = [block.width] if whole else [column.width for column in block.columns]
            cells = " ".join(self._pad(cell, width) for cell, width in zip(row, widths, strict=True))
            line.append(cells + " " * (block.width - sum(widths) - len(widths) + 1))
        return _GAP.join(line).rstrip()

    def _pad(self, cell: _Cell, width: int) -> str:
        return self._paint(cell) + " " * (width - _width(cell))

    def _paint(self, cell: _Cell) -> str:
        return "".join(self._layout.paint(piece.text, piece.style) for piece in cell)

    # Zones below each other

    def _list(self) -> list[str]:
        """Show each lane on lines of its own, if not even the zones fit beside each other."""
        layout, lines = self._layout, list[str]()
        titles = [self._zone_titles(zone, folded=True) for zone in self._document.zones]
        for name, *notes in titles:
            lines += layout.wrap(f"{name}: {', '.join(notes)}", hang="  ") if notes else []
        for lane, label in zip(self._document.lanes, self._labels, strict=True):
            lines += layout.wrap(layout.paint(label, STATE_STYLES.get(_lane_state(lane))))
            for zone, (name, *_) in zip(self._document.zones, titles, strict=True):
                cell = self._paint(self._zone_cell(lane, zone, folded=True))
                lines += layout.wrap(f"{name}: {cell}", "  ", "    ") if cell else []
        return lines

    # Names and cells

    def _key_word(self) -> str:
        """Return the word before the name of a zone; "" if the key is not well known."""
        return short_key(self._document.key) if self._document.key in SHORT_KEYS else ""

    def _zone_titles(self, zone: MapZone, *, folded: bool) -> Sequence[str]:
        word = self._key_word()
        if zone.name:
            titles = [f"{word} {zone.name.removeprefix(self._zone_prefix)}".strip()]
        else:
            titles = [f"no {word or self._document.key}" if self._document.key else "nodes"]
        if zone.lost is not None and zone.lost.whole:
            titles += [f"lost {zone.lost.at:%H:%M}", plural(zone.lost.nodes, "node"), plural(zone.lost.pods, "pod")]
        elif not zone.of:
            titles.append("no node")
        elif folded or zone.folded:
            ready = zone.ready + zone.cordoned
            titles += [f"{ready} of {zone.of} ready"] if ready < zone.of else []
            titles += [f"{zone.cordoned} cordoned"] if zone.cordoned else []
        if zone.back is not None:
            titles.append(f"back {zone.back:%H:%M}")
        if zone.unsettled_until is not None:
            most = "at most " if zone.unsettled_at_most else ""
            titles.append(f"unsettled {most}until {self._clock(zone.unsettled_until)}")
        return titles

    def _clock(self, end: datetime) -> str:
        """Write when something ends, with seconds if it is near: without them it would seem to be over."""
        at = self._words.now or self._document.at
        is_near = at is not None and abs(end - at) < _NEAR
        return f"{end:%H:%M:%S}" if is_near else f"{end:%H:%M}"

    def _node_name(self, node: MapNode) -> str:
        return node.name.removesuffix(self._node_suffix).removeprefix(self._node_prefix)

    def _node_sign(self, node: MapNode) -> str:
        if node.state in _NODE_SIGNS:
            return _NODE_SIGNS[node.state][0]
        return self._rest(node).removesuffix("s") if node.state is NodeState.SETTLING else ""

    def _rest(self, node: MapNode) -> str:
        """Return how long a node still takes no replacement; "" if it takes them, a word if that is not known."""
        at = self._words.now or self._document.at
        if node.until is None or at is None:
            return CLOSED
        return format_rest(node.until - at) if node.until > at else ""

    def _zone_cell(self, lane: MapLane, zone: MapZone, *, folded: bool) -> _Cell:
        """Return a lane's pods in a zone against the bound, and the moves whose node has no column."""
        domain = lane.domains.get(zone.name) if lane.topology_key == self._document.key else None
        held = lane.zones.get(zone.name, 0)
        if domain is not None:
            pieces = [_Piece(_count_text(domain), Style.BAD if domain.state is _worst_state(lane) else None)]
        else:
            pieces = [_Piece(str(held))] if held else []
        shown = frozenset[str]() if folded else frozenset(node.name for node in zone.nodes)
        leaving = [
            move for move in lane.moves if move.zone == zone.name and _is_counted(move) and move.node not in shown
        ]
        landing = [move for move in lane.moves if _lands_unseen(move, zone.name, shown)]
        landed = [move for move in lane.moves if folded and move.landed and zone.name in move.to_zones]
        marks = [*_arrows(len(landed)), *_leaving_pieces(leaving), *_landing_pieces(landing)]
        return [*pieces, _Piece(" "), *marks] if pieces and marks else [*pieces, *marks]

    def _legend(self, *, unfolded: bool) -> Iterator[str]:
        """Yield what the signs that the map uses mean."""
        if unfolded:
            yield "# pod"
        yield from _move_legend([move for lane in self._document.lanes for move in lane.moves], self._words)
        domains = [domain for lane in self._document.lanes for domain in lane.domains.values()]
        above = next((domain for domain in domains if domain.state is DomainState.ABOVE), None)
        short = next((domain for domain in domains if domain.state is DomainState.SHORT), None)
        if above is not None:
            yield f"{_count_text(above)} holds {above.pods}, at most {above.max}"
        if short is not None:
            yield f"{_count_text(short)} too few, has room"
        nodes = [node for zone in self._document.zones for node in zone.nodes] if unfolded else []
        for state, (sign, meaning) in _NODE_SIGNS.items():
            if any(node.state is state for node in nodes):
                yield f"{sign} {meaning}"
        settling = next((node for node in nodes if node.state is NodeState.SETTLING and self._rest(node)), None)
        if settling is not None:
            until = f"for {self._rest(settling)}" if self._rest(settling) != CLOSED else "yet"
            yield f"{self._node_sign(settling)} takes no replacement {until}"


def _move_legend(moves: Sequence[MapMove], words: Words) -> Iterator[str]:
    """Yield what the signs of these moves mean, from the first move of each kind."""
    now = next((_step_sign(move) for move in moves if move.step and move.kind is MoveKind.MOVING), None)
    later = next((_step_sign(move) for move in moves if move.kind is MoveKind.WAITING), None)
    if any(move.step is None and move.kind is MoveKind.MOVING for move in moves):
        yield f"> {words.flight}"
    if now is not None:
        yield f">{now} {words.step}, repair {now.strip('()')}"
    if later is not None:
        yield f"{later} waits, repair {later.strip('()')}"
    if now or later:
        yield f"+{now or later} may land here"
    if any(move.kind is MoveKind.BLOCKED for move in moves):
        yield "x kept by a budget"


def _make_labels(document: MapDocument) -> list[str]:
    """Name the lanes: the mark of the state, the namespace if there are several, the workload, an unusual key."""
    several = len({lane.namespace for lane in document.lanes}) > 1
    labels = []
    for lane in document.lanes:
        more = f"+{len(lane.workloads) - 1}" if len(lane.workloads) > 1 else ""
        name = f"{lane.namespace}/{lane.workloads[0].name}" if several else lane.workloads[0].name
        key = f" ({short_key(lane.topology_key)})" if lane.topology_key != document.key else ""
        labels.append(f"{_MARKS.get(_lane_state(lane), ' ')} {name}{more}{key}")
    return labels


def _lane_state(lane: MapLane) -> State:
    """Return the state of a lane's workloads; a violation that cannot be repaired counts as it does in the figures."""
    if lane.stuck:
        return State.UNFIXABLE
    return State.VIOLATED if lane.state in _NEVER else State(lane.state)


def _node_cell(lane: MapLane, node: str) -> _Cell:
    """Return a lane's pods on a node: pods that stay, came or leave, and replacements that may land there."""
    held = lane.nodes.get(node, 0)
    landed = min(held, sum(move.landed == node for move in lane.moves))
    leaving = [move for move in lane.moves if move.node == node and _is_counted(move)][: held - landed]
    landing = [move for move in lane.moves if move.landed is None and node in move.to_nodes]
    staying = held - landed - len(leaving)
    over = lane.domains.get(node)
    mark = [_Piece("!", Style.BAD)] if over is not None and over.state is DomainState.ABOVE else []
    return [
        *([_Piece(_repeat("#", staying))] if staying else []),
        *_arrows(landed),
        *_leaving_pieces(leaving),
        *mark,
        *_landing_pieces(landing),
    ]


def _is_counted(move: MapMove) -> bool:
    """Return whether the counts still include the pod: a pod whose eviction is under way is terminating."""
    return move.step is not None or move.kind is MoveKind.BLOCKED


def _lands_unseen(move: MapMove, zone: str, shown: frozenset[str]) -> bool:
    """Return whether a replacement may land in a zone on a node without a column."""
    if move.landed is not None or zone not in move.to_zones:
        return False
    return not move.to_nodes or shown.isdisjoint(move.to_nodes)


def _arrows(number: int) -> list[_Piece]:
    return [_Piece(_repeat(">", number), Style.MOVING)] if number else []


def _leaving_pieces(moves: Iterable[MapMove]) -> list[_Piece]:
    """Return the steps of the pods that leave; pods that go now follow an arrow."""
    counted = Counter((">" if move.kind is MoveKind.MOVING else "", _step_sign(move), _style(move)) for move in moves)
    return [_Piece(arrow + _repeat(sign, number), style) for (arrow, sign, style), number in counted.items()]


def _landing_pieces(moves: Iterable[MapMove]) -> list[_Piece]:
    """Return the steps whose replacements may land, each once, without blocked evictions."""
    signs: dict[str, Style] = {}
    for move in moves:
        if move.kind is not MoveKind.BLOCKED:
            signs.setdefault(_step_sign(move), _style(move))
    return [_Piece(sign if place else f"+{sign}", style) for place, (sign, style) in enumerate(signs.items())]


def _step_sign(move: MapMove) -> str:
    if move.kind is MoveKind.BLOCKED:
        return "x"
    if move.step is None:
        return ">"
    return str(move.step) if move.step < 10 else f"({move.step})"


def _style(move: MapMove) -> Style:
    if move.kind is MoveKind.BLOCKED:
        return Style.STUCK
    return Style.MOVING if move.kind is MoveKind.MOVING else Style.CAUTION


def _repeat(sign: str, number: int) -> str:
    return sign * number if number <= _MOST_SIGNS else f"{sign}*{number}"


def _worst_state(lane: MapLane) -> DomainState:
    """Return the state that is the violation: too few pods, if no domain has too many."""
    above = any(domain.state is DomainState.ABOVE for domain in lane.domains.values())
    return DomainState.ABOVE if above else DomainState.SHORT


def _count_text(domain: MapDomain) -> str:
    most = "" if domain.max is None else f"/{domain.max}"
    return f"{domain.pods}{most}{_SIGNS.get(domain.state, '')}"


_SIGNS: Final = {DomainState.ABOVE: "!", DomainState.SHORT: "-"}


def _right(column: _Column) -> str:
    return column.state.rjust(column.width)


def _width(cell: _Cell) -> int:
    return sum(len(piece.text) for piece in cell)


def _common_prefix(names: Sequence[str]) -> str:
    """Return what all names begin with and can be left out; it ends between words, or between letters and digits."""
    columns = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in columns) if len(names) > 1 else ""
    while prefix and any(not name[len(prefix) :] or _is_within(prefix[-1], name[len(prefix)]) for name in names):
        prefix = prefix[:-1]
    return prefix if len(prefix) >= _SHORTEST_PREFIX else ""


def _is_within(last: str, following: str) -> bool:
    """Return whether a name would be cut inside a word or a number."""
    return (last.isdigit() and following.isdigit()) or (last.isalpha() and following.isalpha())


def _common_domain(names: Sequence[str]) -> str:
    """Return the DNS domain that all names of nodes end with, with its dot."""
    domains = {name.partition(".")[2] for name in names}
    return f".{domains.pop()}" if len(names) > 1 and len(domains) == 1 and "" not in domains else ""


# Rules


def _rule_lines(rule: MapRule, layout: TextLayout) -> Iterator[str]:
    state = layout.paint(rule.state, STATE_STYLES.get(State(rule.state)))
    reason = f" ({rule.reason})" if rule.reason else ""
    word = "violated since" if rule.state == State.VIOLATED else "since"  # no domain may be above a limit yet
    broken = rule.since is not None and rule.state != State.SATISFIED
    since = f", {word} {rule.since:%Y-%m-%d %H:%M:%SZ}" if broken else ""
    yield from layout.wrap(f"{rule.what}: {state}{reason}{since}", hang="    ")
    number, shown = len(rule.domains) + rule.more_domains, rule.domains
    off = [name for name, domain in shown.items() if domain.state in _SIGNS]
    if number > _MOST_DOMAINS:
        shown = {name: shown[name] for name in off[:_MOST_DOMAINS]}
    most = max((max(domain.pods, domain.max or 0) for domain in shown.values()), default=0)
    widest = max(map(len, shown), default=0)
    for name, domain in shown.items():
        bar = f"{_bar(domain, most, layout)} " if layout.bar else ""
        yield from layout.wrap(f"{name.ljust(widest)} {bar}{_domain_text(domain, layout)}".replace(" ", "\xa0"), "  ")
    hidden = number - len(shown)
    if hidden:
        within = " within their bounds" if len(off) <= len(shown) else ""
        count = f"and {hidden} more" if shown else plural(hidden, "domain")
        yield from layout.wrap(f"{count}{within}", "  ")


def _domain_text(domain: MapDomain, layout: TextLayout) -> str:
    text = (
        f"{domain.pods} of at most {domain.max}" if domain.max is not None else f"{domain.pods}, at least {domain.min}"
    )
    if domain.state is DomainState.ABOVE and domain.max is not None:
        return text + layout.paint(f"  ! {domain.pods - domain.max} above", Style.BAD)
    return f"{text}  - {domain.min - domain.pods} short" if domain.state is DomainState.SHORT else text


def _bar(domain: MapDomain, most: int, layout: TextLayout) -> str:
    """Draw the pods up to the bound, the pods beyond it, and the room that is left."""
    over, room, line = ("▓", "·", "│") if layout.bar != "#" else ("!", ".", "|")
    scale = min(_WIDEST_POD, _LONGEST_BAR / max(1, most))
    bound = domain.pods if domain.max is None else domain.max
    ends = [round(number * scale) for number in (min(domain.pods, bound), domain.pods, max(domain.pods, bound))]
    held, above, left = ends[0], ends[1] - ends[0], ends[2] - ends[1]
    drawn = layout.bar * held + layout.paint(over * above, Style.BAD) + (room * left + line if left else "")
    return drawn + " " * (round(most * scale) + 1 - ends[2] - bool(left))
