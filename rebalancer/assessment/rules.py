"""What each of a pod's rules about other pods admits, one by one: its hard spread constraints, affinity, anti-affinity.

The scheduler asks all of them together and says how many nodes each filter rejected. Which of them exclude each other
is seen only when each is asked alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rebalancer.model.pods import Pod
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.view import View

_MOST = 4
"""So many domains are named; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule, and those of the nodes in question that it admits. `spread` is set for a spread constraint."""

    words: str
    nodes: frozenset[str]
    spread: Counts | None = None


def rules(pod: Pod, view: View, nodes: frozenset[str]) -> tuple[Rule, ...]:
    """Ask each rule of a pod, which is not placed, about these nodes; rules that admit all of them are left out."""
    found = (*_spread(pod, view, nodes), *_affinity(pod, view, nodes))
    return tuple(rule for rule in found if rule.nodes != nodes)


def _spread(pod: Pod, view: View, nodes: frozenset[str]) -> Iterator[Rule]:
    if PodTopologySpread.name in view.profile.filters_off:
        return
    for each in PodTopologySpread(pod, view).counts:
        admitted = _admitted(each, nodes, view)
        values = _values(each.constraint.key, admitted, view)
        words = f"{each.constraint.key} (maxSkew {each.constraint.max_skew}) admits {listed(values)}"
        yield Rule(words=words, nodes=admitted, spread=each)


def _admitted(each: Counts, nodes: frozenset[str], view: View) -> frozenset[str]:
    """Return those of the nodes that one constraint admits; an empty domain is never full."""
    key = each.constraint.key
    full = [value for value in each.by_domain.filled if not each.admits(value)]
    return (nodes & view.nodes.carrying((key,))) - _within(key, full, nodes, view)


def _affinity(pod: Pod, view: View, nodes: frozenset[str]) -> Iterator[Rule]:
    if InterPodAffinity.name in view.profile.filters_off:
        return
    asked = InterPodAffinity(pod, view)
    for key, values in asked.wanted.items():
        carrying = nodes & view.nodes.carrying((key,))
        admitted = carrying if asked.first_of_its_kind else _within(key, values, carrying, view)
        yield Rule(words=f"its affinity over {key} admits {listed(_values(key, admitted, view))}", nodes=admitted)
    closed = [("its anti-affinity", key, values) for key, values in asked.avoided]
    closed += [("the anti-affinity of pods there", key, values) for key, values in asked.blocked.items()]
    told: set[tuple[str, frozenset[str]]] = set()
    for who, key, values in closed:
        shut = _within(key, values, nodes, view)
        if (key, shut) not in told:  # equal pods keep each other away: the same once more is not worth a word
            told.add((key, shut))
            yield Rule(words=f"{who} over {key} forbids {listed(_values(key, shut, view))}", nodes=nodes - shut)


def _within(key: str, values: Iterable[str], nodes: frozenset[str], view: View) -> frozenset[str]:
    groups = view.nodes.groups(key)
    return nodes & frozenset[str]().union(*(groups[value] for value in values if value in groups))


def _values(key: str, nodes: frozenset[str], view: View) -> list[str]:
    values = view.nodes.values(key)
    return sorted({values[node] for node in nodes if node in values})


def listed(values: list[str]) -> str:
    """Name some, and count the rest."""
    if not values:
        return "nothing"
    rest = f" and {len(values) - _MOST} more" if len(values) > _MOST else ""
    return ", ".join(value or '""' for value in values[:_MOST]) + rest
