"""Whose turn it is: the cheapest of equal repairs, and a turn for every component whatever others cost."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning import planner
from rebalancer.planning.diagnosis import obstacles
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.multi_class import milp
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.solve import Unsolved, prefer_cheap_victims, solve
from rebalancer.planning.steps.boards import MultiClassBoard
from rebalancer.policy import Amount
from tests.planning.multi_class.test_classes import DEADLOCK, changed, limit, planned, policy, shards, together
from tests.planning.scenes import problems, several_kinds
from tests.planning.test_corners import joined


def two_kinds(first: int, second: int) -> Snapshot:
    """Return two workloads under one selector, of which one pod on a-0 must go, with their priorities."""
    blueprint = ClusterBuilder()
    for name in ("a-0", "a-1", "b-0", "b-1", "c-0"):
        blueprint.node(name, zone=name[0])
    both = {ZONE: 1, HOSTNAME: 1}
    blueprint.deployment("one", on={"a-0": 1, "a-1": 1}, spread=both, priority=first)
    blueprint.deployment("two", on={"a-0": 1, "b-1": 1, "c-0": 1}, spread=both, priority=second)
    return changed(blueprint.snapshot(), together, cluster="r")


@pytest.mark.parametrize("priorities", [(0, 1000), (1000, 0)])
def test_of_equal_repairs_the_one_that_spares_important_pods(priorities: tuple[int, int]) -> None:
    """Of two pods on one node that would do equally well, of different kinds, the less important goes."""
    (eviction,) = planned(two_kinds(*priorities)).evictions
    assert (eviction.pod.node, eviction.pod.spec.priority) == ("a-0", 0)


@pytest.mark.parametrize("shard", ["s0", "s1"])
def test_victims_of_last_resort_stay_where_another_shard_can_give_one(shard: str) -> None:
    """Whichever shard's pods are to go last, the deadlock is freed by another's."""
    rules = policy(f"groups: [{{name: g, selector: {{}}, avoid: {{matchLabels: {{app: {shard}}}}}, limits: []}}]")
    (eviction,) = planned(shards(DEADLOCK), rules).evictions
    assert eviction.pod.labels["app"] != shard


def test_a_search_for_the_cheapest_that_gives_up_keeps_the_fewest(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = [each for each in problems(two_kinds(0, 1000), policy()) if isinstance(each, MultiClassProblem)]
    solution = solve(problem)
    assert not isinstance(solution, Unsolved)
    assert prefer_cheap_victims(problem, solution).evictions == solution.evictions
    monkeypatch.setattr(milp.Model, "holds", lambda *_: False)
    assert prefer_cheap_victims(problem, solution) == solution


def test_a_limit_of_each_workload_beside_one_of_all() -> None:
    """Two of a shard in one zone, by a limit divided by workload: what counts one shard does not count the others."""
    rules = policy(
        "groups: [{name: g, selector: {}, groupBy: [cluster], limits: ["
        f"{{name: shard, groupBy: [Workload], topologyKey: {ZONE}, maxPods: 1, action: Evict}}, "
        f"{{name: all, topologyKey: {HOSTNAME}, maxPods: 2, action: Evict}}]}}]"
    )
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    for shard, on in {"s0": ("a-1", "a-2"), "s1": ("b-1", "c-1"), "s2": ("b-2", "c-2")}.items():
        blueprint.stateful_set(shard, on=dict.fromkeys(on, 1))
    snapshot = changed(blueprint.snapshot(), lambda _, spec: spec, cluster="r")
    found = planned(snapshot, rules)
    (group,) = found.groups
    assert (group.state, group.lower_bound, group.optimal) == (State.VIOLATED, 1, True)
    assert [each.pod.labels["app"] for each in found.evictions] == ["s0"]


def among(many: int, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with so many nodes more that may take none of its pods."""
    blueprint = ClusterBuilder()
    for number in range(many):
        blueprint.node(f"other-{number}", zone="abc"[number % 3])
    others = [msgspec.structs.replace(node, uid=f"o{node.uid}") for node in blueprint.snapshot().nodes]
    own = [msgspec.structs.replace(node, labels=Labels({**node.labels, "pool": "r"})) for node in snapshot.nodes]
    term = NodeSelectorTerm((SelectorRequirement(key="pool", operator=Operator.IN, values=("r",)),))

    def tied(_: str, spec: PodSpec) -> PodSpec:
        return msgspec.structs.replace(
            spec, node_affinity=msgspec.structs.replace(spec.node_affinity, required=(term,))
        )

    return changed(replace(snapshot, nodes=(*own, *others)), tied)


def test_thousands_of_other_nodes_hide_nothing() -> None:
    """A deadlock on six of 5,000 nodes is freed as on six of six."""
    assert len(planned(among(5_000, shards(DEADLOCK))).evictions) == 1


def test_every_component_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that nothing forces use up what looking ahead may cost; within as many minutes the deadlock is freed.

    Haste would free it at once.
    """
    monkeypatch.setattr(planner, "MOST_FORESIGHT", 10_000)
    monkeypatch.setattr(planner, "MOST_HASTE", 0)
    blueprint = ClusterBuilder()
    names = [f"other-{number}" for number in range(200)]
    for number, name in enumerate(names):
        blueprint.node(name, zone="abc"[number % 3])
    for number in range(3):
        on = dict(zip(names[number * 7 :], (9, 2, 1, 1, 1, 1), strict=False))
        blueprint.deployment(f"a{number}", on=on, spread={HOSTNAME: 9})
    tiered = changed(blueprint.snapshot(), lambda _, spec: spec, tier="a")
    base = among(0, shards(DEADLOCK))

    def owned(pod: Pod) -> Pod:
        assert pod.owner is not None
        return msgspec.structs.replace(
            pod, uid=f"o{pod.uid}", owner=msgspec.structs.replace(pod.owner, uid=f"o{pod.owner.uid}")
        )

    def named(each: Any) -> Any:
        top = each.owner and msgspec.structs.replace(each.owner, uid=f"o{each.owner.uid}")
        return msgspec.structs.replace(each, uid=f"o{each.uid}", owner=top)

    mixed = replace(
        base,
        nodes=(*base.nodes, *(msgspec.structs.replace(each, uid=f"o{each.uid}") for each in tiered.nodes)),
        pods=(*base.pods, *map(owned, tiered.pods)),
        workloads=(*base.workloads, *map(named, tiered.workloads)),
    )
    rules = policy(limit('maxShare: "<1/3"').replace("selector: {}", "selector: {matchLabels: {tier: a}}"))
    freed = [
        any(each.pod.labels["app"] in DEADLOCK for each in planned(later(mixed, minutes), rules).evictions)
        for minutes in range(4)
    ]
    assert any(freed)
    assert not all(freed), "else nothing was ever in short supply"


def later(snapshot: Snapshot, minutes: int) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=minutes))


def test_a_forced_step_of_one_is_made_where_budgets_allow_no_more() -> None:
    """0 | 0,4 with maxSkew 1 and 1 takes three, two of them at once in the end; the first goes under any budget."""
    for allowed in (1, 2):
        blueprint = ClusterBuilder()
        blueprint.node("a-1", zone="a")
        blueprint.node("b-1", zone="b")
        blueprint.node("b-2", zone="b")
        blueprint.deployment("web", on={"b-2": 4}, spread={ZONE: 1, HOSTNAME: 1})
        blueprint.budget("web", max_unavailable=allowed)
        found = planned(blueprint.snapshot())
        assert [each.pod.node for each in found.evictions] == ["b-2"]


def test_what_was_given_up_is_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the search for what stands in the way is cut short, nothing is said to be infeasible."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200)
    snapshot = changed(blueprint.snapshot(), together, cluster="r")
    full = replace(snapshot, nodes=tuple(msgspec.structs.replace(each, pods=6) for each in snapshot.nodes))
    none = replace(full, nodes=tuple(msgspec.structs.replace(each, pods=0) for each in full.nodes))
    (told,) = planned(none).groups
    assert (told.state, told.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)
    monkeypatch.setattr(obstacles, "solve", lambda _: Unsolved.GIVEN_UP)
    (cut,) = planned(none).groups
    assert (cut.state, cut.reason) == (State.VIOLATED, Reason.NOT_FORCED)
    assert "cut short" in cut.message


def web(**fields: Any) -> Snapshot:
    """Return four pods on one of two zones' nodes; the fields are the ReplicaSet's."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    return replace(snapshot, workloads=tuple(msgspec.structs.replace(each, **fields) for each in snapshot.workloads))


def test_annotations_that_say_nothing_about_moving_stop_nobody() -> None:
    assert planned(web(annotations=Labels({"team": "shop"}))).evictions
    assert not planned(web(annotations=Labels({"rebalancer.dev/exclude": "true"}))).evictions


def test_pods_that_have_not_been_ready_long_enough_count_as_missing() -> None:
    """With minReadySeconds, one that became Ready just now leaves no room for another to go."""
    snapshot = web(min_ready_seconds=60)
    young = snapshot.taken_at - timedelta(seconds=30)
    fresh = (msgspec.structs.replace(snapshot.pods[0], ready_since=young), *snapshot.pods[1:])
    budgets = policy().budgets.model_copy(update={"max_unavailable": Amount(value=1)})
    one = policy().model_copy(update={"budgets": budgets})
    assert planned(snapshot, one).evictions
    assert planned(replace(snapshot, pods=fresh), one).groups[0].reason is Reason.BLOCKED_BY_BUDGET


def test_a_deadlocked_pod_that_uses_up_the_group_is_named() -> None:
    """It counts as in flight like any other; what waits for it says so."""
    group = "groups: [{name: g, selector: {}, groupBy: [cluster], disruption: {maxInFlight: 1}, limits: []}]"
    found = planned(shards(DEADLOCK), policy(group))
    (waiting,) = found.waiting
    assert (found.evictions, waiting.reason) == ((), Reason.GROUP_IN_FLIGHT)
    assert "the pod that waits is one of them" in waiting.message
    assert len(planned(shards(DEADLOCK), policy(group.replace("maxInFlight: 1", "maxInFlight: 2"))).evictions) == 1


def test_a_pod_on_a_node_that_does_not_count_changes_nothing() -> None:
    """A supposed state is the same, as far as a group is concerned, wherever else one of its pods stands."""
    (problem,) = problems(web(), policy())
    assert isinstance(problem, SingleClassProblem)
    assert problem.layout.shifted({"elsewhere": 1}) == problem.layout.root
    assert problem.layout.shifted({"b-1": 1}) != problem.layout.root


@pytest.mark.parametrize("seed", [3, 153])
def test_looking_in_haste_takes_nothing_from_looking_on(seed: int) -> None:
    """A small component gets its step, found at once (the first) or only where others may follow (the second)."""
    scene = several_kinds(Random(seed))
    assert planned(scene.snapshot(), scene.policy()).evictions


def test_victims_that_cannot_be_followed_are_told_as_not_looked_at() -> None:
    """Where the replacement has more ways to go than are followed, nobody claims that no step exists."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 100)
    places = {f"a-{number}": 1 for number in range(1, 9)} | {f"b-{number}": 1 for number in range(1, 5)}
    blueprint.deployment("web", on=places, spread={ZONE: 5})
    (group,) = planned(blueprint.snapshot(), policy(limit("maxPods: 6", key=ZONE))).groups
    assert (group.evictions, group.reason) == (2, Reason.NOT_FORCED)
    assert "cut short" in group.message


def test_followers_that_cannot_be_followed_are_told_as_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """So too where the second of two that must be out at once could land in more ways than are followed."""
    monkeypatch.setattr(MultiClassBoard, "ways", 0)
    blueprint = ClusterBuilder()
    blueprint.zones("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("one", on={"a-1": 2, "b-1": 2}, spread={ZONE: 2, HOSTNAME: 1}, cpu=100)
    blueprint.deployment("two", on={"b-1": 2, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1}, cpu=200)
    found = planned(joined(blueprint))
    assert not found.evictions
    assert "cut short" in found.groups[0].message
