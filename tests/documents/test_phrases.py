"""Numbers and nouns agree."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.happened import MoveEnded
from rebalancer.documents.history import history_entry
from rebalancer.documents.phrases import SEEN_LATER, end_text, past_moves, portion, took_text
from rebalancer.documents.waits import find_usual
from rebalancer.history.moves import move_entries
from rebalancer.model.moves import Move, MoveState, Reference
from rebalancer.model.reasons import Cause
from rebalancer.model.words import format_duration, plural
from tests.tracking.build import move

_NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
_SPANS = st.timedeltas(timedelta(seconds=-2), timedelta(hours=2))


@pytest.mark.parametrize(
    ("number", "total", "text"),
    [
        (0, 1, "0 of 1 limit holds"),
        (1, 1, "1 of 1 limit holds"),
        (0, 2, "0 of 2 limits hold"),
        (1, 2, "1 of 2 limits hold"),
        (2, 2, "2 of 2 limits hold"),
    ],
)
def test_a_part_of_something_agrees_with_its_number(number: int, total: int, text: str) -> None:
    assert portion(number, total, "limit", "hold") == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_only_one_is_singular(number: int, text: str) -> None:
    assert plural(number, "pod") == text


@given(began=st.timedeltas(timedelta(0), timedelta(seconds=3)), ready=st.none() | _SPANS, seen=_SPANS)
@pytest.mark.parametrize("state", sorted(SEEN_LATER | {MoveState.LOST}))
def test_a_move_took_as_long_in_the_status_as_in_the_history(
    state: MoveState, began: timedelta, ready: timedelta | None, seen: timedelta
) -> None:
    """Whatever fractions of a second the clocks have, and whichever is ahead."""
    move = Move(
        uid="uid",
        namespace="shop",
        pod="web-1",
        node="a-1",
        workload=Reference("shop", "Deployment", "web"),
        owner_uid="owner",
        cause=Cause.SKEW_VIOLATED,
        state=state,
        requested_at=_NOW + began,
        changed_at=_NOW + seen,
    )
    if ready is not None:
        move = structs.replace(move, ready_at=_NOW + ready)
    (entry,) = move_entries([MoveEnded(move, is_late=False)], None)
    took = took_text(move.state, move.requested_at, move.changed_at, move.ready_at or None)
    assert history_entry(entry).text.endswith(f" after {took}")


@given(seconds=st.lists(st.integers(0, 600), min_size=1, max_size=9), runs=st.integers(0, 600))
def test_what_is_said_of_the_last_moves_is_true_of_each_however_long_the_next_one_takes(
    seconds: list[int], runs: int
) -> None:
    """No move is promised a time: a workload that takes 7 s now does not "usually" take 1 s."""
    ready = [_NOW + timedelta(seconds=took) for took in seconds]
    ended = [
        move(f"{number}", _NOW, state=MoveState.VERIFIED, changed_at=at, ready_at=at) for number, at in enumerate(ready)
    ]
    running = move("running", _NOW - timedelta(seconds=runs), state=MoveState.PENDING)
    usual = find_usual([*ended, running], [running.workload])
    assert usual is not None
    said = past_moves(usual)
    low, high = (format_duration(timedelta(seconds=one)) for one in (min(seconds), max(seconds)))
    assert said.startswith("last one took " if len(seconds) == 1 else f"last {len(seconds)} took ")
    assert said.endswith(f"took about {low}" if low == high else f"took about {low} to {high}")
    assert end_text(None, "when pod web-1 is Ready", _NOW, usual) == f"goes on when pod web-1 is Ready ({said})"


def test_what_was_seen_only_later_took_no_time_at_most_never() -> None:
    """A move whose end the same second shows may have taken some of it; where it is known, it took none."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert took_text(MoveState.VERIFIED, at, at, None) == "at most 1s"
    assert took_text(MoveState.VERIFIED, at, at + timedelta(seconds=9), None) == "at most 9s"
    assert took_text(MoveState.VERIFIED, at, at + timedelta(seconds=9), at) == "about 0s"
