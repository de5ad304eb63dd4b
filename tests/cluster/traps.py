"""Namespaces in which the next pod is not what the last one was: what is changed there after the pods were made.

Each has one workload whose pods are 3/1/0 over three zones: one eviction repairs it, if its replacement is created and
comes to zone c. Nodes of zone c have little room.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.control_plane.api import Api, wait_until
from tests.control_plane.configuration import EXEMPT
from tests.control_plane.layout import Workload, deployment, nodes, spread, stateful_set
from tests.control_plane.manifests import ZONE, namespace
from tests.control_plane.resources import Manifest, object_path

LOPSIDED: Final = ("a-0", "a-1", "a-0", "b-0")
HARDENED: Final[Mapping[str, Any]] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "app",
            "image": "example.test/app:1",
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
SMALL, LARGE = "50m", "5"
"""What fits into zone c, and what does not."""


def cluster_nodes() -> list[Manifest]:
    return [*nodes({"a": 2, "b": 2}, cpu="1000"), *nodes({"c": 2}, cpu="4")]


@dataclass(frozen=True, kw_only=True)
class Trap:
    """One kind of change. `spec` is of the pods, `before` is made before them, `change` is called after.

    In the texts of `spec` {space} stands for the namespace's name.
    `named` stands in the message of the refusal; "" where the eviction is right and has to happen.
    """

    name: str
    named: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[str], Sequence[Manifest]] = lambda space: ()
    change: Callable[[Api, str], None] = lambda api, space: None
    of_set: Mapping[str, Any] | None = None
    """Fields of a StatefulSet, where the owner is one."""
    injected: bool = False
    """Whether the pods have a container that the template does not have, as a webhook would add it."""
    mixes: bool = True
    """Whether it says nothing about spec and owner, so that it may be mixed with others."""

    @property
    def family(self) -> str:
        """The kind of object that it changes: two of one family cannot be in one namespace."""
        return self.name.partition("-")[0]


def lay(space: str, trap: Trap) -> list[Manifest | Workload]:
    """Return the namespace with its workload."""
    fields: dict[str, Any] = {
        "namespace": space,
        "cpu": SMALL,
        "topologySpreadConstraints": [spread(ZONE, labels={"app": "web"})],
        **{name: value.format(space=space) if isinstance(value, str) else value for name, value in trap.spec.items()},
    }
    if trap.of_set is not None:
        # Its own name: `lay_out` makes all sets in one other namespace for a moment.
        made = stateful_set(space, ("b-0", "a-0", "a-1", "a-0"), labels={"app": "web"}, workload=trap.of_set, **fields)
    else:
        made = deployment("web", LOPSIDED, **fields)
    for pod in made.pods if trap.injected else ():
        proxy = {
            "name": "proxy",
            "image": "example.test/proxy:1",
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        }
        pod["spec"]["containers"].append(proxy)
    extra = [*trap.before(space)]
    if not any(manifest["kind"] == "Namespace" for manifest in extra):
        extra.append(namespace(space))
    return [*extra, made]


# What is made or changed


def quota(space: str, hard: Mapping[str, str], **spec: Any) -> Manifest:
    metadata = {"name": "q", "namespace": space}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": dict(hard), **spec}}


def add_quota(hard: Mapping[str, str], **spec: Any) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        made = quota(space, hard, **spec)
        api.create(made)
        path = object_path(made)
        wait_until(lambda: api.get(path).get("status", {}).get("used"), what=f"the usage of the quota in {space}")

    return change


def all_of(*changes: Callable[[Api, str], None]) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        for one in changes:
            one(api, space)

    return change


def enforce(level: str) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        api.patch(f"/api/v1/namespaces/{space}", {"metadata": {"labels": labels}})

    return change


def warn(api: Api, space: str) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("warn", "audit")}
    api.patch(f"/api/v1/namespaces/{space}", {"metadata": {"labels": labels}})


def runtime_class(space: str) -> list[Manifest]:
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": f"{space}-class"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "10m"}},
        }
    ]


def priority_class(space: str) -> list[Manifest]:
    metadata = {"name": f"{space}-class"}
    return [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 5}]


def account(space: str) -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": space}}]


def removed(make: Callable[[str], Sequence[Manifest]]) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        for manifest in make(space):
            api.delete(object_path(manifest))

    return change


def webhook(*, policy: str = "Fail", objects: Mapping[str, str] | None = None) -> Callable[[Api, str], None]:
    """Let a webhook whose Service has no endpoint be asked about new pods."""

    def change(api: Api, space: str) -> None:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "guard", "namespace": space}}
        api.create({**service, "spec": {"ports": [{"port": 443}], "selector": {"app": "guard"}}})
        hook: dict[str, Any] = {
            "name": "pods.guard.example",
            "clientConfig": {"service": {"namespace": space, "name": "guard", "path": "/"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
            "objectSelector": {"matchLabels": dict(objects or {})},
            "failurePolicy": policy,
            "timeoutSeconds": 1,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        api.create({**kind, "metadata": {"name": f"guard-{space}"}, "webhooks": [hook]})

    return change


def limit_range(**item: Any) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        metadata = {"name": "limits", "namespace": space}
        spec = {"limits": [{"type": "Container", **item}]}
        api.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec})

    return change


def report_resources(api: Api, path: str) -> None:
    """Write into a pod's status that its containers have what its spec requests."""
    pod = api.get(path)
    requests = {one["name"]: one["resources"].get("requests", {}) for one in pod["spec"]["containers"]}
    statuses = [
        {**one, "resources": {"requests": requests[one["name"]]}, "allocatedResources": requests[one["name"]]}
        for one in pod["status"]["containerStatuses"]
    ]
    api.patch(f"{path}/status", {"status": {"containerStatuses": statuses}})


def resize(cpu: str) -> Callable[[Api, str], None]:
    """Resize all pods in place. The test says in the kubelet's place what they have, before and after."""

    def change(api: Api, space: str) -> None:
        for pod in api.list(f"/api/v1/namespaces/{space}/pods"):
            path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}"
            report_resources(api, path)
            changed = {"apiVersion": "v1", "kind": "Pod", **api.get(path)}
            changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
            api.replace(changed, subresource="resize")
            report_resources(api, path)

    return change


def own_sets(api: Api, space: str) -> None:
    """Let each pod own a StatefulSet."""
    for pod in api.list(f"/api/v1/namespaces/{space}/pods"):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        owned = copy.deepcopy(stateful_set(f"of-{name}", (), namespace=space, replicas=0).owners[0])
        owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]
        api.create(owned)


def change_template(api: Api, space: str) -> None:
    template = {"metadata": {"annotations": {"changed": "yes"}}}
    api.patch(f"/apis/apps/v1/namespaces/{space}/statefulsets/{space}", {"spec": {"template": template}})


def roll_out(api: Api, space: str) -> None:
    """Begin a rollout whose first new pod does not become Ready."""
    template = {"metadata": {"labels": {"kwok.test/never-ready": "yes"}}}
    strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    path = f"/apis/apps/v1/namespaces/{space}/deployments/web"
    api.patch(path, {"spec": {"strategy": strategy, "template": template}})
    sets = f"/apis/apps/v1/namespaces/{space}/replicasets"
    wait_until(lambda: len(api.list(sets)) == 2, what=f"the second ReplicaSet in {space}")


def first_unready(api: Api, space: str) -> None:
    """Let the pod of the lowest ordinal become unready; it is in zone b."""
    labels = {"kwok.test/never-ready": "yes"}
    api.patch(f"/api/v1/namespaces/{space}/pods/{space}-0", {"metadata": {"labels": labels}})

    def unready() -> bool:
        conditions = api.get(f"/api/v1/namespaces/{space}/pods/{space}-0")["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "False" for one in conditions)

    wait_until(unready, what=f"{space}-0 to become unready")


def annotate(selector: str) -> Callable[[Api, str], None]:
    def change(api: Api, space: str) -> None:
        annotations = {"scheduler.alpha.kubernetes.io/node-selector": selector}
        api.patch(f"/api/v1/namespaces/{space}", {"metadata": {"annotations": annotations}})

    return change


def exempt_namespace(space: str) -> list[Manifest]:
    return [namespace(space, labels={"pod-security.kubernetes.io/enforce": "restricted"})]


NOT_BEST_EFFORT: Final = {"scopes": ["NotBestEffort"]}
FEW: Final = {"pods": "3"}

TRAPS: Final = (
    Trap(name="plain"),
    Trap(name="quota-exactly-full", change=add_quota({"pods": "4", "requests.cpu": "200m"})),
    Trap(name="quota-exceeded", named="ResourceQuota quota-exceeded/q", change=add_quota(FEW)),
    Trap(name="quota-in-scope", named="ResourceQuota quota-in-scope/q", change=add_quota(FEW, **NOT_BEST_EFFORT)),
    Trap(name="quota-out-of-scope", change=add_quota({"pods": "0"}, scopes=["BestEffort"])),
    Trap(name="quota-must-say", named="limits.cpu", change=add_quota({"limits.cpu": "100"})),
    Trap(name="security-raised", named="Pod Security restricted", change=enforce("restricted")),
    Trap(name="security-baseline", change=enforce("baseline")),
    Trap(name="security-warned", change=warn),
    Trap(name="security-hardened", spec=HARDENED, change=enforce("restricted"), mixes=False),
    Trap(name=EXEMPT, before=exempt_namespace, mixes=False),
    Trap(
        name="runtime-gone",
        named="RuntimeClass runtime-gone-class",
        spec={"runtimeClassName": "{space}-class"},
        before=runtime_class,
        change=removed(runtime_class),
        mixes=False,
    ),
    Trap(name="runtime-there", spec={"runtimeClassName": "{space}-class"}, before=runtime_class, mixes=False),
    Trap(
        name="priority-gone",
        named="PriorityClass priority-gone-class",
        spec={"priorityClassName": "{space}-class"},
        before=priority_class,
        change=removed(priority_class),
        mixes=False,
    ),
    Trap(
        name="account-gone",
        named="ServiceAccount account-gone/robot",
        spec={"serviceAccountName": "robot"},
        before=account,
        change=removed(account),
        mixes=False,
    ),
    Trap(name="webhook-dead", named="webhook pods.guard.example", change=webhook()),
    Trap(name="webhook-ignored", change=webhook(policy="Ignore")),
    Trap(name="webhook-of-others", change=webhook(objects={"app": "other"})),
    Trap(name="limits-too-high", named="LimitRange limits-too-high/limits", change=limit_range(min={"cpu": "1"})),
    Trap(name="limits-default", change=limit_range(defaultRequest={"ephemeral-storage": "1Mi"})),
    Trap(
        name="limits-counted",
        change=all_of(limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "1m"}), add_quota({"limits.cpu": "4"})),
        mixes=False,
    ),
    Trap(name="limits-below", named="more than its limit", change=limit_range(default={"cpu": "10m"})),
    Trap(name="resized-down", named="NoCapacity", spec={"cpu": LARGE}, change=resize(SMALL), mixes=False),
    Trap(name="resized-up", change=resize(LARGE)),
    Trap(name="rollout-stuck", named="RolloutInProgress", change=roll_out, mixes=False),
    Trap(name="owns-sets", named="owns StatefulSet", change=own_sets),
    Trap(
        name="ordered-unready", named="pod ordered-unready-0 is not Ready", of_set={}, change=first_unready, mixes=False
    ),
    Trap(
        name="parallel-unready",
        of_set={"podManagementPolicy": "Parallel"},
        change=first_unready,
        mixes=False,
    ),
    Trap(
        name="partitioned",
        of_set={"updateStrategy": {"rollingUpdate": {"partition": 4}}},
        change=change_template,
        mixes=False,
    ),
    Trap(name="injected-container", injected=True, mixes=False),
    Trap(name="selector-shown", before=lambda space: [annotated(space, "kubernetes.io/os=linux")], mixes=False),
    Trap(name="selector-of-all", change=annotate("kubernetes.io/os=linux")),
)


def annotated(space: str, selector: str) -> Manifest:
    made = namespace(space)
    made["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/node-selector": selector}
    return made
