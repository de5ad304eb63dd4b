"""The windows of slow start: how many moves may be under way at once, in the cluster and in a namespace.

Like the ReplicaSet controller, which first creates few pods and then doubles the number while all goes well. An
unforeseen obstacle to replacements then costs a few pods, not one of every workload. A window grows by one for every
replacement that arrives, but only while it is the limit: an unfilled window says nothing about how many moves the
cluster can take. It begins anew after `IDLE` without a move.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from rebalancer.model.moves import NEVER_GRANTED, Memory, Move, StartWindow

FIRST_IN_CLUSTER: Final = 2
FIRST_IN_NAMESPACE: Final = 1

IDLE: Final = timedelta(minutes=10)
"""After this time without a move, a window starts again at its first size, because its evidence is out of date."""


def first_size(namespace: str) -> int:
    """Return how many moves may be under way at first, in a namespace or in the cluster ("")."""
    return FIRST_IN_NAMESPACE if namespace else FIRST_IN_CLUSTER


def grow_windows(memory: Memory, before: Iterable[Move], now: datetime) -> Memory:
    """Return the memory with the windows after a snapshot; `before` are the moves before it."""
    known = {move.uid for move in before}
    arrived = Counter[str]()
    last: dict[str, datetime] = {}
    moves = []
    for move in memory.moves:
        counts = move.arrived and not move.counted
        moves.append(structs.replace(move, counted=True) if counts else move)
        if move.state not in NEVER_GRANTED:
            for namespace in ("", move.namespace):
                arrived[namespace] += counts and move.uid in known
                last[namespace] = max(last.get(namespace, move.requested_at), move.requested_at)
    windows = (
        structs.replace(
            window,
            size=window.size + (arrived[window.namespace] if window.limited else 0),
            moved_at=min(now, max(window.moved_at, last.get(window.namespace, window.moved_at))),
        )
        for window in memory.windows
    )
    stored = tuple(window for window in windows if now - window.moved_at < IDLE)
    return structs.replace(memory, moves=tuple(moves), windows=stored)


def store_windows(
    before: Iterable[StartWindow], sizes: Mapping[str, int], limited: Collection[str], now: datetime
) -> tuple[StartWindow, ...]:
    """Return the windows to store after an admission, by namespace: only windows that differ from the first size.

    `before` are the windows of the memory, and `sizes` the sizes in force. `limited` are the namespaces whose window
    refused evictions.
    """
    moved = {window.namespace: window.moved_at for window in before}
    windows = (
        StartWindow(
            namespace=namespace,
            size=sizes.get(namespace, first_size(namespace)),
            limited=namespace in limited,
            moved_at=moved.get(namespace, now),
        )
        for namespace in sorted({*sizes, *limited})
    )
    return tuple(window for window in windows if window.limited or window.size > first_size(window.namespace))
