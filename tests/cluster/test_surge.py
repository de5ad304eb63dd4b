"""Surges on the real control plane: no pod is ever missing, nothing is evicted, and what was promised is repaired."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from rebalancer.model.deletion_costs import DELETION_COST
from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy
from tests.cluster.surges import Lot, draw_lots, watch_pods
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane

MOST: Final = 2
RECORDS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-surges"


def surging(**changes: Any) -> str:
    """Return a policy that adds pods first everywhere, whatever the budgets say."""
    rules = {"method": "Surge", "namespaces": ["*"], "overBudget": ["*"], "maxSurge": MOST, "settle": "3s", **changes}
    return policy("Evict", interval="2s", repair=rules, groups=[], eligibility={"minAge": "0s", "minReplicas": 1})


def records(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the stored records."""
    text = (plane.api.get(RECORDS).get("data") or {}).get("surges.json", "")
    return list(yaml.safe_load(text) or [])


def repair(plane: ControlPlane, folder: Path, lots: Sequence[Lot], timeout: float) -> list[str]:
    """Let the controller repair lots, and return what is wrong, by what the API server and its watch say."""
    lay_out(plane, [part for lot in lots for part in lot.parts()], timeout=240)
    install(plane, "base", "evict", "surge")
    begun = plane.api.request("GET", "/api/v1/pods")
    mark = plane.audit.mark()
    with Controller(plane, folder, surging()) as controller:
        wait_until(lambda: is_done(plane, lots), what="what is promised to be repaired", timeout=timeout, interval=1.0)
        ended = [line["ending"] for line in controller.log("surge ended")]
    seen = watch_pods(plane.api, begun, {lot.name: lot.wanted for lot in lots})
    faults = [
        f"{len(evictions)} evictions" for evictions in [plane.audit.evictions(user=USER, since=mark)] if evictions
    ]
    faults += [f"a surge ended as {one}" for one in ended if one != "Done"]
    for lot in lots:
        if seen[lot.name].least_ready < lot.wanted:
            faults.append(f"{lot}: only {seen[lot.name].least_ready} were Ready")
        if seen[lot.name].most_alive > lot.wanted + MOST:
            faults.append(f"{lot}: {seen[lot.name].most_alive} pods")
        scale = plane.api.get(f"/apis/apps/v1/namespaces/{lot.name}/deployments/web")["spec"]["replicas"]
        if scale != lot.wanted:
            faults.append(f"{lot}: {scale} replicas")
        pods = plane.api.list(f"/api/v1/namespaces/{lot.name}/pods")
        faults += [f"{lot}: a mark is left" for pod in pods if DELETION_COST in pod["metadata"].get("annotations", {})]
    return faults


def is_done(plane: ControlPlane, lots: Sequence[Lot]) -> bool:
    """Return whether no surge is under way and the planner has none for any lot."""
    if records(plane):
        return False
    time.sleep(3)  # a cycle later no other has begun
    return not records(plane) and not any(lot.promises(lot.now(plane.api), MOST) for lot in lots)


@pytest.mark.invariant("surge-adds-first")
def test_no_pod_is_missing_while_surges_repair(cluster: ControlPlane, tmp_path: Path) -> None:
    """Four Deployments in parallel, half of them with a budget that allows nothing."""
    lots = draw_lots(4, seed=1, most=MOST)
    assert repair(cluster, tmp_path, lots, timeout=150) == []
    assert any(lot.is_satisfied(lot.now(cluster.api)) for lot in lots)


@pytest.mark.thorough
def test_forty_drawn_deployments(cluster: ControlPlane, tmp_path: Path) -> None:
    lots = draw_lots(40, seed=2, most=MOST, pods=30)
    assert repair(cluster, tmp_path, lots, timeout=600) == []
    repaired = [lot for lot in lots if lot.is_satisfied(lot.now(cluster.api))]
    assert len(repaired) > 30
