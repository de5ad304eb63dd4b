"""Every component has its turn, whatever the search for others costs."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.simulator import HOSTNAME, ClusterBuilder
from tests.build import change_specs, with_labels
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
    assert len(planned(among(5_000, shards(DEADLOCK))).evictions) == 1


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
    freed = [any(eviction.pod.labels["app"] in DEADLOCK for eviction in plan.evictions) for plan in plans]
    assert any(freed)
    assert not all(freed), "else nothing was ever in short supply"


def later(snapshot: Snapshot, minutes: int) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=minutes))


@pytest.mark.parametrize("seed", [3, 153])
def test_a_quick_search_takes_nothing_from_the_full_one(seed: int) -> None:
    """A small component gets its step, found at once (the first) or only where others may follow (the second)."""
    scene = several_classes(Random(seed))
    assert planned(scene.snapshot(), scene.policy()).evictions
