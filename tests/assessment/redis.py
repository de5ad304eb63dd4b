"""Redis clusters as the NetEase example has them: a StatefulSet of two for each shard, in one, two or three zones."""

from collections.abc import Mapping, Sequence
from typing import Any

from rebalancer.model.affinity import NodeAffinity, PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from tests.scheduling.build import NOW, node, spread, term

AZ = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
CLUSTER = "cloud.netease.com/cluster-name"
SHARD = "cloud.netease.com.ncr/ncrnode"
COMMON = {"cloud.netease.com/app": "ncr", "cloud.netease.com.ncr/type": "endpoints"}


def machines(zones: str, per_zone: int) -> list[Node]:
    """Return so many nodes for each zone: `a1`, `a2`, `b1` and so on."""
    return [node(f"{zone}{number}", {AZ: zone}) for zone in zones for number in range(1, per_zone + 1)]


def redis(
    nodes: Sequence[Node],
    shards: Sequence[Sequence[str | None]],
    *,
    cluster: str = "one",
    skews: Mapping[str, int] | None = None,
    apart: str | None = None,
    zones: Sequence[str] = (),
    replicas: int = 2,
    roles: bool = True,
    first: int = 0,
    **spread_options: Any,
) -> Snapshot:
    """Return a cluster of shards, each with the nodes of its pods (None: waiting).

    `skews` are hard constraints over all its pods, `apart` the key of the shards' anti-affinity, `zones` those that
    the pods' required affinity names, `first` numbers the shards, `spread_options` are the constraints'.
    """
    everyone = {**COMMON, CLUSTER: cluster}
    pods: list[Pod] = []
    owners: list[Workload] = []
    for number, places in enumerate(shards, first):
        labels = {**everyone, SHARD: f"{cluster}-{number}"}
        anti = PodAffinityTerm(topology_key=apart, selector=LabelSelector.of(labels)) if apart else None
        spec = PodSpec(
            spread=tuple(
                spread(key, skew, selects=LabelSelector.of(everyone), **spread_options)
                for key, skew in (skews or {}).items()
            ),
            pod_affinity=PodAffinity(anti_required=(anti,)) if anti else PodAffinity(),
            node_affinity=NodeAffinity(required=(term((AZ, "In", tuple(zones))),)) if zones else NodeAffinity(),
        )
        owner = Workload(
            group="apps",
            kind="StatefulSet",
            namespace="cache",
            name=f"{cluster}-{number}",
            uid=f"uid-{cluster}-{number}",
            selector=LabelSelector.of(labels),
            template=PodTemplate(labels=Labels(labels), spec=spec),
            replicas=replicas,
            current=len(places),
            updated=len(places),
            ready=len(places),
            created=NOW,
        )
        owners.append(owner)
        for index, place in enumerate(places):
            role = {"redis-role": "slave" if index else "master"} if roles else {}
            pods.append(
                Pod(
                    namespace="cache",
                    name=f"{owner.name}-{index}",
                    uid=f"uid-{owner.name}-{index}",
                    labels=Labels({**labels, **role}),
                    spec=spec,
                    node=place,
                    phase=PodPhase.RUNNING if place else PodPhase.PENDING,
                    ready=place is not None,
                    created=NOW,
                    owner=OwnerReference(group="apps", kind="StatefulSet", name=owner.name, uid=owner.uid),
                )
            )
    return Snapshot(taken_at=NOW, nodes=tuple(nodes), pods=tuple(pods), workloads=tuple(owners))
