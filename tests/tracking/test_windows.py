"""The windows of slow start: when they grow, and when they begin anew."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.moves import Memory, Move, MoveState, StartWindow
from rebalancer.tracking.windows import IDLE, first_size, grow_windows, store_windows
from tests.scheduling.build import NOW
from tests.tracking.build import move

SECOND = timedelta(seconds=1)


def window(namespace: str = "", size: int = 2, *, limited: bool = True, moved_at: datetime = NOW) -> StartWindow:
    return StartWindow(namespace=namespace, size=size, limited=limited, moved_at=moved_at)


def pending(uid: str, namespace: str = "shop", *, arrived: bool = False, at: datetime = NOW) -> Move:
    return move(uid, at, namespace=namespace, state=MoveState.PENDING, arrived=arrived)


def sizes(memory: Memory) -> dict[str, int]:
    return {one.namespace: one.size for one in memory.windows}


def test_a_window_that_limits_grows_by_one_for_each_replacement_that_arrived() -> None:
    """The cluster's for all, a namespace's for its own; one that does not limit stays as it is."""
    before = (pending("a"), pending("b"), pending("c", "cart"))
    after = tuple(structs.replace(one, arrived=True) for one in before)
    known = (window(), window("cart", 1, limited=False), window("shop", 1))
    grown = grow_windows(Memory(moves=after, windows=known), before, NOW + SECOND)
    assert sizes(grown) == {"": 5, "cart": 1, "shop": 3}
    assert sizes(grow_windows(grown, grown.moves, NOW + SECOND)) == sizes(grown), "each is counted once"
    crashed = tuple(structs.replace(one, arrived=False) for one in grown.moves)
    again = tuple(structs.replace(one, arrived=True) for one in crashed)
    assert sizes(grow_windows(structs.replace(grown, moves=again), crashed, NOW)) == sizes(grown), "also after a crash"


def test_nothing_else_lets_a_window_grow() -> None:
    """A move that is refused, gone, lost, or whose arrival another process has seen."""
    before = (pending("a"), pending("b"))
    lost = structs.replace(before[0], state=MoveState.LOST)
    adopted = pending("new", arrived=True)
    memory = Memory(moves=(lost, before[1], adopted), windows=(window(),))
    assert sizes(grow_windows(memory, before, NOW)) == {"": 2}
    refused = structs.replace(before[0], state=MoveState.REFUSED, arrived=True)
    assert sizes(grow_windows(Memory(moves=(refused,), windows=(window(),)), before, NOW)) == {"": 2}


def test_a_window_begins_anew_after_ten_minutes_without_a_move() -> None:
    """From the last one that was requested in its namespace; a clock that was set back delays nothing."""
    memory = Memory(moves=(pending("a", at=NOW + SECOND),), windows=(window(), window("cart", 4), window("shop", 4)))
    assert sizes(grow_windows(memory, (), NOW + IDLE - SECOND)) == {"": 2, "cart": 4, "shop": 4}
    later = grow_windows(memory, (), NOW + IDLE)
    assert sizes(later) == {"": 2, "shop": 4}
    assert {one.moved_at for one in later.windows} == {NOW + SECOND}
    assert not grow_windows(memory, (), NOW + IDLE + SECOND).windows
    ahead = Memory(windows=(window(moved_at=NOW + timedelta(hours=6)),))
    assert [one.moved_at for one in grow_windows(ahead, (), NOW).windows] == [NOW]


def test_what_is_as_at_first_is_not_stored() -> None:
    """A window is stored once it limits or has grown."""
    known = (window(moved_at=NOW - SECOND), window("cart", 3))
    stored = store_windows(known, {"": 2, "cart": 3, "shop": 1}, {"shop", ""}, NOW)
    assert stored == (window(moved_at=NOW - SECOND), window("cart", 3, limited=False), window("shop", 1))
    assert store_windows(known, {"": 2, "shop": 1}, (), NOW) == ()


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_a_window_is_never_larger_than_what_has_arrived_allows(rounds: list[tuple[int, bool]]) -> None:
    """Over any history: the first size, and one for each that arrived while it limited."""
    memory, allowed, number = Memory(windows=(window(limited=False, size=3),)), 3, 0
    for arrivals, limited in rounds:
        stored = store_windows(memory.windows, sizes(memory), {""} if limited else set(), NOW)
        before = tuple(pending(str(number + index)) for index in range(arrivals))
        number += arrivals
        after = tuple(structs.replace(one, arrived=True) for one in before)
        memory = grow_windows(structs.replace(memory, windows=stored, moves=after), before, NOW)
        allowed += arrivals if limited else 0
        assert sizes(memory).get("", first_size("")) == allowed
