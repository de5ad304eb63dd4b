"""The largest skew with which a rolling update over three domains can end if the scheduler chooses freely.

Each step creates a pod in any domain that the constraint admits, or deletes an old pod of any domain. The constraint
counts old and new pods together. All states are searched; they are few, because domains are interchangeable.
"""

from functools import cache
from typing import Final

_DOMAINS: Final = 3
_MOST: Final = 12
"""The most replicas that are searched; with more replicas, the skew is at least as large as with this many."""

_Counts = tuple[tuple[int, int], ...]
"""The old and the new pods of each domain, sorted, because domains are interchangeable."""


@cache
def find_rollout_skew(replicas: int, surge: int, unavailable: int, max_skew: int) -> int | None:
    """Return the largest skew of the new pods at the end; None if there are too many replicas to search."""
    if replicas > _MOST:
        return None
    most, least = replicas + surge, replicas - unavailable
    worst, seen, stack = 0, set[_Counts](), [_spread_evenly(replicas)]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        old, new = (sum(one[which] for one in state) for which in (0, 1))
        if not old and new == replicas:
            counts = [one[1] for one in state]
            worst = max(worst, max(counts) - min(counts))
            continue
        if new < replicas and old + new < most:
            stack += _place(state, max_skew)
        if old and old + new > least:
            stack += _take(state)
    return worst


def _spread_evenly(replicas: int) -> _Counts:
    each, rest = divmod(replicas, _DOMAINS)
    return tuple(sorted((each + (number < rest), 0) for number in range(_DOMAINS)))


def _place(state: _Counts, max_skew: int) -> list[_Counts]:
    """Return the states after a new pod, in a domain that the constraint admits."""
    fewest = min(map(sum, state))
    return [
        _change(state, number, (old, new + 1))
        for number, (old, new) in enumerate(state)
        if old + new + 1 - fewest <= max_skew
    ]


def _take(state: _Counts) -> list[_Counts]:
    """Return the states after an old pod is gone."""
    return [_change(state, number, (old - 1, new)) for number, (old, new) in enumerate(state) if old]


def _change(state: _Counts, number: int, counts: tuple[int, int]) -> _Counts:
    return tuple(sorted((*state[:number], counts, *state[number + 1 :])))
