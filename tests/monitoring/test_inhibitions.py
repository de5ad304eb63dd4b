"""The example for Alertmanager does what its comments say, on a real Alertmanager."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.control_plane import children
from tests.control_plane.api import wait_until
from tests.control_plane.build import MissingPart
from tests.monitoring.programs import or_skip, packaged, promtool, run
from tests.monitoring.stack import Alertmanager
from tools.monitoring import MONITORING, ROOT

__all__ = ["promtool"]  # a fixture
EXAMPLE = MONITORING / "alertmanager.yaml"
LIMIT = {"group": "redis", "limit": "R2", "namespace": "cache", "key": "sessions", "topology_key": "zone"}


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    try:
        started = Alertmanager(tmp_path, yaml.safe_load(EXAMPLE.read_text()))
    except MissingPart as missing:
        or_skip(missing)
    yield started
    children.stop([started.child])


@pytest.mark.cluster
def test_amtool_accepts_the_example(alertmanager: Alertmanager) -> None:
    assert "SUCCESS" in run(packaged("amtool"), "check-config", EXAMPLE)


def test_the_alert_on_zones_that_the_page_offers_works(tmp_path: Path, promtool: Path) -> None:
    """It fires where half of a zone's nodes are unready, names the zone, and leaves the others alone."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (rules,) = re.findall(r"^```yaml\n(groups:\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.yaml").write_text(rules)
    zone = "label_topology_kubernetes_io_zone"
    nodes = {"a-0": ("a", "1x20"), "a-1": ("a", "1x5 0x15"), "b-0": ("b", "1x20"), "b-1": ("b", "1x20")}
    series = [
        entry
        for node, (name, ready) in nodes.items()
        for entry in (
            {"series": f'kube_node_labels{{node="{node}",{zone}="{name}"}}', "values": "1x20"},
            {"series": f'kube_node_status_condition{{node="{node}",condition="Ready",status="true"}}', "values": ready},
        )
    ]
    reported = {
        "exp_labels": {"severity": "critical", zone: "a"},
        "exp_annotations": {"summary": "At most half of the nodes of zone a are Ready."},
    }
    checks = [
        {"alertname": "ZoneUnready", "eval_time": "6m", "exp_alerts": []},
        {"alertname": "ZoneUnready", "eval_time": "8m", "exp_alerts": [reported]},
    ]
    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": checks}],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in run(promtool, "test", "rules", tmp_path / "tests.yaml")


@pytest.mark.cluster
def test_a_lost_zone_holds_back_what_follows_from_it(alertmanager: Alertmanager) -> None:
    """And nothing else: other causes of the breaker hold back only blocked repairs, and no limit another one."""
    alerts = {
        "zone": {"alertname": "RebalancerBreakerOpen", "cause": "unready_zone", "cluster": "east"},
        "nodes": {"alertname": "ZoneUnready", "severity": "critical", "cluster": "north"},
        "follows": {"alertname": "TopologySkewUnresolved", "severity": "warning", "cluster": "north"},
        "errors": {"alertname": "RebalancerBreakerOpen", "cause": "api_errors", "cluster": "west"},
        "limit": {"alertname": "TopologyShareLimitViolated", "severity": "warning", "cluster": "east", **LIMIT},
        "skew": {"alertname": "TopologySkewUnresolved", "severity": "warning", "cluster": "east"},
        "blocked": {"alertname": "TopologyReplacementBlocked", "severity": "warning", "cluster": "east"},
        "policy": {"alertname": "RebalancerPolicyInvalid", "severity": "warning", "cluster": "east"},
        "elsewhere": {"alertname": "TopologySkewUnresolved", "severity": "warning", "cluster": "west"},
        "budget": {"alertname": "TopologyRebalanceBlocked", "severity": "warning", "cluster": "west"},
        "unblocked": {"alertname": "TopologyRebalanceBlocked", "severity": "warning", "cluster": "north"},
        "quorum": {"alertname": "TopologyShareLimitViolated", "cause": "quorum", "cluster": "west", **LIMIT},
        "bound": {"alertname": "TopologyShareLimitViolated", "severity": "critical", "cluster": "west", **LIMIT},
        "other": {
            "alertname": "TopologyShareLimitViolated",
            "severity": "warning",
            "cluster": "west",
            **LIMIT,
            "key": "carts",
        },
        "down": {"alertname": "RebalancerNoLeader", "severity": "warning", "cluster": "south"},
        "stale": {"alertname": "RebalancerCycleStale", "severity": "warning", "cluster": "south"},
    }
    alertmanager.post([{"labels": labels} for labels in alerts.values()])

    def held_back() -> set[str]:
        received = alertmanager.alerts()
        names = {frozenset(labels.items()): name for name, labels in alerts.items()}
        inhibited = [alert["labels"] for alert in received if alert["status"]["inhibitedBy"]]
        return {names[frozenset(labels.items())] for labels in inhibited}

    wait_until(lambda: len(alertmanager.alerts()) == len(alerts), what="the alerts")
    wanted = {"budget", "limit", "skew", "blocked", "follows", "bound", "stale"}
    wait_until(lambda: held_back() >= wanted, what=f"{wanted} to be held back")
    assert held_back() == wanted
