"""What is above a ReplicaSet is the workload, if its ReplicaSets are those of one."""

from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import OwnerReference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload

NOW = datetime(2026, 5, 4, tzinfo=UTC)
ROLLOUT = OwnerReference(group="argoproj.io", kind="Rollout", name="pay", uid="top")


def owner(kind: str, name: str, *, group: str = "apps", **fields: Any) -> Workload:
    return Workload(group=group, kind=kind, namespace="shop", name=name, uid=name, created=NOW, **fields)


def replica_set(name: str, above: OwnerReference, app: str = "pay", *, replicas: int = 2) -> Workload:
    labels = Labels({"app": app, "rollouts-pod-template-hash": name})
    return owner(
        "ReplicaSet",
        name,
        owner=above,
        replicas=replicas,
        selector=LabelSelector.of(labels),
        template=PodTemplate(labels=labels),
    )


def tops(*workloads: Workload) -> dict[str, str]:
    return {uid: str(top) for uid, top in Snapshot(taken_at=NOW, workloads=workloads).tops.items()}


def above(**fields: Any) -> Workload:
    return owner("Rollout", "top", group="argoproj.io", **fields)


def test_an_owner_that_was_not_read_is_made_of_what_its_replica_sets_say() -> None:
    snapshot = Snapshot(
        taken_at=NOW, workloads=(replica_set("old", ROLLOUT, replicas=0), replica_set("new", ROLLOUT, replicas=3))
    )
    top = snapshot.top_of(snapshot.workload["new"])
    assert str(top) == "shop/pay (Rollout)"
    assert (top.uid, top.replicas, top.current, top.updated, str(top.selector)) == ("top", 3, 3, 3, "app=pay")
    assert snapshot.top_of(snapshot.workload["old"]) is top
    assert "top" not in snapshot.workload, "it is no object that was read"


def test_an_operators_object_with_several_workloads_is_none() -> None:
    several = (replica_set("one", ROLLOUT, "web"), replica_set("two", ROLLOUT, "data"))
    assert tops(*several) == {}
    part_of = LabelSelector((SelectorRequirement("app", Operator.EXISTS),))
    assert tops(above(selector=part_of), *several) == {}, "though it selects the pods of both"


def test_an_owner_of_a_replica_set_and_of_something_else_is_none() -> None:
    assert tops(replica_set("one", ROLLOUT), owner("StatefulSet", "data", owner=ROLLOUT)) == {}


def test_replica_sets_of_two_namespaces_are_no_workload() -> None:
    other = structs.replace(replica_set("two", ROLLOUT), namespace="cart")
    assert tops(replica_set("one", ROLLOUT), other) == {}


def test_an_owner_that_was_read_is_the_workload_of_what_it_selects() -> None:
    below = replica_set("one", ROLLOUT)
    assert tops(above(selector=LabelSelector.of({"app": "pay"})), below) == {"one": "shop/top (Rollout)"}
    assert tops(above(selector=LabelSelector.of({"app": "other"})), below) == {}
    assert tops(above(selector=LabelSelector()), below) == {}


def test_one_that_was_read_and_has_no_selector_is_known_by_its_replica_sets() -> None:
    """A Rollout with a workloadRef."""
    assert tops(above(), replica_set("one", ROLLOUT)) == {"one": "shop/top (Rollout)"}
    assert tops(above(), replica_set("one", ROLLOUT, "web"), replica_set("two", ROLLOUT, "data")) == {}


def test_a_deployment_is_above_its_replica_sets_and_one_that_was_not_read_is_not_guessed() -> None:
    reference = OwnerReference(group="apps", kind="Deployment", name="web", uid="web")
    below = replica_set("one", reference)
    assert tops(owner("Deployment", "web"), below) == {"one": "shop/web (Deployment)"}
    assert tops(below) == {}


def test_nothing_else_is_below_another_workload() -> None:
    reference = OwnerReference(group="search.example", kind="Cluster", name="es", uid="es")
    stateful = owner("StatefulSet", "data", owner=reference, selector=LabelSelector.of({"app": "es"}))
    assert (
        tops(stateful, owner("Cluster", "es", group="search.example", selector=LabelSelector.of({"app": "es"}))) == {}
    )
    assert tops(stateful) == {}


def test_a_replica_set_without_a_template_or_selector_is_known_by_its_labels() -> None:
    bare = owner("ReplicaSet", "one", owner=ROLLOUT, labels=Labels({"app": "pay"}))
    assert tops(above(selector=LabelSelector.of({"app": "pay"})), bare) == {"one": "shop/top (Rollout)"}
    assert tops(bare) == {"one": "shop/pay (Rollout)"}
