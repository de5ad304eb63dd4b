"""Every component has its turn, whatever the search for others costs."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached, SearchLimits
from rebalancer.planning.search.shares import CellShares, NamespaceBudgets
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, change_specs, with_labels
from tests.planning.build import DEADLOCK, limit, planned, policy, shards
from tests.planning.scenes import several_classes


def among(many: int, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with so many nodes more that may take none of its pods."""
    blueprint = ClusterBuilder()
    for number in range(many):
        blueprint.node(f"other-{number}", zone="abc"[number % 3])
    others = [structs.replace(node, uid=f"o{node.uid}") for node in blueprint.snapshot().nodes]
    own = [structs.replace(node, labels=Labels({**node.labels, "pool": "r"})) for node in snapshot.nodes]
    term = NodeSelectorTerm((SelectorRequirement(key="pool", operator=Operator.IN, values=("r",)),))

    def tied(_: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, node_affinity=structs.replace(spec.node_affinity, required=(term,)))

    return change_specs(replace(snapshot, nodes=(*own, *others)), tied)


def test_thousands_of_other_nodes_hide_nothing() -> None:
    """A deadlock on six of 5,000 nodes is freed as on six of six."""
    assert len(planned(among(5_000, shards(DEADLOCK))).fates.going) == 1


def test_every_component_has_its_turn() -> None:
    """Limits that nothing forces use up the budget of the lookahead; within as many minutes the deadlock is freed.

    A quick search would free it at once.
    """
    limits = SearchLimits(lookahead_nodes_of_plan=10_000, quick_nodes_of_plan=0)
    blueprint = ClusterBuilder()
    names = [f"other-{number}" for number in range(200)]
    for number, name in enumerate(names):
        blueprint.node(name, zone="abc"[number % 3])
    for number in range(8):
        on = dict(zip(names[number * 7 :], (9, 2, 1, 1, 1, 1), strict=False))
        blueprint.deployment(f"a{number}", on=on, spread={HOSTNAME: 9})
    tiered = with_labels(blueprint.snapshot(), tier="a")
    base = among(0, shards(DEADLOCK))

    def owned(pod: Pod) -> Pod:
        assert pod.owner is not None
        return structs.replace(pod, uid=f"o{pod.uid}", owner=structs.replace(pod.owner, uid=f"o{pod.owner.uid}"))

    def named(owner: Any) -> Any:
        top = owner.owner and structs.replace(owner.owner, uid=f"o{owner.owner.uid}")
        return structs.replace(owner, uid=f"o{owner.uid}", owner=top)

    both = replace(
        base,
        nodes=(*base.nodes, *(structs.replace(node, uid=f"o{node.uid}") for node in tiered.nodes)),
        pods=(*base.pods, *map(owned, tiered.pods)),
        workloads=(*base.workloads, *map(named, tiered.workloads)),
    )
    rules = policy(limit('maxShare: "<1/3"').replace("selector: {}", "selector: {matchLabels: {tier: a}}"))
    plans = [planned(later(both, minutes), rules, limits=limits) for minutes in range(4)]
    freed = [any(eviction.pod.labels["app"] in DEADLOCK for eviction in plan.fates.going) for plan in plans]
    assert any(freed)
    assert not all(freed), "else nothing was ever in short supply"


def later(snapshot: Snapshot, minutes: int) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=minutes))


@pytest.mark.parametrize("seed", [3, 153])
def test_a_quick_search_takes_nothing_from_the_full_one(seed: int) -> None:
    """A small component gets its step, found at once (the first) or only where others may follow (the second)."""
    scene = several_classes(Random(seed))
    assert planned(scene.snapshot(), scene.policy()).fates.going


def teams(namespaces: dict[str, int]) -> Snapshot:
    """Return namespaces with so many pairs of workloads of different size that are counted together, all lopsided."""
    blueprint = a_cluster("ab", 2)
    for namespace, pairs in namespaces.items():
        for pair in range(pairs):
            for size in SIZES:
                blueprint.deployment(f"p{pair}-{size}", namespace=namespace, on={"a-1": 3}, spread={ZONE: 1}, cpu=size)

    def joined(app: str, spec: PodSpec) -> PodSpec:
        names = tuple(f"{app[:3]}{size}" for size in SIZES)
        both = LabelSelector.of(None, [SelectorRequirement("app", Operator.IN, names)])
        return structs.replace(spec, spread=tuple(structs.replace(one, selector=both) for one in spec.spread))

    return change_specs(blueprint.snapshot(), joined)


SIZES, TOO_COSTLY = (100, 200), Reason.NAMESPACE_TOO_COSTLY
CELLS = 2 * 4
"""Of a pair: two pod classes on four nodes."""


def test_a_namespace_that_takes_more_than_its_share_waits_and_the_others_are_planned() -> None:
    """Of three pairs two are planned, in the namespace beside it all; each pair has its turn within three minutes."""
    snapshot, limits = teams({"many": 3, "one": 1}), SearchLimits(cells_of_namespace=2 * CELLS)
    moved = set()
    for minutes in range(3):
        plan = planned(later(snapshot, minutes), limits=limits)
        components = {group.name.split()[0] for group in plan.components if group.evictions}
        assert components == {"many", "one"}
        waiting = [one.refusal for one in plan.components if one.refusal and one.refusal.reason is TOO_COSTLY]
        (refusal,) = waiting
        assert "is 8. Of the 16 that a plan handles for each namespace, 0 are left for many" in str(refusal)
        moved |= {eviction.group for eviction in plan.fates.going if eviction.pod.namespace == "many"}
        moved |= {waits.eviction.group for waits in plan.fates.kept if waits.eviction.pod.namespace == "many"}
    assert len(moved) == 3
    within = planned(snapshot, limits=SearchLimits(cells_of_namespace=3 * CELLS))
    assert not [one for one in within.components if one.refusal and one.refusal.reason is TOO_COSTLY]


def test_a_component_that_is_built_again_takes_its_cells_once() -> None:
    """Its problem is made anew when others have taken capacity since."""
    shares = CellShares(10)
    assert shares.take("a", "first", 6) is None
    assert shares.take("a", "first", 6) is None
    refusal = shares.take("a", "second", 6)
    assert refusal is not None
    assert (refusal.cells, refusal.left, refusal.share) == (6, 4, 10)
    assert shares.take("b", "third", 10) is None


def test_of_a_search_budget_one_namespace_has_half_where_there_are_several() -> None:
    """What one spends counts against the whole; a namespace that is alone has all of it."""
    alone, both = (NamespaceBudgets(SearchBudget(100), names) for names in (["a", "a"], ["a", "b"]))
    alone.of("a").spend(100)
    with pytest.raises(SearchLimitReached):
        both.of("a").spend(51)
    both.of("b").spend(40)
    assert both.left == 9
