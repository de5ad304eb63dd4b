"""The order of deletion: the best there is, by trying all; what it proves; who stays longest."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.scope.bounds import Bound
from rebalancer.prevention.order import find_order
from rebalancer.prevention.outcome import find_outcome, price
from rebalancer.prevention.scale_down import ScaleDown
from tests.drawing import examples
from tests.prevention.build import best_price, draw_any, draw_nested, make_group, make_rule, spread


def check_order(group: ScaleDown) -> None:
    order = find_order(group)
    assert sorted(order.pods) == list(range(group.size))
    ranks = [order.pods.index(pod) for pod in range(group.size)]
    assert order.excess == find_outcome(group, ranks)
    assert order.excess == tuple(
        group.excess_of(order.pods[group.size - remaining :]) for remaining in range(group.size + 1)
    )
    best = best_price(group)
    assert order.bound <= best <= order.price
    assert order.gap == 0
    assert order.proved
    assert order.price == best


def test_a_balanced_workload_stays_balanced_down_to_one_pod() -> None:
    order = find_order(spread([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    assert order.price == (0, 0)
    assert order.proved


def test_the_fullest_zone_goes_first_and_in_it_the_fullest_node() -> None:
    order = find_order(spread([0, 0, 0, 1, 1], [0, 1, 1, 2, 3]))
    assert order.pods[0] in {1, 2}
    assert order.price == (0, 0)


def test_a_domain_without_pods_makes_each_number_above_the_skew_a_violation() -> None:
    group = make_group(make_rule([0, 0, 1, 1], Bound(max_skew=1), lowest=0, highest=0))
    assert find_order(group).excess == (0, 0, 0, 1, 1)


def test_pods_of_others_count_and_stay() -> None:
    """With 2,0 pods of others, the first zone must be empty of our own as long as there is another."""
    group = make_group(make_rule([0, 1, 1, 1], Bound(max_skew=1), fixed=[2, 0]))
    assert find_order(group).pods[0] == 0


@pytest.mark.parametrize("draw", [draw_nested, draw_any])
def test_every_order_of_up_to_nine_pods_is_the_best_there_is(draw: object) -> None:
    assert callable(draw)
    for seed in range(400):
        random = Random(seed)
        check_order(draw(random, random.randint(1, 9 if seed % 4 == 0 else 7)))


@given(st.integers(min_value=0), st.integers(1, 8), st.booleans())
@examples(150)
def test_no_order_is_better_than_the_one_found(seed: int, size: int, nested: bool) -> None:
    check_order((draw_nested if nested else draw_any)(Random(seed), size))


@pytest.mark.thorough
@pytest.mark.parametrize("draw", [draw_nested, draw_any])
def test_many_orders_of_up_to_nine_pods_are_the_best_there_are(draw: object) -> None:
    assert callable(draw)
    for seed in range(1_000, 6_000):
        random = Random(seed)
        check_order(draw(random, random.randint(1, 9)))


def test_avoided_pods_stay_longest_among_those_in_the_same_domains() -> None:
    for seed in range(200):
        random = Random(seed)
        group = draw_nested(random, random.randint(2, 20))
        pods = find_order(group).pods
        for one, first in enumerate(pods):
            if first in group.avoided:
                kind = group.kinds[first]
                assert all(pod in group.avoided for pod in pods[one:] if group.kinds[pod] == kind)


def test_of_equally_full_domains_the_one_with_an_avoided_pod_keeps_it() -> None:
    group = spread([0, 1, 2], avoided=[0, 2])
    assert find_order(group).pods[0] == 1
    assert set(find_order(group).pods[1:]) == {0, 2}


def test_an_order_that_is_as_good_follows_the_present_ranks() -> None:
    ranks = [60, 10, 50, 20, 40, 30]
    assert find_order(spread([0, 0, 1, 1, 2, 2]), ranks).pods == (1, 3, 5, 4, 2, 0)


def test_one_key_is_proved_for_hundreds_of_pods() -> None:
    for seed in range(20):
        random = Random(seed)
        zones = [random.randrange(5) for _ in range(600)]
        order = find_order(make_group(make_rule(zones, Bound(max_skew=2), fixed=[3, 0, 0, 1, 0])))
        assert order.proved
        assert order.price == price(order.excess)


def test_pods_that_kube_scheduler_has_spread_have_an_order_without_violation() -> None:
    """Placed one by one within maxSkew over zones of equal size and their nodes, as the scheduler does."""
    for seed in range(40):
        random = Random(seed)
        nodes = 4
        counts = [[0] * nodes for _ in range(3)]
        for _ in range(random.choice([12, 20, 30])):
            least = min(map(sum, counts))
            zone = random.choice([zone for zone in range(3) if sum(counts[zone]) == least])
            low = min(min(row) for row in counts)
            node = random.choice([n for n in range(nodes) if counts[zone][n] == min(low, *counts[zone])] or [0])
            counts[zone][node] += 1
        where = [(zone, node) for zone in range(3) for node in range(nodes) for _ in range(counts[zone][node])]
        group = spread([zone for zone, _ in where], [zone * nodes + node for zone, node in where])
        order = find_order(group)
        assert order.proved, seed
