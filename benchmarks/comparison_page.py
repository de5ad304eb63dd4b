"""The page of the comparison: where it is, how its tables are written, and its sections that are measured alone."""

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


def replace_section(page: str, section: str) -> str:
    """Return a page with this section in the place of an older one of the same heading, or at its end."""
    heading = section.partition("\n")[0]
    rest, _, after = f"\n{page}".partition(f"\n{heading}\n")
    _, found, following = after.partition("\n## ")
    return "\n\n".join([rest.strip(), section.strip(), *([f"## {following.strip()}"] if found else [])]) + "\n"


def with_last_sections(page: str, old: str, section: str) -> str:
    """Return a page with what an older one has after the first section that was measured alone, and this section."""
    heading = section.partition("\n")[0]
    _, found, after = f"\n{old}".partition(f"\n{heading}\n")
    return replace_section(f"{page.strip()}\n\n{heading}\n{after}" if found else page, section)
