"""An eviction is stored before it is requested, and removed where it had no effect."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.model.moves import NO_MEMORY, ExtraEviction, Memory, MoveState, SentRequest
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.backoff import record_outcomes
from rebalancer.tracking.moves import (
    ANSWER_TIMEOUT,
    MoveEvent,
    advance_move,
    merge_memory,
    note_remaining,
    observe_moves,
)
from rebalancer.tracking.requests import forget_extra_eviction, forget_request, record_request, sent_request
from tests.build import a_cluster
from tests.planning.build import joined, planned
from tests.scheduling.build import NOW
from tests.tracking.test_moves import MOVE, OLD, moved, seen

BEFORE = Memory(
    sent=(SentRequest(NOW),),
    extra_evictions=(ExtraEviction("other", 3, "another"),),
    moves=(moved(MoveState.VERIFIED, uid="another"),),
)


def one_to_spare() -> Snapshot:
    """Return two kinds of pods that are two evictions from right, of which the first may turn out one too many."""
    blueprint = a_cluster("a", 3)
    blueprint.zones("b", 1)
    both = {ZONE: 3, HOSTNAME: 1}
    blueprint.deployment("one", on={"a-3": 2, "b-1": 1}, spread=both, cpu=100)
    blueprint.deployment("two", on={"a-2": 2, "a-3": 2}, spread=both, cpu=200)
    return joined(blueprint)


@pytest.mark.parametrize("goal", [None, 1])
def test_what_was_never_sent_leaves_no_trace(goal: int | None) -> None:
    """Neither move, nor time, nor the eviction to spare; what was remembered before stays, of the same moment too."""
    requested = record_request(BEFORE, MOVE, extra_goal=goal)
    assert requested.sent == (SentRequest(NOW), sent_request(MOVE))
    assert [move.uid for move in requested.in_flight] == ["old"]
    assert len(requested.extra_evictions) == (1 if goal is None else 2)
    assert forget_request(requested, "old") == BEFORE
    assert forget_request(BEFORE, "unknown") == BEFORE
    assert forget_request(Memory(moves=(MOVE,), sent=BEFORE.sent), "old") == Memory(sent=BEFORE.sent), "after a minute"
    other = structs.replace(MOVE, group="other")
    assert [spare.uid for spare in record_request(BEFORE, other, extra_goal=1).extra_evictions] == ["old"], (
        "one for each group"
    )


def test_a_spare_that_was_not_granted_is_still_to_be_had() -> None:
    """Else one refusal would leave the repair to steps that need none, and where there are none, unrepaired."""
    snapshot = one_to_spare()
    first = planned(snapshot)
    (eviction,) = first.fates.going
    assert eviction.repair.extra
    move = structs.replace(MOVE, uid=eviction.pod.uid, group=eviction.group)
    requested = record_request(NO_MEMORY, move, extra_goal=eviction.repair.goal)
    assert planned(snapshot, memory=structs.replace(requested, moves=())).fates.going == ()
    for taken_back in (
        forget_request(requested, move.uid),
        structs.replace(forget_extra_eviction(requested, move.uid), moves=()),
        note_remaining(requested, {move.uid}),
    ):
        again = planned(snapshot, memory=taken_back)
        assert [eviction.pod.uid for eviction in again.fates.going] == [move.uid]


def test_a_lost_answer_costs_the_spare_until_it_is_known() -> None:
    """It may have been granted; once the pod is seen to stay, it was not."""
    requested = record_request(NO_MEMORY, MOVE, extra_goal=1)
    for later, left in ((timedelta(seconds=30), 1), (ANSWER_TIMEOUT, 0)):
        moves = observe_moves(requested.moves, seen(OLD), seen(OLD), NOW + later)
        after = record_outcomes(structs.replace(requested, moves=moves), requested.moves, NOW + later)
        assert len(after.extra_evictions) == left


def test_who_takes_over_in_between_holds_it_for_sent() -> None:
    """What was saved before the eviction was held back is in flight for the next leader, until it is known."""
    requested = record_request(NO_MEMORY, MOVE, extra_goal=1)
    taken = merge_memory(forget_request(requested, "old"), requested)
    assert (taken.in_flight, taken.sent, taken.extra_evictions) == (
        requested.in_flight,
        requested.sent,
        requested.extra_evictions,
    )
    moves = observe_moves(taken.moves, None, seen(OLD), NOW + ANSWER_TIMEOUT)
    assert [move.state for move in moves] == [MoveState.REFUSED]


def test_evictions_of_one_time_count_one_by_one_after_a_change_of_leader() -> None:
    """They were admitted together. Those that both memories have are the same ones."""
    saved, own = replace_sent(NOW, NOW, NOW), replace_sent(NOW, NOW, NOW + timedelta(seconds=1))
    assert merge_memory(own, saved).sent == tuple(map(SentRequest, (NOW, NOW, NOW, NOW + timedelta(seconds=1))))
    assert merge_memory(NO_MEMORY, saved).sent == saved.sent


LATER = NOW + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("own", "saved", "holds"),
    [
        # refused to this process, requested by the leader after it, whose answer nobody has
        ((MoveState.REFUSED, NOW), (MoveState.PLANNED, LATER), (MoveState.PLANNED, LATER)),
        ((MoveState.REFUSED, LATER), (MoveState.PLANNED, NOW), (MoveState.PLANNED, NOW)),  # by a clock that is ahead
        ((MoveState.PLANNED, LATER), (MoveState.REFUSED, NOW), (MoveState.PLANNED, LATER)),
        ((MoveState.REFUSED, NOW), (MoveState.PLANNED, NOW), (MoveState.REFUSED, NOW)),
        ((MoveState.PLANNED, NOW), (MoveState.REFUSED, NOW), (MoveState.REFUSED, NOW)),
        ((MoveState.EVICTED, NOW), (MoveState.REFUSED, NOW), (MoveState.EVICTED, NOW)),
        ((MoveState.PLANNED, NOW), (MoveState.PLANNED, LATER), (MoveState.PLANNED, LATER)),
        ((MoveState.PLANNED, LATER), (MoveState.PLANNED, NOW), (MoveState.PLANNED, LATER)),
        ((MoveState.EVICTED, LATER), (MoveState.VERIFIED, NOW), (MoveState.VERIFIED, NOW)),
        ((MoveState.VERIFIED, NOW), (MoveState.PLANNED, NOW), (MoveState.VERIFIED, NOW)),
        ((MoveState.REFUSED, NOW), (MoveState.REFUSED, LATER), (MoveState.REFUSED, LATER)),
        # gone when this process asked for it, as another leader had evicted it
        ((MoveState.GONE, LATER), (MoveState.EVICTED, NOW), (MoveState.EVICTED, NOW)),
        ((MoveState.EVICTED, NOW), (MoveState.GONE, LATER), (MoveState.EVICTED, NOW)),
        ((MoveState.GONE, NOW), (MoveState.PLANNED, NOW), (MoveState.GONE, NOW)),
        ((MoveState.PLANNED, LATER), (MoveState.EVICTED, NOW), (MoveState.EVICTED, NOW)),
        ((MoveState.PENDING, NOW), (MoveState.EVICTED, NOW), (MoveState.PENDING, NOW)),
    ],
)
def test_a_request_that_may_be_under_way_is_not_forgotten_for_one_that_was_refused(
    own: tuple[MoveState, datetime], saved: tuple[MoveState, datetime], holds: tuple[MoveState, datetime]
) -> None:
    """Of one pod; it is evicted once, and what has ended is newer."""
    one, other, expected = (
        structs.replace(MOVE, state=state, requested_at=moment) for state, moment in (own, saved, holds)
    )
    of_both = merge_memory(structs.replace(NO_MEMORY, moves=(one,)), structs.replace(NO_MEMORY, moves=(other,)))
    assert of_both.moves == (expected,)


def replace_sent(*moments: datetime) -> Memory:
    return structs.replace(NO_MEMORY, sent=tuple(map(SentRequest, moments)))


def test_a_repeated_request_is_an_ordinary_one() -> None:
    """Of an unexecuted move the pod is evicted at most once, whichever request is carried out: one move, in flight."""
    unexecuted = structs.replace(MOVE, unexecuted=True)
    repeated = structs.replace(MOVE, requested_at=NOW + timedelta(seconds=20))
    sent = (SentRequest(NOW), sent_request(MOVE))
    memory = record_request(Memory(moves=(unexecuted,), sent=sent), repeated, extra_goal=None)
    repeating = structs.replace(repeated, repeats=NOW)
    assert (memory.moves, memory.in_flight, memory.unexecuted) == ((repeating,), (repeating,), ())
    assert memory.sent == (SentRequest(NOW), sent_request(repeated)), "it counts once against the rates"
    assert record_request(Memory(moves=(MOVE,), sent=sent), repeated, extra_goal=None).sent == (
        *sent,
        sent_request(repeated),
    )


def test_a_repeated_request_that_was_not_sent_leaves_the_first_one() -> None:
    """That one may still be carried out, and holds the other pods of its workload; the rates count it as before."""
    unexecuted = structs.replace(MOVE, unexecuted=True)
    memory = Memory(moves=(unexecuted,), sent=(sent_request(MOVE),))
    repeated = structs.replace(MOVE, requested_at=NOW + timedelta(seconds=20))
    assert forget_request(record_request(memory, repeated, extra_goal=1), "old") == memory


@pytest.mark.parametrize(("seconds", "stays"), [(119, True), (120, False)])
def test_a_repeated_request_that_was_refused_leaves_the_first_one(seconds: int, stays: bool) -> None:
    """As long as the first one may be carried out; one that was granted is an ordinary move."""
    repeated = structs.replace(MOVE, requested_at=NOW + timedelta(seconds=20), repeats=NOW)
    after = advance_move(repeated, MoveEvent.REFUSED, NOW + timedelta(seconds=seconds))
    assert (after.state, after.unexecuted) == ((MoveState.PLANNED, True) if stays else (MoveState.REFUSED, False))
    assert (after.requested_at == NOW) is stays
    assert advance_move(repeated, MoveEvent.GRANTED, NOW).state is MoveState.EVICTED
