"""Domains of a limit: which values of a topology key its pods may stand on, and which zones count for `when`."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from rebalancer.assessment.limit_groups import Affinities
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.moves import Memory
from rebalancer.scheduling.node_index import RequiredAffinity
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import ZONE_REMEMBERED_FOR


class Domains(NamedTuple):
    """Nodes by domain. Declared domains without a node are there too, with none."""

    nodes: Mapping[str, frozenset[str]]
    existing: int
    """How many have a node."""


def limit_domains(key: str, declared: tuple[str, ...] | None, affinities: Affinities, view: View) -> Domains:
    """Return the domains that are declared, else named by all of the affinities, else those of all eligible nodes."""

    def make() -> Domains:
        groups = view.nodes.groups(key)
        if None not in affinities:
            nodes = frozenset[str]().union(*(view.nodes.matching(each) for each in affinities))
            groups = {value: names & nodes for value, names in groups.items()}
            groups = {value: names for value, names in groups.items() if names}
        meant = declared if declared is not None else named_domains(key, affinities)
        if meant is not None:
            groups = {value: groups.get(value, frozenset()) for value in sorted(meant)}
        return Domains(groups, sum(1 for names in groups.values() if names))

    return view.memo(("domains of a limit", key, declared, affinities), make)


def named_domains(key: str, affinities: Affinities) -> frozenset[str] | None:
    """Return the values of a key that the affinities name, or None where one leaves them open."""
    found: frozenset[str] = frozenset()
    for each in affinities:
        values = _named_by(key, each) if each is not None else None
        if values is None:
            return None
        found |= values
    return found


def _named_by(key: str, affinity: RequiredAffinity) -> frozenset[str] | None:
    selected = frozenset({affinity.selector[key]}) if key in affinity.selector else None
    terms = [_listed(key, term.expressions) for term in affinity.required or ()]
    if not terms or None in terms:
        return selected
    required = frozenset[str]().union(*(term for term in terms if term is not None))
    return required if selected is None else required & selected


def _listed(key: str, expressions: Sequence[SelectorRequirement]) -> frozenset[str] | None:
    listed = [frozenset(each.values) for each in expressions if each.key == key and each.operator is Operator.IN]
    return reduce(frozenset.__and__, listed) if listed else None


def count_zones(key: str, affinities: Affinities, view: View, memory: Memory) -> int:
    """Return how many zones count for `when`: those that the affinities name, else those seen in the last hour."""
    meant = named_domains(key, affinities)
    if meant is not None:
        return len(meant)
    return view.memo(("zones seen", key), lambda: len(_seen(key, view, memory)))


def _seen(key: str, view: View, memory: Memory) -> set[str]:
    now = view.snapshot.taken_at
    lately = {each.zone for each in memory.zones if each.key == key and now - each.last < ZONE_REMEMBERED_FOR}
    return lately | view.nodes.groups(key).keys()
