"""Ranks for an order of deletion: numbers from 1 to 1,000,000 with gaps, so that a new pod finds a place between two.

Pods without a rank count as 0 and go first. Larger numbers would steer other tools: Karpenter adds the deletion cost,
divided by 2**27, to a pod's disruption cost.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

HIGHEST: Final = 1_000_000
"""The highest rank of any pod."""

_SPARE: Final = 4
"""The gaps between ranks let a group grow to this many times its size."""

_SMALL: Final = 64
"""A smaller group is treated as if it had this size."""


def keep_most(order: Sequence[int], ranks: Sequence[int]) -> frozenset[int]:
    """Return the largest set of pods whose present ranks are already in this order; a pod of rank 0 has no rank."""
    ends: list[int] = []
    last: list[int] = []
    before: dict[int, int | None] = {}
    for pod in order:
        rank = ranks[pod]
        if not rank:
            continue
        place = bisect_left(ends, rank)
        before[pod] = last[place - 1] if place else None
        if place == len(ends):
            ends.append(rank)
            last.append(pod)
        else:
            ends[place], last[place] = rank, pod
    unchanged: set[int] = set()
    pod_or_none = last[-1] if last else None
    while pod_or_none is not None:
        unchanged.add(pod_or_none)
        pod_or_none = before[pod_or_none]
    return frozenset(unchanged)


def assign_ranks(order: Sequence[int], unchanged: frozenset[int], ranks: Sequence[int]) -> dict[int, int]:
    """Return the new ranks of pods; where there is no space between two pods, neighbouring pods get new ranks, too."""
    assigned: dict[int, int] = {}
    positions = [position for position, pod in enumerate(order) if pod in unchanged]
    borders = [-1, *positions, len(order)]
    at = 0
    while at < len(borders) - 1:
        first, last = borders[at], borders[at + 1]
        low = ranks[order[first]] if first >= 0 else 0
        high = ranks[order[last]] if last < len(order) else HIGHEST + 1
        number = last - first - 1
        if high - low - 1 < number:
            # No space: the neighbour with more space beyond it loses its rank, too.
            below = low - (ranks[order[borders[at - 1]]] if at > 1 else 0) if at else -1
            above = (
                (ranks[order[borders[at + 2]]] if borders[at + 2] < len(order) else HIGHEST + 1) - high
                if at + 2 < len(borders)
                else -1
            )
            if below > above:
                at -= 1
                for pod in order[borders[at] + 1 : first]:
                    assigned.pop(pod, None)
                del borders[at + 1]
            else:
                del borders[at + 1]
            continue
        assigned.update(zip(order[first + 1 : last], _between(low, high, number, len(order)), strict=True))
        at += 1
    return assigned


def _between(low: int, high: int, number: int, size: int) -> list[int]:
    """Return `number` ranks between two others, well apart from each other.

    At either end they stay near the others, so that more pods find a place beyond them.
    """
    if not number:
        return []
    stride = HIGHEST // (_SPARE * max(size, _SMALL))
    if low == 0 and high == HIGHEST + 1:
        begin = (HIGHEST - stride * (number - 1)) // 2
        return [begin + stride * position for position in range(number)] if stride else list(range(1, number + 1))
    if low == 0:
        step = max(1, min(stride, high // (number + 1)))
        return [high - step * (number - position) for position in range(number)]
    if high == HIGHEST + 1:
        step = max(1, min(stride, (high - low) // (number + 1)))
        return [low + step * (position + 1) for position in range(number)]
    return [low + (high - low) * (position + 1) // (number + 1) for position in range(number)]
