"""The planner's game finds what the oracle's finds, and carried out it is never more than it said at the beginning."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.planning.answers import forget
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, mark_leaving
from rebalancer.planning.steps.contingent import contingent_step, forced_step
from rebalancer.planning.steps.forced import SearchBudget, SearchState, rest_states
from tests.planning.contingent_oracle import Game
from tests.planning.states import Counts, bounds, layouts, state


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize("zone", [1, 2])
@pytest.mark.parametrize("host", [1, 2])
def test_every_small_layout(zone: int, host: int, room: int) -> None:
    """Evictions are found where the oracle can force the repair with one to spare, and nowhere else."""
    game = Game(zone, host, out=room)
    tried = 0
    for zones in (2, 3):
        for counts in layouts(zones, 2, 7):
            if game.distance(counts):
                step = contingent_step(SearchState(state(counts)), bounds(zone, host), room)
                assert (step is not None) == (game.forced(counts, spare=1) is not None), counts
                tried += 1
    assert tried > 200


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=2, max_size=4),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
)
@settings(max_examples=100, deadline=None)
def test_never_more_than_can_be_forced(counts: Counts, zone: int, host: int, room: int) -> None:
    """Planned anew after every landing, whatever is picked, it ends balanced after as many evictions as said first."""
    forced = Game(zone, host, out=room).forced(counts, spare=1)
    start = SearchState(state(counts))
    if forced and contingent_step(start, bounds(zone, host), room):
        assert worst(start, bounds(zone, host), room, {}) <= forced


def worst(now: SearchState, limits: Bounds, room: int, known: dict[SearchState, int]) -> int:
    """Return the most evictions until everything holds, over every way of the scheduler."""
    if not now.pending and min_evictions(now.root, limits, 0) == 0:
        return 0
    if now not in known:
        step = contingent_step(now, limits, room)
        assert step is not None, "it led to where nothing is assured"
        root = now.root
        for path in step.victims:
            root = mark_leaving(root, path)
        following = set(rest_states(SearchState(root, now.pending), limits))
        known[now] = len(step.victims) + max(worst(end, limits, room, known) for end in following)
    return known[now]


def test_four_at_once() -> None:
    """5,3,6,4 | 0,0,2,2 | 6,0,0,6 is repaired in 13 with four out at once, and not begun with three."""
    counts = [[5, 3, 6, 4], [0, 0, 2, 2], [6, 0, 0, 6]]
    assert worst(SearchState(state(counts)), bounds(1, 1), 4, {}) == 13
    assert contingent_step(SearchState(state(counts)), bounds(1, 1), 3) is None
    assert contingent_step(SearchState(state(counts)), bounds(1, 1), 4, spare=0) is None


def test_how_many_must_be_out_at_once() -> None:
    """1 | 2,0,3 with maxSkew 2 and 1 takes three out at once: where fewer may be, that number is said."""
    start, limits = SearchState(state([[1], [2, 0, 3]])), bounds(2, 1)
    assert [forced_step(start, limits, 12, out=out).needed for out in (1, 2)] == [3, 3]
    assert [bool(forced_step(start, limits, 12, out=out).victims) for out in (2, 3)] == [False, True]
    assert contingent_step(start, limits, 2) is None


def test_what_is_still_to_land_is_waited_for() -> None:
    """While the scheduler has pods to place nothing is begun."""
    assert contingent_step(SearchState(state([[3], [0]]), pending=1), bounds(1, 1), 3) is None


def test_a_long_repair_is_not_played_to_the_end() -> None:
    """A thousand evictions, or a thousand pods that wait, are too many moves; so is nothing that can be right."""
    assert contingent_step(SearchState(state([[1000, 1000], [0, 0]])), bounds(1, 1), 4) is None
    assert contingent_step(SearchState(state([[0, 0], [0, 0]]), pending=1000), bounds(1, 1), 4) is None
    assert contingent_step(SearchState(state([[0], [2, 4]])), bounds(1, 1), 4) is None


def test_one_of_a_shape_pays() -> None:
    """A game that was played costs nothing again; one that was cut short by what others spent is played again."""
    start, limits = SearchState(state([[1] * 6 + [0] * 2] * 2 + [[0] * 8] * 2)), bounds(2, 1)
    forget()
    assert contingent_step(start, limits, 4, effort=SearchBudget(10)) is None
    effort = SearchBudget(10_000)
    found = contingent_step(start, limits, 4, effort=effort)
    assert found is not None
    spent = 10_000 - effort.left
    assert spent > 10
    assert contingent_step(start, limits, 4, effort=effort) is found
    assert effort.left == 10_000 - spent
    forget()
    contingent_step(start, limits, 4, effort=effort)
    assert effort.left == 10_000 - 2 * spent


def test_a_game_beyond_its_own_bound_is_not_played_twice() -> None:
    """What no effort of the plan can answer is asked once."""
    start, limits = SearchState(state([[9, 8, 7, 6], [9, 9, 9, 0], [0, 1, 2, 3], [5, 5, 0, 0]])), bounds(2, 2)
    forget()
    effort = SearchBudget(1_000_000)
    assert contingent_step(start, limits, 4, effort=effort) is None
    left = effort.left
    assert left < 1_000_000
    assert contingent_step(start, limits, 4, effort=effort) is None
    assert effort.left == left
