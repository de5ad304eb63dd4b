"""Surges as the worker reports them, and a controller that plays them on the simulated cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rebalancer.policy import Mode, Policy, RepairBy, RepairMethod
from rebalancer.simulator import HOSTNAME, ZONE, SimulatedCluster
from rebalancer.simulator.controller import SimulatedController
from rebalancer.surge.record import Marked, Phase, Surge
from rebalancer.surge.report import UnderWay
from tests.build import a_cluster
from tests.controller.simulated import eager

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def a_surge(**fields: Any) -> Surge:
    """Return a surge of shop/web from 6 replicas to 8, after which web-1 and web-2 go."""
    common: dict[str, Any] = {
        "namespace": "shop",
        "kind": "Deployment",
        "name": "web",
        "uid": "uid-web",
        "owner": "uid-rs",
        "group": "shop/web",
        "count": 6,
        "added": 2,
        "victims": (Marked("u1", "web-1"), Marked("u2", "web-2")),
        "begun": START,
        "until": START + timedelta(minutes=10),
        "phase": Phase.WAITING,
    }
    return Surge(**{**common, **fields})


def under_way(waits: str = "", *, pods: int = 8, ready: int = 6, **fields: Any) -> UnderWay:
    """Return what the worker says of that surge."""
    return UnderWay(a_surge(**fields), waits, pods, ready)


def surging(mode: Mode = Mode.EVICT, **fields: Any) -> Policy:
    """Return a policy that adds up to two pods first, in every namespace and whatever a budget allows."""
    rules: dict[str, Any] = {
        "method": RepairMethod.SURGE,
        "namespaces": ("*",),
        "over_budget": ("*",),
        "max_surge": 2,
        "settle": timedelta(seconds=5),
    }
    return eager(mode, groups=(), repair=RepairBy(**{**rules, **fields}))


def blocked_cluster() -> SimulatedCluster:
    """Return a cluster whose Deployment lies in two of three zones, with a budget that never allows an eviction."""
    blueprint = a_cluster("abc", 2)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 2, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 2})
    blueprint.budget("web", max_unavailable=0)
    return SimulatedCluster(blueprint.snapshot(), seed=1)


class Played:
    """A controller that repairs that cluster, with a cycle every twenty seconds."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.cluster = blocked_cluster()
        self.controller = SimulatedController(self.cluster, policy or surging(), name="test")
        self._seconds = 0

    def run(self, seconds: int) -> None:
        """Let so many seconds pass."""
        for _ in range(seconds):
            self.cluster.advance(1)
            if self._seconds % 20:
                self.controller.go_on()
            else:
                self.controller.run_cycle()
            self._seconds += 1

    def told(self, reason: str) -> list[str]:
        """Return the notes of the events with a reason, the oldest first."""
        return [
            entry.detail.partition(": ")[2] for entry in self.cluster.trace if entry.detail.startswith(f"{reason}: ")
        ]
