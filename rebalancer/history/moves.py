"""Makes one entry for each eviction request once it has ended."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rebalancer.account.happened import MoveEnded, Occurrence
from rebalancer.history.words import cut, workload_text
from rebalancer.model.history import NAME_LIMIT, Entry, EntryKind
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import Target
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import short_key

_MOST_DOMAINS: Final = 3
"""At most this many likely domains are named; the rest are counted."""


def move_entries(happened: Iterable[Occurrence], snapshot: Snapshot | None) -> Iterator[Entry]:
    """Yield an entry for each request that has ended; `snapshot` has the replacements."""
    for occurrence in happened:
        if isinstance(occurrence, MoveEnded):
            move = occurrence.move
            replacement = snapshot.pod.get(move.replacement) if snapshot is not None else None
            yield Entry(
                seq=0,
                at=seconds_of(move.changed_at),
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
                ready=seconds_of(move.ready_at) if move.ready_at else 0,
                approval=move.approval or "",
            )


def _destination(targets: Sequence[Target]) -> str:
    """Name the likely domains by the most informative key; by host name only if there is no other key."""
    named = [target for target in targets if target.values]
    if not named:
        return ""
    target = min(named, key=lambda one: (one.topology_key == HOSTNAME, len(one.values)))
    more = len(target.values) - _MOST_DOMAINS
    values = "/".join(target.values[:_MOST_DOMAINS])
    return f"{short_key(target.topology_key)} {values}{f' or {more} more' if more > 0 else ''}"
