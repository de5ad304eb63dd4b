"""What whoever may create pods in one namespace writes costs the others little: time, memory, documents, a terminal.

A cluster of 112 workloads of others, of which twelve are to be repaired; the figures are printed.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import urllib3

from tests.cluster.controller import ACCOUNT, NAMESPACE, Controller, install, policy, rebalancer
from tests.cluster.test_namespaces import STATUS
from tests.cluster.test_slow_start import NODES, repaired, skewed
from tests.cluster.test_status_page import page_url
from tests.control_plane.api import wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, lay_out_owned, nodes, pod, replica_set, spread
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.stages import NO_IMAGE_ON, NO_SYSTEM_ON
from tests.hostile import HOSTILE, check_clean

HONEST: Final = 100
WATCHED: Final = 8
"""Seconds for which the cost of cycles is measured; in each an object changes, so that each cycle evaluates."""
EVIL: Final = "evil"


class Cost(NamedTuple):
    """What a controller costs: the mean seconds of a cycle, MiB of memory, bytes of a scrape and of the page."""

    cycle: float
    memory: float
    metrics: int
    page: int


def even(number: int) -> Workload:
    """Return a Deployment of three pods in three zones."""
    on = [f"{zone}-{number % 6}" for zone in "abc"]
    name = f"even-{number}"
    return deployment(
        name, on, namespace="shop", cpu="1m", topologySpreadConstraints=[spread(ZONE, labels={"app": name})]
    )


def with_many_constraints(number: int) -> Workload:
    """Return a Deployment of one pod with 3,000 constraints."""
    # kube-apiserver takes one constraint of a key and a kind, and any text as a key.
    own = [spread(f"example.com/key-{one}", labels={"app": f"c-{number}"}) for one in range(3_000)]
    return deployment(f"c-{number}", [f"a-{number % 6}"], namespace=EVIL, cpu="1m", topologySpreadConstraints=own)


def with_long_texts(number: int) -> Workload:
    """Return a Deployment of one pod, several of whose texts have 300,000 characters."""
    text = f"t-{number}-" + "x" * 300_000
    own = [{**spread(ZONE, labels={"app": f"t-{number}"}), "topologyKey": text}]
    return deployment(f"t-{number}", [f"b-{number % 6}"], namespace=EVIL, cpu="1m", topologySpreadConstraints=own)


def with_hostile_texts(number: int) -> Workload:
    """Return a Deployment of two pods whose topologyKey clears a terminal, and forges a line."""
    own = [{**spread(ZONE, labels={"app": f"h-{number}"}), "topologyKey": HOSTILE}]
    on = [f"a-{number % 6}", f"b-{number % 6}"]
    return deployment(f"h-{number}", on, namespace=EVIL, cpu="1m", topologySpreadConstraints=own)


def laid_out(make: Callable[[int], Workload], count: int) -> Callable[[ControlPlane], None]:
    """Return a flood of workloads whose pods are all there."""
    return lambda plane: lay_out_owned(plane, [], [*map(make, range(count))], timeout=240)


def flood_with_constraints_and_texts(plane: ControlPlane) -> None:
    """Lay out four pods of many constraints, and twelve of long texts."""
    lay_out_owned(plane, [], [*map(with_many_constraints, range(4)), *map(with_long_texts, range(12))], timeout=240)


def flood_with_what_is_never_created(plane: ControlPlane) -> None:
    """Let three ReplicaSets want 100,000 pods, of which a quota allows the two of each that are there."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods", "namespace": EVIL}}
    wanting = [
        replica_set(f"w-{number}", ["a-0", "b-0"], namespace=EVIL, replicas=100_000, cpu="1") for number in range(3)
    ]
    lay_out(plane, [{**quota, "spec": {"hard": {"pods": "7"}}}, *wanting], settle=False)
    owners = f"/apis/apps/v1/namespaces/{EVIL}/replicasets"
    wait_until(
        lambda: sum("conditions" in one["status"] for one in plane.api.list(owners)) == len(wanting),
        what="the refusals of the quota",
    )


def flood_with_pods_that_nobody_places(plane: ControlPlane) -> None:
    """Create pods of another scheduler, pods whose claims do not exist, and pods of a node that does not exist."""
    claims = [{"name": "device", "resourceClaimName": "missing"}]
    plane.api.create_all(
        pod(f"p-{number}", namespace=EVIL, cpu="1", **spec)
        for number in range(600)
        for spec in [{"schedulerName": "nobody"} if number % 2 else {"resourceClaims": claims}]
    )
    lost = replica_set("lost", [], namespace=EVIL, replicas=300, cpu="1", nodeName="no-such-node")
    plane.api.create_all(lost.owners)
    wait_until(lambda: len(plane.api.list(f"/api/v1/namespaces/{EVIL}/pods")) > 900, what="pods", timeout=120)


def with_many_terms(number: int) -> Manifest:
    """Return a pod of its own with sixteen preferred and sixteen required terms that reach every namespace."""

    def terms(operator: str) -> list[dict[str, Any]]:
        return [
            {
                "topologyKey": HOSTNAME,
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": f"k-{number}-{one}", "operator": operator}]},
            }
            for one in range(16)
        ]

    preferred = [{"weight": 100, "podAffinityTerm": term} for term in terms("DoesNotExist")]
    affinity = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred[::2]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred[1::2],
            "requiredDuringSchedulingIgnoredDuringExecution": terms("Exists"),
        },
    }
    on = f"{'abc'[number % 3]}-{number // 3 % 6}"
    return pod(f"m-{number}", on=on, namespace=EVIL, labels={"app": f"m-{number}"}, cpu="1m", affinity=affinity)


def flood_with_services(plane: ControlPlane) -> None:
    """Create 5,000 Services that select the same 36 pods, each by other labels of them."""
    labels = {"app": "s", **{f"label-{one}": "" for one in range(13)}}
    on = {f"{zone}-{number}": 3 for zone in "ab" for number in range(6)}
    lay_out_owned(plane, [], [deployment("s", on, namespace=EVIL, labels=labels, cpu="1m")], timeout=240)
    plane.api.create_all(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"s-{number}", "namespace": EVIL},
            "spec": {
                "clusterIP": "None",
                "selector": {"app": "s", **{f"label-{one}": "" for one in range(13) if number >> one & 1}},
            },
        }
        for number in range(5_000)
    )


def flood_with_large_objects(plane: ControlPlane) -> None:
    """Create 300 ReplicaSets without pods, of 1.2 MB each: pages of a list are large."""
    template = replica_set("large", [], namespace=EVIL).owners[0]
    container = template["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TEXT", "value": "x" * 1_200_000}]
    plane.api.create_all(
        {**template, "metadata": {"name": f"large-{number}", "namespace": EVIL}} for number in range(300)
    )


def flood_with_moves_that_fail(plane: ControlPlane) -> None:
    """Lay out lopsided Deployments whose pods never end, or whose replacements have no image or are rejected."""
    lasting = [skewed(f"lasting-{number}", EVIL, number=number) for number in range(8)]
    for member in (member for workload in lasting for member in workload.pods):
        member["metadata"]["finalizers"] = ["example.com/lasting"]
    failing = [
        skewed(f"failing-{number}", EVIL, number=number, **{label: "c"})
        for number, label in enumerate([NO_IMAGE_ON, NO_SYSTEM_ON] * 8)
    ]
    lay_out_owned(plane, [], [*lasting, *failing], timeout=240)


@contextmanager
def changing(plane: ControlPlane, space: str) -> Iterator[None]:
    """Change an annotation of a pod of a namespace five times a second."""
    name = plane.api.list(f"/api/v1/namespaces/{space}/pods")[0]["metadata"]["name"]
    ended = threading.Event()

    def change() -> None:
        number = 0
        while not ended.wait(0.2):
            number += 1
            annotations = {
                "rebalancer.dev/exclude": "false",
                "rebalancer.dev/pause-until": f"2020-01-01T00:00:{number % 60:02}Z",
            }
            plane.api.patch(f"/api/v1/namespaces/{space}/pods/{name}", {"metadata": {"annotations": annotations}})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


COMPUTED: Final = "rebalancer_resilience_timestamp_seconds"
"""The metric that is there from the first answer on: from then on there are series of what a lost zone leaves."""


def measure(plane: ControlPlane, controller: Controller, *spaces: str) -> Cost:
    """Let pods of these namespaces change for a time, and return what that costs."""

    def read() -> tuple[float, float, float]:
        rows = controller.metrics()
        seconds = sum(value for name, value in rows.items() if name.startswith("rebalancer_cycle_duration_seconds_sum"))
        cycles = rows['rebalancer_cycle_duration_seconds_count{phase="plan"}']
        return seconds, cycles, rows["process_resident_memory_bytes"]

    wait_until(lambda: COMPUTED in controller.metrics(), what="what a lost zone leaves", timeout=150)
    before = read()
    with changing(plane, spaces[0]), changing(plane, spaces[-1]):
        time.sleep(WATCHED)
    after = read()
    cycles = after[1] - before[1]
    assert cycles >= 3
    page = urllib3.request("GET", page_url(controller), timeout=30.0, retries=False).data
    return Cost((after[0] - before[0]) / cycles, after[2] / 2**20, len(controller.get("/metrics").data), len(page))


Flood = Callable[[ControlPlane], None]
FLOODS: Final[Mapping[str, Flood]] = {
    "constraints and texts": flood_with_constraints_and_texts,
    "40 pods of 3,000 constraints": laid_out(with_many_constraints, 40),
    "48 pods of 300 kB of text": laid_out(with_long_texts, 48),
    "300,000 replicas that are never created": flood_with_what_is_never_created,
    "900 pods that nobody places": flood_with_pods_that_nobody_places,
    "500 pods of 32 terms": lambda plane: lay_out(plane, map(with_many_terms, range(500)), timeout=240),
    "5,000 Services": flood_with_services,
    "300 ReplicaSets of 1.2 MB": flood_with_large_objects,
    "24 moves that fail": flood_with_moves_that_fail,
}
TOO_LARGE: Final = frozenset(list(FLOODS)[:3])
"""Of these the controller reads a part, and reports it."""


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(name, marks=pytest.mark.thorough if number else pytest.mark.invariant("fails-small"))
        for number, name in enumerate(FLOODS)
    ],
)
def test_a_tenants_flood_costs_the_others_little(cluster: ControlPlane, tmp_path: Path, flood: str) -> None:
    """Their cycles take at most 1.5 times as long, memory is at most 1.3 times as much, and all is repaired."""
    install(cluster, "base", "evict")
    honest = [*map(even, range(HONEST)), *(skewed(f"web-{number}", "shop", number=number) for number in range(12))]
    lay_out_owned(cluster, nodes(NODES), honest, timeout=180)
    with Controller(cluster, tmp_path, policy("Observe", interval="1s")) as controller:
        controller.wait_for("cycle")
        alone = measure(cluster, controller, "shop")
        lay_out_owned(cluster, [], [deployment("a", ["a-0"], namespace=EVIL, cpu="1m")], timeout=60)  # which changes
        began = time.monotonic()
        FLOODS[flood](cluster)
        print(f"\n{flood}: laid out in {time.monotonic() - began:.1f} s")
        beside = measure(cluster, controller, "shop", EVIL)
        print(f"  alone  {alone}\n  beside {beside}")
        started = time.monotonic()
        report = rebalancer("report", f"--kubeconfig={cluster.kubeconfig(ACCOUNT)}", timeout=60)
        print(f"  report: {time.monotonic() - started:.1f} s, {len(report.stdout):,} bytes")
        assert report.returncode == 0, report.stderr[-2000:]
        controller.policy_file.write_text(policy("Evict", interval="1s"))
        began = time.monotonic()
        wait_until(
            lambda: sum(name.startswith("shop/web") for name in repaired(cluster.api)) == 12,
            what="twelve workloads to be repaired",
            timeout=120,
        )
        print(f"  twelve workloads repaired after {time.monotonic() - began:.1f} s")
        status = json.loads(cluster.api.get(STATUS)["data"]["status.json"])
        assert status["lastCycle"]
        if flood in TOO_LARGE:
            assert "TooLarge" in {one["kind"] for one in _findings(cluster)}
    assert beside.memory <= 1.3 * alone.memory + 40  # what one object of half a MiB takes while it is read
    assert beside.cycle <= 1.5 * alone.cycle + 0.25  # of a busy machine; without bounds no cycle ends in eight seconds
    assert beside.metrics <= alone.metrics + 50_000
    assert beside.page <= alone.page + 50_000


def _findings(plane: ControlPlane) -> list[dict[str, Any]]:
    answer = rebalancer("report", "-o", "json", f"--kubeconfig={plane.kubeconfig(ACCOUNT)}", timeout=60)
    found: list[dict[str, Any]] = json.loads(answer.stdout)["findings"]
    return found


@pytest.mark.invariant("clean-text")
def test_no_tenants_text_is_obeyed_by_a_terminal(cluster: ControlPlane, tmp_path: Path) -> None:
    """A real API server takes it; report, plan, explain and status show it, and none of it begins a line."""
    install(cluster, "base", "evict")
    lay_out_owned(cluster, nodes(NODES), [with_hostile_texts(0), skewed("web-0", "shop")], timeout=120)
    access = f"--kubeconfig={cluster.kubeconfig(ACCOUNT)}"
    with Controller(cluster, tmp_path, policy("Observe", interval="1s")) as controller:
        controller.wait_for("cycle")
        wait_until(lambda: "status.json" in cluster.api.get(STATUS).get("data", {}), what="a status", timeout=30)
        shown = set()
        for command in (
            ("report", "-o", "wide"),
            ("report", "--map"),
            ("plan", "-v"),
            ("explain", "deployment/h-0", "-n", EVIL),
            ("status", "-n", NAMESPACE),
        ):
            answer = rebalancer(*command, access)
            assert answer.returncode == 0, answer.stderr
            text = answer.stdout.decode() + answer.stderr.decode()
            check_clean(text)
            if "\\x1b[2J" in text:
                shown.add(command[0])
        assert shown == {"report", "explain"}
        check_clean(controller.get("/metrics").data.decode())
