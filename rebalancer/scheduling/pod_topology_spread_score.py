"""PodTopologySpread's score: how the soft constraints rank the nodes that passed every filter.

Source: `podtopologyspread/scoring.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import NamedTuple, TypeVar

from msgspec import structs

from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod
from rebalancer.scheduling.pod_topology_spread import (
    Constraints,
    EffectiveConstraint,
    Origin,
    constraints_of,
    eligibility,
    per_node_counts,
)
from rebalancer.scheduling.view import View

T = TypeVar("T")


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100, the fewer matching pods the better; None for a pod without soft constraints.

    `nodes` are the candidates. Domain sizes and extremes are computed from the candidates, while pods are counted
    everywhere.
    """
    constraints = constraints_of(pod, view)
    if not constraints.soft:
        return None
    raw = compute_raw_scores(constraints, pod, view, nodes)
    return {**dict.fromkeys(nodes, 0), **normalize_scores(raw)}


def requires_all_keys(constraint: EffectiveConstraint, view: View) -> bool:
    """Say whether a node must carry every soft key: always, except for the system's own defaults."""
    return constraint.origin is not Origin.DEFAULT or view.profile.default_constraints is not None


class Term(NamedTuple):
    """What one soft constraint adds to the raw scores.

    `pods` are the counted pods for each candidate that carries its key. `domains` has the domain of each candidate that
    takes part; None for the host name: then each node is its own domain, whatever its label says.
    """

    key: str
    max_skew: int
    pods: Mapping[str, int]
    domains: Mapping[str, str] | None


def compute_raw_scores(constraints: Constraints, pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return the raw score of each candidate that takes part; fewer is better."""
    taking_part = find_taking_part(constraints, view, nodes)
    terms = count_terms(constraints, pod, view, taking_part)
    sizes = [len(taking_part if term.domains is None else set(term.domains.values())) for term in terms]
    counts = {node: tuple([term.pods.get(node) for term in terms]) for node in taking_part}
    raw = weigh(terms, sizes, set(counts.values()))
    return {node: raw[counted] for node, counted in counts.items()}


def find_taking_part(constraints: Constraints, view: View, nodes: Sequence[str]) -> Sequence[str]:
    """Return the scored candidates: those with every soft key, or all if the constraints are system defaults."""
    if not requires_all_keys(constraints.soft[0], view):
        return nodes
    carrying = view.nodes.carrying(constraints.soft[0].required_keys)
    return [node for node in nodes if node in carrying]


def count_terms(constraints: Constraints, pod: Pod, view: View, taking_part: Sequence[str]) -> Sequence[Term]:
    """Count for each soft constraint."""
    terms = []
    for constraint in constraints.soft:
        values = view.nodes.values(constraint.key)
        counted = per_node_counts(constraint, pod, view)
        if constraint.key == HOSTNAME:
            # Inclusion policies do not apply here.
            pods = {node: counted.get(node, 0) for node in taking_part if node in values}
            terms.append(Term(constraint.key, constraint.max_skew, pods, None))
        else:
            by_value = _sum_by_value(constraint, pod, view, counted)
            pods = {node: by_value.get(values[node], 0) for node in taking_part if node in values}
            # If keys are not required, candidates without the label form one more domain.
            domains = {node: values.get(node, "") for node in taking_part}
            terms.append(Term(constraint.key, constraint.max_skew, pods, domains))
    return terms


def weigh(
    terms: Sequence[Term], sizes: Sequence[int], counts: Iterable[tuple[int | None, ...]]
) -> Mapping[tuple[int | None, ...], int]:
    """Return the raw score from the pods counted for each term; None for a term whose key the node lacks.

    `sizes` has the number of domains of each term among the candidates that take part.
    """
    weights = [log(size + 2) for size in sizes]
    raw = {}
    for counted in counts:
        total = 0.0
        for pods, term, weight in zip(counted, terms, weights, strict=True):
            if pods is not None:
                total += pods * weight + (term.max_skew - 1)
        raw[counted] = _round_half_up(total)
    return raw


def _round_half_up(value: float) -> int:
    """Round half away from zero, as Go does; Python would round half to even."""
    whole = int(value)
    return whole + (value - whole >= 0.5)


def _sum_by_value(
    constraint: EffectiveConstraint, pod: Pod, view: View, counted: Mapping[str, int]
) -> Mapping[str, int]:
    if not requires_all_keys(constraint, view):
        # Nodes without the label count as well, for the empty value.
        constraint = structs.replace(constraint, required_keys=())
    eligible = eligibility(constraint, pod, view).nodes
    values = view.nodes.values(constraint.key)
    totals: dict[str, int] = {}
    for node, count in counted.items():
        if node in eligible:
            value = values.get(node, "")
            totals[value] = totals.get(value, 0) + count
    return totals


def normalize_scores(raw: Mapping[T, int]) -> Mapping[T, int]:
    """Scale raw scores to 0…100 in integer division: 100 * (max + min - raw) / max."""
    if not raw:
        return {}
    most, least = max(raw.values()), min(raw.values())
    if most == 0:
        return dict.fromkeys(raw, 100)
    return {node: 100 * (most + least - value) // most for node, value in raw.items()}
