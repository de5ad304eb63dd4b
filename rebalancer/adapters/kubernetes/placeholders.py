"""The Jobs of placeholder pods.

A Job makes only one attempt and has a deadline, and the control plane deletes it when it has ended. So nothing is left
even if the controller dies. Any other pod may preempt the Job's pod, which preempts none, is deleted without grace, and
meets the Pod Security Standard `restricted`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.model.affinity import NodeAffinity, Toleration
from rebalancer.model.labels import SelectorRequirement
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.placeholders import PLACEHOLDER_LABEL, REQUEST_LABEL, Placeholder, lifetime
from rebalancer.model.pods import Resources
from rebalancer.policy import Capacity
from rebalancer.ports import ReadFailedError

PRIORITY_CLASS: Final = "rebalancer-capacity"
"""Its value is from -10 to -1: below -10, the cluster-autoscaler creates no nodes for a pod."""

_CONFLICT: Final = 409
_MOST_EVENTS: Final = 500
_SCHEDULER: Final = "default-scheduler"
_USER: Final = 65535
_NODE_CLAIM: Final = re.compile(r"nodeclaim/([a-z0-9.-]+)")
"""How Karpenter's event on a pod names the machine that it has requested for it."""

_STEPS: Final = frozenset({"Launched", "Registered", "Initialized"})
"""The conditions of a NodeClaim on its way to a node; its other conditions concern its later life."""

_LABELS: Final = {"app.kubernetes.io/name": "rebalancer", "app.kubernetes.io/managed-by": "rebalancer"}
_ANNOTATIONS: Final = {
    # An autoscaler that removes the node under a repair would take its capacity away.
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Job(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _JobList(msgspec.Struct, frozen=True):
    items: list[_Job]


class _Regarding(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Source(msgspec.Struct, frozen=True):
    component: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    last_observed_time: str = ""


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    """An event, as clients of both event APIs write it."""

    regarding: _Regarding = _Regarding()
    reporting_controller: str = ""
    deprecated_source: _Source = _Source()
    note: str = ""
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None
    series: _Series | None = None

    @property
    def reporter(self) -> str:
        """The publisher of the event."""
        return self.reporting_controller or self.deprecated_source.component

    @property
    def at(self) -> str:
        """When the event was last seen, in RFC 3339."""
        series = self.series.last_observed_time if self.series is not None else ""
        return max(series, self.event_time or "", self.deprecated_last_timestamp or "")


class _EventList(msgspec.Struct, frozen=True):
    items: list[_Event]


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _NodeClaimStatus(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _NodeClaim(msgspec.Struct, frozen=True):
    status: _NodeClaimStatus = _NodeClaimStatus()


class PlaceholderStore:
    """The Jobs of placeholders in a cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def _api(self) -> "client.BatchV1Api":
        return client.BatchV1Api(self._transport)

    def list_placeholders(self, namespace: str) -> frozenset[str]:
        """Return the names of the Jobs that are not being deleted."""
        try:
            data = self._transport.call(self._api.list_namespaced_job, namespace, label_selector=PLACEHOLDER_LABEL)
            jobs = msgspec.json.decode(data, type=_JobList).items
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(str(error)) from error
        return frozenset(job.metadata.name for job in jobs if job.metadata.deletion_timestamp is None)

    def create_placeholder(self, placeholder: Placeholder, rules: Capacity) -> str:
        """Create a Job; if a Job of this name exists, it counts as created."""
        try:
            self._transport.call(self._api.create_namespaced_job, rules.namespace, job_manifest(placeholder, rules))
        except RequestRefused as error:
            return "" if error.status == _CONFLICT else str(error)
        except ClusterError as error:
            return str(error)
        return ""

    def delete_placeholder(self, namespace: str, name: str) -> None:
        """Delete a Job; the garbage collector deletes its pod, which has no grace period."""
        try:
            self._transport.call(self._api.delete_namespaced_job, name, namespace, propagation_policy="Background")
        except ClusterError:
            return  # the next cycle still lists the Job, and tries again

    def explain_placeholder(self, namespace: str, token: str) -> str:
        """Return the newest event of an autoscaler about a request's pods, else of the scheduler.

        If the event names a NodeClaim of Karpenter, also return why the NodeClaim has no node yet.
        """
        try:
            data = self._transport.call(
                client.EventsV1Api(self._transport).list_namespaced_event, namespace, limit=_MOST_EVENTS
            )
            events = msgspec.json.decode(data, type=_EventList).items
        except (ClusterError, msgspec.DecodeError):
            return ""
        about = [
            event for event in events if event.regarding.kind == "Pod" and token in event.regarding.name and event.note
        ]
        newest = max(about, key=lambda event: (event.reporter != _SCHEDULER, event.at), default=None)
        if newest is None:
            return ""
        claim = _NODE_CLAIM.search(newest.note)
        reasons = self._explain_node_claim(claim[1]) if claim is not None else []
        return "; ".join([f"{newest.reporter}: {newest.note}", *reasons])

    def _explain_node_claim(self, name: str) -> list[str]:
        """Return the conditions of a NodeClaim that do not hold; none if it cannot be read, or is gone."""
        try:
            get = client.CustomObjectsApi(self._transport).get_cluster_custom_object
            data = self._transport.call(get, "karpenter.sh", "v1", "nodeclaims", name)
            conditions = msgspec.json.decode(data, type=_NodeClaim).status.conditions
        except (ClusterError, msgspec.DecodeError):
            return []
        lacking = [known for known in conditions if known.status != "True" and known.type in _STEPS]
        return [f"NodeClaim {name} is not {known.type}: {known.reason} {known.message}".rstrip() for known in lacking]


def job_manifest(placeholder: Placeholder, rules: Capacity) -> Mapping[str, Any]:
    """Return the Job of a placeholder."""
    labels = {**_LABELS, REQUEST_LABEL: placeholder.token, PLACEHOLDER_LABEL: placeholder.name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": placeholder.name, "namespace": rules.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(lifetime(rules.timeout).total_seconds()),
            "ttlSecondsAfterFinished": 0,
            "template": {
                "metadata": {"labels": labels, "annotations": _ANNOTATIONS},
                "spec": _pod_spec(placeholder, rules),
            },
        },
    }


def _pod_spec(placeholder: Placeholder, rules: Capacity) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "priorityClassName": PRIORITY_CLASS,
        "schedulerName": placeholder.scheduler,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "placeholder",
                "image": rules.image,
                "resources": _resources(placeholder.requests),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "nodeSelector": dict(placeholder.node_affinity.selector),
        "tolerations": [_toleration(toleration) for toleration in placeholder.tolerations],
    }
    required = _required(placeholder.node_affinity)
    if required is not None:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if placeholder.per_node:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": HOSTNAME,
                "maxSkew": placeholder.per_node,
                "minDomains": placeholder.nodes,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {REQUEST_LABEL: placeholder.token}},
            }
        ]
    return spec


def _resources(requests: Resources) -> dict[str, Any]:
    amounts = {"cpu": f"{requests.cpu}m", "memory": str(requests.memory)}
    if requests.ephemeral_storage:
        amounts["ephemeral-storage"] = str(requests.ephemeral_storage)
    extended = {name: str(amount) for name, amount in requests.extended}
    # Resources that cannot be overcommitted need a limit equal to the request.
    return {"requests": {**amounts, **extended}, **({"limits": extended} if extended else {})}


def _toleration(toleration: Toleration) -> dict[str, str]:
    written = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": str(toleration.effect or ""),
    }
    return {name: value for name, value in written.items() if value}


def _required(affinity: NodeAffinity) -> dict[str, Any] | None:
    if affinity.required is None:
        return None
    terms = [
        {
            "matchExpressions": [_expression(expression) for expression in term.expressions],
            "matchFields": [_expression(field) for field in term.fields],
        }
        for term in affinity.required
    ]
    return {"nodeSelectorTerms": [{name: rows for name, rows in term.items() if rows} for term in terms]}


def _expression(requirement: SelectorRequirement) -> dict[str, Any]:
    written: dict[str, Any] = {"key": requirement.key, "operator": str(requirement.operator)}
    return {**written, "values": list(requirement.values)} if requirement.values else written
