"""A step is repaid whatever the scheduler does; where none is found nothing is begun."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import (
    Inner,
    Leaf,
    Path,
    evict_leaving,
    excess_by_level,
    make_inner,
    mark_leaving,
)
from rebalancer.planning.steps.forced import EvictionCandidates, next_step, reached_alone, settle
from rebalancer.planning.steps.tree_moves import TreeState
from tests.drawing import examples
from tests.planning.single_class.test_minimum import CASES
from tests.planning.states import (
    CACHE,
    PLENTY,
    Counts,
    bounds,
    brute_min_evictions,
    feasible,
    layouts,
    satisfied,
    state,
)

MANY = 99


def node_of(counts: Counts, path: Path) -> tuple[int, int]:
    """Find a node of the class that a path describes."""
    zone_class, leaf = path
    for place, nodes in enumerate(counts):
        if state([nodes])[0][0] == zone_class:
            for node, held in enumerate(nodes):
                if (held, 0, PLENTY, 0) == leaf:
                    return place, node
    raise AssertionError(path)


def repaired(counts: Counts, zone: int, host: int, choice: random.Random) -> tuple[Counts, int]:
    """Evict by steps of one, let a scheduler choose at random among the feasible nodes, until no step is found."""
    counts = [list(zone) for zone in counts]
    evictions = 0
    while True:
        step = next_step(TreeState(state(counts)), bounds(zone, host), 1, CACHE)
        if not step.victims:
            return counts, evictions
        place, node = node_of(counts, step.victims[0])
        counts[place][node] -= 1
        evictions += 1
        free = feasible(counts, zone, host)
        assert free, "a replacement is left pending"
        place, node = choice.choice(free)
        counts[place][node] += 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['counts']}-{case['zoneMaxSkew']}{case['hostMaxSkew']}")
def test_acceptance_case(case: dict[str, Any]) -> None:
    """Where a full search is forced at the distance, a step is found; where it never is, none is begun in vain."""
    root, limits = state(case["counts"]), bounds(case["zoneMaxSkew"], case["hostMaxSkew"])
    step = next_step(TreeState(root), limits, MANY, CACHE)
    assert step.complete
    if case["distance"]:
        if case["forced"] == case["distance"]:
            assert step.victims
    else:
        assert not step.victims


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(0, 2**32),
)
@examples(150)
def test_closed_loop(counts: Counts, zone: int, host: int, seed: int) -> None:
    """Whatever the scheduler chooses: nothing is ever left pending, each eviction counts, and the end is satisfied."""
    before = min_evictions(state(counts), bounds(zone, host), 0, CACHE)
    after, evictions = repaired(counts, zone, host, random.Random(seed))
    left = min_evictions(state(after), bounds(zone, host), 0, CACHE)
    if before is None or left is None:
        assert evictions == 0
        return
    assert left == before - evictions
    if left == 0:
        assert satisfied(after, zone, host)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2), min_size=2, max_size=3),
    st.integers(1, 2),
    st.integers(1, 2),
)
@examples(100)
def test_every_prefix_of_a_step_is_a_step(counts: Counts, zone: int, host: int) -> None:
    """Budgets may cut a step anywhere beyond the number it needs at once."""
    limits = bounds(zone, host)
    step = next_step(TreeState(state(counts)), limits, MANY, CACHE)
    now: Inner = state(counts)
    for position, path in enumerate(step.victims, start=1):
        now = mark_leaving(now, path)
        if position >= step.needed:
            assert settle(TreeState(now), limits, CACHE)
            assert (
                min_evictions(evict_leaving(now), limits, position, CACHE)
                == (brute_min_evictions(counts, zone, host) or 0) - position
            )


def test_in_part() -> None:
    """Where no placement satisfies both, a step brings them nearer, and leaves neither worse than it was."""

    def over(counts: Counts) -> tuple[int, int]:
        totals, nodes = [sum(zone) for zone in counts], [held for zone in counts for held in zone]
        return max(0, max(totals) - min(totals) - 1), max(0, max(nodes) - min(nodes) - 1)

    def alone(counts: Counts) -> int:
        return (brute_min_evictions(counts, 1, PLENTY) or 0) + (brute_min_evictions(counts, PLENTY, 1) or 0)

    nearer = 0
    for before in layouts(2, 3, 6):
        if min_evictions(state(before), bounds(1, 1), 0, CACHE) is not None:
            continue
        step = next_step(TreeState(state(before)), bounds(1, 1), 1, CACHE, StepGoal.PARTIAL)
        if not step.victims:
            continue
        counts = [list(zone) for zone in before]
        place, node = node_of(counts, step.victims[0])
        counts[place][node] -= 1
        for place, node in feasible(counts, 1, 1):
            after = [list(zone) for zone in counts]
            after[place][node] += 1
            assert all(now <= then for now, then in zip(over(after), over(before), strict=True)), before
            assert alone(after) < alone(before), before
            nearer += 1
        assert feasible(counts, 1, 1), "a replacement is left pending"
    assert nearer > 20


def test_unreachable() -> None:
    """Zones of 2 and 3 nodes holding 2,1 | 4,1,3, both maxSkew 1: one eviction is sure to help, then none is begun."""
    for seed in range(20):
        after, evictions = repaired([[2, 1], [4, 1, 3]], 1, 1, random.Random(seed))
        assert evictions == 1
        assert next_step(TreeState(state(after)), bounds(1, 1), MANY, CACHE).victims == ()
        assert min_evictions(state(after), bounds(1, 1), 0, CACHE) == 2


def test_two_at_once() -> None:
    """From 1 | 5,1 with maxSkew 2 and 1 a state is reached where the second victim must go while one is pending."""
    stuck = state(repaired([[1], [5, 1]], 2, 1, random.Random(0))[0])
    left = min_evictions(stuck, bounds(2, 1), 0, CACHE)
    assert left
    step = next_step(TreeState(stuck), bounds(2, 1), 1, CACHE)
    assert (step.victims, step.needed) == ((), 2)
    assert len(next_step(TreeState(stuck), bounds(2, 1), 2, CACHE).victims) == 2


def test_capacity_for_one_is_respected() -> None:
    """A step is never longer than the budgets allow."""
    root = state([[3, 3], [3, 3], [0, 0]])
    assert len(next_step(TreeState(root), bounds(1, 1), 1, CACHE).victims) == 1
    assert len(next_step(TreeState(root), bounds(1, 1), MANY, CACHE).victims) == 4


def test_immovable_pods_are_not_chosen() -> None:
    """A pod that cannot move is never a victim, though it counts."""
    fixed: Leaf = (4, 4, PLENTY, 0)
    free: Leaf = (2, 0, PLENTY, 0)
    empty: Leaf = (0, 0, PLENTY, 0)
    root: Inner = tuple(sorted(((((fixed, 1),), 1), (((free, 1),), 1), (((empty, 1),), 1))))
    step = next_step(TreeState(root), bounds(4, 4), MANY, CACHE)
    assert all(path[-1] != fixed for path in step.victims)


def test_too_wide_to_search() -> None:
    """Where the scheduler has too many choices, the search reaches its limit and says so instead of guessing."""
    root = state([[0, 2, 0, 0], [5, 3, 5, 3, 7], [7, 5, 3, 1], [0, 5, 2, 0]])
    grown = next_step(TreeState(root), bounds(3, 3), MANY, CACHE)
    assert grown.victims, "what was found before the limit is a step"
    assert not grown.complete
    other = state([[2, 3, 1, 0], [1, 1, 5, 3, 3, 2], [0, 5, 0, 1, 0], [1, 0, 3, 0, 3]])
    crowded = next_step(TreeState(other, pending=20), bounds(2, 3), MANY, CACHE)
    assert (crowded.victims, crowded.complete) == ((), False)


def test_nothing_is_to_be_done_where_nothing_can_be() -> None:
    """A state that no placement satisfies does not settle, and has no step."""
    root = make_inner([make_inner([(4, 4, 4, 0)]), make_inner([(0, 0, 0, 0)])])
    assert not settle(TreeState(root), bounds(1, 1), CACHE)
    assert next_step(TreeState(root), bounds(1, 1), MANY, CACHE).victims == ()


def test_a_share_cap_counts_as_excess() -> None:
    """A domain over its cap is over, whatever the skew."""
    root = make_inner([make_inner([(4, 0, PLENTY, 0)]), make_inner([(3, 0, PLENTY, 0)])])
    assert excess_by_level(root, (Bound(max_skew=1, cap=2), Bound()), CACHE) == (2, 0)


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=2, max_size=3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(0, 1),
)
def test_without_free_capacity_no_evictions_bring_it_nearer(counts: Counts, zone: int, host: int, pending: int) -> None:
    """Replacements fill the very places that up to three evictions empty, so no step is searched."""
    root = make_inner(make_inner((held, 0, held, 0) for held in nodes) for nodes in counts)
    start, limits = TreeState(root, pending), bounds(zone, host)
    before = reached_alone(start, limits, CACHE, SearchBudget(10_000))
    for size in (1, 2, 3):
        sets = EvictionCandidates(limits, SearchBudget(10_000), CACHE, StepGoal.PARTIAL).sets(start, size)
        assert all(settle(after, limits, CACHE, before=before) <= 0 for _, after in sets)
    step = next_step(start, limits, MANY, CACHE, StepGoal.PARTIAL)
    assert (step.victims, step.complete) == ((), True)
