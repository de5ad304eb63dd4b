"""The proven minimum is the minimum."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Inner, count_domains, count_pods, excess_by_level, make_inner
from tests.planning.states import CACHE, Counts, bounds, brute_min_evictions, layouts, satisfied, state

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "acceptance" / "cases" / "planner_cases.json").read_text()
)["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['counts']}-{case['zoneMaxSkew']}{case['hostMaxSkew']}")
def test_acceptance_case(case: dict[str, Any]) -> None:
    """The distance is that of an integer program."""
    fewest = min_evictions(state(case["counts"]), bounds(case["zoneMaxSkew"], case["hostMaxSkew"]), 0, CACHE)
    assert fewest == case["distance"]


@pytest.mark.parametrize("zone", [1, 2])
@pytest.mark.parametrize("host", [1, 2])
def test_every_small_layout(zone: int, host: int) -> None:
    """Every layout of up to three zones of up to two nodes and five pods, one more pending or not: as brute force."""
    tried = 0
    for zones in (1, 2, 3):
        for counts in layouts(zones, 2, 5):
            for pending in (0, 1):
                fewest = min_evictions(state(counts), bounds(zone, host), pending, CACHE)
                assert fewest == brute_min_evictions(counts, zone, host, pending), (counts, pending)
                tried += 1
    assert tried > 500


small = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=2), min_size=1, max_size=3)
skew = st.integers(1, 3)


@given(small, skew, skew)
def test_zero_means_that_nothing_is_to_do(counts: Counts, zone: int, host: int) -> None:
    """The distance is 0 exactly where all constraints hold."""
    assert (min_evictions(state(counts), bounds(zone, host), 0, CACHE) == 0) == satisfied(counts, zone, host)
    assert any(excess_by_level(state(counts), bounds(zone, host), CACHE)) == (not satisfied(counts, zone, host))


@given(small, skew, skew, st.randoms(use_true_random=False))
def test_names_mean_nothing(counts: Counts, zone: int, host: int, random: Any) -> None:
    """The order of zones and nodes changes nothing: equal states are equal values."""
    shuffled = [random.sample(zone_counts, len(zone_counts)) for zone_counts in random.sample(counts, len(counts))]
    assert state(shuffled) == state(counts)


capped = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=2),
    min_size=1,
    max_size=3,
)


@given(capped, skew, skew, st.integers(0, 2), st.sampled_from([None, 1, 2, 4]), st.booleans())
def test_caps_immovable_pods_and_shares(
    drawn: list[list[tuple[int, int, int]]], zone: int, host: int, pending: int, share: int | None, unmet: bool
) -> None:
    """With capacity, immovable pods, a share cap and an unmet minDomains it still equals trying every placement."""
    leaves = [[(held, min(fixed, held), held + places) for held, fixed, places in nodes] for nodes in drawn]
    root = make_inner(make_inner((held, fixed, cap, 0) for held, fixed, cap in zone) for zone in leaves)
    fewest = min_evictions(
        root, (Bound(max_skew=zone, cap=share, floor_at_zero=unmet), Bound(max_skew=host)), pending, CACHE
    )
    assert fewest == _brute(leaves, zone, host, pending, share, unmet=unmet)


def _brute(
    leaves: list[list[tuple[int, int, int]]], zone: int, host: int, pending: int, share: int | None, *, unmet: bool
) -> int | None:
    flat = [leaf for zone in leaves for leaf in zone]
    total = sum(held for held, _, _ in flat) + pending
    best: int | None = None

    def descend(position: int, left: int, chosen: list[int]) -> None:
        nonlocal best
        if position == len(flat):
            if left == 0 and _holds(leaves, chosen, zone, host, share, unmet=unmet):
                moved = sum(max(0, held - after) for (held, _, _), after in zip(flat, chosen, strict=True))
                best = moved if best is None else min(best, moved)
            return
        _, fixed, cap = flat[position]
        for after in range(fixed, min(cap, left) + 1):
            descend(position + 1, left - after, [*chosen, after])

    descend(0, total, [])
    return best


def _holds(
    leaves: list[list[tuple[int, int, int]]], chosen: list[int], zone: int, host: int, share: int | None, *, unmet: bool
) -> bool:
    rest, totals = list(chosen), []
    for nodes in leaves:
        totals.append(sum(rest[: len(nodes)]))
        rest = rest[len(nodes) :]
    low = 0 if unmet else min(totals)
    within = max(totals) - low <= zone and max(chosen) - min(chosen) <= host
    return within and (share is None or max(totals) <= share)


def test_three_thousand_pods_on_uneven_zones_cannot_stand() -> None:
    """3,000 pods on zones of 333, 333 and 334 nodes satisfy no zone and hostname maxSkew 1; 2,997 do."""

    def zones(pods: int) -> Inner:
        return make_inner(make_inner([(0, 0, pods, 0)] * many) for many in (333, 333, 334))

    assert min_evictions(zones(3000), bounds(1, 1), 3000, CACHE) is None
    assert min_evictions(zones(2997), bounds(1, 1), 2997, CACHE) == 0


def test_three_levels() -> None:
    """Hosts in racks in zones: one key divides the next, and the sum up the tree knows all of them."""
    rack = make_inner([(2, 0, 9, 0), (0, 0, 9, 0)])
    root = make_inner([make_inner([rack, make_inner([(0, 0, 9, 0)] * 2)]), make_inner([rack, rack])])
    assert (count_pods(root, CACHE), count_domains(root, 2), count_domains(root, 3)) == (6, 4, 8)
    one = Bound(max_skew=1)
    # Zones 2 4, racks 2 0 2 2, hosts 2 0 0 0 2 0 2 0: six pods on eight hosts stand one each, three in each zone.
    assert min_evictions(root, (one, one, one), 0, CACHE) == 3
