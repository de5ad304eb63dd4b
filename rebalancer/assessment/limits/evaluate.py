"""Evaluate limits: which are in force for which pods, and their counts.

What can be done about a violation is planning's part. What is not known is not evaluated.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from rebalancer.assessment.domains import Domains, count_zones, limit_domains
from rebalancer.assessment.limit_groups import (
    Affinities,
    LimitGroup,
    LimitGroupPart,
    affinities_of,
    desired_pods,
    divide_parts,
)
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Memory
from rebalancer.model.pods import Pod
from rebalancer.policy import Limit
from rebalancer.scheduling.pod_topology_spread import DomainCounts
from rebalancer.scheduling.population import count_names
from rebalancer.scheduling.view import View

IGNORE: Final = "rebalancer.dev/ignore-limits"
"""Annotation of pods, owners and namespaces: names of limits, or GROUP/LIMIT, with commas, that exclude them."""

_ANNOTATIONS: Final = attrgetter("annotations")


def evaluate_limits(gathered: Sequence[LimitGroup], view: View, memory: Memory) -> tuple[EvaluatedLimit, ...]:
    """Evaluate every limit in force, in the order of the groups and their limits.

    Without knowledge of nodes there are no domains, and the result is empty.
    """
    if "Node" in view.snapshot.unknown:
        return ()
    evaluator = _LimitEvaluator(view, memory)
    return tuple(limit for group in gathered for limit in evaluator.limits(group))


class _LimitEvaluator:
    """Evaluates the limits of one cluster; holds what the groups share."""

    def __init__(self, view: View, memory: Memory) -> None:
        self._view = view
        self._memory = memory
        self._zones: dict[tuple[str, Affinities], int] = {}
        self._domains: dict[tuple[str, tuple[str, ...] | None, Affinities], Domains] = {}
        self._placed: tuple[tuple[LimitGroupPart, ...] | None, Mapping[str, int]] = None, {}
        """The pods that were counted last, by node."""
        snapshot = view.snapshot
        self._namespaces: dict[str, str] = {
            namespace.name: namespace.annotations[IGNORE]
            for namespace in snapshot.namespaces
            if IGNORE in namespace.annotations
        }
        self._ignored = (
            bool(self._namespaces)
            or any(IGNORE in workload.annotations for workload in snapshot.workloads)
            or any(IGNORE in annotations for annotations in filter(None, map(_ANNOTATIONS, snapshot.pods)))
        )

    def limits(self, group: LimitGroup) -> Iterator[EvaluatedLimit]:
        """Yield the evaluated limits of one group."""
        ignoring = self._ignored and self._has_ignored(group.parts)
        affinities = affinities_of(group.parts)
        for rule in group.group.limits:
            if ignoring or rule.selector is not None or rule.group_by is not None:
                for key, parts in self._divide(group, rule):
                    yield from self._evaluate_rule(group, rule, key, parts, affinities_of(parts))
            else:
                yield from self._evaluate_rule(group, rule, group.key, group.parts, affinities)

    def _divide(self, group: LimitGroup, rule: Limit) -> Iterator[tuple[Labels, tuple[LimitGroupPart, ...]]]:
        """Yield the set, or the sets, of the group's pods that the limit counts."""
        parts_by_key: dict[Labels, list[LimitGroupPart]] = {}
        meant = [
            part for part in (self._without_ignored(part, group, rule) for part in group.parts) if part is not None
        ]
        selector = rule.selector.compiled if rule.selector is not None else None
        for key, part in divide_parts(meant, selector, rule.group_by or ()):
            parts_by_key.setdefault(key, []).append(part)
        for key in sorted(parts_by_key, key=lambda labels: sorted(labels.items())):
            yield Labels({**group.key, **key}), tuple(parts_by_key[key])

    def _evaluate_rule(
        self, group: LimitGroup, rule: Limit, key: Labels, parts: tuple[LimitGroupPart, ...], affinities: Affinities
    ) -> Iterator[EvaluatedLimit]:
        number = desired_pods(parts, rule.of, group.population)
        zone = group.group.zone_key, affinities
        there = self._zones.get(zone)
        if there is None:
            there = self._zones[zone] = count_zones(group.group.zone_key, affinities, self._view, self._memory)
        if not number or not rule.when.holds(zones=there, total=number):
            return
        meant = self._domains_of(rule.topology_key, rule.domains, affinities)
        if rule.within is None:
            yield self._make(group, rule, key, parts, number, meant)
            return
        for value, nodes in sorted(self._domains_of(rule.within, None, affinities).nodes.items()):
            inner = {inner_value: names & nodes for inner_value, names in meant.nodes.items() if names & nodes}
            inside = tuple(LimitGroupPart(member=part.member, pods=_pods_on(part.pods, nodes)) for part in parts)
            standing = sum(len(part.pods) for part in inside)
            larger = Labels({**key, rule.within: value})
            yield self._make(group, rule, larger, inside, standing, Domains(inner, len(inner)))

    def _make(
        self,
        group: LimitGroup,
        rule: Limit,
        key: Labels,
        parts: tuple[LimitGroupPart, ...],
        number: int,
        meant: Domains,
    ) -> EvaluatedLimit:
        filled, nodes = self._count_by_domain(parts, rule.topology_key), meant.nodes
        if not filled.keys() <= nodes.keys():
            if rule.domains is not None:
                filled = {value: count for value, count in filled.items() if value in nodes}
            else:
                nodes = {**nodes, **{value: frozenset[str]() for value in filled if value not in nodes}}
        share = rule.max_share
        return EvaluatedLimit(
            gathered=group,
            rule=rule,
            key=key,
            parts=parts,
            counts=DomainCounts(nodes, filled),
            total=number,
            existing=meant.existing,
            cap=share.cap(number) if share is not None else rule.max_pods,
            view=self._view,
        )

    def _count_by_domain(self, parts: tuple[LimitGroupPart, ...], key: str) -> Mapping[str, int]:
        """Count the pods by domain; pods without a node, or on a node without the key, are left out."""
        if parts is not self._placed[0]:  # most often the same pods as for the rule before
            pods = parts[0].pods if len(parts) == 1 else [pod for part in parts for pod in part.pods]
            self._placed = parts, count_names([pod.node for pod in pods if pod.node is not None])
        by_node, index = self._placed[1], self._view.nodes
        carrying = index.values(key)
        if not by_node.keys() <= carrying.keys():
            by_node = {node: count for node, count in by_node.items() if node in carrying}
        return index.by_value(key, by_node)

    def _domains_of(self, key: str, declared: tuple[str, ...] | None, affinities: Affinities) -> Domains:
        domains = self._domains.get((key, declared, affinities))
        if domains is None:
            domains = self._domains[key, declared, affinities] = limit_domains(key, declared, affinities, self._view)
        return domains

    # The annotation that excludes pods from limits

    def _has_ignored(self, parts: Sequence[LimitGroupPart]) -> bool:
        """Return whether an annotation excludes anything of the group from a limit."""
        return any(
            part.member.reference.namespace in self._namespaces
            or any(owner is not None and IGNORE in owner.annotations for owner in (part.member.owner, part.member.top))
            or any(IGNORE in pod.annotations for pod in part.pods)
            for part in parts
        )

    def _without_ignored(self, part: LimitGroupPart, group: LimitGroup, rule: Limit) -> LimitGroupPart | None:
        names = {rule.name, f"{group.group.name}/{rule.name}"}
        owners = [owner.annotations for owner in (part.member.owner, part.member.top) if owner is not None]
        texts = [annotations[IGNORE] for annotations in owners if IGNORE in annotations]
        texts.append(self._namespaces.get(part.member.reference.namespace, ""))
        if any(_lists_any(text, names) for text in texts):
            return None
        pods = tuple(pod for pod in part.pods if not _lists_any(pod.annotations.get(IGNORE, ""), names))
        return part if len(pods) == len(part.pods) else LimitGroupPart(member=part.member, pods=pods)


def _lists_any(text: str, names: set[str]) -> bool:
    return bool(text) and not names.isdisjoint(name.strip() for name in text.split(","))


def _pods_on(pods: Sequence[Pod], nodes: frozenset[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.node in nodes)
