"""Which rollouts in a cluster are said to wedge for certain: none that a way, or what else moves, may end."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import affinity, as_written, deployment, manifests, term, text

CORE = 1_000
APART: dict[str, Any] = affinity(apart=[term()])


def cores(number: int) -> list[dict[str, Any]]:
    return [{"name": "web", "image": "web", "resources": {"requests": {"cpu": number}}}]


def update(surge: int, unavailable: int) -> dict[str, Any]:
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def wedges(snapshot: Snapshot, *objects: dict[str, Any]) -> list[str]:
    """Return the severities of what is said of rollouts that wedge."""
    read = manifests(text(*objects))
    return [one.severity.value for one in lint(read, Ground(snapshot, read)) if one.rule is Rule.ROLLOUT_WEDGES]


def running(on: dict[str, int], **fields: Any) -> ClusterBuilder:
    """Return nodes a-1 to c-1 of 4 cores, and pods of the Deployment `shop/web` there, of 1 core each."""
    blueprint = ClusterBuilder()
    for zone in "abc":
        blueprint.node(f"{zone}-1", cpu=4 * CORE, zone=zone, pool="old")
    blueprint.deployment("web", namespace="shop", on=on, **{"cpu": CORE, **fields})
    return blueprint


EVERYWHERE = {"a-1": 1, "b-1": 1, "c-1": 1}
SURGING = update(1, 0)


def test_old_pods_outside_the_nodes_of_the_new_template_block_no_rollout() -> None:
    """They move from one pool of three nodes to another, and anti-affinity leaves each new pod a node."""
    blueprint = running(EVERYWHERE)
    for zone in "abc":
        blueprint.node(f"{zone}-2", cpu=4 * CORE, zone=zone, pool="new")
    moved = deployment(strategy=SURGING, affinity=APART, nodeSelector={"pool": "new"})
    assert wedges(blueprint.snapshot(), moved) == []
    assert wedges(blueprint.snapshot(), deployment(strategy=SURGING, affinity=APART, nodeSelector={"pool": "old"})) == [
        "error"
    ]


def test_anti_affinity_that_selects_new_pods_alone_blocks_no_rollout() -> None:
    labels = {"app": "web", "version": "v2"}
    versioned = affinity(apart=[term(labelSelector={"matchLabels": labels})])
    assert wedges(running(EVERYWHERE).snapshot(), deployment(strategy=SURGING, affinity=versioned, labels=labels)) == []


def test_a_rollout_that_some_way_ends_is_no_error() -> None:
    """The old pod of a cordoned node may go first, and then a node is missing; or it goes last."""
    blueprint = running(EVERYWHERE)
    blueprint.node("d-1", cpu=4 * CORE, zone="d")
    snapshot = blueprint.snapshot()
    nodes = [structs.replace(node, unschedulable=node.name == "c-1") for node in snapshot.nodes]
    assert wedges(replace(snapshot, nodes=tuple(nodes)), deployment(strategy=SURGING, affinity=APART)) == ["warning"]


def test_what_rolls_out_nothing_is_no_error() -> None:
    """A template that the cluster has already, or that is paused: only the next rollout would wedge."""
    made = deployment(strategy=SURGING, affinity=APART)
    assert wedges(as_written(running(EVERYWHERE).snapshot(), made), made) == ["warning"]
    assert wedges(running(EVERYWHERE).snapshot(), made | {"spec": {**made["spec"], "paused": True}}) == ["warning"]
    larger = deployment(strategy=SURGING, containers=cores(4))
    assert wedges(running(EVERYWHERE).snapshot(), larger) == ["error"]
    assert wedges(running(EVERYWHERE).snapshot(), larger | {"spec": {**larger["spec"], "paused": True}}) == []


def test_surplus_pods_go_before_a_rollout_begins() -> None:
    """Of three pods on each of three nodes two go, and there is room."""
    full = running(dict.fromkeys(EVERYWHERE, 3)).snapshot()
    assert wedges(full, deployment(9, strategy=SURGING, containers=cores(2))) == ["error"]
    assert wedges(full, deployment(3, strategy=SURGING, containers=cores(2))) == []


def beside(kind: str | None) -> Snapshot:
    """Return a pod of two cores beside each of `shop/web`: of an owner of some kind, None of nobody."""
    blueprint = running(EVERYWHERE)
    blueprint.deployment("batch", namespace="shop", on=EVERYWHERE, cpu=2 * CORE)
    snapshot = blueprint.snapshot()
    owner = OwnerReference(group="batch", kind=kind, name="batch", uid="batch") if kind is not None else None
    pods = [
        structs.replace(pod, owner=owner, labels=Labels({})) if pod.name.startswith("batch") else pod
        for pod in snapshot.pods
    ]
    return replace(snapshot, pods=tuple(pods))


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [("Job", 2, "warning"), (None, 2, "warning"), ("DaemonSet", 2, "error"), ("Job", 4, "error")],
)
def test_pods_that_may_end_leave_room_for_a_rollout(kind: str | None, size: int, expected: str) -> None:
    """An error is what no end of theirs helps."""
    assert wedges(beside(kind), deployment(strategy=SURGING, containers=cores(size))) == [expected]


def sick(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, pods=tuple(structs.replace(pod, ready=False) for pod in snapshot.pods))


def outranking(snapshot: Snapshot) -> Snapshot:
    """Return a cluster with a pod of a lower priority, which gives no node enough room if it goes."""
    (first, *rest) = snapshot.pods
    low = structs.replace(first, uid="low", name="low", owner=None, labels=Labels({}), requests=first.requests)
    low = structs.replace(low, spec=structs.replace(low.spec, priority=-1))
    return replace(snapshot, pods=(low, first, *rest))


@pytest.mark.parametrize("change", [sick, outranking])
def test_a_rollout_that_is_not_searched_and_does_not_begin_is_a_warning(change: Callable[[Snapshot], Snapshot]) -> None:
    """As long as it has no fewer pods than are wanted; a smaller template begins."""
    snapshot = change(running(EVERYWHERE).snapshot())
    assert wedges(snapshot, deployment(strategy=SURGING, containers=cores(4))) == ["warning"]
    assert wedges(snapshot, deployment(2, strategy=SURGING, containers=cores(4))) == []
    assert wedges(snapshot, deployment(strategy=SURGING, containers=cores(2))) == []


def test_of_more_pods_than_are_searched_the_first_step_is_proved() -> None:
    blueprint = ClusterBuilder()
    blueprint.node("a-1", cpu=64 * CORE)
    blueprint.deployment("web", namespace="shop", on={"a-1": 63}, cpu=CORE)
    assert wedges(blueprint.snapshot(), deployment(63, strategy=SURGING, containers=cores(2))) == ["error"]
