"""Namespaces, nodes and CSI drivers as the API server sends them."""

import json
from typing import Any

import msgspec
import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import AUTOSCALERS, KIND_NAMED, OPTIONAL_KINDS
from rebalancer.decoding.lists import decode
from rebalancer.decoding.reduction import reduce_object
from rebalancer.model.cluster import SchedulingGroup
from rebalancer.model.storage import CSIDriver


@pytest.mark.parametrize(
    ("fields", "terminating"), [({}, False), ({"deletionTimestamp": "2026-01-02T03:04:05Z"}, True)]
)
def test_a_namespace_that_is_being_deleted_is_known_from_the_dump_too(
    fields: dict[str, Any], terminating: bool
) -> None:
    kind = KIND_NAMED["Namespace"]
    text = json.dumps({"metadata": {"name": "shop", **fields}, "status": {"phase": "Active"}}).encode()
    for data in (text, reduce_object(kind, msgspec.Raw(text))):
        assert decode(kind, data, Interner()).terminating is terminating


@pytest.mark.parametrize(
    ("unschedulable", "managers", "cordoned_by"),
    [
        (True, [("kubelet", {"f:status": {}}), ("kubectl", {"f:spec": {"f:unschedulable": {}}})], "kubectl"),
        (True, [("kubelet", {"f:status": {}}), ("cloud", {"f:spec": {"f:providerID": {}}})], ""),
        (True, [("apply", {})], ""),
        (False, [("kubectl", {"f:spec": {"f:unschedulable": {}}})], ""),
    ],
)
def test_who_has_cordoned_a_node_is_the_field_manager_that_owns_the_field(
    unschedulable: bool, managers: list[tuple[str, dict[str, Any]]], cordoned_by: str
) -> None:
    """A dump that is handed to somebody else does not say it."""
    kind = KIND_NAMED["Node"]
    fields = [{"manager": name, "operation": "Update", "fieldsV1": owned} for name, owned in managers]
    node = {"metadata": {"name": "a-1", "managedFields": fields}, "spec": {"unschedulable": unschedulable}}
    text = json.dumps(node).encode()
    assert decode(kind, text, Interner()).cordoned_by == cordoned_by
    assert decode(kind, reduce_object(kind, msgspec.Raw(text)), Interner()).cordoned_by == ""
    bare = json.dumps({**node, "metadata": {"name": "a-1"}}).encode()
    assert decode(kind, bare, Interner()).cordoned_by == ""


ZONE_LABEL: dict[str, Any] = {"f:metadata": {"f:labels": {"f:topology.kubernetes.io/zone": {}}}}
OTHER_LABEL: dict[str, Any] = {"f:metadata": {"f:labels": {"f:kubernetes.io/arch": {}}}}


@pytest.mark.parametrize(
    ("managers", "set_later"),
    [
        ([("kubelet", OTHER_LABEL, 0), ("cloud-controller-manager", ZONE_LABEL, 0)], True),
        ([("kubelet", OTHER_LABEL, 0), ("cloud-controller-manager", ZONE_LABEL, 5)], True),
        ([("kubelet", {"f:metadata": {"f:labels": {"f:failure-domain.beta.kubernetes.io/zone": {}}}}, 5)], False),
        ([("kubelet", ZONE_LABEL, 5), ("kubectl", OTHER_LABEL, 9)], False),
        # Nodes without a kubelet.
        ([("kwok", ZONE_LABEL, 0)], False),
        ([("kwok", ZONE_LABEL, 5)], True),
        ([("kwok", ZONE_LABEL, None)], False),
        ([("kwok", OTHER_LABEL, 5)], False),
        ([], False),
    ],
)
def test_since_when_a_node_has_its_zone_is_what_the_owner_of_the_label_says(
    managers: list[tuple[str, dict[str, Any], int | None]], set_later: bool
) -> None:
    """A kubelet registers its node with its own labels; what others own came afterwards, be it in the same second."""
    fields = [
        {"manager": name, "fieldsV1": owned, **({} if at is None else {"time": f"2026-01-02T03:04:0{at}Z"})}
        for name, owned, at in managers
    ]
    metadata = {"name": "a-1", "creationTimestamp": "2026-01-02T03:04:00Z", "managedFields": fields}
    node = decode(KIND_NAMED["Node"], json.dumps({"metadata": metadata}).encode(), Interner())
    assert (node.zone_since is not None) is set_later


@pytest.mark.parametrize(
    ("conditions", "never"),
    [
        ([], True),
        ([{"status": "False", "lastTransitionTime": "2026-01-02T03:04:10Z"}], True),
        ([{"status": "False", "lastTransitionTime": "2026-01-02T03:04:11Z"}], False),
        (
            [{"status": "Unknown", "reason": "NodeStatusNeverUpdated", "lastTransitionTime": "2026-01-02T03:05:05Z"}],
            True,
        ),
        ([{"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-01-02T03:05:05Z"}], False),
        ([{"status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}], False),
    ],
)
def test_a_node_whose_condition_is_as_old_as_itself_was_never_ready(
    conditions: list[dict[str, str]], never: bool
) -> None:
    node = {
        "metadata": {"name": "a-1", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {"conditions": [{"type": "Ready", **condition} for condition in conditions]},
    }
    kind, text = KIND_NAMED["Node"], json.dumps(node).encode()
    for data in (text, reduce_object(kind, msgspec.Raw(text))):
        assert decode(kind, data, Interner()).never_ready is never


@pytest.mark.parametrize(
    ("unschedulable", "taints", "ready", "lost_since"),
    [
        (False, {}, "True", None),
        (False, {}, "Unknown", "2026-01-02T03:04:05+00:00"),
        (True, {"node.kubernetes.io/unschedulable": "2026-01-02T03:00:00Z"}, "True", "2026-01-02T03:00:00+00:00"),
        (True, {"node.kubernetes.io/unschedulable": "2026-01-02T03:00:00Z"}, "False", "2026-01-02T03:00:00+00:00"),
        (True, {"node.kubernetes.io/unschedulable": None}, "True", None),
        (True, {"gpu": "2026-01-02T03:00:00Z"}, "True", None),
        (False, {"node.kubernetes.io/unschedulable": "2026-01-02T03:00:00Z"}, "True", None),
    ],
)
def test_since_when_a_node_takes_no_pods_is_known_by_its_taint_and_condition(
    unschedulable: bool, taints: dict[str, str | None], ready: str, lost_since: str | None
) -> None:
    """The earlier time of both; a cordon without its taint has no time."""
    listed = [{"key": key, "effect": "NoSchedule", "timeAdded": at} for key, at in taints.items()]
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:04:05Z"}
    node = {
        "metadata": {"name": "a-1"},
        "spec": {"unschedulable": unschedulable, "taints": listed},
        "status": {"conditions": [condition]},
    }
    kind = KIND_NAMED["Node"]
    for data in (json.dumps(node).encode(), reduce_object(kind, msgspec.Raw(json.dumps(node).encode()))):
        since = decode(kind, data, Interner()).lost_since
        assert (since and since.isoformat()) == lost_since


@pytest.mark.parametrize(("fields", "least"), [({}, 1), ({"minReplicas": 0}, 0), ({"minReplicas": 3}, 3)])
def test_an_autoscaler_that_says_no_least_number_leaves_one(fields: dict[str, int], least: int) -> None:
    """One that says 0 may leave none."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 9, **fields}
    text = json.dumps({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec}).encode()
    for data in (text, reduce_object(AUTOSCALERS, msgspec.Raw(text))):
        assert decode(AUTOSCALERS, data, Interner()).min_replicas == least


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({}, False),
        ({"spec": {}}, False),
        ({"spec": {"disruptionMode": None}}, False),
        ({"spec": {"disruptionMode": {"single": {}}}}, False),
        ({"spec": {"disruptionMode": {"all": {}}, "schedulingPolicy": {"gang": {"minCount": 2}}}}, True),
    ],
)
def test_a_pod_group_is_disrupted_as_a_whole_where_its_mode_is_all(fields: dict[str, Any], whole: bool) -> None:
    (kind,) = (kind for kind in OPTIONAL_KINDS if kind.name == "PodGroup")
    text = json.dumps({"metadata": {"namespace": "shop", "name": "train"}, **fields}).encode()
    for data in (text, reduce_object(kind, msgspec.Raw(text))):
        assert decode(kind, data, Interner()) == SchedulingGroup(namespace="shop", name="train", whole=whole)


@pytest.mark.parametrize(
    ("fields", "attaches"),
    [
        ({}, True),
        ({"spec": {}}, True),
        ({"spec": {"attachRequired": None}}, True),
        ({"spec": {"attachRequired": True}}, True),
        ({"spec": {"attachRequired": False, "podInfoOnMount": True}}, False),
    ],
)
def test_a_driver_attaches_unless_it_says_otherwise(fields: dict[str, Any], attaches: bool) -> None:
    (kind,) = (kind for kind in OPTIONAL_KINDS if kind.name == "CSIDriver")
    text = json.dumps({"metadata": {"name": "disks.test"}, **fields}).encode()
    for data in (text, reduce_object(kind, msgspec.Raw(text))):
        assert decode(kind, data, Interner()) == CSIDriver(name="disks.test", attach_required=attaches)
