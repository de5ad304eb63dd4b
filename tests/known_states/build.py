"""A cluster as `kubectl get -o json` prints it, object by object, and what is planned for it.

Most states are one workload, `shop/web`: four pods under a zone constraint with maxSkew 1, three in zone a, one in b,
none in c, with a node in each zone. Without an obstacle one pod of zone a is evicted: its replacement must go to c.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from rebalancer.adapters.files import read_snapshot
from rebalancer.assessment.findings import Finding
from rebalancer.engine import Evaluation, evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import Policy
from tests.build import a_policy
from tests.cli.files import MADE, READY, placed, ready_nodes
from tests.control_plane.manifests import ZONE, pod_template, spread
from tests.control_plane.resources import Manifest
from tests.reports import all_findings

NOW: Final = datetime(2026, 5, 4, 12, tzinfo=UTC)
EARLIER: Final = "2026-05-01T12:00:00Z"
"""After the creation of every pod, long enough ago that nothing waits."""
CROWDED: Final = ("a-0", "a-0", "a-0", "b-0")
POLICY: Final = """
mode: Evict
spread: {for: 0s}
nodes: {settle: 0s}
budgets: {maxUnavailable: "100%", perWorkload: "100%"}
"""
OWNERS: Final = "ReplicaSet, StatefulSet, ReplicationController"


class Outcome(NamedTuple):
    """What is planned: the pods that are evicted, and why others are not, by reason."""

    evicted: list[str]
    refusals: Mapping[Reason, str]

    @property
    def reasons(self) -> set[Reason]:
        return set(self.refusals)

    def assert_kept(self, reason: Reason) -> str:
        """Assert that nothing is evicted, for this reason alone; return its words."""
        assert (self.evicted, self.reasons) == ([], {reason}), self
        return self.refusals[reason]


class State:
    """The objects of a cluster."""

    def __init__(self, *items: Manifest) -> None:
        self.items = list(items)

    def add(self, *items: Manifest) -> "State":
        """Add objects."""
        self.items += items
        return self

    def get(self, kind: str, name: str) -> Manifest:
        """Return an object, to be changed."""
        (found,) = (item for item in self.items if item["kind"] == kind and item["metadata"]["name"] == name)
        return found

    def pods(self, app: str = "web") -> list[Manifest]:
        """Return the pods whose names begin with this name."""
        return [item for item in self.items if item["kind"] == "Pod" and item["metadata"]["name"].startswith(app)]

    def evaluate(self, policy: str = "", owners: str = "") -> Evaluation:
        """Read the objects from a file's bytes, and evaluate; `owners` are kinds that the policy lists besides."""
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": self.items}).encode()
        snapshot, _ = read_snapshot(document, version=NEWEST, at=NOW, source="state.json")
        assert not snapshot.faults
        return evaluate(snapshot, _policy(policy, owners))

    def find(self, kind: FindingKind, policy: str = "") -> list[Finding]:
        """Return what is found of one kind."""
        made = self.evaluate(policy)
        findings = all_findings(made.view, made.assessment, _policy(policy))
        return [finding for finding in findings if finding.kind is kind]

    def plan(self, policy: str = "", owners: str = "") -> Outcome:
        """Return what is planned."""
        plan = self.evaluate(policy, owners).plan
        refusals = [refused.refusal for refused in plan.refusals]
        refusals += [component.refusal for component in plan.components if component.refusal is not None]
        refusals += [waiting.refusal for waiting in plan.fates.kept]
        said: dict[Reason, str] = {}
        for refusal in refusals:
            said[refusal.reason] = "\n".join(filter(None, (said.get(refusal.reason), str(refusal))))
        evicted = [f"{eviction.pod.namespace}/{eviction.pod.name}" for eviction in plan.fates.going]
        return Outcome(evicted, said)


def assert_evicted(state: State) -> None:
    assert state.plan().evicted == ["shop/web-0"], state.plan()


def assert_no_room(state: State) -> None:
    """Assert that nothing is evicted, since no node of zone c would have the capacity for the replacement."""
    state.plan().assert_kept(Reason.NO_CAPACITY)


def _policy(more: str, owners: str = "") -> Policy:
    eligibility = f"eligibility: {{minAge: 0s, owners: [{OWNERS}{f', {owners}' if owners else ''}]}}\n"
    written = {line.split(":")[0] for line in more.splitlines()}
    common = [line for line in (POLICY + eligibility).splitlines(keepends=True) if line.split(":")[0] not in written]
    return a_policy("".join(common) + more)


def zones(cpu: str = "8", **of_zone: str) -> list[Manifest]:
    """Return a node in each of the zones a, b and c: a-0, b-0 and c-0, with this much CPU."""
    return [node for zone in "abc" for node in ready_nodes({zone: 1}, cpu=of_zone.get(zone, cpu))]


def cluster(*parts: Sequence[Manifest], cpu: str = "8", **of_zone: str) -> State:
    """Return a state of three zones, the namespace `shop`, and these parts."""
    return State(*zones(cpu, **of_zone), namespace("shop"), *(item for part in parts for item in part))


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Manifest:
    """Return a namespace, labelled with its name as the API server does."""
    own = {"kubernetes.io/metadata.name": name, **(labels or {})}
    return make("v1", "Namespace", name, None, labels=own, status={"phase": "Active"})


def make(api_version: str, kind: str, name: str, namespace: str | None = "shop", **fields: Any) -> Manifest:
    """Return an object; fields of its metadata and others."""
    metadata: Manifest = {"name": name, "uid": f"{kind}-{namespace}-{name}", "creationTimestamp": MADE}
    if namespace is not None:
        metadata["namespace"] = namespace
    for field in ("labels", "annotations", "ownerReferences", "managedFields", "generation"):
        if field in fields:
            metadata[field] = fields.pop(field)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def owned_by(owner: Manifest) -> list[Manifest]:
    """Return the references of what an object controls."""
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def changed(at: str = EARLIER) -> list[Manifest]:
    """Return the managed fields of an object that was last changed then."""
    return [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": at}]


def over_zones(labels: Mapping[str, str] | None, **fields: Any) -> Manifest:
    """Return the zone constraint over pods with these labels, None: without a selector."""
    return spread(labels=labels, **fields)


def _template(labels: Mapping[str, str], app: str, spec: Mapping[str, Any]) -> Manifest:
    fields: dict[str, Any] = {"cpu": "100m", "memory": "64Mi", **spec}
    fields.setdefault("topologySpreadConstraints", [over_zones({"app": app})])
    if not fields["topologySpreadConstraints"]:
        del fields["topologySpreadConstraints"]
    return pod_template(labels=labels, **fields)


def _pod_of(owner: Manifest, name: str, node: str | None, labels: Mapping[str, str], template: Manifest) -> Manifest:
    """Return a pod of an owner as it runs: what the API server adds to a template is there."""
    pod = placed(name, node, namespace=owner["metadata"]["namespace"], labels=labels)
    pod["metadata"] |= {"uid": f"{pod['metadata']['namespace']}-{name}", "generation": 1}
    pod["metadata"]["ownerReferences"] = owned_by(owner)
    added = {"nodeName": node} if node else {}
    account = {"serviceAccountName": "default", "schedulerName": "default-scheduler", "priority": 0}
    pod["spec"] = json.loads(json.dumps({**account, **template["spec"], **added}))
    return pod


def replica_set(
    name: str,
    on: Sequence[str | None],
    top: Manifest | None = None,
    *,
    app: str = "web",
    namespace: str = "shop",
    revision: str = "5f6d",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> list[Manifest]:
    """Return a ReplicaSet and its pods, `NAME-0` to `NAME-N`, on these nodes; the rest is the spec of its template."""
    own = {"app": app, "pod-template-hash": revision, **(labels or {})}
    template = _template(own, app, spec)
    owner = make(
        "apps/v1",
        "ReplicaSet",
        name,
        namespace,
        generation=1,
        labels=own,
        annotations={"deployment.kubernetes.io/revision": "1"},
        spec={"replicas": len(on), "selector": {"matchLabels": own}, "template": template},
        status={"replicas": len(on), "readyReplicas": len(on), "observedGeneration": 1},
    )
    if top is not None:
        owner["metadata"]["ownerReferences"] = owned_by(top)
    return [owner, *(_pod_of(owner, f"{name}-{at}", node, own, template) for at, node in enumerate(on))]


def deployment(
    name: str = "web", on: Sequence[str | None] = CROWDED, *, namespace: str = "shop", app: str = "", **fields: Any
) -> list[Manifest]:
    """Return a Deployment that has been rolled out, its ReplicaSet of the same name, and its pods."""
    app = app or name
    spec = {key: value for key, value in fields.items() if key not in {"revision", "labels"}}
    count, selector = len(on), {"app": app, **(fields.get("labels") or {})}
    top = make(
        "apps/v1",
        "Deployment",
        name,
        namespace,
        generation=1,
        labels=selector,
        spec={"replicas": count, "selector": {"matchLabels": selector}, "template": _template(selector, app, spec)},
        status={
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": count,
            "availableReplicas": count,
            "observedGeneration": 1,
        },
    )
    return [top, *replica_set(name, on, top, app=app, namespace=namespace, **fields)]


def stateful_set(
    name: str = "db",
    on: Sequence[str] = CROWDED,
    *,
    revisions: Sequence[str] = (),
    claims: Sequence[str] = (),
    **fields: Any,
) -> list[Manifest]:
    """Return a StatefulSet and its pods; `revisions` are theirs, in the order of their ordinals: `old` or `new`.

    `fields` are those of its spec (such as `updateStrategy`), and others for its template.
    """
    own = {key: fields.pop(key) for key in ("updateStrategy", "podManagementPolicy") if key in fields}
    template = _template({"app": name}, name, fields)
    revisions = revisions or ["new"] * len(on)
    updated = revisions.count("new")
    owner = make(
        "apps/v1",
        "StatefulSet",
        name,
        generation=2,
        spec={
            "replicas": len(on),
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": claim}, "spec": {}} for claim in claims],
            **own,
        },
        status={
            "replicas": len(on),
            "readyReplicas": len(on),
            "currentReplicas": len(on) - updated or len(on),
            "updatedReplicas": updated,
            "currentRevision": f"{name}-old" if updated < len(on) else f"{name}-new",
            "updateRevision": f"{name}-new",
            "observedGeneration": 2,
        },
    )
    pods = []
    for ordinal, (node, revision) in enumerate(zip(on, revisions, strict=True)):
        pod_name = f"{name}-{ordinal}"
        labels = {
            "app": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            "controller-revision-hash": f"{name}-{revision}",
            "statefulset.kubernetes.io/pod-name": pod_name,
        }
        pod = _pod_of(owner, pod_name, node, labels, template)
        if claims:
            pod["spec"]["volumes"] = [
                {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{pod_name}"}} for claim in claims
            ]
        pods.append(pod)
    return [owner, *pods]


def containers(*requests: str, name: str = "app") -> list[Manifest]:
    """Return containers with these CPU requests: `app`, `app-1` …; "" requests none."""
    return [
        {
            "name": f"{name}-{at}" if at else name,
            "image": "registry.test/app:1",
            "resources": {"requests": {"cpu": cpu}} if cpu else {},
        }
        for at, cpu in enumerate(requests)
    ]


def unready(pod: Manifest) -> None:
    """Let a pod run without being Ready."""
    pod["status"]["conditions"] = [{**READY, "status": "False"}]


def minutes_ago(minutes: float) -> str:
    """Return a time before the one at which a state is evaluated, as the API server writes it."""
    return f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def bound(pod: Manifest, minutes: float, *, sandbox: bool | None = True) -> None:
    """Let a pod have been bound then; `sandbox` is what its kubelet says of it since, None of one that says nothing."""
    at = minutes_ago(minutes)
    conditions = {"PodScheduled": True, "Ready": bool(sandbox)}
    if sandbox is not None:
        conditions["PodReadyToStartContainers"] = sandbox
    pod["metadata"]["creationTimestamp"] = at
    pod["status"] = {
        "phase": "Running" if sandbox else "Pending",
        "startTime": at,
        "conditions": [
            {"type": name, "status": str(status), "lastTransitionTime": at} for name, status in conditions.items()
        ],
    }


def rejected(pod: Manifest, minutes: float, reason: str = "UnexpectedAdmissionError") -> None:
    """Let a kubelet have refused to run a pod."""
    at = minutes_ago(minutes)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    pod["metadata"]["creationTimestamp"] = at
    pod["status"] = {"phase": "Failed", "reason": reason, "startTime": at, "conditions": [scheduled]}


def bound_claim(name: str, affinity: Mapping[str, str] | None, mode: str = "ReadWriteOnce") -> list[Manifest]:
    """Return a claim and its volume, which can be attached to the nodes with these labels, None: to all.

    Several values of a label are separated by spaces.
    """
    volume: Manifest = {
        "capacity": {"storage": "10Gi"},
        "accessModes": [mode],
        "storageClassName": "disks",
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": name},
        "csi": {"driver": "disks.test", "volumeHandle": name},
    }
    if affinity is not None:
        terms = [{"key": key, "operator": "In", "values": values.split()} for key, values in affinity.items()]
        volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    claim = {"accessModes": [mode], "storageClassName": "disks", "volumeName": f"pv-{name}"}
    return [
        make(
            "v1",
            "PersistentVolumeClaim",
            name,
            annotations={"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"},
            spec=claim,
            status={"phase": "Bound", "accessModes": [mode]},
        ),
        make("v1", "PersistentVolume", f"pv-{name}", None, spec=volume, status={"phase": "Bound"}),
    ]


def unbound_claim(name: str) -> Manifest:
    """Return a claim whose volume is made where its pod is placed."""
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disks"}
    return make("v1", "PersistentVolumeClaim", name, spec=claim, status={"phase": "Pending"})


def storage_class(binding: str = "WaitForFirstConsumer", zones: Sequence[str] = ()) -> Manifest:
    """Return the class of these volumes, which can be made in these zones, in all where there are none."""
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    fields: Manifest = {"provisioner": "disks.test", "volumeBindingMode": binding}
    return make("storage.k8s.io/v1", "StorageClass", "disks", None, **fields, allowedTopologies=terms)


def clone_set(name: str = "web", on: Sequence[str] = CROWDED, **fields: Any) -> list[Manifest]:
    """Return a CloneSet of apps.kruise.io, which has a template and a scale subresource, and its pods."""
    labels = {"app": name}
    template = _template(labels, name, fields)
    owner = make(
        "apps.kruise.io/v1alpha1",
        "CloneSet",
        name,
        generation=1,
        labels=labels,
        spec={"replicas": len(on), "selector": {"matchLabels": labels}, "template": template},
        status={"replicas": len(on), "updatedReplicas": len(on), "observedGeneration": 1},
    )
    return [owner, *(_pod_of(owner, f"{name}-{at}", node, labels, template) for at, node in enumerate(on))]


def pod_set(name: str = "web", on: Sequence[str] = CROWDED, **fields: Any) -> list[Manifest]:
    """Return a StrimziPodSet of core.strimzi.io, which defines each of its pods and says no number, and its pods."""
    labels = {"app": name}
    template = _template(labels, name, fields)
    names = [f"{name}-{at}" for at in range(len(on))]
    owner = make(
        "core.strimzi.io/v1beta2",
        "StrimziPodSet",
        name,
        generation=1,
        spec={"selector": {"matchLabels": labels}, "pods": [{"metadata": {"name": each}} for each in names]},
        status={"pods": len(on), "readyPods": len(on), "currentPods": len(on), "observedGeneration": 1},
    )
    return [owner, *(_pod_of(owner, each, node, labels, template) for each, node in zip(names, on, strict=True))]


def csi_driver(name: str = "disks.test", **fields: Any) -> Manifest:
    """Return the driver of these volumes."""
    return make("storage.k8s.io/v1", "CSIDriver", name, None, **fields)


def pod_group(mode: str | None) -> Manifest:
    """Return the PodGroup `train` of the namespace, with this disruption mode; None: it does not say."""
    spec: Manifest = {"schedulingPolicy": {"basic": {}}}
    if mode is not None:
        spec["disruptionMode"] = {mode: {}}
    return make("scheduling.k8s.io/v1beta1", "PodGroup", "train", spec=spec)
