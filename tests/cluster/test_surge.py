"""Surges on the real control plane: no pod is ever missing, nothing is evicted, and what was promised is repaired."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from benchmarks.tables import table
from rebalancer.model.deletion_costs import DELETION_COST
from rebalancer.model.reasons import Reason
from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy
from tests.cluster.surge_rivals import Cost, Meter, by_descheduler, by_eviction, by_restart, finish, rows
from tests.cluster.surges import Lot, Seen, Spoiler, draw_lots, unreachable_lots, watching
from tests.cluster.test_observing import kubectl
from tests.control_plane.api import wait_until
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.controller.simulated import skewed
from tests.planning.clusters import planned
from tests.planning.clusters import policy as evicting

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


def repair(
    plane: ControlPlane, folder: Path, lots: Sequence[Lot], timeout: float, *, spoils_every: int = 10**6
) -> tuple[list[str], Counter[str]]:
    """Let the controller repair lots; return what is wrong by the API server and its watch, and how surges have ended.

    Every so many-th pod that is added is never Ready.
    """
    lay_out(plane, [part for lot in lots for part in lot.parts()], timeout=240)
    install(plane, "base", "evict", "surge")
    mark = plane.audit.mark()
    policy_text = surging(timeout="60s") if spoils_every < len(lots) else surging()
    spoiler = Spoiler(plane.api, {lot.name for lot in lots}, spoils_every)
    with watching(plane, lots) as seen_of, spoiler, Controller(plane, folder, policy_text) as controller:
        wait_until(lambda: is_done(plane, lots), what="what is promised to be repaired", timeout=timeout, interval=1.0)
        ended = [(line["namespace"], line["ending"]) for line in controller.log("surge ended")]
        seen = {lot.name: seen_of(lot) for lot in lots}
    evictions = plane.audit.evictions(user=USER, since=mark)
    faults = [f"{len(evictions)} evictions"] if evictions else []
    faults += [
        f"a surge of {namespace} ended as {ending}"
        for namespace, ending in ended
        if ending != "Done" and not (ending == "TimedOut" and namespace in spoiler.spoilt)
    ]
    for lot in lots:
        faults += find_faults(plane, lot, seen[lot.name])
    return faults, Counter(ending for _, ending in ended)


def find_faults(plane: ControlPlane, lot: Lot, seen: Seen) -> Iterator[str]:
    """Yield what is not as it must be: a pod was missing, or there were too many, or something is left."""
    if seen.least_ready < lot.wanted:
        yield f"{lot}: only {seen.least_ready} were Ready"
    if seen.most_alive > lot.wanted + MOST:
        yield f"{lot}: {seen.most_alive} pods"
    scale = plane.api.get(f"/apis/apps/v1/namespaces/{lot.name}/deployments/web")["spec"]["replicas"]
    if scale != lot.wanted:
        yield f"{lot}: {scale} replicas"
    for pod in plane.api.list(f"/api/v1/namespaces/{lot.name}/pods"):
        if DELETION_COST in pod["metadata"].get("annotations", {}):
            yield f"{lot}: a mark is left"


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
    faults, _ = repair(cluster, tmp_path, lots, timeout=150)
    assert faults == []
    assert any(lot.is_satisfied(lot.now(cluster.api)) for lot in lots)
    check_undone(cluster, lots[0])


def check_undone(plane: ControlPlane, lot: Lot) -> None:
    """Undo a rollout after a surge: an annotation of a Deployment would come back with its ReplicaSet."""
    deployment = f"/apis/apps/v1/namespaces/{lot.name}/deployments/web"
    container = plane.api.get(deployment)["spec"]["template"]["spec"]["containers"][0]["name"]
    kubectl(plane, "set", "env", "deployment/web", f"--containers={container}", "CHANGED=1", f"--namespace={lot.name}")
    kubectl(plane, "rollout", "status", "deployment/web", f"--namespace={lot.name}", "--timeout=60s")
    kubectl(plane, "rollout", "undo", "deployment/web", f"--namespace={lot.name}")
    kubectl(plane, "rollout", "status", "deployment/web", f"--namespace={lot.name}", "--timeout=60s")
    assert plane.api.get(deployment)["spec"]["replicas"] == lot.wanted
    owned = [
        plane.api.get(deployment),
        *plane.api.list(f"/apis/apps/v1/namespaces/{lot.name}/replicasets"),
        *plane.api.list(f"/api/v1/namespaces/{lot.name}/pods"),
    ]
    ours = [key for one in owned for key in one["metadata"].get("annotations", {}) if is_ours(key)]
    assert ours == []


def is_ours(annotation: str) -> bool:
    return annotation.startswith("rebalancer") or annotation == DELETION_COST


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_forty_drawn_deployments(cluster: ControlPlane, tmp_path: Path) -> None:
    """Ten of them no eviction repairs for certain; of the pods that are added every twentieth is never Ready."""
    lots = [*draw_lots(30, seed=2, most=MOST, pods=30), *unreachable_lots()]
    faults, endings = repair(cluster, tmp_path, lots, timeout=3000, spoils_every=20)
    repaired = [lot for lot in lots if lot.is_satisfied(lot.now(cluster.api))]
    reached = [lot for lot in unreachable_lots() if lot.is_satisfied(lot.now(cluster.api))]
    print(
        f"{len(repaired)} of {len(lots)} are repaired, {len(reached)} of those that evictions do not repair: {endings}"
    )
    assert faults == []
    assert endings["Done"] > len(lots)
    assert endings["TimedOut"] > 0
    assert len(repaired) > 30


@pytest.mark.thorough
@pytest.mark.timeout(2 * 3600)
def test_the_same_states_repaired_in_four_ways(cluster: ControlPlane, tmp_path: Path) -> None:
    """By surges, by evictions, by the descheduler and by `kubectl rollout restart`: no other misses no pod."""
    lots = [*draw_lots(30, seed=2, most=MOST, pods=30), *unreachable_lots()]
    cleaner = Cleaner(cluster.api)
    ways: dict[str, Mapping[str, Cost]] = {}
    for name, way in {
        "Rebalancer, Surge": by_surge,
        "Rebalancer, Evict": by_eviction,
        "descheduler": by_descheduler,
        "kubectl rollout restart": by_restart,
    }.items():
        lay_out(cluster, [part for lot in lots for part in lot.parts()], timeout=240)
        mark = cluster.audit.mark()
        with Meter(cluster.api, lots) as meter:
            user = way(cluster, tmp_path, meter)
        ways[name] = finish(cluster, meter, cluster.audit.evictions(user=user, since=mark) if user else ())
        print(*(" ".join(row) for row in rows(lots, {name: ways[name]})), sep="; ", flush=True)
        cleaner.clean()
    print(table(("budget", "by", "pods that went", "429", "missing pod seconds", "repaired"), rows(lots, ways)))
    surged = ways["Rebalancer, Surge"].values()
    assert sum(cost.missing for cost in surged) == 0
    assert sum(cost.refused for cost in surged) == 0
    assert all(sum(cost.missing for cost in costs.values()) > 0 for way, costs in ways.items() if "Surge" not in way)


def by_surge(plane: ControlPlane, folder: Path, meter: Meter) -> str:
    """Let Rebalancer add pods first."""
    install(plane, "base", "evict", "surge")
    with Controller(plane, folder, surging()):
        wait_until(lambda: is_done(plane, meter.lots), what="what is promised", timeout=1800, interval=1.0)
    return USER


def test_no_eviction_repairs_the_ten_for_certain() -> None:
    """The planner finds no safe step of evictions for them, and adds pods first where it may."""
    for lot in unreachable_lots():
        snapshot = skewed(lot.counts, lot.zone, lot.host, budget=None).snapshot()
        assert planned(snapshot, evicting()).components[0].reason is Reason.NOT_FORCED
        assert lot.promises(lot.counts, MOST)
