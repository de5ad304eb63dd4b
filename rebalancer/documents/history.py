"""The History and Trend documents: what has happened, and how much was violated when."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text, WorkloadName
from rebalancer.documents.phrases import SEEN_LATER, took_text
from rebalancer.documents.surges import surge_ended
from rebalancer.history.trend import Trend
from rebalancer.model.history import UNKNOWN, Entry, EntryKind
from rebalancer.model.moves import MoveState
from rebalancer.model.words import format_duration, plural
from rebalancer.surge.record import Ending

_BY_PEOPLE: Final = frozenset(
    {
        EntryKind.PAUSED,
        EntryKind.RESUMED,
        EntryKind.APPROVED,
        EntryKind.APPROVAL_ENDED,
        EntryKind.POLICY_CHANGED,
        EntryKind.POLICY_REFUSED,
    }
)
_NEVER_EVICTED: Final = frozenset({MoveState.REFUSED, MoveState.GONE})
_LASTING: Final = frozenset(
    {
        EntryKind.MOVED,
        EntryKind.SURGED,
        EntryKind.SATISFIED,
        EntryKind.NODE_FOUND,
        EntryKind.NO_LONGER_REQUIRED,
        EntryKind.END_UNKNOWN,
        EntryKind.RESUMED,
        EntryKind.ZONE_RETURNED,
    }
)
"""Occurrences that end something that began at `since`."""


class HistoryEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """One occurrence; `text` describes it in a line.

    `seq` increases strictly over all leaders. `at` is when the leader observed it. An occurrence with a duration lasted
    from `since` to `at`, for `seconds`.

    If a violation is gone while its repair still moves pods, its end is stored once they have moved; `at` is the cycle
    that first saw it gone, as in status and trend. With `atMost`, it may have ended earlier, while no process led.

    `namespace`, `workload`, `pod`, `uid`, `node` (that the pod left) and `cause` are what it concerns. For a violation
    of several workloads, `others` lists workloads after the first, up to a bound, and `number` counts all.

    `kind` is Moved for an eviction that took place, whatever its outcome. It is Refused for a request that was refused
    or not carried out, and Gone for a pod that was gone before its request.

    For a move, `to` are the predicted domains of the replacement, `replacementNode` is the node that it got, and
    `outcome` the state in which the move ended. `readyAt` is when the replacement became Ready, which ends the move's
    duration; null if not known.

    `what` is what is violated, why it is no longer required, the zone, the hash of the policy or plan, or the reason
    for a pause, which ends by itself at `until`.

    `who` leads, or has paused, resumed, approved or changed the policy. If `declared`, the command declared this name.
    Else `who` is a process, the field manager that Kubernetes has recorded, or "unknown" without a record. `manager`
    has the field manager, too, and then `since` is the time that Kubernetes has recorded.

    For the approval of a whole plan, `number` and `until` are its bounds. For its end, `cause` says why, `number` is
    how many evictions were left, and `who` is empty unless somebody has withdrawn it. In mode Approve `approval` is the
    hash of the approved plan by which a move was requested.

    For a right to evict that is missing or back, `what` lists namespaces and `number` counts them. For a policy that
    could not be read for a while, but stayed in force, `number` is 1. For a surge, `what` lists the pods that were to
    go, `number` counts the pods that were added first, and `outcome` says how it ended.
    """

    seq: Number
    at: datetime
    kind: Text
    text: Text
    namespace: str = ""
    workload: WorkloadName | None = None
    others: tuple[WorkloadName, ...] = ()
    what: str = ""
    cause: str = ""
    pod: str = ""
    uid: str = ""
    node: str = ""
    to: str = ""
    replacement_node: str = ""
    outcome: str = ""
    since: datetime | None = None
    ready_at: datetime | None = None
    seconds: Number | None = None
    at_most: bool = False
    until: datetime | None = None
    who: str = ""
    declared: bool = False
    manager: str = ""
    number: Number = 0
    approval: str = ""

    @property
    def went_well(self) -> bool:
        """Whether a move or a surge ended as planned."""
        return self.outcome in {MoveState.VERIFIED, Ending.DONE}


class AsOf(NamedTuple):
    """The age of a history: when the leader stored it, and the time of the leader's last cycle until then.

    Both come from the status that was stored with the history; None if not known.
    """

    stored: datetime | None = None
    last_cycle: datetime | None = None


UNKNOWN_TIME: Final = AsOf()


class HistoryDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """What has happened, the oldest first. `total` counts the stored entries, before any filter.

    It has all that the leader had observed by `as_of`, in its `last_cycle` and since. Both times come from the status
    that was stored with the history; null if not known.
    """

    api_version: str = API_VERSION
    kind: str = "History"
    as_of: datetime | None = None
    last_cycle: datetime | None = None
    entries: tuple[HistoryEntry, ...]
    total: Number


class TrendSample(CamelCaseStruct, frozen=True, kw_only=True):
    """How much was violated from `at` until the next sample.

    `violated` is the number of violated workloads, `above` the number of pods above the bounds of their domains, and
    `skew` the largest skew of a constraint.
    """

    at: datetime
    violated: Number
    above: Number
    skew: Number


class TrendDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """How much was violated, the oldest sample first; a sample is taken whenever a number changes.

    For the more distant past only some samples are kept: the first, the last, and the extremes of each period. `as_of`
    and `last_cycle` are as in the History document: the last sample holds until then.
    """

    api_version: str = API_VERSION
    kind: str = "Trend"
    as_of: datetime | None = None
    last_cycle: datetime | None = None
    samples: tuple[TrendSample, ...]


def history_document(entries: Iterable[Entry], *, total: int, as_of: AsOf = UNKNOWN_TIME) -> HistoryDocument:
    """Convert entries of the history, and put the oldest first: an end may be stored after later occurrences.

    A policy comes before its consequences in the same second: it is stored only after its author was read.
    """
    ordered = sorted(entries, key=lambda entry: (entry.at, entry.kind != EntryKind.POLICY_CHANGED, entry.seq))
    return HistoryDocument(
        as_of=as_of.stored, last_cycle=as_of.last_cycle, entries=tuple(map(history_entry, ordered)), total=total
    )


def trend_document(trend: Trend, as_of: AsOf = UNKNOWN_TIME) -> TrendDocument:
    """Convert the trend."""
    samples = (
        TrendSample(at=_moment(one.at), violated=one.violated, above=one.above, skew=one.skew) for one in trend.samples
    )
    return TrendDocument(as_of=as_of.stored, last_cycle=as_of.last_cycle, samples=tuple(samples))


def entry_workloads(entry: Entry) -> tuple[WorkloadName, ...]:
    """Return the workloads that an entry names."""
    named = (text.partition("/") for text in (entry.workload, *entry.others.split(",")))
    return tuple(WorkloadName(kind=kind, name=name) for kind, _, name in named if kind and name)


def history_entry(entry: Entry) -> HistoryEntry:
    """Convert an entry of the history."""
    workloads = entry_workloads(entry)
    return HistoryEntry(
        seq=entry.seq,
        at=_moment(entry.at),
        kind=_find_kind(entry),
        text=entry_text(entry),
        namespace=entry.namespace,
        workload=workloads[0] if workloads else None,
        others=workloads[1:],
        what=entry.what,
        cause=entry.cause,
        pod=entry.pod,
        uid=entry.uid,
        node=entry.node,
        to=entry.to,
        replacement_node=entry.replacement_node,
        outcome=entry.outcome,
        since=_moment(entry.since) if entry.since else None,
        ready_at=_moment(entry.ready) if entry.ready else None,
        seconds=_seconds(entry) if entry.since and entry.kind in _LASTING else None,
        at_most=_is_seen_late(entry),
        until=_moment(entry.until) if entry.until else None,
        who=_find_actor(entry),
        declared=_is_declared(entry),
        manager=entry.manager,
        number=entry.number,
        approval=entry.approval,
    )


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_declared(entry: Entry) -> bool:
    return entry.kind in _BY_PEOPLE and entry.who not in {"", UNKNOWN}


def _find_kind(entry: Entry) -> str:
    """Return the kind of an entry: Moved only if a pod was evicted."""
    is_move = entry.kind == EntryKind.MOVED
    return entry.outcome.capitalize() if is_move and entry.outcome in _NEVER_EVICTED else entry.kind


def _find_actor(entry: Entry) -> str:
    return entry.manager if entry.who == UNKNOWN and entry.manager else entry.who


def entry_text(entry: Entry) -> str:
    """Say in a line, readable alone, what has happened."""
    write = _TEXTS.get(entry.kind)
    return write(entry) if write is not None else f"{entry.kind} {entry.what}".rstrip()


def _moved(entry: Entry) -> str:
    replacement = f" on {entry.replacement_node}" if entry.replacement_node else ""
    predicted = f" in {entry.to}" if entry.to else ""
    ready = _moment(entry.ready) if entry.ready else None
    took = took_text(entry.outcome, _moment(entry.since), _moment(entry.at), ready) if entry.since else _lasted(entry)
    after = f"after {took}"
    endings: Mapping[str, str] = {
        MoveState.VERIFIED: f"the replacement{replacement} is Ready as predicted{predicted}, {after}",
        MoveState.INEFFECTIVE: f"the replacement{replacement} is Ready, but not as predicted{predicted}, {after}",
        MoveState.LOST: f"no replacement was Ready {after}",
        MoveState.OVERTAKEN: f"the workload wanted no replacement any more {after}",
    }
    cause = f" to repair {entry.cause}" if entry.cause else ""
    pod = f"{entry.pod} from {entry.node}{cause}"
    if entry.outcome == MoveState.REFUSED:
        return f"{_subject(entry)}: the eviction of {pod} was refused or not carried out"
    if entry.outcome == MoveState.GONE:
        return f"{_subject(entry)}: {entry.pod} on {entry.node} was gone before it was evicted{cause}"
    return f"{_subject(entry)}: evicted {pod}; {endings.get(entry.outcome, entry.outcome)}"


def _surged(entry: Entry) -> str:
    subject = _subject(structs.replace(entry, number=1))
    return f"{subject}: {surge_ended(entry.number, entry.what, entry.outcome)}; it took {_lasted(entry)}"


def _violated(entry: Entry) -> str:
    if not entry.token:
        return f"{plural(entry.number, 'more workload')} began to violate a constraint or limit"
    cause = f", cause {entry.cause}" if entry.cause else ""
    return f"{_subject(entry)}: {entry.what}{cause}"


def _satisfied(entry: Entry) -> str:
    if not entry.token:
        return f"{plural(entry.number, 'more workload')} satisfied constraint or limit again"
    what = f"{entry.what} " if entry.what else ""
    return f"{_subject(entry)}: {what}satisfied again after {_lasted(entry)}"


def _without_node(entry: Entry) -> str:
    if not entry.token:
        return f"{plural(entry.number, 'more workload')} began to wait for a node"
    return f"{_subject(entry)}: no rule is violated, but pods wait for a node: {entry.what}"


def _node_found(entry: Entry) -> str:
    if not entry.token:
        return f"{plural(entry.number, 'more workload')} wait for a node no longer"
    return f"{_subject(entry)}: no pod waits for a node any more; seen for {_lasted(entry)}"


def _dropped(entry: Entry) -> str:
    if not entry.token:
        return f"{plural(entry.number, 'more workload')} no longer required to satisfy a constraint or limit"
    return f"{_subject(entry)}: violated for {_lasted(entry)}, no longer required: {entry.what}"


def _end_unknown(entry: Entry) -> str:
    if not entry.token:
        return f"not found any more: {plural(entry.number, 'more violation')} that an earlier leader has stored"
    return (
        f"a violation that an earlier leader has stored is not found after {_lasted(entry)}: whether it is satisfied, "
        "not required any more, or counted together with others is not known"
    )


def _paused(entry: Entry) -> str:
    end = f"until {_moment(entry.until):%Y-%m-%d %H:%M:%SZ}" if entry.until else "until somebody resumes"
    return f"paused by {_person(entry)} {end}: {entry.what or 'no reason given'}"


def _resumed(entry: Entry) -> str:
    if not entry.who:
        return f"the pause ended by itself after {_lasted(entry)}"
    return f"resumed by {_person(entry)} after {_lasted(entry)}"


def _bounds(entry: Entry) -> str:
    """Return the bounds of a whole plan's approval in words, "" for an approval without the later steps."""
    if not entry.number:
        return ""
    until = f"{_moment(entry.until):%Y-%m-%d %H:%M:%SZ}"
    return f" with its later steps: up to {plural(entry.number, 'eviction')} until {until}"


def _approval_ended(entry: Entry) -> str:
    by = f", by {_person(entry)}" if entry.who else ""
    left = f"with {plural(entry.number, 'eviction')} left"
    return f"the approval of plan {entry.what} with its later steps has ended, {left}: {entry.cause}{by}"


def _zone_lost(entry: Entry) -> str:
    held = f": it had {plural(entry.number, 'node')} with {plural(entry.above, 'pod')}" if entry.number else ""
    return f"{entry.what} is lost{held}"


def _returned(entry: Entry) -> str:
    return (
        f"{entry.what} takes pods again, after {_lasted(entry)}" if entry.since else f"{entry.what} has its first node"
    )


def _sampled(entry: Entry) -> str:
    violated, above = plural(entry.number, "workload"), plural(entry.above, "pod")
    return f"{violated} violated, {above} above the bounds, largest skew {entry.skew}"


_TEXTS: Final[Mapping[str, Callable[[Entry], str]]] = {
    EntryKind.MOVED: _moved,
    EntryKind.SURGED: _surged,
    EntryKind.VIOLATED: _violated,
    EntryKind.SATISFIED: _satisfied,
    EntryKind.WITHOUT_NODE: _without_node,
    EntryKind.NODE_FOUND: _node_found,
    EntryKind.NO_LONGER_REQUIRED: _dropped,
    EntryKind.END_UNKNOWN: _end_unknown,
    EntryKind.PAUSED: _paused,
    EntryKind.RESUMED: _resumed,
    EntryKind.APPROVED: lambda entry: f"plan {entry.what} approved by {_person(entry)}{_bounds(entry)}",
    EntryKind.POLICY_CHANGED: lambda entry: (
        f"policy {entry.what} can be read again, put back by {_person(entry)}; it was in force throughout"
        if entry.number
        else f"policy {entry.what} in force, changed by {_person(entry)}"
    ),
    EntryKind.POLICY_REFUSED: lambda entry: f"policy refused, changed by {_person(entry)}: {entry.what}",
    EntryKind.POLICY_MISSING: lambda entry: f"no policy can be read, the last one stays in force: {entry.what}",
    EntryKind.APPROVAL_ENDED: _approval_ended,
    EntryKind.RIGHT_MISSING: lambda entry: f"the controller has no right to evict in {entry.what}",
    EntryKind.RIGHT_GRANTED: lambda entry: f"the controller may evict in {entry.what} again",
    EntryKind.LEADS: lambda entry: f"{entry.who} leads",
    EntryKind.ZONE_LOST: _zone_lost,
    EntryKind.ZONE_RETURNED: _returned,
    EntryKind.SAMPLE: _sampled,
    EntryKind.DROPPED: lambda entry: (
        f"{plural(entry.number, 'entry', 'entries')} dropped, which could not be stored in time"
    ),
}


def _subject(entry: Entry) -> str:
    if not entry.workload:
        return "a workload that is gone"
    kind, _, name = entry.workload.partition("/")
    more = f" and {plural(entry.number - 1, 'more workload')}" if entry.number > 1 else ""
    return f"{entry.namespace}/{name} ({kind}){more}"


def _person(entry: Entry) -> str:
    """Name the author: the declared name, or the field manager and its time, as Kubernetes has recorded them."""
    if _is_declared(entry):
        return f"{entry.who} (declared)"
    if not entry.manager:
        return UNKNOWN
    at = f" at {_moment(entry.since):%Y-%m-%d %H:%M:%SZ}" if entry.since and entry.kind != EntryKind.RESUMED else ""
    return f"field manager {entry.manager}{at}"


def _seconds(entry: Entry) -> int:
    """Return how many seconds something lasted; an upper bound if only the observation of its end is known."""
    is_over_by_itself = entry.kind == EntryKind.RESUMED and entry.until
    return max(0, (entry.ready or (entry.until if is_over_by_itself else entry.at)) - entry.since)


def _is_seen_late(entry: Entry) -> bool:
    """Return whether something may have ended long before that was observed, at an unknown time."""
    return entry.late or (entry.kind == EntryKind.MOVED and entry.outcome in SEEN_LATER and not entry.ready)


def _lasted(entry: Entry) -> str:
    if not entry.since:
        return "an unknown time"
    lasted = format_duration(timedelta(seconds=_seconds(entry)))
    return f"at most {lasted}" if _is_seen_late(entry) else lasted
