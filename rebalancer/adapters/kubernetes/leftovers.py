"""What `run` leaves in a cluster: the Deployment that writes it, deletion costs, ConfigMaps, the Lease.

Every method may be repeated: what does not exist any more is done.
"""

from collections.abc import Iterator
from typing import Final

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
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{DEPLOYMENT}/scale"
        body = {"spec": {"replicas": 0}}
        return self._unless_missing("PATCH", path, body=body, content_type=MERGE_PATCH)

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
            if self._unless_missing("DELETE", f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"):
                yield f"ConfigMap {self._namespace}/{name}"
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{DEPLOYMENT}"
        if self._unless_missing("DELETE", lease):
            yield f"Lease {self._namespace}/{DEPLOYMENT}"

    def _unless_missing(self, method: str, path: str, *, body: object = None, content_type: str = "") -> bool:
        try:
            self._transport.request(method, path, body=body, content_type=content_type or "application/json")
        except RequestRefused as error:
            if error.status != _MISSING:
                raise
            return False
        return True
