"""Components: what must be planned together, because it counts the same pods.

A group whose constraints count its own pods alone is one by itself; most are. Groups that count each other's pods, and
groups whose pods a limit counts together, are one component, also where only one of them is violated: repairing it
must not break the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from msgspec import Struct

from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.spread_groups import PodController, workloads_of
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.scope.requirements import ActOn, is_acted_on


class Component(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Groups and limits over the same pods, in a stable order; one of the two may be missing."""

    groups: tuple[EvaluatedGroup, ...]
    limits: tuple[EvaluatedLimit, ...]
    members: tuple[PodController, ...]
    """The owners of all its pods, each once."""
    workloads: tuple[Reference, ...]
    """The workloads by name, sorted, each once."""

    @classmethod
    def of(cls, groups: tuple[EvaluatedGroup, ...], limits: tuple[EvaluatedLimit, ...] = ()) -> Self:
        """Put groups and limits together."""
        if len(groups) == 1 and not limits:
            group = groups[0].group
            return cls(groups=groups, limits=limits, members=group.members, workloads=group.workloads)
        found = {_identity(member): member for judged in groups for member in judged.group.members}
        for limit in limits:
            for part in limit.parts:
                found.setdefault(_identity(part.member), part.member)
        members = tuple(found.values())
        return cls(groups=groups, limits=limits, members=members, workloads=workloads_of(members))

    @property
    def pods(self) -> Sequence[Pod]:
        """All its pods."""
        if len(self.members) == 1:
            return self.members[0].pods
        return [pod for member in self.members for pod in member.pods]

    @property
    def namespace(self) -> str:
        """The namespace of its pods."""
        return self.groups[0].group.namespace if self.groups else self.limits[0].namespace

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle: what is remembered of it goes by it."""
        for judged in self.groups:
            if judged.violated:
                return judged.group.name
        for limit in self.limits:
            if limit.state is not State.SATISFIED:
                return limit.name
        return self.groups[0].group.name

    @property
    def urgency(self) -> tuple[int, str]:
        """By how many pods something is over what it may be, most first; then by name."""
        over = [each.counts.skew - each.constraint.max_skew for judged in self.groups for each in judged.hard]
        over += [-limit.headroom for limit in self.limits]
        return -max(over, default=0), self.name


def _identity(member: PodController) -> tuple[Reference, str]:
    if member.owner is not None:
        return member.reference, member.owner.uid
    return member.reference, ",".join(pod.uid for pod in member.pods)


def find_components(assessment: Assessment, stuck: frozenset[str], act_on: ActOn) -> tuple[Component, ...]:
    """Return what has something to be repaired, the worst first. `stuck` are UIDs of pods that no node admits.

    Violated hard constraints are among it whether they are acted on or not.
    """
    acted = [limit for limit in assessment.limits if is_acted_on(limit)]
    owners = {part.member.owner.uid for limit in acted for part in limit.parts if part.member.owner is not None}
    joined: list[Component] = []
    by_namespace: defaultdict[str, list[EvaluatedGroup]] = defaultdict(list)
    for judged in assessment.groups:
        by_namespace[judged.group.namespace].append(judged)
    limits_in: defaultdict[str, list[EvaluatedLimit]] = defaultdict(list)
    for limit in acted:
        limits_in[limit.namespace].append(limit)
    for namespace in dict.fromkeys((*by_namespace, *limits_in)):
        joined += _joined(by_namespace[namespace], limits_in[namespace], owners)
    every = (*act_on, WhenUnsatisfiable.DO_NOT_SCHEDULE)
    found = [each for each in joined if needs_repair(each, every, stuck)]
    return tuple(sorted(found, key=lambda each: each.urgency))


def needs_repair(component: Component, act_on: ActOn, stuck: frozenset[str]) -> bool:
    """Say whether something in a component is to be repaired."""
    if any(limit.state is not State.SATISFIED and _improvable(limit) for limit in component.limits):
        return True
    for judged in component.groups:
        if judged.violated and WhenUnsatisfiable.DO_NOT_SCHEDULE in act_on:
            return True
        if WhenUnsatisfiable.SCHEDULE_ANYWAY in act_on and any(each.counts.violated for each in judged.soft):
            return True
        if stuck and any(pod.uid in stuck for member in judged.group.members for pod in member.pods):
            return True
    return False


def _improvable(limit: EvaluatedLimit) -> bool:
    """Say whether a limit that may be out of reach is further off than it must be."""
    goal = limit.goal
    if goal is None:
        return limit.headroom < 0
    return limit.maximum > goal if limit.cap is not None else limit.minimum < goal


def _joined(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], owners: set[str]
) -> Iterable[Component]:
    """Put the groups and limits of one namespace together where they count the same pods."""
    sharing = [
        judged
        for judged in groups
        if _counts_others(judged)
        or (owners and any(member.owner and member.owner.uid in owners for member in judged.group.members))
    ]
    if not sharing and not limits:
        return [Component.of((judged,)) for judged in groups]
    parent = list(range(len(groups) + len(limits)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for one, other in _links(groups, limits, sharing):
        first, second = sorted((find(one), find(other)))
        parent[second] = first
    together: defaultdict[int, list[int]] = defaultdict(list)
    for index in range(len(parent)):
        together[find(index)].append(index)
    return [
        Component.of(
            tuple(groups[index] for index in indices if index < len(groups)),
            tuple(limits[index - len(groups)] for index in indices if index >= len(groups)),
        )
        for indices in together.values()
    ]


def _counts_others(judged: EvaluatedGroup) -> bool:
    """Say whether a constraint counts another number of pods than the group has on nodes."""
    own = sum([len(member.pods) for member in judged.group.members])
    found = [sum(each.counts.by_node.values()) for each in (*judged.hard, *judged.soft)]
    if all(count == own for count in found):
        return False
    own = sum(1 for member in judged.group.members for pod in member.pods if pod.node is not None)
    return any(count != own for count in found)


def _links(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], sharing: Sequence[EvaluatedGroup]
) -> Iterable[tuple[int, int]]:
    labels: list[set[Labels]] = [
        {pod.labels for member in judged.group.members for pod in member.pods} for judged in groups
    ]
    position = {id(judged): index for index, judged in enumerate(groups)}
    for judged in sharing:
        index = position[id(judged)]
        selectors = {each.constraint.selector for each in (*judged.hard, *judged.soft)}
        for other, found in enumerate(labels):
            if other != index and any(
                selector is not None and any(selector.matches(each) for each in found) for selector in selectors
            ):
                yield index, other
    owner = {
        member.owner.uid: index
        for index, judged in enumerate(groups)
        for member in judged.group.members
        if member.owner is not None
    }
    by_owner: dict[str, int] = {}
    for number, limit in enumerate(limits, start=len(groups)):
        for part in limit.parts:
            assert part.member.owner is not None, "a limit with pods of nobody is not acted on"
            uid = part.member.owner.uid
            yield number, owner.get(uid, by_owner.setdefault(uid, number))


def current_counts(component: Component) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by key and domain, as the component's constraints and limits see them."""
    found: dict[str, Mapping[str, int]] = {}
    for judged in component.groups:
        for each in (*judged.hard, *judged.soft):
            if each.constraint.hard or each.counts.violated:
                found.setdefault(each.constraint.key, dict(each.counts.by_domain))
    for limit in component.limits:
        found.setdefault(limit.topology_key, dict(limit.counts))
    return found
