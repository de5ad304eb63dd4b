"""What `run` leaves in a cluster: the Deployment that writes it, deletion costs, ConfigMaps, the Lease.

Every method may be repeated: what does not exist any more is done.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, CONTROL, STATUS
from rebalancer.adapters.kubernetes.deletion_costs import patch_cost
from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, RequestRefused, Transport
from rebalancer.decoding.kinds import PODS
from rebalancer.model.deletion_costs import is_overwritten
from rebalancer.model.pods import Pod
from rebalancer.ports import PatchAnswer
from rebalancer.prevention.plan import PodPatch

DEPLOYMENT: Final = "rebalancer"
_MISSING: Final = 404


class Leftovers:
    """The leftovers of the controller in one namespace, and of its prevention in all; methods raise ClusterError."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    def stop_controller(self) -> bool:
        """Scale the controller's Deployment to 0; return whether there is one."""
        scale = client.AppsV1Api(self._transport).patch_namespaced_deployment_scale
        return self._unless_missing(scale, DEPLOYMENT, {"spec": {"replicas": 0}}, _content_type=MERGE_PATCH)

    def find_pods(self) -> Iterator[Pod]:
        """Yield the pods with a deletion cost of our own, or with the marker of one that somebody has replaced."""
        for page in read_pages(self._transport, PODS, PODS.path):
            for pod in page.objects:
                if isinstance(pod, Pod) and (pod.own_deletion_cost or is_overwritten(pod)):
                    yield pod

    def remove_cost(self, pod: Pod) -> PatchAnswer:
        """Remove our annotations of a pod that is unchanged since it was read; a cost of somebody else stays."""
        patch = PodPatch(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            resource_version=pod.resource_version,
            cost=None,
            marker_only=is_overwritten(pod),
        )
        return patch_cost(self._transport, patch)

    def delete_objects(self) -> Iterator[str]:
        """Delete the ConfigMaps that are not the policy, and the Lease; yield what has been deleted."""
        for name in (STATUS, CONTROL, APPROVAL):
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
