"""Domains of a limit: the values of a topology key that its pods may use, and the zones that count for `when`.

Domains count if they have nodes, if the policy declares them, or if a NodePool names them.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from rebalancer.assessment.limit_groups import Affinities
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.moves import PlanningMemory
from rebalancer.scheduling.node_index import RequiredAffinity
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import ZONE_LIFETIME


class Domains(NamedTuple):
    """Nodes by domain; a declared domain without a node has the empty set."""

    nodes: Mapping[str, frozenset[str]]
    existing: int
    """How many domains have a node."""
    possible: int
    """How many domains have a node, or are known to exist without one."""


def limit_domains(
    key: str,
    declared: tuple[str, ...] | None,
    affinities: Affinities,
    view: View,
    without_nodes: frozenset[str] = frozenset(),
) -> Domains:
    """Return the limit's own domains, else those that all affinities name, else those of all eligible nodes.

    `without_nodes` are domains that are known to exist although no node carries them.
    """

    def make() -> Domains:
        groups = view.nodes.groups(key)
        if None not in affinities:
            nodes = frozenset[str]().union(*(view.nodes.matching(affinity) for affinity in affinities))
            groups = {value: names & nodes for value, names in groups.items()}
            groups = {value: names for value, names in groups.items() if names}
        meant = declared if declared is not None else named_domains(key, affinities)
        if meant is not None:
            groups = {value: groups.get(value, frozenset()) for value in sorted(meant)}
        elif without_nodes:
            groups = {**dict.fromkeys(sorted(without_nodes), frozenset[str]()), **groups}
        existing = sum(1 for names in groups.values() if names)
        return Domains(
            groups, existing, existing + sum(1 for value in without_nodes if groups.get(value) == frozenset())
        )

    return view.memo(("domains of a limit", key, declared, affinities, without_nodes), make)


def named_domains(key: str, affinities: Affinities) -> frozenset[str] | None:
    """Return the values of a key that the affinities name; None if an affinity allows any value."""
    named: frozenset[str] = frozenset()
    for affinity in affinities:
        values = _domains_named_by(key, affinity) if affinity is not None else None
        if values is None:
            return None
        named |= values
    return named


def _domains_named_by(key: str, affinity: RequiredAffinity) -> frozenset[str] | None:
    selected = frozenset({affinity.selector[key]}) if key in affinity.selector else None
    terms = [_values_listed(key, term.expressions) for term in affinity.required or ()]
    if not terms or None in terms:
        return selected
    required = frozenset[str]().union(*(term for term in terms if term is not None))
    return required if selected is None else required & selected


def _values_listed(key: str, expressions: Sequence[SelectorRequirement]) -> frozenset[str] | None:
    listed = [
        frozenset(expression.values)
        for expression in expressions
        if expression.key == key and expression.operator is Operator.IN
    ]
    return reduce(frozenset.__and__, listed) if listed else None


def count_zones(
    key: str,
    affinities: Affinities,
    view: View,
    memory: PlanningMemory,
    *,
    without_nodes: frozenset[str] = frozenset(),
    ignored: Collection[str] = (),
) -> int:
    """Return how many zones count for `when`: the zones that the affinities name, else the known zones.

    Known are the zones of nodes, the zones seen in the last hour, and `without_nodes`. An ignored zone counts only if
    it has nodes.
    """
    meant = named_domains(key, affinities)
    if meant is not None:
        return len(meant)
    known = view.memo(("zones seen", key, frozenset(ignored)), lambda: _zones_seen(key, view, memory, ignored))
    return len(known | without_nodes)


def _zones_seen(key: str, view: View, memory: PlanningMemory, ignored: Collection[str]) -> frozenset[str]:
    lately = {
        zone.zone for zone in memory.zones if zone.key == key and not view.clock.has_lasted(zone.last, ZONE_LIFETIME)
    }
    return frozenset((lately - set(ignored)) | view.nodes.groups(key).keys())
