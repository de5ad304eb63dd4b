"""Shapes of bars that show counts against a bound: grey up to the bound, hatched beyond it, with free room light.

Up to four domains are bars one below the other; up to twelve are upright bars side by side. If there are more, only the
domains beyond their bounds are drawn. Node names are shown without their common prefix. The name of a zone is never
cut: if it is too long to fit beside the bars, it is above its bar.
"""

from collections.abc import Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from rebalancer.model.words import plural

_FEW: Final = 4
_MANY: Final = 12
_LINE: Final = 18
_TALL: Final = 44
_LABEL_LETTER: Final = 6.8
_EMPTY: Final = "(empty)"
_NUMBERS: Final = 110
_LONGEST_BESIDE: Final = 14
"""Up to this many letters, a name is beside its bar."""


class Bar(NamedTuple):
    """The pods of a domain, and the fewest and most that it may hold once repaired; `high` is None without a bound."""

    domain: str
    pods: int
    low: int
    high: int | None

    @property
    def above(self) -> int:
        """How many pods are above the bound."""
        return max(0, self.pods - self.high) if self.high is not None else 0

    @property
    def short(self) -> int:
        """How many pods the domain lacks."""
        return max(0, self.low - self.pods)

    @property
    def note(self) -> str:
        """The state in words, "" if the domain is within its bounds."""
        return f"{self.above} above" if self.above else f"{self.short} short" if self.short else ""

    @property
    def sentence(self) -> str:
        """The numbers for a screen reader."""
        bound = f", at most {self.high}" if self.high is not None else ""
        note = f", {self.note}" if self.note else ""
        return f"{self.domain or '(empty)'} holds {self.pods}{bound}{note}"


class Shape(NamedTuple):
    """A drawn bar: the light field up to the bound, the filled part, the part beyond, and the place of its words.

    `label_y` is the line of its name, above the bar if the name is long.
    """

    bar: Bar
    label: str
    label_y: float
    x: float
    y: float
    room: float
    filled: float
    over: float
    text: float


class Bars(NamedTuple):
    """A drawing of bars: its size in pixels, its shapes, and its description in words.

    `left_out` domains are not drawn, `off` of them are beyond their bounds.
    """

    width: float
    height: float
    upright: bool
    shapes: Sequence[Shape]
    left_out: int
    off: int
    sentence: str
    bound: float = 0.0


def draw_bars(bars: Sequence[Bar], width: float = 280.0, *, whole_names: bool = False) -> Bars:
    """Draw the bars of one rule; `width` is in pixels, with `whole_names` no name loses its beginning."""
    shown, off = list(bars), 0
    if len(bars) > _MANY:
        worst = nlargest(_MANY, (bar for bar in bars if bar.note), key=lambda bar: (bar.above, bar.short))
        shown = [bar for bar in bars if bar in worst]
        off = sum(bool(bar.note) for bar in bars) - len(shown)
    left_out = len(bars) - len(shown)
    sentence = "; ".join(bar.sentence for bar in shown)
    if left_out:
        sentence += f"; and {plural(left_out, 'more domain')}"
    largest = max((max(bar.pods, bar.high or 0) for bar in shown), default=0) or 1
    names = [bar.domain or _EMPTY for bar in shown]
    labels = names if whole_names else shorten([bar.domain for bar in shown])
    longest = _LABEL_LETTER * max(map(len, labels), default=0)
    if len(shown) > _FEW and (not whole_names or longest <= _step(shown, width)):
        return _upright(shown, labels, largest, width, (left_out, off), sentence)
    beside = longest <= _LABEL_LETTER * _LONGEST_BESIDE
    label, above = (8 + longest, 0) if beside else (0.0, _LINE)
    unit = max(1.0, (width - label - _NUMBERS) / largest)
    shapes = [
        _shape(bar, text, label, number * (_LINE + above) + above, unit, above)
        for number, (bar, text) in enumerate(zip(shown, labels, strict=True))
    ]
    across = max(label + unit * largest + _NUMBERS, longest)
    return Bars(across, (_LINE + above) * len(shown), False, shapes, left_out, off, sentence)


def _step(shown: Sequence[Bar], width: float) -> float:
    """Return how far upright bars are apart."""
    return max(38.0, width / len(shown))


def _shape(bar: Bar, label: str, x: float, y: float, unit: float, above: float = 0.0) -> Shape:
    inside = min(bar.pods, bar.high) if bar.high is not None else bar.pods
    end = max(bar.pods, bar.high or 0)
    return Shape(
        bar,
        label,
        y - above + 13,
        round(x, 1),
        y,
        round((bar.high or 0) * unit, 1),
        round(inside * unit, 1),
        round((bar.pods - inside) * unit, 1),
        round(x + end * unit + 7, 1),
    )


def _upright(
    shown: Sequence[Bar], labels: Sequence[str], largest: int, width: float, left: tuple[int, int], sentence: str
) -> Bars:
    step = _step(shown, width)
    unit = _TALL / largest
    shapes = [
        _shape(bar, label, number * step, 0.0, unit)
        for number, (bar, label) in enumerate(zip(shown, labels, strict=True))
    ]
    return Bars(step * len(shown), _TALL + 32, True, shapes, *left, sentence, step)


def shorten(names: Sequence[str]) -> list[str]:
    """Leave out the common prefix of names, up to a hyphen or a dot: `eu-west-1a`, `eu-west-1b` are `1a`, `1b`."""
    prefix = common_prefix(names)
    return [name.removeprefix(prefix) or _EMPTY for name in names]


def common_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of several names, up to a hyphen or a dot; "" for a single or a short name."""
    if len(names) < 2:  # several
        return ""
    first, last = min(names), max(names)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    cut = max(first[:same].rfind("-"), first[:same].rfind("."))
    return first[: cut + 1] if all(len(name) > cut + 1 for name in names) else ""
