"""What a name that nothing has was probably meant to be: the nearest of those that there are, if one is near."""

from collections.abc import Collection
from difflib import SequenceMatcher, get_close_matches
from typing import Final

_ALIKE: Final = 0.8
"""From this similarity on (difflib's, 1 for equal) another name is taken for a misspelling."""

_MOST: Final = 1_000
"""Names that are compared: that the nearest is left out costs a hint."""


def is_misspelling(key: str, found: str) -> bool:
    """Say whether a label is probably meant to be the key: a longer or shorter form of it, or nearly the same word."""
    if found == key:
        return False
    name, other = key.rpartition("/")[2], found.rpartition("/")[2]
    if name == other or other.startswith((f"{name}-", f"{name}_")) or other.endswith((f"-{name}", f"_{name}")):
        return True
    return _alike(key, found) >= _ALIKE and (_alike(name, other) >= _ALIKE or _one_off(name, other))


def _one_off(name: str, other: str) -> bool:
    """Say whether one letter is another, or two neighbours changed places: in a short word difflib sees less alike."""
    if len(name) != len(other):
        return False
    differing = [place for place, (one, two) in enumerate(zip(name, other, strict=True)) if one != two]
    if len(differing) == 1:
        return f"{name}{other}".isalpha()
    return len(differing) == 2 and differing[1] == differing[0] + 1 and sorted(name) == sorted(other)


def nearest_key(key: str, there: Collection[str]) -> str | None:
    """Return the label key that a key was probably meant to be."""
    near = [
        each
        for each in sorted(there)[:_MOST]
        if is_misspelling(key, each) or is_misspelling(each, key) or _beside(key, each)
    ]
    return max(near, key=lambda each: _alike(key, each), default=None)


def _beside(key: str, other: str) -> bool:
    """Say whether a key has not the other's prefix, or has it and one name begins with the other."""
    (prefix, _, name), (its, _, its_name) = key.rpartition("/"), other.rpartition("/")
    if prefix == its:
        return name.startswith(its_name) or its_name.startswith(name)
    return not prefix and _alike(name, its_name) >= _ALIKE


def nearest(word: str, there: Collection[str]) -> str | None:
    """Return the value or name that a word was probably meant to be."""
    return next(iter(get_close_matches(word, sorted(there)[:_MOST], n=1, cutoff=_ALIKE)), None)


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
