"""Patches of pods' deletion costs, and the proof that nothing else of a pod can be patched.

A patch names the pod's UID and resourceVersion. A pod that has changed since it was read is not patched, so no other
author's cost is ever replaced. A patch changes only two annotations.

The right to patch pods includes their images. So the installation has an admission policy that lets this identity
change nothing but these annotations. Before any write that policy is tested: a ValidatingAdmissionPolicy must refuse a
dry run that changes a label.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, RequestRefused, Transport, Unreachable
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST
from rebalancer.ports import PatchAnswer, PatchResult
from rebalancer.prevention.plan import PodPatch

_MANAGER: Final = "rebalancer"
_PROBE: Final = "rebalancer.dev/must-be-refused"
_POLICY: Final = "ValidatingAdmissionPolicy"
"""How the API server names what refused a request, in its message."""

_INSTALL: Final = "deploy/prevention and deploy/surge install the policy and its binding"


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Patched(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def patch_cost(transport: Transport, patch: PodPatch) -> PatchAnswer:
    """Write or remove a pod's deletion cost."""
    value = None if patch.cost is None else str(patch.cost)
    annotations: dict[str, Any] = {OWN_DELETION_COST: value}
    if not patch.marker_only:
        annotations[DELETION_COST] = value
    body = {
        "metadata": {"uid": patch.uid, "resourceVersion": patch.resource_version, "annotations": annotations},
    }
    try:
        data = _patch_pod(transport, patch.namespace, patch.name, body)
    except RequestRefused as error:
        gone = error.status in {404, 409} or error.namespace_terminating
        return PatchAnswer(
            PatchResult.CONFLICT if gone else PatchResult.FAILED, message=str(error), retry_after=error.retry_after
        )
    except Unreachable as error:
        return PatchAnswer(PatchResult.FAILED, message=str(error))
    try:
        version = msgspec.json.decode(data, type=_Patched).metadata.resource_version
    except msgspec.DecodeError as error:
        return PatchAnswer(PatchResult.FAILED, message=f"the response is not a pod: {error}")
    return PatchAnswer(PatchResult.PATCHED, version)


def find_missing_restriction(transport: Transport, namespace: str, pod: str) -> str:
    """Return why this identity might change more of a pod than its deletion cost, "" if it cannot."""
    body = {"metadata": {"labels": {_PROBE: "true"}}}
    try:
        _patch_pod(transport, namespace, pod, body, dry_run="All")
    except RequestRefused as error:
        if error.status == 404:
            return f"pod {namespace}/{pod} does not exist any more; another one is tried"
        if _POLICY in str(error.details.get("message", "")):
            return ""
        if error.status in {401, 403}:
            return f"pods may not be patched: {error}; deploy/prevention and deploy/surge have the ClusterRole"
        return f"a change of a label was refused, but not by a {_POLICY}: {error}; {_INSTALL}"
    except Unreachable as error:
        return f"it is not known whether a change of a label would be refused: {error}"
    return f"a change of a label was not refused: this identity could change any part of a pod; {_INSTALL}"


def _patch_pod(
    transport: Transport, namespace: str, pod: str, change: Mapping[str, Any], *, dry_run: str | None = None
) -> bytes:
    patch = client.CoreV1Api(transport).patch_namespaced_pod
    return transport.call(
        patch, pod, namespace, change, field_manager=_MANAGER, dry_run=dry_run, _content_type=MERGE_PATCH
    )
