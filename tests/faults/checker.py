"""The invariants of a whole run: a history in, breaches out.

Nothing here knows how the controller works. What others do at the same time is not held against it: pods that become
unready by themselves count only if they did so `VIEW_SECONDS` before the eviction request began, since no view is newer
than its watch. What the controller did itself it knows at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rebalancer.history.ring import SEGMENT_MAPS
from rebalancer.history.trend import TREND_MAP
from rebalancer.policy.team_maps import VALID_POLICY_MAP
from tests.faults.availability import Absence, follow_absences, least_others
from tests.faults.history import Exchange, Frozen, History

VIEW_SECONDS: Final = 1.0
"""How old the view may be in which an eviction was decided: pods of other causes became unready before that."""
PAUSE_SECONDS: Final = 1.0
"""From this long after a pause was stored no eviction request begins."""
THAW_SECONDS: Final = 0.25
"""How long after it goes on a stopped process may take to send what it had checked before."""

ALLOWED_WRITES: Final = frozenset(
    {
        *((verb, "leases") for verb in ("create", "patch")),
        *((verb, "events") for verb in ("create", "patch")),
        ("patch", "configmaps"),
        ("create", "pods/eviction"),
        ("create", "selfsubjectaccessreviews"),
    }
)
"""Those of the Roles in deploy/base, and the question what this account may do, which stores nothing."""
STATUS: Final = "rebalancer-status"
_OWN_MAPS: Final = frozenset({STATUS, VALID_POLICY_MAP, TREND_MAP, *SEGMENT_MAPS})
_CREATED: Final = frozenset({200, 201})


@dataclass(frozen=True)
class Breach:
    """An invariant that did not hold."""

    invariant: str
    message: str

    def __str__(self) -> str:
        """Show both."""
        return f"{self.invariant}: {self.message}"


def check(history: History) -> list[Breach]:
    """Return what did not hold in a run."""
    return [Breach(name, message) for name, function in INVARIANTS.items() for message in function(history)]


def evictions(history: History) -> list[Exchange]:
    """Return the requested evictions, in the order of their beginnings."""
    return [exchange for exchange in history.exchanges if exchange.is_eviction]


def granted(history: History) -> list[Exchange]:
    """Return those that the server granted, whether the controller learned it or not."""
    return [exchange for exchange in evictions(history) if exchange.code in _CREATED]


def _without_uid(history: History) -> Iterator[str]:
    """Report evictions that do not carry the UID of their pod."""
    for exchange in evictions(history):
        if not exchange.uid:
            yield f"the eviction of {exchange.target.name} ({exchange.id}) names no UID"
    for write in history.writes:
        if write.resource == "pods/eviction" and not write.uid:
            yield f"the eviction of {write.name} ({write.id} of the audit log) names no UID"


def _without_lease(history: History) -> Iterator[str]:
    """Report evictions that another process began than the one that holds the Lease."""
    yield from _outside_lease(history, evictions(history), "evicts")


def _status_without_lease(history: History) -> Iterator[str]:
    """Report writes of the status by another process: a deposed leader's memory must not replace the leader's."""
    statuses = [
        exchange
        for exchange in history.exchanges
        if exchange.target.writes and exchange.target.resource == "configmaps"
    ]
    yield from _outside_lease(history, statuses, "writes the status")


@dataclass(frozen=True)
class _Term:
    """From when on who holds the Lease, and until when unless it is renewed."""

    since: float
    holder: str
    process: str
    until: float


def _outside_lease(history: History, requests: Iterable[Exchange], what: str) -> Iterator[str]:
    terms = [
        _Term(exchange.answered, exchange.holder, exchange.process, exchange.answered + history.lease_seconds)
        for exchange in history.exchanges
        if exchange.target.resource == "leases"
        and exchange.target.writes
        and exchange.code in _CREATED
        and exchange.answered is not None
    ]
    terms.sort(key=lambda term: term.since)
    excused: set[Frozen] = set()
    for request in requests:
        term = next((term for term in reversed(terms) if term.since <= request.begun), None)
        if term is not None and term.process == request.process and term.holder and request.begun <= term.until:
            continue
        frozen = next((one for one in history.frozen if _follows(request, one)), None)
        if frozen is not None and frozen not in excused:
            excused.add(frozen)
            continue
        where = f"{request.process} {what} at {_seconds(history, request.begun)} ({request.id})"
        if term is None or not term.holder:
            yield f"{where}, but nobody holds the Lease"
        elif term.process != request.process:
            late = request.begun - term.since
            yield f"{where}, but {term.process} holds the Lease, for {late:.2f} s"
        else:
            yield f"{where}, but its Lease ran out {request.begun - term.until:.2f} s before"


def _follows(request: Exchange, frozen: Frozen) -> bool:
    """Whether a request was between its check and its sending when its process was stopped, as one of them may be."""
    return request.process == frozen.process and frozen.since <= request.begun <= frozen.until + THAW_SECONDS


def _beyond_max_unavailable(history: History) -> Iterator[str]:
    yield from _beyond(history, history.workload.max_unavailable, "maxUnavailable")


def _beyond_budget(history: History) -> Iterator[str]:
    yield from _beyond(history, history.workload.budget, "the PodDisruptionBudget")


def _beyond(history: History, bound: int, name: str) -> Iterator[str]:
    """Report evictions that took a pod while as many as the bound were unavailable, whatever the cause."""
    requests = {exchange.uid: exchange for exchange in granted(history)}
    absences = follow_absences(history.changes, requests, history.workload.replicas)
    for before, now in itertools.pairwise([Absence(at=0.0, version=0, ours=0, others=0), *absences]):
        if not now.evicted:
            continue
        begun = requests[now.evicted].begun
        others = least_others(absences, begun - VIEW_SECONDS, now.version)
        if before.ours + others >= bound:
            yield (
                f"{_pod_name(history, now.evicted)} was evicted at {_seconds(history, begun)} while {before.ours} of "
                f"our evictions and {others} other pods were unavailable; {name} is {bound}"
            )


def _without_effect(history: History) -> Iterator[str]:
    """Report granted evictions whose pod was never seen to go: then nothing is known about what they took."""
    left = {change.uid for change in history.changes if change.terminating or change.gone}
    for exchange in granted(history):
        if exchange.uid and exchange.uid not in left:
            yield f"the eviction of {exchange.target.name} ({exchange.id}) was granted, and the pod never went"


def _evicted_twice(history: History) -> Iterator[str]:
    """Report pods that were evicted twice."""
    counts = Counter(exchange.uid for exchange in granted(history) if exchange.uid)
    for uid, count in counts.items():
        if count > 1:
            yield f"{_pod_name(history, uid)} ({uid}) was evicted {count} times"


def _too_many(history: History) -> Iterator[str]:
    """Report more evictions than the minimum: a restart, a lost answer or a late watch is no reason for another."""
    total = len({exchange.uid for exchange in granted(history)})
    if total > history.workload.minimum:
        unseen = sum(exchange.delivered not in _CREATED for exchange in granted(history))
        yield f"{total} evictions; the minimum is {history.workload.minimum}, and the answers of {unseen} were lost"


def _foreign_writes(history: History) -> Iterator[str]:
    """Report writes of anything but Lease, events, status and evictions."""
    read = ("get", "configmaps", STATUS)
    gets = [one for one in history.exchanges if (one.target.verb, one.target.resource, one.target.name) == read]
    for write in history.writes:
        what = write.verb, write.resource
        if what == ("create", "configmaps") and write.code == 403 and any(one.delivered == 404 for one in gets):
            continue  # an answer has said that there is no status; people who run it by hand may create one
        if what not in ALLOWED_WRITES or (write.resource == "configmaps" and write.name not in _OWN_MAPS):
            yield f"{write.verb} {write.resource} {write.name} ({write.id}), answered with {write.code}"


def _while_paused(history: History) -> Iterator[str]:
    """Report evictions that began more than a second after a pause was stored."""
    for pause in history.pauses:
        for exchange in evictions(history):
            if pause.stored + PAUSE_SECONDS < exchange.begun < pause.lifted:
                late = exchange.begun - pause.stored
                yield f"{exchange.process} evicts {exchange.target.name} {late:.2f} s after a pause was stored"


def _pending(history: History) -> Iterator[str]:
    """Report pods that do not run in the end."""
    if history.final.pending:
        yield ", ".join(history.final.pending)


def _unrepaired(history: History) -> Iterator[str]:
    """Report a skew that is left in the end."""
    if not history.final.repaired:
        yield f"in the end the placement is {dict(history.final.placement)}"


def _pod_name(history: History, uid: str) -> str:
    return next((change.name for change in history.changes if change.uid == uid), uid)


def _seconds(history: History, moment: float) -> str:
    """Show a moment by the time since the first request."""
    return f"{moment - history.exchanges[0].begun:.2f} s"


_CHECKS: Final[tuple[Callable[[History], Iterator[str]], ...]] = (
    _without_uid,
    _without_lease,
    _status_without_lease,
    _beyond_max_unavailable,
    _beyond_budget,
    _without_effect,
    _evicted_twice,
    _too_many,
    _foreign_writes,
    _while_paused,
    _pending,
    _unrepaired,
)
INVARIANTS: Final = {function.__name__.removeprefix("_").replace("_", " "): function for function in _CHECKS}
"""What is checked, by the name of its breach."""
