"""Alerts on the real thing: Prometheus, Alertmanager, kube-state-metrics and the controller on the control plane.

The rules are the shipped ones with a second for every minute (`shortened`), and samples are taken every second.
"""

import contextlib
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.controller import Controller, install, policy
from tests.control_plane.api import Api, wait_until
from tests.control_plane.build import KUBE_STATE_METRICS, MissingPart, programs
from tests.control_plane.layout import Workload, lay_out, nodes, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.monitoring.programs import NAMES, or_skip, packaged
from tests.monitoring.stack import Alert, Stack, shortened
from tests.monitoring.test_dashboard import queries

INSTANCE = "app.kubernetes.io/instance"
CACHE = "/api/v1/namespaces/cache/pods"
LIMITS = {
    "groups": [
        {
            "name": "redis",
            "selector": {"matchExpressions": [{"key": INSTANCE, "operator": "Exists"}]},
            "groupBy": [INSTANCE],
            "limits": [
                {"name": "third", "topologyKey": HOSTNAME, "maxShare": "<=1/3", "action": "Evict"},
                {
                    "name": "masters-quorum",
                    "selector": {"matchLabels": {"redis-role": "master"}},
                    "topologyKey": HOSTNAME,
                    "maxShare": "<=1/2",
                },
            ],
        }
    ]
}
"""No node holds more than a third of a Redis cluster, or more than half of its masters."""


def redis(name: str, shards: Sequence[Sequence[str]]) -> list[Workload]:
    """Return a cluster of shards, each a StatefulSet whose pods are on these nodes; all are spread together."""
    return [
        stateful_set(
            f"{name}-{number}",
            shard,
            namespace="cache",
            labels={INSTANCE: name, "shard": f"{name}-{number}"},
            # A soft one: nothing forces a replacement elsewhere, so the limit is repaired by predicted moves.
            topologySpreadConstraints=[spread(HOSTNAME, labels={INSTANCE: name}, soft=True)],
        )
        for number, shard in enumerate(shards)
    ]


def counts(api: Api, name: str) -> list[int]:
    """Count the pods of a cluster by node, the most first."""
    pods = [pod for pod in api.list(CACHE, labels=f"{INSTANCE}={name}") if "deletionTimestamp" not in pod["metadata"]]
    return sorted(Counter(pod["spec"].get("nodeName", "") for pod in pods).values(), reverse=True)


@pytest.fixture
def promtool() -> Path:
    """Find everything that is needed, so that nothing is started in vain."""
    try:
        programs((KUBE_STATE_METRICS,))
        paths = {name: packaged(name) for name in NAMES}
    except MissingPart as missing:
        or_skip(missing)
    return paths["promtool"]


def started(cluster: ControlPlane, folder: Path) -> Controller:
    folder.mkdir()
    return Controller(cluster, folder, policy("Observe", **LIMITS))


@pytest.mark.invariant("alerts")
def test_alerts_arrive_are_resolved_and_outlive_the_controller(
    cluster: ControlPlane, tmp_path: Path, promtool: Path
) -> None:
    """Sent once with values, over a change of leader; resolved by the repair; then the fallback takes over."""
    install(cluster, "base", "evict")
    skewed = redis("sessions", [("a-0", "a-0"), ("a-0", "b-0"), ("a-0", "c-0")])
    lay_out(cluster, [*nodes({"a": 2, "b": 2, "c": 2}), *skewed])
    for master in ("sessions-0-0", "sessions-1-0", "sessions-2-1"):
        cluster.api.patch(f"{CACHE}/{master}", {"metadata": {"labels": {"redis-role": "master"}}})
    with contextlib.ExitStack() as running:
        first = running.enter_context(started(cluster, tmp_path / "first"))
        first.wait_for("leading")
        second = running.enter_context(started(cluster, tmp_path / "second"))
        ports = [controller.wait_for("listening")[0]["port"] for controller in (first, second)]
        with Stack(cluster, tmp_path / "stack", replicas=ports, rules=shortened()) as stack:
            first_alert = check_limit_alerts(stack)
            check_dashboard(stack)
            check_metrics(first, promtool)
            assert first.stop() == 0
            second.wait_for("leading")
            second.wait_for("cycle", count=4)
            assert stack.notices("TopologyShareLimitViolated", limit="third") == [first_alert], (
                "neither resolved nor sent again"
            )
            second.policy_file.write_text(policy("Evict", **LIMITS))
            wait_until(lambda: max(counts(cluster.api, "sessions")) <= 2, what="a third on a node at most", timeout=60)
            resolved = stack.wait_for("TopologyShareLimitViolated", "resolved", limit="third")
            assert resolved["startsAt"] == first_alert["startsAt"], "one alert from the beginning to the end"
            assert not stack.notices("TopologyShareLimitViolatedFallback"), "silent while somebody leads"
            assert second.process is not None
            second.process.kill()
            lay_out(cluster, redis("carts", [("b-0", "b-0"), ("b-0", "b-0"), ("a-0", "b-1")]))
            check_fallback(stack)


def check_limit_alerts(stack: Stack) -> Alert:
    """Await the alerts of both limits, with labels and values; return the alert on all pods."""
    labels = {"group": "redis", "namespace": "cache", "key": "sessions", "topology_key": HOSTNAME}
    alert = stack.wait_for("TopologyShareLimitViolated", "firing", limit="third")
    wanted = {"alertname": "TopologyShareLimitViolated", "severity": "warning", "limit": "third", **labels}
    assert alert["labels"] == wanted
    assert alert["annotations"]["description"] == (
        f"Limit redis/third of sessions in cache is violated over {HOSTNAME}; the worst domain is a-0; "
        "the fullest holds 66.67% of the pods."
    )
    assert alert["annotations"]["runbook"] == "deploy/runbooks/TopologyShareLimitViolated.md"
    quorum = stack.wait_for("TopologyShareLimitViolated", "firing", limit="masters-quorum", cause="quorum")
    assert quorum["labels"].items() >= labels.items()
    described = f"One domain of {HOSTNAME} holds 66.67% of the pods that limit redis/masters-quorum counts"
    assert quorum["annotations"]["description"].startswith(described)
    return alert


def check_dashboard(stack: Stack) -> None:
    """Demand data for every query, but about terms of podAntiAffinity, which no pod declares here."""
    wanted = [query for query in queries() if "rebalancer_anti_affinity_violations" not in query]
    assert len(wanted) > 20
    for query in wanted:
        wait_until(partial(stack.query, query), what=f"data for {query}", timeout=10)


def check_metrics(controller: Controller, promtool: Path) -> None:
    """Have Prometheus' own tool look at names, units and help of the metrics: it has nothing to say."""
    text = controller.get("/metrics").data
    assert b"rebalancer_limit_share_ratio{" in text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False, timeout=20)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def check_fallback(stack: Stack) -> None:
    """Await what kube-state-metrics alone tells: four of six on one node, five in one zone, and who is missing."""
    for key, share, where in ((HOSTNAME, "66.67%", "on one node"), (ZONE, "83.33%", "in one zone")):
        alert = stack.wait_for("TopologyShareLimitViolatedFallback", "firing", topology_key=key)
        assert alert["labels"].items() >= {"group": "instances", "namespace": "cache", "key": "carts"}.items()
        assert alert["annotations"]["description"].startswith(f"{share} of the pods of carts in cache run {where}. ")
    stack.wait_for("RebalancerDown", "firing")
    assert not stack.notices("TopologyShareLimitViolatedFallback", key="sessions")
