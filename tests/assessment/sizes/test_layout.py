"""Which sizes have a placement, against a search over nodes: 40 uneven layouts, sizes from 1 to 30."""

from collections import Counter
from random import Random

import pytest

from rebalancer.assessment.sizes.layout import (
    NO_RULE,
    Filling,
    Rule,
    SizeProblem,
    SizeVerdict,
    Zone,
    add_domain,
    evaluate_sizes,
    list_sizes,
)
from tests.assessment.sizes.layouts import MOST, Board, Layout, draw_layouts, empty, play_arrivals, sizes_with_placement

LAYOUTS = list(draw_layouts(40))


def filling(board: Board, closed: Board) -> Filling:
    """Return the pods of open nodes; those on `closed` nodes count in their zones."""
    pairs = sorted(zip(board, closed or ((),) * len(board), strict=True), key=lambda pair: len(pair[0]))
    zones = tuple(Zone(tuple(sorted(Counter(zone).items())), sum(more)) for zone, more in pairs)
    return Filling(zones, tuple(sorted({held for zone in closed for held in zone})))


def problem(layout: Layout, now: Board | None = None, foreign: Board | None = None, closed: Board = ()) -> SizeProblem:
    own = now or foreign or empty(layout)
    others = foreign or empty(layout)
    return SizeProblem(
        fine=Rule(layout.node_skew, sum(layout.zones) + sum(map(len, closed)), layout.node_domains),
        coarse=Rule(layout.zone_skew, len(layout.zones), layout.zone_domains),
        now=filling(own, closed),
        foreign=filling(others, closed),
        placed=sum(map(sum, own)) - sum(map(sum, others)),
        first=1,
        last=MOST,
    )


def verdict_of(layout: Layout) -> SizeVerdict:
    """Return the verdicts about a layout without pods."""
    return evaluate_sizes(problem(layout))


def expected(layout: Layout, now: Board | None = None, foreign: Board | None = None, closed: Board = ()) -> SizeVerdict:
    """Return the verdicts by the search alone."""
    start = now or foreign or empty(layout)
    placed = sum(map(sum, start)) - sum(map(sum, foreign or empty(layout)))
    from_none = play_arrivals(layout, foreign or empty(layout), closed=closed).best
    possible = sizes_with_placement(layout, foreign, closed) | set(range(from_none + 1))
    reached = placed + play_arrivals(layout, start, MOST - placed, closed).best
    asked = [size for size in range(1, MOST + 1) if not placed < size <= reached]
    return SizeVerdict(
        tuple(size for size in asked if size not in possible),
        tuple(size for size in asked if size in possible and size > reached),
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_sizes_are_those_of_a_search_over_nodes(layout: Layout) -> None:
    assert verdict_of(layout) == expected(layout)


def test_most_sizes_of_uneven_layouts_have_no_placement() -> None:
    """A measure of what is at stake: of 1,200 sizes."""
    verdicts = [verdict_of(layout) for layout in LAYOUTS]
    impossible = sum(len(verdict.impossible) for verdict in verdicts)
    unreachable = sum(len(verdict.unreachable) for verdict in verdicts)
    print(f"\nof {MOST * len(LAYOUTS)} sizes {impossible} impossible, {unreachable} unreachable")
    assert impossible > MOST * len(LAYOUTS) / 2


@pytest.mark.parametrize("seed", range(120))
def test_pods_that_are_there_count_wherever_they_are(seed: int) -> None:
    """Also where they violate the constraints, as after the loss of a node; and pods of others stay where they are.

    Some zones have nodes that take no pod, with pods of others.
    """
    random = Random(seed)
    layout = random.choice(LAYOUTS)._replace(
        node_domains=random.choice((1, 1, 9)), zone_domains=random.choice((1, 1, 1, 4))
    )
    foreign = tuple(tuple(sorted(random.choice((0, 0, 0, 1, 3)) for _ in range(n))) for n in layout.zones)
    nodes = [random.choice((0, 0, 1, 2)) if seed % 2 else 0 for _ in layout.zones]
    closed = tuple(tuple(random.choice((0, 1, 2, 3, 4)) for _ in range(number)) for number in nodes)
    now = tuple(tuple(sorted(held + random.randint(0, 2) for held in zone)) for zone in foreign)
    assert evaluate_sizes(problem(layout, now, foreign, closed)) == expected(layout, now, foreign, closed)


@pytest.mark.parametrize("layout", [one for one in LAYOUTS if one.node_skew == 1], ids=str)
def test_with_a_max_skew_of_1_over_nodes_every_order_comes_as_far(layout: Layout) -> None:
    """So the scheduler's choice does not matter: sizes that are reached are reached for certain."""
    arrivals = play_arrivals(layout, empty(layout))
    assert arrivals.best == arrivals.surest


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_pods_that_are_level_within_each_zone_reach_what_pods_reach_from_none_on(layout: Layout) -> None:
    """However they are distributed to the zones: for workloads of which that is so, domains are not looked at."""
    tight = layout._replace(node_skew=1)
    reached = play_arrivals(tight, empty(tight)).best
    for seed in range(20):
        random = Random(seed)
        least = random.randint(0, 2)
        now = tuple(tuple(sorted(least + random.randint(0, 1) for _ in range(nodes))) for nodes in tight.zones)
        if max(map(max, now)) - min(map(min, now)) <= 1:
            assert evaluate_sizes(problem(tight, now)._replace(last=reached)) == SizeVerdict()


class TestZonesOfTwoAndOneNode:
    """The state that people report: five pods, and the sixth has no node."""

    layout = Layout((2, 1), 1, 1)

    def test_six_is_impossible_and_seven_is_not_reached(self) -> None:
        now: Board = ((1, 2), (2,))
        verdict = evaluate_sizes(problem(self.layout, now)._replace(last=8))
        assert verdict == SizeVerdict((6, 8), (7,))

    def test_with_one_node_more_in_the_smaller_zone_every_size_has_a_placement(self) -> None:
        assert evaluate_sizes(add_domain(problem(self.layout))) == SizeVerdict()


class TestDomainsThatTakeNoPods:
    """A domain that counts and takes none of the pods holds the minimum down."""

    def one_key(self, *, closed: tuple[int, ...], min_domains: int = 1) -> SizeProblem:
        nodes = Filling((Zone(((0, 2),)),), closed_fine=closed)
        fine = Rule(1, 2 + len(closed), min_domains)
        return SizeProblem(fine, NO_RULE, nodes, nodes, placed=0, first=1, last=4)

    def test_two_nodes_and_a_closed_one_take_a_pod_each(self) -> None:
        assert evaluate_sizes(self.one_key(closed=(0,))) == SizeVerdict((3, 4), ())

    def test_a_pod_of_others_in_the_closed_one_allows_two_on_each(self) -> None:
        assert evaluate_sizes(self.one_key(closed=(1,))) == SizeVerdict((), ())

    def test_too_few_domains_hold_the_minimum_down_as_well(self) -> None:
        assert evaluate_sizes(self.one_key(closed=(), min_domains=3)) == SizeVerdict((3, 4), ())

    def test_a_closed_domain_that_holds_too_many_keeps_no_pod_from_the_others(self) -> None:
        """Three pods of others are on the closed node: that violates the constraint, and all pods find a node."""
        assert evaluate_sizes(self.one_key(closed=(3,))._replace(last=8)) == SizeVerdict()

    def test_closed_domains_that_differ_too_much_leave_no_placement_at_all(self) -> None:
        """The layout of two and one nodes, and two closed ones with 2 and 5: else seven would be 2,2 and 3."""
        zones = Filling((Zone(((0, 1),)), Zone(((0, 2),))), closed_fine=(2, 5))
        made = SizeProblem(Rule(1, 5), Rule(1, 2), zones, zones, placed=0, first=1, last=8)
        assert evaluate_sizes(made).unreachable == ()

    def test_a_closed_zone_counts_for_the_zones(self) -> None:
        zones = Filling((Zone(((0, 1),)), Zone(((0, 3),))), closed_coarse=(0,))
        made = SizeProblem(Rule(2, 4), Rule(1, 3), zones, zones, placed=0, first=1, last=3)
        assert evaluate_sizes(made) == SizeVerdict((3,), ())

    def test_pods_on_closed_nodes_of_an_open_zone_count_in_it(self) -> None:
        """A node of zone a is closed and has one pod of others: a takes one pod less than b, until the nodes hold 3."""
        zones = Filling((Zone(((0, 1),), others=1), Zone(((0, 1),))), closed_fine=(1,))
        made = SizeProblem(Rule(2, 3), Rule(1, 2), zones, zones, placed=0, first=1, last=8)
        assert evaluate_sizes(made) == SizeVerdict((7, 8), ())
        tighter = made._replace(coarse=NO_RULE, fine=Rule(1, 3))
        assert evaluate_sizes(tighter) == SizeVerdict((5, 6, 7, 8), ())


@pytest.mark.parametrize(("sizes", "text"), [((), ""), ((6,), "6"), ((6, 8, 9, 10, 12), "6, 8-10, 12")])
def test_sizes_are_written_as_people_do(sizes: tuple[int, ...], text: str) -> None:
    assert list_sizes(sizes) == text
