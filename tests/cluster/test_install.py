"""What is rendered is taken by a real API server, and what runs is what is rendered: its command, user and rights."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from rebalancer.adapters.kubernetes.placeholders import job_manifest
from rebalancer.admission.rights import WAY_OUT
from rebalancer.history.ring import SEGMENT_MAPS
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.deletion_costs import OWN_DELETION_COST
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import Resources
from rebalancer.policy import Capacity
from tests.cluster import test_capacity
from tests.cluster.controller import FAST, NAMESPACE, USER, policy
from tests.cluster.installed import Installed, find_obstacle
from tests.cluster.test_repair import MINIMUM, balanced, constraints, lay_out_shop
from tests.control_plane.api import ApiError, TimedOutError, wait_until
from tests.control_plane.build import (
    karpenter_definitions,
    monitoring_definitions,
    serves_device_classes,
    serves_mutating_policies,
)
from tests.control_plane.layout import lay_out, lose_nodes, nodes, return_nodes
from tests.control_plane.manifests import ZONE, pod_template
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.control_plane.settling import wait_settled
from tests.deploy.manifests import DEPLOY, documents
from tests.deploy.rendering import render_chart, render_kustomization, require_programs

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/rebalancer"
ENFORCED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}

ALL_ON = {"enabled": True}
VALUES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "approve": {"policy": {"mode": "Approve"}},
    "evict": {"policy": {"mode": "Evict"}},
    "prevention": {"policy": {"prevention": {"scaleDown": "Steer"}}},
    "prevention that observes": {"policy": {"prevention": {"scaleDown": "Observe"}}},
    "capacity": {"policy": {"mode": "Evict", "capacity": {"mode": "Request", "namespace": "room", "maxPods": 7}}},
    "teams": {"policy": {"teamPolicies": {"namespaces": ["shop", "team-*"]}}},
    "one namespace": {
        "policy": {"mode": "Evict", "eligibility": {"namespaces": {"include": ["shop"]}}},
        "rbac": {"namespaced": True, "people": False},
    },
    "workloads of two namespaces": {"policy": {"mode": "Approve"}, "workloadNamespaces": ["shop", "cart"]},
    "monitoring": {"serviceMonitor": ALL_ON, "prometheusRule": ALL_ON, "dashboard": ALL_ON, "networkPolicy": ALL_ON},
    "pod monitor": {"podMonitor": ALL_ON, "podDisruptionBudget": {"enabled": False}, "replicas": 1},
    "everything of a pod": {
        "replicas": 3,
        "spread": "DoNotSchedule",
        "priorityClassName": "system-cluster-critical",
        "labels": {"team": "platform"},
        "annotations": {"note": "1"},
        "podLabels": {"pod": "yes"},
        "podAnnotations": {"note": "2"},
        "serviceAccountAnnotations": {"note": "3"},
        "extraArgs": ["--mode=Observe", "--log-level=debug"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "imagePullSecrets": [{"name": "registry"}],
        "resources": {"limits": {"memory": "4Gi"}},
        "probes": {"liveness": {"initialDelaySeconds": 5}},
    },
}
FORMS = sorted(
    file.parent.relative_to(DEPLOY).as_posix()
    for file in DEPLOY.rglob("kustomization.yaml")
    if yaml.safe_load(file.read_text(encoding="utf-8"))["kind"] == "Kustomization"
)
COMPONENTS = sorted(folder.name for folder in (DEPLOY / "components").iterdir())


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("helm", "kubectl")


SERVED = {
    "monitoring.coreos.com/v1": ("servicemonitors", "podmonitors", "prometheusrules"),
    "karpenter.sh/v1": ("nodepools",),
    "autoscaling.k8s.io/v1": ("verticalpodautoscalers",),
    "quota.openshift.io/v1": ("clusterresourcequotas",),
}
GATE: Manifest = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "gate"},
    "webhooks": [
        {
            "name": "gate.example.com",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "clientConfig": {"service": {"namespace": "shop", "name": "gate"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
"""A webhook that must answer, so that the EndpointSlices of its Service are read; it is asked about no pod."""


def define(kind: str, plural: str, group: str, scope: str) -> Manifest:
    """Return a CustomResourceDefinition that takes every field."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "kind": "CustomResourceDefinition",
        # Groups of k8s.io are served with this annotation only.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


DEFINED = (
    define("VerticalPodAutoscaler", "verticalpodautoscalers", "autoscaling.k8s.io", "Namespaced"),
    define("ClusterResourceQuota", "clusterresourcequotas", "quota.openshift.io", "Cluster"),
)
"""Kinds of projects whose definitions are not at hand."""


@contextmanager
def serve(plane: ControlPlane, kinds: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Serve kinds that are no part of Kubernetes, by group and version, as long as the block runs."""
    wanted = tuple(plural for plurals in kinds.values() for plural in plurals)
    files = [file for file in (*monitoring_definitions(), *karpenter_definitions()) if file.stem.endswith(wanted)]
    definitions = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    definitions += [one for one in DEFINED if one["metadata"]["name"].startswith(wanted)]
    plane.api.create_all({**definition, "apiVersion": "apiextensions.k8s.io/v1"} for definition in definitions)

    def served() -> bool:
        try:
            return not any(
                plane.api.list(f"/apis/{group}/{plural}") for group, plurals in kinds.items() for plural in plurals
            )
        except ApiError:
            return False

    wait_until(served, what="the kinds to be served")
    yield
    for definition in definitions:
        plane.api.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")


@pytest.fixture
def operators(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Serve the kinds that are no part of Kubernetes, and have a webhook that must answer."""
    cluster.api.create(GATE)
    with serve(cluster, SERVED):
        yield cluster
    cluster.api.delete(object_path(GATE))


def apply(plane: ControlPlane, manifests: Sequence[Manifest]) -> None:
    """Apply on the server, with strict field validation; namespaces first, as helm and kubectl do."""
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": ENFORCED}}
    named = {manifest["metadata"].get("namespace", "") for manifest in manifests} - {"", NAMESPACE}
    made = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Namespace"}
    others = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(named - made)]
    ordered = sorted(manifests, key=lambda manifest: manifest["kind"] != "Namespace")
    plane.api.apply([own, *others, *ordered], strict=True)


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_is_taken_whole_by_the_api_server(operators: ControlPlane, name: str) -> None:
    """Each of these values, with its hooks, in a namespace that enforces `restricted`."""
    apply(operators, [*render_chart(VALUES[name]), *render_chart(VALUES[name], hooks=True)])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_taken_whole_by_the_api_server(operators: ControlPlane, form: str) -> None:
    manifests = render_kustomization(DEPLOY / form)
    if form in {"team", "namespace", "workloads"}:  # `kubectl apply -n`
        manifests = [{**one, "metadata": {**one["metadata"], "namespace": "shop"}} for one in manifests]
    apply(operators, manifests)


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_taken_whole_by_the_api_server(
    operators: ControlPlane, tmp_path: Path, component: str
) -> None:
    apply(operators, with_components(tmp_path, component))


def with_components(folder: Path, *components: str) -> list[Manifest]:
    """Render the base with components."""
    (folder / "deploy").symlink_to(DEPLOY)
    (folder / "own").mkdir()
    kustomization = {
        "resources": ["../deploy/base"],
        "components": [f"../deploy/components/{component}" for component in components],
    }
    (folder / "own" / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return render_kustomization(folder / "own")


def test_a_misspelt_field_would_be_refused(operators: ControlPlane) -> None:
    """The tests above can fail, for kinds of the operator too."""
    for kind, group, word in (
        ("Service", "v1", "clusterIp"),
        ("ServiceMonitor", "monitoring.coreos.com/v1", "select"),
    ):
        manifest = {
            "apiVersion": group,
            "kind": kind,
            "metadata": {"name": "wrong", "namespace": "default"},
            "spec": {word: "x", **({"selector": {}, "endpoints": []} if kind == "ServiceMonitor" else {})},
        }
        with pytest.raises(ApiError, match=r"field not declared in schema|unknown field"):
            operators.api.apply([manifest], strict=True)


def test_the_real_deployment_controller_makes_pods_where_restricted_is_enforced(cluster: ControlPlane) -> None:
    """Pod Security lets the chart's pods in; it does not let in those that could become root."""
    lay_out(cluster, nodes({"a": 2, "b": 2}))
    apply(cluster, render_chart({}))
    ready = {"replicas": 2, "readyReplicas": 2}
    wait_until(lambda: cluster.api.get(DEPLOYMENT)["status"].items() >= ready.items(), what="two ready replicas")
    wait_settled(cluster)
    pods = cluster.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labels="app.kubernetes.io/name=rebalancer")
    assert len({pod["spec"]["nodeName"][0] for pod in pods}) == 2, "one in each zone"
    root = {"spec": {"template": {"spec": {"securityContext": {"runAsNonRoot": False, "runAsUser": 0}}}}}
    cluster.api.patch(DEPLOYMENT, root)

    def refused() -> bool:
        conditions = cluster.api.get(DEPLOYMENT)["status"]["conditions"]
        return any("violates PodSecurity" in condition["message"] for condition in conditions)

    wait_until(refused, what="the refusal of pods that may run as root")


def lay_out_owners(plane: ControlPlane) -> None:
    """Bring a zone back empty; pods of every kind of owner are in the other two, and a volume is bound."""
    lay_out_shop(plane)
    lost = lose_nodes(plane, "c-0", "c-1")
    wait_settled(plane)
    for kind, group, name in (("ReplicaSet", "apps/v1", "bare"), ("ReplicationController", "v1", "old")):
        labels = {"app": name}
        template = pod_template(labels=labels, cpu="100m", memory="64Mi", topologySpreadConstraints=constraints(name))
        selector = {"matchLabels": labels} if kind == "ReplicaSet" else labels
        metadata = {"name": name, "namespace": "shop"}
        spec = {"replicas": 6, "selector": selector, "template": template}
        plane.api.create({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec})
    plane.api.create_all([VOLUME, CLAIM, OWNER])
    owner = plane.api.get(object_path(OWNER))["metadata"]
    reference = {"apiVersion": OWNER["apiVersion"], "kind": OWNER["kind"], "controller": True}
    plane.api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "custom",
                "namespace": "shop",
                "ownerReferences": [{**reference, "name": owner["name"], "uid": owner["uid"]}],
            },
            "spec": {"containers": [{"name": "main", "image": "custom"}], "nodeName": "a-0"},
        }
    )
    wait_settled(plane)
    return_nodes(plane, lost)


VOLUME: Manifest = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "hostPath": {"path": "/disk"},
        "claimRef": {"name": "disk", "namespace": "shop"},
    },
}
CLAIM: Manifest = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "disk", "namespace": "shop"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
OWNER: Manifest = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "custom", "namespace": "shop"},
    "spec": {"selector": {}, "endpoints": []},
}


def roles(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the roles that some binding gives to the controller's account."""
    bound = {
        (manifest["roleRef"]["kind"], manifest["roleRef"]["name"])
        for manifest in manifests
        if manifest["kind"].endswith("Binding") and "roleRef" in manifest
    }
    return [manifest for manifest in manifests if (manifest["kind"], manifest["metadata"]["name"]) in bound]


def granted(manifests: Sequence[Manifest]) -> set[tuple[str, str, str, str]]:
    """Return (group, resource, name, verb) of all that the controller's account may; name "" for any."""
    return {
        right
        for role in roles(manifests)
        for rule in role["rules"]
        for right in product(rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""]), rule["verbs"])
    }


def used(plane: ControlPlane, rights: set[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
    """Return which of these rights the requests in the audit log needed."""
    named = {(group, resource) for group, resource, name, _ in rights if name}
    needed = set()
    for request in plane.audit.requests(user=USER):
        resource = "/".join(filter(None, (request.resource, request.subresource)))
        needed.add((request.group, resource, "", request.verb))
        if (request.group, resource) in named:
            needed.add((request.group, resource, request.name or field_selector(request.path), request.verb))
    return rights & needed


def field_selector(path: str) -> str:
    """Return the name that a list or a watch is restricted to."""
    selected = parse_qs(urlsplit(path).query).get("fieldSelector", [""])[0]
    return selected.removeprefix("metadata.name=")


def refused(plane: ControlPlane) -> list[str]:
    return [f"{request.verb} {request.path}" for request in plane.audit.requests(user=USER) if request.code == 403]


@pytest.fixture
def _as_root() -> None:
    """Skip the test where no process can be started as in the pod, but not in CI."""
    if obstacle := find_obstacle():
        assert os.environ.get("CI") != "true", obstacle
        pytest.skip(obstacle)


needs_root = pytest.mark.usefixtures("_as_root")
FROM_CONFIG_MAP = {"--policy=/etc/rebalancer/policy.yaml": f"--policy=configmap:{NAMESPACE}/rebalancer-policy"}
RING = {("", "configmaps", name, "patch") for name in SEGMENT_MAPS[1:]}
"""The history goes on there when its first ConfigMap is full."""
FILE_ONLY = {("", "configmaps", "rebalancer-policy", "watch"), *RING}
"""The Deployment mounts the policy; one variant below watches it."""
NOT_SERVED = {
    ("scheduling.k8s.io", "podgroups", "", "watch"),
    *(() if serves_device_classes() else [("resource.k8s.io", "deviceclasses", "", "watch")]),
    *(
        ("admissionregistration.k8s.io", resource, "", "watch")
        for resource in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
        if not serves_mutating_policies()
    ),
}
"""What is listed is not there by default, or not in an older release; `test_pod_groups.py` watches it where it is."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A set of roles: the policy that they follow from, what else is done, and what is not needed by it."""

    policy: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    act: Callable[[ControlPlane], None] = lambda _: None
    lay_out: Callable[[ControlPlane], None] = lay_out_owners
    changed: Mapping[str, str] = field(default_factory=dict)
    unused: set[tuple[str, str, str, str]] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    """Namespaces that are listed and were deleted, so that there is no right in them."""


def pause_twice(plane: ControlPlane) -> None:
    """Pause, resume and pause again with the same words: the second event is a series of the first."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-control"
    for text in ("reason: a test", None, "reason: a test", None):
        plane.api.patch(path, {"data": {"pause.yaml": text}})
        time.sleep(3)


def approve(plane: ControlPlane) -> None:
    """Approve what is proposed until something is evicted: the first proposals may end before they are approved."""
    status = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
    approval = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-approval"

    def evicts() -> bool:
        if plan := plane.api.get(status).get("data", {}).get("plan.json"):
            plane.api.patch(approval, {"data": {"approved": json.loads(plan)["planHash"]}})
        return bool(plane.audit.evictions(USER))

    wait_until(evicts, what="an approved eviction", interval=1)


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        plane.api.get(path)
    except ApiError:
        return False
    return True


def lay_out_two_teams(plane: ControlPlane) -> None:
    """Lay out the same, with skewed pods of another namespace; a namespace that is listed is deleted."""
    lay_out_owners(plane)
    path = "/api/v1/namespaces/gone"
    plane.api.delete(path)
    wait_until(lambda: not exists(plane, path), what="the namespace and its rights to be gone", timeout=60)
    labels = {"app": "theirs"}
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})
    for node in ("a-0", "a-0", "a-1"):
        spec = pod_template(labels=labels, cpu="10m", memory="16Mi", topologySpreadConstraints=constraints("theirs"))[
            "spec"
        ]
        metadata = {"generateName": "theirs-", "namespace": "theirs", "labels": labels}
        plane.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": node}})
    wait_settled(plane)


VARIANTS = {
    "observe": Variant(policy={"mode": "Observe"}, unused=FILE_ONLY),
    "approve, policy from the ConfigMap": Variant(
        policy={"mode": "Approve"}, act=approve, changed=FROM_CONFIG_MAP, unused=RING
    ),
    "evict": Variant(policy={"mode": "Evict"}, unused=FILE_ONLY),
    "steer": Variant(policy={"mode": "Observe", "prevention": {"scaleDown": "Steer"}}, unused=FILE_ONLY),
    "scale-downs observed": Variant(
        policy={"mode": "Observe", "prevention": {"scaleDown": "Observe"}}, unused=FILE_ONLY
    ),
    "capacity": Variant(
        policy={
            "mode": "Evict",
            "topology": {"domains": {ZONE: ["a", "b", "c"]}},
            "capacity": {"mode": "Request", "timeout": "6s", "settle": "1s"},
        },
        lay_out=test_capacity.lay_out_shop,
        # Nothing is evicted, since the capacity that the repair needs does not come, and no Karpenter says of which
        # machine it waits.
        unused=FILE_ONLY
        | {("", "pods/eviction", "", "create"), ("", "replicationcontrollers", "", "get")}
        | {("karpenter.sh", "nodeclaims", "", "get")}
        | {("apps", kind, "", "get") for kind in ("deployments", "replicasets", "statefulsets")},
    ),
    "teams": Variant(policy={"mode": "Observe", "teamPolicies": {"namespaces": ["shop"]}}, unused=FILE_ONLY),
    "one namespace": Variant(
        policy={"mode": "Evict", "eligibility": {"minAge": "0s", "namespaces": {"include": ["shop"]}}},
        values={"rbac": {"namespaced": True}},
        unused=FILE_ONLY,
    ),
    "workloads of one namespace": Variant(
        policy={"mode": "Evict"},
        values={"workloadNamespaces": ["gone", "shop"]},
        lay_out=lay_out_two_teams,
        unused=FILE_ONLY,
        left_out={"gone"},
    ),
}


BRIEF = {"capacity", "workloads of one namespace"}
"""The variants that are tried on each release, beside those that every change must pass; all others are long."""


def marks_of(variant: str) -> tuple[pytest.MarkDecorator, ...]:
    if variant in {"observe", "evict"}:
        return ()
    return (pytest.mark.nightly, pytest.mark.thorough) if variant in BRIEF else (pytest.mark.thorough,)


@needs_root
@pytest.mark.invariant("rights")
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in VARIANTS])
def test_what_is_rendered_runs_with_the_rights_that_it_needs_and_no_other(
    operators: ControlPlane, tmp_path: Path, name: str
) -> None:
    """Probes, user, read-only files; no request is refused; every right is used."""
    variant = VARIANTS[name]
    manifests = render_chart({"policy": {**FAST, **variant.policy}, **variant.values})
    apply(operators, manifests)
    # The pods of the Deployment would be pods of the cluster, too; here the process runs in their place.
    operators.api.patch(DEPLOYMENT, {"spec": {"replicas": 0}})
    variant.lay_out(operators)
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    operators.begin_test()
    with Installed(operators, tmp_path, pod, NAMESPACE, changed=variant.changed) as installed:
        installed.start_up()
        wait_until(lambda: installed.probe("readinessProbe") == 200, what="the readiness probe")
        assert installed.status("Uid").split() == ["65532"] * 4
        assert int(installed.status("CapBnd"), 16) == int(installed.status("CapEff"), 16) == 0
        assert installed.status("NoNewPrivs") == "1"
        assert installed.writable() == ["/tmp"]  # the emptyDir
        variant.act(operators)
        pause_twice(operators)
        rights = granted(manifests) - variant.unused - NOT_SERVED
        try:
            wait_until(lambda: used(operators, rights) == rights, what="every right to be used", timeout=90)
        except TimedOutError as error:
            error.add_note(f"unused: {sorted(rights - used(operators, rights))}")
            raise
        if variant.policy["mode"] == "Evict" and name != "capacity":
            wait_until(lambda: balanced(operators.api), what="the whole repair", timeout=90)
            assert [eviction.code for eviction in operators.audit.evictions(USER)] == [201] * (MINIMUM + 4)
        assert installed.probe("livenessProbe") == 200
    assert installed.process is not None
    assert installed.process.returncode == 0
    assert [path for path in refused(operators) if not any(f"/{name}/" in path for name in variant.left_out)] == []
    assert used(operators, variant.unused) == set(), "one of these rights was used after all"


@needs_root
def test_the_mode_evict_without_the_right_is_reported_and_ends_nothing(operators: ControlPlane, tmp_path: Path) -> None:
    """A policy edited in the cluster, the observing roles: condition, metric, event, and no request that is refused.

    With the right it goes on.
    """
    manifests = render_chart({"policy": FAST})
    apply(operators, manifests)
    operators.api.patch(DEPLOYMENT, {"spec": {"replicas": 0}})
    text = policy("Evict")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"
    operators.api.patch(path, {"data": {"policy.yaml": text}})
    lay_out_owners(operators)
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    operators.begin_test()
    with Installed(operators, tmp_path, pod, NAMESPACE) as installed:
        installed.start_up()
        status = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"

        def condition() -> bool:
            document = json.loads(operators.api.get(status).get("data", {}).get("status.json", "{}"))
            return bool(document.get("refusals", {}).get("Forbidden")) and document["missingRights"] == ["shop"]

        wait_until(condition, what="the condition in the status", timeout=60)
        metrics = installed.metrics()
        assert metrics["rebalancer_rights_missing"] == 1
        assert metrics['rebalancer_refusals{reason="Forbidden"}'] >= 1
        assert installed.log("cycle")[-1]["waiting_for"]["Forbidden"] >= 1
        wait_until(lambda: find_notes(operators, "RightMissing"), what="the event", timeout=30)
        assert find_notes(operators, "RightMissing") == [
            f"the controller's account has no right to evict in shop: {WAY_OUT}"
        ]
        assert installed.process is not None
        assert installed.process.poll() is None
        assert installed.probe("livenessProbe") == installed.probe("readinessProbe") == 200
        assert operators.audit.evictions(USER) == []
        apply(operators, documents(DEPLOY / "components" / "evict-rights" / "cluster-role.yaml"))
        wait_until(lambda: operators.audit.evictions(USER), what="an eviction", timeout=60)
        wait_until(lambda: find_notes(operators, "RightGranted"), what="the event of the right", timeout=30)
    assert refused(operators) == []


def find_notes(plane: ControlPlane, reason: str) -> list[str]:
    """Return the notes of events about the controller's own objects."""
    events = plane.api.list(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
    return [event["note"] for event in events if event["reason"] == reason]


@pytest.mark.invariant("cleanup")
@needs_root
def test_the_hook_before_an_uninstallation_leaves_nothing(operators: ControlPlane, tmp_path: Path) -> None:
    """The rendered Job with its rights: the controller is stopped, and what it has written is gone; twice."""
    capacity = {"mode": "Request", "namespace": "room"}
    values = {"policy": {**FAST, "mode": "Observe", "prevention": {"scaleDown": "Steer"}, "capacity": capacity}}
    manifests = render_chart(values)
    hooks = [hook for hook in render_chart(values, hooks=True) if hook["metadata"]["name"] == "rebalancer-cleanup"]
    apply(operators, [*manifests, *(hook for hook in hooks if hook["kind"] != "Job")])
    lay_out_owners(operators)
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    (job,) = [hook for hook in hooks if hook["kind"] == "Job"]
    folders = [tmp_path / name for name in ("controller", "first", "second")]
    for folder in folders:
        folder.mkdir()

    def marked() -> list[Manifest]:
        pods = operators.api.list("/api/v1/pods")
        return [pod for pod in pods if OWN_DELETION_COST in (pod["metadata"].get("annotations") or {})]

    operators.begin_test()
    pod = job["spec"]["template"]["spec"]
    first = Installed(operators, folders[1], pod, NAMESPACE)
    with Installed(operators, folders[0], deployment["spec"]["template"]["spec"], NAMESPACE):
        wait_until(marked, what="deletion costs", timeout=60)
        first.__enter__()
        wait_until(lambda: not operators.api.get(DEPLOYMENT)["spec"]["replicas"], what="the Deployment to be stopped")
    assert first.process is not None
    assert first.process.wait(60) == 0, first.log_file.read_text()
    assert marked() == []
    maps = operators.api.list(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    assert {entry["metadata"]["name"] for entry in maps} == {"kube-root-ca.crt", "rebalancer-policy"}
    assert operators.api.list(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases") == []
    # Placed only now, so that nobody but the second Job can delete it.
    placeholder = Placeholder(
        name="placeholder-1", token="t", requests=Resources(cpu=100), node_affinity=NodeAffinity()
    )
    operators.api.create_all([dict(job_manifest(placeholder, Capacity(namespace="room")))])
    second = Installed(operators, folders[2], pod, NAMESPACE)
    with second:
        assert second.process is not None
        assert second.process.wait(60) == 0, second.log_file.read_text()
    jobs = operators.api.list("/apis/batch/v1/namespaces/room/jobs")
    assert [job for job in jobs if "deletionTimestamp" not in job["metadata"]] == []
    rights = granted([hook for hook in hooks if hook["kind"] != "Job"])
    assert used(operators, rights) == rights
    assert refused(operators) == []
