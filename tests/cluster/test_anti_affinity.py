"""Violated podAntiAffinity on the real control plane: as few evictions as can be, each lands where it was predicted.

The states are drawn, three workloads at most, a third of them across namespaces, and lie side by side, each on nodes of
its own. What is right is a search over all placements, not the planner's word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.closed_loop.ours import ALL_AT_ONCE
from tests.closed_loop.scenario import LABEL
from tests.closed_loop.trial import wait_at_rest
from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.layout import Workload, lay_out, node, replica_set
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.planning.anti_affinity.drawn import Drawn, draw, draw_preferring

CYCLES: Final = 20
"""Cycles in which nothing is evicted any more."""


class Laid:
    """A drawn state in namespaces and on nodes of its own."""

    def __init__(self, drawn: Drawn, name: str) -> None:
        self.drawn = drawn
        self.name = name

    def parts(self) -> Iterator[Manifest | Workload]:
        """Yield its nodes and its workloads."""
        for name, zone in self.drawn.zones.items():
            zone_name = f"{self.name}-{zone}" if zone is not None else ""
            yield node(f"{self.name}-{name}", zone=zone_name, labels={LABEL: self.name})
        for app in {app: None for app, _ in self.drawn.pods}:
            yield replica_set(
                f"{self.name}-{app}",
                [f"{self.name}-{on}" for of, on in self.drawn.pods if of == app],
                namespace=self.namespace(app),
                labels=self.labels(app),
                nodeSelector={LABEL: self.name},
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*self.terms(app)]}},
            )

    def terms(self, app: str) -> Iterator[Manifest]:
        """Yield the terms that the pods of an app declare."""
        for term in self.drawn.terms:
            if term.app == app:
                places: Manifest = {"namespaceSelector": {}} if term.everywhere else {}
                yield {"topologyKey": term.key, "labelSelector": {"matchLabels": self.labels(term.to)}, **places}

    def labels(self, app: str) -> dict[str, str]:
        """Return what marks the pods of an app."""
        return {"app": f"{self.name}-{app}"}

    def namespace(self, app: str) -> str:
        """Return where an app lives."""
        return f"{self.name}-{self.drawn.namespaces[app]}"

    def find_faults(self, evicted: int, placed: Sequence[tuple[str, str]]) -> list[str]:
        """Return what is not as it should be at the end; `placed` are its pods, by app and node, "" for none."""
        drawn = self.drawn
        if any(not on for _, on in placed):
            return [f"{self.name}: a pod is pending: {placed}"]
        if any(term.weight for term in drawn.terms):
            before, after = drawn.weigh(drawn.pods), drawn.weigh(placed)
            gained = after < before if evicted else after == before
            return (
                [] if gained else [f"{self.name}: {evicted} evictions, weight {before} to {after}: {placed}; {drawn}"]
            )
        least = drawn.minimum()
        if least is None:
            return []
        is_safe = drawn.can_be_forced(drawn.pods, least)
        faults = []
        if evicted != (least if is_safe else 0):
            faults.append(f"{self.name}: {evicted} evictions, the least are {least}, safe: {is_safe}; {drawn}")
        if is_safe and drawn.conflicts(placed):
            faults.append(f"{self.name}: not repaired: {placed}")
        return faults


def repair(plane: ControlPlane, folder: Path, laid: Sequence[Laid]) -> list[str]:
    """Lay the states out, let them be repaired, and return what is wrong after cycles without an eviction."""
    lay_out(plane, [part for one in laid for part in one.parts()], timeout=240)
    install(plane, "base", "evict")
    before = plane.audit.mark()
    text = policy(
        "Evict",
        interval="1s",
        budgets={**ALL_AT_ONCE, "slowStart": False},
        eligibility={"minAge": "0s", "minReplicas": 1},
        antiAffinity={"actOn": ["Required", "Preferred"], "for": "0s"},
        groups=[],
    )
    with Controller(plane, folder, text) as controller:
        seen, since = -1, 0
        while len(controller.log("cycle")) - since < CYCLES:
            controller.wait_for("cycle", count=len(controller.log("cycle")) + 1)
            number = len(plane.audit.evictions(user=USER, since=before))
            if number != seen:
                seen, since = number, len(controller.log("cycle"))
        metrics = controller.metrics()
    wait_at_rest(plane)
    granted = [one for one in plane.audit.evictions(user=USER, since=before) if one.code == 201]
    evicted = Counter(one.namespace.rpartition("-")[0] for one in granted)
    ends = {name: value for name, value in metrics.items() if name.startswith("rebalancer_moves_total")}
    wrong = [name for name, value in ends.items() if value and "verified" not in name]
    faults = [f"moves that did not land as predicted: {wrong}"] if wrong else []
    for one in laid:
        faults += one.find_faults(evicted[one.name], placed(plane, one))
    return faults


def placed(plane: ControlPlane, one: Laid) -> list[tuple[str, str]]:
    """Return the pods of a state, by app and node."""
    found: list[tuple[str, str]] = []
    for namespace in sorted({one.namespace(app) for app in one.drawn.namespaces}):
        pods: list[dict[str, Any]] = plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
        found += [
            (pod["metadata"]["labels"]["app"].rpartition("-")[2], pod["spec"].get("nodeName", "").rpartition("-")[2])
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        ]
    return found


def draw_states(required: range, preferring: range) -> list[Laid]:
    """Return drawn states, those that violate what is required and those that only prefer it."""
    return [
        *(Laid(draw(seed), f"aa{seed}") for seed in required),
        *(Laid(draw_preferring(seed), f"ap{seed}") for seed in preferring),
    ]


@pytest.mark.invariant("anti-affinity-repair")
def test_drawn_states_are_repaired_with_the_fewest_evictions(cluster: ControlPlane, tmp_path: Path) -> None:
    """Twelve of them; then nothing is evicted for 20 cycles. Of preferred terms the weight falls."""
    faults = repair(cluster, tmp_path, draw_states(range(8), range(4)))
    assert not faults, "\n".join(faults)


@pytest.mark.thorough
def test_forty_drawn_states_are(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same with forty others that violate what is required, and twenty that only prefer it."""
    faults = repair(cluster, tmp_path, draw_states(range(100, 140), range(100, 120)))
    assert not faults, "\n".join(faults)
