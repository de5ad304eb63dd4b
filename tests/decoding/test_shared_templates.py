"""Pods of one owner are converted once, as are equal templates, and nothing of one becomes another's."""

from typing import Any

import pytest
from msgspec import structs

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED, PODS, ResourceKind
from rebalancer.decoding.lists import decode_items, open_page
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import PodTemplate
from tests.decoding.test_lists import POD, changed, listed

DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS = (KIND_NAMED[name] for name in ("Deployment", "ReplicaSet", "StatefulSet"))

TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}

DIFFERENCES: list[tuple[str, Any]] = [
    ("metadata.labels", {"app": "other"}),
    ("metadata.labels", {}),
    ("metadata.annotations", {"rebalancer.dev/exclude": "false"}),
    ("metadata.annotations", {"kubernetes.io/config.mirror": "x"}),
    ("metadata.annotations", {"rebalancer.dev/deletion-cost": "5", "controller.kubernetes.io/pod-deletion-cost": "5"}),
    ("metadata.ownerReferences", []),
    ("metadata.ownerReferences.1.uid", "r2"),
    ("metadata.deletionTimestamp", "2026-01-03T00:00:00Z"),
    ("metadata.creationTimestamp", "2026-01-03T00:00:00Z"),
    ("metadata.resourceVersion", "8"),
    ("spec.nodeName", "n2"),
    ("spec.schedulerName", "other"),
    ("spec.nodeSelector", {"zone": "a"}),
    ("spec.affinity", {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}),
    ("spec.tolerations", [{"operator": "Exists"}]),
    ("spec.topologySpreadConstraints", []),
    ("spec.topologySpreadConstraints.0.maxSkew", 3),
    ("spec.containers.0.image", "img:3"),
    ("spec.containers.0.ports", []),
    ("spec.containers.0.resources", {"requests": {"cpu": "2"}}),
    ("spec.containers.0.resources.limits", {"cpu": "2"}),
    ("spec.containers.0.name", "main"),
    ("spec.containers.0.restartPolicyRules", [{"action": "RestartAllContainers"}]),
    ("spec.runtimeClassName", "kata"),
    ("spec.os", {"name": "windows"}),
    ("spec.hostNetwork", True),
    ("metadata.generation", 2),
    ("spec.initContainers", [{"resources": {"requests": {"cpu": "3"}}}]),
    ("spec.initContainers", [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}]),
    ("spec.overhead", {"cpu": "10m"}),
    ("spec.resources", {"requests": {"cpu": "5"}}),
    ("spec.priority", 7),
    ("spec.priorityClassName", "high"),
    ("spec.preemptionPolicy", "Never"),
    ("spec.volumes", []),
    ("spec.volumes.0.persistentVolumeClaim", {"claimName": "other"}),
    ("spec.volumes.2", {"name": "t", "hostPath": {"path": "/x"}}),
    ("spec.volumes.2", {"name": "t", "rbd": {}}),
    ("spec.volumes.2", {"name": "t", "iscsi": {}}),
    ("spec.schedulingGates", [{"name": "wait"}]),
    ("spec.resourceClaims", [{"name": "gpu"}]),
    ("spec.workloadRef", {"name": "group"}),
    ("spec.schedulingGroup", {"podGroupName": "group"}),
    ("spec.evictionResponders", [{"name": "x"}]),
    ("status", {**POD["status"], "resources": {"requests": {"cpu": "90"}}, "allocatedResources": {"cpu": "90"}}),
    ("status.phase", "Failed"),
    ("status.nominatedNodeName", "n3"),
    ("status.conditions.0.status", "False"),
    ("status.conditions.0.type", "DisruptionTarget"),
    ("status.containerStatuses", [{"name": "a", "resources": {"requests": {"cpu": "4"}}}]),
    ("status.containerStatuses", [{"name": "a", "resources": {}, "allocatedResources": {"cpu": "6"}}]),
]


def decoded(*pods: dict[str, Any]) -> list[Pod]:
    page = decode_items(PODS, open_page(listed(*pods)), Interner())
    assert not page.faults
    return list(page.objects)


@pytest.mark.parametrize(("path", "value"), DIFFERENCES)
def test_a_difference_is_not_lost_between_equal_pods(path: str, value: Any) -> None:
    """A pod between two others of its owner is what it is alone, and differs from them."""
    other = changed(path, value)
    first, between, last = decoded(POD, other, POD)
    assert [between] == decoded(other)
    assert first == last
    assert between != first


def test_pods_of_one_owner_are_converted_once() -> None:
    """Node, names of volumes and claims, UID, times and state are a pod's own: their differences cost nothing."""
    token = {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}
    own: list[tuple[str, Any]] = [
        ("metadata.name", "web-2"),
        ("metadata.uid", "u2"),
        ("metadata.labels", {"app": "web", "pod-index": "2"}),
        ("spec.nodeName", "n2"),
        ("spec.volumes", [token]),
        ("spec.containers.0.volumeMounts", [{"name": "kube-api-access-x7k2p", "mountPath": "/var/run"}]),
        ("spec.containers.0.env", [{"name": "A", "value": "b"}]),
        ("status.conditions.0.lastTransitionTime", "2026-01-03T00:00:00Z"),
        ("status.podIP", "10.0.0.1"),
    ]
    intern = Interner()
    made: list[bytes] = []

    def convert(text: bytes) -> bytes:
        made.append(text)
        return text

    assert [intern.convert(text, convert) for text in (b"a", b"a", b"b", b"a", b"b")] == [b"a", b"a", b"b", b"a", b"b"]
    assert made == [b"a", b"b"]
    pods = decoded(POD, *(changed(path, value) for path, value in own))
    assert len({id(pod.spec) for pod in pods}) == len({id(pod.owner) for pod in pods}) == 1


def test_conversions_are_bounded() -> None:
    """A store that watches for months does not collect the texts of all pods that there ever were."""
    intern = Interner()
    texts = [str(number).encode() for number in range(50_001)]
    values = [intern.convert(text, bytes.decode) for text in texts]
    assert intern.convert(texts[0], lambda _: "made again") == "made again"
    assert values[-1] == "50000"


def owner(name: str, **template: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {"metadata": metadata, "spec": {"template": {"spec": POD["spec"], **template}}}


def templates(*owners: tuple[ResourceKind, dict[str, Any]]) -> list[PodTemplate]:
    """Decode owners with one interner, and return their templates."""
    intern, made = Interner(), []
    for kind, source in owners:
        (workload,) = decode_items(kind, open_page(listed(source)), intern).objects
        made.append(workload.template)
    return made


def test_the_template_of_a_replica_set_is_that_of_its_deployment_with_labels_of_its_own() -> None:
    labels, annotations = {"app": "web", "pod-template-hash": "7c9"}, {"rebalancer.dev/exclude": "true"}
    web = owner("web", metadata={"labels": {"app": "web"}})
    replica_set = owner("web-7c9", metadata={"labels": labels, "annotations": annotations})
    first, second, bare = templates((DEPLOYMENTS, web), (REPLICA_SETS, replica_set), (REPLICA_SETS, owner("bare")))
    assert second.spec is first.spec
    assert second == structs.replace(first, labels=Labels(labels), annotations=Labels(annotations))
    assert (first.labels, first.annotations, bare.labels) == (Labels(app="web"), {}, {})


@pytest.mark.parametrize(
    ("path", "value"),
    [(path, value) for path, value in DIFFERENCES if path.startswith("spec.") and "hostPath" not in str(value)],
)
def test_a_difference_is_not_lost_between_equal_templates(path: str, value: Any) -> None:
    other = owner("other")
    other["spec"]["template"]["spec"] = changed(path, value)["spec"]
    first, between, last = templates((DEPLOYMENTS, owner("a")), (DEPLOYMENTS, other), (DEPLOYMENTS, owner("b")))
    assert [between] == templates((DEPLOYMENTS, other))
    assert first == last
    assert between != first


def test_claim_templates_are_those_of_the_owner_and_of_ephemeral_volumes() -> None:
    """Two StatefulSets with the same spec have their own."""
    sets = [owner("db"), owner("cache")]
    sets[0]["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    first, second = templates(*((STATEFUL_SETS, source) for source in sets))
    assert (first.claims, first.claim_templates) == (("data",), ("data", "e"))
    assert (second.claims, second.claim_templates) == (("data",), ("e",))


def test_a_pod_and_a_template_with_one_spec_are_converted_apart() -> None:
    intern = Interner()
    for _ in range(2):
        (pod,) = decode_items(PODS, open_page(listed(POD)), intern).objects
        (workload,) = decode_items(DEPLOYMENTS, open_page(listed(owner("web"))), intern).objects
        assert isinstance(pod, Pod)
        assert pod.spec.images == workload.template.spec.images
