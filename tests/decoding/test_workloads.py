"""Owners as the API server sends them."""

import json
from typing import Any

import msgspec
import pytest

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.reduction import reduce_object
from rebalancer.decoding.workloads import decode_replica_set, decode_replication_controller, decode_stateful_set
from rebalancer.model.workloads import Workload, is_beyond, pod_ordinal


@pytest.mark.parametrize(
    ("spec", "wanted"), [({}, range(3)), ({"ordinals": {}}, range(3)), ({"ordinals": {"start": 5}}, range(5, 8))]
)
def test_a_stateful_set_says_which_ordinals_it_wants(spec: dict[str, Any], wanted: range) -> None:
    metadata = {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    text = json.dumps({"metadata": metadata, "spec": {"replicas": 3, **spec}})
    made = decode_stateful_set(msgspec.json.decode(text, type=wire.Owner), Interner())
    assert made.ordinals == wanted


def a_stateful_set(spec: dict[str, Any], current: str = "db-1") -> Workload:
    """Read a StatefulSet that updates to db-2, as it is sent and as a dump of the cluster has it."""
    metadata = {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    status = {"replicas": 3, "updatedReplicas": 1, "currentRevision": current, "updateRevision": "db-2"}
    kind = KIND_NAMED["StatefulSet"]
    text = json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()
    sent, dumped = (
        kind.convert(kind.sources.decode(data), Interner()) for data in (text, reduce_object(kind, msgspec.Raw(text)))
    )
    assert sent == dumped
    assert isinstance(sent, Workload)
    return sent


@pytest.mark.parametrize(
    ("strategy", "on_delete"), [({}, False), ({"type": "RollingUpdate"}, False), ({"type": "OnDelete"}, True)]
)
def test_a_stateful_set_with_on_delete_has_no_rollout_of_its_own(strategy: dict[str, Any], on_delete: bool) -> None:
    """Its status counts no pod as up to date until all are deleted by others; its revision is the one it updates to."""
    source = {
        "metadata": {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"replicas": 3, "updateStrategy": strategy},
        "status": {"replicas": 3, "updatedReplicas": 0, "currentRevision": "db-1", "updateRevision": "db-2"},
    }
    made = decode_stateful_set(msgspec.json.decode(json.dumps(source), type=wire.Owner), Interner())
    assert (made.on_delete, made.revision, made.updated) == (on_delete, "db-2", 3 if on_delete else 0)


@pytest.mark.parametrize(
    ("strategy", "partition"),
    [
        ({}, 0),
        ({"type": "RollingUpdate"}, 0),
        ({"type": "RollingUpdate", "rollingUpdate": {}}, 0),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "30%"}}, 2),
    ],
)
def test_a_stateful_set_says_which_pods_its_partition_holds_back(strategy: dict[str, Any], partition: int) -> None:
    """Counted from its first ordinal, and no more than it wants."""
    made = a_stateful_set({"replicas": 3, "ordinals": {"start": 4}, "updateStrategy": strategy})
    assert made.held_back == range(4, 4 + partition)
    assert [made.revision_at(ordinal) for ordinal in (4, 6)] == ["db-1" if partition else "db-2", "db-2"]


def test_a_partition_beyond_the_replicas_holds_back_all_pods() -> None:
    rolling = {"rollingUpdate": {"partition": 9}}
    assert a_stateful_set({"replicas": 3, "updateStrategy": rolling}).held_back == range(3)


@pytest.mark.parametrize("current", ["", "db-2"])
def test_without_an_older_revision_nothing_is_held_back(current: str) -> None:
    """The controller takes the newest revision for the current one where its status has none."""
    rolling = {"rollingUpdate": {"partition": 2}}
    assert not a_stateful_set({"replicas": 3, "updateStrategy": rolling}, current).held_back


@pytest.mark.parametrize(("policy", "parallel"), [("", False), ("OrderedReady", False), ("Parallel", True)])
def test_a_stateful_set_creates_pods_in_turn_unless_it_says_parallel(policy: str, parallel: bool) -> None:
    spec = {"podManagementPolicy": policy} if policy else {}
    assert a_stateful_set(spec).parallel == parallel


def reference(kind: str = "Pod", uid: str = "p", api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid, **fields}


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        (None, ""),
        ([], ""),
        ([reference()], "p"),
        ([reference(controller=True)], "p"),
        ([reference(), reference(controller=True)], "p"),
        ([reference(), reference(uid="q")], ""),
        ([reference(), reference("Service", "s")], ""),
        ([reference("Node", "n")], ""),
        ([reference(api_version="example.com/v1")], ""),
    ],
)
def test_an_object_goes_with_the_pod_that_is_its_only_owner(references: Any, expected: str) -> None:
    """With another owner it stays; whether the pod is its controller does not matter."""
    metadata = {"name": "x", "namespace": "shop", "uid": "u", "ownerReferences": references}
    text = json.dumps({"metadata": metadata, "spec": {}}).encode()
    for name in ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        kind = KIND_NAMED[name]
        for data in (text, reduce_object(kind, msgspec.Raw(text))):
            assert kind.convert(kind.sources.decode(data), Interner()).owning_pod == expected


@pytest.mark.parametrize(
    ("name", "beyond"), [("db-4", True), ("db-5", False), ("db-7", False), ("db-8", True), ("db", False)]
)
def test_a_stateful_set_deletes_what_is_outside_of_its_ordinals(name: str, beyond: bool) -> None:
    """Before the first of them, too; a pod without a number is none of its pods."""
    metadata = {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    text = json.dumps({"metadata": metadata, "spec": {"replicas": 3, "ordinals": {"start": 5}}})
    owner = decode_stateful_set(msgspec.json.decode(text, type=wire.Owner), Interner())
    assert is_beyond(pod_ordinal(name), owner) == beyond


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (
            [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}],
            "exceeded quota",
        ),
        ([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}], "FailedCreate"),
        ([{"type": "ReplicaFailure", "status": "False", "reason": "FailedCreate", "message": "exceeded quota"}], ""),
        ([{"type": "ReplicaFailure", "status": "True", "reason": "FailedDelete", "message": "timeout"}], ""),
        ([{"type": "Other", "status": "True", "reason": "FailedCreate", "message": "x"}], ""),
        (None, ""),
    ],
)
def test_an_owner_that_cannot_create_pods_says_why(conditions: Any, expected: str) -> None:
    """In its condition ReplicaFailure, which a dump of the cluster keeps; a pod that cannot be deleted is no reason."""
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    text = json.dumps({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}).encode()
    for name, convert in (
        ("ReplicaSet", decode_replica_set),
        ("ReplicationController", decode_replication_controller),
    ):
        kind = KIND_NAMED[name]
        for data in (text, reduce_object(kind, msgspec.Raw(text))):
            failure = convert(kind.sources.decode(data), Interner()).creation_failure
            assert failure == expected
