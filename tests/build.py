"""What most tests begin with: a cluster, a policy, the state of a leader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from msgspec import structs

from rebalancer.controller.loop import step
from rebalancer.controller.state import InForce, Leading, LoopState
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod, PodPhase, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Goes
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy, load_policy
from rebalancer.simulator import ClusterBuilder

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"


def a_cluster(
    zones: Iterable[str],
    nodes: int = 1,
    on: Mapping[str, int] | None = None,
    *,
    name: str = "web",
    stateful: bool = False,
    **fields: Any,
) -> ClusterBuilder:
    """Return zones of `nodes` nodes each (`a-1`, `a-2`, …), and a workload if it is placed or has other fields."""
    builder = ClusterBuilder()
    builder.zones(zones, nodes)
    if on is not None or fields:
        add = builder.stateful_set if stateful else builder.deployment
        add(name, on=on, **fields)
    return builder


def a_layout(counts: Iterable[Sequence[int]], zones: Iterable[str] = "abc") -> tuple[ClusterBuilder, dict[str, int]]:
    """Return zones with a node for each count, and how many pods each node is to hold."""
    builder, on = ClusterBuilder(), dict[str, int]()
    for zone, nodes in zip(zones, counts, strict=False):
        builder.zones([zone], len(nodes))
        on.update({f"{zone}-{number}": held for number, held in enumerate(nodes, start=1) if held})
    return builder, on


def with_nodes(snapshot: Snapshot, fields: Mapping[str, Mapping[str, Any]]) -> Snapshot:
    """Return the cluster with other fields of some nodes, by their names."""
    assert fields.keys() <= snapshot.node.keys()
    return replace(snapshot, nodes=tuple(structs.replace(one, **fields.get(one.name, {})) for one in snapshot.nodes))


def with_node(snapshot: Snapshot, name: str, **fields: Any) -> Snapshot:
    """Return the cluster with other fields of a node."""
    return with_nodes(snapshot, {name: fields})


def with_cpu(snapshot: Snapshot, cpu: int, *names: str) -> Snapshot:
    """Return the cluster in which so much CPU can be allocated on each of these nodes, in thousandths of a core."""
    allocatable = {name: structs.replace(snapshot.node[name].allocatable, cpu=cpu) for name in names}
    return with_nodes(snapshot, {name: {"allocatable": resources} for name, resources in allocatable.items()})


def with_owners(snapshot: Snapshot, *names: str, **fields: Any) -> Snapshot:
    """Return the cluster with other fields of the owners of these names."""
    assert {*names} <= {owner.name for owner in snapshot.workloads}
    owners = (structs.replace(one, **fields) if one.name in names else one for one in snapshot.workloads)
    return replace(snapshot, workloads=tuple(owners))


Made = TypeVar("Made", Pod, PodTemplate)


def change_specs(snapshot: Snapshot, change: Callable[[str, PodSpec], PodSpec], **labels: str) -> Snapshot:
    """Change the specs of all pods and templates, by their label `app`, and add labels."""

    def changed(made: Made) -> Made:
        spec = change(made.labels["app"], made.spec)
        return structs.replace(made, spec=spec, labels=Labels({**made.labels, **labels}))

    owners = (
        owner if owner.template is None else structs.replace(owner, template=changed(owner.template))
        for owner in snapshot.workloads
    )
    return replace(snapshot, pods=tuple(map(changed, snapshot.pods)), workloads=tuple(owners))


def away_from(app: str, key: str = HOSTNAME, **fields: Any) -> PodAffinityTerm:
    """Return a term that selects the pods of an app."""
    return PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": app}), **fields)


def with_anti_affinity(snapshot: Snapshot, terms: Mapping[str, Sequence[PodAffinityTerm]]) -> Snapshot:
    """Return the cluster in which pods and templates declare required anti-affinity, by their label `app`."""

    def declare(app: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, pod_affinity=PodAffinity(anti_required=tuple(terms.get(app, ()))))

    return change_specs(snapshot, declare)


def without_node(pod: Pod, name: str = "", **fields: Any) -> Pod:
    """Return the pod as one that waits for a node; with a name it is another one, of this UID too."""
    named = {"name": name, "uid": name} if name else {}
    return structs.replace(pod, **{"node": None, "ready": False, "phase": PodPhase.PENDING, **named, **fields})


def with_labels(snapshot: Snapshot, **labels: str) -> Snapshot:
    """Return the cluster with more labels of all pods and templates."""
    return change_specs(snapshot, lambda _, spec: spec, **labels)


def a_policy(text: str = "") -> Policy:
    """Read a policy from its fields in YAML."""
    return load_policy((HEAD + text).encode(), source="policy.yaml")


def a_state(policy: Policy, at: datetime, since: datetime | None = None, **parts: Any) -> LoopState:
    """Return the state of a process that leads from a time on; the policy is in force since then, or since another."""
    first = LoopState(in_force=InForce(policy=policy, policy_since=since or at), **parts)
    return step(first, Leading(leads=True), at)[0]


def with_evictions(plan: Plan, evictions: Iterable[Eviction]) -> Plan:
    """Return a plan of which these evictions may go, and nothing else is decided."""
    return structs.replace(plan, fates=Fates(tuple(map(Goes, evictions))))
