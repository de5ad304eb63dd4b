"""Components: groups and limits that must be planned together, because they count the same pods.

A group whose constraints count its own pods alone is one by itself; most are. Groups that count each other's pods, and
groups whose pods a limit counts together, are one component, also where only one of them is violated: repairing it
must not break the others.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
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
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import DomainCounts
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View

Counts = Mapping[str, Mapping[str, int]]
"""Pods by topology key and domain."""

_LONGEST_BACKOFF = timedelta(seconds=10)
"""The longest back-off of the scheduler's queue: after it, a pod is tried whenever something changes."""


class Component(Struct, frozen=True, kw_only=True, gc=False):
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
            group = groups[0].spread
            return cls(groups=groups, limits=limits, members=group.members, workloads=group.workloads)
        by_identity = {_identity(member): member for evaluated in groups for member in evaluated.spread.members}
        for limit in limits:
            for part in limit.parts:
                by_identity.setdefault(_identity(part.member), part.member)
        members = tuple(by_identity.values())
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
        return self.groups[0].spread.namespace if self.groups else self.limits[0].namespace

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle; the memory is stored by it."""
        for evaluated in self.groups:
            if evaluated.violated:
                return evaluated.spread.name
        for limit in self.limits:
            if limit.state is not State.SATISFIED:
                return limit.name
        return self.groups[0].spread.name

    @property
    def urgency(self) -> tuple[int, str]:
        """A sort key: the most pods above a bound first, then by name."""
        over = [
            constraint.counts.skew - constraint.constraint.max_skew
            for evaluated in self.groups
            for constraint in evaluated.hard
        ]
        over += [-limit.headroom for limit in self.limits]
        return -max(over, default=0), self.name


def _identity(member: PodController) -> tuple[Reference, str]:
    if member.owner is not None:
        return member.reference, member.owner.uid
    return member.reference, ",".join(pod.uid for pod in member.pods)


# Many branches: gathered by namespace, joined there, then those that need a repair; each with and without `only`.
def find_components(
    assessment: Assessment, stuck: frozenset[str], act_on: ActOn, only: Collection[Reference] | None = None
) -> tuple[Component, ...]:
    """Return the components that need a repair, the worst first. `stuck` are UIDs of pods that no node admits.

    Violated hard constraints are among them whether they are acted on or not. `only` are workloads: then components
    without any of them are left out.
    """
    near = {workload.namespace for workload in only or ()}
    acted = [limit for limit in assessment.limits if is_acted_on(limit) and (only is None or limit.namespace in near)]
    owners = {part.member.owner.uid for limit in acted for part in limit.parts if part.member.owner is not None}
    joined: list[Component] = []
    by_namespace: defaultdict[str, list[EvaluatedGroup]] = defaultdict(list)
    for evaluated in assessment.groups:
        by_namespace[evaluated.spread.namespace].append(evaluated)
    limits_in: defaultdict[str, list[EvaluatedLimit]] = defaultdict(list)
    for limit in acted:
        limits_in[limit.namespace].append(limit)
    for namespace in dict.fromkeys((*by_namespace, *limits_in)) if only is None else sorted(near):
        joined += _join(by_namespace[namespace], limits_in[namespace], owners)
    every = (*act_on, WhenUnsatisfiable.DO_NOT_SCHEDULE)
    wanted = joined if only is None else [one for one in joined if not set(one.workloads).isdisjoint(only)]
    violated = [component for component in wanted if needs_repair(component, every, stuck)]
    return tuple(sorted(violated, key=lambda component: component.urgency))


def needs_repair(component: Component, act_on: ActOn, stuck: frozenset[str]) -> bool:
    """Return whether a constraint, a limit or a stuck pod of a component is to be repaired."""
    if any(limit.state is not State.SATISFIED and limit.improvable for limit in component.limits):
        return True
    for evaluated in component.groups:
        if evaluated.violated and WhenUnsatisfiable.DO_NOT_SCHEDULE in act_on:
            return True
        if WhenUnsatisfiable.SCHEDULE_ANYWAY in act_on and any(
            constraint.counts.violated for constraint in evaluated.soft
        ):
            return True
        if stuck and any(pod.uid in stuck for member in evaluated.spread.members for pod in member.pods):
            return True
    return False


# Many branches: union-find over groups and limits: gather, join, and hand out.
def _join(groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], owners: set[str]) -> Iterable[Component]:
    """Put the groups and limits of one namespace together where they count the same pods."""
    sharing = [
        evaluated
        for evaluated in groups
        if _counts_others(evaluated)
        or (owners and any(member.owner and member.owner.uid in owners for member in evaluated.spread.members))
    ]
    if not sharing and not limits:
        return [Component.of((evaluated,)) for evaluated in groups]
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


def _counts_others(evaluated: EvaluatedGroup) -> bool:
    """Return whether a constraint counts another number of pods than the group has on nodes."""
    own = sum([len(member.pods) for member in evaluated.spread.members])
    counted = [sum(constraint.counts.by_node.values()) for constraint in (*evaluated.hard, *evaluated.soft)]
    if all(count == own for count in counted):
        return False
    own = sum(1 for member in evaluated.spread.members for pod in member.pods if pod.node is not None)
    return any(count != own for count in counted)


# Many branches: two kinds of links, by selector and by owner; most are in comprehensions.
def _links(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], sharing: Sequence[EvaluatedGroup]
) -> Iterable[tuple[int, int]]:
    labels: list[set[Labels]] = [
        {pod.labels for member in evaluated.spread.members for pod in member.pods} for evaluated in groups
    ]
    position = {id(evaluated): index for index, evaluated in enumerate(groups)}
    for evaluated in sharing:
        index = position[id(evaluated)]
        selectors = {constraint.constraint.selector for constraint in (*evaluated.hard, *evaluated.soft)}
        for other, label_sets in enumerate(labels):
            if other != index and any(
                selector is not None and any(selector.matches(own) for own in label_sets) for selector in selectors
            ):
                yield index, other
    owner = {
        member.owner.uid: index
        for index, evaluated in enumerate(groups)
        for member in evaluated.spread.members
        if member.owner is not None
    }
    by_owner: dict[str, int] = {}
    for number, limit in enumerate(limits, start=len(groups)):
        for part in limit.parts:
            assert part.member.owner is not None, "a limit with pods of nobody is not acted on"
            uid = part.member.owner.uid
            yield number, owner.get(uid, by_owner.setdefault(uid, number))


def current_counts(component: Component) -> Mapping[str, DomainCounts]:
    """Return the counts by key and domain, as the component's constraints and limits see them."""
    counts: dict[str, DomainCounts] = {}
    for evaluated in component.groups:
        for constraint in (*evaluated.hard, *evaluated.soft):
            if constraint.constraint.hard or constraint.counts.violated:
                counts.setdefault(constraint.constraint.key, constraint.counts.by_domain)
    for limit in component.limits:
        counts.setdefault(limit.topology_key, limit.counts)
    return counts


def stuck_pods(view: View) -> frozenset[str]:
    """Return the UIDs of pods that have waited beyond the scheduler's back-off and that no node admits."""
    return frozenset(
        pod.uid
        for pod in view.snapshot.unplaced
        if view.clock.has_lasted(pod.created, _LONGEST_BACKOFF)
        and unpredictable(pod, view) is None
        and not feasible(pod, view)
    )
