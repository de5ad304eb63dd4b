"""Scores brought to 0…100."""

from collections.abc import Mapping


def to_hundred(raw: Mapping[str, int], *, reverse: bool = False) -> Mapping[str, int]:
    """Scale to the greatest, in integer division; `reverse` makes the least the best.

    Source: `plugins/helper/normalize_score.go`. All zero stays zero, or becomes 100 in reverse.
    """
    greatest = max(raw.values(), default=0)
    if greatest == 0:
        return dict.fromkeys(raw, 100) if reverse else raw
    scaled = {node: value * 100 // greatest for node, value in raw.items()}
    return {node: 100 - value for node, value in scaled.items()} if reverse else scaled
