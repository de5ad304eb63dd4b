"""What the loss of each single node and zone would break, and whether what is lost could be placed on what is left.

The question of the night before. A domain is lost with its nodes and all that runs there; then the pods that their
owners make anew are placed one after the other, as kube-scheduler most likely would, on the nodes that are left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from msgspec import structs

from rebalancer.assessment.limits import JudgedLimit
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
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
    """What one set of pods loses. `holds`: a majority is left, and no more is lost than its limits allow."""

    group: str
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    lost: int
    total: int
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
class _Unit:
    """A set of pods with the limits on it, and how many of them are on each node."""

    group: str
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    total: int
    limits: tuple[JudgedLimit, ...]
    on: Mapping[str, int]


def failures(limits: Sequence[JudgedLimit], view: View) -> tuple[Failure, ...]:
    """Lose each domain that holds pods of a limit in force, the worst first.

    The keys are the host name, those of the limits, and the groups' zones.
    """
    units = list(_units(limits))
    keys = {HOSTNAME, *(each.topology_key for each in limits), *(each.gathered.group.zone_key for each in limits)}
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
            unplaceable = len(place(coming, view.without_nodes(nodes), _likely).pending) if coming else 0
        made.append(Failure(topology_key=key, domain=domain, losses=losses, unplaceable=unplaceable, unknown=unknown))
    return tuple(
        sorted(made, key=lambda each: (-each.broken, -(each.unplaceable or 0), each.topology_key, each.domain))
    )


def _units(limits: Iterable[JudgedLimit]) -> Iterator[_Unit]:
    """Put the limits on the same pods together; those within a larger domain are about no fixed set of pods."""
    found: dict[tuple[str, str, Labels], list[JudgedLimit]] = {}
    for limit in limits:
        if limit.rule.within is None:
            found.setdefault((limit.group, limit.namespace, limit.key), []).append(limit)
    for (group, namespace, key), several in found.items():
        first = several[0]
        yield _Unit(
            group=group,
            namespace=namespace,
            key=key,
            workloads=frozenset(part.member.reference for part in first.parts),
            total=first.total,
            limits=tuple(several),
            on=Counter(pod.node for pod in first.pods if pod.node is not None),
        )


def _losses(key: str, units: Iterable[_Unit], view: View) -> dict[str, tuple[GroupLoss, ...]]:
    """Return what each domain of a key takes with it, the worst first."""
    values = view.nodes.values(key)
    found: dict[str, list[GroupLoss]] = {}
    for unit in units:
        lost: Counter[str] = Counter()
        for node, number in unit.on.items():
            if node in values:
                lost[values[node]] += number
        for domain, number in lost.items():
            loss = GroupLoss(
                group=unit.group,
                namespace=unit.namespace,
                key=unit.key,
                workloads=unit.workloads,
                lost=number,
                total=max(unit.total, number),
                holds=_holds(unit, key, number),
            )
            found.setdefault(domain, []).append(loss)
    return {domain: tuple(sorted(losses, key=_badness)) for domain, losses in found.items()}


def _badness(loss: GroupLoss) -> tuple[bool, Fraction, str, str, list[tuple[str, str]]]:
    return loss.holds, -loss.share, loss.namespace, loss.group, sorted(loss.key.items())


def _holds(unit: _Unit, key: str, lost: int) -> bool:
    if unit.total >= _QUORUM and 2 * (unit.total - lost) <= unit.total:
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
