"""The trend as shapes: a step line, because a number holds until the next sample, with pauses, moves and lost zones."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.documents.history import HistoryEntry, TrendSample
from rebalancer.model.history import EntryKind

RANGES: Final = {
    "2h": timedelta(hours=2),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
"""The ranges that can be chosen, by their names in the address."""

_WIDTH: Final = 342.0
_TALL: Final = 52.0
_TOP: Final = 12.0
_LABELS: Final = 4
_LETTER: Final = 5.7
"""The width of a letter at a flag, whose words are at its right, or at its left without room there."""

_MOVES: Final = frozenset({EntryKind.MOVED, EntryKind.SURGED})
_FLAGS: Final = {EntryKind.ZONE_LOST: "lost", EntryKind.ZONE_RETURNED: "back"}


class Label(NamedTuple):
    """A word at a point of the axis."""

    x: float
    text: str


class Flag(NamedTuple):
    """A vertical line with words."""

    x: float
    """The place of the line."""
    text_x: float
    """The place of the words; with `before`, they end there."""
    text: str
    before: bool


class Trend(NamedTuple):
    """A drawing of the trend in pixels: the step line, the area below it, marks, and a description in words."""

    line: str
    area: str
    last: int
    last_y: float
    pauses: Sequence[tuple[float, float]]
    moves: Sequence[float]
    failures: Sequence[float]
    flags: Sequence[Flag]
    labels: Sequence[Label]
    sentence: str


def draw_trend(
    samples: Sequence[TrendSample], entries: Sequence[HistoryEntry], now: datetime, span: timedelta
) -> Trend:
    """Draw how many workloads were violated from `span` ago until now; the last sample holds until now."""
    begin = now - span

    def place(moment: datetime) -> float:
        return round(min(1.0, max(0.0, (moment - begin) / span)) * _WIDTH, 1)

    held = [one for one in samples if one.at <= begin][-1:]
    shown = [*held, *(one for one in samples if begin < one.at <= now)]
    highest = max((one.violated for one in shown), default=0)
    top = highest or 1

    def height(number: int) -> float:
        return round(_TOP + _TALL - number / top * _TALL, 1)

    steps = "".join(f"H{place(one.at):g}V{height(one.violated):g}" for one in shown[1:])
    line = f"M{place(shown[0].at):g} {height(shown[0].violated):g}{steps}H{_WIDTH:g}" if shown else ""
    last = shown[-1].violated if shown else 0
    within = [one for one in entries if begin < one.at <= now]
    moves = [one for one in within if one.kind in _MOVES]
    flags = [
        _flag(place(one.at), f"{one.what.rpartition('=')[2]} {_FLAGS[EntryKind(one.kind)]}")
        for one in within
        if one.kind in _FLAGS
    ]
    base = _TOP + _TALL
    return Trend(
        line=line,
        area=f"{line}V{base:g}H{place(shown[0].at):g}z" if shown else "",
        last=last,
        last_y=height(last),
        pauses=_find_pauses(entries, begin, now, place),
        moves=[place(one.at) for one in moves if one.went_well],
        failures=[place(one.at) for one in moves if not one.went_well],
        flags=_spread(flags),
        labels=_labels(begin, span),
        sentence=f"Now {last} violated, at most {highest} in this time" if shown else "No sample yet",
    )


def _flag(x: float, text: str) -> Flag:
    before = x + _room(text) > _WIDTH and x > _WIDTH / 2
    return Flag(x, x - 4 if before else x + 4, text, before)


def _room(text: str) -> float:
    return 5 + _LETTER * len(text)


def _spread(flags: Sequence[Flag]) -> Sequence[Flag]:
    """Return the newest flags whose words do not overlap."""
    kept: list[Flag] = []
    for flag in reversed(flags):
        start, end = _reach(flag)
        if all(end <= other_start or start >= other_end for other_start, other_end in map(_reach, kept)):
            kept.append(flag)
    return kept[::-1]


def _reach(flag: Flag) -> tuple[float, float]:
    room = _room(flag.text)
    return (flag.x - room, flag.x) if flag.before else (flag.x, flag.x + room)


def _find_pauses(
    entries: Sequence[HistoryEntry], begin: datetime, now: datetime, place: Callable[[datetime], float]
) -> Sequence[tuple[float, float]]:
    """Return where each pause within the time begins, and its width."""
    pauses: list[tuple[float, float]] = []
    since: datetime | None = None
    for one in entries:
        if one.kind == EntryKind.PAUSED:
            since = since or one.at
        elif one.kind == EntryKind.RESUMED and (since or one.since) is not None:
            pauses.append((place(since or one.since or one.at), place(one.at)))
            since = None
    if since is not None:
        pauses.append((place(since), place(now)))
    return [(start, round(end - start, 1)) for start, end in pauses if end > place(begin)]


def _labels(begin: datetime, span: timedelta) -> Sequence[Label]:
    form = "%d %b" if span > timedelta(hours=24) else "%H:%M"
    return [
        Label(round(number / _LABELS * _WIDTH, 1), (begin + span * number / _LABELS).strftime(form))
        for number in range(_LABELS)
    ]
