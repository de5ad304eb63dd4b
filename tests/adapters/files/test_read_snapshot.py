"""Snapshots from files."""

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from rebalancer.adapters.files import SnapshotFile, UnreadableSnapshot, read_snapshot, read_snapshots
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.model.cluster import NEWEST, Version
from rebalancer.model.snapshot import Snapshot

CREATED = "2026-01-01T00:00:00Z"
HEARTBEAT = "2026-01-02T03:04:05Z"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "creationTimestamp": CREATED, "labels": {"a": "1"}},
    "spec": {"nodeName": "a-1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
    "status": {"phase": "Running"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a-1", "creationTimestamp": CREATED},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "pods": "110"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": HEARTBEAT, "lastTransitionTime": CREATED}
        ],
    },
}
BROKEN = {"kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "status": {"phase": "Sleeping"}}


def listed(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def read(document: Any, at: datetime | None = None) -> tuple[Snapshot, tuple[str, ...]]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_snapshot(data, version=NEWEST, at=at, source="cluster.json")


def zipped() -> bytes:
    """Return an archive of one file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("cluster.json", "{}")
    return archive.getvalue()


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
        group = "v1" if changes["owner"] == "ReplicationController" else "apps/v1"
        owner = {"apiVersion": group, "kind": changes["owner"], "name": "x", "uid": "x", "controller": True}
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
        (b'{"kind": "List", "items": []} [', "after 1 document"),
        (b"NAME  READY\nweb-1 1/1\n", "not a Kubernetes object"),
        (b"[]", "not a Kubernetes object"),
        (b"{}", "missing required field `items`"),
        (b'{"kind": "Secret", "apiVersion": "v1"}', "it is a single Secret"),
        (b'{"kind": "RebalancePolicy", "apiVersion": "rebalancer.dev/v1alpha1"}', "it is a single RebalancePolicy"),
        (b'{"items": []}\n==== START logs for container a ====\n', "cluster-info dump --all-namespaces --output-dir"),
        (b"\x1f\x8bx", "cannot be decompressed"),
        (zipped(), "is a zip archive; expected text or gzip (use unzip -p FILE > OTHER)"),
        (bz2.compress(b"{}"), "is compressed by bzip2; expected text or gzip (use bunzip2 -c FILE > OTHER)"),
        (lzma.compress(b"{}"), "is compressed by xz; expected text or gzip (use xz -dc FILE > OTHER)"),
        (b"\x28\xb5\x2f\xfd\x24", "is compressed by zstd; expected text or gzip (use zstd -dc FILE > OTHER)"),
        (
            gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
            "is compressed by gzip within gzip; expected text or gzip (use gunzip -c",
        ),
        (
            gzip.compress(lzma.compress(b"{}"), mtime=0),
            "is compressed by xz within gzip; expected text or gzip (use gunzip -c",
        ),
        (b'Warning: v1 ComponentStatus is deprecated\n{"items": []}', "has warnings of kubectl before its JSON"),
        (b'Warning: old\r\nW0504 12:00:00.1 1 x.go:1] y\n\n{"items":[]}', "-o json 2>/dev/null"),
        (b'{"kind": "List", "items": [5]}', "one of its items is not a Kubernetes object"),
        (b"items: [", "line 2: neither JSON nor YAML"),
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


class TestFilesAsPeopleHaveThem:
    """Lists of lists, objects one after the other, a watch's events, several files, compressed or not: one cluster."""

    WHOLE = listed(POD, NODE)

    def expected(self) -> Snapshot:
        return read(self.WHOLE)[0]

    def test_a_list_of_lists_is_one(self) -> None:
        """As a list of the server's own lists, which say the kind once."""
        nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{**NODE, "apiVersion": "", "kind": ""}]}
        assert read(listed(listed(POD), nodes))[0] == self.expected()

    @pytest.mark.parametrize("separator", ["\n", "", "\n\n  "])
    def test_documents_may_follow_each_other(self, separator: str) -> None:
        text = separator.join(json.dumps(document, indent=2) for document in (listed(POD), listed(NODE)))
        assert read(text.encode())[0].pods == self.expected().pods
        assert read(text.encode())[0].nodes == self.expected().nodes

    def test_so_may_lines_of_objects_and_an_array(self) -> None:
        for text in ("\n".join(json.dumps(item) for item in (POD, NODE)), json.dumps([POD, NODE])):
            snapshot = read(text.encode())[0]
            assert (snapshot.pods, snapshot.nodes) == (self.expected().pods, self.expected().nodes)

    def test_yaml_documents_are_joined(self) -> None:
        text = yaml.safe_dump_all([listed(POD), NODE]) + "---\n"
        snapshot = read(text.encode())[0]
        assert (snapshot.pods, snapshot.nodes) == (self.expected().pods, self.expected().nodes)

    def test_what_is_compressed_is_read(self) -> None:
        assert read(gzip.compress(json.dumps(self.WHOLE).encode()))[0] == self.expected()

    def test_of_a_watch_the_last_event_of_each_object_counts(self) -> None:
        def event(type_: str, version: int, labels: dict[str, str], *, name: str = "web-1") -> str:
            metadata = {**POD["metadata"], "resourceVersion": str(version), "labels": labels, "name": name, "uid": name}  # type: ignore[dict-item]
            return json.dumps({"type": type_, "object": {**POD, "metadata": metadata}})

        bookmark = json.dumps({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}})
        lines = [event("ADDED", 1, {"a": "1"}), event("ADDED", 2, {}, name="gone"), event("MODIFIED", 3, {"a": "2"})]
        lines += [bookmark, event("DELETED", 4, {}, name="gone"), event("DELETED", 5, {}, name="back")]
        lines.append(event("ADDED", 6, {"a": "3"}, name="back"))
        snapshot = read("\n".join(lines).encode())[0]
        assert {pod.name: pod.labels["a"] for pod in snapshot.pods} == {"web-1": "2", "back": "3"}

    def test_an_equals_sign_is_text(self) -> None:
        """As kubectl prints it of Prometheus' kinds."""
        rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "AlertmanagerConfig", "metadata": {"name": "a"}}
        text = yaml.safe_dump(listed(POD, NODE, rule)) + "- kind: X\n  metadata: {name: x}\n  matchType: =\n"
        assert read(text.replace("kind: List\n", "").encode())[0].pods == self.expected().pods

    def test_files_are_joined_and_an_object_that_is_in_both_counts_once(self) -> None:
        files = [
            SnapshotFile("one.json", json.dumps(listed(POD)).encode()),
            SnapshotFile("two.json", json.dumps(self.WHOLE).encode()),
        ]
        snapshot, warnings = read_snapshots(files, version=NEWEST, at=None)
        assert snapshot == self.expected()
        assert warnings[0].startswith("the 2 files together: 1 object comes more than once")

    def test_the_file_that_is_none_is_named(self) -> None:
        files = [SnapshotFile("one.json", json.dumps(self.WHOLE).encode()), SnapshotFile("two.json", b"{}")]
        with pytest.raises(UnreadableSnapshot, match=r"two\.json: "):
            read_snapshots(files, version=NEWEST, at=None)
