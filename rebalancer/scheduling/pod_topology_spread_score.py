"""PodTopologySpread's score: how the soft constraints rank the nodes that passed every filter.

Source: `podtopologyspread/scoring.go`; docs/semantics.md, "Soft constraints".
"""

from collections.abc import Mapping, Sequence
from math import log

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


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100, the fewer matching pods the better; None for a pod without soft constraints.

    `nodes` are the candidates: sizes and extremes are those of the candidates, while pods are counted everywhere.
    """
    constraints = constraints_of(pod, view)
    if not constraints.soft:
        return None
    raw = compute_raw_scores(constraints, pod, view, nodes)
    return {**dict.fromkeys(nodes, 0), **normalize_scores(raw)}


def requires_all_keys(constraint: EffectiveConstraint, view: View) -> bool:
    """Say whether a node must carry every soft key: always, except for the system's own defaults."""
    return constraint.origin is not Origin.DEFAULT or view.profile.default_constraints is not None


def compute_raw_scores(constraints: Constraints, pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return the raw score of each candidate that takes part; fewer is better."""
    soft = constraints.soft
    index = view.nodes
    taking_part: Sequence[str] = nodes
    if requires_all_keys(soft[0], view):
        carrying = index.carrying(soft[0].required_keys)
        taking_part = [node for node in nodes if node in carrying]
    sums = dict.fromkeys(taking_part, 0.0)
    for constraint in soft:
        values = index.values(constraint.key)
        counted = per_node_counts(constraint, pod, view)
        if constraint.key == HOSTNAME:
            # Each node is its own domain here, whatever its label says, and inclusion policies do not apply.
            by_place: Mapping[str, int] = counted
            place = {node: node for node in taking_part if node in values}
            size = len(taking_part)
        else:
            place = {node: values[node] for node in taking_part if node in values}
            by_place = _sum_by_value(constraint, pod, view, counted)
            # Where keys are not required, candidates without the label make up one more domain.
            size = len(set(place.values()) | ({""} if len(place) < len(taking_part) else set()))
        weight = log(size + 2)
        for node, domain in place.items():
            sums[node] += by_place.get(domain, 0) * weight + (constraint.max_skew - 1)
    return {node: _round_half_up(total) for node, total in sums.items()}


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


def normalize_scores(raw: Mapping[str, int]) -> Mapping[str, int]:
    """Scale raw scores to 0…100 in integer division: 100 * (max + min - raw) / max."""
    if not raw:
        return {}
    most, least = max(raw.values()), min(raw.values())
    if most == 0:
        return dict.fromkeys(raw, 100)
    return {node: 100 * (most + least - value) // most for node, value in raw.items()}
