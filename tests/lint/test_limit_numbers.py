"""Which constraints guarantee a limit, and which sizes cannot satisfy both, as every placement of small cases shows."""

from collections.abc import Iterator
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.lint.limit_numbers import Cap, Domains, find_constraints, search_deadlocks, unattainable_sizes
from rebalancer.policy import Condition, Share
from tests.drawing import examples

SHARES = ["<1/3", "<=1/3", "<1/2", "<=1/2", "<34%", "<=60%"]


@pytest.mark.parametrize(
    ("size", "node", "nodes", "zone", "zones"),
    [(6, 1, 6, 2, 5), (8, 2, 7, 3, 6), (10, 3, 8, 4, 7), (12, 3, 10, 5, 8), (18, 5, 14, 8, 11), (20, 6, 15, 9, 12)],
)
def test_the_table_of_the_design(size: int, node: int, nodes: int, zone: int, zones: int) -> None:
    """The maxSkew for "<1/3" and "<1/2", and how many domains it takes until it guarantees them: n - s + 1."""
    for share, skew, needed in (("<1/3", node, nodes), ("<1/2", zone, zones)):
        cap = Share.of(share).cap(size)
        loosest = find_constraints(size, cap, 3)[0]
        assert (loosest.max_skew, loosest.domains_needed) == (skew, needed)
        assert find_constraints(size, cap, needed - 1)[0].most > cap
        assert find_constraints(size, cap, needed)[0].most <= cap


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_limit_that_allows_no_pod_is_guaranteed_by_no_number_of_domains(size: int) -> None:
    """And no maxSkew is 0: the API server refuses it."""
    (constraint,) = find_constraints(size, 0, 6)
    assert (constraint.max_skew, constraint.domains_needed) == (1, None)


def placements(size: int, domains: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide pods among domains, in ascending order of their counts."""
    return (counts for counts in combinations_with_replacement(range(size + 1), domains) if sum(counts) == size)


@examples(150)
@given(st.sampled_from(SHARES), st.integers(1, 10), st.integers(1, 5))
def test_the_constraints_agree_with_every_placement(share: str, size: int, domains: int) -> None:
    """What each allows at worst, from how many domains on that is within the limit; the last is the loosest such."""
    cap = Share.of(share).cap(size)
    constraints = find_constraints(size, cap, domains)

    def most(skew: int, number: int) -> int:
        return max(one[-1] for one in placements(size, number) if one[-1] - one[0] <= skew)

    for constraint in constraints:
        assert constraint.most == most(constraint.max_skew, domains)
        enough = [number for number in range(1, size + 2) if most(constraint.max_skew, number) <= cap]
        assert constraint.domains_needed == (enough[0] if enough else None)
    enough = [skew for skew in range(1, max(1, cap) + 1) if most(skew, domains) <= cap]
    assert constraints[-1].max_skew == (enough[-1] if enough else max(1, cap))


@examples(150)
@given(
    st.sampled_from(SHARES), st.integers(1, 10), st.integers(1, 5), st.integers(1, 3), st.one_of(st.none(), st.just(4))
)
def test_sizes_that_no_placement_satisfies_are_listed(
    share: str, size: int, domains: int, skew: int, least: int | None
) -> None:
    """As every placement shows; below a total from which the limit applies, the constraint alone counts."""
    cap = Cap(Share.of(share), total=Condition.of(f">={least}") if least else None)
    assert list(unattainable_sizes(size, cap, Domains((domains,), skew))) == [
        pods
        for pods in range(1, size + 1)
        if not any(
            one[-1] - one[0] <= skew and (pods < (least or 0) or one[-1] <= Share.of(share).cap(pods))
            for one in placements(pods, domains)
        )
    ]


def test_sizes_that_two_constraints_exclude_are_listed() -> None:
    """Zones of two and three nodes, a maxSkew of 1 over both keys: ten pods cannot satisfy both, eleven can."""
    cap = Cap(Share.of("<99%"))
    assert 10 in unattainable_sizes(12, cap, Domains((2, 3), 1, 1))
    assert 11 not in unattainable_sizes(12, cap, Domains((2, 3), 1, 1))
    assert 10 not in unattainable_sizes(12, cap, Domains((2, 3), 1))


def test_deadlocks_of_groups() -> None:
    """Three groups of two in three zones of two nodes can deadlock with maxSkew 1, not with 2; sixty are too many."""
    assert search_deadlocks(3, 2, Domains((2, 2, 2), 1)) == (480, 96, 2)
    found = search_deadlocks(3, 2, Domains((2, 2, 2), 2))
    assert found is not None
    assert (found.stuck, found.free_from) == (0, 2)
    assert search_deadlocks(30, 2, Domains((4, 4, 4), 9)) is None
