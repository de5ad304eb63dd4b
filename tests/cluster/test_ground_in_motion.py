"""Nodes that die, are cordoned, drained or relabelled in the middle of a repair, on a real control plane.

Every scene has nodes of its own, a pool with zones of its own: they all join before the first scene, since a node that
was Ready for less than a minute is no target anyway. `nodes.settle` is a minute.
"""

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3

from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.cluster.test_kills_in_a_large_repair import poll, read_log
from tests.cluster.test_namespaces import STATUS
from tests.control_plane.api import MERGE_PATCH, Api, in_parallel, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, spread, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stages import LOST

SETTLE: Final = 60.0
WORKLOADS: Final = 10
POOL: Final = "example.com/pool"
POOLS: Final[Mapping[str, Mapping[str, int]]] = {
    "loss-alone": {"a": 2, "b": 2, "c": 6},
    "loss-killed": {"a": 2, "b": 2, "c": 6},
    "shift": {"a": 2, "b": 2, "c": 6},
    "drain": {"a": 6},
    "swapped": {"a": 2, "b": 2, "c": 2},
    "new": {"a": 2, "b": 2, "c": 3},
}
"""Zones and their numbers of nodes: `shift-c-0` is the first node of the zone `shift-c`."""
FIRST_LOOK: Final = 3.0
"""Seconds until a process that follows has seen the nodes: it cannot know what became of them before."""
FLAGS: Final = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")
EVENTS: Final = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
FIELD_MANAGER: Final = "zonal-shift"


@pytest.fixture(scope="module")
def old_nodes(module_cluster: ControlPlane) -> ControlPlane:
    """Return the control plane with the nodes of all pools, which have been Ready for more than a minute."""
    pools = [
        nodes({f"{pool}-{zone}": count for zone, count in zones.items()}, labels={POOL: pool})
        for pool, zones in POOLS.items()
    ]
    lay_out(module_cluster, [node for pool in pools for node in pool])
    time.sleep(SETTLE + 2)
    return module_cluster


@contextlib.contextmanager
def scene(plane: ControlPlane, workloads: Sequence[Workload]) -> Iterator[None]:
    """Lay workloads out, with nothing in the memory of the controllers; take them away afterwards."""
    api = plane.api
    for path in (STATUS, LEASE):
        api.delete(path, missing_ok=True)
    api.request("DELETE", EVENTS)
    install(plane, "base", "evict")
    lay_out(plane, workloads, timeout=120)
    plane.begin_test()
    try:
        yield
    finally:
        for workload in workloads:
            for owner in reversed(workload.owners):
                path = f"/apis/apps/v1/namespaces/{workload.namespace}/{owner['kind'].lower()}s"
                api.delete(f"{path}/{owner['metadata']['name']}", missing_ok=True)
        wait_until(lambda: not api.list("/api/v1/pods"), what="the pods to go", timeout=60)


def spread_over(pool: str, on: Sequence[Sequence[str]], key: str = ZONE, *, soft: bool = False) -> list[Workload]:
    """Return a Deployment for each placement, whose pods are for the nodes of the pool alone."""
    return [
        deployment(
            f"web-{number}",
            [f"{pool}-{name}" for name in names],
            namespace=pool,
            cpu="10m",
            nodeSelector={POOL: pool},
            topologySpreadConstraints=[spread(key, labels={"app": f"web-{number}"}, soft=soft)],
        )
        for number, names in enumerate(on)
    ]


@dataclass
class Replicas:
    """The process that leads, and one that follows."""

    running: list[Controller]

    def leader(self) -> Controller:
        """Return the process that leads, when there is one."""
        return poll(lambda: next((one for one in self.running if read_log(one, "leading")), None), "a leader", 60)

    def kill(self) -> None:
        """Kill the leader by SIGKILL; another process leads some five seconds later."""
        leader = self.leader()
        assert leader.process is not None
        leader.process.kill()
        leader.process.wait()
        self.running.remove(leader)
        assert not [one for one in self.running if read_log(one, "leading")], "it has followed until now"


@contextlib.contextmanager
def replicas(plane: ControlPlane, folder: Path, policy_text: str) -> Iterator[Replicas]:
    """Run two processes; return when one of them has completed a cycle, and the other one has seen the nodes."""
    with contextlib.ExitStack() as stack:
        both = []
        for number in range(2):
            own = folder / f"process-{number}"
            own.mkdir()
            both.append(stack.enter_context(Controller(plane, own, policy_text, *FLAGS)))
        pair = Replicas(both)
        pair.leader().wait_for("cycle")
        for controller in both:
            controller.wait_for("listening")
        time.sleep(FIRST_LOOK)
        yield pair


def rules(interval: str, **changes: Any) -> str:
    """Return the policy of the scenes."""
    return policy("Evict", interval=interval, nodes={"settle": f"{SETTLE:.0f}s"}, **changes)


SLOW: Final = rules("2s", budgets={"perCycle": 1})
"""An eviction every two seconds at most: the repair is longer than what happens in the middle of it."""
FAST: Final = rules("1s")


def requests(plane: ControlPlane, since: datetime | None = None) -> list[Request]:
    """Return the requested evictions, granted or not, since a moment."""
    own = plane.audit.evictions(user=USER)
    return own if since is None else [request for request in own if request.received >= since]


def ago(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


def sleep_until(moment: datetime, seconds: float) -> None:
    """Sleep until so many seconds after a moment."""
    time.sleep(max(0.0, seconds - ago(moment)))


def change_node(api: Api, name: str, change: Mapping[str, Any], field_manager: str = "tests") -> None:
    api.request(
        "PATCH",
        f"/api/v1/nodes/{name}",
        change,
        content_type=MERGE_PATCH,
        parameters={"fieldManager": field_manager},
    )


def cordon(api: Api, name: str) -> None:
    change_node(api, name, {"spec": {"unschedulable": True}}, FIELD_MANAGER)


def uncordon(api: Api, name: str) -> None:
    change_node(api, name, {"spec": {"unschedulable": None}}, FIELD_MANAGER)


def set_zone(api: Api, name: str, zone: str) -> None:
    change_node(api, name, {"metadata": {"labels": {ZONE: zone}}})


def count_pods(api: Api, pool: str, key: str) -> dict[str, Counter[str]]:
    """Count the running pods of each workload by domain, the empty domains of the pool as well."""
    domains = {
        node["metadata"]["name"]: node["metadata"]["labels"][key]
        for node in api.list("/api/v1/nodes", labels=f"{POOL}={pool}")
    }
    counts: dict[str, Counter[str]] = {}
    for pod in api.list(f"/api/v1/namespaces/{pool}/pods"):
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            counts.setdefault(pod["metadata"]["labels"]["app"], Counter(dict.fromkeys(domains.values(), 0)))[
                domains[pod["spec"]["nodeName"]]
            ] += 1
    return counts


def is_balanced(api: Api, pool: str, key: str = ZONE) -> bool:
    """Return whether all six pods of every workload of the pool run, and differ by one at most in number."""
    counts = count_pods(api, pool, key).values()
    return len(counts) == WORKLOADS and all(
        one.total() == 6 and max(one.values()) - min(one.values()) <= 1 for one in counts
    )


def prove_minimum(plane: ControlPlane, folder: Path) -> int:
    """Return how many evictions `rebalancer plan` proves to be needed for all that is violated."""
    access = ("--kubeconfig", str(plane.kubeconfig()), "--policy", str(folder / "process-0" / "policy.yaml"))
    totals = json.loads(rebalancer("plan", *access, "-o", "json").stdout)["totals"]
    print(f"plan: {totals}")
    minimum: int = totals["lowerBound"] + totals["blockedLowerBound"]
    return minimum


def findings(leader: Controller) -> list[str]:
    """Return the messages of the leader's findings about domains in motion."""
    port = leader.wait_for("serving the status page")[0]["port"]
    page = urllib3.request("GET", f"http://127.0.0.1:{port}/status.json", timeout=5.0).json()
    return [one["message"] for one in page["report"]["findings"] if one["kind"] == "DomainUnsettled"]


def events(api: Api, reason: str) -> list[str]:
    """Return the notes of the events of a reason, one a time that it was reported."""
    own = [one for one in api.list(EVENTS) if one["reason"] == reason]
    assert all(one["regarding"]["name"] == "rebalancer-policy" for one in own)
    return [one["note"] for one in own for _ in range((one.get("series") or {}).get("count", 1))]


# Ten workloads of six, three and three in two zones: the third one is to get two pods of each.
EMPTY_ZONE: Final = [("a-0", "a-0", "a-1", "b-0", "b-1", "b-1")] * WORKLOADS
MINIMUM: Final = 2 * WORKLOADS


@pytest.mark.invariant("ground-in-motion")
@pytest.mark.parametrize("leader", ["killed", pytest.param("alone", marks=pytest.mark.thorough)])
def test_a_zone_whose_nodes_die_takes_three_pods_at_most(old_nodes: ControlPlane, tmp_path: Path, leader: str) -> None:
    """After the first death; it is being filled when its six nodes die, one every eight seconds."""
    plane, pool = old_nodes, f"loss-{leader}"
    lost = [f"{pool}-c-{number}" for number in range(6)]
    with scene(plane, spread_over(pool, EMPTY_ZONE)), contextlib.ExitStack() as stack:
        pair = stack.enter_context(replicas(plane, tmp_path, SLOW))
        wait_until(lambda: len(requests(plane)) >= 2, what="two evictions")
        stack.callback(return_nodes, plane, lost)
        began = datetime.now(UTC)
        for number, name in enumerate(lost):
            sleep_until(began, 8 * number)
            if leader == "killed" and number == 2:
                pair.kill()
            change_node(plane.api, name, {"metadata": {"annotations": {LOST: ""}}})
        sleep_until(began, 8 * len(lost) - 4)
        late = [round((request.received - began).total_seconds(), 1) for request in requests(plane, began)]
        print(f"{len(requests(plane))} evictions, {len(late)} after the first death (s): {late}")
        assert len(late) <= 3
        (finding,) = findings(pair.leader())
        print(finding, events(plane.api, "DomainUnsettled"), sep="\n")
        assert finding.startswith(f"6 of 6 nodes of {ZONE}={pool}-c were not Ready any more within 4")
        assert len(events(plane.api, "DomainUnsettled")) == 1


def return_nodes(plane: ControlPlane, names: Sequence[str]) -> None:
    for name in names:
        change_node(plane.api, name, {"metadata": {"annotations": {LOST: None}}})
    wait_settled(plane, unschedulable=None)


def test_a_zonal_shift_holds_a_repair_until_it_is_over(old_nodes: ControlPlane, tmp_path: Path) -> None:
    """The zone takes three pods at most after the first cordon, and once it is uncordoned the minimum in all."""
    plane, pool = old_nodes, "shift"
    shifted = [f"{pool}-c-{number}" for number in range(6)]
    with scene(plane, spread_over(pool, EMPTY_ZONE)), contextlib.ExitStack() as stack:
        pair = stack.enter_context(replicas(plane, tmp_path, SLOW))
        assert pair.leader().log("cycle")[0]["minimum"] == MINIMUM
        wait_until(lambda: len(requests(plane)) >= 2, what="two evictions")
        stack.callback(in_parallel, lambda name: uncordon(plane.api, name), shifted)
        began = datetime.now(UTC)
        for number, name in enumerate(shifted):
            sleep_until(began, 10 * number)
            if number == 1:
                pair.kill()
            cordon(plane.api, name)
        sleep_until(began, 10 * len(shifted) - 5)
        late = [round((request.received - began).total_seconds(), 1) for request in requests(plane, began)]
        print(f"{len(requests(plane))} evictions, {len(late)} after the first cordon (s): {late}")
        assert len(late) <= 3
        (finding,) = findings(pair.leader())
        notes = events(plane.api, "DomainUnsettled")
        print(finding, notes, sep="\n")
        in_parallel(lambda name: uncordon(plane.api, name), shifted)
        over = datetime.now(UTC)
        domain = re.escape(f"nodes of {ZONE}={pool}-c were cordoned within")
        by = f"by {FIELD_MANAGER}: nothing is moved there"
        assert re.match(rf"6 of 6 {domain} (4[89]|5[0-3])s {by}", finding)
        (note,) = notes
        assert re.match(rf"2 of 6 {domain} ([89]|1[0-3])s {by}", note)
        wait_until(lambda: is_balanced(plane.api, pool), what="the repair", timeout=180)
        again = [round((request.received - over).total_seconds(), 1) for request in requests(plane, over)]
        print(f"{len(requests(plane))} evictions in all, again since (s) {again[:1]}, until {again[-1:]}")
        assert again[0] > SETTLE - 5
        wait_until(lambda: pair.leader().log("cycle")[-1]["minimum"] == 0, what="a cycle without violations")
        assert [request.code for request in requests(plane)] == [201] * MINIMUM
        assert len(events(plane.api, "DomainUnsettled")) == len(events(plane.api, "DomainSettled")) == 1


@pytest.mark.thorough
def test_a_drain_of_six_nodes_is_repaired_once_it_is_over(old_nodes: ControlPlane, tmp_path: Path) -> None:
    """None is evicted until a minute after the last node is back, then the proved minimum; the constraint is soft."""
    plane, pool = old_nodes, "drain"
    drained = [f"{pool}-a-{number}" for number in range(6)]
    workloads = spread_over(pool, [[f"a-{number}" for number in range(6)]] * WORKLOADS, HOSTNAME, soft=True)
    soft = rules("1s", spread={"for": "0s", "actOn": ["DoNotSchedule", "ScheduleAnyway"]})
    with scene(plane, workloads), contextlib.ExitStack() as stack:
        pair = stack.enter_context(replicas(plane, tmp_path, soft))
        stack.callback(in_parallel, lambda name: uncordon(plane.api, name), drained)
        began = last = datetime.now(UTC)
        for number, name in enumerate(drained):
            drain(plane.api, pool, name)
            if number == 3:
                pair.kill()
            time.sleep(9)
            last = datetime.now(UTC)
            uncordon(plane.api, name)
        during = len(requests(plane))
        print(f"{during} evictions in {ago(began):.0f} s of the drain")
        minimum = prove_minimum(plane, tmp_path)
        assert during == 0
        (finding,) = findings(pair.leader())
        print(finding, events(plane.api, "DomainUnsettled"), sep="\n")
        domain = re.escape(f"nodes of {ZONE}={pool}-a were cordoned within")
        assert re.match(rf"6 of 6 {domain} [56]\d s by {FIELD_MANAGER}: nothing is moved there", finding)
        assert minimum > 0, "the drain has left nothing to repair: the scene proves nothing"
        wait_until(lambda: is_balanced(plane.api, pool, HOSTNAME), what="the repair", timeout=120)
        again = [round((request.received - last).total_seconds(), 1) for request in requests(plane)]
        print(f"{len(again)} evictions, after the last uncordon (s): {again}")
        assert again[0] > SETTLE - 1
        wait_until(lambda: pair.leader().log("cycle")[-1]["minimum"] == 0, what="a cycle without violations")
        assert [request.code for request in requests(plane)] == [201] * minimum
        assert len(events(plane.api, "DomainUnsettled")) == 1


def drain(api: Api, namespace: str, name: str) -> None:
    """Cordon a node and evict its pods, as `kubectl drain` does."""
    cordon(api, name)
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = [pod["metadata"]["name"] for pod in api.list(path, fields=f"spec.nodeName={name}")]
    assert {api.evict(namespace, pod) for pod in pods} <= {201, 404}  # 404: it has gone since
    wait_until(lambda: not api.list(path, fields=f"spec.nodeName={name}"), what=f"{name} to be empty")


BALANCED: Final = [("a-0", "a-1", "b-0", "b-1", "c-0", "c-1")] * WORKLOADS
RELABELLED: Final = {"swapped": ("swapped-c-0", "swapped-c", "swapped-a"), "new": ("new-c-2", "new-c", "new-d")}
"""Pool, node, its zone and the wrong one. The first has a pod of each workload; the other is empty, its zone new."""


@contextlib.contextmanager
def right_labels(api: Api) -> Iterator[None]:
    """Set the zones of the nodes right in the end."""
    try:
        yield
    finally:
        for name, right, _ in RELABELLED.values():
            set_zone(api, name, right)


def by_pool(plane: ControlPlane) -> dict[str, int]:
    counts = Counter(request.namespace for request in requests(plane))
    return {pool: counts[pool] for pool in RELABELLED}


@pytest.mark.invariant("ground-in-motion")
def test_a_zone_label_that_is_wrong_for_a_moment_moves_no_pod(old_nodes: ControlPlane, tmp_path: Path) -> None:
    """Neither on a node with ten pods nor on an empty one; nobody leads when the labels are changed."""
    plane = old_nodes
    workloads = [workload for pool in RELABELLED for workload in spread_over(pool, BALANCED)]
    with scene(plane, workloads), replicas(plane, tmp_path, FAST) as pair, right_labels(plane.api):
        pair.kill()
        began = datetime.now(UTC)
        for name, _, wrong in RELABELLED.values():
            set_zone(plane.api, name, wrong)
        sleep_until(began, 14)
        during = by_pool(plane)
        (*_, cycle) = pair.leader().log("cycle")
        for name, right, _ in RELABELLED.values():
            set_zone(plane.api, name, right)
        sleep_until(began, 30)
        print(f"evictions: {during} while the labels were wrong, {by_pool(plane)} until 16 s afterwards")
        print(cycle)
        assert by_pool(plane) == dict.fromkeys(RELABELLED, 0)
        assert cycle["violated"] == 2 * WORKLOADS, "the labels have made no difference: the scene proves nothing"
        assert pair.leader().log("cycle")[-1]["violated"] == 0


@pytest.mark.thorough
def test_a_zone_label_that_is_changed_for_good_moves_pods_after_a_minute(
    old_nodes: ControlPlane, tmp_path: Path
) -> None:
    """A minute after its last change; it was changed back and again before. Then the minimum is evicted.

    Nobody is killed here.
    """
    plane = old_nodes
    workloads = [workload for pool in RELABELLED for workload in spread_over(pool, BALANCED)]
    with scene(plane, workloads), replicas(plane, tmp_path, FAST), right_labels(plane.api):
        began = datetime.now(UTC)
        for seconds, is_wrong in ((0, True), (5, False), (15, True)):
            sleep_until(began, seconds)
            for name, right, wrong in RELABELLED.values():
                set_zone(plane.api, name, wrong if is_wrong else right)
        last = datetime.now(UTC)
        sleep_until(last, SETTLE - 2)
        early = by_pool(plane)
        times = [round((request.received - last).total_seconds(), 1) for request in requests(plane)]
        print(f"evictions within {ago(last):.0f} s of the last change: {early}, after (s) {times}")
        assert early == dict.fromkeys(RELABELLED, 0)
        wait_until(lambda: all(is_balanced(plane.api, pool) for pool in RELABELLED), what="the repair", timeout=120)
        times = [round((request.received - last).total_seconds(), 1) for request in requests(plane)]
        print(f"evictions afterwards: {by_pool(plane)}, from {times[0]} to {times[-1]} s")
        assert by_pool(plane) == dict.fromkeys(RELABELLED, WORKLOADS)
