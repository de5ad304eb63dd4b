"""Judging limits: which are in force for which pods, and the counts that they see.

What could be done about a violation is planning's. What is not known is not judged.
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
"""Annotation of pods, owners and namespaces: names of limits, or GROUP/LIMIT, with commas, that leave them out."""

_ANNOTATIONS: Final = attrgetter("annotations")


def evaluate_limits(gathered: Sequence[LimitGroup], view: View, memory: Memory) -> tuple[EvaluatedLimit, ...]:
    """Judge every limit that is in force, in the order of the groups and their limits.

    Without knowledge of nodes there are no domains, and nothing is judged.
    """
    if "Node" in view.snapshot.unknown:
        return ()
    judge = _Judge(view, memory)
    return tuple(limit for group in gathered for limit in judge.limits(group))


class _Judge:
    """What the judgement of one cluster shares between its groups."""

    def __init__(self, view: View, memory: Memory) -> None:
        self._view = view
        self._memory = memory
        self._zones: dict[tuple[str, Affinities], int] = {}
        self._domains: dict[tuple[str, tuple[str, ...] | None, Affinities], Domains] = {}
        self._placed: tuple[tuple[LimitGroupPart, ...] | None, Mapping[str, int]] = None, {}
        """The pods that were judged last, by node."""
        snapshot = view.snapshot
        self._namespaces: dict[str, str] = {
            each.name: each.annotations[IGNORE] for each in snapshot.namespaces if IGNORE in each.annotations
        }
        self._ignored = (
            bool(self._namespaces)
            or any(IGNORE in each.annotations for each in snapshot.workloads)
            or any(IGNORE in annotations for annotations in filter(None, map(_ANNOTATIONS, snapshot.pods)))
        )

    def limits(self, group: LimitGroup) -> Iterator[EvaluatedLimit]:
        """Judge the limits of one group."""
        ignoring = self._ignored and self._ignoring(group.parts)
        affinities = affinities_of(group.parts)
        for rule in group.group.limits:
            if ignoring or rule.selector is not None or rule.group_by is not None:
                for key, parts in self._divided(group, rule):
                    yield from self._judged(group, rule, key, parts, affinities_of(parts))
            else:
                yield from self._judged(group, rule, group.key, group.parts, affinities)

    def _divided(self, group: LimitGroup, rule: Limit) -> Iterator[tuple[Labels, tuple[LimitGroupPart, ...]]]:
        """Yield the part of the group's pods that the limit is about, or the several parts."""
        found: dict[Labels, list[LimitGroupPart]] = {}
        meant = [part for part in (self._obliged(part, group, rule) for part in group.parts) if part is not None]
        selector = rule.selector.compiled if rule.selector is not None else None
        for key, part in divide_parts(meant, selector, rule.group_by or ()):
            found.setdefault(key, []).append(part)
        for key in sorted(found, key=lambda each: sorted(each.items())):
            yield Labels({**group.key, **key}), tuple(found[key])

    def _judged(
        self, group: LimitGroup, rule: Limit, key: Labels, parts: tuple[LimitGroupPart, ...], affinities: Affinities
    ) -> Iterator[EvaluatedLimit]:
        number = desired_pods(parts, rule.of, group.population)
        zone = group.group.zone_key, affinities
        there = self._zones.get(zone)
        if there is None:
            there = self._zones[zone] = count_zones(group.group.zone_key, affinities, self._view, self._memory)
        if not number or not rule.when.holds(zones=there, total=number):
            return
        meant = self._meant(rule.topology_key, rule.domains, affinities)
        if rule.within is None:
            yield self._made(group, rule, key, parts, number, meant)
            return
        for value, nodes in sorted(self._meant(rule.within, None, affinities).nodes.items()):
            inner = {each: names & nodes for each, names in meant.nodes.items() if names & nodes}
            inside = tuple(LimitGroupPart(member=each.member, pods=_standing(each.pods, nodes)) for each in parts)
            standing = sum(len(part.pods) for part in inside)
            larger = Labels({**key, rule.within: value})
            yield self._made(group, rule, larger, inside, standing, Domains(inner, len(inner)))

    def _made(
        self,
        group: LimitGroup,
        rule: Limit,
        key: Labels,
        parts: tuple[LimitGroupPart, ...],
        number: int,
        meant: Domains,
    ) -> EvaluatedLimit:
        filled, nodes = self._filled(parts, rule.topology_key), meant.nodes
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

    def _filled(self, parts: tuple[LimitGroupPart, ...], key: str) -> Mapping[str, int]:
        """Count the pods by domain, without those that have no node, or one without the key."""
        if parts is not self._placed[0]:  # most often the same pods as for the rule before
            pods = parts[0].pods if len(parts) == 1 else [pod for part in parts for pod in part.pods]
            self._placed = parts, count_names([pod.node for pod in pods if pod.node is not None])
        by_node, index = self._placed[1], self._view.nodes
        carrying = index.values(key)
        if not by_node.keys() <= carrying.keys():
            by_node = {node: count for node, count in by_node.items() if node in carrying}
        return index.by_value(key, by_node)

    def _meant(self, key: str, declared: tuple[str, ...] | None, affinities: Affinities) -> Domains:
        found = self._domains.get((key, declared, affinities))
        if found is None:
            found = self._domains[key, declared, affinities] = limit_domains(key, declared, affinities, self._view)
        return found

    # The annotation that leaves pods out

    def _ignoring(self, parts: Sequence[LimitGroupPart]) -> bool:
        """Say whether anything of the group leaves some limit."""
        return any(
            part.member.reference.namespace in self._namespaces
            or any(each is not None and IGNORE in each.annotations for each in (part.member.owner, part.member.top))
            or any(IGNORE in pod.annotations for pod in part.pods)
            for part in parts
        )

    def _obliged(self, part: LimitGroupPart, group: LimitGroup, rule: Limit) -> LimitGroupPart | None:
        names = {rule.name, f"{group.group.name}/{rule.name}"}
        owners = [each.annotations for each in (part.member.owner, part.member.top) if each is not None]
        texts = [each[IGNORE] for each in owners if IGNORE in each]
        texts.append(self._namespaces.get(part.member.reference.namespace, ""))
        if any(_lists(text, names) for text in texts):
            return None
        pods = tuple(pod for pod in part.pods if not _lists(pod.annotations.get(IGNORE, ""), names))
        return part if len(pods) == len(part.pods) else LimitGroupPart(member=part.member, pods=pods)


def _lists(text: str, names: set[str]) -> bool:
    return bool(text) and not names.isdisjoint(each.strip() for each in text.split(","))


def _standing(pods: Sequence[Pod], nodes: frozenset[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.node in nodes)
