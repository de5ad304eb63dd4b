"""Steps on the real nodes: every outcome is followed, by the scheduler's own rules."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.topology import DomainTree
from rebalancer.planning.search.driver import Flaw, StepGoal, rest_states
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.search.report import Attempt
from rebalancer.planning.single_class.placement import Inner, Leaf
from rebalancer.planning.steps.lookahead import PredictedStep, ViewMoves, ViewState, change_cell, lookahead_step
from rebalancer.planning.steps.lookahead_models import SingleClassModel
from rebalancer.planning.steps.tree_moves import TreeMoves, TreeState, evictions
from rebalancer.policy import Policy
from rebalancer.scheduling.place import Choose, any_feasible, top_scoring
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.acceptance.seed import incoming_of, seed_cases, view_of
from tests.build import a_cluster, a_layout
from tests.drawing import examples
from tests.planning.build import first_problem, limit, policy, softly
from tests.planning.states import CACHE, LIMITS, Counts
from tests.planning.states import bounds as bounds_of
from tests.planning.states import state as state_of
from tests.scheduling.build import NOW, node, pod, snapshot


def model_of(cluster: Snapshot, rules: Policy | None = None) -> tuple[View, SingleClassModel]:
    """Return the view and the lookahead model of the first component, of equal pods."""
    view, problem = first_problem(cluster, rules)
    assert isinstance(problem, SingleClassProblem)
    return view, problem.lookahead_model(SearchBudget(0))


def look(
    view: View, model: SingleClassModel, budget: SearchBudget, *, forced: bool
) -> tuple[PredictedStep | None, Attempt]:
    return lookahead_step(view, model, StepGoal.FULL, budget, LIMITS, choose=any_feasible if forced else top_scoring)


def test_a_victim_whose_next_pod_is_unknown_is_not_followed() -> None:
    """Without its owner nobody knows what would come in its place; ranking the victims is spent all the same."""
    cluster = softly(a_cluster("ab", 2, {"a-1": 3, "b-1": 1}, spread={HOSTNAME: 3}).snapshot())
    _, model = model_of(cluster, policy(limit("maxPods: 2")))
    without_owners = View(replace(cluster, workloads=()))
    step, attempt = look(without_owners, model, SearchBudget(1000), forced=False)
    assert step is None
    assert (attempt.rejected, attempt.limit_reached) == (((Flaw.UNKNOWN, 2),), False)
    step, attempt = look(without_owners, model, SearchBudget(999), forced=False)
    assert step is None
    assert attempt.limit_reached


def test_without_a_minimum_no_victim_is_good() -> None:
    """Where no placement satisfies everything, no eviction brings the component nearer to one."""
    view, problem = first_problem(a_cluster("ab", 2, {"a-1": 3}, spread={ZONE: 1}).snapshot())
    assert isinstance(problem, SingleClassProblem)
    step, attempt = look(
        view, SingleClassModel(problem.layout, problem.pods, None, CACHE), SearchBudget(100_000), forced=True
    )
    assert step is None
    assert attempt.rejected == ((Flaw.NOT_NEARER, 1),)


def test_more_nodes_than_the_limit_are_not_followed() -> None:
    """Where a replacement may go to more than 64 nodes, nothing is predicted."""
    view, model = model_of(
        a_cluster("ab", 49, {"a-1": 3, "b-1": 1}, spread={HOSTNAME: 3}).snapshot(), policy(limit("maxPods: 2"))
    )
    budget = SearchBudget(100_000)
    assert look(view, model, budget, forced=False)[0] is None
    assert budget.limit_reached


def test_of_a_large_cluster_one_node_stands_for_all_that_no_bound_tells_apart() -> None:
    """The last pod may go to any of 118 nodes without pods: its landing on one of them is followed."""
    cluster = softly(a_cluster("ab", 60, {"a-1": 3, "b-1": 1}, spread={HOSTNAME: 1}).snapshot())
    view, model = model_of(cluster, policy(limit("maxPods: 2")))
    assert len(list(model.distinct_nodes({}, view.nodes.names))) == 3
    assert len(list(model.distinct_nodes({"a-7": 1}, view.nodes.names))) == 4
    step, _ = look(view, model, SearchBudget(100_000), forced=False)
    assert step is not None
    assert len(step.nodes) == 118


def test_before_the_last_pod_every_node_is_followed() -> None:
    """Nodes that no bound tells apart may differ to the scores of the next pod."""
    cluster = softly(a_cluster("ab", 60, {"a-1": 3, "b-1": 1}, spread={HOSTNAME: 1}).snapshot())
    view, model = model_of(cluster, policy(limit("maxPods: 2")))
    model.most_choices = 1000
    moves = ViewMoves(model, top_scoring, SearchBudget(10**6), LIMITS)
    first, second = (structs.replace(cluster.pods[0], uid=f"new-{number}", node=None) for number in range(2))
    assert len(moves.successors(ViewState(view, (), (first,), ()))) == 1
    assert len(moves.successors(ViewState(view, (), (first, second), ()))) == 118


def test_a_second_eviction_that_frees_the_first_replacement_is_followed() -> None:
    """2 | 4,1 with maxSkew 2 and 1: the replacement of the first finds no node until a second has gone."""
    blueprint = a_cluster("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    view, model = model_of(blueprint.snapshot())
    step, attempt = look(view, model, SearchBudget(100_000), forced=True)
    assert step is not None
    assert (step.victim.pod.node, step.concurrent) == ("b-1", 2)
    assert attempt.answered


Nameless = tuple[tuple[int, ...], ...]
"""Pods by node of each zone, sorted."""


class AnyNode(SingleClassModel):
    """A model without a component: every node has capacity, and a cell is a pod on a node."""

    def __init__(self) -> None:
        self.most_choices = 64

    def cell(self, pod: Pod, node: str) -> tuple[str, str]:
        return pod.uid, node

    def has_capacity(self, _: Pod, __: str) -> bool:
        return True

    def distinct_nodes(self, _: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        return nodes


def outcomes(view: View, waiting: list[Pod], choose: Choose) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    """Return every way in which a queue can come to rest: the node by pod, and who is left pending."""
    start = ViewState(view, (), tuple(waiting), ())
    ends = rest_states(start, ViewMoves(AnyNode(), choose, SearchBudget(10**6), LIMITS))
    return [
        (dict(cell for cell, _ in end.deltas if isinstance(cell, tuple)), tuple(pod.uid for pod in end.waiting))
        for end in ends
    ]


def test_every_choice_is_followed_and_a_deadlock_is_among_them() -> None:
    """Of two pods the first may take the node that the second needs; both outcomes are visited, each once."""
    case = next(seed_case for seed_case in seed_cases() if seed_case["id"] == "seed/47")
    view, second = view_of(case), incoming_of(case)
    third = incoming_of(next(seed_case for seed_case in seed_cases() if seed_case["id"] == "seed/48"))
    waiting = [
        structs.replace(second, uid="second"),
        structs.replace(third, uid="third", created=NOW.replace(year=2027)),
    ]
    ends = {tuple(sorted(nodes.items())): len(pending) for nodes, pending in outcomes(view, waiting, any_feasible)}
    assert ends == {(("second", "Node2"),): 1, (("second", "Node5"), ("third", "Node2")): 0}


def test_every_node_of_the_highest_score_is_a_choice_of_the_scheduler() -> None:
    """Two nodes score best, so there are two outcomes and no more."""
    busy = pod(on="c", scored=(9999, 1))
    view = View(snapshot([node("a"), node("b"), node("c")], [busy]))
    ends = [nodes for nodes, _ in outcomes(view, [pod(uid="new")], top_scoring)]
    assert sorted(ends, key=repr) == [{"new": "a"}, {"new": "b"}]


def test_without_pending_pods_the_state_itself_is_the_outcome() -> None:
    """There is nothing to place."""
    assert outcomes(View(snapshot([])), [], any_feasible) == [({}, ())]


def placed(counts: Counts, zone: int, host: int) -> Snapshot | None:
    """Return a cluster with one workload, so many of its pods on each node; None without any pod."""
    blueprint, on = a_layout(counts, (f"z{number}" for number in range(len(counts))))
    if not on:
        return None
    blueprint.deployment("web", on=on, spread={ZONE: zone, HOSTNAME: host})
    return blueprint.snapshot()


def forget_names(counts: Counter[str], topology: DomainTree) -> Nameless:
    """Return the pods by node of each zone, sorted: equal up to the order of zones, and of nodes within them."""
    return tuple(sorted(tuple(sorted(counts[name] for name in members)) for members in topology.members.values()))


small = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2), min_size=2, max_size=3)


@given(small, st.integers(1, 2), st.integers(1, 2))
@examples(40)
def test_the_rest_states_on_real_nodes_are_those_of_the_tree(counts: Counts, zone: int, host: int) -> None:
    """After every single eviction, under any feasible choice, names forgotten: the same placements, as many pending."""
    cluster = placed(counts, zone, host)
    if cluster is None:
        return
    view = View(cluster)
    try:
        _, problem = first_problem(cluster)
    except IndexError:
        return  # satisfied: there is no component
    assert isinstance(problem, SingleClassProblem)
    model, layout = problem.lookahead_model(SearchBudget(0)), problem.layout
    assert layout.root  # the tree below is the tests' own
    tree = TreeMoves(bounds_of(zone, host), CACHE)
    by_tree: dict[Nameless, set[tuple[Nameless, int]]] = {}
    for _, after in evictions(TreeState(state_of(counts))):
        ends = {(named(end), end.pending) for end in rest_states(after, tree)}
        by_tree[named(after)] = ends
    held = Counter(pod.node or "" for pod in cluster.pods)
    for site in layout.sites.values():
        victim = site.movable[0].pod
        made = replacement(victim, view)
        assert isinstance(made, Pod)
        deltas = change_cell((), model.cell(victim, site.node), -1)
        start = ViewState(view.without([victim]), deltas, (made,), ())
        moves = ViewMoves(model, any_feasible, SearchBudget(10**6), LIMITS)
        by_view = {
            (forget_names(_apply(held, end), layout.topology), len(end.waiting)) for end in rest_states(start, moves)
        }
        assert by_view == by_tree[forget_names(_apply(held, start), layout.topology)], site.node


def _apply(held: Counter[str], end: ViewState) -> Counter[str]:
    after = held.copy()
    for cell, change in end.deltas:
        after[str(cell)] += change
    return after


def named(state: TreeState) -> Nameless:
    """Return the pods by node of each zone of a tree, sorted."""
    zones = []
    for zone, times in state.root:
        leaves = cast("Inner", zone)
        nodes = sorted(cast("Leaf", leaf)[0] for leaf, number in leaves for _ in range(number))
        zones += [tuple(nodes)] * times
    return tuple(sorted(zones))


class Reserved(SingleClassModel):
    """A model in which others may take every place."""

    def has_capacity(self, _: Pod, __: str) -> bool:
        return False


def test_reserved_capacity_is_not_followed() -> None:
    """A node whose last capacity others may take is no certain target: what would follow is not known."""
    view, problem = first_problem(a_cluster("ab", 1, {"a-1": 3}, spread={ZONE: 1}).snapshot())
    assert isinstance(problem, SingleClassProblem)
    model = Reserved(problem.layout, problem.pods, 1, CACHE)
    step, attempt = look(view, model, SearchBudget(100_000), forced=True)
    assert step is None
    assert attempt.rejected == ((Flaw.UNKNOWN, 1),)


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_search_follows_no_second_eviction(*, quick: bool) -> None:
    """What is stuck until another goes is left to the full search."""
    blueprint = a_cluster("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    view, model = model_of(blueprint.snapshot())
    step, attempt = lookahead_step(
        view, model, StepGoal.FULL, SearchBudget(100_000), LIMITS, choose=any_feasible, quick=quick
    )
    assert (step is None) == quick
    assert not quick or Flaw.PENDING in dict(attempt.rejected)
