"""Placement deadlocks: pending pods that no node can admit while the other pods stay where they are.

Each rule of such a pod admits some node, but no node is admitted by all of them: spread constraints and anti-affinity,
or two constraints, exclude each other. The scheduler evaluates all rules together and reports how many nodes each
filter rejected; evaluating each rule alone shows which rules exclude each other. Capacity is left out, because waiting
may free it. If a single rule keeps a pod from every node, the pod is not deadlocked, because that rule is the cause.

With r rules that reject a node, at most 2^r combinations are intersected, the smallest first; r is rarely above 4.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Final

from rebalancer.assessment.controllers import find_reference
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View

_MOST_NAMED: Final = 4
"""Up to this many domains are named in a message; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Deadlock:
    """A pending pod, its workload, and a message that names the rules that exclude each other."""

    pod: Pod
    workload: Reference
    message: str

    @property
    def reason(self) -> Reason:
        """The reason in documents, metrics and alerts."""
        return Reason.PLACEMENT_DEADLOCK


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """One rule of a pod about other pods, and the nodes that it admits; `spread` is set for a spread constraint."""

    text: str
    nodes: frozenset[str]
    spread: Counts | None = None


def find_deadlocks(view: View) -> tuple[Deadlock, ...]:
    """Find every deadlock, by namespace and name. Placed pods cost nothing; equal pods are evaluated once."""
    deadlocks: list[Deadlock] = []
    conflicts: dict[tuple[object, ...], str] = {}
    for pod in view.snapshot.unplaced:
        if view.where(pod) is not None or not view.snapshot.covers(pod.namespace):
            continue
        pod_class = (pod.namespace, pod.labels, pod.spec)
        if pod_class not in conflicts:
            conflicts[pod_class] = _describe_conflict(pod, view)
        if conflicts[pod_class]:
            workload = find_reference(pod, view)
            deadlocks.append(Deadlock(pod=pod, workload=workload, message=conflicts[pod_class]))
    return tuple(sorted(deadlocks, key=lambda deadlock: (deadlock.pod.namespace, deadlock.pod.name)))


def _describe_conflict(pod: Pod, view: View) -> str:
    """Return which of a pod's rules exclude each other and what would help, "" if none do."""
    if unpredictable(pod, view) is not None:
        return ""
    nodes = admissible(pod, view)
    rules = _restricting_rules(pod, view, nodes)
    if _common_nodes(rules, nodes) or not all(rule.nodes for rule in rules):
        return ""
    for number in range(2, len(rules) + 1):
        for conflicting in combinations(rules, number):
            if not _common_nodes(conflicting, nodes):
                return "; ".join(rule.text for rule in conflicting) + _remedy(rules, conflicting, nodes, view)
    return ""


def _common_nodes(rules: Sequence[_Rule], nodes: frozenset[str]) -> frozenset[str]:
    return reduce(frozenset.__and__, (rule.nodes for rule in rules), nodes)


def _remedy(rules: Sequence[_Rule], conflicting: Sequence[_Rule], nodes: frozenset[str], view: View) -> str:
    """Name, for each conflicting constraint that alone could admit the pod, the smallest maxSkew that does.

    The plan has the evictions that help, if any.
    """
    remedies: list[str] = []
    for rule in conflicting:
        if rule.spread is None:
            continue
        counts, key = rule.spread, rule.spread.constraint.key
        admitted_by_others = _common_nodes([other for other in rules if other is not rule], nodes)
        values = view.nodes.values(key)
        held = [counts.by_domain.filled.get(values[node], 0) for node in admitted_by_others if node in values]
        if held:
            remedies.append(f"raise maxSkew over {key} to {min(held) + counts.self_match - counts.minimum}")
    text = " or ".join(remedies)
    return f". {text[0].upper()}{text[1:]}" if text else ""


# The rules of a pod


def _restricting_rules(pod: Pod, view: View, nodes: frozenset[str]) -> tuple[_Rule, ...]:
    """Return the rules of a pending pod that reject any of these nodes."""
    rules = (*_spread_rules(pod, view, nodes), *_affinity_rules(pod, view, nodes))
    return tuple(rule for rule in rules if rule.nodes != nodes)


def _spread_rules(pod: Pod, view: View, nodes: frozenset[str]) -> Iterator[_Rule]:
    if PodTopologySpread.name in view.profile.filters_off:
        return
    for counts in PodTopologySpread(pod, view).counts:
        admitted = _admitted_nodes(counts, nodes, view)
        domains = _domains_of(counts.constraint.key, admitted, view)
        text = f"{counts.constraint.key} (maxSkew {counts.constraint.max_skew}) admits {_list_domains(domains)}"
        yield _Rule(text=text, nodes=admitted, spread=counts)


def _admitted_nodes(counts: Counts, nodes: frozenset[str], view: View) -> frozenset[str]:
    """Return which of the nodes one constraint admits; empty domains are never full."""
    key = counts.constraint.key
    full = [value for value in counts.by_domain.filled if not counts.admits(value)]
    return (nodes & view.nodes.carrying((key,))) - _nodes_within(key, full, nodes, view)


def _affinity_rules(pod: Pod, view: View, nodes: frozenset[str]) -> Iterator[_Rule]:
    if InterPodAffinity.name in view.profile.filters_off:
        return
    affinity = InterPodAffinity(pod, view)
    for key, values in affinity.wanted.items():
        carrying = nodes & view.nodes.carrying((key,))
        admitted = carrying if affinity.first_of_its_kind else _nodes_within(key, values, carrying, view)
        domains = _list_domains(_domains_of(key, admitted, view))
        yield _Rule(text=f"its affinity over {key} admits {domains}", nodes=admitted)
    exclusions = [("its anti-affinity", key, values) for key, values in affinity.avoided]
    exclusions += [("the anti-affinity of running pods", key, values) for key, values in affinity.blocked.items()]
    reported: set[tuple[str, frozenset[str]]] = set()
    for whose, key, values in exclusions:
        excluded = _nodes_within(key, values, nodes, view)
        if (key, excluded) not in reported:  # equal pods exclude each other, so the second rule adds nothing
            reported.add((key, excluded))
            domains = _list_domains(_domains_of(key, excluded, view))
            yield _Rule(text=f"{whose} over {key} excludes {domains}", nodes=nodes - excluded)


def _nodes_within(key: str, values: Iterable[str], nodes: frozenset[str], view: View) -> frozenset[str]:
    groups = view.nodes.groups(key)
    return nodes & frozenset[str]().union(*(groups[value] for value in values if value in groups))


def _domains_of(key: str, nodes: frozenset[str], view: View) -> list[str]:
    values = view.nodes.values(key)
    return sorted({values[node] for node in nodes if node in values})


def _list_domains(domains: list[str]) -> str:
    """Name the first few domains and count the rest."""
    if not domains:
        return "no domain"
    rest = f" and {len(domains) - _MOST_NAMED} more" if len(domains) > _MOST_NAMED else ""
    return ", ".join(domain or '""' for domain in domains[:_MOST_NAMED]) + rest
