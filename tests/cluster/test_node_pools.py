"""NodePools on a real API server: read where their CustomResourceDefinition is served, with the rights of deploy/."""

from datetime import UTC, datetime

import pytest

from rebalancer.adapters.kubernetes import reflector as reflector_module
from rebalancer.adapters.kubernetes.cluster import read_once
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.decoding.kinds import NODE_POOLS
from tests.cluster.controller import ACCOUNT, install
from tests.control_plane.api import ApiError, wait_until
from tests.control_plane.plane import ControlPlane

CRDS, POOLS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/karpenter.sh/v1/nodepools"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodepools.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"kind": "NodePool", "listKind": "NodePoolList", "plural": "nodepools", "singular": "nodepool"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "spec": {"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}
        }
    },
}


def is_created(cluster: ControlPlane) -> bool:
    """Create the pool; the API server refuses it for a moment after the definition."""
    try:
        cluster.api.create(POOL, path=POOLS)
    except ApiError as error:
        if error.code not in {404, 429}:
            raise
        return False
    return True


def test_node_pools_come_and_go_with_their_definition(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is installed and after it is deleted there are none, and nothing waits for them."""
    monkeypatch.setattr(reflector_module, "_UNSERVED_WAIT", 0.2)
    install(cluster, "base")
    transport = connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT)))
    reflector = Reflector(transport, NODE_POOLS, optional=True)

    def watched() -> list[str]:
        return [pool.name for pool in reflector.contents().objects]

    try:
        assert not read_once(transport, datetime.now(UTC)).node_pools
        reflector.start()
        assert reflector.synced.wait(10)
        assert watched() == []
        cluster.api.create(DEFINITION, path=CRDS)
        wait_until(lambda: is_created(cluster), what="the kind to be served")
        wait_until(lambda: watched() == ["general"], what="the watch to deliver the pool")
        (pool,) = read_once(transport, datetime.now(UTC)).node_pools
        assert (pool.name, pool.requirements[0].values) == ("general", ("a", "b"))
    finally:
        cluster.api.delete(f"{CRDS}/nodepools.karpenter.sh", missing_ok=True)
    wait_until(lambda: not watched(), what="the pool to be gone")
    reflector.stop()
    reflector.join(5)
    transport.close()
