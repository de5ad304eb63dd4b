"""Makes an entry for the start of each violation, and one for its end with its duration, or why it no longer counts.

Violations and their starts are in the memory's `seen`. While an evicted pod is not replaced, its group may look
satisfied, so a violation with moves in flight has not ended. If the violation does not come back before these moves
have ended, its end is the cycle that first saw it gone, in which status and trend stopped counting it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.account.happened import (
    Occurrence,
    Subject,
    ViolationBegan,
    ViolationEnded,
    find_open,
    find_workloads,
)
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token, limit_token, term_token
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.history.words import cut, join_workloads, workload_text
from rebalancer.model.history import Entry, EntryKind, SeenGone
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.words import plural, short_key

MOST_NAMED: Final = 50
"""At most this many violations that begin, or end, in one cycle have an entry each; one more entry counts the rest.

The loss of a zone may cause thousands of violations, whose entries would displace all others in the history.
"""

MOST_WAITING: Final = 500
"""The most groups that are stored because their pods only wait for a node.

Further groups end as violated groups do. Each group takes about ten bytes of the memory, which is bounded.
"""


class Violation(NamedTuple):
    """A violation: its workloads (the first, and more if they fit), the violated rules, and the cause."""

    namespace: str = ""
    workload: str = ""
    others: str = ""
    workloads: int = 0
    what: str = ""
    cause: str = ""


_UNKNOWN: Final = Violation()


def violation_entries(happened: Sequence[Occurrence], now: datetime) -> Iterator[Entry]:
    """Yield the entries about violations: ended violations, then begun violations."""
    ended = [one for one in happened if isinstance(one, ViolationEnded)]
    begun = (one for one in happened if isinstance(one, ViolationBegan))
    for kind in (EntryKind.END_UNKNOWN, EntryKind.NO_LONGER_REQUIRED, EntryKind.SATISFIED, EntryKind.NODE_FOUND):
        yield from _limit_entries(kind, (_end_entry(kind, one, now) for one in ended if _find_end(one) is kind), now)
    entries = [_begin_entry(one, now) for one in begun]
    for kind in (EntryKind.VIOLATED, EntryKind.WITHOUT_NODE):
        yield from _limit_entries(kind, (one for one in entries if one.kind == kind), now)


def still_open(
    before: Memory, after: Memory, happened: Collection[Occurrence], now: datetime
) -> tuple[tuple[str, int], ...]:
    """Return `Noted.open` after a step: violations whose start differs from that in the memory's `seen`."""
    ended = {one.token for one in happened if isinstance(one, ViolationEnded)}
    seen = {token: seconds_of(since) for token, since in after.seen}
    known = find_open(before)
    again = {one.token for one in happened if isinstance(one, ViolationBegan)} & known.keys()
    still = {**known, **dict.fromkeys(again, seconds_of(now))}
    return tuple(sorted((token, at) for token, at in still.items() if token not in ended and seen.get(token) != at))


def still_waiting(before: Memory, happened: Collection[Occurrence]) -> tuple[str, ...]:
    """Return `Noted.waiting` after a step: groups whose only entry says that pods wait for a node."""
    begun = [one for one in happened if isinstance(one, ViolationBegan)]
    waiting = {one.token for one in begun if one.subject is not None and one.subject.only_waits}
    over = {one.token for one in happened if isinstance(one, ViolationBegan | ViolationEnded)}
    known = find_open(before).keys() & (set(before.noted.waiting) - over)
    return tuple(sorted(known | waiting)[:MOST_WAITING])


def find_gone(
    before: Memory, after: Memory, still: Iterable[tuple[str, int]], now: datetime, *, late: bool = False
) -> tuple[SeenGone, ...]:
    """Return `Noted.gone` after a step: for open violations, since when they are no longer seen."""
    known, seen = {one.token: one for one in before.noted.gone}, {token for token, _ in after.seen}
    gone = (token for token, _ in still if token not in seen)
    return tuple(known.get(token) or SeenGone(token, seconds_of(now), late) for token in gone)


def describe(subject: Subject) -> Violation:
    """Describe a group or a limit, whether it is violated now or not."""
    evaluated = subject.evaluated
    if isinstance(evaluated, EvaluatedLimit):
        return _describe_limit(evaluated, subject.causes)
    if isinstance(evaluated, EvaluatedTerm):
        key = short_key(evaluated.term.topology_key)
        words = f"{evaluated.kind} podAntiAffinity over {key} to {evaluated.selected}"
        what = f"{words}: {evaluated.message}" if evaluated.message else words
        return _violation(evaluated.namespace, evaluated.workloads, what, [subject.causes.get(term_token(evaluated))])
    return _describe_group(evaluated, subject.causes)


def _describe_group(group: EvaluatedGroup, causes: Causes) -> Violation:
    violated = [one for one in (*group.hard, *group.soft) if one.counts.violated]
    waiting = sum(pod.waiting for member in group.spread.members for pod in member.pods)
    if waiting and not violated:  # a constraint counts placed pods only
        return _violation(group.spread.namespace, group.workloads, f"{plural(waiting, 'pod')} without a node", ())
    constraints = violated or [*group.hard, *group.soft]
    words = [f"{short_key(one.topology_key)} skew {one.skew}, maxSkew {one.max_skew}" for one in constraints]
    found = (causes.get(constraint_token(group, one)) for one in constraints)
    return _violation(group.spread.namespace, group.workloads, "; ".join(words), found)


def _describe_limit(limit: EvaluatedLimit, causes: Causes) -> Violation:
    workloads = find_workloads(limit)
    what = f"{limit.group}/{limit.limit}: {limit.sentence}"
    return _violation(limit.namespace, workloads, what, [causes.get(limit_token(limit))])


def name_rule(subject: Subject) -> str:
    """Name the rules of a subject without counts; the workloads may have other rules that are still violated."""
    evaluated = subject.evaluated
    if isinstance(evaluated, EvaluatedLimit):
        return f"limit {evaluated.group}/{evaluated.limit}"
    if isinstance(evaluated, EvaluatedTerm):
        return f"{evaluated.kind} podAntiAffinity over {short_key(evaluated.term.topology_key)}"
    names = [f"{short_key(one.topology_key)} maxSkew {one.max_skew}" for one in evaluated.hard]
    # Which of several rules were violated is not stored; all are satisfied now.
    return f"all constraints ({', '.join(names)})" if len(names) > 1 else "".join(names)


def _violation(
    namespace: str, workloads: Iterable[Reference], what: str, causes: Iterable[ViolationCause | None]
) -> Violation:
    named = [workload_text(workload) for workload in workloads]
    cause = next((cause for cause in causes if cause not in {None, ViolationCause.UNKNOWN}), None)
    return Violation(
        namespace=namespace,
        workload=named[0] if named else "",
        others=join_workloads(named[1:]),
        workloads=len(named),
        what=cut(what),
        cause=str(cause or ""),
    )


def _limit_entries(kind: EntryKind, entries: Iterable[Entry], now: datetime) -> Iterator[Entry]:
    ordered = sorted(entries, key=lambda entry: (entry.namespace, entry.workload, entry.token))
    yield from ordered[:MOST_NAMED]
    if rest := ordered[MOST_NAMED:]:
        yield Entry(seq=0, at=seconds_of(now), kind=kind, number=sum(max(1, entry.number) for entry in rest))


def _begin_entry(began: ViolationBegan, now: datetime) -> Entry:
    violation = describe(began.subject) if began.subject is not None else _UNKNOWN
    waits = began.subject is not None and began.subject.only_waits
    kind = EntryKind.WITHOUT_NODE if waits else EntryKind.VIOLATED
    entry = _entry(kind, began.token, violation, now)
    return structs.replace(entry, what=violation.what, cause=violation.cause)


def _find_end(ended: ViolationEnded) -> EntryKind:
    if ended.subject is None:
        return EntryKind.END_UNKNOWN
    if ended.subject.dropped is not None:
        return EntryKind.NO_LONGER_REQUIRED
    return EntryKind.NODE_FOUND if ended.only_waited else EntryKind.SATISFIED


def _end_entry(kind: EntryKind, ended: ViolationEnded, now: datetime) -> Entry:
    subject = ended.subject
    violation = describe(subject) if subject is not None else _UNKNOWN
    what = ""
    if subject is not None:
        what = cut(str(subject.dropped) if subject.dropped is not None else name_rule(subject))
    entry = structs.replace(_entry(kind, ended.token, violation, now), since=ended.since, what=what)
    if ended.gone is None or kind is not EntryKind.SATISFIED:
        return entry
    return structs.replace(entry, at=ended.gone.at, late=ended.gone.late)


def _entry(kind: EntryKind, token: str, violation: Violation, now: datetime) -> Entry:
    return Entry(
        seq=0,
        at=seconds_of(now),
        kind=kind,
        namespace=violation.namespace,
        workload=violation.workload,
        others=violation.others,
        token=token,
        number=violation.workloads,
    )
