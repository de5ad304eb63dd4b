"""Components: groups, limits and terms that must be planned together because they concern the same pods.

A group whose constraints count its own pods alone is a component by itself; most are. Groups that count each other's
pods, and groups whose pods a limit counts together, are one component, even if only one of them is violated: repairing
it must not break the others. A violated term of podAntiAffinity that is acted on joins all groups of its pods, even
across namespaces.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Self

from msgspec import Struct

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
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
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

Counts = Mapping[str, Mapping[str, int]]
"""Pods by topology key and domain."""

_LONGEST_BACKOFF = timedelta(seconds=10)
"""The longest back-off of the scheduler's queue: after it, a pod is tried whenever something changes."""

_MOST_JOINED: Final = 30
"""A term joins all owners that it concerns, up to this many; beyond that, only owners of conflicting pods."""


class Component(Struct, frozen=True, kw_only=True, gc=False):
    """Groups, limits and violated terms over the same pods, in a stable order; some of the three may be missing."""

    groups: tuple[EvaluatedGroup, ...]
    limits: tuple[EvaluatedLimit, ...]
    terms: tuple[EvaluatedTerm, ...] = ()
    """Required terms of podAntiAffinity."""
    preferred: tuple[EvaluatedTerm, ...] = ()
    """Preferred terms of podAntiAffinity."""
    members: tuple[PodController, ...]
    """The owners of all its pods, each once."""
    workloads: tuple[Reference, ...]
    """The workloads by name, sorted, each once."""

    @classmethod
    def of(
        cls,
        groups: tuple[EvaluatedGroup, ...],
        limits: tuple[EvaluatedLimit, ...] = (),
        terms: tuple[EvaluatedTerm, ...] = (),
        preferred: tuple[EvaluatedTerm, ...] = (),
    ) -> Self:
        """Put groups, limits and terms together."""
        if len(groups) == 1 and not (limits or terms or preferred):
            group = groups[0].spread
            return cls(groups=groups, limits=limits, members=group.members, workloads=group.workloads)
        by_identity = {_identity(member): member for evaluated in groups for member in evaluated.spread.members}
        for limit in limits:
            for part in limit.parts:
                by_identity.setdefault(_identity(part.member), part.member)
        for term in (*terms, *preferred):
            for member in find_joined(term):
                by_identity.setdefault(_identity(member), member)
        members = tuple(by_identity.values())
        workloads = workloads_of(members)
        return cls(groups=groups, limits=limits, terms=terms, preferred=preferred, members=members, workloads=workloads)

    @property
    def pods(self) -> Sequence[Pod]:
        """All its pods."""
        if len(self.members) == 1:
            return self.members[0].pods
        return [pod for member in self.members for pod in member.pods]

    @property
    def apart(self) -> tuple[EvaluatedTerm, ...]:
        """All its terms of podAntiAffinity, the required ones first."""
        return (*self.terms, *self.preferred)

    @property
    def namespace(self) -> str:
        """The namespace of its pods, the first of several; planning costs are charged to it."""
        if self.groups:
            return self.groups[0].spread.namespace
        return self.limits[0].namespace if self.limits else self.apart[0].namespace

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces of its pods: several where a term joins them."""
        return {member.reference.namespace for member in self.members} if self.apart else (self.namespace,)

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle; the memory is stored by it."""
        for evaluated in self.groups:
            if evaluated.violated:
                return evaluated.spread.name
        for limit in self.limits:
            if limit.state is not State.SATISFIED:
                return limit.name
        # The name is formed from all terms, because the violated terms change during the repair.
        return min((term.name for term in self.terms or self.preferred), default="") or self.groups[0].spread.name

    @property
    def urgency(self) -> tuple[int, str]:
        """A sort key: the most pods above a bound first, then by name."""
        over = [
            constraint.counts.skew - constraint.constraint.max_skew
            for evaluated in self.groups
            for constraint in evaluated.hard
        ]
        over += [-limit.headroom for limit in self.limits]
        over += [term.excess for term in self.terms]
        return -max(over, default=0), self.name


def _identity(member: PodController) -> tuple[Reference, str]:
    if member.owner is not None:
        return member.reference, member.owner.uid
    return member.reference, ",".join(pod.uid for pod in member.pods)


# Many branches: gather by namespace, join there, then select what needs a repair; each step with and without `only`.
def find_components(
    assessment: Assessment,
    stuck: frozenset[str],
    act_on: ActOn,
    only: Collection[Reference] | None = None,
    *,
    apart: bool = False,
) -> tuple[Component, ...]:
    """Return the components that need a repair, the worst first. `stuck` are UIDs of pods that no node admits.

    Violated hard constraints are included whether they are acted on or not, violated terms if `apart`. With `only`,
    components without any of these workloads are left out.
    """
    terms = [term for term in assessment.anti_affinity if find_joined(term)] if apart else []
    joined = _find_joined_components(assessment, terms, only)
    every = (*act_on, WhenUnsatisfiable.DO_NOT_SCHEDULE)
    wanted = joined if only is None else [one for one in joined if not set(one.workloads).isdisjoint(only)]
    violated = [component for component in wanted if needs_repair(component, every, stuck)]
    return tuple(sorted(violated, key=lambda component: component.urgency))


def find_preferring(
    assessment: Assessment,
    repaired: Iterable[Component],
    only: Collection[Reference] | None = None,
    *,
    apart: bool,
) -> tuple[Component, ...]:
    """Return the components with a preferred term whose cost can be lowered, the heaviest terms first.

    Components that share an owner with a component to be repaired are left out, because the repair comes first.
    """
    busy = {member.owner.uid for one in repaired for member in one.members if member.owner is not None}
    terms = [term for term in assessment.anti_affinity if find_joined(term)] if apart else []
    terms += [term for term in assessment.preferred if find_joined(term)]
    joined = _find_joined_components(assessment, terms, only)
    preferring = [
        component
        for component in joined
        if any(term.violated for term in component.preferred)
        and (only is None or not set(component.workloads).isdisjoint(only))
        and busy.isdisjoint(member.owner.uid for member in component.members if member.owner is not None)
    ]
    return tuple(
        sorted(preferring, key=lambda one: (-max(term.weight for term in one.preferred if term.violated), one.name))
    )


def _find_joined_components(
    assessment: Assessment, terms: Sequence[EvaluatedTerm], only: Collection[Reference] | None
) -> Sequence[Component]:
    """Return all components; with `only` just those in these workloads' namespaces and all that terms join to them."""
    near = _find_near({workload.namespace for workload in only or ()}, terms)
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
    if not terms:
        return joined
    return _join_by_terms(joined, terms if only is None else [one for one in terms if one.namespace in near])


def find_joined(term: EvaluatedTerm) -> Sequence[PodController]:
    """Return the owners that a term joins: the owners of all pods that it concerns, or of pods that conflict.

    Owners whose next pod is not known, or has host ports or required affinity to pods, are left out, because they would
    make the whole component impossible to plan.
    """
    known = [one for one in term.members if _is_modelled(one.next_pod)]
    if len(known) <= _MOST_JOINED:
        return known
    in_conflict = {
        pod.owner.uid
        for conflict in term.conflicts
        for side in conflict.sides
        for pod in side.pods
        if pod.owner is not None
    }
    return [one for one in known if one.owner is not None and one.owner.uid in in_conflict]


def _is_modelled(pod: Pod | Unpredictable) -> bool:
    return not isinstance(pod, Unpredictable) and not pod.spec.host_ports and not pod.spec.pod_affinity.required


def _find_near(near: set[str], terms: Sequence[EvaluatedTerm]) -> set[str]:
    """Return these namespaces and the namespaces that terms join to them."""
    spans = [{term.namespace, *(member.reference.namespace for member in find_joined(term))} for term in terms]
    while True:
        more = near.union(*[span for span in spans if not span.isdisjoint(near)])
        if more == near:
            return near
        near = more


def needs_repair(component: Component, act_on: ActOn, stuck: frozenset[str]) -> bool:
    """Return whether a constraint, a limit, a term or a stuck pod of a component is to be repaired."""
    if any(term.violated for term in component.terms):
        return True
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


def is_violated(component: Component) -> bool:
    """Return whether a constraint, hard or soft, a limit or a term of a component is violated, preferred or not."""
    return (
        needs_repair(component, tuple(WhenUnsatisfiable), frozenset())
        or any(limit.state is not State.SATISFIED for limit in component.limits)
        or any(term.violated for term in component.preferred)
    )


# Many branches: union-find over groups and limits: gather, join, and hand out.
def _join(groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], owners: set[str]) -> Iterable[Component]:
    """Put the groups and limits of one namespace together if they count the same pods."""
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


def _join_by_terms(components: Sequence[Component], terms: Sequence[EvaluatedTerm]) -> list[Component]:
    """Join the components whose owners a term concerns, with the term and the owners of no component."""
    place = {
        member.owner.uid: index
        for index, component in enumerate(components)
        for member in component.members
        if member.owner is not None
    }
    parent = list(range(len(components) + len(terms)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for number, term in enumerate(terms, start=len(components)):
        for member in find_joined(term):
            assert member.owner is not None, "members of a term have owners"
            one, other = sorted((find(number), find(place.setdefault(member.owner.uid, number))))
            parent[other] = one
    together: defaultdict[int, list[int]] = defaultdict(list)
    for index in range(len(parent)):
        together[find(index)].append(index)
    return [
        components[indices[0]]
        if len(indices) == 1 and indices[0] < len(components)
        else _merge(
            [components[index] for index in indices if index < len(components)],
            tuple(terms[index - len(components)] for index in indices if index >= len(components)),
        )
        for indices in together.values()
    ]


def _merge(components: Sequence[Component], terms: tuple[EvaluatedTerm, ...]) -> Component:
    groups = tuple(group for component in components for group in component.groups)
    limits = tuple(limit for component in components for limit in component.limits)
    required, preferred = (tuple(term for term in terms if bool(term.weight) is of) for of in (False, True))
    return Component.of(groups, limits, required, preferred)


def _counts_others(evaluated: EvaluatedGroup) -> bool:
    """Return whether a constraint counts a number of pods that differs from the group's pods on nodes."""
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
    """Return the UIDs of pods that no node admits and that have waited longer than the scheduler's back-off."""
    return frozenset(
        pod.uid
        for pod in view.snapshot.unplaced
        if view.clock.has_lasted(pod.created, _LONGEST_BACKOFF)
        and unpredictable(pod, view) is None
        and not feasible(pod, view)
    )
