"""Samples of nodes in a large cluster: what all of them contain, against every order, start and progress."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product
from math import prod
from random import Random

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.pods import PodSpec
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.sampling import Search, chunk_size, count_examined_nodes, make_search, prepare_search
from rebalancer.scheduling.view import View
from tests.scheduling.build import ZONE, node, pod, snapshot
from tests.scheduling.sampled_search import avoids, distinct_orders, orders, samples, take_turns


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        (99, 0, 99),
        (100, 0, 100),
        (130, 0, 100),
        (300, 0, 144),
        (1000, 0, 420),
        (5000, 0, 500),
        (9000, 0, 450),
        (1000, 70, 700),
        (150, 10, 100),
        (50, 10, 50),
    ],
)
def test_large_clusters_are_examined_in_part(nodes: int, percentage: int, expected: int) -> None:
    assert count_examined_nodes(nodes, percentage) == expected


@pytest.mark.parametrize(
    ("nodes", "parallelism", "expected"),
    [(1, 16, 1), (15, 16, 1), (100, 16, 7), (150, 16, 10), (300, 16, 17), (1000, 16, 31), (5000, 16, 70), (300, 1, 17)],
)
def test_workers_take_chunks_of_the_list(nodes: int, parallelism: int, expected: int) -> None:
    """The numbers are those of `chunkSizeFor` in Go."""
    assert chunk_size(nodes, parallelism) == expected


def test_a_short_list_has_fewer_chunks_than_workers() -> None:
    assert make_search((50, 50, 50), 0, 16) == Search(100, 15, (50, 50, 50))
    assert make_search((100, 100, 100), 0, 16) == Search(144, 16, (100, 100, 100))
    assert make_search((100, 100, 100), 100, 4) == Search(300, 4, (100, 100, 100))


class TestWhatEverySampleHas:
    @pytest.mark.parametrize(
        ("zones", "unfit", "expected"),
        [
            ((50, 50, 50), 0, True),
            ((50, 50, 50), 30, True),
            ((50, 50, 50), 45, False),
            ((100, 100, 100), 0, True),
            ((100, 100, 100), 50, True),
            ((100, 100, 100), 70, False),
            ((334, 333, 333), 0, True),
            ((334, 333, 333), 150, True),
            ((334, 333, 333), 220, False),
            ((60, 50, 40), 0, True),
            ((40, 60, 50), 10, True),
            ((10, 70, 70), 0, False),
            ((1667, 1667, 1666), 0, True),
            ((1667, 1667, 1666), 200, True),
            ((1667, 1667, 1666), 300, False),
            ((50,) * 6, 0, True),
            ((15,) * 10, 0, False),
        ],
    )
    def test_a_whole_zone_is_in_every_sample_if_it_has_nodes_enough(
        self, zones: tuple[int, ...], unfit: int, expected: bool
    ) -> None:
        """`unfit` nodes of the first zone are cordoned or full, anywhere in the list."""
        feasible = (zones[0] - unfit, *zones[1:])
        wanted = (feasible[0], *[0] * (len(zones) - 1))
        assert make_search(zones, 0, 16).must_find(feasible, wanted) is expected

    def test_so_many_nodes_that_too_few_others_are_left_are_in_every_sample(self) -> None:
        search = make_search((150,), 0, 16)
        assert search.must_find((150,), (51,))
        assert not search.must_find((150,), (50,))

    def test_nothing_is_in_every_sample_of_nothing(self) -> None:
        assert not make_search((), 0, 16).must_find((), ())
        assert not make_search((50, 50), 0, 16).must_find((20, 20), (0, 0))

    def test_nothing_wrong_is_said_of_any_order_start_and_progress(self) -> None:
        """Small lists of one to three zones, with every arrangement of their nodes; what is missed is counted.

        Those in which too few other nodes are left at all are not drawn: they need no search.
        """
        random = Random(1)
        proved = missed = avoided = 0
        while proved + missed + avoided < 1500:
            zones, enough, chunk, workers = draw_small(random)
            if sum(count(zones, "O")) < enough or prod(len(distinct_orders(tuple(zone))) for zone in zones) > 3000:
                continue
            sure = small_search(zones, enough, chunk, workers).must_find(count(zones, "WO"), count(zones, "W"))
            avoidable = any(avoids(listed, enough, chunk, workers) for listed in orders(zones))
            assert not (sure and avoidable), (zones, enough, chunk, workers)
            proved, missed, avoided = proved + sure, missed + (not sure and not avoidable), avoided + avoidable
        print(f"in every sample: {proved} proved, {missed} missed, {avoided} not so")
        assert proved > 50

    def test_nothing_wrong_is_said_of_large_lists(self) -> None:
        """Against lists whose wanted nodes are least in the way."""
        random = Random(2)
        proved = avoided = 0
        for _ in range(2000):
            zones, percentage, parallelism = draw_large(random)
            sizes = tuple(map(len, zones))
            search = make_search(sizes, percentage, parallelism)
            chunk = chunk_size(sum(sizes), parallelism)
            listed = hide(zones, chunk, parallelism, random)
            if search.must_find(count(zones, "WO"), count(zones, "W")):
                assert not avoids(listed, search.enough, chunk, parallelism), (zones, percentage, parallelism)
                proved += 1
            else:
                avoided += avoids(listed, search.enough, chunk, parallelism)
        print(f"{proved} proved, {avoided} avoided by the arrangement that was tried")
        assert min(proved, avoided) > 200

    def test_nothing_wrong_is_said_where_it_is_not_known_with_which_zone_nodes_are_listed(self) -> None:
        """Late ones, each with any zone or apart: small lists in every arrangement, and large ones."""
        random = Random(5)
        small = 0
        while small < 300:
            zones, enough, chunk, workers = draw_small(random, most=14)
            late = "".join(random.choices("WOOx", k=random.randint(1, 2)))
            known = [*zones, late]
            feasible = count(known, "WO")
            if sum(feasible) <= enough or prod(len(distinct_orders(tuple(zone))) for zone in known) > 300:
                continue
            small += 1
            search = late_search(known, enough, chunk, workers)
            if search.must_find(feasible, count(known, "W")):
                for listed_with in spread_late(zones, late):
                    assert not any(avoids(listed, enough, chunk, workers) for listed in orders(listed_with))
        proved = 0
        for _ in range(2000):
            zones, percentage, parallelism = draw_large(random)
            late = "".join(random.choices("WOOOOx", k=random.choice((1, 2, 5, 15))))
            known = [*zones, late]
            search = make_search(tuple(map(len, known)), percentage, parallelism, late=True)
            if search.must_find(count(known, "WO"), count(known, "W")):
                proved += 1
                apart = random.randint(0, len(late))
                listed_with = [*zones, *([late[:apart]] if apart else [])]
                for letter in late[apart:]:
                    where = random.randrange(len(zones))
                    listed_with[where] += letter
                chunk = chunk_size(sum(map(len, known)), parallelism)
                listed = hide(listed_with, chunk, parallelism, random)
                assert not avoids(listed, search.enough, chunk, parallelism), (known, percentage, parallelism)
        assert proved > 500

    def test_few_late_nodes_leave_most_zones_certain(self) -> None:
        """A cloud controller manager has still to write the zones of the newest nodes."""
        for late, expected in ((0, True), (1, True), (5, True), (40, False)):
            zones = (50 - late, 50, 50, *([late] if late else []))
            search = make_search(zones, 0, 16, late=bool(late))
            assert search.must_find(zones, (50 - late, *[0] * (len(zones) - 1))) is expected
        everything_late = make_search((150,), 0, 16, late=True)
        assert not everything_late.must_find((150,), (50,))

    def test_the_oracle_is_every_progress_of_the_workers(self) -> None:
        random = Random(3)
        for _ in range(300):
            zones, enough, chunk, workers = draw_small(random, most=6)
            listed = random.choice(list(orders(zones)))
            drawn = samples(listed, {"W": True, "O": True, "x": False}, enough, chunk, workers)
            without = any(all(listed[position] == "O" for position in sample) for sample in drawn)
            assert avoids(listed, enough, chunk, workers) == without


class TestTheList:
    def test_nodes_take_turns_by_region_and_zone(self) -> None:
        labels = [{ZONE: "a"}, {ZONE: "b"}, {ZONE: "a", "topology.kubernetes.io/region": "r"}, {}, {ZONE: "a"}]
        view = View(snapshot([node(f"n{number}", labels[number % 5]) for number in range(150)]))
        assert prepare_search(pod(), view) == Search(100, 15, (60, 30, 30, 30))

    def test_nodes_that_affinity_names_are_a_list_of_their_own(self) -> None:
        view = View(snapshot([node(f"n{number}", {ZONE: "ab"[number % 2]}) for number in range(1000)]))
        names = (*(f"n{number}" for number in range(150)), "gone")
        term = NodeSelectorTerm(fields=(SelectorRequirement("metadata.name", Operator.IN, names),))
        named = pod(spec=PodSpec(node_affinity=NodeAffinity(required=(term,))))
        assert prepare_search(named, view) == Search(100, 15, (150,))
        assert prepare_search(pod(), view) == Search(420, 16, (500, 500))

    def test_where_that_filter_is_off_the_nodes_that_affinity_names_are_no_list(self) -> None:
        view = View(
            snapshot([node(f"n{number}") for number in range(300)]), Profile(filters_off=frozenset({"NodeAffinity"}))
        )
        term = NodeSelectorTerm(fields=(SelectorRequirement("metadata.name", Operator.IN, ("n0",)),))
        named = pod(spec=PodSpec(node_affinity=NodeAffinity(required=(term,))))
        assert prepare_search(named, view) == prepare_search(pod(), view)

    def test_a_zone_that_was_set_after_the_newest_node_came_need_not_be_that_of_the_list(self) -> None:
        """The list is made anew when a node comes or goes, not when a zone is set."""
        first = [node(f"n{number}", {ZONE: "ab"[number % 2]}) for number in range(150)]
        newest = max(one.created for one in first)
        before, after = newest - timedelta(seconds=1), newest + timedelta(seconds=1)
        nodes = [structs.replace(one, zone_since=before if number else after) for number, one in enumerate(first)]
        assert prepare_search(pod(), View(snapshot(nodes))) == Search(100, 15, (75, 74, 1), late=True)
        newer = structs.replace(first[1], name="newer", created=after + timedelta(seconds=1), zone_since=None)
        assert prepare_search(pod(), View(snapshot([*nodes, newer]))) == Search(100, 16, (75, 76))

    def test_the_configuration_says_how_many_are_examined_by_how_many_workers(self) -> None:
        nodes = [node(f"n{number}") for number in range(300)]
        view = View(snapshot(nodes), Profile(percentage=60, parallelism=4))
        assert prepare_search(pod(), view) == Search(180, 4, (300,))


def late_search(known: Sequence[str], enough: int, chunk: int, workers: int) -> Search:
    """Return the search of zones and late nodes."""
    return replace(small_search(known, enough, chunk, workers), late=True)


def spread_late(zones: Sequence[str], late: str) -> Iterator[list[str]]:
    """Yield each way to list late nodes with zones, or apart."""
    for wheres in product(range(len(zones) + 1), repeat=len(late)):
        listed = [*zones, ""]
        for where, letter in zip(wheres, late, strict=True):
            listed[where] += letter
        yield [zone for zone in listed if zone]


def count(zones: Sequence[str], letters: str) -> tuple[int, ...]:
    return tuple(sum(map(zone.count, letters)) for zone in zones)


def small_search(zones: Sequence[str], enough: int, chunk: int, workers: int) -> Search:
    sizes = tuple(map(len, zones))
    return Search(enough, min(workers, -(-sum(sizes) // chunk)), sizes)


def draw_small(random: Random, most: int = 24) -> tuple[list[str], int, int, int]:
    """Return zones of letters, and enough, chunk and workers: some nodes of most zones are feasible, some wanted."""
    while True:
        mixtures = random.choice(["W", "WWWx", "WWWO", "WWOx"]), random.choice(["O", "O", "OOOOx", "OOOW"])
        longest = random.randint(2, 8)
        zones = [
            "".join(random.choices(mixtures[zone > 0], k=max(1, longest - random.choice((0, 0, 0, 1, 3)))))
            for zone in range(random.randint(1, 3))
        ]
        feasible = sum(count(zones, "WO"))
        if sum(map(len, zones)) <= most and feasible > 1 and any(count(zones, "W")):
            return zones, random.randint(1, feasible - 1), random.randint(1, 6), random.randint(1, 3)


def draw_large(random: Random) -> tuple[list[str], int, int]:
    """Return zones of letters, percentage and parallelism; the wanted nodes are most of one zone, or some."""
    size = random.choice((34, 50, 70, 100))
    zones = []
    for zone in range(random.choice((2, 3, 3, 4, 6))):
        nodes = size + random.choice((0, 0, 1, -1, 5, -10, 30))
        unfit = random.randint(0, nodes * 3 // 4) if zone == 0 else random.choice((0, 0, 5))
        others = random.choice((0, 0, 2, nodes // 10)) if zone == 0 else random.choice((nodes, nodes, nodes - 5))
        others = min(others, nodes - unfit)
        zones.append("O" * others + "x" * unfit + "W" * (nodes - unfit - others))
    return zones, random.choice((0, 0, 0, 30, 70)), random.choice((16, 16, 4, 1))


def hide(zones: Sequence[str], chunk: int, workers: int, random: Random) -> list[str]:
    """Return a list whose wanted nodes are behind a part of it, and else late in a chunk of each worker."""
    turns = random.sample(range(len(zones)), len(zones))
    slots = take_turns([[zone] * len(zones[zone]) for zone in turns])
    start = random.choice((0, random.randrange(len(slots))))
    slots = slots[start:] + slots[:start]
    part = chunk * random.randint(0, -(-len(slots) // chunk))
    keeping = random.sample(range(part // chunk), min(workers, part // chunk))
    last = {max(held) for held in _by_chunk_and_zone(slots, keeping, chunk)}

    def cost(position: int) -> tuple[int, int, int]:
        if position >= part:
            return 0, 0, 0
        if position in last:
            return 1, 0, 0
        at = position // chunk
        return (2, keeping.index(at), -position) if at in keeping else (3, 0, 0)

    listed = ["?"] * len(slots)
    for zone, letters in enumerate(zones):
        places = sorted((position for position, there in enumerate(slots) if there == zone), key=cost)
        for position in places[: letters.count("W")]:
            listed[position] = "W"
    found = [position for position in range(part) if "W" not in listed[position - position % chunk : position + 1]]
    for zone, letters in enumerate(zones):
        places = [position for position, there in enumerate(slots) if there == zone and listed[position] == "?"]
        places.sort(key=lambda position: position not in found)
        for position, letter in zip(places, letters.replace("W", ""), strict=True):
            listed[position] = letter
    return listed


def _by_chunk_and_zone(slots: Sequence[int], chunks: Sequence[int], chunk: int) -> Iterator[Sequence[int]]:
    for taken in chunks:
        held: dict[int, list[int]] = {}
        for position in range(taken * chunk, min(len(slots), (taken + 1) * chunk)):
            held.setdefault(slots[position], []).append(position)
        yield from held.values()
