"""Simulated clusters and questions to them, for these tests."""

from collections.abc import Callable
from typing import Any

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.moves import Move
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster, Span, Timings, TraceKind
from tests.build import a_cluster
from tests.tracking import build as moves

EVERYWHERE = {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2)}
BOTH = {ZONE: 1, HOSTNAME: 1}

PROMPT = Timings(
    starting=Span(1, 1), stopping=Span(2, 2), reconciling=Span(0.1, 0.1), counting=Span(0.5, 0.5), collecting=40
)
"""The same delays every time, so that a test can say when something has happened."""


def cluster(describe: Callable[[ClusterBuilder], Any], **options: Any) -> SimulatedCluster:
    """Three zones of two nodes with what `describe` adds to them."""
    builder = a_cluster("abc", 2)
    describe(builder)
    return SimulatedCluster(builder.snapshot(), **{"timings": PROMPT, **options})


def web(builder: ClusterBuilder) -> None:
    builder.deployment("web", on=EVERYWHERE, spread=BOTH)
    builder.budget("web", max_unavailable=2)


def pods(simulated: SimulatedCluster) -> dict[str, Pod]:
    return {pod.name: pod for pod in simulated.snapshot(simulated.now).pods}


def workload(simulated: SimulatedCluster, kind: str) -> Workload:
    return next(workload for workload in simulated.snapshot(simulated.now).workloads if workload.kind == kind)


def budget(simulated: SimulatedCluster) -> DisruptionBudget:
    return simulated.snapshot(simulated.now).budgets[0]


def move(pod: Pod, uid: str = "") -> Move:
    owner = pod.owner.uid if pod.owner else ""
    return moves.move(
        uid or pod.uid, pod.created, namespace=pod.namespace, pod=pod.name, node=pod.node or "", owner_uid=owner
    )


def happened(simulated: SimulatedCluster, what: TraceKind) -> list[str]:
    return [entry.object.removeprefix("Pod default/") for entry in simulated.trace if entry.kind is what]


def spread_of(simulated: SimulatedCluster, app: str, key: str) -> dict[str, int]:
    """Count the pods of an app that are not terminating, by a label of their nodes."""
    snapshot = simulated.snapshot(simulated.now)
    counts = {node.labels[key]: 0 for node in snapshot.nodes}
    for pod in snapshot.pods:
        node = snapshot.node.get(pod.node or "")
        if pod.labels.get("app") == app and not pod.terminating and node is not None:
            counts[node.labels[key]] += 1
    return counts
