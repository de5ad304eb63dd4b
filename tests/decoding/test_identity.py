"""An object is what its group, kind and UID say: foreign kinds of our names are none of ours, and doubles are one."""

import json
from typing import Any

import pytest

from rebalancer.adapters.files import read_snapshot
from rebalancer.decoding.lists import FileContents, decode_file, reduce_file
from rebalancer.model.cluster import NEWEST


def a_list(*items: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": items, **fields}).encode()


def an_object(kind: str, version: str, *, name: str = "a", cpu: str = "", **metadata: Any) -> dict[str, Any]:
    made = {"kind": kind, "apiVersion": version, "metadata": {"name": name, **metadata}}
    return {**made, "status": {"allocatable": {"cpu": cpu}}} if cpu else made


@pytest.mark.parametrize(
    ("kind", "ours", "foreign"),
    [
        ("Node", "v1", "longhorn.io/v1beta2"),
        ("Service", "v1", "serving.knative.dev/v1"),
        ("Deployment", "apps/v1", "apps.kruise.io/v1"),
        ("StatefulSet", "apps/v1", "apps.kruise.io/v1beta1"),
        ("NodePool", "karpenter.sh/v1", "other.example/v1"),
        ("ServiceAccount", "v1", "iam.example/v1"),
    ],
)
def test_a_foreign_kind_of_the_same_name_is_none_of_ours(kind: str, ours: str, foreign: str) -> None:
    metadata = {"namespace": "n"} if kind != "Node" else {}
    data = a_list(an_object(kind, foreign, **metadata), an_object(kind, ours, name="b", **metadata))
    read = decode_file(FileContents.of(data))
    names = [one.name for objects in read.objects.values() for one in objects]
    assert (names, read.kinds, read.doubled) == (["b"], {kind}, 0)
    assert len(reduce_file(FileContents.of(data))[0]) == 1
    only_foreign = decode_file(FileContents.of(a_list(an_object(kind, foreign, **metadata))))
    assert not only_foreign.kinds, "and the kind stays unknown"


def test_a_list_of_a_foreign_kind_names_none_of_ours() -> None:
    foreign = json.dumps({"kind": "NodeList", "apiVersion": "longhorn.io/v1beta2", "items": []}).encode()
    assert decode_file(FileContents.of(foreign)).kinds == set()
    assert decode_file(FileContents.of(foreign.replace(b"longhorn.io/v1beta2", b"v1"))).kinds == {"Node"}


def test_an_object_without_a_version_is_ours_as_people_write_them() -> None:
    assert [
        node.name
        for node in decode_file(FileContents.of(a_list({"kind": "Node", "metadata": {"name": "a"}}))).objects["nodes"]
    ] == ["a"]


@pytest.mark.parametrize("first", [True, False])
def test_of_one_object_that_comes_twice_the_newest_counts(first: bool) -> None:
    old = an_object("Node", "v1", cpu="1", uid="u", resourceVersion="99")
    new = an_object("Node", "v1", cpu="2", uid="u", resourceVersion="100")
    data = a_list(*((new, old) if first else (old, new)))
    read = decode_file(FileContents.of(data))
    assert [node.allocatable.cpu for node in read.objects["nodes"]] == [2000]
    assert read.doubled == 1
    items, kinds, _, _ = reduce_file(FileContents.of(data))
    assert (len(items), set(kinds)) == (1, {"Node"})


def test_without_uids_and_versions_the_name_says_it_and_the_last_counts() -> None:
    nodes = [an_object("Node", "v1", cpu=cpu) for cpu in ("1", "2", "3")]
    read = decode_file(FileContents.of(a_list(*nodes, an_object("Node", "v1", name="b"))))
    assert [node.allocatable.cpu for node in read.objects["nodes"]] == [3000, 0]
    assert read.doubled == 2


def test_objects_without_a_name_and_of_other_namespaces_are_no_doubles() -> None:
    nameless = {"kind": "Node", "apiVersion": "v1", "metadata": {}}
    services = [an_object("Service", "v1", namespace=space) for space in ("x", "y")]
    assert decode_file(FileContents.of(a_list(nameless, nameless, *services))).doubled == 0


def test_doubles_are_said_once_with_their_number() -> None:
    node = an_object("Node", "v1", creationTimestamp="2026-01-02T03:04:05Z")
    for times, text in ((2, "1 object comes more than once"), (4, "3 objects come more than once")):
        _, warnings = read_snapshot(a_list(*[node] * times), version=NEWEST, at=None, source="dump.json")
        assert [warning for warning in warnings if "more than once" in warning] == [
            f"dump.json: {text}; each counts once, as its newest version is"
        ]
