"""What happens to processes, nodes, images and containers in the middle of a repair, on real kubelets.

Each repair takes its two evictions, of different pods, as the API server's audit log says, and five of six pods are
Ready at every moment, counted five times a second. A lost node takes its own pods with it, and a drain those that it
evicts.
"""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.controller import NAMESPACE, USER
from tests.cluster.test_pages import as_a_reader
from tests.control_plane.api import wait_until
from tests.control_plane.settling import pod_ready
from tests.nodes.controller import LEASE_SECONDS, SHOP, Installation, process_of
from tests.nodes.images import NEXT
from tests.nodes.real_nodes import RealNodes
from tests.pages import checkout

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

POLICY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"
SLOW: dict[str, Any] = {
    "args": ["8"],
    "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
}
"""A container that is Ready after eight seconds: a repair of two moves takes longer than that."""


@pytest.fixture(scope="module")
def shell(real_nodes: RealNodes, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return a shell beside the cluster."""
    folder = tmp_path_factory.mktemp("shell")
    top = folder / "checkout"
    top.mkdir()
    checkout(top)
    return Installation(real_nodes, as_a_reader(real_nodes.plane, folder), top)


@pytest.fixture
def installation(shell: Installation, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Return the quick start's installation, with a workload of its own for the test; its namespace has no others."""
    shell.install()
    for workload in shell.api.list("/apis/apps/v1/namespaces/shop/deployments"):
        shell.remove(workload["metadata"]["name"])
    shell.plane.begin_test()
    yield shell
    if request.session.testsfailed:
        print(shell.run("kubectl get pods -A -o wide"))


def begin(installation: Installation, app: str) -> None:
    """Lay out a slow workload, and wait until the first of its pods is evicted."""
    installation.skew(app, **SLOW)
    wait_until(lambda: installation.evictions(app), what="the first eviction", timeout=60)


def end(installation: Installation, app: str, **told: float) -> None:
    """Wait for the end of a repair that has taken its two evictions, and print what was measured."""
    seconds, fewest = installation.await_repair(app, timeout=180)
    assert len(installation.evictions(app)) == len(installation.plane.audit.evictions(USER)) == 2
    assert fewest >= 5
    print(f"\n{app}: " + ", ".join(f"{name} {value:.1f} s" for name, value in {**told, "repaired": seconds}.items()))


def test_another_replica_leads_when_the_leader_is_killed(installation: Installation) -> None:
    """Within the Lease's time; its container is started again and waits."""
    begin(installation, "killed")
    before, leader = installation.holder(), installation.leader()
    os.kill(process_of(leader), signal.SIGKILL)
    seconds = installation.await_other_leader(before)
    assert seconds < LEASE_SECONDS
    end(installation, "killed", another_leads_after=seconds)
    wait_until(lambda: len(installation.pods()) == 2 == sum(map(pod_ready, installation.pods())), what="both replicas")
    (again,) = [pod for pod in installation.pods() if pod["metadata"]["name"] == leader["metadata"]["name"]]
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    waits = [pod for pod in installation.pods() if pod["metadata"]["name"] != installation.holder().rpartition("_")[0]]
    assert '"level": "warning"' not in "".join(map(installation.log, waits))


def test_another_replica_leads_when_the_leaders_node_is_lost(installation: Installation) -> None:
    """Its node comes back as after a loss of power, with the pods that it had."""
    begin(installation, "powerless")
    before, leader = installation.holder(), installation.leader()
    node = installation.nodes.nodes[leader["spec"]["nodeName"]]
    node.kill()
    seconds = installation.await_other_leader(before)
    assert seconds < LEASE_SECONDS
    node.start()
    installation.nodes.wait_ready()
    seconds_repaired, _ = installation.await_repair("powerless", timeout=400)
    evicted = installation.evictions("powerless")
    print(
        f"\npowerless: another leads after {seconds:.1f} s, {len(evicted)} evictions, repaired {seconds_repaired:.1f} s"
    )
    assert len(evicted) <= 3


def test_a_drain_hands_leadership_over_and_moves_nothing_else(installation: Installation) -> None:
    """The drain evicts; the controller waits, and repairs what is left of it when the node is back."""
    installation.skew("drained")
    installation.await_repair("drained")
    installation.plane.begin_test()
    before, leader = installation.holder(), installation.leader()
    began = time.monotonic()
    installation.run(
        f"kubectl drain {leader['spec']['nodeName']} --ignore-daemonsets --delete-emptydir-data --timeout=2m"
    )
    drained = time.monotonic() - began
    assert installation.leader()["metadata"]["name"] != leader["metadata"]["name"]
    assert installation.holder() != before
    time.sleep(15)
    assert installation.plane.audit.evictions(USER) == []
    installation.run(f"kubectl uncordon {leader['spec']['nodeName']}")
    seconds, _ = installation.await_repair("drained", timeout=180)
    assert installation.plane.audit.evictions(USER) == []
    print(f"\ndrained: drained after {drained:.1f} s, balanced {seconds:.1f} s after the uncordon")


def test_an_edited_policy_is_in_force_when_the_kubelet_has_written_it(installation: Installation) -> None:
    """Within a minute and a half; from then on nothing is evicted."""
    policy = yaml.safe_load(installation.api.get(POLICY)["data"]["policy.yaml"])
    edited = yaml.safe_dump({**policy, "mode": "Observe"})
    began = time.monotonic()
    installation.api.patch(POLICY, {"data": {"policy.yaml": edited}})
    wait_until(
        lambda: "mode Observe" in installation.run("rebalancer status"),
        what="the policy to be in force",
        timeout=120,
        interval=1,
    )
    seconds = time.monotonic() - began
    installation.skew("observed")
    time.sleep(20)
    assert installation.counts("observed") == [3, 3, 0]
    assert installation.plane.audit.evictions(USER) == []
    print(f"\nobserved: in force after {seconds:.1f} s")
    assert seconds < 95


def test_a_new_image_is_rolled_out_in_the_middle_of_a_repair(installation: Installation) -> None:
    """Both replicas are replaced, no pod is unhealthy at its start, and the new leader ends what was begun."""
    for node in installation.nodes.nodes.values():
        node.import_image(installation.nodes.archives[NEXT])
    begin(installation, "updated")
    began = time.monotonic()
    installation.run(f"kubectl set image -n {NAMESPACE} deployment/rebalancer rebalancer={NEXT}")
    installation.run(f"kubectl rollout status deployment/rebalancer -n {NAMESPACE} --timeout=2m")
    rolled = time.monotonic() - began
    end(installation, "updated", rolled_out=rolled)
    pods = installation.pods()
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [NEXT] * 2
    names = {pod["metadata"]["name"] for pod in pods}
    events = installation.api.list(f"/api/v1/namespaces/{NAMESPACE}/events")
    of_new = [event for event in events if event["involvedObject"]["name"] in names]
    assert [event["message"] for event in of_new if event["type"] == "Warning"] == []


def test_a_pod_that_ends_slowly_is_waited_for(installation: Installation) -> None:
    """A preStop hook of eight seconds, within a grace of twenty: the pod is not cut short."""
    hook = {"preStop": {"sleep": {"seconds": 8}}}
    installation.skew("leaving", terminationGracePeriodSeconds=20, lifecycle=hook)
    end(installation, "leaving")
    _, last = installation.evictions("leaving")
    wait_until(lambda: installation.api.find(f"{SHOP}/{last.name}") is None, what="the pod to be gone", timeout=40)
    seconds = time.time() - last.received.timestamp()
    print(f"gone {seconds:.1f} s after its eviction")
    assert 8 <= seconds < 20


def test_the_next_pod_waits_until_the_last_one_is_ready(installation: Installation) -> None:
    """A readiness probe that fails for fifteen seconds; the kubelet's events of it disturb nothing."""
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    installation.skew("warming", args=["15"], readinessProbe=probe)
    end(installation, "warming")
    first, second = installation.evictions("warming")
    between = (second.received - first.received).total_seconds()
    print(f"{between:.1f} s between the evictions")
    assert between > 15
    assert any("Readiness probe failed" in line for line in installation.warnings("shop"))


@pytest.mark.parametrize(("app", "after", "min_ready"), [("crashing", 1, 0), ("flapping", 10, 20)])
def test_a_replacement_that_crashes_stops_the_repair(
    installation: Installation, app: str, after: int, min_ready: int
) -> None:
    """One pod is lost, not two, as long as its replacement crashes; then the repair goes on.

    Either before it is Ready, or before it has been Ready for the Deployment's minReadySeconds.
    """
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "crash", "namespace": "shop"}}
    installation.api.apply([{**settings, "data": {"after": ""}}])
    reference = {"configMapKeyRef": {"name": "crash", "key": "after"}}
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    installation.skew(
        app,
        min_ready=min_ready,
        args=["8", "$(AFTER)"],
        env=[{"name": "AFTER", "valueFrom": reference}],
        readinessProbe=probe,
    )
    installation.api.apply([{**settings, "data": {"after": str(after)}}])
    wait_until(lambda: installation.evictions(app), what="the first eviction", timeout=60)
    time.sleep(60)
    assert len(installation.plane.audit.evictions(USER)) == 1
    installation.api.apply([{**settings, "data": {"after": ""}}])
    end(installation, app)
