"""Pods that are not Ready, under budgets, on a real Eviction API: what is planned is granted at the first request."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, pdb, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import pod_ready

ON: Final = ["a-0", "a-1", "a-2", "b-0"]
RULES: Final = policy("Evict", budgets={"maxUnavailable": 1, "perWorkload": "100%", "slowStart": False}, groups=[])


def web(space: str, *, deadline: int = 1) -> Workload:
    """Return three pods in zone a, of which the second was never Ready, and one in zone b."""
    return deployment(
        "web",
        ON,
        namespace=space,
        cpu="10m",
        never_ready=[1],
        workload={"progressDeadlineSeconds": deadline},
        topologySpreadConstraints=[spread(labels={"app": "web"})],
    )


def budget(space: str, **spec: Any) -> Manifest:
    return pdb("web", {"app": "web"}, namespace=space, **spec)


def test_an_unready_pod_goes_where_the_eviction_api_lets_it(cluster: ControlPlane, tmp_path: Path) -> None:
    """Exactly there, without a refusal, and it is the unready one; then the workload is repaired and complete."""
    install(cluster, "base", "evict")
    evicted = {
        "no-budget": [],
        "always-allow": [budget("always-allow", min_available=4, unhealthyPodEvictionPolicy="AlwaysAllow")],
        "healthy": [budget("healthy", min_available=3)],
    }
    kept = {
        "unhealthy": [budget("unhealthy", min_available=4)],
        "starting": [],
    }
    workloads = [web(space, deadline=600 if space == "starting" else 1) for space in (*evicted, *kept)]
    budgets = [one for those in (*evicted.values(), *kept.values()) for one in those]
    lay_out(cluster, [*nodes({"a": 3, "b": 1, "c": 1}), *workloads, *budgets], settle=False)
    unready = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in cluster.api.list("/api/v1/pods", labels="app=web")
        if pod["spec"].get("nodeName") == "a-1"
    }
    assert len(unready) == len(workloads)
    # One that is starting still is not Ready either, and may be by the time that its eviction is requested.
    wait_until(lambda: count_ready(cluster) == len(workloads) * (len(ON) - 1), what="the other pods to be Ready")
    with Controller(cluster, tmp_path, RULES) as controller:
        wait_until(lambda: all(is_repaired(cluster, space) for space in evicted), what="the repairs", timeout=90)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
        said = "\n".join(line["note"] for line in controller.log("reported"))
    requests = cluster.audit.evictions(user=USER)
    answers = [(request.code, request.namespace, request.name, request.message) for request in requests]
    assert Counter(request.code for request in requests) == {201: len(evicted)}, answers
    gone = {f"{request.namespace}/{request.name}" for request in requests}
    assert gone == {name for name in unready if name.split("/")[0] in evicted}
    print(said)


def is_repaired(plane: ControlPlane, space: str) -> bool:
    """Return whether zones a, b and c hold two, one and one pod, all Ready."""
    ready = filter(pod_ready, plane.api.list(f"/api/v1/namespaces/{space}/pods", labels="app=web"))
    return Counter((pod["spec"].get("nodeName") or "-")[0] for pod in ready) == {"a": 2, "b": 1, "c": 1}


def count_ready(plane: ControlPlane) -> int:
    """Return how many pods of the workloads are Ready."""
    return sum(map(pod_ready, plane.api.list("/api/v1/pods", labels="app=web")))
