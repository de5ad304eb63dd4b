"""When a cluster has come to rest: every pod Ready, every controller has seen everything, budgets are up to date."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tests.control_plane.api import Api, TimedOutError
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, key_of
from tests.control_plane.stages import NEVER_READY

OWNERS: Final = ("deployments", "replicasets", "statefulsets")
NOT_READY_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def wait_settled(plane: ControlPlane, *, timeout: float = 60.0, unschedulable: int | None = 0) -> None:
    """Wait until nothing moves any more.

    `unschedulable` is how many pods the scheduler finds no place for, in this state of the cluster, None: any number.
    Raises TimedOutError, saying what isn't settled yet.
    """
    deadline = time.monotonic() + timeout
    began = time.monotonic()
    while reason := unsettled(plane.api, unschedulable=unschedulable):
        if time.monotonic() > deadline:
            message = f"not settled after {timeout:g} s: {reason}"
            raise TimedOutError(message)
        # Lists of thousands of pods take the server seconds; it is to do what is waited for, too.
        time.sleep(max(0.05, time.monotonic() - began))
        began = time.monotonic()


def unsettled(api: Api, *, unschedulable: int | None = 0) -> str:
    """Return what isn't settled yet, in words; empty if everything is.

    `unschedulable` None: any number may be, and a StatefulSet may wait for one with the pods after it.
    """
    nodes = {node["metadata"]["name"]: node for node in api.list("/api/v1/nodes")}
    for name, node in nodes.items():
        if not node_ready(node):
            return f"node {name} isn't ready"
    pods = api.list("/api/v1/pods")
    stuck: list[Manifest] = []
    for pod in pods:
        if _is_unschedulable(pod):
            stuck.append(pod)
        elif reason := _pod_unsettled(pod, nodes):
            return f"pod {_name(pod)} {reason}"
    if unschedulable is not None and len(stuck) != unschedulable:
        return f"{len(stuck)} pods can't be scheduled instead of {unschedulable}"
    waiting = {owner["uid"] for pod in stuck for owner in pod["metadata"].get("ownerReferences", ())}
    return _owners_unsettled(api, pods, waiting if unschedulable is None else set()) or _budgets_unsettled(api)


def node_ready(node: Manifest) -> bool:
    """Whether a node is Ready and the taint of one that isn't has gone."""
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return condition(node, "Ready") == "True" and not taints & NOT_READY_TAINTS


def pod_ready(pod: Manifest) -> bool:
    """Whether a pod's condition Ready is true; also of one that is being deleted."""
    return condition(pod, "Ready") == "True"


def condition(manifest: Manifest, kind: str) -> str:
    """Return the status of a condition: `True`, `False`, `Unknown`, or empty if it isn't there."""
    conditions: list[dict[str, Any]] = manifest.get("status", {}).get("conditions") or []
    return next((str(condition["status"]) for condition in conditions if condition["type"] == kind), "")


def _is_unschedulable(pod: Manifest) -> bool:
    return condition(pod, "PodScheduled") == "False" and "deletionTimestamp" not in pod["metadata"]


def _pod_unsettled(pod: Manifest, nodes: Mapping[str, Manifest]) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "terminates"
    if not (node := pod["spec"].get("nodeName")):
        return "isn't scheduled"
    if node not in nodes:
        return f"is on {node}, which does not exist"
    if pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return ""
    wanted = "False" if NEVER_READY in pod["metadata"].get("labels", {}) else "True"
    return "" if condition(pod, "Ready") == wanted else f"hasn't Ready={wanted}"


def _owners_unsettled(api: Api, pods: list[Manifest], waiting: set[str]) -> str:
    """Return which owner isn't; of StatefulSets among `waiting`, by UID, the number of pods is left aside."""
    living = Counter(
        owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences", ()) if owner.get("controller")
    )
    ready = Counter(
        owner["uid"]
        for pod in pods
        if condition(pod, "Ready") == "True"
        for owner in pod["metadata"].get("ownerReferences", ())
    )
    for plural in OWNERS:
        for owner in api.list(f"/apis/apps/v1/{plural}"):
            status = owner.get("status", {})
            wanted = owner["spec"]["replicas"]
            name = f"{plural} {_name(owner)}"
            if status.get("observedGeneration") != owner["metadata"]["generation"]:
                return f"{name}: its controller hasn't seen its last change"
            if plural == "statefulsets" and owner["metadata"]["uid"] in waiting:
                continue
            if status.get("replicas", 0) != wanted:
                return f"{name}: has {status.get('replicas', 0)} of {wanted} pods"
            if plural == "deployments" and status.get("updatedReplicas", 0) != wanted:
                return f"{name}: rolls out"
            if plural != "deployments" and living[owner["metadata"]["uid"]] != wanted:
                return f"{name}: owns {living[owner['metadata']['uid']]} of {wanted} pods"
            is_ready = ready[owner["metadata"]["uid"]]
            if plural != "deployments" and status.get("readyReplicas", 0) != is_ready:
                return f"{name}: says {status.get('readyReplicas', 0)} of {is_ready} ready pods"
    return ""


def _budgets_unsettled(api: Api) -> str:
    for budget in api.list("/apis/policy/v1/poddisruptionbudgets"):
        status = budget.get("status", {})
        name = f"budget {_name(budget)}"
        if any(condition["reason"] == "SyncFailed" for condition in status.get("conditions", ())):
            continue
        if status.get("observedGeneration") != budget["metadata"]["generation"]:
            return f"{name}: its last change hasn't been seen"
        if status.get("disruptedPods"):
            return f"{name}: waits for evicted pods"
        pods = _covered(api, budget)
        healthy = sum(condition(pod, "Ready") == "True" for pod in pods)
        if status["currentHealthy"] != healthy:
            return f"{name}: counts {status['currentHealthy']} of {healthy} healthy pods"
        if isinstance(budget["spec"].get("minAvailable"), int) and status["expectedPods"] != len(pods):
            return f"{name}: expects {status['expectedPods']} of {len(pods)} pods"
    return ""


def _covered(api: Api, budget: Manifest) -> list[Manifest]:
    namespace, _ = key_of(budget)
    selector = budget["spec"].get("selector")
    if selector is None:
        return []
    return api.list(f"/api/v1/namespaces/{namespace}/pods", labels=selector_text(selector))


def selector_text(selector: Mapping[str, Any]) -> str:
    """Return a LabelSelector in the form that a list request takes, so that the server does the matching."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], ",".join(term.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append(forms.get(term["operator"], f"!{key}"))
    return ",".join(terms)


def _name(manifest: Manifest) -> str:
    return "/".join(key_of(manifest))


def have_been_ready(api: Api, seconds: float) -> bool:
    """Return whether every node has been Ready for more than so many seconds."""
    ready = [
        datetime.fromisoformat(one["lastTransitionTime"])
        for node in api.list("/api/v1/nodes")
        for one in node["status"]["conditions"]
        if one["type"] == "Ready"
    ]
    return all((datetime.now(UTC) - since).total_seconds() > seconds for since in ready)
