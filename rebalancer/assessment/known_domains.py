"""Domains that exist although no node carries them, and how that is known.

kube-scheduler knows a domain by its nodes. Where an autoscaler removes the last node of a zone, the zone is gone from
every count. Three sources show more: the policy declares the domain, a NodePool would create nodes in it, or the memory
saw it recently. Example: nodes in zones a and b, and NodePool general requires a zone In [a, b, c]. Then zone c is
known, for every pod that may use a node which general creates there.

A node of a pool may have any labels that satisfy the pool's requirements. Whether one of these nodes satisfies a pod,
too, is decided label by label, because no requirement relates two labels.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple, Self

from msgspec import Struct

from rebalancer.model.affinity import NodeSelectorTerm, Toleration
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.moments import Clock
from rebalancer.model.moves import PlanningMemory, ZoneSeen
from rebalancer.model.nodes import HOSTNAME, NODE_POOL
from rebalancer.model.pods import Pod
from rebalancer.policy import Policy
from rebalancer.scheduling.node_index import REPELLING, RequiredAffinity, required_part, tolerates
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import find_zone_keys, is_node_key

_PROVIDED_BY: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "amazonaws.com", "azure.com", "google.com")
"""Domains of label keys that Kubernetes, Karpenter and clouds set on nodes, whether or not a NodePool has them."""

_NEW: Final = "\0"
"""A label value that nobody names."""


class DomainSource(StrEnum):
    """How a domain without nodes is known, the best evidence first."""

    DECLARED = "declared"
    NODE_POOL = "NodePool"
    REMEMBERED = "remembered"


_RANK: Final = {source: rank for rank, source in enumerate(DomainSource)}


class KnownDomain(Struct, frozen=True, gc=False, kw_only=True, order=True):
    """A domain that no node carries. `pools` are the NodePools that name it; `last_seen` is when it last had a node."""

    value: str
    source: DomainSource
    pools: tuple[str, ...] = ()
    last_seen: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether limits count it; a domain that is only remembered may be gone permanently."""
        return self.source is not DomainSource.REMEMBERED


class NodeNeeds(NamedTuple):
    """What a pod requires of the labels and the taints of its node."""

    affinity: RequiredAffinity | None
    tolerations: tuple[Toleration, ...]

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """Return the needs of a pod."""
        return cls(required_part(pod.spec.node_affinity), pod.spec.tolerations)


class DomainKnowledge(Struct, frozen=True, gc=False, kw_only=True):
    """What is known of domains besides the nodes.

    `declared` and `ignored` are the policy's, by topology key. `seen` are domains of the memory, which matter for
    `remember`, measured by `clock`. `zone_keys` are keys of zones, even if each zone has a single node.
    """

    declared: Mapping[str, Collection[str]] = {}
    ignored: Mapping[str, Collection[str]] = {}
    pools: Sequence[NodePool] = ()
    seen: Sequence[ZoneSeen] = ()
    remember: timedelta = timedelta(0)
    zone_keys: frozenset[str] = frozenset()
    clock: Clock

    @property
    def knows_more(self) -> bool:
        """Whether another source than the memory may know a domain that limits have to count."""
        return bool(self.declared or self.pools)

    @classmethod
    def of(cls, view: View, policy: Policy, memory: PlanningMemory) -> Self:
        """Gather what policy, snapshot and memory know."""
        return cls(
            declared=policy.topology.domains,
            ignored=policy.topology.ignore,
            pools=[pool for pool in view.snapshot.node_pools if not pool.deleted],
            seen=memory.zones,
            remember=policy.topology.remember,
            zone_keys=find_zone_keys(policy),
            clock=view.clock,
        )

    def domains_without_nodes(
        self, key: str, needs: NodeNeeds, carried: Collection[str], present: Collection[str]
    ) -> tuple[KnownDomain, ...]:
        """Return the domains of a key that a pod could use if they had nodes, by value.

        `carried` has the value of each node that has the label. `present` are the domains that count for the pod
        already. A NodePool can give a domain a node that counts, even if the domain has other nodes.
        """
        if is_node_key(key, carried, self.zone_keys):
            return ()
        known: dict[str, KnownDomain] = {}
        for domain in chain(self._remembered(key), self._pooled(key, needs), self._declared(key)):  # the best last
            usable = domain.source is DomainSource.NODE_POOL or _may_use(
                needs.affinity, _FixedLabels({key: domain.value})
            )
            missing = domain.value not in (present if domain.source is DomainSource.NODE_POOL else carried)
            if usable and missing and domain.value not in self.ignored.get(key, ()):
                known[domain.value] = domain
        return tuple(known[value] for value in sorted(known))

    def requestable(self, key: str, needs: NodeNeeds, carried: Collection[str]) -> Mapping[str, KnownDomain]:
        """Return the domains of a key, with or without nodes, in which an autoscaler may create a node for a pod.

        If NodePools name domains, only these are returned, because a domain that they no longer name must not get
        nodes.
        """
        if is_node_key(key, carried, self.zone_keys):
            return {}
        pooled = {domain.value: domain for domain in self._pooled(key, needs)}
        declared = {
            domain.value: domain
            for domain in self._declared(key)
            if _may_use(needs.affinity, _FixedLabels({key: domain.value}))
        }
        ignored = self.ignored.get(key, ())
        return {value: domain for value, domain in (pooled or declared).items() if value not in ignored}

    def _declared(self, key: str) -> Iterator[KnownDomain]:
        return (KnownDomain(value=value, source=DomainSource.DECLARED) for value in self.declared.get(key, ()))

    def _remembered(self, key: str) -> Iterator[KnownDomain]:
        return (
            KnownDomain(value=zone.zone, source=DomainSource.REMEMBERED, last_seen=zone.last)
            for zone in self.seen
            if zone.key == key and not self.clock.has_lasted(zone.last, self.remember)
        )

    def _pooled(self, key: str, needs: NodeNeeds) -> Iterator[KnownDomain]:
        pools: dict[str, list[str]] = {}
        for pool in self.pools:
            repelled = any(
                taint.effect in REPELLING and not tolerates(needs.tolerations, taint) for taint in pool.taints
            )
            if not repelled and _creates_nodes(pool):
                for value in _named_values(pool, key):
                    if _may_use(needs.affinity, _PoolLabels(pool, {key: value})):
                        pools.setdefault(value, []).append(pool.name)
        return (
            KnownDomain(value=value, source=DomainSource.NODE_POOL, pools=tuple(sorted(names)))
            for value, names in pools.items()
        )


def _creates_nodes(pool: NodePool) -> bool:
    """Return whether a pool's requirements do not contradict each other."""
    keys = {requirement.key for requirement in pool.requirements} - pool.labels.keys()
    return all(_PoolLabels(pool, {}).allows(key, ()) for key in keys)


def _named_values(pool: NodePool, key: str) -> Iterator[str]:
    """Yield the values of a key that a pool names with `In` and that its other requirements allow."""
    requirements = [requirement for requirement in pool.requirements if requirement.key == key]
    named = {
        value for requirement in requirements if requirement.operator is Operator.IN for value in requirement.values
    }
    for value in sorted(named):
        fixed = pool.labels.get(key, value) == value
        if fixed and all(requirement.matches({key: value}) for requirement in requirements):
            yield value


def known_for(
    knowledge: DomainKnowledge, key: str, pods: frozenset[NodeNeeds], view: View, present: Collection[str]
) -> Mapping[str, KnownDomain]:
    """Return the domains without nodes that any of several pods could use, with the best evidence for each."""
    best: dict[str, KnownDomain] = {}
    for needs in sorted(pods, key=repr) if len(pods) > 1 else pods:
        for domain in knowledge.domains_without_nodes(key, needs, view.nodes.values(key).values(), present):
            known = best.get(domain.value)
            if known is None or _RANK[domain.source] < _RANK[known.source]:
                best[domain.value] = domain
    return best


# Whether a pod may use a node with only some known labels


class _FixedLabels:
    """A node of which only some labels are known."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def allows(self, key: str, requirements: Sequence[SelectorRequirement]) -> bool:
        """Return whether the label can satisfy all requirements on its key."""
        if key in self._labels:
            return all(requirement.matches(self._labels) for requirement in requirements)
        return _is_satisfiable(key, requirements)


class _PoolLabels:
    """A future node of a pool, with some known labels besides the pool's own."""

    def __init__(self, pool: NodePool, labels: Mapping[str, str]) -> None:
        self._labels = {**pool.labels, NODE_POOL: pool.name, HOSTNAME: _NEW, **labels}
        self._pool = pool

    def allows(self, key: str, requirements: Sequence[SelectorRequirement]) -> bool:
        """Return whether the label can satisfy all requirements on its key, the pool's included."""
        if key in self._labels:
            return all(requirement.matches(self._labels) for requirement in requirements)
        own = [requirement for requirement in self._pool.requirements if requirement.key == key]
        if not own and not _is_provided(key):
            return all(requirement.matches({}) for requirement in requirements)
        return _is_satisfiable(key, [*own, *requirements])


def _is_provided(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return prefix.startswith("karpenter.") or any(
        prefix == domain or prefix.endswith(f".{domain}") for domain in _PROVIDED_BY
    )


def _may_use(affinity: RequiredAffinity | None, node: _FixedLabels | _PoolLabels) -> bool:
    """Return whether a node can have labels that satisfy `nodeSelector` and one of the required terms."""
    if affinity is None:
        return True
    selected = [SelectorRequirement(key, Operator.IN, (value,)) for key, value in affinity.selector.items()]
    if affinity.required is None:
        return _allows_all(node, selected)
    return any(
        _admits_new_node(term) and _allows_all(node, [*selected, *term.expressions]) for term in affinity.required
    )


def may_use_domain(pod: Pod, key: str, value: str) -> bool:
    """Return whether a pod's node selector and affinity admit a node of a domain, whatever its other labels are."""
    return _may_use(required_part(pod.spec.node_affinity), _FixedLabels({key: value}))


def _admits_new_node(term: NodeSelectorTerm) -> bool:
    """Return whether a term selects anything, and no node by its name: a new node has a name of its own."""
    return bool(term.expressions or term.fields) and all(field.operator is Operator.NOT_IN for field in term.fields)


def _allows_all(node: _FixedLabels | _PoolLabels, requirements: Iterable[SelectorRequirement]) -> bool:
    by_key: dict[str, list[SelectorRequirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(node.allows(key, of_key) for key, of_key in by_key.items())


def _is_satisfiable(key: str, requirements: Sequence[SelectorRequirement]) -> bool:
    """Return whether a label can satisfy all requirements on its key, absent or with some value.

    If any value can, one of the tried values can: a named value, the numbers next to a named number, as many others as
    may be excluded, or a value that nobody names.
    """
    named = {value for requirement in requirements for value in requirement.values}
    numbers = {int(value) for value in named if value.isascii() and value.isdigit()}
    near = {
        str(number + step) for number in numbers for step in range(-len(named), len(named) + 1) if number + step >= 0
    }
    candidates: Iterable[Mapping[str, str]] = [{}, *({key: value} for value in sorted(named | near | {_NEW}))]
    return any(all(requirement.matches(labels) for requirement in requirements) for labels in candidates)
