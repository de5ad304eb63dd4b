"""PodTopologySpread: counting pods by domain, and the filter.

Source: `podtopologyspread/filtering.go` and `common.go` of Kubernetes 1.36. Three rules make
up most of the difference to a naive count: a domain exists only if it has an *eligible* node; terminating and finished
pods do not count while bound pods that are not ready do; and `labelSelector: {}` counts no pod from 1.27 to 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.spread import InclusionPolicy
from rebalancer.scheduling.node_index import NodeIndex, required_part
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.population import NO_COUNTS
from rebalancer.scheduling.spread_constraints import (
    SYSTEM_DEFAULTS,
    Constraints,
    EffectiveConstraint,
    Origin,
    constraints_of,
)
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable, unschedulable
from rebalancer.scheduling.view import View

__all__ = [
    "HOSTNAME",
    "SYSTEM_DEFAULTS",
    "ZONE",
    "Constraints",
    "Counts",
    "DomainCounts",
    "EffectiveConstraint",
    "EligibleNodes",
    "Origin",
    "PodTopologySpread",
    "constraints_of",
    "counts",
    "eligibility",
    "ineffective",
    "per_node_counts",
]

MISSING_LABEL: Final = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
UNSATISFIED: Final = unschedulable("node(s) didn't match pod topology spread constraints")


class EligibleNodes:
    """The nodes that take part in a constraint, and the domains that they form.

    All pods that see the same nodes share one object, so it can be a dictionary key by identity.
    """

    def __init__(self, nodes: frozenset[str], key: str, index: NodeIndex, closed: frozenset[str] = frozenset()) -> None:
        """`nodes` take part; `closed` nodes are excluded by taints alone, and their domains still count."""
        self.nodes: Final = nodes
        domains = index.groups(key)
        if len(nodes) < len(index.values(key)):
            eligible = {value: members & nodes for value, members in domains.items()}
            domains = {value: members for value, members in eligible.items() if members}
        self.domains: Final = domains
        """Eligible nodes by domain; a value without an eligible node is no domain, even if it has pods."""
        self.there: Final = len({*domains, *index.by_value(key, dict.fromkeys(closed, 1))}) if closed else len(domains)
        """How many domains count for `minDomains`."""


def eligibility(constraint: EffectiveConstraint, pod: Pod, view: View) -> EligibleNodes:
    """Return the nodes whose pods count for a constraint of this pod.

    A node takes part if it carries the keys of all constraints of the list, and satisfies the pod's node affinity and
    taints if the policies say Honor. Readiness, free capacity and `spec.unschedulable` itself never matter.
    """
    honor = InclusionPolicy.HONOR
    affinity = required_part(pod.spec.node_affinity) if constraint.node_affinity_policy is honor else None
    tolerations = pod.spec.tolerations if constraint.node_taints_policy is honor else None

    def make() -> EligibleNodes:
        index = view.nodes
        nodes = index.carrying(constraint.required_keys)
        if affinity is not None:
            nodes = nodes & index.matching(affinity)
        if tolerations is None:
            return EligibleNodes(nodes, constraint.key, index)
        open_nodes = nodes & index.tolerated(tolerations)
        closed = nodes - open_nodes if view.rules.tainted_domains_count else frozenset[str]()
        return EligibleNodes(open_nodes, constraint.key, index, closed)

    return view.memo(("eligible", constraint.key, constraint.required_keys, affinity, tolerations), make)


class DomainCounts(Mapping[str, int]):
    """Matching pods by domain, including domains without any; thousands of empty domains need no entry each."""

    __slots__ = ("domains", "filled")

    def __init__(self, domains: Mapping[str, frozenset[str]], filled: Mapping[str, int]) -> None:
        self.filled: Final = filled
        """The counts of domains with at least one pod."""
        self.domains: Final = domains
        """Nodes by domain, including empty domains."""

    def __getitem__(self, value: str) -> int:
        """Return the number of pods of a domain; raise KeyError for a value that is no domain."""
        count = self.filled.get(value)
        if count is not None:
            return count
        if value in self.domains:
            return 0
        raise KeyError(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.domains)

    def __len__(self) -> int:
        return len(self.domains)

    def __repr__(self) -> str:
        return repr(dict(self))

    def change(self, changes: Mapping[str, int]) -> "DomainCounts":
        """Return the counts with pods added to or removed from domains; values that are no domain are left out."""
        filled = dict(self.filled)
        for value, number in changes.items():
            count = filled.get(value, 0) + number
            if count > 0 and (value in self.domains or value in self.filled):
                filled[value] = count
            else:
                filled.pop(value, None)
        return DomainCounts(self.domains, filled)


class Counts:
    """What one constraint counts: matching pods by domain, the minimum, and the domains that admit another pod.

    `self_match` is 1 if the pod matches its own constraint: then its arrival adds to the count of its domain.
    """

    __slots__ = ("by_domain", "by_node", "constraint", "eligible", "maximum", "minimum", "self_match", "skew")

    def __init__(
        self,
        constraint: EffectiveConstraint,
        eligible: EligibleNodes,
        per_node: Mapping[str, int],
        nodes: NodeIndex,
        self_match: int,
    ) -> None:
        self.constraint: Final = constraint
        self.eligible: Final = eligible
        self.self_match: Final = self_match
        # If every node is eligible, so are the nodes that hold pods.
        if len(eligible.nodes) < len(nodes.by_name) and not eligible.nodes.issuperset(per_node):
            per_node = {node: count for node, count in per_node.items() if node in eligible.nodes}
        self.by_node: Final = per_node
        """Counted pods by eligible node; nodes without counted pods are absent."""
        filled = nodes.by_value(constraint.key, per_node)
        domains = eligible.domains
        self.by_domain: Final = DomainCounts(domains, filled)
        """Counted pods by domain."""
        held, many = filled.values(), len(domains)
        least = min(held) if held and len(filled) == many else 0
        self.minimum: Final = 0 if self.floor_at_zero else least
        """The global minimum: 0 while there are fewer domains than `minDomains`, else the least count."""
        self.maximum: Final = max(held) if held else 0
        """The greatest count of a domain."""
        self.skew: Final = self.maximum - self.minimum
        """The actual skew: greatest count less the minimum."""

    def __eq__(self, other: object) -> bool:
        """Return whether two counts have equal constraints, equal nodes, and equal numbers of pods on each node."""
        if not isinstance(other, Counts):
            return NotImplemented
        return (self.constraint, self.self_match, self.by_node, self.by_domain.domains) == (
            other.constraint,
            other.self_match,
            other.by_node,
            other.by_domain.domains,
        )

    def __hash__(self) -> int:
        """Hash the constraint and the numbers."""
        return hash((self.constraint, self.minimum, self.maximum))

    @property
    def floor_at_zero(self) -> bool:
        """Whether there are fewer domains than `minDomains`: the minimum is 0 then."""
        return self.eligible.there < self.constraint.min_domains

    @property
    def violated(self) -> bool:
        """Whether the constraint does not hold now. The scheduler enforces it only when it places a pod."""
        return self.skew > self.constraint.max_skew

    def skew_of(self, value: str) -> int:
        """Return the skew of one domain: its count less the minimum."""
        return self.by_domain[value] - self.minimum

    def admits(self, value: str) -> bool:
        """Return whether a node with this label value passes. A value that is not a domain has count 0."""
        held = self.by_domain.filled.get(value, 0)
        return held + self.self_match - self.minimum <= self.constraint.max_skew

    def verdict(self, labels: Mapping[str, str]) -> Verdict:
        """Evaluate a node by its labels, eligible or not: other filters reject the ineligible nodes."""
        value = labels.get(self.constraint.key)
        if value is None:
            return MISSING_LABEL
        return SUCCESS if self.admits(value) else UNSATISFIED


def counts(constraint: EffectiveConstraint, pod: Pod, view: View) -> Counts:
    """Count for one of the pod's constraints (hard or soft), as the scheduler would if it placed the pod now.

    The result is the same for all pods of equal namespace, constraint and `eligibility`, but for `self_match`.
    """
    selector = constraint.selector
    per_node = per_node_counts(constraint, pod, view)
    self_match = 1 if selector is not None and selector.matches(pod.labels) else 0
    eligible = eligibility(constraint, pod, view)
    return Counts(constraint, eligible, per_node, view.nodes, self_match)


def per_node_counts(constraint: EffectiveConstraint, pod: Pod, view: View) -> Mapping[str, int]:
    """Count matching pods by node, eligible or not; nodes without matching pods are absent."""
    selector = constraint.selector
    if selector is None or (selector.empty and not view.rules.empty_selector_counts):
        return NO_COUNTS
    return view.live(pod.namespace, selector)


def ineffective(constraint: EffectiveConstraint, view: View) -> bool:
    """Say whether the constraint has no effect: `labelSelector: {}` from 1.27 to 1.37 counts no pod."""
    selector = constraint.selector
    return selector is not None and selector.empty and not view.rules.empty_selector_counts


class PodTopologySpread(Filter):
    """The filter for one pod in one state: counts once for every hard constraint, then evaluates node by node."""

    name: ClassVar = "PodTopologySpread"

    def __init__(self, pod: Pod, view: View) -> None:
        """Count for each hard constraint."""
        self.counts: Final = tuple(counts(constraint, pod, view) for constraint in constraints_of(pod, view).hard)
        self._nodes = view.nodes

    def verdict(self, node: str) -> Verdict:
        """Evaluate a node: constraints in list order, the first that fails decides."""
        labels = self._nodes.by_name[node].labels
        for row in self.counts:
            verdict = row.verdict(labels)
            if not verdict:
                return verdict
        return SUCCESS

    def count_reasons(self, nodes: Iterable[str]) -> Mapping[str, int]:
        """Count the rejected nodes without evaluating each."""
        counted = Counter[str]()
        left = frozenset(nodes)
        for row in self.counts:
            carrying = left & self._nodes.carrying((row.constraint.key,))
            counted[MISSING_LABEL.message] += len(left) - len(carrying)
            left = self._drop_full(row, carrying)
            counted[UNSATISFIED.message] += len(carrying) - len(left)
        return +counted

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the nodes that pass, without the reasons of the others."""
        for row in self.counts:
            nodes = self._drop_full(row, nodes & self._nodes.carrying((row.constraint.key,)))
        return nodes

    def _drop_full(self, row: Counts, nodes: frozenset[str]) -> frozenset[str]:
        """Leave out the nodes of domains that are full."""
        # maxSkew is at least 1 and a self-match at most 1: an empty domain is never full.
        most = row.constraint.max_skew + row.minimum - row.self_match
        full = [value for value, count in row.by_domain.filled.items() if count > most]
        groups = self._nodes.groups(row.constraint.key) if full else {}
        return nodes.difference(*(groups[value] for value in full))
