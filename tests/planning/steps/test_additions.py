"""Pods that are added before others go: each step is repaid, and where none is found there is none."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.search.report import Method
from rebalancer.planning.single_class.placement import make_inner
from rebalancer.planning.steps.additions import addition_step
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.tree_moves import TreeState
from tests.drawing import examples
from tests.planning.states import CACHE, Counts, bounds, brute_min_evictions, feasible, state

Node = tuple[int, int]

drawn = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=2, max_size=3).filter(
    lambda counts: 2 <= sum(map(sum, counts)) <= 9
)


def excess(counts: Counts, zone: int, host: int) -> tuple[int, int]:
    totals, nodes = [sum(one) for one in counts], [held for one in counts for held in one]
    return max(0, max(totals) - min(totals) - zone), max(0, max(nodes) - min(nodes) - host)


def changed(counts: Counts, node: Node, by: int) -> Counts:
    after = [list(zone) for zone in counts]
    after[node[0]][node[1]] += by
    return after


def ends(counts: Counts, zone: int, host: int, added: int) -> Iterator[Counts | None]:
    """Yield every end of placing so many more pods one by one, None where one of them finds no node."""
    if not added:
        yield counts
        return
    free = feasible(counts, zone, host)
    if not free:
        yield None
    for node in free:
        yield from ends(changed(counts, node, 1), zone, host, added - 1)


def is_repaid(counts: Counts, victims: Sequence[Node], zone: int, host: int) -> bool:
    """Return whether, after every placement, nothing is pending or worse, and the rest takes so many fewer."""
    before, least = excess(counts, zone, host), brute_min_evictions(counts, zone, host)
    assert least is not None
    for end in ends(counts, zone, host, len(victims)):
        if end is None:
            return False
        left = end
        for victim in victims:
            left = changed(left, victim, -1)
        if any(now > then for now, then in zip(excess(left, zone, host), before, strict=True)):
            return False
        if brute_min_evictions(left, zone, host) != least - len(victims):
            return False
    return True


def sets(counts: Counts, most: int) -> Iterator[tuple[Node, ...]]:
    """Yield every choice of at most so many pods, by their nodes."""
    nodes = [(place, node) for place, zone in enumerate(counts) for node in range(len(zone))]
    for size in range(1, most + 1):
        for chosen in combinations_with_replacement(nodes, size):
            if all(chosen.count(one) <= counts[one[0]][one[1]] for one in chosen):
                yield chosen


def names(counts: Counts, zone: int, host: int, most: int) -> tuple[Node, ...]:
    """Return the nodes of the victims of a step, each of another pod."""
    victims: list[Node] = []
    left = [list(one) for one in counts]
    marks: dict[Node, int] = {}
    for path in addition_step(TreeState(state(counts)), bounds(zone, host), most, CACHE).victims:
        node = find(left, marks, path)
        marks[node] = marks.get(node, 0) + 1
        victims.append(node)
    return tuple(victims)


def find(counts: Counts, marks: dict[Node, int], path: tuple[object, ...]) -> Node:
    """Find a node of a class, with as many marked pods as the class says."""
    for place, zone in enumerate(counts):
        marked = make_inner((held, 0, 10**6, marks.get((place, node), 0)) for node, held in enumerate(zone))
        for node, held in enumerate(zone):
            if path == (marked, (held, 0, 10**6, marks.get((place, node), 0))):
                return place, node
    raise AssertionError(path)


@given(drawn, st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
@examples(400)
def test_a_step_is_repaid_wherever_the_added_pods_land_and_where_none_is_found_there_is_none(
    counts: Counts, zone: int, host: int, most: int
) -> None:
    if brute_min_evictions(counts, zone, host) is None:
        assert not names(counts, zone, host, most)
        return
    victims = names(counts, zone, host, most)
    if victims:
        assert len(victims) <= most
        assert is_repaid(counts, victims, zone, host)
    else:
        assert not any(is_repaid(counts, chosen, zone, host) for chosen in sets(counts, most))


def test_adding_first_repairs_what_no_eviction_does() -> None:
    """With all pods there, the scheduler has one node for another: what an eviction frees misleads it."""
    counts, limits = [[1, 3], [4]], bounds(1, 2)
    assert not next_step(TreeState(state(counts)), limits, 3, CACHE).victims
    assert len(names(counts, 1, 2, 1)) == 1


def test_a_step_that_cannot_be_searched_to_its_end_is_as_large_as_was_found() -> None:
    """The search of a second victim takes more than is left."""
    counts, limits = TreeState(state([[3, 3], [0, 0], [0, 0]])), bounds(1, 1)
    assert len(addition_step(counts, limits, 2, SearchCache(SearchLimits())).victims) == 2
    found = {
        len(addition_step(counts, limits, 2, SearchCache(SearchLimits(step_states=many))).victims) for many in range(40)
    }
    assert found == {0, 1, 2}


def test_a_search_that_reaches_its_limit_says_so() -> None:
    cache = SearchCache(SearchLimits(step_states=3))
    step = addition_step(TreeState(state([[0, 0], [3, 4], [5, 2]])), bounds(1, 1), 3, cache)
    assert not step.victims
    assert not step.complete
    assert [(one.method, one.limit_reached) for one in step.attempts] == [(Method.ADDITION, True)]
