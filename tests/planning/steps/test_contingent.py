"""Contingent plans exist where the oracle forces a repair, and never take more than they say at the beginning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.driver import rest_states
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, mark_leaving
from rebalancer.planning.steps.contingent import contingent_step
from rebalancer.planning.steps.tree_moves import TreeMoves, TreeState
from tests.drawing import examples
from tests.planning.contingent_oracle import Game
from tests.planning.play import repair_step
from tests.planning.states import CACHE, Counts, bounds, layouts, state


@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("zone", [1, 2])
@pytest.mark.parametrize("host", [1, 2])
def test_every_small_layout(zone: int, host: int, places: int) -> None:
    """Evictions are found where the oracle can force the repair with one to spare, and nowhere else."""
    game = Game(zone, host, out=places)
    tried = 0
    for zones in (2, 3):
        for counts in layouts(zones, 2, 7):
            if game.distance(counts):
                step = contingent_step(TreeState(state(counts)), bounds(zone, host), places, CACHE)
                assert bool(step.victims) == (game.forced(counts, spare=1) is not None), counts
                tried += 1
    assert tried > 200


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=2, max_size=4),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
)
@examples(100)
def test_never_more_than_can_be_forced(counts: Counts, zone: int, host: int, places: int) -> None:
    """Planned anew after every landing, whatever is picked, it ends balanced after as many evictions as said first."""
    forced = Game(zone, host, out=places).forced(counts, spare=1)
    start = TreeState(state(counts))
    if forced and contingent_step(start, bounds(zone, host), places, CACHE).victims:
        assert worst(start, bounds(zone, host), places, {}) <= forced


def worst(now: TreeState, limits: Bounds, places: int, known: dict[TreeState, int]) -> int:
    """Return the most evictions until everything holds, over every choice of the scheduler."""
    if not now.pending and min_evictions(now.root, limits, 0, CACHE) == 0:
        return 0
    if now not in known:
        step = contingent_step(now, limits, places, CACHE)
        assert step.victims, "it led to where nothing is assured"
        root = now.root
        for path in step.victims:
            root = mark_leaving(root, path)
        following = set(rest_states(TreeState(root, now.pending), TreeMoves(limits, CACHE)))
        known[now] = len(step.victims) + max(worst(end, limits, places, known) for end in following)
    return known[now]


def test_four_at_once() -> None:
    """5,3,6,4 | 0,0,2,2 | 6,0,0,6 is repaired in 13 with four concurrent evictions, and not begun with three."""
    counts = [[5, 3, 6, 4], [0, 0, 2, 2], [6, 0, 0, 6]]
    assert worst(TreeState(state(counts)), bounds(1, 1), 4, {}) == 13
    assert not contingent_step(TreeState(state(counts)), bounds(1, 1), 3, CACHE).victims
    assert not contingent_step(TreeState(state(counts)), bounds(1, 1), 4, CACHE, extra=0).victims


def test_the_number_of_concurrent_evictions_is_returned_where_fewer_are_allowed() -> None:
    """1 | 2,0,3 with maxSkew 2 and 1 takes three concurrent evictions: with fewer allowed, that is returned."""
    start, limits = TreeState(state([[1], [2, 0, 3]])), bounds(2, 1)
    assert [repair_step(start, limits, 12, out).needed for out in (1, 2)] == [3, 3]
    assert [bool(repair_step(start, limits, 12, out).victims) for out in (2, 3)] == [False, True]
    assert not contingent_step(start, limits, 2, CACHE).victims


def test_pending_pods_are_waited_for() -> None:
    """While the scheduler has pods to place nothing is begun."""
    assert not contingent_step(TreeState(state([[3], [0]]), pending=1), bounds(1, 1), 3, CACHE).victims


def test_a_long_repair_is_not_searched() -> None:
    """A thousand evictions, or a thousand pods that wait, are too many moves; so is what cannot be satisfied."""
    assert not contingent_step(TreeState(state([[1000, 1000], [0, 0]])), bounds(1, 1), 4, CACHE).victims
    assert not contingent_step(TreeState(state([[0, 0], [0, 0]]), pending=1000), bounds(1, 1), 4, CACHE).victims
    assert not contingent_step(TreeState(state([[0], [2, 4]])), bounds(1, 1), 4, CACHE).victims


def test_no_contingent_plan_needs_more_concurrent_evictions_than_are_allowed() -> None:
    """1 | 5,1 with maxSkew 2 and 1 takes two at once; with one allowed there is no plan, nor where none is feasible."""
    assert not contingent_step(TreeState(state([[1], [5, 1]])), bounds(2, 1), 1, CACHE).victims
    assert not contingent_step(TreeState(state([[0], [2, 4]])), bounds(1, 1), 3, CACHE).victims


def test_equal_groups_are_searched_once() -> None:
    """A search that ended costs nothing again; one that reached its limit by what others spent is repeated."""
    start, limits = TreeState(state([[1] * 6 + [0] * 2] * 2 + [[0] * 8] * 2)), bounds(2, 1)
    cache = SearchCache()
    assert not contingent_step(start, limits, 4, cache, budget=SearchBudget(10)).victims
    budget = SearchBudget(10_000)
    result = contingent_step(start, limits, 4, cache, budget=budget)
    assert result.victims
    spent = 10_000 - budget.left
    assert spent > 10
    assert contingent_step(start, limits, 4, cache, budget=budget) is result
    assert budget.left == 10_000 - spent
    cache = SearchCache()
    contingent_step(start, limits, 4, cache, budget=budget)
    assert budget.left == 10_000 - 2 * spent


def test_a_search_beyond_its_own_limit_is_not_repeated() -> None:
    """What no budget of the plan can answer is asked once."""
    start, limits = TreeState(state([[9, 8, 7, 6], [9, 9, 9, 0], [0, 1, 2, 3], [5, 5, 0, 0]])), bounds(2, 2)
    cache, budget = SearchCache(), SearchBudget(1_000_000)
    assert not contingent_step(start, limits, 4, cache, budget=budget).victims
    left = budget.left
    assert left < 1_000_000
    assert not contingent_step(start, limits, 4, cache, budget=budget).victims
    assert budget.left == left
