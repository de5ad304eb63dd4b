"""The breaker opens where a cluster is in trouble, says why in numbers, and closes when that has been over for long."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.breaker import Reading, RequestCounts, observe_cluster, update_breaker
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState, OpenCause
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Move, MoveState, ObservedChange, OwnFailure
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Breaker
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.scheduling.build import NOW
from tests.tracking.build import move

BOUNDS = Breaker()
NONE = RequestCounts()
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def cluster(*, nodes: int = 5, pods: int = 0) -> Snapshot:
    """Return three zones of so many nodes, and running pods."""
    blueprint = ClusterBuilder(at=NOW)
    blueprint.zones("abc", nodes)
    if pods:
        blueprint.deployment("web", on={"a-1": pods})
    return blueprint.snapshot()


def with_nodes(snapshot: Snapshot, names: Sequence[str], **fields: Any) -> Snapshot:
    def change(node: Node) -> Node:
        return structs.replace(node, **fields) if node.name in names else node

    return replace(snapshot, nodes=tuple(map(change, snapshot.nodes)))


def with_pending(snapshot: Snapshot, number: int, *, created: datetime = NOW - MINUTE, **fields: Any) -> Snapshot:
    waiting = tuple(
        Pod(namespace="default", name=f"new-{n}", uid=f"new-{n}", created=created, phase=PodPhase.PENDING, **fields)
        for n in range(len(snapshot.unplaced), len(snapshot.unplaced) + number)
    )
    return replace(snapshot, pods=(*snapshot.pods, *waiting))


def opened(
    snapshot: Snapshot, moves: Sequence[Move] = (), requests: RequestCounts = NONE, bounds: Breaker = BOUNDS
) -> dict[BreakerCause, tuple[int, int, int, str]]:
    """Return for each open cause part, total, bound and zone."""
    state = update_breaker(CLOSED, observe_cluster(snapshot, moves, requests, bounds, NOW), bounds, NOW)
    assert state.is_open is bool(state.causes)
    return {known.cause: (known.part, known.total, known.bound, known.zone) for known in state.causes}


def test_a_healthy_cluster() -> None:
    """An empty one too: nothing of nothing is no trouble."""
    assert opened(cluster(pods=3), requests=RequestCounts(total=100)) == {}
    assert opened(Snapshot(taken_at=NOW)) == {}


@pytest.mark.parametrize(
    ("unready", "open_for"),
    [
        (["a-1", "b-1", "c-1"], {}),  # 3 of 15 are 20%
        (["a-1", "a-2", "b-1", "c-1"], {BreakerCause.UNREADY_NODES: (4, 15, 20, "")}),
        (["b-1", "b-2", "b-3"], {BreakerCause.UNREADY_ZONE: (3, 5, 55, "b")}),
        (
            ["b-1", "b-2", "b-3", "c-1", "c-2", "c-3", "c-4"],
            {BreakerCause.UNREADY_NODES: (7, 15, 20, ""), BreakerCause.UNREADY_ZONE: (4, 5, 55, "c")},
        ),
    ],
)
def test_nodes_that_are_not_ready(unready: list[str], open_for: dict[BreakerCause, tuple[int, int, int, str]]) -> None:
    """More than 20% of the nodes, or more than 55% of a zone, of which the worst is named."""
    assert opened(with_nodes(cluster(), unready, ready=False)) == open_for


def test_one_node_never_opens_it() -> None:
    """Not in a cluster of three, of which it is a third."""
    assert opened(with_nodes(cluster(nodes=1), ["a-1"], ready=False)) == {}
    two = opened(with_nodes(cluster(nodes=1), ["a-1", "b-1"], ready=False))
    assert two == {BreakerCause.UNREADY_NODES: (2, 3, 20, "")}


def test_a_node_that_was_never_ready_counts_after_a_time() -> None:
    """Two of a zone's five; one that was Ready counts at once, though it is as young."""
    joining = {"ready": False, "ready_since": None, "created": NOW - 4 * MINUTE}
    several = ["a-1", "a-2", "b-1", "b-2"]
    registered = with_nodes(cluster(), several, lost_since=NOW - 4 * MINUTE, **joining)
    assert opened(registered) == {}
    (nodes, *_) = observe_cluster(registered, (), NONE, BOUNDS, NOW)
    assert (nodes.part, nodes.total) == (0, 11)
    assert opened(with_nodes(cluster(), several, **joining)) == {}, "its kubelet has said nothing"
    late = with_nodes(registered, several, created=NOW - 5 * MINUTE, lost_since=NOW - 5 * MINUTE)
    assert opened(late) == {BreakerCause.UNREADY_NODES: (4, 15, 20, "")}
    lost = with_nodes(registered, several, lost_since=NOW - MINUTE)
    assert opened(lost) == {BreakerCause.UNREADY_NODES: (4, 15, 20, "")}
    at_once = Breaker.model_validate({"unreadyFor": "0s"})
    assert opened(registered, bounds=at_once) == {BreakerCause.UNREADY_NODES: (4, 15, 20, "")}


def test_a_cordoned_zone_is_maintenance() -> None:
    """All its nodes may be down; the other nodes are measured without it."""
    zone = [f"b-{number}" for number in range(1, 6)]
    down = with_nodes(cluster(), zone, ready=False)
    assert BreakerCause.UNREADY_ZONE in opened(down)
    cordoned = with_nodes(down, zone, unschedulable=True)
    assert opened(cordoned) == {}
    others = with_nodes(cordoned, ["a-1", "a-2", "c-1"], ready=False)
    assert opened(others) == {BreakerCause.UNREADY_NODES: (3, 10, 20, "")}


def test_zones_by_the_label_that_nodes_had_before() -> None:
    """Nodes without a zone are measured with the cluster, not as a zone of their own."""
    old = Labels({"failure-domain.beta.kubernetes.io/zone": "old"})
    snapshot = with_nodes(cluster(), ["b-1", "b-2", "b-3"], labels=old, ready=False)
    assert opened(snapshot) == {BreakerCause.UNREADY_ZONE: (3, 3, 55, "old")}
    bare = with_nodes(cluster(), ["b-1", "b-2", "b-3"], labels=Labels(), ready=False)
    assert opened(bare) == {}


@pytest.mark.parametrize(
    ("pods", "pending", "is_open"), [(45, 5, False), (44, 5, True), (8, 4, False), (0, 5, True), (100, 11, False)]
)
def test_pods_that_wait_for_a_node(pods: int, pending: int, is_open: bool) -> None:
    """More than 10% of all pods, and at least five."""
    snapshot = with_pending(cluster(pods=pods), pending)
    expected = {BreakerCause.PENDING_PODS: (pending, pods + pending, 10, "")} if is_open else {}
    assert opened(snapshot) == expected


@pytest.mark.parametrize(
    ("fields", "opens", "closes"),
    [({}, 60, 360), ({"pendingFor": "0s"}, 0, 300), ({"pendingFor": "10m", "window": "1m"}, 600, 660)],
)
def test_waiting_pods_count_from_pending_for_until_the_window_is_over(
    fields: dict[str, str], opens: int, closes: int
) -> None:
    """In every scale-up pods wait for seconds: that is no trouble.

    Those that wait for long may wait for what only an eviction makes possible: without end, nothing would ever be
    repaired.
    """
    bounds = Breaker.model_validate(fields)
    snapshot = with_pending(cluster(), 6, created=NOW)
    for seconds, is_open in ((opens - 1, False), (opens, True), (closes - 1, True), (closes, False)):
        at = NOW + seconds * SECOND
        readings = observe_cluster(snapshot, (), NONE, bounds, at)
        assert update_breaker(CLOSED, readings, bounds, at).is_open is is_open


GPU = PodSpec(node_affinity=NodeAffinity(selector=Labels({"accelerator": "gpu"})))


def test_pods_that_wait_for_a_type_of_node_that_is_not_there_do_not_open_it() -> None:
    """However many they are; of a mixture those count that a node admits, and those whose node was lost."""
    batch = with_pending(cluster(pods=30), 100, spec=GPU)
    assert opened(batch) == {}
    both = with_pending(batch, 14)
    assert opened(both) == {}  # 14 of 144 are less than 10%
    both = with_pending(batch, 15)
    assert opened(both) == {BreakerCause.PENDING_PODS: (15, 145, 10, "")}
    owner = OwnerReference(group="batch", kind="Job", name="job", uid="job")
    lost = Pod(
        namespace="default",
        name="lost",
        uid="lost",
        created=NOW - MINUTE,
        owner=owner,
        node="gone",
        phase=PodPhase.RUNNING,
    )
    with_owner = with_pending(batch, 15, spec=GPU, owner=owner)
    assert opened(with_owner) == {}
    assert opened(replace(with_owner, pods=(*with_owner.pods, lost))) == {BreakerCause.PENDING_PODS: (15, 145, 10, "")}


def test_nodes_are_searched_only_where_waiting_pods_exceed_the_bound() -> None:
    """A quiet cluster pays nothing: the view that it is given here is none."""
    no_view = cast("View", object())
    for pending in (0, 4, 5):
        observe_cluster(with_pending(cluster(pods=45), pending), (), NONE, BOUNDS, NOW, view=no_view)
    with pytest.raises(AttributeError):
        observe_cluster(with_pending(cluster(pods=45), 6), (), NONE, BOUNDS, NOW, view=no_view)


def test_the_evaluated_state_decides_and_what_is_stored_of_lost_nodes_counts() -> None:
    """In the evaluated state nodes may be missing; the stored changes say which were lost."""
    snapshot = with_pending(cluster(), 6, owner=OwnerReference(group="batch", kind="Job", name="job", uid="job"))
    older = Pod(
        namespace="default", name="o", uid="o", created=NOW - 9 * MINUTE, owner=snapshot.pods[0].owner, node="a-1"
    )
    snapshot = replace(snapshot, pods=(*snapshot.pods, older))
    nothing = View(snapshot).without_nodes([node.name for node in snapshot.nodes if node.name != "a-1"])
    full = View(with_nodes(nothing.snapshot, ["a-1"], pods=1))
    change = ObservedChange(ViolationCause.NODE_LOST, "zone=b", NOW - 2 * MINUTE)
    for changes, part in (((), 0), ((change,), 6)):
        readings = observe_cluster(snapshot, (), NONE, BOUNDS, NOW, view=full, changes=changes)
        assert [reading.part for reading in readings if reading.cause is BreakerCause.PENDING_PODS] == [part]


def test_own_moves_and_gated_pods_do_not_count_as_pending() -> None:
    """What an eviction has made pending must not stop the evictions; a gate holds a pod, not the cluster."""
    snapshot = with_pending(cluster(), 6)
    own = [
        move(f"old-{n}", NOW, replacement=f"new-{n}", state=state)
        for n, state in enumerate((MoveState.PENDING, MoveState.LOST))
    ]
    assert opened(snapshot) == {BreakerCause.PENDING_PODS: (6, 6, 10, "")}
    assert opened(snapshot, own[:1]) == {BreakerCause.PENDING_PODS: (5, 6, 10, "")}
    assert opened(snapshot, own) == {}
    assert opened(with_pending(cluster(), 6, spec=PodSpec(gated=True))) == {}


@pytest.mark.parametrize(
    ("failed", "total", "is_open"), [(5, 25, False), (5, 24, True), (4, 4, False), (5, 5, True), (0, 0, False)]
)
def test_requests_that_failed(failed: int, total: int, is_open: bool) -> None:
    expected = {BreakerCause.API_ERRORS: (failed, total, 20, "")} if is_open else {}
    assert opened(cluster(), requests=RequestCounts(total=total, failed=failed)) == expected


def test_an_outage_that_is_over_counts_until_clear_after_even_while_it_is_in_the_window() -> None:
    """Else the time to clear would begin anew in each cycle until the failures are out of the window: ten minutes."""
    state, opened_at = CLOSED, NOW
    for seconds, ended, is_open in (
        (0, None, True),
        (40, 10, True),
        (328, 298, True),
        (329, 299, True),
        (330, 300, False),
    ):
        now = opened_at + seconds * SECOND
        counted = RequestCounts(total=20, failed=5, outage_ended=None if ended is None else ended * SECOND)
        state = update_breaker(state, observe_cluster(cluster(), (), counted, BOUNDS, now), BOUNDS, now)
        assert state.is_open is is_open, seconds
        assert [known.last for known in state.causes] == [now - (ended or 0) * SECOND] * is_open


def test_other_failures_count_from_cycle_to_cycle_for_as_long_as_they_are_in_the_window() -> None:
    """Refused rights and server errors are no outage: nobody can say when they are over."""
    state = CLOSED
    for minutes in range(5):
        now = NOW + minutes * MINUTE
        readings = observe_cluster(cluster(), (), RequestCounts(total=20, failed=5), BOUNDS, now)
        state = update_breaker(state, readings, BOUNDS, now)
    assert update_breaker(state, (), BOUNDS, NOW + 9 * MINUTE - SECOND).is_open
    assert not update_breaker(state, (), BOUNDS, NOW + 9 * MINUTE).is_open


def test_the_time_to_clear_does_not_begin_before_the_view_was_fresh() -> None:
    """A stale view counts the outage as lasting, though the API server answers already: `last` does not go back."""
    stale, fresh = (RequestCounts(total=20, failed=5, outage_ended=ended) for ended in (None, 30 * SECOND))
    state = update_breaker(CLOSED, observe_cluster(cluster(), (), stale, BOUNDS, NOW), BOUNDS, NOW)
    later = NOW + SECOND
    state = update_breaker(state, observe_cluster(cluster(), (), fresh, BOUNDS, later), BOUNDS, later)
    assert [known.last for known in state.causes] == [NOW]


def test_moves_that_failed() -> None:
    """Of those that ended within the window; an eviction that the API refused, or one under way, is none of them."""

    def ended(*states: MoveState, ago: timedelta) -> list[Move]:
        return [move(f"{state}-{n}-{ago}", NOW - ago, state=state) for n, state in enumerate(states)]

    failures = ended(*[MoveState.LOST] * 3, *[MoveState.INEFFECTIVE] * 2, ago=5 * MINUTE - SECOND)
    others = ended(MoveState.VERIFIED, MoveState.REFUSED, MoveState.PENDING, MoveState.PLANNED, ago=SECOND)
    assert opened(cluster(), [*failures, *others]) == {BreakerCause.FAILED_MOVES: (5, 6, 20, "")}
    assert opened(cluster(), failures[1:]) == {}
    assert opened(cluster(), ended(*[MoveState.LOST] * 9, ago=5 * MINUTE)) == {}
    verified = ended(*[MoveState.VERIFIED] * 20, ago=SECOND)
    assert opened(cluster(), [*failures, *verified]) == {}
    outlived = ended(*[MoveState.INEFFECTIVE] * 9, ago=SECOND)
    assert opened(cluster(), [*outlived, *verified]) == {}, "those that outlive the others are not counted"
    own = [structs.replace(one, own=OwnFailure.IMAGE) for one in failures]
    assert opened(cluster(), [*own, *others]) == {}, "a namespace's own failures say nothing about the cluster"
    more = ended(*[MoveState.LOST] * 2, ago=SECOND)
    assert opened(cluster(), [*failures, *own, *more]) == {BreakerCause.FAILED_MOVES: (7, 7, 20, "")}


def test_a_bound_of_100_percent_is_switched_off() -> None:
    """And one of 0% opens from the smallest number on."""
    all_down = with_nodes(cluster(), [node.name for node in cluster().nodes], ready=False)
    off = Breaker.model_validate({"unreadyNodes": "100%", "unreadyInZone": "100%"})
    assert opened(all_down, bounds=off) == {}
    two = with_nodes(cluster(nodes=20), ["a-1", "b-1"], ready=False)
    strict = Breaker.model_validate({"unreadyNodes": "0%"})
    assert opened(two, bounds=strict) == {BreakerCause.UNREADY_NODES: (2, 60, 0, "")}


def exceeded(at: datetime, state: BreakerState = CLOSED, bounds: Breaker = BOUNDS) -> BreakerState:
    return update_breaker(state, [Reading(cause=BreakerCause.UNREADY_NODES, part=3, total=10)], bounds, at)


def test_it_stays_open_until_the_cause_has_been_absent_for_a_time() -> None:
    """With the numbers of the last excess; another excess begins the time anew, but not `since`."""
    state = exceeded(NOW)
    cause = OpenCause(cause=BreakerCause.UNREADY_NODES, part=3, total=10, bound=20, since=NOW, last=NOW)
    assert state == BreakerState((cause,))
    almost = update_breaker(state, [], BOUNDS, NOW + 5 * MINUTE - SECOND)
    assert almost == state
    assert update_breaker(almost, [], BOUNDS, NOW + 5 * MINUTE) == CLOSED
    again = exceeded(NOW + 4 * MINUTE, state)
    assert again == BreakerState((structs.replace(cause, last=NOW + 4 * MINUTE),))
    assert update_breaker(again, [], BOUNDS, NOW + 8 * MINUTE).is_open
    assert not update_breaker(again, [], BOUNDS, NOW + 9 * MINUTE).is_open


def test_a_time_in_the_future_delays_nothing_without_end() -> None:
    """A state that another process stored may have the time of another clock."""
    state = update_breaker(exceeded(NOW + timedelta(days=365)), [], BOUNDS, NOW)
    assert [(known.since, known.last) for known in state.causes] == [(NOW, NOW)]
    assert exceeded(NOW, exceeded(NOW + timedelta(days=365))) == exceeded(NOW)


def test_without_a_time_to_clear_it_closes_at_once() -> None:
    at_once = Breaker(clear_after=timedelta(0))
    assert exceeded(NOW, bounds=at_once).is_open
    assert update_breaker(exceeded(NOW, bounds=at_once), [], at_once, NOW) == CLOSED


READINGS = st.lists(
    st.builds(
        lambda cause, part, more, zone: Reading(cause=cause, part=part, total=part + more, zone=zone),
        st.sampled_from([cause for cause in BreakerCause if cause is not BreakerCause.REPLACEMENTS]),
        st.integers(0, 12),
        st.integers(0, 40),
        st.sampled_from(["", "a", "b"]),
    ),
    max_size=6,
)
PERCENTAGES = {
    BreakerCause.UNREADY_NODES: (0.20, 2),
    BreakerCause.UNREADY_ZONE: (0.55, 2),
    BreakerCause.PENDING_PODS: (0.10, 5),
    BreakerCause.API_ERRORS: (0.20, 5),
    BreakerCause.FAILED_MOVES: (0.20, 5),
}


@given(st.lists(st.tuples(st.integers(1, 400), READINGS), min_size=1, max_size=12))
def test_it_is_open_exactly_for_what_was_exceeded_within_the_time_to_clear(
    observations: list[tuple[int, list[Reading]]],
) -> None:
    """Over any history, after each observation, stored and read back in between."""
    state, now = CLOSED, NOW
    last: dict[BreakerCause, datetime] = {}
    first: dict[BreakerCause, datetime] = {}
    for seconds, readings in observations:
        now += seconds * SECOND
        for cause in PERCENTAGES:
            if cause in last and now - last[cause] >= 5 * MINUTE and not _is_exceeded(cause, readings):
                first.pop(cause, None)
            if _is_exceeded(cause, readings):
                first.setdefault(cause, now)
                last[cause] = now
        state = update_breaker(state, readings, BOUNDS, now)
        state = msgspec.json.decode(msgspec.json.encode(state), type=BreakerState)
        expected = [cause for cause in PERCENTAGES if cause in last and now - last[cause] < 5 * MINUTE]
        assert [known.cause for known in state.causes] == expected
        assert {known.cause: known.last for known in state.causes} == {cause: last[cause] for cause in expected}
        assert {known.cause: known.since for known in state.causes} == {cause: first[cause] for cause in expected}


def _is_exceeded(cause: BreakerCause, readings: list[Reading]) -> bool:
    bound, least = PERCENTAGES[cause]
    return any(
        reading.part >= least and reading.part / reading.total > bound + 1e-9
        for reading in readings
        if reading.cause is cause and reading.total
    )
