"""Ranks: in order, within 1 and 1,000,000, and as few new ones as possible."""

from itertools import combinations, pairwise
from random import Random

from rebalancer.prevention.ranks import HIGHEST, assign_ranks, keep_most


def test_most_present_ranks_stay() -> None:
    """The longest increasing sequence, against every choice of pods."""
    for seed in range(200):
        random = Random(seed)
        size = random.randint(0, 8)
        order = random.sample(range(size), size)
        ranks = [random.choice([0, *range(1, 12)]) for _ in range(size)]
        unchanged = keep_most(order, ranks)
        assert all(one < other for one, other in pairwise(ranks[pod] for pod in order if pod in unchanged))
        assert all(ranks[pod] for pod in unchanged)
        longest = max(
            number
            for number in range(size + 1)
            for chosen in combinations([pod for pod in order if ranks[pod]], number)
            if all(ranks[one] < ranks[other] for one, other in pairwise(chosen))
        )
        assert len(unchanged) == longest


def test_ranks_follow_the_order_whatever_stays() -> None:
    for seed in range(2_000):
        random = Random(seed)
        size = random.randint(1, 12)
        order = random.sample(range(size), size)
        highest = random.choice([size + 3, 50, HIGHEST])
        ranks = [0 if random.random() < 0.3 else random.randint(1, highest) for _ in range(size)]
        if random.random() < 0.3:
            ranks = [rank and HIGHEST + 1 - rank for rank in ranks]
        unchanged = keep_most(order, ranks)
        assigned = assign_ranks(order, unchanged, ranks)
        final = [assigned.get(pod, ranks[pod]) for pod in order]
        assert all(one < other for one, other in pairwise(final)), (seed, final)
        assert final[0] >= 1
        assert final[-1] <= HIGHEST
        assert assigned.keys() >= set(order) - unchanged


def test_a_pod_between_two_takes_a_rank_between_them_and_leaves_them_alone() -> None:
    assert assign_ranks([0, 1, 2], frozenset({0, 2}), [10, 0, 20]) == {1: 15}


def test_where_there_is_no_space_the_neighbour_with_more_beyond_it_moves() -> None:
    assigned = assign_ranks([0, 1, 2, 3], frozenset({0, 2, 3}), [10, 0, 11, 9_000])
    assert set(assigned) == {1, 2}
    assert 10 < assigned[1] < assigned[2] < 9_000


def test_a_hundred_pods_that_come_before_all_others_take_one_rank_each() -> None:
    ranks: list[int] = []
    patches = 0
    for _ in range(100):
        ranks.append(0)
        order = [len(ranks) - 1, *sorted(range(len(ranks) - 1), key=lambda pod: ranks[pod])]
        assigned = assign_ranks(order, keep_most(order, ranks), ranks)
        patches += len(assigned)
        ranks = [assigned.get(pod, rank) for pod, rank in enumerate(ranks)]
    assert patches <= 110
