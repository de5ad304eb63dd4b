"""What the loss of each single node and zone would break, and whether what is lost could be placed on what is left.

The question of the night before. A domain is lost with its nodes and all that runs there; then the pods that their
owners make anew are placed one after the other, as kube-scheduler most likely would, on the nodes that are left. The
Node objects of the lost stay for long after an outage, tainted, and count as domains without pods; or somebody deletes
them. The worse of the two is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from msgspec import structs

from rebalancer.assessment.limit_groups import LimitGroup, LimitGroupPart, desired_pods
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.policy import Basis
from rebalancer.scheduling.node_order import node_order
from rebalancer.scheduling.place import modelled, place
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.spread_constraints import HOSTNAME
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOST_PLACED: Final = 5_000
"""Pods that are placed in one answer, for the worst domains first; of the others it is not said who finds a place."""

_LIKELY: Final = 100
"""Feasible nodes that are scored for one pod: kube-scheduler itself scores but a part of a large cluster's."""

_OF_NODES: Final = frozenset({"DaemonSet", "Node"})

_QUORUM: Final = 3
"""Pods from which on a majority means something: of two, one is none."""


@dataclass(frozen=True, kw_only=True)
class GroupLoss:
    """What one set of pods loses: a group's, or those of it that a limit selects.

    `holds`: of `total` desired pods a majority is `left`, Ready and elsewhere, and no more is lost than the limits on
    exactly these pods allow.
    """

    group: str
    limit: str | None
    """The limit that selects the pods; None for all of the group's."""
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    lost: int
    total: int
    left: int
    holds: bool

    @property
    def share(self) -> Fraction:
        """Which part of the total is lost."""
        return Fraction(self.lost, self.total)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The loss of one domain. `unplaceable` pods find no node afterwards, None where that was not tried.

    `unknown` are pods of which it is not known what would take their place, or where.
    """

    topology_key: str
    domain: str
    losses: tuple[GroupLoss, ...]
    unplaceable: int | None
    unknown: int

    @property
    def broken(self) -> int:
        """How many sets of pods do not hold."""
        return sum(not each.holds for each in self.losses)


@dataclass(frozen=True, kw_only=True)
class Failures:
    """The loss of each single domain that holds pods of the policy's groups, the worst first.

    `domains` is how many there are of these keys, with such pods or without.
    """

    domains: int
    found: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """A set of pods with the limits on it, and how many of them are on each node, and Ready there."""

    group: str
    limit: str | None
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    total: int
    on: Mapping[str, int]
    ready: Mapping[str, int]
    limits: list[EvaluatedLimit] = field(default_factory=list)


def simulate_failures(gathered: Sequence[LimitGroup], limits: Sequence[EvaluatedLimit], view: View) -> Failures:
    """Lose each domain that holds pods of the policy's groups, whether or not a limit on them is in force.

    The keys are the host name, those of the limits in force, and the groups' zones.
    """
    units = tuple(_units(gathered, limits))
    keys = {HOSTNAME, *(each.topology_key for each in limits), *(each.group.zone_key for each in gathered)}
    found = [
        (key, domain, losses) for key in sorted(keys) for domain, losses in sorted(_losses(key, units, view).items())
    ]
    found.sort(key=lambda each: (-sum(not loss.holds for loss in each[2]), -max(loss.share for loss in each[2])))
    left = MOST_PLACED
    replacements = _Replacements(view)
    made: list[Failure] = []
    for key, domain, losses in found:
        nodes = view.nodes.groups(key)[domain]
        coming, unknown = replacements.coming(nodes)
        unplaceable = None
        if len(coming) <= left:
            left -= len(coming)
            unplaceable = _unplaceable(coming, nodes, view)
        made.append(Failure(topology_key=key, domain=domain, losses=losses, unplaceable=unplaceable, unknown=unknown))
    made.sort(key=lambda each: (-each.broken, -(each.unplaceable or 0), each.topology_key, each.domain))
    return Failures(domains=sum(len(view.nodes.groups(key)) for key in keys), found=tuple(made))


def _unplaceable(coming: Sequence[Pod], nodes: frozenset[str], view: View) -> int:
    """Count the pods that find no node, with the lost nodes still there or deleted, whichever is worse."""
    if not coming:
        return 0
    states: tuple[Callable[[Iterable[str]], View], ...] = view.with_unreachable, view.without_nodes
    return max(len(place(coming, state(nodes), _likely).pending) for state in states)


def _units(gathered: Iterable[LimitGroup], limits: Iterable[EvaluatedLimit]) -> Iterator[_Unit]:
    """Yield each group's pods, then the other sets that limits are about, each with the limits on exactly these pods.

    Those within a larger domain are about no fixed set of pods.
    """
    of_group: dict[int, list[EvaluatedLimit]] = {}
    for limit in limits:
        if limit.rule.within is None:
            of_group.setdefault(id(limit.gathered), []).append(limit)
    for group in gathered:
        whole = _unit(group, None, group.key, group.parts)
        parted: dict[tuple[Labels, frozenset[str]], _Unit] = {(group.key, _uids(group.parts)): whole}
        for limit in of_group.get(id(group), ()):
            unit = whole
            if limit.parts is not group.parts:
                pods = limit.key, _uids(limit.parts)
                unit = parted.get(pods) or parted.setdefault(pods, _unit(group, limit.limit, limit.key, limit.parts))
            unit.limits.append(limit)
        yield from parted.values()


def _uids(parts: Iterable[LimitGroupPart]) -> frozenset[str]:
    return frozenset(pod.uid for part in parts for pod in part.pods)


def _unit(group: LimitGroup, limit: str | None, key: Labels, parts: Sequence[LimitGroupPart]) -> _Unit:
    placed = [(pod.node, pod.ready) for part in parts for pod in part.pods if pod.node is not None]
    return _Unit(
        group=group.group.name,
        limit=limit,
        namespace=group.namespace,
        key=key,
        workloads=frozenset(part.member.reference for part in parts),
        total=desired_pods(parts, Basis.DESIRED, group.population),
        on=Counter(node for node, _ in placed),
        ready=Counter(node for node, ready in placed if ready),
    )


def _losses(key: str, units: Iterable[_Unit], view: View) -> dict[str, tuple[GroupLoss, ...]]:
    """Return what each domain of a key takes with it, the worst first."""
    values = view.nodes.values(key)
    found: dict[str, list[GroupLoss]] = {}
    for unit in units:
        lost: Counter[str] = Counter()
        silenced: Counter[str] = Counter()
        for node, number in unit.on.items():
            if node in values:
                lost[values[node]] += number
                silenced[values[node]] += unit.ready.get(node, 0)
        ready = sum(unit.ready.values())
        for domain, number in lost.items():
            left = ready - silenced[domain]
            loss = GroupLoss(
                group=unit.group,
                limit=unit.limit,
                namespace=unit.namespace,
                key=unit.key,
                workloads=unit.workloads,
                lost=number,
                total=max(unit.total, number),
                left=left,
                holds=_holds(unit, key, number, left),
            )
            found.setdefault(domain, []).append(loss)
    return {domain: tuple(sorted(losses, key=_badness)) for domain, losses in found.items()}


def _badness(loss: GroupLoss) -> tuple[bool, Fraction, str, str, str, list[tuple[str, str]]]:
    return loss.holds, -loss.share, loss.namespace, loss.group, loss.limit or "", sorted(loss.key.items())


def _holds(unit: _Unit, key: str, lost: int, left: int) -> bool:
    if unit.total >= _QUORUM and 2 * left <= unit.total:
        return False
    caps = [each.cap for each in unit.limits if each.topology_key == key and each.cap is not None]
    return all(lost <= cap for cap in caps)


class _Replacements:
    """What would be made anew for pods that are lost; of most owners each pod's replacement is like the others'."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._of: dict[str, Pod | Unpredictable] = {}

    def coming(self, nodes: Iterable[str]) -> tuple[list[Pod], int]:
        """Return the pods that would be made for those on some nodes, and of how many more nothing is known.

        Pods that belong to their nodes (DaemonSets, static pods) are nobody's loss.
        """
        coming: list[Pod] = []
        unknown = 0
        for node in sorted(nodes):
            for pod in self._view.pods_on(node):
                if pod.terminating or pod.mirror or (pod.owner is not None and pod.owner.kind in _OF_NODES):
                    continue
                made = self._made(pod)
                if isinstance(made, Unpredictable):
                    unknown += 1
                else:
                    coming.append(made)
        return coming, unknown

    def _made(self, pod: Pod) -> Pod | Unpredictable:
        owner = pod.owner
        if owner is None or owner.kind == "StatefulSet" or pod.claims:
            return replacement(pod, self._view)
        known = self._of.get(owner.uid)
        if known is None:
            known = self._of[owner.uid] = replacement(pod, self._view)
        return structs.replace(known, uid=f"{pod.uid}+") if isinstance(known, Pod) else known


def _likely(pod: Pod, view: View, nodes: frozenset[str]) -> Iterable[str]:
    """Choose the node that the model thinks most likely, of so many."""
    if len(nodes) > _LIKELY:
        inside = (node for node in node_order(view) if node in nodes)
        nodes = frozenset(node for node, _ in zip(inside, range(_LIKELY), strict=False))
    return modelled(pod, view, nodes)
