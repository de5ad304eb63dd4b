"""What tests of prevention wait for on a real control plane."""

import json
from collections.abc import Mapping
from typing import Any

from tests.cluster.controller import ACCOUNT, NAMESPACE
from tests.control_plane.api import Api, ApiError, TimedOutError, in_parallel, wait_until
from tests.control_plane.plane import ControlPlane

STATUS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"


def living(api: Api, namespace: str = "shop") -> list[dict[str, Any]]:
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def status(plane: ControlPlane) -> dict[str, Any]:
    document = json.loads(plane.api.get(STATUS).get("data", {}).get("status.json", "{}"))
    prevention: dict[str, Any] = document.get("prevention", {})
    return prevention


def wait_ordered(plane: ControlPlane, workloads: int = 1, *, timeout: float = 60.0) -> None:
    """Wait until all pods have an order, and two statuses in a row say so: the first may not know the present pods."""
    seen: list[str] = []

    def ordered() -> bool:
        document = json.loads(plane.api.get(STATUS).get("data", {}).get("status.json", "{}"))
        shown, cycle = document.get("prevention", {}), str(document.get("lastCycle"))
        unsteered = shown.get("unsteered", {})
        settled = shown.get("ordered", 0) + unsteered.get("Blocked", 0) == workloads and not unsteered.keys() - {
            "Blocked"
        }
        if not settled or shown.get("waiting"):
            seen.clear()
        elif cycle not in seen:
            seen.append(cycle)
        return len(seen) >= 2

    try:
        wait_until(ordered, what="an order of all pods", timeout=timeout, interval=0.2)
    except TimedOutError as error:
        error.add_note(f"the status: {status(plane)}")
        raise


def wait_restricted(plane: ControlPlane, namespace: str = "shop") -> None:
    """Wait until the API server has read the policy and its binding."""
    pod = living(plane.api, namespace)[0]["metadata"]["name"]
    account = plane.api_as(ACCOUNT)

    def denied() -> bool:
        try:
            account.patch(f"/api/v1/namespaces/{namespace}/pods/{pod}?dryRun=All", {"metadata": {"labels": {"x": "y"}}})
        except ApiError as error:
            return "ValidatingAdmissionPolicy" in str(error)
        return False

    wait_until(denied, what="the admission policy", timeout=60)


def scale_all(api: Api, numbers: Mapping[tuple[str, str], int]) -> None:
    """Scale Deployments, by namespace and name, and wait until they have so many pods."""

    def scale(one: tuple[tuple[str, str], int]) -> None:
        (namespace, name), replicas = one
        api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", {"spec": {"replicas": replicas}})

    in_parallel(scale, numbers.items())

    def scaled() -> bool:
        numbers_now: dict[tuple[str, str], int] = {}
        for namespace in {namespace for namespace, _ in numbers}:
            for pod in living(api, namespace):
                key = namespace, pod["metadata"]["labels"]["app"]
                numbers_now[key] = numbers_now.get(key, 0) + 1
        return all(numbers_now.get(key, 0) == replicas for key, replicas in numbers.items())

    wait_until(scaled, what="the scale-downs", timeout=120, interval=0.2)
