"""Hints for misspelt names: the most similar of the existing names, if one is similar enough."""

from collections.abc import Collection
from difflib import SequenceMatcher, get_close_matches
from typing import Final

_SIMILAR: Final = 0.8
"""From this similarity on (difflib's, 1 for equal) a name counts as a misspelling of another name."""

_MOST: Final = 1_000
"""Up to this many names are compared; beyond them a hint may be missing."""


def is_misspelling(key: str, label: str) -> bool:
    """Return whether a label is probably a misspelt key: a longer or shorter form of it, or nearly the same word."""
    if label == key:
        return False
    name, other = key.rpartition("/")[2], label.rpartition("/")[2]
    if name == other or other.startswith((f"{name}-", f"{name}_")) or other.endswith((f"-{name}", f"_{name}")):
        return True
    return _similarity(key, label) >= _SIMILAR and (
        _similarity(name, other) >= _SIMILAR or _differs_by_one_letter(name, other)
    )


def _differs_by_one_letter(name: str, other: str) -> bool:
    """Return whether one letter differs or two neighbours are swapped, which difflib underrates in short words."""
    if len(name) != len(other):
        return False
    differing = [place for place, (one, two) in enumerate(zip(name, other, strict=True)) if one != two]
    if len(differing) == 1:
        return f"{name}{other}".isalpha()
    return len(differing) == 2 and differing[1] == differing[0] + 1 and sorted(name) == sorted(other)


def nearest_key(key: str, there: Collection[str]) -> str | None:
    """Return the existing label key that a misspelt key probably means, None without a similar one."""
    near = [
        other
        for other in sorted(there)[:_MOST]
        if is_misspelling(key, other) or is_misspelling(other, key) or _is_related(key, other)
    ]
    return max(near, key=lambda other: _similarity(key, other), default=None)


def _is_related(key: str, other: str) -> bool:
    """Return whether a key lacks the other's prefix, or has it and one name begins with the other."""
    (prefix, _, name), (its, _, its_name) = key.rpartition("/"), other.rpartition("/")
    if prefix == its:
        return name.startswith(its_name) or its_name.startswith(name)
    return not prefix and _similarity(name, its_name) >= _SIMILAR


def nearest_name(word: str, there: Collection[str]) -> str | None:
    """Return the existing value or name that a misspelt word probably means, None without a similar one."""
    names = sorted(there)[:_MOST]
    letters = sorted(word)
    swapped = next((name for name in names if name != word and sorted(name) == letters), None)
    return swapped or next(iter(get_close_matches(word, names, n=1, cutoff=_SIMILAR)), None)


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
