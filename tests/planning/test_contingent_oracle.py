"""The oracle itself agrees with the acceptance cases, with a search that prunes nothing, and with worked examples."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.single_class.minimum import min_evictions
from tests.drawing import examples
from tests.planning.contingent_oracle import Game, Zones, canonical, least_moves
from tests.planning.single_class.test_minimum import CASES
from tests.planning.states import CACHE, Counts, bounds, brute_min_evictions, feasible, satisfied, state

small = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2), min_size=1, max_size=3)
larger = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=5)
skew = st.integers(1, 3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['counts']}-{case['zoneMaxSkew']}{case['hostMaxSkew']}")
def test_acceptance_case(case: dict[str, Any]) -> None:
    """Distance, forced and with luck are those of the cases.

    Where more than the distance must be spent to force it, the cases give that number for luck too; luck may do with
    less there, but never without reaching the distance.
    """
    game = Game(case["zoneMaxSkew"], case["hostMaxSkew"])
    assert game.distance(case["counts"]) == case["distance"]
    assert game.forced(case["counts"]) == case["forced"]
    lucky = game.with_luck(case["counts"])
    if case["forced"] in {None, case["distance"]}:
        assert lucky == case["withLuck"]
    else:
        assert lucky is not None
        assert case["distance"] <= lucky <= case["withLuck"]


def test_luck_may_do_with_less_than_force() -> None:
    """4,1 | 1,0,5 with maxSkew 3 and 3: the 5's replacement on the 0 ends it, but nodes with 1 are open to it too."""
    assert satisfied([[4, 1], [1, 1, 4]], 3, 3)
    assert feasible([[4, 1], [1, 0, 4]], 3, 3) == [(0, 1), (1, 0), (1, 1)]
    game = Game(3, 3)
    assert (game.with_luck([[4, 1], [1, 0, 5]]), game.forced([[4, 1], [1, 0, 5]])) == (1, 3)


@given(small, skew, skew, st.integers(0, 2))
def test_distance_is_that_of_brute_force(counts: Counts, zone: int, host: int, pending: int) -> None:
    """Arithmetic on the totals equals trying every placement."""
    assert least_moves(canonical(counts), pending, zone, host) == brute_min_evictions(counts, zone, host, pending)


@given(larger, skew, skew, st.integers(0, 3))
def test_distance_is_the_planners(counts: Counts, zone: int, host: int, pending: int) -> None:
    """Two ways to count the same, on states that are too large to try everything."""
    assert least_moves(canonical(counts), pending, zone, host) == min_evictions(
        state(counts), bounds(zone, host), pending, CACHE
    )


@given(small.filter(lambda counts: sum(map(sum, counts)) <= 7), st.integers(1, 2), st.integers(1, 2))
@examples(60)
def test_pruning_changes_no_answer(counts: Counts, zone: int, host: int) -> None:
    """The same as a search that tries every eviction and knows no distance."""
    game = Game(zone, host, out=2)
    least = game.distance(counts)
    if least is None or least > 3:
        return
    spare = 3 - least
    assert game.forced(counts, spare=spare) == plain(counts, zone, host, 3, every=True)
    assert game.with_luck(counts, spare=spare) == plain(counts, zone, host, 3, every=False)


def plain(counts: Counts, zone: int, host: int, most: int, *, every: bool) -> int | None:
    """Play the game without any short cut, at most two pending, and return the fewest evictions up to `most`."""

    @cache
    def wins(now: Zones, pending: int, evictions: int) -> bool:
        shaped = [list(nodes) for nodes in now]
        open_ = feasible(shaped, zone, host) if pending else []
        if open_:
            results = [wins(changed(now, place, node, 1), pending - 1, evictions) for place, node in open_]
            return all(results) if every else any(results)
        if not pending and satisfied(shaped, zone, host):
            return True
        if not evictions or pending == 2:
            return False
        return any(
            wins(changed(now, place, node, -1), pending + 1, evictions - 1)
            for place, nodes in enumerate(now)
            for node, held in enumerate(nodes)
            if held
        )

    start = tuple(tuple(zone) for zone in counts)
    return next((number for number in range(most + 1) if wins(start, 0, number)), None)


def changed(now: Zones, place: int, node: int, by: int) -> Zones:
    """Return the state with one pod more or less on a node."""
    return tuple(
        tuple(held + (by if (place, node) == (zone, here) else 0) for here, held in enumerate(nodes))
        for zone, nodes in enumerate(now)
    )


def test_worked_examples() -> None:
    """Never; two at once; one to spare with four at once, and not with three."""
    never = [[2, 1], [4, 1, 3]]
    assert Game(1, 1).distance(never) == 3
    assert Game(1, 1, out=9).with_luck(never, spare=6) is None
    together = [[1], [5, 1]]
    assert [Game(2, 1, out=out).forced(together) for out in (1, 2)] == [None, 3]
    gross = [[5, 3, 6, 4], [0, 0, 2, 2], [6, 0, 0, 6]]
    assert [Game(1, 1, out=out).forced(gross, spare=1) for out in (3, 4)] == [None, 13]
    assert Game(1, 1).distance(gross) == 12


def test_a_pod_that_is_pending_already_is_placed_first() -> None:
    """What waits at the beginning belongs to the game: it may be all that is missing, or be stuck."""
    assert Game(1, 1).forced([[1], [0]], pending=1) == 0
    assert Game(1, 1).ends([[1], [0]], 1) == {(((1,), (1,)), 0)}
    assert Game(1, 1).ends([[2], [1, 0]], 3) == {(((1, 2), (2,)), 1)}
