"""Which namespaces wait because a replacement landed elsewhere, and how long that is known."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.misplaced import MISPLACED_WAIT, find_misplaced, waits_until
from rebalancer.tracking.moves import ENDED_MOVES_STORED, MISPLACED_MOVES_STORED, observe_moves
from tests.drawing import examples
from tests.scheduling.build import NOW
from tests.tracking.build import move

SPACES = ("shop", "cart", "api")


def ended(uid: str, namespace: str, minute: float, state: MoveState = MoveState.INEFFECTIVE) -> Move:
    return move(uid, NOW + timedelta(minutes=minute), namespace=namespace, state=state, group=f"{namespace} {uid}")


def followed(moves: tuple[Move, ...], now: datetime) -> tuple[Move, ...]:
    """Return the moves after a snapshot in which none of their pods is any more."""
    empty = Snapshot(taken_at=now)
    return observe_moves(moves, empty, empty, now)


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(SPACES), st.integers(0, 30), st.sampled_from(sorted(MoveState))), max_size=12),
    st.integers(0, 45),
)
def test_a_namespace_waits_exactly_while_a_move_of_it_is_ineffective_and_ended_within_ten_minutes(
    drawn: list[tuple[str, int, MoveState]], minute: int
) -> None:
    """Of several the last one says until when; other ends of moves hold nothing."""
    moves = [ended(str(number), *one) for number, one in enumerate(drawn)]
    now = NOW + timedelta(minutes=minute)
    held = find_misplaced(moves, now)
    for space in SPACES:
        ends = [
            one.changed_at + MISPLACED_WAIT
            for one in moves
            if one.namespace == space and one.state is MoveState.INEFFECTIVE
        ]
        lasting = [end for end in ends if end > now]
        assert (waits_until(held[space]) if space in held else None) == max(lasting, default=None)


def test_the_move_is_known_as_long_as_its_namespace_waits_however_many_ended_since() -> None:
    """In a large cluster twenty others end within seconds."""
    misplaced = ended("elsewhere", "shop", 0)
    moves = (misplaced, *(ended(str(number), "cart", 0, MoveState.VERIFIED) for number in range(ENDED_MOVES_STORED)))
    last = NOW + MISPLACED_WAIT - timedelta(seconds=1)
    for now, is_stored in ((last, True), (last + timedelta(seconds=1), False)):
        assert (misplaced.uid in {one.uid for one in followed(moves, now)}) is is_stored


def test_of_each_namespace_one_is_stored_and_of_too_many_namespaces_the_last() -> None:
    """The memory is bounded."""
    spaces = [f"team-{number:03}" for number in range(MISPLACED_MOVES_STORED + 1)]
    misplaced = [ended(f"{space}/{minute}", space, minute) for minute in (1, 2) for space in spaces]
    recent = tuple(ended(str(number), "cart", 3, MoveState.VERIFIED) for number in range(ENDED_MOVES_STORED))
    stored = followed((*misplaced, *recent), NOW + timedelta(minutes=3))
    assert [one.uid for one in stored] == [*(f"{space}/2" for space in spaces[1:]), *(one.uid for one in recent)]


def test_of_several_moves_of_a_group_at_a_time_none_holds_the_namespace() -> None:
    """One may take the place that was meant for another; a move that was alone, before or after them, does."""
    misplaced = move("one", NOW, namespace="shop", state=MoveState.INEFFECTIVE, group="shop web")
    minute = timedelta(minutes=1)
    begun = structs.replace(misplaced, requested_at=NOW - minute)
    for other, held in (
        (structs.replace(begun, uid="two", state=MoveState.PENDING), False),
        (structs.replace(begun, uid="two", state=MoveState.VERIFIED), False),
        (structs.replace(begun, uid="two", state=MoveState.VERIFIED, changed_at=NOW - 2 * minute), True),
        (structs.replace(begun, uid="two", state=MoveState.PENDING, requested_at=NOW + minute), True),
        (structs.replace(begun, uid="two", state=MoveState.PENDING, group="shop other"), True),
    ):
        assert ("shop" in find_misplaced([begun, other], NOW)) is held
