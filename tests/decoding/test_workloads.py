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
from rebalancer.model.workloads import is_beyond, pod_ordinal


@pytest.mark.parametrize(
    ("spec", "wanted"), [({}, range(3)), ({"ordinals": {}}, range(3)), ({"ordinals": {"start": 5}}, range(5, 8))]
)
def test_a_stateful_set_says_which_ordinals_it_wants(spec: dict[str, Any], wanted: range) -> None:
    metadata = {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    text = json.dumps({"metadata": metadata, "spec": {"replicas": 3, **spec}})
    made = decode_stateful_set(msgspec.json.decode(text, type=wire.Owner), Interner())
    assert made.ordinals == wanted


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
