"""`rebalancer explain`: why something is, or is not, moved."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.documents.document import document_schema
from rebalancer.documents.explanation import ExplanationDocument
from tests.cli.files import ready_nodes, write_list
from tests.control_plane.layout import deployment
from tests.control_plane.manifests import ZONE, nodes, pod, spread
from tests.control_plane.resources import Manifest
from tests.known_states.build import clone_set
from tests.known_states.build import cluster as foreign_cluster

WEB = {"app": "web"}
LATER = ("--at", "2026-01-01T00:00:00Z")


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return a file: a Deployment of six, five in one zone and one in the other, and a pod that nobody owns."""
    web = deployment("web", {"a-0": 5, "b-0": 1}, namespace="demo", topologySpreadConstraints=[spread(labels=WEB)])
    items = [*ready_nodes({"a": 1, "b": 1}), *owned(web.pods, web.owners), pod("bare", on="a-0")]
    return write_list(tmp_path / "cluster.yaml", items)


def owned(pods: Sequence[Manifest], owners: Sequence[Manifest]) -> list[Manifest]:
    """Write ownership down as the controllers would: pods belong to the ReplicaSet, that to the Deployment."""
    replica_set, top = owners
    for name, document in (("rs", replica_set), ("top", top)):
        document["metadata"]["uid"] = name
        document["status"] = {"replicas": 6, "readyReplicas": 6, "updatedReplicas": 6, "observedGeneration": 1}
        document["metadata"]["generation"] = 1
    reference = {"apiVersion": "apps/v1", "controller": True}
    replica_set["metadata"]["ownerReferences"] = [
        {**reference, "kind": "Deployment", "name": top["metadata"]["name"], "uid": "top"}
    ]
    for number, document in enumerate(pods):
        document["metadata"] |= {"name": f"web-{number}", "creationTimestamp": "2020-01-01T00:00:00Z"}
        document["metadata"]["ownerReferences"] = [
            {**reference, "kind": "ReplicaSet", "name": replica_set["metadata"]["name"], "uid": "rs"}
        ]
        document["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return [*pods, replica_set, top]


def explained(cluster: str, name: str, capsys: pytest.CaptureFixture[str], *more: str) -> ExplanationDocument:
    assert entry.main(["explain", name, "--snapshot", cluster, "-o", "json", *LATER, *more]) == Exit.FINE
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, document_schema(ExplanationDocument))
    return msgspec.convert(document, ExplanationDocument)


def test_a_pod_is_explained_constraint_by_constraint_and_node_by_node(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = explained(cluster, "pod/web-0", capsys)
    answers = {answer.question: answer for answer in document.path}
    held = answers[f"Is {ZONE} (maxSkew 1, hard) satisfied?"]
    assert (held.answer, held.evidence) == ("Violated: skew 4", "a:5 b:1; this pod is in 'a'")
    landing = answers["Where would kube-scheduler place that?"]
    assert "kube-scheduler picks b-0" in landing.answer
    assert landing.evidence == "PodTopologySpread rejects a-0"
    assert answers["Is it evicted?"].answer == "it would be now; mode Observe moves none"
    assert document.verdict == "Moves"


def test_a_pod_that_the_plan_moves_is_shown_as_moving(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["plan", "--snapshot", cluster, "-o", "json", *LATER]) == Exit.FINE
    plan = json.loads(capsys.readouterr().out)
    going = {eviction["pod"] for eviction in plan["evictions"]}
    waiting = {eviction["pod"] for eviction in plan["waiting"]}
    assert going
    for number in range(6):
        name = f"web-{number}"
        expected = "Moves" if name in going else "Waits" if name in waiting else "Stays"
        assert explained(cluster, f"pod/{name}", capsys).verdict == expected


def test_the_namespace_chooses_among_objects_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [*nodes({"a": 1}), *(pod("bare", on="a-0", namespace=namespace) for namespace in ("one", "two"))]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": items}), encoding="utf-8")
    assert entry.main(["explain", "pod/bare", "--snapshot", str(path), *LATER]) == Exit.ERROR
    assert "Pod bare exists in the namespaces one, two; choose one with -n" in capsys.readouterr().err
    assert explained(str(path), "pod/bare", capsys, "-n", "two").object == "pod two/bare"
    assert entry.main(["explain", "pod/bare", "--snapshot", str(path), *LATER, "-n", "three"]) == Exit.ERROR
    assert "Pod bare does not exist in namespace three" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["-A"], ["-l", "app=web"]])
def test_flags_that_would_select_pods_are_refused(
    flags: list[str], cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["explain", "pod/web-0", "--snapshot", cluster, *flags]) == Exit.USAGE
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["deployment/web", "deploy/web"])
def test_a_workload_is_explained_by_its_spread_and_its_plan(
    name: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = explained(cluster, name, capsys, "-n", "demo")
    assert document.object == "demo/web (Deployment)"
    assert document.verdict == "Moves"
    assert document.path[0].answer == "Violated: skew 4"


def test_a_pod_without_owner_or_constraint_stays_and_it_says_so(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = explained(cluster, "pod/bare", capsys)
    assert document.verdict == "Stays"
    assert [answer.answer for answer in document.path[:2]] == ["none", "UnknownOwner"]


def test_an_explanation_is_printed_as_yaml(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["explain", "pod/web-0", "--snapshot", cluster, "-o", "yaml", *LATER]) == Exit.FINE
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Explanation"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("nobody", Exit.ERROR, "no workload or pod is called nobody"),
        ("wbe", Exit.ERROR, "no workload or pod is called wbe; did you mean web?"),
        ("job/web", Exit.USAGE, "expected NAME, KIND/NAME"),
        ("pod/nobody", Exit.ERROR, "Pod nobody does not exist"),
    ],
)
def test_an_object_that_does_not_exist_is_named(
    name: str, code: Exit, message: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["explain", name, "--snapshot", cluster]) == code
    assert message in capsys.readouterr().err


EXAMPLE = "docs/examples/zone-returned.json"


class TestABareName:
    """It is enough where it is unique, as with -n; a workload comes before a pod of the same name."""

    def said(self, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        assert entry.main(["explain", *words]) == Exit.FINE
        return capsys.readouterr().out

    @pytest.mark.parametrize(
        ("bare", "whole"), [("web", "deployment/web"), ("cart", "deployment/cart"), ("db-0", "pod/db-0")]
    )
    def test_it_is_the_one_object_of_that_name(self, bare: str, whole: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.said(capsys, bare, "--snapshot", EXAMPLE) == self.said(capsys, whole, "--snapshot", EXAMPLE)

    def test_several_are_listed_as_what_to_type(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        both = ("--snapshot", EXAMPLE, "--snapshot", write_twin(tmp_path))
        assert entry.main(["explain", "web", *both]) == Exit.ERROR
        assert capsys.readouterr().err == (
            "error: several objects are called web; type one of: shop/deployment/web, store/deployment/web\n"
        )
        assert "store/web (Deployment)" in self.said(capsys, "store/deployment/web", *both)
        chosen = self.said(capsys, "web", "-n", "store", *both)
        assert chosen == self.said(capsys, "store/deployment/web", *both)

    def test_a_replica_set_is_explained_as_its_deployment(self, capsys: pytest.CaptureFixture[str]) -> None:
        items = json.loads(Path(EXAMPLE).read_text(encoding="utf-8"))["items"]
        name = next(one["metadata"]["name"] for one in items if one["kind"] == "ReplicaSet")
        assert self.said(capsys, name, "--snapshot", EXAMPLE) == self.said(
            capsys, f"replicaset/{name}", "--snapshot", EXAMPLE
        )


class TestForeignOwners:
    """`explain` takes every kind that owns pods, as kubectl takes it, listed in the policy or not."""

    @pytest.fixture
    def foreign(self, tmp_path: Path) -> str:
        return write_list(tmp_path / "foreign.yaml", foreign_cluster(clone_set("web")).items)

    @pytest.mark.parametrize(
        "word", ["cloneset", "CloneSet", "clonesets", "CloneSet.apps.kruise.io", "clonesets.apps.kruise.io"]
    )
    def test_a_kind_that_is_not_listed_is_explained(
        self, foreign: str, word: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        document = explained(foreign, f"{word}/web", capsys)
        assert (document.object, document.reason) == ("shop/web (CloneSet)", "UnknownOwner")
        assert any("eligibility.owners does not list CloneSet.apps.kruise.io" in one.evidence for one in document.path)

    def test_so_are_its_pods_with_their_constraints(self, foreign: str, capsys: pytest.CaptureFixture[str]) -> None:
        document = explained(foreign, "pod/web-0", capsys)
        assert document.reason == "UnknownOwner"
        assert "a:3 b:1 c:0" in document.path[0].evidence

    def test_so_is_an_owner_that_the_file_does_not_have(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = write_list(tmp_path / "pods.yaml", foreign_cluster(clone_set("web")[1:]).items)
        assert explained(file, "cloneset/web", capsys).reason == "UnknownOwner"
        assert "a:3 b:1 c:0" in explained(file, "pod/web-0", capsys).path[0].evidence

    def test_a_kind_that_nothing_has_is_refused_with_a_hint(
        self, foreign: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert entry.main(["explain", "clonset/web", "--snapshot", foreign]) == Exit.USAGE
        assert "did you mean cloneset/web?" in capsys.readouterr().err


def test_it_takes_what_plan_and_report_print_as_names(capsys: pytest.CaptureFixture[str]) -> None:
    """One token, with the namespace where there are several; also with an equal -n."""
    example = ("--snapshot", "docs/examples/zone-returned.json")
    for verb in ("plan", "report"):
        assert entry.main([verb, "-o", "name", *example]) == Exit.FINE
        names = capsys.readouterr().out.split()
        assert names
        for name in names:
            assert entry.main(["explain", name, *example]) == Exit.FINE
            shown = capsys.readouterr().out
            assert entry.main(["explain", name, "-n", "shop", *example]) == Exit.FINE
            assert capsys.readouterr().out == shown
    assert entry.main(["explain", "shop/pod/db-0", "-n", "other", *example]) == Exit.USAGE
    assert "shop/pod/db-0 is in namespace shop, but -n names other; leave out one of them" in capsys.readouterr().err


def write_twin(folder: Path) -> str:
    """Write what the example has in its namespace, in another one."""
    text = Path(EXAMPLE).read_text(encoding="utf-8")
    other = json.loads(text.replace('"shop"', '"store"'))
    for item in other["items"]:
        metadata = item["metadata"]
        metadata["uid"] = f"other-{metadata['uid']}"
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = f"other-{owner['uid']}"
    file = folder / "other.json"
    other["items"] = [item for item in other["items"] if item["metadata"].get("namespace") == "store"]
    file.write_text(json.dumps(other), encoding="utf-8")
    return str(file)


def test_pods_of_several_namespaces_are_named_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ("--snapshot", EXAMPLE, "--snapshot", write_twin(tmp_path))
    assert entry.main(["plan", "-o", "name", *example]) == Exit.FINE
    names = capsys.readouterr().out.split()
    assert {name.split("/")[0] for name in names} == {"shop", "store"}
    assert entry.main(["explain", names[-1], *example]) == Exit.FINE


@pytest.mark.parametrize(("name", "number"), [("web", 6), ("search", 6)])
def test_domains_are_listed_as_plan_and_report_list_them(
    name: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of a few, by name: what stands beside each other in two terminals can be compared."""
    file = ("--snapshot", "docs/examples/zone-returned.json", "-l", f"app={name}")
    shown = {}
    for command in (("explain", f"deployment/{name}", *file[:2]), ("plan", *file), ("report", *file)):
        assert entry.main([*command]) == Exit.FINE
        shown[command[0]] = re.findall(r"(?:[abc]-[01]:\d ?){2,}", capsys.readouterr().out)[0].strip()
    assert len(shown["explain"].split()) == number
    assert set(shown.values()) == {shown["plan"]}


def test_of_many_domains_the_fullest_are_listed_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zones = "abcdefghijklmn"
    placed = {f"{zone}-0": 1 for zone in zones[:6]} | {"e-0": 3}
    web = deployment("web", placed, namespace="demo", topologySpreadConstraints=[spread(labels=WEB)])
    items = [*ready_nodes(dict.fromkeys(zones, 1)), *owned(web.pods, web.owners)]
    document = explained(write_list(tmp_path / "cluster.yaml", items), "deployment/web", capsys)
    assert document.path[0].evidence == "a:1 b:1 c:1 d:1 e:3 and 9 more"
