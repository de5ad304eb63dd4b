"""What most tests begin with: a cluster, a policy, the state of a leader."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rebalancer.controller.loop import step
from rebalancer.controller.state import InForce, Leading, LoopState
from rebalancer.policy import Policy, load_policy
from rebalancer.simulator import ClusterBuilder

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"


def a_cluster(
    zones: str,
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


def a_policy(text: str = "") -> Policy:
    """Read a policy from its fields in YAML."""
    return load_policy((HEAD + text).encode(), source="policy.yaml")


def a_state(policy: Policy, at: datetime, since: datetime | None = None, **parts: Any) -> LoopState:
    """Return the state of a process that leads from a time on; the policy is in force since then, or since another."""
    first = LoopState(in_force=InForce(policy=policy, policy_since=since or at), **parts)
    return step(first, Leading(leads=True), at)[0]
