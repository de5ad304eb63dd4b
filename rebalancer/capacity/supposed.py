"""Nodes that an autoscaler might create in a domain, as a planner would see them: empty, and as large as needed.

Problem: what would a new node in zone c look like to pods that run in zones a and b? Idea: like one of their nodes,
with the domain's value, a new name, and the labels and taints of the NodePool. If this leaves a constraint's key
without a value (the rack of a new node in zone c), no node is supposed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import structs

from rebalancer.assessment.known_domains import KnownDomain
from rebalancer.model.affinity import Taint
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Labels, Operator
from rebalancer.model.nodes import HOSTNAME, LEAVING_TAINTS, NODE_POOL, UNSERVICEABLE_TAINTS, Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import is_node_key

_PREFIX: Final = "supposed-"
_LARGE: Final = 10**15
_PODS: Final = 10_000
_TRANSIENT: Final = ("node.kubernetes.io/", "karpenter.sh/", "node.cloudprovider.kubernetes.io/")


def is_supposed(node: str) -> bool:
    """Return whether a node is only supposed."""
    return node.startswith(_PREFIX)


# Many branches: what a new node would look like is left open in several ways.
def suppose_nodes(
    sample: Pod, keys: frozenset[str], key: str, domain: KnownDomain, view: View, number: int
) -> tuple[Node, ...] | None:
    """Return `number` nodes in a domain that take pods such as `sample`; None where these cannot be known.

    `keys` are the topology keys on which they must have a value.
    """
    like = _find_like(sample, key, domain.value, view)
    if like is None or HOSTNAME not in like.labels:
        return None
    labels = _make_labels(like, key, domain, view)
    names = {name for name in keys | {HOSTNAME} if _names_nodes(name, view)}
    inside = like.labels.get(key) == domain.value
    open_keys = (other for other in keys - names - {key} if not inside and not _is_constant(other, view))
    if any(True for _ in open_keys) or not keys <= labels.keys() | names:
        return None
    pool = next((pool for pool in view.snapshot.node_pools if pool.name in domain.pools), None)
    return tuple(
        Node(
            name=name,
            uid=name,
            labels=Labels({**labels, **dict.fromkeys(names, name)}),
            taints=pool.taints if pool is not None else tuple(_lasting_taints(like)),
            allocatable=_enough_for(sample.spec.requests),
            pods=_PODS,
            created=view.snapshot.taken_at,
        )
        for name in (f"{_PREFIX}{domain.value}-{index}" for index in range(number))
    )


def _find_like(sample: Pod, key: str, value: str, view: View) -> Node | None:
    """Return a node that a new one may resemble: in the domain itself, else where pods such as the sample run."""
    owned = view.snapshot.pods_of.get(sample.owner.uid, ()) if sample.owner is not None else ()
    used = sorted({pod.node for pod in owned if pod.node in view.nodes.by_name and not pod.terminating})
    admitted = admissible(sample, view)
    inside = sorted(name for name, carried in view.nodes.values(key).items() if carried == value and name in admitted)
    candidates = [view.nodes.by_name[name] for name in (*inside, *used)]
    return next((node for node in candidates if key in node.labels), None)


def _make_labels(like: Node, key: str, domain: KnownDomain, view: View) -> Mapping[str, str]:
    """Return the labels of a node in the domain; other zone labels follow from its zone."""
    before = like.labels[key]
    labels = {
        name: domain.value if name == key or (carried == before and name.endswith("/zone")) else carried
        for name, carried in like.labels.items()
    }
    pool = next((pool for pool in view.snapshot.node_pools if pool.name in domain.pools), None)
    return labels if pool is None else {**labels, **_labels_of(pool), key: domain.value}


def _labels_of(pool: NodePool) -> Mapping[str, str]:
    fixed = {
        requirement.key: requirement.values[0]
        for requirement in pool.requirements
        if requirement.operator is Operator.IN and len(requirement.values) == 1
    }
    return {**fixed, **pool.labels, NODE_POOL: pool.name}


def _names_nodes(key: str, view: View) -> bool:
    return is_node_key(key, view.nodes.values(key).values(), ())


def _is_constant(key: str, view: View) -> bool:
    return len(set(view.nodes.values(key).values())) == 1


def _lasting_taints(like: Node) -> Iterator[Taint]:
    passing = {*LEAVING_TAINTS, *UNSERVICEABLE_TAINTS, like.leaving}
    return (taint for taint in like.taints if not taint.key.startswith(_TRANSIENT) and taint.key not in passing)


def _enough_for(requests: Resources) -> Resources:
    extended = tuple((name, _LARGE) for name, _ in requests.extended)
    return structs.replace(requests, cpu=_LARGE, memory=_LARGE, ephemeral_storage=_LARGE, extended=extended)
