"""A repair that failed its prediction is not repeated at once, and not for ever."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.model.moves import MAX_FAILED_PREDICTIONS, NO_MEMORY, ExtraEviction, Memory, MoveState, SentRequest
from rebalancer.model.reasons import Reason
from rebalancer.tracking.backoff import (
    FIRST_WAIT,
    LONGEST_WAIT,
    RefusalWait,
    find_backoff,
    find_refusals,
    forget_refusals,
    record_failure,
    record_outcomes,
    record_refusal,
)
from rebalancer.tracking.moves import merge_memory
from tests.admission.test_admit import admitted, rules
from tests.scheduling.build import NOW
from tests.tracking.test_moves import MOVE, moved

GROUP = "shop web"


def test_each_failed_prediction_doubles_the_wait() -> None:
    """Five minutes, ten minutes, then it is left alone."""
    memory = NO_MEMORY
    assert find_backoff(memory, GROUP, NOW) is None
    for times in range(1, MAX_FAILED_PREDICTIONS):
        memory = record_failure(memory, GROUP, NOW)
        wait = FIRST_WAIT * 2 ** (times - 1)
        second = timedelta(seconds=1)
        assert find_backoff(memory, GROUP, NOW + wait - second) == (times, second)
        assert find_backoff(memory, GROUP, NOW + wait) is None
    memory = record_failure(memory, GROUP, NOW)
    assert find_backoff(memory, GROUP, NOW + timedelta(days=30)) == (MAX_FAILED_PREDICTIONS, None)
    assert find_backoff(memory, "another", NOW) is None


def test_a_clock_that_was_set_back_does_not_prolong_the_wait() -> None:
    """A failure that lies in the future counts from now."""
    memory = record_failure(NO_MEMORY, GROUP, NOW + timedelta(hours=1))
    assert find_backoff(memory, GROUP, NOW) == (1, FIRST_WAIT)


def test_what_counts_as_a_miss() -> None:
    """A replacement elsewhere or none counts once; a success forgets the misses of its group."""
    going = structs.replace(MOVE, group=GROUP)
    for state, times in (
        (MoveState.INEFFECTIVE, 1),
        (MoveState.LOST, 1),
        (MoveState.REFUSED, 0),
        (MoveState.PENDING, 0),
        (MoveState.OVERTAKEN, 0),
    ):
        memory = Memory(moves=(moved(state, group=GROUP),))
        after = record_outcomes(memory, (going,), NOW)
        assert [miss.times for miss in after.failed_predictions] == [1] * times
        assert record_outcomes(after, after.moves, NOW) == after, "what ended before is not counted again"
    memory = record_failure(
        record_failure(Memory(moves=(moved(MoveState.VERIFIED, group=GROUP),)), GROUP, NOW), "other", NOW
    )
    assert [miss.group for miss in record_outcomes(memory, (going,), NOW).failed_predictions] == ["other"]


@pytest.mark.parametrize(
    ("state", "waits"),
    [(MoveState.EVICTED, False), (MoveState.VERIFIED, False), (MoveState.PLANNED, True), (MoveState.REFUSED, True)],
)
def test_an_eviction_that_took_place_without_an_answer_was_no_refusal(state: MoveState, waits: bool) -> None:
    """The watch shows it a moment later; its group need not wait as after a refusal."""
    memory = record_refusal(Memory(moves=(moved(state, group=GROUP),)), GROUP, NOW, timedelta(minutes=1))
    after = record_outcomes(memory, (moved(MoveState.PLANNED, group=GROUP),), NOW)
    assert (find_refusals(after, GROUP, NOW) is not None) is waits


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        (None, MoveState.REFUSED, True),
        (NOW, MoveState.REFUSED, True),
        (NOW, MoveState.EVICTED, False),
        (NOW, MoveState.VERIFIED, False),
    ],
)
def test_an_eviction_that_was_carried_out_after_all_was_no_refusal(
    before: datetime | None, after: MoveState, waits: bool
) -> None:
    """Its group need not wait until it would have been requested again."""
    memory = record_refusal(Memory(moves=(moved(after, group=GROUP),)), GROUP, NOW, timedelta(minutes=1))
    refused = moved(MoveState.REFUSED, group=GROUP, deferred_until=before)
    observed = record_outcomes(memory, (refused,), NOW)
    assert (find_refusals(observed, GROUP, NOW) is not None) is waits


def test_a_prediction_that_fails_after_a_refused_eviction_was_carried_out_counts() -> None:
    """Also where one snapshot shows the pod gone and its replacement elsewhere."""
    refused = moved(MoveState.REFUSED, group=GROUP, deferred_until=NOW)
    memory = Memory(moves=(moved(MoveState.INEFFECTIVE, group=GROUP),))
    assert [miss.group for miss in record_outcomes(memory, (refused,), NOW).failed_predictions] == [GROUP]


@pytest.mark.parametrize(("until", "extras"), [(NOW, 1), (None, 0)])
def test_a_deferred_eviction_may_still_use_the_extra_one(until: datetime | None, extras: int) -> None:
    """It is given back once the eviction is requested again, not while it may be carried out."""
    move = moved(MoveState.REFUSED, group=GROUP, deferred_until=until)
    memory = Memory(moves=(move,), extra_evictions=(ExtraEviction(GROUP, 1, move.uid),))
    assert len(record_outcomes(memory, (move,), NOW).extra_evictions) == extras


def test_a_group_that_backs_off_waits() -> None:
    """Only that group's evictions wait, and the reason is in the plan."""
    everything = admitted(rules())
    group = everything.fates.going[0].group
    admission = admitted(
        rules(), record_failure(NO_MEMORY, group, everything.fates.going[0].pod.created + timedelta(days=1))
    )
    assert {waiting_eviction.eviction.group for waiting_eviction in admission.fates.kept} == {group}
    assert {waiting_eviction.reason for waiting_eviction in admission.fates.kept} == {Reason.BACK_OFF}
    assert len(admission.fates.going) == 4


def test_leading_again_forgets_nothing() -> None:
    """What was saved and what was seen since are put together; an own move is further along, unless it has ended.

    A leader in between has followed such a move to its end: in flight again, it would claim somebody else's pod.
    """
    saved = Memory(moves=(MOVE, moved(MoveState.VERIFIED, uid="saved")), sent=(SentRequest(NOW),), seen=((GROUP, NOW),))
    own_moves = (*(moved(MoveState.EVICTED, uid=uid) for uid in ("old", "own")), moved(MoveState.EVICTED, uid="saved"))
    own = Memory(moves=own_moves, sent=(SentRequest(NOW), SentRequest(NOW)))
    after = merge_memory(own, saved)
    assert {move.uid: move.state for move in after.moves} == {
        "old": MoveState.EVICTED,
        "saved": MoveState.VERIFIED,
        "own": MoveState.EVICTED,
    }
    assert (after.sent, after.seen) == ((SentRequest(NOW), SentRequest(NOW)), ((GROUP, NOW),))


def test_each_refused_request_doubles_the_wait() -> None:
    """Up to an hour and without end, since what refuses may recover; a grant forgets them all."""
    memory, least = NO_MEMORY, timedelta(minutes=1)
    assert find_refusals(memory, GROUP, NOW) is None
    waits = []
    for _ in range(20):
        memory = record_refusal(memory, GROUP, NOW, least)
        waiting = find_refusals(memory, GROUP, NOW)
        assert waiting is not None
        waits.append(waiting.left / least)
        assert find_refusals(memory, GROUP, NOW + waiting.left) is None
    assert waits[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert waits[-1] == 60
    assert find_refusals(memory, "another", NOW) is None
    assert find_refusals(memory, GROUP, NOW - timedelta(days=1)) == RefusalWait(20, LONGEST_WAIT), (
        "a clock that was set back"
    )
    other = record_refusal(memory, "other", NOW, least)
    assert [refused.group for refused in forget_refusals(other, GROUP).refused] == ["other"]
    assert forget_refusals(NO_MEMORY, GROUP) is NO_MEMORY


def test_a_server_that_asks_for_longer() -> None:
    """Its wish is the least wait, even above an hour's bound."""
    memory = record_refusal(NO_MEMORY, GROUP, NOW, 2 * LONGEST_WAIT)
    assert find_refusals(memory, GROUP, NOW) == RefusalWait(1, 2 * LONGEST_WAIT)


def test_a_group_whose_requests_were_refused_waits() -> None:
    """Only that group's evictions wait."""
    everything = admitted(rules())
    group = everything.fates.going[0].group
    now = everything.fates.going[0].pod.created + timedelta(days=1)
    admission = admitted(rules(), record_refusal(NO_MEMORY, group, now, timedelta(days=2)))
    assert {waiting_eviction.eviction.group for waiting_eviction in admission.fates.kept} == {group}
    assert {waiting_eviction.reason for waiting_eviction in admission.fates.kept} == {Reason.BACK_OFF}
