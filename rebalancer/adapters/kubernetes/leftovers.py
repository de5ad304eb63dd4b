"""What `run` leaves in a cluster: the Deployment that writes it, deletion costs, ConfigMaps, the Lease.

Every method may be repeated: an object that no longer exists counts as done.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, CONTROL, STATUS, SURGES
from rebalancer.adapters.kubernetes.deletion_costs import patch_cost
from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, RequestRefused, Transport
from rebalancer.decoding.kinds import PODS
from rebalancer.history.ring import SEGMENT_MAPS
from rebalancer.history.trend import TREND_MAP
from rebalancer.model.deletion_costs import is_overwritten
from rebalancer.model.pods import Pod
from rebalancer.policy.team_maps import VALID_POLICY_MAP
from rebalancer.ports import PatchAnswer
from rebalancer.prevention.plan import PodPatch

DEPLOYMENT: Final = "rebalancer"
_MAPS: Final = (STATUS, CONTROL, APPROVAL, SURGES, VALID_POLICY_MAP, TREND_MAP, *SEGMENT_MAPS)
"""The ConfigMaps that are not people's policy."""

_MISSING: Final = 404


class _Wanted(msgspec.Struct, frozen=True):
    replicas: int = 0
    """The API server omits 0."""


class _Scale(msgspec.Struct, frozen=True):
    spec: _Wanted


class Leftovers:
    """The leftovers of the controller in one namespace, and of its prevention in all; methods raise ClusterError."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    def read_replicas(self) -> int | None:
        """Return how many replicas the controller's Deployment wants, None if there is none."""
        read = client.AppsV1Api(self._transport).read_namespaced_deployment_scale
        try:
            data = self._transport.call(read, DEPLOYMENT, self._namespace)
        except RequestRefused as error:
            if error.status != _MISSING:
                raise
            return None
        return msgspec.json.decode(data, type=_Scale).spec.replicas

    def scale_controller(self, replicas: int) -> bool:
        """Scale the controller's Deployment; return whether there is one."""
        scale = client.AppsV1Api(self._transport).patch_namespaced_deployment_scale
        return self._unless_missing(scale, DEPLOYMENT, {"spec": {"replicas": replicas}}, _content_type=MERGE_PATCH)

    def find_pods(self) -> Iterator[Pod]:
        """Yield the pods with Rebalancer's deletion cost, or with the marker of a cost that somebody has replaced."""
        for page in read_pages(self._transport, PODS, PODS.path):
            for pod in page.objects:
                if isinstance(pod, Pod) and (pod.own_deletion_cost or is_overwritten(pod)):
                    yield pod

    def remove_cost(self, pod: Pod) -> PatchAnswer:
        """Remove Rebalancer's annotations from a pod unchanged since it was read; another author's cost stays."""
        patch = PodPatch(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            resource_version=pod.resource_version,
            cost=None,
            marker_only=is_overwritten(pod),
        )
        return patch_cost(self._transport, patch)

    def name_objects(self) -> Iterator[str]:
        """Yield the names of what `delete_objects` deletes, if it exists."""
        yield from (f"ConfigMap {self._namespace}/{name}" for name in _MAPS)
        yield f"Lease {self._namespace}/{DEPLOYMENT}"

    def delete_objects(self) -> Iterator[str]:
        """Delete the ConfigMaps that are not the policy, and the Lease; yield what has been deleted."""
        for name in _MAPS:
            if self._unless_missing(client.CoreV1Api(self._transport).delete_namespaced_config_map, name):
                yield f"ConfigMap {self._namespace}/{name}"
        if self._unless_missing(client.CoordinationV1Api(self._transport).delete_namespaced_lease, DEPLOYMENT):
            yield f"Lease {self._namespace}/{DEPLOYMENT}"

    def _unless_missing(self, operation: Callable[..., object], name: str, *body: object, **options: Any) -> bool:
        try:
            self._transport.call(operation, name, self._namespace, *body, **options)
        except RequestRefused as error:
            if error.status != _MISSING:
                raise
            return False
        return True
