"""Whatever the scheduler does: the planner's steps, followed to the end, cost what the game says and strand nobody."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.steps.tree_moves import TreeState
from tests.planning.contingent_oracle import Game, Zones
from tests.planning.play import Play, every_layout, repair_step
from tests.planning.single_class.test_minimum import CASES
from tests.planning.states import CACHE, Counts, bounds, satisfied, state

play = cache(Play)
SKEWS = [(zone, host) for zone in (1, 2) for host in (1, 2)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['counts']}-{case['zoneMaxSkew']}{case['hostMaxSkew']}")
def test_acceptance_case(case: dict[str, Any]) -> None:
    """What is forced at the distance or one more is had for that; elsewhere the planner stops, nobody pending."""
    game = play(case["zoneMaxSkew"], case["hostMaxSkew"])
    outcome = game.outcome(case["counts"])
    assert not outcome.pending
    least, forced = case["distance"], case["forced"]
    if forced is not None and forced <= least + 1:
        assert (outcome.satisfied, outcome.evictions) == (True, forced)
    elif least is not None:
        assert outcome.evictions <= least + 1


def shaped(zones: Zones) -> Counts:
    return [list(zone) for zone in zones]


def satisfying(sizes: tuple[int, ...], pods: int, zone: int, host: int) -> list[tuple[int, ...]]:
    """Return every placement of so many pods on zones of these sizes that satisfies both, as counts in a row."""

    def rows(nodes: int, left: int) -> Iterator[tuple[int, ...]]:
        if nodes == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in rows(nodes - 1, left - first):
                yield (first, *rest)

    results = []
    for row in rows(sum(sizes), pods):
        split, rest = [], list(row)
        for size in sizes:
            split.append(rest[:size])
            rest = rest[size:]
        if satisfied(split, zone, host):
            results.append(row)
    return results


def compared(pods: Iterable[int], zone: int, host: int) -> Counter[str]:
    """Hold every layout with so many pods against brute force and the game; count layouts with all orders of names."""
    counted: Counter[str] = Counter()
    wanted = set(pods)
    satisfied_rows: defaultdict[tuple[tuple[int, ...], int], list[tuple[int, ...]]] = defaultdict(list)
    game = play(zone, host)
    limits = bounds(zone, host)
    for zones, orders in every_layout(3, 3, max(wanted)):
        total = sum(map(sum, zones))
        if total not in wanted:
            continue
        counts, sizes = shaped(zones), tuple(map(len, zones))
        if (sizes, total) not in satisfied_rows:
            satisfied_rows[sizes, total] = satisfying(sizes, total, zone, host)
        flat = [held for zone in counts for held in zone]
        brute = min(
            (
                sum(max(0, held - after) for held, after in zip(flat, row, strict=True))
                for row in satisfied_rows[sizes, total]
            ),
            default=None,
        )
        assert min_evictions(state(counts), limits, 0, CACHE) == brute, zones
        kind = _kind(game, counts, brute)
        counted[kind] += orders
        counted["up to symmetry"] += 1
    return counted


def _kind(game: Play, counts: Counts, least: int | None, strict: Game | None = None) -> str:
    """Return what comes of a state in the worst case, which is checked; what `strict` can force must be had."""
    if least == 0:
        limits = game.bounds
        assert not repair_step(TreeState(state(counts)), limits, 3).victims, counts
        assert game.outcome(counts).evictions == 0
        return "balanced"
    outcome = game.outcome(counts)
    assert not outcome.pending, (counts, outcome)
    if least is None:
        assert not outcome.satisfied
        return "infeasible, in part" if outcome.evictions else "infeasible, left alone"
    if (strict or game.game).forced(counts, spare=0) is not None:
        assert (outcome.satisfied, outcome.evictions) == (True, least), (counts, least, outcome)
    assert outcome.evictions <= least + 1, (counts, least, outcome)
    if outcome.satisfied:
        return "satisfied at the minimum" if outcome.evictions == least else "satisfied with one more"
    return "in part" if outcome.evictions else "left alone"


def print_counts(what: str, counted: Counter[str]) -> None:
    total = sum(many for kind, many in counted.items() if kind != "up to symmetry")
    print(f"\n{what}: {total} layouts")
    for kind, many in sorted(counted.items()):
        print(f"  {kind}: {many}")


def test_every_layout_of_few_pods() -> None:
    """Up to three zones of three nodes and six pods: distance, reach and rest are those of brute force and the game."""
    counted: Counter[str] = Counter()
    for zone, host in SKEWS:
        counted += compared(range(7), zone, host)
    print_counts("up to six pods", counted)
    assert counted["up to symmetry"] > 6_000


def test_the_layouts_are_all_there() -> None:
    """3,992 layouts up to symmetry stand for 64,999 with names, each once."""
    results = list(every_layout(3, 3, 8))
    assert len({zones for zones, _ in results}) == len(results) == 3_992
    assert sum(orders for _, orders in results) == 64_999


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_every_layout() -> None:
    """All 259,996 layouts of up to eight pods under four pairs of maxSkews."""
    counted: Counter[str] = Counter()
    for zone, host in SKEWS:
        counted += compared(range(9), zone, host)
    print_counts("up to eight pods", counted)
    assert counted["up to symmetry"] == 15_968


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_two_million_larger_layouts() -> None:
    """All 2,147,812 layouts of nine to twelve pods, counted apart: the distance is that of the game's own count.

    Of so many pods some can be forced only by leaving a constraint worse at rest in between, which no step may.
    """
    counted: Counter[str] = Counter()
    for zone, host in SKEWS:
        game, limits, strict = play(zone, host), bounds(zone, host), Game(zone, host, no_worse=True)
        for zones, orders in every_layout(3, 3, 12):
            if sum(map(sum, zones)) > 8:
                counts = shaped(zones)
                least = game.game.distance(counts)
                assert min_evictions(state(counts), limits, 0, CACHE) == least, zones
                kind = _kind(game, counts, least, strict)
                if least and not kind.startswith("satisfied") and game.game.forced(counts, spare=0) is not None:
                    kind += ", forced if something may be worse meanwhile"
                counted[kind] += orders
                counted["up to symmetry"] += 1
        print_counts(f"nine to twelve pods, maxSkews up to {zone} and {host}", counted)
    assert counted["up to symmetry"] == 63_432


def larger(choice: Random) -> Counts:
    """Draw two to four zones of one to four nodes with more than eight pods."""
    while True:
        most = choice.choice([2, 3, 5])
        counts = [[choice.randint(0, most) for _ in range(choice.randint(1, 4))] for _ in range(choice.randint(2, 4))]
        if 8 < sum(map(sum, counts)) <= 24:
            return counts


def played(counts: Counts, game: Play, choice: Random) -> str:
    """Play one game against a scheduler that picks at random, pods leaving one after the other; return what came."""
    least, spent, pending = game.game.distance(counts), 0, 0
    while pending or not satisfied(counts, game.zone, game.host):
        step = game.step(counts, pending)
        if not step.victims:
            break
        spent += len(step.victims)
        counts_after, pending = choice.choice(sorted(game.ends(counts, pending, step)))
        counts = shaped(counts_after)
    assert not pending
    if least is None:
        return "infeasible, in part" if spent else "infeasible, left alone"
    assert spent <= least + 1
    if satisfied(counts, game.zone, game.host):
        return "balanced" if not spent else "satisfied at the minimum" if spent == least else "satisfied with one more"
    return "in part" if spent else "left alone"


def larger_ones(seeds: range) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in seeds:
        choice = Random(seed)
        zone, host = choice.choice(SKEWS)
        counts = larger(choice)
        counted[played(counts, Play(zone, host), choice)] += 1
    return counted


def test_larger_layouts() -> None:
    """Up to four zones of four nodes and two dozen pods, against a scheduler that picks at random: nobody stranded."""
    counted = larger_ones(range(60))
    print_counts("larger, one play each", counted)
    assert counted["satisfied at the minimum"] > 20


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_ten_thousand_larger_layouts() -> None:
    """The same for 10,000 of them."""
    print_counts("larger, one play each", larger_ones(range(10**6, 10**6 + 10_000)))
