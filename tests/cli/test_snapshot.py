"""`rebalancer snapshot`: a dump that gives the same answers, and nothing private."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rebalancer.adapters.files import read_snapshot
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.decoding.kinds import KINDS, OPTIONAL_KINDS
from rebalancer.model.cluster import NEWEST
from rebalancer.model.snapshot import OPTIONAL, Snapshot
from tests.adapters.kubernetes.fake_server import ApiServer, reachable

EXAMPLE = "docs/examples/zone-returned.json"
PRIVATE = "PRIVATE-"
ACCOUNT = "gate"
"""The name of all objects of `DECIDERS`, the ServiceAccount among them."""
ANNOTATIONS = {
    "kubectl.kubernetes.io/last-applied-configuration": f"{PRIVATE}applied",
    "vault.hashicorp.com/token": f"{PRIVATE}token",
    "kubernetes.io/config.mirror": f"{PRIVATE}hash",
}


def planted(document: dict[str, Any]) -> dict[str, Any]:
    """Return a List with something private wherever Kubernetes has a place for it, and a claim and a volume."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    for item in made["items"]:
        metadata = item["metadata"]
        notes = {key: text for key, text in ANNOTATIONS.items() if item["kind"] != "Pod" or "mirror" not in key}
        metadata["annotations"] = {**notes, "rebalancer.dev/pause-until": "2020-01-01T00:00:00Z"}
        metadata["managedFields"] = [{"manager": f"{PRIVATE}manager", "fieldsV1": {"f:env": PRIVATE}}]
        spec = item.get("spec", {})
        for pod_spec in (spec, spec.get("template", {}).get("spec", {})):
            for container in pod_spec.get("containers", ()):
                container["env"] = [{"name": "PASSWORD", "value": f"{PRIVATE}env"}]
                container["envFrom"] = [{"secretRef": {"name": f"{PRIVATE}secret"}}]
                container["args"] = container["command"] = [f"--token={PRIVATE}arg"]
                container["livenessProbe"] = {"exec": {"command": [f"{PRIVATE}probe"]}}
            if pod_spec.get("containers"):
                pod_spec["imagePullSecrets"] = [{"name": f"{PRIVATE}pull"}]
                pod_spec["volumes"] = [{"name": "v", "secret": {"secretName": f"{PRIVATE}volume"}}]
                # The account of a template is read, that of a pod is not.
                pod_spec["serviceAccountName"] = f"{PRIVATE}account" if pod_spec is spec else ACCOUNT
        if "template" in spec:
            template = spec["template"].setdefault("metadata", {})
            template["annotations"] = {"checksum/config": f"{PRIVATE}checksum"}
        if "status" in item:
            item["status"]["message"] = f"{PRIVATE}message"
    made["items"] += [
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"key": f"{PRIVATE}data"}},
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": {"key": f"{PRIVATE}data"}},
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {
                "name": "data",
                "namespace": "shop",
                "annotations": {
                    "pv.kubernetes.io/bind-completed": f"{PRIVATE}yes",
                    "volume.kubernetes.io/selected-node": "a-0",
                },
            },
            "spec": {"volumeName": "pv", "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
        },
        {
            "kind": "PersistentVolume",
            "apiVersion": "v1",
            "metadata": {"name": "pv"},
            "spec": {
                "csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": f"{PRIVATE}ref"}},
                "capacity": {"storage": "1Gi"},
            },
        },
        {
            "kind": "StorageClass",
            "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "d",
            "parameters": {"token": f"{PRIVATE}parameter"},
        },
        *(described(f"{version}/{kind}", fields) for (version, kind), fields in DECIDERS.items()),
    ]
    return made


RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
QUOTA = {"hard": {"pods": "9"}, "scopes": ["BestEffort"]}
DECIDERS: dict[tuple[str, str], dict[str, Any]] = {
    ("v1", "ResourceQuota"): {"spec": QUOTA, "status": {"hard": {"pods": "9"}, "used": {"pods": "1"}}},
    ("quota.openshift.io/v1", "ClusterResourceQuota"): {
        "spec": {"selector": {"annotations": {"team": "red"}}, "quota": QUOTA},
        "status": {"total": {"used": {"pods": "2"}}, "namespaces": [{"namespace": f"{PRIVATE}namespace"}]},
    },
    ("storage.k8s.io/v1", "CSIDriver"): {
        "spec": {"attachRequired": False, "tokenRequests": [{"audience": f"{PRIVATE}audience"}]},
    },
    ("resource.k8s.io/v1", "DeviceClass"): {
        "spec": {
            "extendedResourceName": "example.com/gpu",
            "selectors": [{"cel": {"expression": f"{PRIVATE}expression"}}],
        },
    },
    ("scheduling.k8s.io/v1beta1", "PodGroup"): {
        "spec": {"disruptionMode": {"all": {}}, "workloadRef": {"name": f"{PRIVATE}workload"}},
    },
    ("v1", "LimitRange"): {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    ("node.k8s.io/v1", "RuntimeClass"): {
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
    },
    ("v1", "ServiceAccount"): {
        "secrets": [{"name": f"{PRIVATE}token"}],
        "imagePullSecrets": [{"name": f"{PRIVATE}pull"}],
    },
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): {
        "webhooks": [
            {
                "name": "gate.example.com",
                "rules": [RULE],
                "matchConditions": [{"name": f"{PRIVATE}condition", "expression": "true"}],
                "clientConfig": {
                    "service": {"namespace": "shop", "name": "gate", "path": f"/{PRIVATE}path"},
                    "caBundle": f"{PRIVATE}bundle",
                },
            }
        ]
    },
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): {
        "webhooks": [
            {
                "name": "set.example.com",
                "rules": [RULE],
                "failurePolicy": "Ignore",
                "clientConfig": {"url": f"https://example.com/?token={PRIVATE}url"},
            }
        ]
    },
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"): {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": f"{PRIVATE}kind"},
            "matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["web-0"]}]},
            "matchConditions": [{"name": "c", "expression": f"{PRIVATE}condition"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"{PRIVATE}expression"}}],
        },
    },
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding"): {
        "spec": {
            "policyName": "gate",
            "paramRef": {"name": f"{PRIVATE}parameter"},
            "matchResources": {"namespaceSelector": {"matchLabels": {"team": "red"}}},
        },
    },
    ("discovery.k8s.io/v1", "EndpointSlice"): {
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"{PRIVATE}address"], "conditions": {"ready": True}, "hostname": f"{PRIVATE}host"}
        ],
        "ports": [{"name": f"{PRIVATE}port"}],
    },
    ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"): {
        "spec": {
            "targetRef": {"kind": "StatefulSet", "name": "db"},
            "recommenders": [{"name": f"{PRIVATE}recommender"}],
        },
        "status": {
            "recommendation": {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "1"}}]},
            "conditions": [{"type": "RecommendationProvided", "message": f"{PRIVATE}condition"}],
        },
    },
}
"""What decides about new pods."""


def described(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return such an object, with metadata in which everything but names, times and the service is private."""
    version, _, name = kind.rpartition("/")
    metadata: dict[str, Any] = {
        "name": "gate",
        "labels": {"kubernetes.io/service-name": "gate", "team": f"{PRIVATE}label"},
        "annotations": ANNOTATIONS,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": f"{PRIVATE}owner", "uid": "u"}],
        "managedFields": [{"manager": f"{PRIVATE}manager", "time": "2026-01-02T03:04:05Z", "fieldsV1": {PRIVATE: {}}}],
    }
    if name not in CLUSTER_WIDE:
        metadata["namespace"] = "shop"
    return {"kind": name, "apiVersion": version, "metadata": metadata, **fields}


CLUSTER_WIDE = {kind.name for kind in OPTIONAL_KINDS if not kind.namespaced}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    document = planted(json.loads(Path(EXAMPLE).read_text(encoding="utf-8")))
    file = tmp_path / "private.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def read(file: Path) -> Snapshot:
    return read_snapshot(file.read_bytes(), version=NEWEST, at=None, source=file.name)[0]


def test_a_dump_has_nothing_private(private: Path, tmp_path: Path) -> None:
    """Whatever is planted in environment, arguments, annotations, Secrets, ConfigMaps and statuses."""
    assert PRIVATE in private.read_text(encoding="utf-8")
    dump = tmp_path / "dump.json"
    assert entry.main(["snapshot", "--snapshot", str(private), "-o", str(dump)]) == Exit.FINE
    text = dump.read_text(encoding="utf-8")
    assert PRIVATE not in text
    assert not {"env", "args", "command", "secrets", "caBundle", "url", "addresses"} & keys_of(json.loads(text))
    entries = [entry for item in json.loads(text)["items"] for entry in item["metadata"].get("managedFields", ())]
    assert {key for entry in entries for key in entry} == {"time"}, "not who, nor what"


def keys_of(value: Any) -> set[str]:
    """Return every field name of a document."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    return set(value).union(*map(keys_of, value.values())) if isinstance(value, dict) else set()


def test_a_dump_is_the_same_cluster(private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every object that is read, with every field; and so the same report and plan. A dump of it is the same dump."""
    dump, again = tmp_path / "dump.json", tmp_path / "again.json"
    assert entry.main(["snapshot", "--snapshot", str(private), "-o", str(dump)]) == Exit.FINE
    assert entry.main(["snapshot", "--snapshot", str(dump), "-o", str(again)]) == Exit.FINE
    assert again.read_bytes() == dump.read_bytes()
    assert read(dump) == replace(read(private), team_maps=None), "ConfigMaps are left out"
    assert read(dump).known == {kind for _, kind in DECIDERS}
    assert all(getattr(read(dump), kind.field) for kind in OPTIONAL_KINDS if kind.name in read(dump).known)
    capsys.readouterr()
    for command in (["report"], ["plan"], ["explain", "pod/db-4"]):
        for form in ("table", "json"):
            outputs = []
            for file in (private, dump):
                assert entry.main([*command, "--snapshot", str(file), "-o", form]) == Exit.FINE
                outputs.append(capsys.readouterr().out)
            assert outputs[0] == outputs[1]
            assert PRIVATE not in outputs[0]


@pytest.fixture
def server(private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the private cluster in pages of one object each."""
    made, paths = ApiServer(page=1), {kind.name: kind.path for kind in (*KINDS, *OPTIONAL_KINDS)}
    for item in json.loads(private.read_text(encoding="utf-8"))["items"]:
        if item["kind"] in paths:
            prefix, _, resource = paths[item["kind"]].rpartition("/")
            namespace = item["metadata"].get("namespace")
            inside = f"{prefix}/namespaces/{namespace}" if namespace else prefix
            made.objects[f"{inside}/{resource}/{item['metadata']['name']}"] = item
    with reachable(made, tmp_path, monkeypatch):
        yield


@pytest.mark.usefixtures("server")
def test_a_live_dump_knows_which_kinds_are_empty(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster without Services has none, it is not unknown; nothing private; its time is now."""
    assert entry.main(["snapshot"]) == Exit.FINE
    text = capsys.readouterr().out
    assert PRIVATE not in text
    snapshot, warnings = read_snapshot(text.encode(), version=NEWEST, at=None, source="dump")
    assert (snapshot.unknown, snapshot.known, warnings) == (frozenset(), OPTIONAL, ())
    assert snapshot.pods == read(private).pods
    assert snapshot.taken_at > read(private).taken_at


def test_malformed_objects_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a warning each, as the other commands do."""
    file = tmp_path / "broken.json"
    metadata = {"name": "bad", "namespace": "shop", "labels": 3}
    items = [{"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "status": {"phase": "Pending"}}]
    file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    assert entry.main(["snapshot", "--snapshot", str(file)]) == Exit.FINE
    shown = capsys.readouterr()
    assert json.loads(shown.out)["items"] == []
    assert "warning: left out: Pod shop/bad" in shown.err


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["--snapshot", EXAMPLE, "--context", "c"], Exit.USAGE, "name a live cluster"),
        (["--snapshot", "README.md"], Exit.ERROR, "README.md"),
        (["--snapshot", EXAMPLE, "-o", "/nonexistent/x"], Exit.ERROR, "/nonexistent/x: No such file or directory"),
    ],
)
def test_mistakes(command: list[str], code: Exit, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["snapshot", *command]) == code
    assert message in capsys.readouterr().err
