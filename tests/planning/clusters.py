"""Clusters of one workload for tests of whole plans, and ways to change them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.model.workloads import Workload
from rebalancer.planning.plan import Plan
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Amount, Budgets, Policy
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, a_layout, change_specs
from tests.controller.simulated import eager
from tests.planning import build

GENEROUS = Budgets(max_unavailable=Amount(value=100), per_workload=Amount(value=100))


def policy(**changes: Any) -> Policy:
    return eager(**{"budgets": GENEROUS, **changes})


def returned(**fields: Any) -> Snapshot:
    """Twelve pods on two of three zones of two nodes."""
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    return a_cluster("abc", 2, on, spread={ZONE: 1, HOSTNAME: 1}, namespace="shop", **fields).snapshot()


def planned(
    snapshot: Snapshot, rules: Policy | None = None, memory: Memory = NO_MEMORY, limits: SearchLimits | None = None
) -> Plan:
    return build.planned(snapshot, rules or policy(), memory, limits)


def pods(snapshot: Snapshot, change: Callable[[Pod], Pod]) -> Snapshot:
    return replace(snapshot, pods=tuple(change(pod) for pod in snapshot.pods))


def nodes(snapshot: Snapshot, change: Callable[[Node], Node]) -> Snapshot:
    return replace(snapshot, nodes=tuple(change(node) for node in snapshot.nodes))


def owners(snapshot: Snapshot, change: Callable[[Workload], Workload]) -> Snapshot:
    return replace(snapshot, workloads=tuple(change(owner) for owner in snapshot.workloads))


def evicted(plan: Plan) -> list[str]:
    return [eviction.pod.name for eviction in plan.fates.going]


def database(on: dict[str, int] | None = None, **fields: Any) -> Snapshot:
    """Return a StatefulSet with the pods db-0, db-1, db-2 in zone a and db-3 in b; zone c has come back.

    The fields are the owner's.
    """
    made = a_cluster(
        "abc", 1, on or {"a-1": 3, "b-1": 1}, name="db", stateful=True, spread={ZONE: 1}, namespace="shop"
    ).snapshot()
    return owners(made, lambda owner: structs.replace(owner, **fields))


def sharing(snapshot: Snapshot) -> Snapshot:
    """Put all workloads under one spread selector, in their templates too."""
    selector = LabelSelector.of({"both": "yes"})

    def shared(_: str, spec: PodSpec) -> PodSpec:
        spread = tuple(structs.replace(constraint, selector=selector) for constraint in spec.spread)
        return structs.replace(spec, spread=spread)

    return change_specs(snapshot, shared, both="yes")


def budgeted(**fields: Any) -> Snapshot:
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    blueprint = a_cluster("abc", 2, on, spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("web", **fields)
    return blueprint.snapshot()


def spread_by(snapshot: Snapshot, change: Callable[[SpreadConstraint], SpreadConstraint]) -> Snapshot:
    """Change the constraints of all pods."""

    def changed(pod: Pod) -> Pod:
        spread = tuple(change(constraint) for constraint in pod.spec.spread)
        return structs.replace(pod, spec=structs.replace(pod.spec, spread=spread))

    return pods(snapshot, changed)


def hostname_only(**fields: Any) -> Callable[[SpreadConstraint], SpreadConstraint]:
    return lambda constraint: (
        structs.replace(constraint, **fields) if constraint.topology_key == HOSTNAME else constraint
    )


def laid_out(counts: dict[str, list[int]], waiting: int, zone: int, host: int) -> Snapshot:
    """Put one Deployment on zones of nodes that hold so many pods, and let so many wait for a node."""
    blueprint, on = a_layout(counts.values(), counts)
    blueprint.deployment("web", on=on, replicas=sum(on.values()) + waiting, spread={ZONE: zone, HOSTNAME: host})
    return owners(
        blueprint.snapshot(),
        lambda owner: structs.replace(owner, current=owner.replicas, updated=owner.replicas, observed=True),
    )


REGION = "topology.kubernetes.io/region"


def regions() -> ClusterBuilder:
    """Two regions of two zones of two nodes."""
    blueprint = ClusterBuilder()
    for zone in "abcd":
        for number in (1, 2):
            labels: dict[str, Any] = {REGION: "west" if zone in "ab" else "east"}
            blueprint.node(f"{zone}-{number}", zone=zone, **labels)
    return blueprint


def stateful(reach: dict[str, str]) -> Snapshot:
    """Put a StatefulSet of four on two of three zones, each pod with a volume that reaches the zones named for it."""
    snapshot = a_cluster(
        "abc", 2, {"a-1": 1, "a-2": 1, "b-1": 1, "b-2": 1}, name="db", stateful=True, spread={ZONE: 1}, namespace="shop"
    ).snapshot()
    volumes, claims = [], []
    for pod in snapshot.pods:
        zones = tuple(sorted(reach.get(pod.name, "abc")))
        term = NodeSelectorTerm((SelectorRequirement(ZONE, Operator.IN, zones),))
        volumes.append(
            PersistentVolume(name=f"v-{pod.name}", node_affinity=(term,), claim=("shop", f"data-{pod.name}"))
        )
        claims.append(
            PersistentVolumeClaim(namespace="shop", name=f"data-{pod.name}", volume=f"v-{pod.name}", bound=True)
        )
    with_claims = pods(snapshot, lambda pod: structs.replace(pod, claims=(f"data-{pod.name}",)))
    return replace(with_claims, volumes=tuple(volumes), claims=tuple(claims))
