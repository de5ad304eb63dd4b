"""Pods, nodes and snapshots in a line each, for tests that need no JSON."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm, Taint, TaintEffect
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY = Resources(cpu=64_000, memory=2**38, ephemeral_storage=2**38)
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
_serial = count()


def selector(written: Mapping[str, Any] | None = None, **match_labels: str) -> LabelSelector | None:
    """Read a selector as the API writes it, or from keyword labels; None for the null selector."""
    if written is None:
        return LabelSelector.of(match_labels) if match_labels else None
    expressions = [
        SelectorRequirement(expression["key"], Operator(expression["operator"]), tuple(expression.get("values") or ()))
        for expression in written.get("matchExpressions", ())
    ]
    return LabelSelector.of(written.get("matchLabels", {}), expressions)


def spread(
    key: str = ZONE,
    max_skew: int = 1,
    *,
    soft: bool = False,
    selects: LabelSelector | None = None,
    min_domains: int | None = None,
    affinity: str = "Honor",
    taints: str = "Ignore",
    keys: tuple[str, ...] = (),
) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=key,
        max_skew=max_skew,
        when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY if soft else WhenUnsatisfiable.DO_NOT_SCHEDULE,
        selector=selects,
        min_domains=min_domains,
        node_affinity_policy=InclusionPolicy(affinity),
        node_taints_policy=InclusionPolicy(taints),
        match_label_keys=keys,
    )


def node(name: str, labels: Mapping[str, str] | None = None, **fields: Any) -> Node:
    defaults: dict[str, Any] = {"allocatable": PLENTY, "created": NOW}
    return Node(name=name, labels=Labels({HOSTNAME: name, **(labels or {})}), **{**defaults, **fields})


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Taint:
    return Taint(key=key, effect=TaintEffect(effect), value=value)


def term(*expressions: tuple[str, str, tuple[str, ...]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(SelectorRequirement(key, Operator(operator), values) for key, operator, values in expressions)
    )


def pod(
    labels: Mapping[str, str] | None = None,
    on: str | None = None,
    *,
    spec: PodSpec | None = None,
    namespace: str = "default",
    **fields: Any,
) -> Pod:
    name = fields.pop("name", f"p{next(_serial)}")
    phase = fields.pop("phase", PodPhase.PENDING if on is None else PodPhase.RUNNING)
    made = spec or PodSpec()
    return Pod(
        namespace=namespace,
        name=name,
        uid=fields.pop("uid", f"{namespace}/{name}"),
        labels=Labels(labels or {}),
        spec=made,
        node=on,
        phase=phase,
        created=fields.pop("created", NOW),
        requests=fields.pop("requests", made.requests),
        scored=fields.pop("scored", made.scored),
        **fields,
    )


def snapshot(nodes: Iterable[Node], pods: Iterable[Pod] = (), **fields: Any) -> Snapshot:
    return Snapshot(taken_at=NOW, nodes=tuple(nodes), pods=tuple(pods), **fields)


def changed(made: Pod, **fields: Any) -> Pod:
    """Return the pod with other fields."""
    return structs.replace(made, **fields)
