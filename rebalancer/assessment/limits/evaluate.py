"""Evaluate limits: which limits are in force for which pods, and their counts.

Planning decides how to repair a violation. Limits without known domains are not evaluated.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from rebalancer.assessment.controllers import count_members_pods
from rebalancer.assessment.domains import Domains, count_zones, limit_domains
from rebalancer.assessment.known_domains import DomainKnowledge, NodeNeeds, known_for
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
from rebalancer.model.moves import PlanningMemory
from rebalancer.model.pods import Pod
from rebalancer.policy import Limit
from rebalancer.scheduling.node_index import count_names
from rebalancer.scheduling.pod_topology_spread import DomainCounts
from rebalancer.scheduling.view import View

IGNORE: Final = "rebalancer.dev/ignore-limits"
"""Annotation of pods, owners and namespaces: names of limits, or GROUP/LIMIT, with commas, that exclude them."""

_ANNOTATIONS: Final = attrgetter("annotations")


def evaluate_limits(
    gathered: Sequence[LimitGroup], view: View, memory: PlanningMemory, knowledge: DomainKnowledge
) -> tuple[EvaluatedLimit, ...]:
    """Evaluate every limit in force, in the order of the groups and their limits.

    Without knowledge of nodes there are no domains, and the result is empty.
    """
    if "Node" in view.snapshot.unknown:
        return ()
    evaluator = _LimitEvaluator(view, memory, knowledge)
    return tuple(limit for group in gathered for limit in evaluator.limits(group))


class _LimitEvaluator:
    """Evaluates the limits of one cluster; holds what the groups share."""

    def __init__(self, view: View, memory: PlanningMemory, knowledge: DomainKnowledge) -> None:
        self._view = view
        self._memory = memory
        self._knowledge = knowledge
        self._zones: dict[tuple[str, Affinities, frozenset[str]], int] = {}
        self._domains: dict[tuple[str, tuple[str, ...] | None, Affinities, frozenset[str]], Domains] = {}
        self._without_nodes: dict[tuple[str, frozenset[NodeNeeds]], frozenset[str]] = {}
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
        for rule in group.policy_group.limits:
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
        needs = self._needs_of(parts)
        there = self._count_zones(group.policy_group.zone_key, affinities, needs)
        if not number or not rule.when.holds(zones=there, total=number):
            return
        if rule.within is None:
            without_nodes = self._find_without_nodes(rule.topology_key, needs)
            meant = self._domains_of(rule.topology_key, rule.domains, affinities, without_nodes)
            yield self._make(group, rule, key, parts, number, meant)
            return
        meant = self._domains_of(rule.topology_key, rule.domains, affinities)
        for value, nodes in sorted(self._domains_of(rule.within, None, affinities).nodes.items()):
            inner = {inner_value: names & nodes for inner_value, names in meant.nodes.items() if names & nodes}
            inside = tuple(LimitGroupPart(member=part.member, pods=_pods_on(part.pods, nodes)) for part in parts)
            standing = sum(len(part.pods) for part in inside)
            larger = Labels({**key, rule.within: value})
            yield self._make(group, rule, larger, inside, standing, Domains(inner, len(inner), len(inner)))

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
        # If the domains are all values that nodes carry, no pod is in another domain.
        if nodes is not self._view.nodes.groups(rule.topology_key) and not filled.keys() <= nodes.keys():
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
            possible=meant.possible,
            cap=share.cap(number) if share is not None else rule.max_pods,
            view=self._view,
        )

    def _count_by_domain(self, parts: tuple[LimitGroupPart, ...], key: str) -> Mapping[str, int]:
        """Count the pods by domain; pods without a node, or on a node without the key, are left out."""
        if parts is not self._placed[0]:  # mostly the same pods as for the previous rule
            self._placed = parts, self._count_by_node(parts)
        by_node, index = self._placed[1], self._view.nodes
        carrying = index.values(key)
        if len(carrying) < len(index.by_name) and not by_node.keys() <= carrying.keys():
            by_node = {node: count for node, count in by_node.items() if node in carrying}
        return index.by_value(key, by_node)

    def _count_by_node(self, parts: tuple[LimitGroupPart, ...]) -> Mapping[str, int]:
        if len(parts) == 1:
            member, pods = parts[0].member, parts[0].pods
            counts = count_members_pods(member, self._view) if pods is member.pods else None
            if counts is not None:
                return counts
        known = self._view.nodes.by_name
        nodes = [pod.node for part in parts for pod in part.pods]
        return count_names([node for node in nodes if node is not None and node in known])

    def _domains_of(
        self,
        key: str,
        declared: tuple[str, ...] | None,
        affinities: Affinities,
        without_nodes: frozenset[str] = frozenset(),
    ) -> Domains:
        place = key, declared, affinities, without_nodes
        domains = self._domains.get(place)
        if domains is None:
            domains = self._domains[place] = limit_domains(key, declared, affinities, self._view, without_nodes)
        return domains

    def _count_zones(self, key: str, affinities: Affinities, needs: frozenset[NodeNeeds]) -> int:
        without_nodes = self._find_without_nodes(key, needs)
        place = key, affinities, without_nodes
        zones = self._zones.get(place)
        if zones is None:
            ignored = self._knowledge.ignored.get(key, ())
            zones = self._zones[place] = count_zones(
                key, affinities, self._view, self._memory, without_nodes=without_nodes, ignored=ignored
            )
        return zones

    # Domains that are known to exist without nodes

    def _needs_of(self, parts: Sequence[LimitGroupPart]) -> frozenset[NodeNeeds]:
        if not self._knowledge.knows_more:
            return frozenset()
        samples = [part.member.sample for part in parts]
        return frozenset([NodeNeeds.of(sample) for sample in samples if sample is not None])

    def _find_without_nodes(self, key: str, needs: frozenset[NodeNeeds]) -> frozenset[str]:
        if not needs:
            return frozenset()
        known = self._without_nodes.get((key, needs))
        if known is None:
            nodes = self._domains_of(key, None, frozenset(need.affinity for need in needs)).nodes
            present = {value for value, names in nodes.items() if names}
            domains = known_for(self._knowledge, key, needs, self._view, present).values()
            known = self._without_nodes[key, needs] = frozenset(domain.value for domain in domains if domain.counts)
        return known

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
        names = {rule.name, f"{group.policy_group.name}/{rule.name}"}
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
