"""Draws times over sizes, both logarithmic, as SVG: a straight line is a power of the size, its slope the exponent."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN, LEGEND = 640, 400, 56, 150
COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#000000")
"""Colours that people with any colour vision can tell apart (Okabe and Ito)."""


def draw(sizes: Sequence[int], rows: Mapping[str, Sequence[float]]) -> str:
    """Return the picture; a dashed line shows growth in proportion."""
    values = [max(value, 1e-3) for row in rows.values() for value in row]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left, right = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return MARGIN + (math.log10(size) - left) / (right - left) * (WIDTH - 2 * MARGIN - LEGEND)

    def y(value: float) -> float:
        share = (math.log10(max(value, 1e-3)) - low) / (high - low)
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        '<text x="16" y="24">Seconds of processor time over pods</text>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<line x1="{MARGIN}" x2="{x(sizes[-1]):.1f}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    parts += [
        f'<text x="{x(size):.1f}" y="{HEIGHT - MARGIN + 20}" text-anchor="middle">{size:,}</text>' for size in sizes
    ]
    start = 10 ** (low + 0.5)
    line = [(size, start * size / sizes[0]) for size in sizes]
    parts.append(_line(((x(size), y(value)) for size, value in line), "#999", dashed=True))
    parts.append(f'<text x="{x(sizes[-1]) + 8:.1f}" y="{y(line[-1][1]) + 4:.1f}" fill="#777">in proportion</text>')
    for number, (name, row) in enumerate(rows.items()):
        color = COLORS[number % len(COLORS)]
        parts.append(_line(((x(size), y(value)) for size, value in zip(sizes, row, strict=True)), color))
        at = MARGIN + 18 * number
        parts.append(f'<rect x="{WIDTH - LEGEND}" y="{at - 9}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{WIDTH - LEGEND + 20}" y="{at + 1}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(points: Iterable[tuple[float, float]], color: str, *, dashed: bool = False) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{style}/>'
