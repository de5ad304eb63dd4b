"""The nodes that may have the highest total of a sample, if kube-scheduler scores only some of the nodes.

Problem: four plugins scale their scores by the extremes of the sample, and PodTopologySpread weighs by the number of
its domains. Which nodes are sampled is not known.

Idea: nodes of equal raw scores are one group. In one case, with the extremes and the numbers of domains fixed, every
total is exact. Rank the groups by total: as soon as every sample has a node of the groups passed (`sampling`), no lower
group can be the highest. The result has the candidates of all possible cases.

Example: 150 nodes in three zones, a soft constraint over zones that hold 10, 10 and 0 pods. Every sample has nodes of
each zone, so there is one case: 3 domains, extremes 0 and 16. The nodes of the third zone have the highest totals, and
every sample has such a node: only they are candidates.

Cost: cases times groups, at most `MOST_TOTALS`; with more, every feasible node is a candidate.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from rebalancer.model.pods import Pod
from rebalancer.scheduling import (
    image_locality,
    inter_pod_affinity_score,
    node_affinity,
    node_resources_balanced_allocation,
    node_resources_fit,
    pod_topology_spread_score,
    taint_toleration,
    volume_binding,
)
from rebalancer.scheduling.plugin import scale_to_hundred
from rebalancer.scheduling.pod_topology_spread_score import Term
from rebalancer.scheduling.sampling import Search, zone_numbers
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.view import View

MOST_TOTALS: Final = 50_000
"""Cases times groups that are computed for one pod: some 50 ms."""
MOST_DOMAINS: Final = 64
"""Up to this many domains of one key, a search finds the domains that are in every sample."""

Counts: TypeAlias = tuple[int, ...]
"""Nodes by zone of the scheduler's list."""

ALONE: Final = {
    "NodeResourcesFit": node_resources_fit.score,
    "NodeResourcesBalancedAllocation": node_resources_balanced_allocation.score,
    "ImageLocality": image_locality.score,
}
"""Plugins that score each node by itself, pods of equal specs alike."""
VOLUMES: Final = "VolumeBinding"
"""A plugin that also scores each node by itself, by the claims of the pod."""


class _Scale(NamedTuple):
    """How a plugin scales the raw scores of a sample; `by_least`: by the least score, too."""

    raw: Callable[[Pod, View, Sequence[str]], Mapping[str, int] | None]
    normalize: Callable[[Mapping[int, int]], Mapping[int, int]]
    by_least: bool


def _count_untolerated(pod: Pod, view: View, _: Sequence[str]) -> Mapping[str, int]:
    """Count for all nodes, once for all pods of equal tolerations."""
    names = tuple(view.nodes.by_name)
    key = "untolerated", pod.spec.tolerations
    return view.memo(key, lambda: taint_toleration.count_untolerated(pod, view, names))


def _scale_reversed(raw: Mapping[int, int]) -> Mapping[int, int]:
    return scale_to_hundred(raw, reverse=True)


SCALED: Final[Mapping[str, _Scale]] = {
    "TaintToleration": _Scale(_count_untolerated, _scale_reversed, by_least=False),
    "NodeAffinity": _Scale(node_affinity.sum_weights, scale_to_hundred, by_least=False),
    "InterPodAffinity": _Scale(inter_pod_affinity_score.sum_weights, inter_pod_affinity_score.normalize, by_least=True),
}
SPREAD: Final = "PodTopologySpread"


class _Group(NamedTuple):
    """The values that the nodes of one group share.

    `alone` is the weighted sum of the plugins that score each node by itself. `raw` has the raw score of each plugin
    that scales, `pods` the counted pods of each soft constraint.
    """

    alone: int
    raw: tuple[int, ...]
    pods: tuple[int | None, ...]


class _Axis(NamedTuple):
    """The raw scores of one plugin by group, and how they are scaled and weighted."""

    raw: Mapping[_Group, int]
    normalize: Callable[[Mapping[int, int]], Mapping[int, int]]
    by_least: bool
    weight: int


def best_of_samples(pod: Pod, view: View, nodes: frozenset[str], search: Search) -> frozenset[str]:
    """Return the feasible nodes that may have the highest total of the nodes that are scored.

    `nodes` are more than `search.enough`. All of them are returned if nothing more precise is known.
    """
    weights = view.profile.weights
    ordered = view.nodes.in_order(nodes)
    terms = _count_terms(pod, view, ordered) if SPREAD in weights else ()
    if terms is None:
        return nodes
    scales = [
        (scale, raw, weights[name])
        for name, scale in SCALED.items()
        if name in weights and (raw := scale.raw(pod, view, ordered)) is not None
    ]
    alone = _score_alone(pod, view, ordered)
    members: dict[_Group, list[str]] = {}
    for node in ordered:
        group = _Group(
            alone[node], tuple([raw[node] for _, raw, _ in scales]), tuple([term.pods.get(node) for term in terms])
        )
        members.setdefault(group, []).append(node)
    # The nodes that an affinity names are listed in any order, like the nodes of one zone.
    zones = zone_numbers(view) if len(search.zones) > 1 else dict.fromkeys(ordered, 0)
    samples = _Samples(search, zones, members)
    axes = [
        _Axis({group: group.raw[number] for group in members}, scale.normalize, scale.by_least, weight)
        for number, (scale, _, weight) in enumerate(scales)
    ]
    sizes = samples.count_domains(terms, ordered)
    if sizes is None:
        return nodes
    candidates: set[_Group] = set()
    totals = 0
    for numbers in sizes:
        spread = _weigh(terms, numbers, members, weights) if terms else ()
        cases = [samples.scale(axis) for axis in (*axes, *spread)]
        totals += prod(map(len, cases)) * len(members)
        if totals > MOST_TOTALS:
            return nodes
        for case in product(*cases):
            candidates.update(samples.find_highest(case))
    return frozenset([node for group in candidates for node in members[group]])


def _score_alone(pod: Pod, view: View, ordered: Sequence[str]) -> Mapping[str, int]:
    """Return the weighted sum of the plugins that score each node by itself."""

    def add_up(state: View, nodes: Sequence[str]) -> Mapping[str, int]:
        weights = state.profile.weights
        parts = [(weights[name], score(pod, state, nodes)) for name, score in ALONE.items() if name in weights]
        return {node: sum([weight * scored[node] for weight, scored in parts if scored is not None]) for node in nodes}

    spec = pod.spec
    sums = view.scored_nodes(("alone", spec.requests, spec.scored, spec.images, spec.containers), add_up)
    weight = view.profile.weights.get(VOLUMES)
    by_volumes = volume_binding.score(pod, view, ordered) if weight is not None else None
    if weight is None or by_volumes is None:
        return sums
    return {node: sums[node] + weight * by_volumes[node] for node in ordered}


def _count_terms(pod: Pod, view: View, ordered: Sequence[str]) -> Sequence[Term] | None:
    """Return what the soft constraints count; None if some nodes take no part in that score."""
    constraints = constraints_of(pod, view)
    if not constraints.soft:
        return ()
    if len(pod_topology_spread_score.find_taking_part(constraints, view, ordered)) < len(ordered):
        return None
    return pod_topology_spread_score.count_terms(constraints, pod, view, ordered)


def _weigh(
    terms: Sequence[Term], sizes: Sequence[int], members: Iterable[_Group], weights: Mapping[str, int]
) -> Sequence[_Axis]:
    raw = pod_topology_spread_score.weigh(terms, sizes, {group.pods for group in members})
    by_group = {group: raw[group.pods] for group in members}
    return [_Axis(by_group, pod_topology_spread_score.normalize_scores, by_least=True, weight=weights[SPREAD])]


Scaled: TypeAlias = Mapping[_Group, int | None]
"""Weighted scores by group; None for a group that no sample of the case has."""


class _Samples:
    """Which groups may come first in a sample, in a given order: used for extremes and for highest totals."""

    def __init__(self, search: Search, zones: Mapping[str, int], members: Mapping[_Group, Sequence[str]]) -> None:
        self._search = search
        self._zones = zones
        self._counts = {group: self._count(nodes) for group, nodes in members.items()}
        self._feasible = self._sum(members)

    def _count(self, nodes: Iterable[str]) -> Counts:
        counts = [0] * len(self._search.zones)
        for node in nodes:
            counts[self._zones[node]] += 1
        return tuple(counts)

    def _sum(self, groups: Iterable[_Group]) -> Counts:
        counts = [0] * len(self._search.zones)
        for group in groups:
            for zone, number in enumerate(self._counts[group]):
                counts[zone] += number
        return tuple(counts)

    def _may_come_first(self, ordered: Sequence[Sequence[_Group]]) -> int:
        """Return how many leading entries, in this order, may come first: until every sample has a node of them."""
        passed = list(
            accumulate(map(self._sum, ordered), lambda left, right: tuple(map(sum, zip(left, right, strict=True))))
        )
        sure = bisect_left(passed, True, key=lambda counts: self._search.must_find(self._feasible, counts))
        return min(len(ordered), sure + 1)

    def count_domains(self, terms: Sequence[Term], ordered: Sequence[str]) -> Iterator[Sequence[int]] | None:
        """Return each possible number of domains of the terms in a sample; None if there are too many domains."""
        ranges: dict[str, Sequence[int]] = {}
        for term in terms:
            if term.domains is None:
                ranges[term.key] = [self._search.enough]
                continue
            nodes: dict[str, list[str]] = {}
            for node in ordered:
                nodes.setdefault(term.domains[node], []).append(node)
            if len(nodes) > MOST_DOMAINS:
                return None
            sure = sum(self._search.must_find(self._feasible, self._count(inside)) for inside in nodes.values())
            ranges[term.key] = range(max(1, sure), min(len(nodes), self._search.enough) + 1)
        keys = list(ranges)
        return (
            [numbers[keys.index(term.key)] for term in terms] for numbers in product(*(ranges[key] for key in keys))
        )

    def scale(self, axis: _Axis) -> Sequence[Scaled]:
        """Return the weighted scores of each possible pair of extremes."""
        groups: dict[int, list[_Group]] = {}
        for group, value in axis.raw.items():
            groups.setdefault(value, []).append(group)
        values = sorted(groups)
        by_value = [groups[value] for value in values]
        mosts = values[-self._may_come_first(by_value[::-1]) :]
        leasts = values[: self._may_come_first(by_value)] if axis.by_least else values[:1]
        cases = []
        for least, most in product(leasts, mosts):
            if least <= most:
                scaled = axis.normalize({value: value for value in values if least <= value <= most})
                cases.append(
                    {
                        group: axis.weight * scaled[value] if value in scaled else None
                        for group, value in axis.raw.items()
                    }
                )
        return cases

    def find_highest(self, case: Sequence[Scaled]) -> Iterator[_Group]:
        """Yield the groups that may have the highest total of a sample in one case."""
        levels: dict[int, list[_Group]] = {}
        absent = []
        for group in self._counts:
            total = group.alone
            for scaled in case:
                score = scaled[group]
                if score is None:
                    absent.append(group)
                    break
                total += score
            else:
                levels.setdefault(total, []).append(group)
        # A sample of this case has no absent group; if every sample has one, the case cannot occur.
        ranked = [absent, *(levels[total] for total in sorted(levels, reverse=True))]
        for level in ranked[1 : self._may_come_first(ranked)]:
            yield from level
