"""What came of a run: read from the API server's audit log and from the cluster at the end."""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.closed_loop.scenario import LABEL, UNBOUND, Scenario, priority_classes
from tests.control_plane.api import Api, TimedOutError
from tests.control_plane.audit import Request
from tests.control_plane.layout import lay_out, wait_settled
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import unsettled
from tests.planning.states import Counts, satisfied

QUIET_SECONDS = 11.0
"""A pod that no node admits is tried again after ten seconds at the latest when something has changed."""

REST_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One scenario, repaired or not.

    `refused` are evictions that the API server answered with 429, `again` granted evictions of pods that had been moved
    before, `dear` those of pods that were to be spared. `cycles` are the cycles in which something was evicted.
    `pending` are pods without a node at the end, `holds` says whether all constraints hold then.
    """

    evictions: int
    refused: int
    again: int
    dear: int
    cycles: int
    pending: int
    holds: bool
    counts: Counts

    @property
    def repaired(self) -> bool:
        """Whether everything is as it should be at the end."""
        return self.holds and not self.pending


def set_up(plane: ControlPlane, scenarios: Sequence[Scenario]) -> None:
    """Lay out all scenarios, side by side, and wait until nothing moves."""
    parts = [part for scenario in scenarios for part in scenario.parts()]
    lay_out(plane, [*priority_classes(), *parts], timeout=120)
    late = 0
    for scenario in scenarios:
        if scenario.late is not None:
            name, replicas = scenario.late
            path = f"/apis/apps/v1/namespaces/{scenario.name}/statefulsets/{name}"
            plane.api.patch(path, {"spec": {"replicas": replicas}})
            late += 1
    wait_settled(plane, unschedulable=late, timeout=120)


def wait_at_rest(plane: ControlPlane) -> None:
    """Wait until nothing moves any more, whatever stays pending. Raises TimedOutError if that does not happen."""
    deadline = time.monotonic() + REST_SECONDS
    seen: dict[str, str] = {}
    since = time.monotonic()
    while True:
        reason = unsettled(plane.api, unschedulable=None)
        pods = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in plane.api.list("/api/v1/pods")}
        if reason or pods != seen:
            seen, since = pods, time.monotonic()
        elif all(pods.values()) or time.monotonic() - since > QUIET_SECONDS:
            return
        if time.monotonic() > deadline:
            raise TimedOutError(f"not at rest after {REST_SECONDS:g} s: {reason}")
        time.sleep(0.1)


def figures(
    plane: ControlPlane, scenarios: Iterable[Scenario], requests: Iterable[Request], cycles: Sequence[datetime]
) -> dict[str, Figures]:
    """Return what came of each scenario, by name, given the requested evictions and when the cycles began."""
    by_scenario: dict[str, list[Request]] = {}
    for request in requests:
        by_scenario.setdefault(request.namespace, []).append(request)
    return {
        scenario.name: _figures(plane.api, scenario, by_scenario.get(scenario.name, []), cycles)
        for scenario in scenarios
    }


def _figures(api: Api, scenario: Scenario, requests: Sequence[Request], cycles: Sequence[datetime]) -> Figures:
    granted = [record for record in requests if record.code == 201]
    left = Counter(scenario.pod_names)
    left.subtract(record.name for record in granted)
    nodes = [pod["spec"].get("nodeName", "") for pod in _pods(api, scenario)]
    by_node = Counter(nodes)
    counts = [[by_node[node] for node in zone] for zone in scenario.names]
    return Figures(
        evictions=len(granted),
        refused=sum(record.code == 429 for record in requests),
        again=-sum(count for count in left.values() if count < 0),
        dear=sum(bool(scenario.dear) and record.name.startswith(scenario.dear) for record in granted),
        cycles=len({bisect_right(cycles, record.received) for record in granted}),
        pending=by_node[""],
        holds=satisfied(counts, scenario.zone or UNBOUND, scenario.host or UNBOUND) and _within(scenario, counts),
        counts=counts,
    )


def _pods(api: Api, scenario: Scenario) -> list[dict[str, dict[str, str]]]:
    pods = api.list(f"/api/v1/namespaces/{scenario.name}/pods")
    assert all(pod["spec"]["nodeSelector"] == {LABEL: scenario.name} for pod in pods)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _within(scenario: Scenario, counts: Counts) -> bool:
    """Say whether no node holds a third or more, where the scenario has that limit."""
    total = sum(map(sum, counts))
    return scenario.limit is None or all(3 * held < total for zone in counts for held in zone)
