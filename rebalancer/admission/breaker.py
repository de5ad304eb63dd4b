"""The breaker: a cluster in trouble is left alone, because evictions during an outage make it worse.

Each cause is a share of a total that exceeds a percentage set by the policy:

* nodes that are not Ready, in the cluster or in one zone;
* pods that wait for a node, if that is a sign of trouble (`pending`);
* failed requests;
* failed moves.

A minimum number keeps a single node or pod of a small cluster from opening the breaker. It opens for a cause at once.
It closes once the cause has been absent for `breaker.clearAfter`, so that it does not open and close in every cycle in
a cluster at a bound. After an outage of the API server that time begins with the first fresh view.

The cause `replacements` has no percentage. It needs overdue replacements in two namespaces that are not the namespaces'
own failures (`tracking.own_failures`), while no later request has led to a replacement (`tracking.holds`). The cause
lasts until a probe shows that replacements are created again.

A cordoned node is left out, because somebody deliberately works on it or on its zone. A node that has just joined and
was never Ready (`breaker.unreadyFor`) is left out, too, because every scale-up has such nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from rebalancer.admission.pending import count_troubled
from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.moves import Move, MoveState, ObservedChange
from rebalancer.model.nodes import BETA_ZONE, ZONE, Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Breaker, Percentage
from rebalancer.scheduling.view import View
from rebalancer.tracking.holds import find_unreplaced
from rebalancer.tracking.moves import find_old

_ZONE_LABELS: Final = (ZONE, BETA_ZONE)
"""The label of a node's zone and the name that it had before, as Kubernetes' node controller reads them."""

_MOST_NAMED: Final = 3
_LONGEST_NOTE: Final = 200
"""How many workloads with overdue replacements are named, and the most characters for each."""

_FAILED: Final = frozenset({MoveState.INEFFECTIVE, MoveState.LOST})
_ENDED: Final = _FAILED | {MoveState.VERIFIED}
"""The ended states that count; refused evictions, which moved nothing, do not, nor do a namespace's own failures."""

_LEAST: Final[Mapping[BreakerCause, int]] = {
    BreakerCause.UNREADY_NODES: 2,
    BreakerCause.UNREADY_ZONE: 2,
    BreakerCause.PENDING_PODS: 5,
    BreakerCause.API_ERRORS: 5,
    BreakerCause.FAILED_MOVES: 5,
}
"""With fewer failures than this, the cause never opens the breaker."""


class RequestCounts(Struct, frozen=True, gc=False, kw_only=True):
    """The requests to the API server within `breaker.window`, and how many of them failed.

    Requests without an answer between two answers are one failure. `outage_ended` is how long ago the API server
    answered again if the last failure was such an outage; None if the outage lasts, or the last failure was of another
    kind.
    """

    total: int = 0
    failed: int = 0
    outage_ended: timedelta | None = None


NO_REQUESTS: Final = RequestCounts()


class Reading(Struct, frozen=True, gc=False, kw_only=True):
    """A part of a total, to be compared with the bound of a cause; `zone` is the zone that it is about, else "".

    `ended` is how long ago the counted trouble ended, if it still counts for a time after its end; else 0.
    """

    cause: BreakerCause
    part: int
    total: int
    zone: str = ""
    ended: timedelta = timedelta(0)


def observe_cluster(
    snapshot: Snapshot,
    moves: Iterable[Move],
    requests: RequestCounts,
    bounds: Breaker,
    now: datetime,
    *,
    view: View | None = None,
    changes: Iterable[ObservedChange] = (),
) -> tuple[Reading, ...]:
    """Return the readings that decide the breaker: one for each zone, and one for every other cause.

    The scheduling model uses `view`, None: the snapshot with the default profile. `changes` are those of the last hour.
    """
    known = tuple(moves)
    # Moves for which a namespace waits are stored longer than others, so counting them would overstate failures.
    outlived = {move.uid for move in find_old(known) if move.state is MoveState.INEFFECTIVE}
    ended = [
        move.state
        for move in known
        if move.state in _ENDED
        and move.uid not in outlived
        and move.own_failure is None
        and now - move.changed_at < bounds.window
    ]
    return (
        *_read_nodes(snapshot.nodes, now - bounds.unready_for),
        _read_pods(snapshot, frozenset(move.replacement for move in known), bounds, now, view, changes),
        Reading(
            cause=BreakerCause.API_ERRORS,
            part=requests.failed,
            total=requests.total,
            ended=requests.outage_ended or timedelta(0),
        ),
        Reading(cause=BreakerCause.FAILED_MOVES, part=sum(1 for state in ended if state in _FAILED), total=len(ended)),
    )


def _read_nodes(nodes: Iterable[Node], starting_since: datetime) -> Iterable[Reading]:
    """Count the nodes that are not Ready. A node created after `starting_since` and never Ready is starting."""
    totals, unready = Counter[str](), Counter[str]()
    for node in nodes:
        starting = node.never_ready and node.created > starting_since
        if not node.unschedulable and not starting:
            zone = next((node.labels[label] for label in _ZONE_LABELS if label in node.labels), "")
            totals[zone] += 1
            unready[zone] += not node.ready
    yield Reading(cause=BreakerCause.UNREADY_NODES, part=unready.total(), total=totals.total())
    for zone in sorted(totals):
        if zone:  # nodes without the label are in no zone together
            yield Reading(cause=BreakerCause.UNREADY_ZONE, part=unready[zone], total=totals[zone], zone=zone)


def _read_pods(  # all that the result depends on
    snapshot: Snapshot,
    replacements: frozenset[str],
    bounds: Breaker,
    now: datetime,
    view: View | None,
    changes: Iterable[ObservedChange],
) -> Reading:
    """Count pods that have waited for a node for `pending_for`, but less than `window` longer: a surge of pods.

    Beyond the bound, only pods that are a sign of trouble count; a Job that waits for a missing type of node is not.
    """
    # In every scale-up and every CronJob pods wait for some seconds. Pods that wait longer than both times are no new
    # trouble, and may wait for a place that an eviction frees. A gated pod waits for permission, not for the cluster.
    latest = now - bounds.pending_for
    earliest = latest - bounds.window
    waiting = [
        pod
        for pod in snapshot.unplaced
        if earliest < pod.created <= latest and not pod.spec.gated and pod.uid not in replacements
    ]
    placed = sum(map(len, snapshot.pods_on.values()))
    reading = Reading(cause=BreakerCause.PENDING_PODS, part=len(waiting), total=placed + len(snapshot.unplaced))
    if not _exceeds(reading, bounds):  # the usual case, which needs no further evaluation
        return reading
    troubled = count_troubled(waiting, View(snapshot) if view is None else view, changes, latest)
    return structs.replace(reading, part=troubled)


def update_breaker(
    state: BreakerState,
    readings: Iterable[Reading],
    bounds: Breaker,
    now: datetime,
    *,
    moves: Collection[Move] = (),
    replaced_at: datetime | None = None,
) -> BreakerState:
    """Return the breaker's state after an observation; `moves` and `replaced_at` are the memory's."""
    exceeded = _find_worst(readings, bounds)
    causes = []
    for cause in _LEAST:
        before, reading = state.find(cause), exceeded.get(cause)
        # Ended trouble counts until it leaves the window; the time to clear must not begin anew until then.
        if reading is not None and (not reading.ended or reading.ended < bounds.clear_after):
            last = now - reading.ended
            causes.append(
                OpenCause(
                    cause=cause,
                    part=reading.part,
                    total=reading.total,
                    bound=_bound_of(cause, bounds).value,
                    # A future time from another clock must not delay anything forever.
                    since=min(before.since, now) if before is not None else now,
                    last=max(last, min(before.last, now)) if before is not None else last,
                    zone=reading.zone,
                )
            )
        elif before is not None:
            last = min(before.last, now)
            if now - last < bounds.clear_after:
                causes.append(structs.replace(before, last=last, since=min(before.since, now)))
    return BreakerState((*causes, *_hold_unreplaced(state.find(BreakerCause.REPLACEMENTS), moves, replaced_at, now)))


def _hold_unreplaced(
    before: OpenCause | None, moves: Collection[Move], replaced_at: datetime | None, now: datetime
) -> Iterable[OpenCause]:
    """Yield the cause `replacements` if the cluster does not replace evicted pods."""
    unreplaced = find_unreplaced(moves, replaced_at)
    if unreplaced:
        named = {move.workload: move for move in reversed(unreplaced)}
        first = sorted(
            named.values(), key=lambda move: (not (move.uncreated or move.unstarted), move.requested_at, move.pod)
        )
        yield OpenCause(
            cause=BreakerCause.REPLACEMENTS,
            part=len(unreplaced),
            total=max(len(unreplaced), sum(not move.state.over or move.overdue for move in moves)),
            bound=0,
            since=min(before.since, now) if before is not None else now,
            last=now,
            note="; ".join(f"{move.workload}: {_describe(move)}" for move in first[:_MOST_NAMED]),
        )


def _describe(move: Move) -> str:
    return (move.uncreated or move.unstarted or "no pod was created, and nothing says why")[:_LONGEST_NOTE]


def _find_worst(readings: Iterable[Reading], bounds: Breaker) -> Mapping[BreakerCause, Reading]:
    """Return for each exceeded bound the reading that exceeds it most; of equal readings the first."""
    worst: dict[BreakerCause, Reading] = {}
    for reading in readings:
        if _exceeds(reading, bounds):
            other = worst.get(reading.cause)
            if other is None or reading.part * other.total > other.part * reading.total:
                worst[reading.cause] = reading
    return worst


def _exceeds(reading: Reading, bounds: Breaker) -> bool:
    bound = _bound_of(reading.cause, bounds)
    return reading.part >= _LEAST[reading.cause] and bound.is_exceeded(reading.part, reading.total)


def _bound_of(cause: BreakerCause, bounds: Breaker) -> Percentage:
    return {
        BreakerCause.UNREADY_NODES: bounds.unready_nodes,
        BreakerCause.UNREADY_ZONE: bounds.unready_in_zone,
        BreakerCause.PENDING_PODS: bounds.pending_pods,
        BreakerCause.API_ERRORS: bounds.api_errors,
        BreakerCause.FAILED_MOVES: bounds.failed_moves,
    }[cause]
