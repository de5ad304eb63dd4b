"""The example for Alertmanager does what its comments say, on a real Alertmanager."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.control_plane import children
from tests.control_plane.api import wait_until
from tests.control_plane.build import MissingPart
from tests.monitoring.programs import or_skip, packaged, run
from tests.monitoring.stack import Alertmanager
from tools.monitoring import MONITORING

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


def test_amtool_accepts_the_example(alertmanager: Alertmanager) -> None:
    assert "SUCCESS" in run(packaged("amtool"), "check-config", EXAMPLE)


def test_a_lost_zone_holds_back_what_follows_from_it(alertmanager: Alertmanager) -> None:
    """And nothing else: other causes of the breaker hold nothing back, nor does one limit another."""
    alerts = {
        "zone": {"alertname": "RebalancerBreakerOpen", "cause": "unready_zone", "cluster": "east"},
        "errors": {"alertname": "RebalancerBreakerOpen", "cause": "api_errors", "cluster": "west"},
        "limit": {"alertname": "TopologyShareLimitViolated", "severity": "warning", "cluster": "east", **LIMIT},
        "skew": {"alertname": "TopologySkewUnresolved", "severity": "warning", "cluster": "east"},
        "blocked": {"alertname": "TopologyReplacementBlocked", "severity": "warning", "cluster": "east"},
        "policy": {"alertname": "RebalancerPolicyInvalid", "severity": "warning", "cluster": "east"},
        "elsewhere": {"alertname": "TopologySkewUnresolved", "severity": "warning", "cluster": "west"},
        "critical": {"alertname": "TopologyShareLimitViolated", "severity": "critical", "cluster": "west", **LIMIT},
        "warning": {"alertname": "TopologyShareLimitViolated", "severity": "warning", "cluster": "west", **LIMIT},
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
        found = alertmanager.alerts()
        names = {frozenset(labels.items()): name for name, labels in alerts.items()}
        inhibited = [each["labels"] for each in found if each["status"]["inhibitedBy"]]
        return {names[frozenset(labels.items())] for labels in inhibited}

    wait_until(lambda: len(alertmanager.alerts()) == len(alerts), what="the alerts")
    wanted = {"limit", "skew", "blocked", "warning", "stale"}
    wait_until(lambda: held_back() >= wanted, what=f"{wanted} to be held back")
    assert held_back() == wanted
