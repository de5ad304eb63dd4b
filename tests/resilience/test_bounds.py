"""The bounds of a loss hold against every order of deletions and placements, and are no looser than they must be."""

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.loss_phase import Phase
from rebalancer.resilience.bounds import Bounds, find_bounds
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.sizes import SIZES, Sizes
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ClusterBuilder
from tests.drawing import examples
from tests.resilience.drawn import draw_loss
from tests.resilience.played import Play

_MOST_STATES = 1_500

_COARSE: Final = (
    Sizes(by_node=0),
    Sizes(by_node=0, domains=3, requests=0),
    Sizes(by_node=0, by_group=0),
    Sizes(by_node=0, by_group=0, domains=1, requests=0),
)
"""As in clusters that are too large for a program over nodes, and for one over groups of nodes."""


def _check(loss: Loss, sizes: Sizes) -> list[tuple[Bounds, set[int]]]:
    """Play a loss, and return the bounds of each service with what was left of it; all states were visited, or none."""
    ends, whole = Play(loss).ends(_MOST_STATES)
    rows = []
    for number, (found, service) in enumerate(zip(find_bounds(loss, sizes=sizes), loss.services, strict=True)):
        left = {end[number] for end in ends}
        assert found.guaranteed <= min(left), f"{service.workload}: {found}, {sorted(left)}"
        assert max(left) <= found.possible, f"{service.workload}: {found}, {sorted(left)}"
        if service.pending and whole:
            rows.append((found, left))
    return rows


@given(st.integers(0, 10**6))
@examples(40)
def test_no_order_leaves_less_than_is_guaranteed_or_more_than_is_possible(seed: int) -> None:
    """Of all services of drawn clusters, in both phases of the loss of a zone and of a node."""
    _check(draw_loss(seed), SIZES)


@given(st.integers(0, 10**6))
@examples(40)
def test_services_are_taken_for_each_other_only_where_nothing_tells_them_apart(seed: int) -> None:
    """They say the same, and their pods are in other places, or as many of them wait."""
    _check(draw_loss(seed, twins=True), SIZES)


def test_factors_that_cancel_out_are_none() -> None:
    """A replacement counts once for the domain where it is, and once against it."""
    _check(draw_loss(195, "my"), SIZES)


@given(st.integers(0, 10**6), st.sampled_from(_COARSE))
@examples(40)
def test_coarser_ways_for_larger_clusters_hold_as_well(seed: int, sizes: Sizes) -> None:
    """Over groups of equal nodes, against merged competitors, and by sums alone."""
    _check(draw_loss(seed), sizes)


def test_the_emptiest_of_many_domains_counts_once() -> None:
    """Six pods of one core wait. Five nodes have one core left, each a domain of the constraint: five are placed."""
    blueprint = ClusterBuilder()
    for name in "abcde":
        blueprint.node(name, cpu=2_000)
    blueprint.deployment("web", on=dict.fromkeys("abcde", 1), replicas=11, spread={HOSTNAME: 1}, cpu=1_000)
    loss = lose(View(blueprint.snapshot()), frozenset(), Phase.GONE)
    (found,) = find_bounds(loss)
    assert (found.guaranteed, found.possible) == (10, 10)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sizes", "guaranteed", "possible"), [(SIZES, 0.9, 0.95), (_COARSE[0], 0.85, 0.9), (_COARSE[2], 0.75, 0.85)]
)
def test_most_bounds_are_what_some_order_leaves(sizes: Sizes, guaranteed: float, possible: float) -> None:
    """Of 2,000 losses of which every state was visited; what is looser says why, and is printed."""
    rows = [row for seed in range(2_000) for row in _check(draw_loss(seed), sizes)]
    fewest = sum(found.guaranteed == min(left) for found, left in rows) / len(rows)
    most = sum(found.possible == max(left) for found, left in rows) / len(rows)
    loose = Counter(
        (type(found.unknown).__name__, "guaranteed" if found.guaranteed < min(left) else "possible")
        for found, left in rows
        if (found.guaranteed, found.possible) != (min(left), max(left))
    )
    print(f"\n{len(rows)} rows, none wrong: guaranteed is the fewest in {fewest:.1%}, possible the most in {most:.1%}")
    for (reason, which), number in loose.most_common():
        print(f"  {number} {which} looser, unknown: {reason}")
    assert fewest >= guaranteed
    assert most >= possible
