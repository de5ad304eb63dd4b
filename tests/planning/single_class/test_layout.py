"""The placement of one group on its real nodes."""

from collections import Counter
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.decoding.interning import Interner
from rebalancer.model.nodes import HOSTNAME
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.capacity import ReservedCapacity
from rebalancer.planning.scope.topology import DomainPath
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.placement import Inner, Leaf, leaf_paths, make_inner, mark_leaving
from rebalancer.simulator import ZONE, ClusterBuilder
from tests.controller.simulated import eager
from tests.planning.build import on_one_node, policy
from tests.planning.scenes import problems


def test_a_pod_on_a_node_that_does_not_count_changes_nothing() -> None:
    """A supposed state is the same, as far as a group is concerned, wherever else one of its pods stands."""
    (problem,) = problems(on_one_node(), policy())
    assert isinstance(problem, SingleClassProblem)
    assert problem.layout.shifted({"elsewhere": 1}) == problem.layout.root
    assert problem.layout.shifted({"b-1": 1}) != problem.layout.root


def nodes_of(layout: Layout) -> Inner:
    """Return the tree node by node, without anything that workloads share."""

    def leaf(node: str) -> Leaf:
        site = layout.sites.get(node)
        return site.leaf if site is not None else (0, 0, layout.cap(node), 0)

    leaves = [Counter(map(leaf, members)) for members in layout.topology.members.values()]
    return make_inner(tuple(sorted(counted.items())) for counted in leaves)


def test_workloads_of_equal_shape_have_the_tree_of_their_own_nodes() -> None:
    """They share one, however their pods stand: alone, crowded, on other nodes."""
    blueprint = ClusterBuilder()
    for node in ("a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2"):
        blueprint.node(node, zone=f"z{node[0]}")
    placed = [
        {"a1": 1, "a2": 1, "b1": 1},
        {"a3": 1, "a2": 1, "b3": 1},
        {"b1": 1, "b2": 1, "a3": 1},
        {"a1": 2, "b1": 1},
        {"a1": 1, "a2": 1, "a3": 1},
    ]
    for number, on in enumerate(placed):
        blueprint.deployment(f"web{number}", on=on, spread={ZONE: 1})
    planned = [
        problem for problem in problems(blueprint.snapshot(), eager()) if isinstance(problem, SingleClassProblem)
    ]
    layouts = [problem.layout for problem in sorted(planned, key=lambda problem: problem.component.name)]
    assert [layout.root for layout in layouts] == [nodes_of(layout) for layout in layouts]
    first, second, mirrored, crowded, together = [layout.root for layout in layouts]
    assert first == second == mirrored
    assert len({first, crowded, together}) == 3


def test_naming_victims_changes_no_layout() -> None:
    """Of 3 pods on a node and 1 on another, the cheapest leave in turn; tree, nodes and pods stay as they were."""
    blueprint = ClusterBuilder()
    for node in ("a1", "b1", "c1", "c2"):
        blueprint.node(node, zone=f"z{node[0]}")
    blueprint.deployment("web", on={"a1": 3, "b1": 1}, spread={ZONE: 1})
    (problem,) = problems(blueprint.snapshot(), eager())
    assert isinstance(problem, SingleClassProblem)
    layout = problem.layout
    root, movable = layout.root, list(layout.sites["a1"].movable)
    (first,) = (path for path in leaf_paths(root) if cast("Leaf", path[-1])[0] == 3)
    marked = mark_leaving(root, first)
    (second,) = (path for path in leaf_paths(marked) if cast("Leaf", path[-1])[0] == 3)
    (third,) = (path for path in leaf_paths(mark_leaving(marked, second)) if cast("Leaf", path[-1])[0] == 1)
    for _ in range(2):
        victims = layout.name_victims([first, second, third])
        assert victims == [*movable[:2], layout.sites["b1"].movable[0]]
        assert layout.root == root == nodes_of(layout)
        assert list(layout.sites["a1"].movable) == movable


@pytest.mark.parametrize("keys", [(HOSTNAME,), (ZONE,), (ZONE, HOSTNAME), ("region", ZONE, HOSTNAME)])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True), st.integers(0, 5), st.data())
def test_pods_that_are_alone_are_counted_and_named_without_a_look_at_each(
    keys: tuple[str, ...], taken: list[int], full: int, data: st.DataObject
) -> None:
    """By the counts of their labels: as many in each domain, and the same ones, as where each pod is visited."""
    blueprint = ClusterBuilder()
    for number in range(6):
        zone = number % 4
        blueprint.node(f"n{number}", zone=f"z{zone}", region=f"r{zone // 2}", cpu=1_500 if number == full else 16_000)
    blueprint.deployment("web", on={f"n{number}": 1 for number in taken}, spread=dict.fromkeys(keys, 1), cpu=1_000)
    snapshot, intern = blueprint.snapshot(), Interner()
    pods = [structs.replace(pod, labels=intern(pod.labels), spec=intern(pod.spec)) for pod in snapshot.pods]
    for problem in problems(replace(snapshot, pods=pods), eager()):
        assert isinstance(problem, SingleClassProblem)
        assert problem.layout.ranked.counted is problem.layout.pods_on
        reserved = data.draw(st.sampled_from([(0, {}), (0, {"n5": 1}), (1, {}), (20, {})]))
        layout, other = (
            Layout(
                problem.layout.topology,
                problem.layout.bounds,
                problem.layout.pods_on,
                ranked,
                problem.layout.capacity,
                ReservedCapacity(*reserved),
                len(taken),
                SearchCache(),
            )
            for ranked in (problem.layout.ranked, structs.replace(problem.layout.ranked, counted=None))
        )
        assert layout.alone == other.alone
        most = {path: data.draw(st.integers(0, number)) for path, number in layout.alone.items()}
        assert layout.cheapest_alone(most) == other.cheapest_alone(most)
        assert layout.sites.keys() == other.sites.keys() == layout.pods_on.keys()
        assert layout.root == other.root


def test_the_cheapest_pods_of_a_domain_are_found_among_those_of_others() -> None:
    """Pods that nobody asked for are passed over, wherever they rank."""
    blueprint = ClusterBuilder()
    for node in ("a1", "a2", "a3", "b1", "b2"):
        blueprint.node(node, zone=f"z{node[0]}")
    blueprint.deployment("web", on={"a1": 1, "a2": 1, "a3": 1, "b1": 1}, spread={ZONE: 1})
    snapshot, intern = blueprint.snapshot(), Interner()
    pods = [structs.replace(pod, labels=intern(pod.labels), spec=intern(pod.spec)) for pod in snapshot.pods]
    (problem,) = problems(replace(snapshot, pods=pods), eager())
    assert isinstance(problem, SingleClassProblem)
    layout = problem.layout
    ranks: dict[DomainPath, list[int]] = {path: [] for path in layout.alone}
    for rank, pod in enumerate(layout.ranked.pods):
        ranks[layout.topology.path[pod.node or ""]].append(rank)
    assert layout.ranked.counted is layout.pods_on
    for path, expected in ranks.items():
        for number in range(len(expected) + 1):
            chosen = layout.cheapest_alone(dict.fromkeys(ranks, 0) | {path: number})
            assert chosen == {key: expected[:number] if key == path else [] for key in ranks}
