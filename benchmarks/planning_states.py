"""Large clusters for the planning benchmarks: a zone that came back, with every workload in the other two."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

from msgspec import structs

from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.simulator import ClusterBuilder
from tests.scheduling.build import HOSTNAME, NOW, ZONE

LONG_AGO = NOW - timedelta(days=1)


def zone_returned(
    nodes: int,
    workloads: int,
    replicas: int = 30,
    *,
    zones: int = 3,
    filled: int = 2,
    zone_skew: int = 1,
    host_skew: int = 1,
    full: bool = False,
) -> Snapshot:
    """Return a cluster with the pods of each workload spread over the first `filled` of the zones.

    With `full` the nodes of the last zone have no capacity left.
    """
    random = Random(1)
    allocatable = Resources(cpu=64_000, memory=2**38)
    made = [
        Node(
            name=f"n{number:05}",
            labels=Labels({HOSTNAME: f"n{number:05}", ZONE: f"z{number % zones}"}),
            allocatable=allocatable,
            pods=0 if full and number % zones == zones - 1 else 250,
            created=LONG_AGO,
            ready=True,
            ready_since=LONG_AGO,
        )
        for number in range(nodes)
    ]
    held = [[node.name for node in made if node.labels[ZONE] == f"z{zone}"] for zone in range(filled)]
    pods: list[Pod] = []
    owners: list[Workload] = []
    for number in range(workloads):
        name = f"w{number:05}"
        labels = Labels({"app": name, "pod-template-hash": f"h{number}"})
        spec = PodSpec(
            spread=tuple(
                SpreadConstraint(
                    topology_key=key,
                    max_skew=skew,
                    when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
                    selector=LabelSelector.of({"app": name}),
                )
                for key, skew in ((ZONE, zone_skew), (HOSTNAME, host_skew))
            ),
            requests=Resources(cpu=100, memory=2**27),
            scored=(100, 2**27),
        )
        namespace = f"ns{number % 100}"
        owner = OwnerReference(group="apps", kind="ReplicaSet", name=name, uid=f"rs-{name}")
        owners.append(
            Workload(
                group="apps",
                kind="ReplicaSet",
                namespace=namespace,
                name=name,
                uid=owner.uid,
                replicas=replicas,
                current=replicas,
                updated=replicas,
                created=LONG_AGO,
                observed=True,
                template=PodTemplate(labels=labels, spec=spec, requests=spec.requests),
            )
        )
        chosen = [random.sample(each, -(-replicas // filled)) if replicas <= len(each) else each for each in held]
        for replica in range(replicas):
            nodes_of = chosen[replica % filled]
            pods.append(
                Pod(
                    namespace=namespace,
                    name=f"{name}-{replica}",
                    uid=f"{name}-{replica}",
                    labels=labels,
                    spec=spec,
                    requests=spec.requests,
                    scored=spec.scored,
                    node=nodes_of[(replica // filled) % len(nodes_of)],
                    phase=PodPhase.RUNNING,
                    ready=True,
                    ready_since=LONG_AGO,
                    created=LONG_AGO,
                    owner=owner,
                )
            )
    return Snapshot(taken_at=NOW, nodes=made, pods=pods, workloads=owners)


def uneven(workloads: int) -> Snapshot:
    """Return workloads of nine to fourteen pods that stand anyhow on zones of two, three and four nodes.

    So few nodes, and zones of different sizes: nothing is certain without searching the scheduler's ways.
    """
    random = Random(2)
    blueprint = ClusterBuilder()
    nodes = [f"{zone}-{number}" for zone, many in (("a", 2), ("b", 3), ("c", 4)) for number in range(many)]
    for name in nodes:
        blueprint.node(name, zone=name[0])
    for number in range(workloads):
        on = Counter(random.choices(nodes, k=random.randint(9, 14)))
        blueprint.deployment(f"w{number:04}", on=on, spread={ZONE: 1, HOSTNAME: 1}, cpu=1)
    snapshot = blueprint.snapshot()
    return replace(snapshot, nodes=tuple(structs.replace(node, pods=10_000) for node in snapshot.nodes))
