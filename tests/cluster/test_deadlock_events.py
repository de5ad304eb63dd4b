"""A placement deadlock is reported by events on the pod that waits and on its workload."""

from pathlib import Path
from typing import Any

from tests.cluster.controller import Controller, install, policy
from tests.cluster.test_repair import constraints
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane


def list_deadlocks(api: Api) -> list[dict[str, Any]]:
    """Return the events about deadlocks, the pod's first."""
    events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    deadlocks = [event for event in events if event["reason"] == "PlacementDeadlock"]
    return sorted(deadlocks, key=lambda event: event["regarding"]["kind"] != "Pod")


def test_a_placement_deadlock_is_reported_on_the_pod_and_its_workload(cluster: ControlPlane, tmp_path: Path) -> None:
    """The zone admits b, the node a-1, the scheduler none: the API server has an event for each of the two, once."""
    install(cluster, "base")
    on = {"a-0": 2, "a-1": 1, "b-0": 2}
    web = deployment("web", on, namespace="shop", replicas=6, topologySpreadConstraints=constraints("web"))
    lay_out(cluster, [*nodes({"a": 2, "b": 1}), web], unschedulable=1)
    (waiting,) = [pod for pod in cluster.api.list("/api/v1/namespaces/shop/pods") if not pod["spec"].get("nodeName")]
    owner = cluster.api.get("/apis/apps/v1/namespaces/shop/deployments/web")
    with Controller(cluster, tmp_path, policy("Observe")) as controller:
        wait_until(lambda: len(list_deadlocks(cluster.api)) == 2, what="the events about the deadlock")
        seen = len(controller.log("cycle"))
        controller.wait_for("cycle", count=seen + 2)
        assert controller.stop() == 0
    of_pod, of_owner = list_deadlocks(cluster.api)
    for event, kind, regarded in ((of_pod, "Pod", waiting), (of_owner, "Deployment", owner)):
        regarding, metadata = event["regarding"], regarded["metadata"]
        assert (regarding["kind"], regarding["name"], regarding["uid"]) == (kind, metadata["name"], metadata["uid"])
        assert (event["type"], event["action"]) == ("Warning", "Assess")
        assert f"{ZONE} (maxSkew 1) admits b; {HOSTNAME} (maxSkew 1) admits a-1. Raise maxSkew over" in event["note"]
        assert event.get("series") is None, "an event is not published again with every cycle"
    assert waiting["metadata"]["name"] in of_owner["note"]
