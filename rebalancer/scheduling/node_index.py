"""Which nodes carry a label, satisfy an affinity, or repel a pod: set algebra over node names, computed once.

Nodes do not change while a planner steps through hypothetical states, so every result here is cached. A requirement is
evaluated once for each distinct value of its label, not once for each node: 5,000 nodes in three zones cost three
tests.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import eq
from typing import NamedTuple

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, Taint, TaintEffect, Toleration
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.nodes import Node

NONE: frozenset[str] = frozenset()
REPELLING = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
"""Effects that keep a pod off a node; PreferNoSchedule only costs score."""


class RequiredAffinity(NamedTuple):
    """The part of a node affinity that must hold: `nodeSelector` AND one of the required terms."""

    selector: Labels
    required: tuple[NodeSelectorTerm, ...] | None


def required_part(affinity: NodeAffinity) -> RequiredAffinity | None:
    """Return the part that must hold, None if nothing is required (so that all such pods share one entry)."""
    if not affinity.selector and affinity.required is None:
        return None
    return RequiredAffinity(affinity.selector, affinity.required)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Say whether one of the tolerations covers the taint.

    Source: component-helpers `ToleratesTaint`. Lt and Gt belong to an alpha gate that is off: they tolerate nothing.
    """
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or (
            toleration.operator in {"", "Equal"} and toleration.value == taint.value
        ):
            return True
    return False


class NodeCounts(dict[str, int]):
    """Pods by node, with cached sums by label value; treated as immutable once made.

    The labels of a node are equal in all states of one snapshot, so the sums stay valid.
    """

    __slots__ = ("_sums", "names")
    _sums: dict[str, Mapping[str, int]]

    def __init__(self, names: Sequence[str]) -> None:
        """Count the nodes of some pods, one name for each pod."""
        super().__init__(count_names(names))
        self.names: Sequence[str] = names

    @property
    def are_alone(self) -> bool:
        """Whether each pod is on a node of its own."""
        return len(self) == len(self.names)

    @property
    def sums(self) -> dict[str, Mapping[str, int]]:
        """The cached sums by key, which callers fill."""
        try:
            return self._sums
        except AttributeError:  # made when first needed, since there are thousands of objects
            self._sums = {}
            return self._sums


def count_names(names: Sequence[str]) -> Mapping[str, int]:
    """Count equal names; fast if all differ, as the nodes of most workloads' pods do."""
    counts = dict.fromkeys(names, 1)
    return counts if len(counts) == len(names) else Counter(names)


class NodeIndex:
    """Nodes by name and by everything the scheduler selects them by."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.by_name: dict[str, Node] = {node.name: node for node in nodes}
        self._values: dict[str, Mapping[str, str]] = {}
        self._own_names: dict[str, bool] = {}
        self._groups: dict[str, Mapping[str, frozenset[str]]] = {}
        self._carrying: dict[tuple[str, ...], frozenset[str]] = {}
        self._requirements: dict[SelectorRequirement, frozenset[str]] = {}
        self._affinities: dict[RequiredAffinity | None, frozenset[str]] = {}
        self._tolerated: dict[tuple[Toleration, ...], frozenset[str]] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """All nodes."""
        return frozenset(self.by_name)

    @cached_property
    def _sorted_names(self) -> list[str]:
        return sorted(self.by_name)  # mostly sorted already

    def in_order(self, nodes: frozenset[str]) -> list[str]:
        """Return nodes sorted by name; for many nodes faster than `sorted`."""
        if len(nodes) * 10 < len(self.by_name):
            return sorted(nodes)
        return [name for name in self._sorted_names if name in nodes]

    @cached_property
    def cordoned(self) -> frozenset[str]:
        """Nodes with `spec.unschedulable`."""
        return frozenset(node.name for node in self.by_name.values() if node.unschedulable)

    def values(self, key: str) -> Mapping[str, str]:
        """Return the value of a label by node, for the nodes with the label. The empty string is a value."""
        values = self._values.get(key)
        if values is None:
            # One object for each value, so that adding up pods recognises it by identity.
            first = dict[str, str]().setdefault
            values = {
                node.name: first(value, value)
                for node in self.by_name.values()
                if (value := node.labels.get(key)) is not None
            }
            self._values[key] = values
        return values

    def by_value(self, key: str, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Add up counts by node, for nodes that carry the label, by its value."""
        if self._is_node_name(key):
            return counts
        if not isinstance(counts, NodeCounts):
            return self._add_up(key, counts)
        sums = counts.sums.get(key)
        if sums is None:
            sums = counts.sums[key] = dict(Counter(map(self.values(key).__getitem__, counts.names)))
        return sums

    def _add_up(self, key: str, counts: Mapping[str, int]) -> Mapping[str, int]:
        values = self.values(key)
        totals: dict[str, int] = {}
        for node, count in counts.items():
            value = values[node]
            totals[value] = totals.get(value, 0) + count
        return totals

    def _is_node_name(self, key: str) -> bool:
        """Return whether each node with a label has its own name as the value, as mostly for the host name."""
        is_name = self._own_names.get(key)
        if is_name is None:
            values = self.values(key)
            is_name = self._own_names[key] = all(map(eq, values, values.values()))
        return is_name

    def groups(self, key: str) -> Mapping[str, frozenset[str]]:
        """Return the nodes by their value of a label."""
        by_value = self._groups.get(key)
        if by_value is None:
            if self._is_node_name(key):
                by_value = {name: frozenset((name,)) for name in self.values(key)}
            else:
                groups: defaultdict[str, list[str]] = defaultdict(list)
                for name, value in self.values(key).items():
                    groups[value].append(name)
                by_value = {value: frozenset(names) for value, names in groups.items()}
            self._groups[key] = by_value
        return by_value

    def carrying(self, keys: tuple[str, ...]) -> frozenset[str]:
        """Return the nodes that carry every one of the labels."""
        nodes = self._carrying.get(keys)
        if nodes is None:
            partial = [values for values in map(self.values, keys) if len(values) < len(self.by_name)]
            nodes = self.names.intersection(*partial)
            self._carrying[keys] = nodes
        return nodes

    def matching(self, affinity: RequiredAffinity | None) -> frozenset[str]:
        """Return the nodes that satisfy `nodeSelector` and required node affinity.

        Source: component-helpers `nodeaffinity.GetRequiredNodeAffinity`. Terms are ORed, the requirements of a term are
        ANDed, and a term without expressions and fields selects nothing.
        """
        nodes = self._affinities.get(affinity)
        if nodes is None:
            nodes = self.names if affinity is None else self._select_matching(affinity)
            self._affinities[affinity] = nodes
        return nodes

    def _select_matching(self, affinity: RequiredAffinity) -> frozenset[str]:
        chosen = self.names
        for key, value in affinity.selector.items():
            chosen = chosen & self.groups(key).get(value, NONE)
        if affinity.required is not None:
            chosen = chosen & NONE.union(*(self.selected(term) for term in affinity.required))
        return chosen

    def selected(self, term: NodeSelectorTerm) -> frozenset[str]:
        """Return the nodes that one node selector term selects."""
        if not term.expressions and not term.fields:
            return NONE
        chosen = self.names
        for requirement in term.expressions:
            chosen = chosen & self._select_satisfying(requirement)
        for field in term.fields:
            chosen = chosen & self._select_named(field)
        return chosen

    def _select_satisfying(self, requirement: SelectorRequirement) -> frozenset[str]:
        nodes = self._requirements.get(requirement)
        if nodes is None:
            key = requirement.key
            groups = self.groups(key)
            nodes = NONE.union(*(names for value, names in groups.items() if requirement.matches({key: value})))
            if requirement.matches({}):
                nodes |= self.names - self.carrying((key,))
            self._requirements[requirement] = nodes
        return nodes

    def _select_named(self, field: SelectorRequirement) -> frozenset[str]:
        """Select by `metadata.name`, the only field that exists; In and NotIn take one value each."""
        if field.key != "metadata.name" or len(field.values) != 1:
            return NONE
        named = self.names.intersection(field.values)
        return self.names - named if field.operator is Operator.NOT_IN else named

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> frozenset[str]:
        """Return the nodes whose NoSchedule and NoExecute taints are all tolerated."""
        nodes = self._tolerated.get(tolerations)
        if nodes is None:
            repelled = (
                names
                for taints, names in self._by_taints.items()
                if any(taint.effect in REPELLING and not tolerates(tolerations, taint) for taint in taints)
            )
            nodes = self._tolerated[tolerations] = self.names.difference(*repelled)
        return nodes

    @cached_property
    def images(self) -> Mapping[str, tuple[int, frozenset[str]]]:
        """Images by name: the bytes that the first node with the image reports, and the nodes that have it."""
        sizes: dict[str, int] = {}
        holders: dict[str, set[str]] = {}
        for node in self.by_name.values():
            for name, size in node.images:
                sizes.setdefault(name, size)
                holders.setdefault(name, set()).add(node.name)
        return {name: (size, frozenset(holders[name])) for name, size in sizes.items()}

    @cached_property
    def _by_taints(self) -> Mapping[tuple[Taint, ...], frozenset[str]]:
        by_taints: dict[tuple[Taint, ...], list[str]] = {}
        for node in self.by_name.values():
            if node.taints:
                by_taints.setdefault(node.taints, []).append(node.name)
        return {taints: frozenset(names) for taints, names in by_taints.items()}
