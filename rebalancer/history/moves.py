"""One entry for each eviction request, when it has ended."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.history.outbox import seconds_of
from rebalancer.history.words import cut, workload_text
from rebalancer.model.history import NAME_LIMIT, Entry, EntryKind
from rebalancer.model.moves import Memory, Move, Target
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import short_key
from rebalancer.tracking.moves import is_deferred

_MOST_DOMAINS: Final = 3
"""Up to this many likely domains are named; the rest are counted."""


def note_moves(before: Memory, after: Memory, snapshot: Snapshot | None, now: datetime) -> Iterator[Entry]:
    """Yield an entry for each move that has ended in between; `snapshot` has the replacements.

    Whoever has refused an eviction for the moment may still carry it out: it ends when that time is over. What is not
    in the memory before has ended before, in an entry of another leader.
    """
    followed = {(move.uid, move.requested_at) for move in before.moves if not _has_ended(move)}
    for move in after.moves:
        if _has_ended(move) and (move.uid, move.requested_at) in followed:
            replacement = snapshot.pod.get(move.replacement) if snapshot is not None else None
            yield Entry(
                seq=0,
                at=seconds_of(now),
                kind=EntryKind.MOVED,
                namespace=move.namespace,
                workload=workload_text(move.workload),
                cause=move.cause,
                pod=move.pod,
                uid=move.uid,
                node=cut(move.node, NAME_LIMIT),
                to=cut(_destination(move.targets)),
                replacement_node=(replacement.node or "") if replacement is not None else "",
                outcome=move.state,
                since=seconds_of(move.requested_at),
            )


def _has_ended(move: Move) -> bool:
    return move.state.over and not is_deferred(move)


def _destination(targets: Sequence[Target]) -> str:
    """Name the domains of the key that says most, which is not that of host names if there is another."""
    named = [target for target in targets if target.values]
    if not named:
        return ""
    target = min(named, key=lambda one: (one.topology_key == HOSTNAME, len(one.values)))
    more = len(target.values) - _MOST_DOMAINS
    values = "/".join(target.values[:_MOST_DOMAINS])
    return f"{short_key(target.topology_key)} {values}{f' or {more} more' if more > 0 else ''}"
