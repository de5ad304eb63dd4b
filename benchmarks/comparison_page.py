"""The page of the comparison: where it is, how its tables are written, and its section that is measured alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "comparison.md"

_BAR: Final = r"\|"
"""A bar within a cell."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)


def replace_last_section(page: str, section: str) -> str:
    """Return a page whose last section is this one, in the place of an older one of the same heading."""
    heading = section.partition("\n")[0]
    rest, _, _ = f"\n{page}".partition(f"\n{heading}\n")
    return f"{rest.strip()}\n\n{section.strip()}\n"
