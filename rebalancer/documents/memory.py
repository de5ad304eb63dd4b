"""The controller's memory as text, for the next process. Its size is bounded, however much is violated.

Everything that evictions depend on is stored whole: the moves in flight, which admission limits to a fixed number, the
evictions of the last minute, and failures. The rest is bounded here, because its loss only delays evictions: a
violation whose start is not stored counts from the next process's first cycle on.

The bound is in bytes. If the memory exceeds it, parts are left out in this order, the least important first:

1. entries of the history;
2. data whose loss only delays evictions;
3. the repairs that the later steps of a proposal cover;
4. moves that have ended;
5. the host names that verify a move;
6. failures, and the names that only messages need;
7. the domains that have lost their nodes, changes of nodes, and others' evictions.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.moments import Moment
from rebalancer.model.moves import NO_MEMORY, Memory, SentRequest, StartWindow, Target
from rebalancer.model.reasons import ViolationCause

_Causes = tuple[tuple[str, ViolationCause], ...]

_FORMAT: Final = 2

MOST_SINCE: Final = 5_000
"""Violated groups and limits whose start of the violation is stored, the oldest."""

MOST_FAILED: Final = 1_000
"""Groups whose failed predictions and refused requests are stored, the newest."""

MOST_SETTLING: Final = 1_000
"""Groups with a stored time at which they first waited for a node to settle, the oldest."""

MOST_EVICTED: Final = 300
"""Stored workloads whose pods others evict: those with the most recent eviction."""

MOST_WINDOWS: Final = 200
"""Stored windows of slow start: the cluster's window, and those of the namespaces that moved last."""

MOST_QUEUED: Final = 200
"""Groups with a stored start of their wait for slow start, the oldest."""

MOST_CANARIES: Final = 1_000
"""Stored owners with verified canaries."""

_MOST_WAITING: Final = 100
"""Entries of the history that are stored in a memory that is too large, the newest."""

_FEW_CONSUMED: Final = 4
"""Identities of approvals that are stored in a memory that is too large, the last."""

MOST_BYTES: Final = 240 * 1024
"""Most bytes of the text; the ConfigMap may have 288 KiB, and also holds the status, which people read."""

_SHORT_TARGET: Final = 48
"""Characters of a target's domains that are stored even in a memory that is too large: three zones, no host names."""

_LARGEST: Final = 16 * 1024 * 1024
"""Most bytes of a decompressed memory; no controller writes a larger one."""


class _Written(Memory, frozen=True, kw_only=True):
    """A memory that earlier releases can read: they store only the times of the evictions of the last minute."""

    times: tuple[Moment, ...] = msgspec.field(default=(), name="sent")
    unreplaced: OpenCause | None = None
    """A cause of the breaker, kept apart: earlier releases do not know it and would drop the whole memory."""
    zone_lost: tuple[str, ...] | UnsetType = UNSET
    """Tokens in `causes` whose cause is ZoneLost, which earlier releases do not know either; these read NodeLost."""


class _StoredMemory(msgspec.Struct, frozen=True):
    """`since` maps each time to the tokens violated since then: grouped by time, they take a tenth of the space."""

    memory: _Written
    since: dict[str, list[str]]


class _Envelope(msgspec.Struct, frozen=True):
    format: int
    deflated: str


def memory_text(memory: Memory) -> str:
    """Encode the memory for the next process, in at most MOST_BYTES.

    The text is larger only if the moves in flight, which are not left out, reach their limit and all workloads have
    different names of over 63 characters. If it does not fit into the ConfigMap then, it is not saved, and nothing is
    evicted.
    """
    bounded = msgspec.structs.replace(
        memory,
        seen=tuple(sorted(memory.seen, key=itemgetter(1, 0))[:MOST_SINCE]),
        failed_predictions=tuple(sorted(memory.failed_predictions, key=lambda failure: failure.last)[-MOST_FAILED:]),
        refused=tuple(sorted(memory.refused, key=lambda refused: refused.last)[-MOST_FAILED:]),
        settling=tuple(sorted(memory.settling, key=itemgetter(1, 0))[:MOST_SETTLING]),
        evicted_by_others=memory.evicted_by_others[-MOST_EVICTED:],
        windows=tuple(sorted(sorted(memory.windows, key=_of_window)[:MOST_WINDOWS])),
        queued=tuple(sorted(memory.queued, key=itemgetter(1, 0))[:MOST_QUEUED]),
        canaries=memory.canaries[:MOST_CANARIES],
    )
    text = _encode(bounded)
    for reduce in _REDUCTIONS:
        if len(text) <= MOST_BYTES:
            break
        bounded = reduce(bounded)
        text = _encode(bounded)
    return text


def _fields_of(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in Memory.__struct_fields__}


def _encode(memory: Memory) -> str:
    since: dict[str, list[str]] = {}
    for token, moment in memory.seen:
        since.setdefault(moment.isoformat(), []).append(token)
    unreplaced = memory.breaker.find(BreakerCause.REPLACEMENTS)
    others = tuple(known for known in memory.breaker.causes if known is not unreplaced)
    zone_lost = tuple(token for token, cause in memory.causes if cause is ViolationCause.ZONE_LOST)
    causes = _with_cause(memory.causes, zone_lost, ViolationCause.NODE_LOST)
    fields = {**_fields_of(memory), "seen": (), "breaker": BreakerState(others), "causes": causes}
    times = tuple(request.at for request in memory.sent)
    written = _Written(**fields, times=times, unreplaced=unreplaced, zone_lost=zone_lost or UNSET)
    data = msgspec.json.encode(_StoredMemory(written, since))
    return msgspec.json.encode(_Envelope(_FORMAT, b64encode(zlib.compress(data)).decode())).decode()


def _with_cause(causes: _Causes, tokens: Iterable[str], cause: ViolationCause) -> _Causes:
    """Return the causes with `cause` for these tokens."""
    chosen = frozenset(tokens)
    return tuple((token, cause if token in chosen else known) for token, known in causes)


def _of_window(window: StartWindow) -> tuple[bool, float, str]:
    return window.namespace != "", -window.moved_at.timestamp(), window.namespace


def _shorten_outbox(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, outbox=memory.outbox[-_MOST_WAITING:])


def _shorten_since(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, seen=memory.seen[: MOST_SINCE // 5])


def _shorten_approvals(memory: Memory) -> Memory:
    """Leave out old identities, and data that only serves to approve a waiting plan step by step: hashes are new."""
    proposal = memory.proposal
    if proposal is not None:
        proposal = msgspec.structs.replace(proposal, coverage=msgspec.UNSET)
    consumed = (memory.consumed or ())[-_FEW_CONSUMED:] or msgspec.UNSET
    return msgspec.structs.replace(memory, proposal=proposal, consumed=consumed)


def _drop_delaying(memory: Memory) -> Memory:
    return msgspec.structs.replace(
        memory, seen=(), changes=(), causes=(), settling=(), windows=(), queued=(), canaries=(), outbox=(), lost=()
    )


def _drop_ended_moves(memory: Memory) -> Memory:
    needed = tuple(move for move in memory.moves if not move.state.over or move.overdue)
    return msgspec.structs.replace(memory, moves=needed)


def _drop_large_targets(memory: Memory) -> Memory:
    """Drop the targets of moves with many possible domains: their other keys still verify them."""
    moves = (msgspec.structs.replace(move, targets=tuple(filter(_is_short, move.targets))) for move in memory.moves)
    return msgspec.structs.replace(memory, moves=tuple(moves))


def _is_short(target: Target) -> bool:
    return sum(map(len, target.values)) <= _SHORT_TARGET


def _shorten_failed(memory: Memory) -> Memory:
    few = MOST_FAILED // 5
    failed, refused = memory.failed_predictions[-few:], memory.refused[-few:]
    return msgspec.structs.replace(memory, failed_predictions=failed, refused=refused)


def _drop_failed(memory: Memory) -> Memory:
    moves = tuple(msgspec.structs.replace(move, node="") for move in memory.moves)
    return msgspec.structs.replace(memory, moves=moves, failed_predictions=(), refused=())


def _drop_places(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, zones=(), node_changes=(), domains_in_motion=(), evicted_by_others=())


_REDUCTIONS: Final[tuple[Callable[[Memory], Memory], ...]] = (
    _shorten_outbox,
    _shorten_since,
    _drop_delaying,
    _shorten_approvals,
    _drop_ended_moves,
    _drop_large_targets,
    _shorten_failed,
    _drop_failed,
    _drop_places,
)
"""The reductions of a memory that is too large, applied in this order until it fits."""


def parse_memory(text: str) -> Memory:
    """Decode a memory; an unreadable one gives the empty memory, since moves are visible in the cluster itself."""
    if not text:
        return NO_MEMORY
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.format != _FORMAT:
            return NO_MEMORY
        data = zlib.decompressobj().decompress(b64decode(envelope.deflated), _LARGEST)
        stored = msgspec.json.decode(data, type=_StoredMemory)
        seen = ((token, _parse_moment(moment)) for moment, tokens in stored.since.items() for token in tokens)
        sent = stored.memory.sent or tuple(map(SentRequest, stored.memory.times))
        unreplaced = (stored.memory.unreplaced,) if stored.memory.unreplaced is not None else ()
        breaker = BreakerState((*stored.memory.breaker.causes, *unreplaced))
        causes = _with_cause(stored.memory.causes, stored.memory.zone_lost or (), ViolationCause.ZONE_LOST)
        fields = {**_fields_of(stored.memory), "seen": tuple(sorted(seen)), "sent": sent, "breaker": breaker}
        return Memory(**{**fields, "causes": causes})
    except (msgspec.DecodeError, zlib.error, ValueError, RecursionError):
        return NO_MEMORY


def _parse_moment(text: str) -> datetime:
    return msgspec.convert(text, Moment)
