"""Replicas of Deployments and ReplicaSets: finds who else declares them, and changes them under a precondition.

They are changed through the subresource `scale`, which has no other field of a workload. A change names the UID and
resourceVersion that were read, so it never replaces another author's number.

If another author declares `spec.replicas`, its server-side apply would conflict with such a change, and a GitOps tool
would revert it. A Scale does not show this author, so the workload itself is read. Sources: Argo CD, "Resource
Tracking" and the field manager that its applies leave; Flux, the labels of "Kustomization" and "HelmRelease".
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, ClusterError, RequestRefused, Transport, Unreachable
from rebalancer.model.moves import Reference
from rebalancer.ports import ReadFailedError, ScaleAnswer, ScaleReading, ScaleResult

MANAGER: Final = "rebalancer"
"""The field manager under which the API server notes our changes."""

_PLURALS: Final = {"Deployment": "deployments", "ReplicaSet": "replicasets"}
_ANNOTATION_MARKS: Final = ("argocd.argoproj.io/tracking-id",)
_LABEL_MARKS: Final = (
    "argocd.argoproj.io/instance",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    "helm.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/namespace",
)
_MANAGER_MARKS: Final = ("argocd-controller",)
"""`app.kubernetes.io/instance`, Argo CD's label up to release 2, is no mark: every Helm chart sets it, too."""


class _ManagedFields(msgspec.Struct, frozen=True, rename={"fields": "fieldsV1"}):
    manager: str = ""
    operation: str = ""
    time: str = ""
    fields: dict[str, Any] = {}

    @property
    def owns_replicas(self) -> bool:
        """Whether the manager owns `spec.replicas`."""
        spec = self.fields.get("f:spec")
        return isinstance(spec, dict) and "f:replicas" in spec


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    managed_fields: list[_ManagedFields] = []


class _Spec(msgspec.Struct, frozen=True):
    replicas: int


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec


class _ScaledMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _Scaled(msgspec.Struct, frozen=True):
    metadata: _ScaledMetadata


class Scaling:
    """Reads and changes the replicas of Deployments and ReplicaSets of one cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def read_scale(self, workload: Reference) -> ScaleReading | None:
        """Read a workload's replicas, None if it is gone; raise ReadFailedError."""
        plural = _PLURALS[workload.kind]
        path = f"/apis/apps/v1/namespaces/{workload.namespace}/{plural}/{workload.name}"
        try:
            read = msgspec.json.decode(self._transport.request("GET", path), type=_Workload)
        except RequestRefused as error:
            if error.status == 404:
                return None
            raise ReadFailedError(f"the replicas of {workload} cannot be read: {error}") from error
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(f"the replicas of {workload} cannot be read: {error}") from error
        metadata = read.metadata
        owners = [entry for entry in metadata.managed_fields if entry.owns_replicas]
        return ScaleReading(
            uid=metadata.uid,
            replicas=read.spec.replicas,
            resource_version=metadata.resource_version,
            appliers=tuple(sorted({entry.manager for entry in owners if entry.operation == "Apply"})),
            marks=tuple(_find_marks(metadata)),
            owners=tuple(sorted(f"{entry.manager} {entry.operation} {entry.time}" for entry in owners)),
            ours=all(entry.manager == MANAGER for entry in owners),
        )

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        """Change the replicas of a workload if it is unchanged since it was read. Never raises."""
        precondition = {"uid": read.uid, "resourceVersion": read.resource_version}
        body = {"metadata": precondition, "spec": {"replicas": replicas}}
        apps = client.AppsV1Api(self._transport)
        of_deployment = workload.kind == "Deployment"
        patch = apps.patch_namespaced_deployment_scale if of_deployment else apps.patch_namespaced_replica_set_scale
        try:
            data = self._transport.call(
                patch, workload.name, workload.namespace, body, field_manager=MANAGER, _content_type=MERGE_PATCH
            )
        except RequestRefused as error:
            return ScaleAnswer(_classify(error), message=str(error), retry_after=error.retry_after)
        except Unreachable as error:
            return ScaleAnswer(ScaleResult.UNKNOWN, message=str(error))
        try:
            version = msgspec.json.decode(data, type=_Scaled).metadata.resource_version
        except msgspec.DecodeError as error:
            return ScaleAnswer(ScaleResult.UNKNOWN, message=f"the response is not a Scale: {error}")
        return ScaleAnswer(ScaleResult.SCALED, version)


def _find_marks(metadata: _Metadata) -> Iterator[str]:
    yield from (f"annotation {name}" for name in _ANNOTATION_MARKS if name in metadata.annotations)
    yield from (f"label {name}" for name in _LABEL_MARKS if name in metadata.labels)
    managers = {entry.manager for entry in metadata.managed_fields}
    yield from (f"field manager {name}" for name in _MANAGER_MARKS if name in managers)


def _classify(error: RequestRefused) -> ScaleResult:
    """Return what an answer with an error means."""
    if error.denial is not None:  # first of all: a webhook chooses the code itself
        return ScaleResult.FORBIDDEN
    match error.status:
        case 404:
            return ScaleResult.GONE
        case 409:
            return ScaleResult.CONFLICT
        case 401 | 403:
            return ScaleResult.FORBIDDEN
        case status if status >= 500:
            return ScaleResult.UNKNOWN
        case _:
            return ScaleResult.FAILED
