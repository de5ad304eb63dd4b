"""An entry for the begin of each violation, and one for its end with the time that it lasted.

What is violated, and since when, is in the memory's `seen`. While a pod is evicted and not replaced, its group may look
satisfied: a violation whose moves are in flight has not ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token, limit_token
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.history.outbox import seconds_of
from rebalancer.history.words import cut, join_workloads, workload_text
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import Memory, Reference, make_token
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.words import short_key

MOST_NAMED: Final = 50
"""Violations that begin, or end, in one cycle and have an entry each; the rest are counted in one more.

The loss of a zone may violate thousands, which would push all else out of the history.
"""


class Violation(NamedTuple):
    """What is violated: of which workloads (the first, and as many of the others as fit), in which way, and why."""

    namespace: str = ""
    workload: str = ""
    others: str = ""
    workloads: int = 0
    what: str = ""
    cause: str = ""


Describe = Callable[[frozenset[str]], Mapping[str, Violation]]
"""Describes violations by their tokens; those that no cycle of this process has seen are left out."""

_UNKNOWN: Final = Violation()


def describe_violations(assessment: Assessment, causes: Causes, tokens: frozenset[str]) -> Mapping[str, Violation]:
    """Describe groups and limits, whether they are violated now or not."""
    described: dict[str, Violation] = {}
    for group in assessment.groups:
        if (token := make_token(group.spread.name)) in tokens:
            described[token] = _describe_group(group, causes)
    for limit in assessment.limits:
        if (token := limit_token(limit)) in tokens:
            described[token] = _describe_limit(limit, causes)
    return described


def _describe_group(group: EvaluatedGroup, causes: Causes) -> Violation:
    constraints = [one for one in (*group.hard, *group.soft) if one.counts.violated] or [*group.hard, *group.soft]
    words = [f"{short_key(one.topology_key)} skew {one.skew}, maxSkew {one.max_skew}" for one in constraints]
    found = (causes.get(constraint_token(group, one)) for one in constraints)
    return _violation(group.spread.namespace, group.workloads, "; ".join(words), found)


def _describe_limit(limit: EvaluatedLimit, causes: Causes) -> Violation:
    workloads = sorted({part.member.reference for part in limit.parts})
    what = f"{limit.group}/{limit.limit}: {limit.message}"
    return _violation(limit.namespace, workloads, what, [causes.get(limit_token(limit))])


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


def note_violations(
    before: Memory, after: Memory, describe: Describe, now: datetime
) -> tuple[tuple[Entry, ...], tuple[tuple[str, int], ...]]:
    """Return the entries for what began or ended in between, and `Noted.open` after it."""
    known, seen = _open(before), {token: seconds_of(since) for token, since in after.seen}
    if not before.noted.open and known == seen:
        return (), ()
    moving = {make_token(move.group) for move in after.moves if move.in_flight or move.unexecuted}
    begun = {token: since for token, since in seen.items() if token not in known}
    ended = {token: since for token, since in known.items() if token not in seen and token not in moving}
    still = {token: since for token, since in known.items() if token not in ended}
    entries: tuple[Entry, ...] = ()
    if begun or ended:
        described = describe(frozenset(begun.keys() | ended.keys()))
        entries = (
            *_entries(EntryKind.SATISFIED, ended, described, now),
            *_entries(EntryKind.VIOLATED, begun, described, now),
        )
    return entries, tuple(sorted((token, since) for token, since in still.items() if seen.get(token) != since))


def _open(memory: Memory) -> dict[str, int]:
    """Return when what is violated by the history began to be."""
    return {token: seconds_of(since) for token, since in memory.seen} | dict(memory.noted.open)


def _entries(
    kind: EntryKind, since: Mapping[str, int], described: Mapping[str, Violation], now: datetime
) -> Iterator[Entry]:
    entries = sorted(
        (_entry(kind, token, began, described.get(token, _UNKNOWN), now) for token, began in since.items()),
        key=lambda entry: (entry.namespace, entry.workload, entry.token),
    )
    yield from entries[:MOST_NAMED]
    if rest := entries[MOST_NAMED:]:
        yield Entry(seq=0, at=seconds_of(now), kind=kind, number=sum(max(1, entry.number) for entry in rest))


def _entry(kind: EntryKind, token: str, since: int, violation: Violation, now: datetime) -> Entry:
    return Entry(
        seq=0,
        at=seconds_of(now),
        kind=kind,
        namespace=violation.namespace,
        workload=violation.workload,
        others=violation.others,
        token=token,
        what=violation.what if kind is EntryKind.VIOLATED else "",
        cause=violation.cause if kind is EntryKind.VIOLATED else "",
        since=0 if kind is EntryKind.VIOLATED else since,
        number=violation.workloads,
    )
