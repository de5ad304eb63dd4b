"""The pods of the policy's groups: which pods a group's limits count together, and how many there should be.

Pods are selected by owner first and by label set second. A group of whole workloads costs nothing per pod.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Final

from msgspec import Struct

from rebalancer.assessment.controllers import PodController, controllers_without_pods, members, stray_controllers
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.policy import WORKLOAD, Basis, PolicyGroup
from rebalancer.scheduling.node_index import RequiredAffinity, required_part
from rebalancer.scheduling.view import View

_EVERYTHING: Final = LabelSelector()

Affinities = frozenset[RequiredAffinity | None]
"""The required node affinities of a group's pods; None for pods without one."""

_ANYWHERE: Final[Affinities] = frozenset({None})

_ByNamespace = Mapping[str, Sequence[PodController]]

_UNKNOWN: Final = Labels({"": ""})
"""Stands for a key that is not computed yet; no label has an empty key."""


class LimitGroupPart(Struct, frozen=True, kw_only=True, gc=False):
    """The pods of one owner that belong to the group; empty if the owner has no pods yet."""

    member: PodController
    pods: tuple[Pod, ...]


class LimitGroup(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Pods that a group of the policy counts together.

    `key` identifies them within the group: {"workload": "Deployment/web"}, or the values of the labels in `groupBy`.
    """

    policy_group: PolicyGroup
    namespace: str
    key: Labels
    parts: tuple[LimitGroupPart, ...]
    population: Mapping[str, int]
    """The number of living pods of each top owner, by UID, whether in the group or not."""

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The living pods, bound or waiting, by owner and name."""
        return _pods(self.parts)

    @cached_property
    def affinities(self) -> Affinities:
        """The required node affinities of the owners' next pods."""
        return affinities_of(self.parts)

    @cached_property
    def owners(self) -> tuple[Reference, ...]:
        """The workloads by name, sorted, each once."""
        return tuple(sorted({part.member.reference for part in self.parts}))

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle."""
        return f"group {self.policy_group.name} {self.namespace} {format_key(self.key)}"


def find_limit_groups(view: View, policy_groups: Sequence[PolicyGroup]) -> tuple[LimitGroup, ...]:
    """Return the limit groups in the policy's order, then by namespace and key."""
    population = count_by_owner(members(view)) if policy_groups else {}
    limit_groups: list[LimitGroup] = []
    for group in policy_groups:
        parts: dict[tuple[str, Labels], list[LimitGroupPart]] = {}
        for namespace, key, part in _group_parts(view, group):
            parts.setdefault((namespace, key), []).append(part)
        limit_groups += [
            LimitGroup(
                policy_group=group,
                namespace=namespace,
                key=key,
                parts=tuple(parts[namespace, key]),
                population=population,
            )
            for namespace, key in sorted(parts, key=_sort_key)
        ]
    return tuple(limit_groups)


def _group_parts(view: View, group: PolicyGroup) -> Iterator[tuple[str, Labels, LimitGroupPart]]:
    """Yield each part of a group with its namespace and the key of its limit group."""
    whole = group.group_by == (WORKLOAD,)
    selector = group.selector.compiled
    chosen: dict[str, bool] = {}
    for member in _candidates(view, group, absent=not whole):
        namespace = member.reference.namespace
        inside = chosen.get(namespace)
        if inside is None:
            inside = chosen[namespace] = group.namespaces.selects(namespace)
        if not inside or (whole and member.owner is None and member.reference.kind == "Pod"):
            continue
        part = LimitGroupPart(member=member, pods=member.pods)
        if not whole:
            yield from ((namespace, key, divided) for key, divided in divide_parts([part], selector, group.group_by))
        elif selector.empty:
            yield namespace, workload_key(member.reference), part
        else:
            key = workload_key(member.reference)
            yield from ((namespace, key, divided) for _, divided in divide_parts([part], selector, ()))


def _candidates(view: View, group: PolicyGroup, *, absent: bool) -> Iterator[PodController]:
    """Yield the owners that may belong to the group, and with `absent` owners without pods."""
    only = group.namespaces.only
    if only is not None:  # with thousands of groups, none visits the whole cluster
        everything: Mapping[bool, _ByNamespace] = view.memo("owners by namespace", lambda: _divide_candidates(view))
        yield from everything[absent].get(only, ())
    else:
        yield from _all_candidates(view, absent=absent)


def _divide_candidates(view: View) -> Mapping[bool, _ByNamespace]:
    divided: dict[bool, dict[str, list[PodController]]] = {False: {}, True: {}}
    for absent, by_namespace in divided.items():
        for member in _all_candidates(view, absent=absent):
            by_namespace.setdefault(member.reference.namespace, []).append(member)
    return divided


def _all_candidates(view: View, *, absent: bool) -> Iterator[PodController]:
    yield from members(view)
    yield from view.memo("strays", lambda: tuple(stray_controllers(view)))
    if absent:
        yield from view.memo("absentees", lambda: tuple(controllers_without_pods(view)))


def divide_parts(
    parts: Iterable[LimitGroupPart], selector: LabelSelector | None, keys: tuple[str, ...]
) -> Iterator[tuple[Labels, LimitGroupPart]]:
    """Yield the pods that the selector matches, divided by the values of the keys; pods that lack a key are left out.

    `keys` may be (`Workload`,); without keys nothing is divided.
    """
    selector = selector or _EVERYTHING
    for part in parts:
        if keys == (WORKLOAD,):
            yield from (
                (workload_key(part.member.reference), divided) for _, divided in divide_parts([part], selector, ())
            )
            continue
        known: dict[int, Labels | None] = {}
        pods_by_key: dict[Labels, list[Pod]] = {}
        for pod in part.pods:
            labels = pod.labels
            key = known.get(id(labels), _UNKNOWN)
            if key is _UNKNOWN:
                key = known[id(labels)] = _key_of(labels, selector, keys)
            if key is not None:
                pods_by_key.setdefault(key, []).append(pod)
        if not part.member.pods:  # an owner without pods is selected by its template
            template = part.member.owner.template if part.member.owner is not None else None
            key = _key_of(template.labels, selector, keys) if template is not None else None
            if key is not None:
                pods_by_key[key] = []
        for key, pods in pods_by_key.items():
            yield key, part if len(pods) == len(part.pods) else LimitGroupPart(member=part.member, pods=tuple(pods))


def _key_of(labels: Labels, selector: LabelSelector, keys: tuple[str, ...]) -> Labels | None:
    if not selector.matches(labels) or not all(key in labels for key in keys):
        return None
    return Labels({key: labels[key] for key in keys}) if keys else NO_LABELS


def workload_key(reference: Reference) -> Labels:
    """Return the key of the pods of one workload."""
    return Labels({"workload": f"{reference.kind}/{reference.name}"})


def format_key(key: Mapping[str, str]) -> str:
    """Return a key as text in one line."""
    return ",".join(f"{name}={value}" for name, value in key.items())


def _sort_key(place: tuple[str, Labels]) -> tuple[str, list[tuple[str, str]]]:
    namespace, key = place
    return namespace, sorted(key.items())


def count_by_owner(controllers: Iterable[PodController]) -> dict[str, int]:
    """Return how many pods the top owners of these controllers have, by UID."""
    population: dict[str, int] = {}
    for member in controllers:
        if member.top is not None:
            population[member.top.uid] = population.get(member.top.uid, 0) + len(member.pods)
    return population


def affinities_of(parts: Iterable[LimitGroupPart]) -> Affinities:
    """Return the required node affinities of the owners' next pods."""
    samples = [part.member.sample for part in parts]
    affinities = frozenset([required_part(sample.spec.node_affinity) for sample in samples if sample is not None])
    return _ANYWHERE if not affinities or affinities == _ANYWHERE else affinities


def _pods(parts: Iterable[LimitGroupPart]) -> tuple[Pod, ...]:
    return tuple(pod for part in parts for pod in part.pods)


def desired_pods(parts: Sequence[LimitGroupPart], basis: Basis, population: Mapping[str, int]) -> int:
    """Return how many pods exist (`Live`) or should exist: owners' replicas in proportion to their pods in the group.

    If the result is 0 the living pods are counted: a share of nothing has no meaning.
    """
    if len(parts) == 1 and basis is Basis.DESIRED:  # most often: one owner, all of its pods
        (part,) = parts
        top = part.member.top
        if top is not None and top.replicas and len(part.pods) == population.get(top.uid):
            return top.replicas
    live = sum(len(part.pods) for part in parts)
    if basis is Basis.LIVE:
        return live
    pods: dict[str, int] = {}
    replicas: dict[str, int] = {}
    desired = Fraction(0)
    for part in parts:
        top = part.member.top
        if top is None:
            desired += len(part.pods)
        else:
            pods[top.uid] = pods.get(top.uid, 0) + len(part.pods)
            replicas[top.uid] = top.replicas
    for uid, number in replicas.items():
        living = population.get(uid, 0)
        desired += Fraction(number * pods[uid], living) if living else number
    return round(desired) or live
