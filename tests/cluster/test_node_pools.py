"""NodePools on a real API server: read where their CustomResourceDefinition is served, with the rights of deploy/."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rebalancer.adapters.kubernetes import reflector as reflector_module
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.decoding.kinds import NODE_POOLS
from tests.cluster.controller import ACCOUNT, install, policy, rebalancer
from tests.cluster.test_observing import KINDS, kubectl, without_times
from tests.control_plane.api import ApiError, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import wait_settled

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


@pytest.fixture
def served(cluster: ControlPlane) -> Iterator[None]:
    """Serve the kind as an installation of Karpenter does, with one pool."""
    cluster.api.create(DEFINITION, path=CRDS)
    try:
        wait_until(lambda: is_created(cluster), what="the kind to be served")
        yield
    finally:
        cluster.api.delete(f"{CRDS}/nodepools.karpenter.sh", missing_ok=True)
        wait_until(lambda: cluster.api.find("/apis/karpenter.sh") is None, what="the kind to be gone")


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("command", ["report", "plan"])
def test_a_file_with_node_pools_gives_the_same_findings_as_the_cluster(
    cluster: ControlPlane, tmp_path: Path, command: str
) -> None:
    """`kubectl get …,nodepools -A -o json` names the domain without nodes that the live command names."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy("Observe"))
    constraint = spread(ZONE, labels={"app": "web"})
    web = deployment("web", ["a-0", "a-0", "a-0", "a-0"], namespace="shop", topologySpreadConstraints=[constraint])
    lay_out(cluster, [*nodes({"a": 1}), web])
    wait_settled(cluster)
    flags = ("--policy", str(file), "-o", "json")
    live = rebalancer(command, "--kubeconfig", str(cluster.kubeconfig()), *flags)
    dump = kubectl(cluster, "get", f"{KINDS},nodepools.karpenter.sh", "-A", "-o", "json")
    offline = rebalancer(command, "--snapshot", "-", *flags, stdin=dump)
    assert live.returncode == offline.returncode == 0, (live.stderr, offline.stderr)
    assert without_times(offline.stdout) == without_times(live.stdout)
    if command == "plan":
        return
    (finding,) = [one for one in json.loads(live.stdout)["findings"] if one["kind"] == "DomainWithoutNodes"]
    assert "NodePool general" in str(finding)


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
