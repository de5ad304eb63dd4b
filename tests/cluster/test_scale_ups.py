"""In every scale-up pods wait for some seconds: that stops neither evictions nor what keeps scale-downs spread."""

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.prevention import wait_ordered, wait_restricted
from tests.cluster.test_prevention import WEB, lay_out_web, scale, skews, steering
from tests.control_plane.api import TimedOutError, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread, wait_settled
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane

BURST = "/apis/apps/v1/namespaces/shop/deployments/burst"
PENDING_SECONDS = 3.0
SCALE_DOWNS = 16


@pytest.mark.parametrize(
    ("breaker", "causes"), [({}, []), ({"pendingFor": "0s"}, ["pending_pods"])], ids=["default", "at once"]
)
def test_a_scale_up_that_waits_for_seconds_does_not_delay_a_repair(
    cluster: ControlPlane, tmp_path: Path, breaker: dict[str, str], causes: list[str]
) -> None:
    """Ten pods more on sixty, pending for three seconds: counted at once, they hold back evictions for 5 minutes."""
    install(cluster, "base", "evict")
    lay_out(
        cluster,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            deployment(
                "web",
                ["a-0", "a-1", "b-0", "b-1"] * 3,
                namespace="shop",
                topologySpreadConstraints=[spread(ZONE, labels={"app": "web"})],
            ),
            deployment("burst", ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"] * 8, namespace="shop"),
        ],
    )
    with Controller(cluster, tmp_path, policy("Observe", interval="1s", breaker=breaker)) as controller:
        controller.wait_for("cycle")
        with cluster.without("kube-scheduler"):
            began = datetime.now(UTC)
            cluster.api.patch(BURST, {"spec": {"replicas": 58}})
            time.sleep(PENDING_SECONDS)
        wait_settled(cluster)
        controller.policy_file.write_text(policy("Evict", interval="1s", breaker=breaker))
        with suppress(TimedOutError):
            wait_until(lambda: cluster.audit.evictions(user=USER), what="the first eviction", timeout=20)
        opened = {cause for line in controller.log("cycle") for cause in line["breaker"]}
    assert sorted(opened) == causes
    waited = [(eviction.received - began).total_seconds() for eviction in cluster.audit.evictions(user=USER)]
    print(f"seconds from the scale-up to the evictions: {waited}")
    assert bool(waited) is not bool(causes)


@pytest.mark.invariant("waits-and-outages")
def test_a_job_that_waits_for_nodes_that_are_not_there_does_not_delay_a_repair(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """A hundred pods of a Job request a gpu beside 370 pods that run, with the breaker of the shipped policy.

    Counted like others they open it after a minute, for eleven minutes, and again with each Job.
    """
    install(cluster, "base", "evict")
    six = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]
    lay_out(
        cluster,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            deployment(
                "web",
                ["a-0", "a-1", "b-0"] * 3,
                namespace="shop",
                topologySpreadConstraints=[spread(ZONE, labels={"app": "web"})],
            ),
            deployment("burst", [*six * 60, "a-0"], namespace="shop"),
        ],
    )
    pod = {
        "containers": [{"name": "train", "image": "registry.k8s.io/pause:3.10"}],
        "nodeSelector": {"accelerator": "gpu"},
        "restartPolicy": "Never",
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "shop"},
        "spec": {"parallelism": 100, "completions": 100, "template": {"spec": pod}},
    }
    with Controller(cluster, tmp_path, policy("Observe", interval="1s")) as controller:
        controller.wait_for("cycle")
        cluster.api.create(job)
        waiting = "/api/v1/namespaces/shop/pods"
        wait_until(lambda: len(cluster.api.list(waiting, labels="job-name=train")) == 100, what="the Job's pods")
        time.sleep(65)
        count = len(controller.log("cycle"))
        controller.wait_for("cycle", count=count + 2)
        began = datetime.now(UTC)
        controller.policy_file.write_text(policy("Evict", interval="1s"))
        wait_until(lambda: cluster.audit.evictions(user=USER), what="the first eviction", timeout=60)
        opened = {cause for line in controller.log("cycle") for cause in line["breaker"]}
    pods = cluster.api.list(waiting, labels="job-name=train")
    waited = (min(eviction.received for eviction in cluster.audit.evictions(user=USER)) - began).total_seconds()
    print(
        f"first eviction after {waited:.1f} s beside {len(pods)} waiting pods; the breaker opened for {sorted(opened)}"
    )
    assert [pod["spec"].get("nodeName") for pod in pods] == [None] * 100
    assert opened == set()


@pytest.mark.parametrize("rounds", [4, pytest.param(SCALE_DOWNS, marks=pytest.mark.thorough)])
def test_scale_downs_stay_spread_though_the_pods_of_each_scale_up_wait(
    cluster: ControlPlane, tmp_path: Path, rounds: int
) -> None:
    """Thirty pods more, pending for three seconds, then all down: as an autoscaler that waits 20 seconds does."""
    install(cluster, "base", "prevention")
    random, replicas, violated = Random(rounds), 6, []
    lay_out_web(cluster, replicas)
    wait_restricted(cluster)
    with Controller(cluster, tmp_path, steering()) as controller:
        wait_ordered(cluster)
        for _ in range(rounds):
            with cluster.without("kube-scheduler"):
                cluster.api.patch(WEB, {"spec": {"replicas": replicas + 30}})
                time.sleep(PENDING_SECONDS)
            wait_settled(cluster, timeout=120)
            with suppress(TimedOutError):  # a scale-down does not wait for an order
                wait_ordered(cluster, timeout=20)
            replicas = random.randint(2, 12)
            scale(cluster, replicas)
            if max(skews(cluster.api).values()) > 1:
                violated.append(replicas)
        patched = controller.metrics()['rebalancer_prevention_patches_total{result="patched"}']
    print(f"{len(violated)} of {rounds} scale-downs ended violated, {patched:.0f} patches")
    assert violated == []
