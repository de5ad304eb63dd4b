"""Large clusters for the scheduling benchmarks: workloads of 30 pods with a zone and a host name constraint each."""

from random import Random

from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from tests.scheduling.build import HOSTNAME, NOW, ZONE

REPLICAS = 30
NAMESPACES = 100


def large(nodes: int, workloads: int) -> tuple[Snapshot, list[Pod]]:
    """Return a cluster, and one pod of each workload."""
    random = Random(1)
    allocatable = Resources(cpu=64_000, memory=2**38)
    made = [
        Node(
            name=f"n{number}",
            labels=Labels({HOSTNAME: f"n{number}", ZONE: f"z{number % 3}"}),
            allocatable=allocatable,
            created=NOW,
        )
        for number in range(nodes)
    ]
    pods: list[Pod] = []
    for number in range(workloads):
        labels = Labels({"app": f"w{number}", "team": f"t{number % 20}", "pod-template-hash": f"h{number}"})
        spec = PodSpec(
            spread=tuple(_hard(key, LabelSelector.of({"app": f"w{number}"})) for key in (ZONE, HOSTNAME)),
            requests=Resources(cpu=100, memory=2**27),
            scored=(100, 2**27),
        )
        pods += [
            Pod(
                namespace=f"ns{number % NAMESPACES}",
                name=f"w{number}-{replica}",
                uid=f"w{number}-{replica}",
                labels=labels,
                spec=spec,
                requests=spec.requests,
                scored=spec.scored,
                node=f"n{random.randrange(nodes)}",
                phase=PodPhase.RUNNING,
                created=NOW,
            )
            for replica in range(REPLICAS)
        ]
    return Snapshot(taken_at=NOW, nodes=made, pods=pods), pods[::REPLICAS]


def _hard(key: str, selector: LabelSelector) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=key, max_skew=1, when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE, selector=selector
    )
