"""The policy's groups of pods, gathered: which pods belong together, and how many there should be.

Pods are looked at by owner first and by label set second. A group of whole workloads costs nothing for each pod.
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
"""What the pods of a group ask of nodes; None for those that ask nothing."""

_ANYWHERE: Final[Affinities] = frozenset({None})


class LimitGroupPart(Struct, frozen=True, kw_only=True, gc=False):
    """The pods of one owner that are meant; none where the owner has none yet."""

    member: PodController
    pods: tuple[Pod, ...]


class LimitGroup(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Pods that a group of the policy puts together.

    `key` says which of the group's pods: {"workload": "Deployment/web"}, or the values of the labels in `groupBy`.
    """

    group: PolicyGroup
    namespace: str
    key: Labels
    parts: tuple[LimitGroupPart, ...]
    population: Mapping[str, int]
    """Living pods of each top owner by UID, within the group or not."""

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The living pods, bound or waiting, by owner and name."""
        return _pods(self.parts)

    @cached_property
    def affinities(self) -> Affinities:
        """What the next pods of its owners ask of nodes."""
        return affinities_of(self.parts)

    @cached_property
    def owners(self) -> tuple[Reference, ...]:
        """The workloads by name, sorted, each once."""
        return tuple(sorted({part.member.reference for part in self.parts}))

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle."""
        return f"group {self.group.name} {self.namespace} {format_key(self.key)}"


def find_limit_groups(view: View, policy_groups: Sequence[PolicyGroup]) -> tuple[LimitGroup, ...]:
    """Find the pods of every group, in the policy's order, then by namespace and key."""
    population = _population(view) if policy_groups else {}
    found: list[LimitGroup] = []
    for group in policy_groups:
        parts: dict[tuple[str, Labels], list[LimitGroupPart]] = {}
        for namespace, key, part in _placed(view, group):
            parts.setdefault((namespace, key), []).append(part)
        found += [
            LimitGroup(
                group=group, namespace=namespace, key=key, parts=tuple(parts[namespace, key]), population=population
            )
            for namespace, key in sorted(parts, key=_order)
        ]
    return tuple(found)


def _placed(view: View, group: PolicyGroup) -> Iterator[tuple[str, Labels, LimitGroupPart]]:
    """Yield each part of a group with its namespace and the key of the gathered group that it belongs to."""
    whole = group.group_by == (WORKLOAD,)
    selector = group.selector.compiled
    chosen: dict[str, bool] = {}
    for member in _candidates(view, absent=not whole):
        namespace = member.reference.namespace
        inside = chosen.get(namespace)
        if inside is None:
            inside = chosen[namespace] = group.namespaces.selects(namespace)
        if not inside or (whole and member.owner is None and member.reference.kind == "Pod"):
            continue
        part = LimitGroupPart(member=member, pods=member.pods)
        if not whole:
            yield from ((namespace, key, each) for key, each in divide_parts([part], selector, group.group_by))
        elif selector.empty:
            yield namespace, workload_key(member.reference), part
        else:
            key = workload_key(member.reference)
            yield from ((namespace, key, each) for _, each in divide_parts([part], selector, ()))


def _candidates(view: View, *, absent: bool) -> Iterator[PodController]:
    yield from members(view)
    yield from view.memo("strays", lambda: tuple(stray_controllers(view)))
    if absent:
        yield from view.memo("absentees", lambda: tuple(controllers_without_pods(view)))


def divide_parts(
    parts: Iterable[LimitGroupPart], selector: LabelSelector | None, keys: tuple[str, ...]
) -> Iterator[tuple[Labels, LimitGroupPart]]:
    """Yield the pods that the selector matches, divided by the values of the keys; those that lack one are left out.

    `keys` may be (`Workload`,); none divides by nothing.
    """
    selector = selector or _EVERYTHING
    for part in parts:
        if keys == (WORKLOAD,):
            yield from ((workload_key(part.member.reference), each) for _, each in divide_parts([part], selector, ()))
            continue
        known: dict[int, Labels | None] = {}
        found: dict[Labels, list[Pod]] = {}
        for pod in part.pods:
            labels = pod.labels
            key = known.get(id(labels), _UNKNOWN)
            if key is _UNKNOWN:
                key = known[id(labels)] = _key(labels, selector, keys)
            if key is not None:
                found.setdefault(key, []).append(pod)
        if not part.member.pods:  # an owner without pods takes part by what its template says
            template = part.member.owner.template if part.member.owner is not None else None
            key = _key(template.labels, selector, keys) if template is not None else None
            if key is not None:
                found[key] = []
        for key, pods in found.items():
            yield key, part if len(pods) == len(part.pods) else LimitGroupPart(member=part.member, pods=tuple(pods))


_UNKNOWN: Final = Labels({"": ""})


def _key(labels: Labels, selector: LabelSelector, keys: tuple[str, ...]) -> Labels | None:
    if not selector.matches(labels) or not all(key in labels for key in keys):
        return None
    return Labels({key: labels[key] for key in keys}) if keys else NO_LABELS


def workload_key(reference: Reference) -> Labels:
    """Return the key of the pods of one workload."""
    return Labels({"workload": f"{reference.kind}/{reference.name}"})


def format_key(key: Mapping[str, str]) -> str:
    """Write a key on one line."""
    return ",".join(f"{name}={value}" for name, value in key.items())


def _order(place: tuple[str, Labels]) -> tuple[str, list[tuple[str, str]]]:
    namespace, key = place
    return namespace, sorted(key.items())


def _population(view: View) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for member in members(view):
        if member.top is not None:
            found[member.top.uid] = found.get(member.top.uid, 0) + len(member.pods)
    return found


def affinities_of(parts: Iterable[LimitGroupPart]) -> Affinities:
    """Return what the next pods of the owners ask of nodes."""
    samples = [part.member.sample for part in parts]
    found = frozenset([required_part(each.spec.node_affinity) for each in samples if each is not None])
    return _ANYWHERE if not found or found == _ANYWHERE else found


def _pods(parts: Iterable[LimitGroupPart]) -> tuple[Pod, ...]:
    return tuple(pod for part in parts for pod in part.pods)


def desired_pods(parts: Sequence[LimitGroupPart], basis: Basis, population: Mapping[str, int]) -> int:
    """Return how many pods there are, or should be: of each owner's replicas the part that its pods are now.

    An owner that should have none any more counts the pods it has: a share of nothing says nothing.
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
