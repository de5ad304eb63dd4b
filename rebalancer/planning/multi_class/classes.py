"""A component of pods of several kinds: who counts for what, where each kind may stand, what keeps which apart."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from msgspec import structs

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.planning.scope.capacity import CapacityIndex, NodeCapacity
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.planning.scope.movable import PodPartition, PodPartitioner
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Victim
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

Cell = tuple[int, str]
"""A kind by its number, and a node."""


@dataclass(frozen=True, kw_only=True)
class PodClass:
    """Pods that are alike for the scheduler and for everything that is asked.

    `counts` are those on nodes, of which `fixed` stay whatever happens; `cap` is how many a node can hold. `now` is
    where they stand in the view, also in a state that is only supposed. `movable` are those that may go, cheapest
    first; `pending` have no place. `demands` are the numbers of those that count them.
    """

    sample: Pod
    members: tuple[PodController, ...]
    reception: NodeCapacity
    counts: Mapping[str, int]
    fixed: Mapping[str, int]
    cap: Mapping[str, int]
    now: Mapping[str, int]
    movable: Mapping[str, Sequence[Victim]]
    pending: int
    requirements: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """Kinds of which at most one pod may stand in each domain of a key."""

    domain: Mapping[str, str]
    classes: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class MultiClassProblem:
    """Pods of several kinds under what is asked of them. `others` are pods that count and belong to no kind."""

    component: Component
    requirements: tuple[Requirement, ...]
    classes: tuple[PodClass, ...]
    exclusions: tuple[Exclusion, ...]
    others: tuple[Mapping[str, int], ...]
    """For each demand, by node."""
    view: View | None
    """Where the nodes' room is read; None: they have room for all."""
    sorted: PodPartition

    @property
    def pending(self) -> int:
        """How many pods have no place."""
        return sum(kind.pending for kind in self.classes)

    def class_of(self, pod: Pod) -> int:
        """Return the kind of a pod that stands or comes."""
        assert pod.owner is not None, "a pod without an owner belongs to no kind"
        return self._kinds[pod.owner.uid]

    @cached_property
    def _kinds(self) -> Mapping[str, int]:
        """Kinds by the UID of an owner."""
        return {
            member.owner.uid: number
            for number, kind in enumerate(self.classes)
            for member in kind.members
            if member.owner is not None
        }

    def supposed(self, deltas: Mapping[Cell, int], pending: Mapping[int, int]) -> "MultiClassProblem":
        """Return the mixture with pods more or less in its cells, and so many of each kind without a place."""
        kinds = []
        for number, kind in enumerate(self.classes):
            counts = Counter(kind.counts)
            counts.update({node: change for (of, node), change in deltas.items() if of == number})
            kinds.append(
                replace(
                    kind,
                    counts=counts,
                    fixed={node: min(count, kind.fixed.get(node, 0)) for node, count in counts.items()},
                    cap={**kind.cap, **{node: max(kind.cap.get(node, count), count) for node, count in counts.items()}},
                    pending=pending.get(number, 0),
                )
            )
        return replace(self, classes=tuple(kinds))


@dataclass
class _Making:
    """A kind while its members are collected."""

    sample: Pod
    members: list[PodController] = field(default_factory=list)
    whole: list[Refusal | None] = field(default_factory=list)


class MultiClassBuilder:
    """Makes mixtures over one view."""

    def __init__(self, view: View, rooms: CapacityIndex, movers: PodPartitioner) -> None:
        self._view = view
        self._rooms = rooms
        self._movers = movers

    def mixed(
        self, component: Component, whole: Sequence[Refusal | None], demands: tuple[Requirement, ...]
    ) -> MultiClassProblem | Refusal:
        """Divide a component's pods into kinds, or say why what they ask is not modelled."""
        made: dict[Hashable, _Making] = {}
        for member, refusal in zip(component.members, whole, strict=True):
            if member.owner is None:
                continue
            if isinstance(member.next_pod, Unpredictable):
                return Refusal(member.next_pod.reason, f"{member.reference}: {member.next_pod.message}")
            pod = member.next_pod
            key = _alike(pod), tuple(each.counts(pod.labels, member.reference) for each in demands)
            kind = made.setdefault(key, _Making(pod))
            kind.members.append(member)
            kind.whole.append(refusal)
        if not made:
            return Refusal(Reason.UNKNOWN_OWNER, "nothing that is known would create its pods anew")
        everything = PodPartition()
        kinds = []
        for making in made.values():
            found = self._kind(component, making, demands, everything)
            if isinstance(found, Refusal):
                return found
            kinds.append(found)
        apart = self._apart(component, kinds)
        if isinstance(apart, Refusal):
            return apart
        return MultiClassProblem(
            component=component,
            requirements=demands,
            classes=tuple(kinds),
            exclusions=apart,
            others=tuple(_others(number, demand, kinds) for number, demand in enumerate(demands)),
            view=self._view,
            sorted=everything,
        )

    def _kind(
        self, component: Component, making: _Making, demands: Sequence[Requirement], everything: PodPartition
    ) -> PodClass | Refusal:
        sample = structs.replace(making.sample, claims=()) if making.sample.claims else making.sample
        own = [pod for member in component.members for pod in member.pods]
        if sample.spec.host_ports:
            return Refusal(Reason.NOT_PREDICTABLE, "pods of several kinds, some with host ports")
        if sample.spec.pod_affinity.required:
            return Refusal(Reason.NOT_PREDICTABLE, "its affinity to other pods moves with every placement")
        reception = self._rooms.without_own(sample, own)
        workload = making.members[0].reference

        def counting(labels: Labels) -> frozenset[int]:
            return frozenset(number for number, each in enumerate(demands) if each.counts(labels, workload))

        mine = counting(sample.labels)

        found = self._movers.sorted_out(
            making.members, making.whole, reception.nodes, lambda labels: counting(labels) == mine
        )
        if isinstance(found, Refusal):
            return found
        everything.refused += found.refused
        everything.missing += found.missing
        everything.waiting += found.waiting
        everything.unborn += found.unborn
        owners = [member.owner.uid for member in component.members if member.owner is not None]
        counts = Counter(node for node, victims in found.movable.items() for _ in victims)
        counts.update(pod.node for pod, _, _ in found.refused if pod.node is not None)
        taken = self._rooms.taken(reception, sample, owners)
        # What other kinds hold of a node is counted by the program: they may leave it.
        cap = {node: room - taken.of(node) for node, room in self._rooms.emptied(sample, own).items()}
        return PodClass(
            sample=sample,
            members=tuple(making.members),
            reception=reception,
            counts=counts,
            fixed={node: count - len(found.movable.get(node, ())) for node, count in counts.items()},
            cap={node: max(counts[node], cap.get(node, 0)) for node in sorted({*counts, *cap})},
            now=counts,
            movable=found.movable,
            pending=found.missing,
            requirements=mine,
        )

    def _apart(self, component: Component, kinds: Sequence[PodClass]) -> tuple[Exclusion, ...] | Refusal:
        """Read the required anti-affinity among the kinds; what concerns other pods is in their receptions."""
        terms: dict[PodAffinityTerm, set[int]] = {}
        for number, kind in enumerate(kinds):
            for term in kind.sample.spec.pod_affinity.anti_required:
                terms.setdefault(term, set()).add(number)
        found = []
        for term, carriers in terms.items():
            avoided = {
                number
                for number, kind in enumerate(kinds)
                if selects(term, component.namespace, kind.sample, self._view)
            }
            if not avoided:
                continue
            if avoided != carriers:
                return Refusal(Reason.NOT_PREDICTABLE, "some of its pods keep away from others that do not mind them")
            found.append(Exclusion(domain=self._view.nodes.values(term.topology_key), classes=frozenset(carriers)))
        return tuple(found)


def _alike(pod: Pod) -> Hashable:
    spec = pod.spec
    return (
        spec.requests,
        spec.scored,
        spec.node_affinity,
        spec.pod_affinity,
        spec.tolerations,
        spec.host_ports,
        spec.scheduler,
        spec.priority,
        spec.spread,
    )


def _others(number: int, demand: Requirement, kinds: Sequence[PodClass]) -> Mapping[str, int]:
    left = Counter(demand.counted)
    for kind in kinds:
        if number in kind.requirements:
            for node, count in kind.counts.items():
                if node in demand.nodes:
                    left[node] -= count
    return {node: count for node, count in left.items() if count > 0}
