"""On small clusters, over every state: the controller never evicts without end, and rests only where it may."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from time import process_time
from typing import Any

import pytest
from msgspec import structs

from rebalancer.controller.cycle import Cycle
from rebalancer.model.moves import MAX_FAILED_PREDICTIONS
from rebalancer.model.reasons import State as Health
from tests.planning.contingent_oracle import Game
from tests.planning.states import Counts
from tests.state_graph.graph import Graph, explore, find_cycle, most_evictions, plan_of, rests
from tests.state_graph.scenes import Bound, Hold, Scene, State, World
from tests.state_graph.steps import Actor, decide

ONE, TWO, SOFT = Bound(1), Bound(2), Bound(1, soft=True)
FEW = ((ONE, ONE), (ONE, TWO), (None, SOFT), (SOFT, ONE))
PAIRS: tuple[tuple[Bound | None, Bound | None], ...] = (
    *((zone, host) for zone in (None, ONE, TWO) for host in (None, ONE, TWO)),
    *((None, SOFT), (SOFT, None), (SOFT, SOFT), (SOFT, ONE), (ONE, SOFT)),
)
"""Constraints on zones and on host names."""
PLENTY = 99


def scenes(
    zones: tuple[int, ...], bounds: Iterable[tuple[Bound | None, Bound | None]], **fields: Any
) -> Iterator[Scene]:
    """Yield the scenes with these constraints, hard ones with a tight budget too; one zone has no skew."""
    for zone, host in bounds:
        if (zone or host) and (len(zones) > 1 or zone is None):
            yield Scene(zones, zone, host, **fields)
            if SOFT not in (zone, host):
                yield Scene(zones, zone, host, out="1", **fields)


def counts_of(scene: Scene, state: State) -> Counts:
    """Return the pods per node, a list per zone."""
    rest = iter(state.nodes)
    return [[next(rest).pods for _ in range(size)] for size in scene.zones]


def satisfied(scene: Scene, state: State) -> bool:
    """Say by counting whether every constraint holds; a cordoned node is a domain like any other."""
    counts = counts_of(scene, state)
    levels = (scene.zone, [sum(zone) for zone in counts]), (scene.host, [held for zone in counts for held in zone])
    return all(bound is None or max(held) - min(held) <= bound.max_skew for bound, held in levels)


def placed(scene: Scene, state: State) -> list[State]:
    """Return the states after one more pod was placed, on each node that hard constraints and cordons leave."""
    counts = counts_of(scene, state)
    results = []
    for number, hold in enumerate(state.nodes):
        totals = sum(counts[scene.zone_of[number]]), hold.pods
        lowest = min(map(sum, counts)), min(held for zone in counts for held in zone)
        bounds = scene.zone, scene.host
        if not hold.cordoned and all(
            bound is None or bound.soft or total + 1 - low <= bound.max_skew
            for bound, total, low in zip(bounds, totals, lowest, strict=True)
        ):
            results.append(changed(state, number, 1))
    return results


def changed(state: State, number: int, by: int) -> State:
    nodes = list(state.nodes)
    nodes[number] = Hold(nodes[number].pods + by, nodes[number].cordoned)
    return state._replace(nodes=tuple(nodes))


def ends(scene: Scene, state: State, waiting: int) -> Iterator[tuple[State, int]]:
    """Yield the states in which so many pods may have been placed, or no node admits the next, and how many wait."""
    following = placed(scene, state) if waiting else []
    if not following:
        yield state, waiting
    for after in following:
        yield from ends(scene, after, waiting - 1)


def one_eviction_is_enough(scene: Scene, state: State) -> bool:
    """Say whether after one eviction all is satisfied and nothing waits, wherever the scheduler places pods."""
    return any(
        all(not left and satisfied(scene, end) for end, left in ends(scene, changed(state, number, -1), waiting))
        for number, hold in enumerate(state.nodes)
        if hold.pods
        for waiting in [len(state.waiting) + 1]
    )


def check_rest(scene: Scene, state: State) -> str:
    """Hold a state in which nobody acts against brute force; return what it is."""
    plan = plan_of(scene, state)
    assert not plan.fates.going or state.failed >= MAX_FAILED_PREDICTIONS, "else it would be admitted"
    if not state.waiting and satisfied(scene, state):
        assert not plan.components, (scene, state)
        return "satisfied"
    if state.waiting:
        assert not placed(scene, state), (scene, state)
    if state.failed >= MAX_FAILED_PREDICTIONS or (state.failed and not state.waiting):
        return "violated after failed predictions"
    assert all(group.refusal is not None for group in plan.components), (scene, state)
    if state.waiting:
        assert scene.out == "1" or not one_eviction_is_enough(scene, state), (scene, state)
        return "a pod waits that no node admits"
    assert plan.components, (scene, state)
    assert not one_eviction_is_enough(scene, state), (scene, state)
    soft = any(bound is not None and bound.soft for bound in (scene.zone, scene.host))
    if not soft and scene.out != "1" and not any(hold.cordoned for hold in state.nodes):
        skews = (bound.max_skew if bound else PLENTY for bound in (scene.zone, scene.host))
        assert Game(*skews, no_worse=True).forced(counts_of(scene, state), spare=0) is None, (scene, state)
    assert all(group.state is not Health.SATISFIED for group in plan.components)
    return "violated, not repairable now"


def check(graph: Graph) -> Counter[str]:
    """Check every promise about a graph; return what it consists of."""
    scene = graph.scene
    assert not find_cycle(graph), scene
    counted: Counter[str] = Counter({"states": len(graph.steps), "edges": graph.edges})
    most = most_evictions(graph)
    for state, many in most.items():
        new = not state.waiting and state.failed == 0 and state.goal < 0
        hard = not any(bound is not None and bound.soft for bound in (scene.zone, scene.host))
        if new and hard and not any(hold.cordoned for hold in state.nodes):
            skews = (bound.max_skew if bound else PLENTY for bound in (scene.zone, scene.host))
            least = Game(*skews).distance(counts_of(scene, state))
            assert least is None or many <= least + 1, (scene, state)
        # Two constraints of at most `pods` pods each, and three failures between two verified moves.
        assert many <= 3 * scene.pods, (scene, state, many)
    for state in rests(graph):
        counted["rest: " + check_rest(scene, state)] += 1
    counted["most evictions after one action"] = max(
        (most[step.to] for steps in graph.steps.values() for step in steps if step.actor is Actor.OTHER), default=0
    )
    return counted


def check_all(all_scenes: Iterable[Scene]) -> Counter[str]:
    """Check the graphs of several scenes; return the sums, and the greatest number of evictions."""
    counted: Counter[str] = Counter()
    for scene in all_scenes:
        checked = check(explore(scene))
        most = "most evictions after one action"
        highest = max(counted[most], checked[most])
        counted += checked
        counted[most] = highest
        counted["scenes"] += 1
    return counted


def print_counts(what: str, counted: Counter[str], since: float) -> None:
    print(f"\n{what}, {process_time() - since:.0f} s of processor time")
    for kind, many in sorted(counted.items()):
        print(f"  {kind}: {many}")


def test_up_to_three_nodes() -> None:
    """No path evicts without end, a repair takes the minimum and one at most, and every rest is satisfied or proved."""
    since = process_time()
    layouts = ((2,), (1, 1), (3,), (1, 2), (1, 1, 1))
    counted = check_all(chain.from_iterable(scenes(zones, FEW, pods=4, interference=0) for zones in layouts))
    print_counts("up to three nodes and four pods", counted, since)
    assert counted["rest: satisfied"] > 100
    assert counted["rest: violated, not repairable now"] > 10


def test_somebody_acts_in_the_middle_of_a_repair() -> None:
    """The same where pods are deleted, workloads scaled and nodes cordoned while a replacement waits for a node."""
    check(explore(Scene((1, 1), ONE, SOFT, pods=3)))
    check(explore(Scene((1, 2), ONE, ONE, pods=2)))


def test_nothing_is_evicted_for_what_a_pending_pod_does_by_itself() -> None:
    """Four pods too many on n1 cannot be repaired; the pod that waits comes to the empty n2 without an eviction."""
    scene = Scene((1, 1, 2), ONE, ONE)
    state = State((Hold(1), Hold(4), Hold(0), Hold(0, cordoned=True)), waiting=(None,))
    assert plan_of(scene, state).fates.going == ()


def test_the_search_finds_a_controller_that_evicts_without_end() -> None:
    """One that forgets its failed predictions has a cycle: the scheduler may place every replacement where it was."""

    def forgetful(scene: Scene, world: World) -> Cycle:
        return decide(scene, World(world.snapshot, structs.replace(world.memory, failed_predictions=())))

    graph = explore(Scene((2,), None, SOFT, pods=4, interference=0), forgetful)
    cycle = find_cycle(graph)
    assert cycle
    assert len({sum(hold.pods for hold in state.nodes) for state in cycle}) > 1, "pods leave and come back"


FOUR_NODES = ((1, 1, 2), (2, 2), (1, 3), (1, 1, 1, 1), (4,))
THREE_NODES = ((1, 2), (1, 1, 1), (3,), (1, 1), (2,))


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("zones", FOUR_NODES, ids=str)
def test_four_nodes(zones: tuple[int, ...]) -> None:
    """The same for every layout of four nodes and up to six pods."""
    since = process_time()
    counted = check_all(scenes(zones, PAIRS, pods=6, interference=0, every_name=False))
    print_counts(f"zones of {zones} nodes, up to six pods", counted, since)


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("zones", FOUR_NODES, ids=str)
def test_four_nodes_and_an_actor_in_the_middle(zones: tuple[int, ...]) -> None:
    """The same for every layout of four nodes and up to six pods, while others act in the middle of a repair."""
    since = process_time()
    counted = check_all(scenes(zones, PAIRS, pods=6, every_name=False))
    print_counts(f"zones of {zones} nodes, up to six pods, others act in the middle of a repair", counted, since)


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("zones", THREE_NODES, ids=str)
def test_three_nodes_and_an_actor_in_the_middle(zones: tuple[int, ...]) -> None:
    """The same for every layout of up to three nodes and six pods, while others act in the middle of a repair."""
    since = process_time()
    counted = check_all(scenes(zones, PAIRS, pods=6))
    print_counts(f"zones of {zones} nodes, up to six pods, others act in the middle of a repair", counted, since)
