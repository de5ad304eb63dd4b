"""What an order leaves: the worst of every order in which pods of equal rank can be deleted."""

from itertools import permutations
from random import Random

from rebalancer.planning.scope.bounds import Bound
from rebalancer.prevention.outcome import find_outcome, is_no_worse, price
from tests.prevention.build import draw_any, make_group, make_rule, spread


def test_without_ranks_the_worst_choice_counts() -> None:
    """Six pods in three zones, two in each: in one go to two, both may be left in one zone."""
    excess = find_outcome(spread([0, 0, 1, 1, 2, 2]), [0] * 6)
    assert excess == (0, 0, 1, 1, 1, 0, 0)
    assert price(excess) == (3, 3)


def test_with_ranks_there_is_one_outcome() -> None:
    assert find_outcome(spread([0, 0, 1, 1, 2, 2]), [1, 4, 2, 5, 3, 6]) == (0,) * 7


def test_equal_ranks_in_equal_domains_make_no_difference() -> None:
    group = spread([0, 0, 1])
    assert find_outcome(group, [0, 0, 1]) == find_outcome(group, [0, 1, 2])


def test_no_order_among_equal_ranks_is_worse_than_the_outcome() -> None:
    """For several rules it may add up what no single order does at once, so it is a bound."""
    for seed in range(250):
        random = Random(seed)
        size = random.randint(1, 5)
        group = draw_any(random, size)
        ranks = [random.randrange(3) for _ in range(size)]
        outcome = find_outcome(group, ranks)
        worst = [0] * (size + 1)
        for order in permutations(range(size)):
            if list(order) == sorted(order, key=lambda pod: ranks[pod]):
                for remaining in range(size + 1):
                    worst[remaining] = max(worst[remaining], group.excess_of(order[size - remaining :]))
        assert is_no_worse(worst, outcome), seed


def test_a_rule_that_is_not_in_force_for_so_many_pods_requires_nothing() -> None:
    group = make_group(make_rule([0, 0, 0], [None, None, Bound(cap=1), None], key="host"))
    assert find_outcome(group, [1, 2, 3]) == (0, 0, 1, 0)
