"""The patch of a finding in a cluster: applied to the document it removes the finding, and a smaller one does not."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.node_unschedulable import CORDONED
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import ZONE, affinity, budget, deployment, manifests, patched, spread, term, text

FREEING = {"rollingUpdate": {"maxUnavailable": 1}}


APART: dict[str, Any] = {"affinity": affinity(apart=[term()])}


def cpu(amount: str) -> list[dict[str, Any]]:
    return [{"name": "web", "image": "web", "resources": {"requests": {"cpu": amount}}}]


def nodes(zones: str = "abc", cordoned: str = "") -> Snapshot:
    """Return zones of one node of 16 cores each, of which one may be cordoned."""
    blueprint = ClusterBuilder()
    blueprint.zones(zones, 1)
    made = blueprint.snapshot()
    changed = (
        structs.replace(node, unschedulable=True, taints=(CORDONED,)) if node.name == f"{cordoned}-1" else node
        for node in made.nodes
    )
    return replace(made, nodes=tuple(changed))


def occupied(zone: str, cores: int) -> Snapshot:
    """Return three zones with two nodes, of which those in one have a pod of so many cores each."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    blueprint.deployment("db", namespace="shop", on={f"{zone}-1": 1, f"{zone}-2": 1}, cpu=1_000 * cores)
    return blueprint.snapshot()


def uneven(*numbers: int) -> Snapshot:
    """Return zones of these numbers of nodes."""
    blueprint = ClusterBuilder()
    for zone, number in zip("abc", numbers, strict=True):
        blueprint.zones(zone, number)
    return blueprint.snapshot()


def find(rule: Rule, cluster: Snapshot, *objects: dict[str, Any]) -> Sequence[Finding]:
    read = manifests(text(*objects))
    return [one for one in lint(read, Ground(cluster, read)) if one.rule is rule]


def scaler(most: int) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most}
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


PLACEMENT, MOST, ZONE_LOSS = Rule.NO_PLACEMENT, Rule.NO_PLACEMENT_AT_MOST, Rule.NOT_WITHOUT_A_ZONE


@pytest.mark.parametrize(
    ("rule", "cluster", "made", "expected"),
    [
        (PLACEMENT, nodes(), [deployment(4, **APART, strategy=FREEING)], {"replicas": 3}),
        (PLACEMENT, nodes(), [deployment(6, containers=cpu("10"))], {"replicas": 3}),
        (PLACEMENT, nodes(), [deployment(6, containers=cpu("20"))], {}),
        (PLACEMENT, nodes("ab"), [deployment(5, topologySpreadConstraints=[spread(minDomains=4)])], {"minDomains": 2}),
        (
            PLACEMENT,
            nodes(cordoned="c"),
            [deployment(6, topologySpreadConstraints=[spread()])],
            {"nodeTaintsPolicy": "Honor"},
        ),
        (
            PLACEMENT,
            occupied("c", 15),
            [deployment(6, topologySpreadConstraints=[spread()], containers=cpu("2"))],
            {"maxSkew": 3},
        ),
        (
            MOST,
            occupied("c", 15),
            [deployment(None, topologySpreadConstraints=[spread(max_skew=2)], containers=cpu("2")), scaler(8)],
            {"maxSkew": 4},
        ),
        (
            ZONE_LOSS,
            uneven(4, 4, 1),
            [deployment(6, topologySpreadConstraints=[spread()], containers=cpu("7"))],
            {"maxSkew": 2},
        ),
        (ZONE_LOSS, nodes(), [deployment(kind="StatefulSet", nodeSelector={ZONE: "a"})], {}),
    ],
)
def test_a_patch_changes_one_field_as_little_as_needed(
    rule: Rule, cluster: Snapshot, made: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    """Applied to the document it removes the finding; one step less leaves it."""
    (one,) = find(rule, cluster, *made)
    assert {str(operation.path[-1]): operation.value for operation in one.patch} == expected
    if not expected:
        return
    assert find(rule, cluster, patched(made[0], one), *made[1:]) == []
    (operation,) = one.patch
    if isinstance(operation.value, int):
        was = copy.deepcopy(one.manifest.find(operation.path)) or 1
        less = replace(one, patch=(operation._replace(value=operation.value + (1 if was > operation.value else -1)),))
        assert len(find(rule, cluster, patched(made[0], less), *made[1:])) == 1


@pytest.mark.parametrize("most", [7, 8, 20])
def test_an_autoscaler_may_choose_no_more_than_find_a_node(most: int) -> None:
    """Where no constraint can be loosened: 6 pods of 7 cores find a node, whatever is picked, and 7 do not."""
    made = deployment(None, containers=cpu("7"))
    (one,) = find(MOST, nodes(), made, scaler(most))
    assert one.manifest.kind == "HorizontalPodAutoscaler"
    assert "this autoscaler of Deployment shop/web" in one.message
    assert [(operation.path[-1], operation.value) for operation in one.patch] == [("maxReplicas", 6)]
    assert find(MOST, nodes(), made, patched(scaler(most), one)) == []
    assert len(find(MOST, nodes(), made, scaler(7))) == 1


def test_fewer_replicas_may_not_make_a_rollout_wedge() -> None:
    """A quarter of 4 pods is 1 that may be missing, a quarter of 3 is none: then 3 nodes are too few for an update."""
    made = deployment(4, **APART)
    (one,) = find(PLACEMENT, nodes(), made)
    assert [operation.value for operation in one.patch] == [2]
    assert [len(find(Rule.ROLLOUT_WEDGES, nodes(), deployment(number, **APART))) for number in (3, 2)] == [1, 0]


def test_a_patch_leaves_the_nodes_that_another_manifest_needs() -> None:
    """Zone c is full: with maxSkew 3 all 4 pods find a node for certain, and where 2 are on each the large one none."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.deployment("db", namespace="shop", on={"c-1": 1}, cpu=16_000)
    small = deployment(4, topologySpreadConstraints=[spread()], containers=cpu("1"))
    large = deployment(1, containers=cpu("15")) | {"metadata": {"name": "zoo", "namespace": "shop"}}
    (alone,) = find(PLACEMENT, blueprint.snapshot(), small)
    (beside,) = [one for one in find(PLACEMENT, blueprint.snapshot(), small, large) if one.manifest.name == "web"]
    assert [operation.path[-1] for operation in alone.patch] == ["maxSkew"]
    assert [operation.path[-1] for operation in beside.patch] == ["replicas"]


def test_a_pod_that_may_be_missing_helps_only_where_then_the_rollout_ends() -> None:
    """An old pod of 9 of 16 cores makes way for a new one of 10, and for none of 20."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.deployment("web", namespace="shop", on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=9_000)
    for amount, expected in (("10", [[1]]), ("20", [[]])):
        made = deployment(3, containers=cpu(amount), strategy={"rollingUpdate": {"maxUnavailable": 0}})
        found = find(Rule.ROLLOUT_WEDGES, blueprint.snapshot(), made)
        assert [[operation.value for operation in one.patch] for one in found] == expected


def test_no_change_of_replicas_that_a_budget_then_keeps_all_of() -> None:
    """Three pods with anti-affinity fit three nodes, unless a budget keeps three."""
    made = deployment(4, **APART, strategy=FREEING)
    for kept, patches in ((1, 1), (3, 0)):
        (one,) = find(Rule.NO_PLACEMENT, nodes(), made, budget(minAvailable=kept))
        assert len(one.patch) == patches
