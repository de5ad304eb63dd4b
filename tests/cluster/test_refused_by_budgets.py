"""What the Eviction API answers for a PodDisruptionBudget, told apart by the cause in it, not by its text."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from kubernetes import client

from rebalancer.adapters.kubernetes.denials import list_causes
from rebalancer.adapters.kubernetes.evictions import evict
from rebalancer.adapters.kubernetes.listing import server_version
from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport, connect
from rebalancer.model.cluster import Version
from rebalancer.model.moves import Move
from rebalancer.ports import EvictionResult
from tests.control_plane.layout import deployment, lay_out, nodes, pdb
from tests.control_plane.plane import ControlPlane
from tests.tracking.build import move

BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"


@contextmanager
def frozen(plane: ControlPlane) -> Iterator[None]:
    """Keep the controller manager from writing the status of budgets."""
    manager = plane.running["kube-controller-manager"]
    os.kill(manager, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(manager, signal.SIGCONT)


def set_status(plane: ControlPlane, allowed: int, disrupted: int = 0) -> None:
    """Write the status of the budget as its controller would."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {
        "observedGeneration": plane.api.get(f"{BUDGETS}/web")["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1 - allowed,
        "expectedPods": 1,
        "disruptedPods": {f"gone-{number}": now for number in range(disrupted)},
    }
    plane.api.patch(f"{BUDGETS}/web/status", {"status": status})


def causes_of(transport: Transport, victim: Move) -> tuple[int, list[str]]:
    """Return code and causes of the answer itself."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim.pod, "namespace": "shop"}}
    create = client.CoreV1Api(transport).create_namespaced_pod_eviction
    with pytest.raises(RequestRefused) as refused:
        transport.call(create, victim.pod, "shop", body)
    return refused.value.status, list_causes(refused.value.details)


def test_a_budget_that_refuses_is_known_by_its_cause(cluster: ControlPlane) -> None:
    """A stale status, one that allows nothing, one with too many evictions that its controller has not confirmed."""
    lay_out(cluster, [*nodes({"a": 1}), deployment("web", ["a-0"], namespace="shop")])
    (pod,) = cluster.api.list("/api/v1/namespaces/shop/pods")
    victim = move(pod["metadata"]["uid"], datetime.now(UTC), namespace="shop", pod=pod["metadata"]["name"])
    transport = connect(kubeconfig=str(cluster.kubeconfig()))
    with frozen(cluster):
        cluster.api.create(pdb("web", {"app": "web"}, namespace="shop", max_unavailable=0))
        answer = evict(transport, victim)
        assert (answer.result, answer.retry_after) == (EvictionResult.STALE, 10.0)
        assert causes_of(transport, victim) == (429, ["DisruptionBudget"])
        set_status(cluster, allowed=0)
        assert evict(transport, victim).result is EvictionResult.BUDGET
        assert causes_of(transport, victim) == (429, ["DisruptionBudget"])
        set_status(cluster, allowed=1, disrupted=2001)
        assert evict(transport, victim).result is EvictionResult.BUDGET
        has_cause = server_version(transport) >= Version(1, 37)
        assert causes_of(transport, victim) == (403, ["DisruptionBudget"] if has_cause else [])
    transport.close()
    assert [one["metadata"]["uid"] for one in cluster.api.list("/api/v1/namespaces/shop/pods")] == [victim.uid]
