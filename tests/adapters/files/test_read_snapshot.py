"""Snapshots from files."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from rebalancer.adapters.files import UnreadableSnapshot, read_snapshot
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.model.cluster import NEWEST, Version
from rebalancer.model.snapshot import Snapshot

CREATED = "2026-01-01T00:00:00Z"
HEARTBEAT = "2026-01-02T03:04:05Z"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "creationTimestamp": CREATED, "labels": {"a": "1"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
    "status": {"phase": "Running"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a-1", "creationTimestamp": CREATED},
    "spec": {},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": HEARTBEAT, "lastTransitionTime": CREATED}
        ]
    },
}
BROKEN = {"kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "status": {"phase": "Sleeping"}}


def listed(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def read(document: Any, at: datetime | None = None) -> tuple[Snapshot, tuple[str, ...]]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_snapshot(data, version=NEWEST, at=at, source="cluster.json")


def test_json_and_yaml_of_the_same_cluster_are_the_same_snapshot() -> None:
    from_json, _ = read(listed(POD, NODE))
    from_yaml, _ = read(yaml.safe_dump(listed(POD, NODE)).encode())
    assert from_json == from_yaml
    assert [str(pod) for pod in from_json.pods] == ["shop/web-1"]
    assert [node.name for node in from_json.nodes] == ["a-1"]


def test_times_that_yaml_would_guess_are_read_as_the_api_writes_them() -> None:
    """Hand-written files leave the quotes out."""
    text = f"kind: List\nitems:\n- kind: Node\n  metadata: {{name: a-1, creationTimestamp: {CREATED}}}\n"
    snapshot, _ = read(text.encode())
    assert snapshot.nodes[0].created == datetime(2026, 1, 1, tzinfo=UTC)
    assert not snapshot.faults


def test_its_time_is_the_newest_in_it() -> None:
    assert read(listed(POD, NODE))[0].taken_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "metadata",
    [
        {"deletionTimestamp": "2026-06-01T00:00:00Z"},
        {"annotations": {"rebalancer.dev/pause-until": "2027-01-01T00:00:00Z"}},
        {"annotations": {"note": '"creationTimestamp": "2027-01-01T00:00:00Z"'}},
        {"annotations": {"lastTransitionTime": "2026-02-31T00:00:00Z"}},
    ],
)
def test_times_to_come_are_not_taken_for_its_own(metadata: dict[str, Any]) -> None:
    pod = {**POD, "metadata": {**POD["metadata"], **metadata}}  # type: ignore[dict-item]
    assert read(listed(pod))[0].taken_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_its_time_may_be_given() -> None:
    given = datetime(2026, 5, 1, tzinfo=UTC)
    assert read(listed(POD, NODE), at=given)[0].taken_at == given


def test_a_file_without_any_time_says_so() -> None:
    bare = {"kind": "Node", "metadata": {"name": "a-1"}}
    snapshot, warnings = read(listed(bare))
    assert any("contains no timestamp" in warning and "--at" in warning for warning in warnings)
    assert snapshot.taken_at > snapshot.nodes[0].created


def test_absent_kinds_are_unknown_and_named_in_one_line() -> None:
    snapshot, warnings = read(listed(POD, NODE))
    assert snapshot.unknown == set(KIND_NAMED) - {"Pod", "Node"}
    (line,) = warnings
    assert line.startswith("cluster.json has no ")
    assert "PodDisruptionBudgets (disruption budgets)" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, set()),
        ({"owner": "StatefulSet"}, {"StatefulSet", "Service"}),
        ({"owner": "ReplicationController"}, {"ReplicationController", "Service"}),
        ({"owner": "ReplicaSet"}, {"ReplicaSet", "Deployment", "Service"}),
        ({"claim": True}, {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode"}),
    ],
)
def test_a_kind_that_no_pod_needs_is_not_named(changes: dict[str, Any], kinds: set[str]) -> None:
    """A cluster without StatefulSets prints none, although the command names them."""
    pod = json.loads(json.dumps(POD))
    if "owner" in changes:
        owner = {"apiVersion": "apps/v1", "kind": changes["owner"], "name": "x", "uid": "x", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
    if changes.get("claim"):
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    _, (line,) = read(listed(pod, NODE))
    optional = {"ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "Service", "PersistentVolume"}
    optional |= {"PersistentVolumeClaim", "StorageClass", "CSINode"}
    assert {kind for kind in optional if re.search(rf"\b{kind}(?:es|s)\b", line)} == kinds


def test_a_list_of_one_kind_is_known_even_if_it_is_empty() -> None:
    snapshot, _ = read({"kind": "PodDisruptionBudgetList", "items": []})
    assert "PodDisruptionBudget" not in snapshot.unknown


def test_a_malformed_object_is_left_out_with_a_warning() -> None:
    snapshot, warnings = read(listed(BROKEN, POD, NODE))
    assert [pod.name for pod in snapshot.pods] == ["web-1"]
    assert len(snapshot.faults) == 1
    assert any(
        warning.startswith("left out: Pod shop/bad") and "status.phase" in warning and "Sleeping" in warning
        for warning in warnings
    )


def test_the_version_is_taken_over() -> None:
    data = json.dumps(listed(POD)).encode()
    snapshot, _ = read_snapshot(data, version=Version(1, 31), at=None, source="f")
    assert snapshot.version == Version(1, 31)


def test_a_byte_order_mark_does_no_harm() -> None:
    data = b"\xef\xbb\xbf" + json.dumps(listed(POD)).encode()
    assert len(read(data)[0].pods) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xff\xfe{\0}\0", "is UTF-16"),
        (b"\x7fELF\0\0", "is binary"),
        (b'{"a": "\xe9"}', "is not UTF-8"),
        (b"\xc3", "is not UTF-8"),
        (b'{"items": [', "invalid JSON"),
        (b'{"kind": "List", "items": []} more', "invalid JSON"),
        (b"NAME  READY\nweb-1 1/1\n", "not a Kubernetes object"),
        (b"[]", "not a Kubernetes object"),
        (b"{}", "missing required field `items`"),
        (json.dumps(POD).encode(), "it is a single Pod"),
        (b'{"kind": "List", "items": [5]}', "one of its items is not a Kubernetes object"),
        (b"items: [", "line 2: neither JSON nor YAML"),
        (b"items: []\n---\nitems: []\n", "another document"),
        (b"\tx: 1", "neither JSON nor YAML"),
        (b"true: 1\n", "this YAML cannot be represented as JSON"),
        (b"a: !!timestamp x\n", "this YAML cannot be represented as JSON"),
        (b"a: !!int ''\n", "this YAML cannot be represented as JSON"),
        (b"a: !!bool x\n", "this YAML cannot be represented as JSON"),
    ],
)
def test_a_file_that_is_no_list_says_what_it_is(data: bytes, expected: str) -> None:
    """The message begins with the file's name, is one line, and names what is wrong."""
    with pytest.raises(UnreadableSnapshot) as caught:
        read(data)
    message = str(caught.value)
    assert message.startswith("cluster.json")
    assert expected in message
    assert "\n" not in message


def test_no_tag_makes_yaml_run_code() -> None:
    with pytest.raises(UnreadableSnapshot):
        read(b"items: !!python/object/apply:os.system ['true']\n")
