"""Formats values and paths of a policy file for messages, in one short line without control characters."""

import re
from collections.abc import Sequence

from rebalancer.yaml_tree import Path, UnsupportedScalar

_LONGEST = 60
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}\Z")


def describe_value(value: object, *, text: str | None = None) -> str:
    """Describe a value; `text` is its text in the file."""
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case None:
            return f"nothing ({text})" if text else "nothing"
        case str():
            return quote(value)
        case UnsupportedScalar(text=written):
            return _clip(repr(written)[1:-1])
        case bool():
            word = str(value).lower()
            return word if text in {None, word} else f"{text}, which YAML reads as {word}"
        case _:
            return _clip(str(value))


def quote(text: str) -> str:
    """Quote text, with control characters escaped."""
    inner = _clip(repr(text)[1:-1].replace("\\'", "'"))
    return f'"{inner}"'


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def format_path(path: Path) -> str:
    """Write a path as `eligibility.selector.matchLabels["example.com/app"]`, `owners[0]`."""
    result = ""
    for step in path:
        if isinstance(step, int):
            result += f"[{step}]"
        elif _PLAIN.match(step):
            result += f".{step}" if result else step
        else:
            result += f"[{quote(step)}]"
    return result


def join_alternatives(names: Sequence[str]) -> str:
    """List alternatives: `a`, `a or b`, `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
