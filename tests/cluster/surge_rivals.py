"""The same violated Deployments repaired in other ways, and what each costs: pods that go, requests, pods missing."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from benchmarks import peer
from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.surges import Lot
from tests.cluster.test_observing import kubectl
from tests.control_plane.api import Api, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import condition

LOOK: Final = 0.5
"""Seconds between two looks at the pods: each takes two or more to be Ready."""

QUIET: Final = 60.0
"""Seconds without a change after which a controller is taken to have done what it does."""

TOO_MANY: Final = 429


@dataclass
class Cost:
    """What a repair has cost a lot. `missing` is in pod seconds: Ready pods fewer than asked for, and how long."""

    went: int = 0
    refused: int = 0
    missing: float = 0.0
    repaired: bool = False


@dataclass
class Meter:
    """Looks at the pods of lots again and again, in a thread."""

    api: Api
    lots: Sequence[Lot]
    costs: dict[str, Cost] = field(default_factory=dict)
    changed: float = 0.0
    """When a pod appeared or went last, or became Ready or not."""

    def __post_init__(self) -> None:
        self.costs = {lot.name: Cost() for lot in self.lots}
        self._living: dict[str, dict[str, bool]] = {lot.name: {} for lot in self.lots}
        self._look()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _look(self) -> None:
        living: dict[str, dict[str, bool]] = {lot.name: {} for lot in self.lots}
        for pod in self.api.list("/api/v1/pods"):
            meta = pod["metadata"]
            if meta["namespace"] in living and "deletionTimestamp" not in meta:
                living[meta["namespace"]][meta["uid"]] = condition(pod, "Ready") == "True"
        for name, before in self._living.items():
            self.costs[name].went += len(before.keys() - living[name].keys())
        if living != self._living:
            self.changed = time.monotonic()
        self._living = living

    def _run(self) -> None:
        last = time.monotonic()
        while not self._ending.wait(LOOK):
            self._look()
            now = time.monotonic()
            for lot in self.lots:
                ready = sum(self._living[lot.name].values())
                self.costs[lot.name].missing += max(0, lot.wanted - ready) * (now - last)
            last = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def wait_quiet(self, timeout: float) -> None:
        """Wait until nothing has changed for a while."""
        wait_until(
            lambda: time.monotonic() - self.changed > QUIET, what="nothing to change", timeout=timeout, interval=1.0
        )


Way = Callable[[ControlPlane, Path, Meter], str]
"""Repairs what is laid out; returns whose evictions are counted."""


def by_eviction(plane: ControlPlane, folder: Path, meter: Meter) -> str:
    """Let Rebalancer evict, bound by PodDisruptionBudgets alone."""
    install(plane, "base", "evict")
    whole = {"maxUnavailable": "100%", "perWorkload": "100%", "perNode": "100%", "perNamespace": "100%"}
    rules = policy("Evict", interval="2s", budgets=whole, groups=[], eligibility={"minAge": "0s", "minReplicas": 1})
    with Controller(plane, folder, rules):
        meter.wait_quiet(1200)
    return USER


def by_descheduler(plane: ControlPlane, folder: Path, meter: Meter) -> str:
    """Let the descheduler evict, cycle after cycle, until it asks for nothing more."""
    del folder
    peer.run(plane, {lot.name: peer.policy(lot.name) for lot in meter.lots}, dry_runs=0)
    return peer.USER


def by_restart(plane: ControlPlane, folder: Path, meter: Meter) -> str:
    """Restart each Deployment once, as people do to spread pods anew."""
    del folder
    for lot in meter.lots:
        kubectl(plane, "rollout", "restart", "deployment/web", f"--namespace={lot.name}")
    meter.wait_quiet(1200)  # some never end: their new pods find no node while the old ones count
    return ""


def finish(plane: ControlPlane, meter: Meter, evictions: Sequence[Request]) -> Mapping[str, Cost]:
    """Return the costs with what is counted at the end."""
    for request in evictions:
        if request.code == TOO_MANY and request.namespace in meter.costs:
            meter.costs[request.namespace].refused += 1
    for lot in meter.lots:
        pods = plane.api.list(f"/api/v1/namespaces/{lot.name}/pods")
        pending = any(not pod["spec"].get("nodeName") for pod in pods)
        meter.costs[lot.name].repaired = not pending and lot.is_satisfied(lot.now(plane.api))
    return meter.costs


def rows(lots: Sequence[Lot], ways: Mapping[str, Mapping[str, Cost]]) -> Iterator[Sequence[str]]:
    """Yield the cells of a table: each way, for each half of the budgets."""
    for budget in (0, 1):
        half = [lot.name for lot in lots if lot.budget == budget]
        for way, costs in ways.items():
            found = [costs[name] for name in half]
            yield (
                str(budget),
                way,
                str(sum(one.went for one in found)),
                str(sum(one.refused for one in found)),
                f"{sum(one.missing for one in found):.0f}",
                f"{sum(one.repaired for one in found)} of {len(found)}",
            )
