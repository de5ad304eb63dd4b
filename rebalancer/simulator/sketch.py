"""A small cluster as a scenario describes it: nodes by zone, and workloads with their pods by node."""

from functools import partial
from typing import Literal

import msgspec

from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import START, ClusterBuilder


class _Budget(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A PodDisruptionBudget that has the workload's name."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class _Workload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A workload: `pods` are its running pods by node; the simulation creates the missing `replicas`.

    `spread` is maxSkew by key. `shard_of` names the cluster of shards that a StatefulSet belongs to. Its constraints
    then count the pods of all shards of that cluster, and no zone admits two pods of the same shard.
    """

    kind: Literal["Deployment", "StatefulSet"]
    name: str
    namespace: str = "default"
    pods: dict[str, int] = {}
    replicas: int | None = None
    spread: dict[str, int] = {}
    shard_of: str = ""
    budget: _Budget | None = None


class _Sketch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster: the workloads, and how many nodes each zone has. Nodes are named a-1, a-2 and so on."""

    zones: dict[str, int]
    workloads: tuple[_Workload, ...] = ()


def build_cluster(written: object) -> Snapshot:
    """Return the cluster; ValueError names the path of the first problem."""
    sketch = msgspec.convert(written, _Sketch)
    blueprint = ClusterBuilder(START)
    for zone, number in sketch.zones.items():
        blueprint.zones([zone], nodes=number)
    for workload in sketch.workloads:
        add = blueprint.deployment if workload.kind == "Deployment" else blueprint.stateful_set
        if workload.shard_of:
            add = partial(blueprint.stateful_set, cluster=workload.shard_of)
        add(
            workload.name,
            namespace=workload.namespace,
            on=workload.pods,
            replicas=workload.replicas,
            spread=workload.spread,
        )
        if workload.budget is not None:
            blueprint.budget(
                workload.name,
                namespace=workload.namespace,
                min_available=workload.budget.min_available,
                max_unavailable=workload.budget.max_unavailable,
            )
    return blueprint.snapshot()
