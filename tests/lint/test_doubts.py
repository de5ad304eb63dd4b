"""What is no error about a placement: pods that nobody replaces, priorities and scale-downs that are not known."""

from dataclasses import replace
from typing import Any

import pytest

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.cluster import PriorityClass
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import as_written, deployment, manifests, spread, text

CORE = 1_000
EVERYWHERE = {"a-1": 1, "b-1": 1, "c-1": 1}


def cores(number: int) -> list[dict[str, Any]]:
    return [{"name": "web", "image": "web", "resources": {"requests": {"cpu": number}}}]


def said(rule: Rule, snapshot: Snapshot, *objects: dict[str, Any]) -> list[tuple[str, str]]:
    read = manifests(text(*objects))
    return [(one.severity.value, one.message) for one in lint(read, Ground(snapshot, read)) if one.rule is rule]


def running(kind: str = "Deployment") -> ClusterBuilder:
    """Return three nodes of 4 cores with a pod of `shop/web` of 1 core each."""
    blueprint = ClusterBuilder()
    for zone in "abc":
        blueprint.node(f"{zone}-1", cpu=4 * CORE, zone=zone)
    make = blueprint.stateful_set if kind == "StatefulSet" else blueprint.deployment
    make("web", namespace="shop", on=EVERYWHERE, cpu=CORE)
    return blueprint


NONE = "none of 3 pods finds a node: of 3 nodes 3 have not enough cpu"
KEEPS = "updateStrategy keeps {} of the old template until they are deleted"


@pytest.mark.parametrize(
    ("strategy", "size", "expected"),
    [
        ({}, 5, [("error", NONE)]),
        ({"type": "OnDelete"}, 5, [("warning", f"{NONE}; {KEEPS.format('3 pods')}")]),
        ({"rollingUpdate": {"partition": 3}}, 5, [("warning", f"{NONE}; {KEEPS.format('3 pods')}")]),
        ({"rollingUpdate": {"partition": 2}}, 5, [("error", NONE)]),
        ({"type": "OnDelete"}, 2, []),
    ],
)
def test_pods_of_a_stateful_set_that_keep_their_template_lack_no_node(
    strategy: dict[str, Any], size: int, expected: list[tuple[str, str]]
) -> None:
    """An error is that one of the others finds none."""
    made = deployment(3, kind="StatefulSet", containers=cores(size), updateStrategy=strategy)
    assert said(Rule.NO_PLACEMENT, running("StatefulSet").snapshot(), made) == expected


def test_a_paused_deployment_creates_no_pod_of_another_template() -> None:
    """Of its own it does, when it is scaled up."""
    made = deployment(3, containers=cores(5))
    paused = made | {"spec": {**made["spec"], "paused": True}}
    doubt = f"{NONE}; the Deployment is paused, and none is created before it is resumed"
    for kind in ("Deployment", "StatefulSet"):  # there already, and not yet
        assert said(Rule.NO_PLACEMENT, running(kind).snapshot(), paused) == [("warning", doubt)]
    more = deployment(14, containers=cores(1))
    more["spec"]["paused"] = True
    found = said(Rule.NO_PLACEMENT, as_written(running().snapshot(), more), more)
    assert [severity for severity, _ in found] == ["error"]


def full() -> Snapshot:
    """Return a node of 4 cores with four pods of `shop/web`."""
    blueprint = ClusterBuilder()
    blueprint.node("a-1", cpu=4 * CORE, zone="a")
    blueprint.deployment("web", namespace="shop", on={"a-1": 4}, cpu=CORE)
    return blueprint.snapshot()


def test_pods_that_the_same_call_scales_down_leave_their_room() -> None:
    """All of them where none is wanted. Of some nobody knows which go, so that it is no error that others lack room."""
    other = deployment(1, containers=cores(2)) | {"metadata": {"name": "api", "namespace": "shop"}}
    for replicas, expected in ((4, ["error"]), (0, []), (1, ["warning"])):
        made = deployment(replicas, containers=cores(1))
        found = said(Rule.NO_PLACEMENT, as_written(full(), made), other, made)
        assert [severity for severity, _ in found] == expected
    made = deployment(1, containers=cores(1))
    ((_, message),) = said(Rule.NO_PLACEMENT, as_written(full(), made), other, made)
    assert message.endswith(
        "; shop/web (Deployment) is scaled down by the same call, and which of its pods go is not known"
    )


def test_a_rule_of_no_pods_over_a_key_that_no_node_has_is_no_error() -> None:
    for replicas, expected in ((1, "error"), (0, "warning")):
        made = deployment(replicas, topologySpreadConstraints=[spread("example.com/rack")])
        found = said(Rule.MISSING_DOMAINS, running().snapshot(), made)
        assert [severity for severity, _ in found] == [expected]


def test_a_priority_that_is_not_known_proves_nothing() -> None:
    """Its pods may preempt others; where the PriorityClasses were read, it is known whether they do."""
    high = PriorityClass(name="high", value=0, default=False, preempts=True)
    unread = replace(full(), unknown=frozenset({"PriorityClass"}))
    made = deployment(1, containers=cores(2), priorityClassName="high") | {
        "metadata": {"name": "api", "namespace": "shop"}
    }
    ((severity, message),) = said(Rule.NO_PLACEMENT, unread, made)
    assert severity == "warning"
    assert message.endswith(
        "; the snapshot has no PriorityClass high, by which they may preempt others: add PriorityClasses to it"
    )
    known = replace(full(), priority_classes=(high,))
    assert [severity for severity, _ in said(Rule.NO_PLACEMENT, known, made)] == ["error"]
    own = deployment(4, containers=cores(2), priorityClassName="high")
    for snapshot, expected in ((unread, "warning"), (known, "error")):
        assert [severity for severity, _ in said(Rule.ROLLOUT_WEDGES, snapshot, own)] == [expected]


@pytest.mark.parametrize(
    ("hard", "replicas", "size", "expected"),
    [
        (3, 3, 1, []),
        (3, 4, 1, ["with all replacements 4 are needed"]),
        (3, 3, 2, []),
        (2, 3, 2, ["with all replacements 3 are needed"]),
    ],
)
def test_a_quota_counts_all_pods_once_they_are_deployed(
    hard: int, replicas: int, size: int, expected: list[str]
) -> None:
    """Of a scale-up, and of a rollout, whose old pods are gone at its end: a warning where it admits fewer."""
    made = deployment(replicas, containers=cores(size))
    snapshot = running().snapshot()
    there = as_written(snapshot, made) if size == 1 else snapshot
    quota = ResourceQuota(namespace="shop", name="few", hard=(("pods", hard),), used=(("pods", 3),))
    found = said(Rule.NO_PLACEMENT, replace(there, quotas=(quota,)), made)
    assert [severity for severity, _ in found] == ["warning" for _ in expected]
    assert [message.rpartition(", and ")[2] for _, message in found] == expected


def test_a_quota_that_admits_too_few_of_a_new_workload_is_a_warning() -> None:
    """Each pod counts once."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    for hard, expected in ((3, []), (2, ["warning"]), (0, ["warning"])):
        quota = ResourceQuota(namespace="shop", name="few", hard=(("pods", hard),), used=(("pods", 0),))
        found = said(Rule.NO_PLACEMENT, replace(blueprint.snapshot(), quotas=(quota,)), deployment(3))
        assert [severity for severity, _ in found] == expected
