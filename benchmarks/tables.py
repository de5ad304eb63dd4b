"""Tables of measurements, in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Final

_BAR: Final = r"\|"
"""A bar within a cell."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)
