"""Who of a group may move, who stays and why, and how many have no place yet."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct, field

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.eligibility import EligibilityChecker, Refusal
from rebalancer.planning.scope.victims import RankedPods, Victim, deletion_cost
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

_NODE: Final = attrgetter("node")
_NAME: Final = attrgetter("name")
_CREATED: Final = attrgetter("created")
_READY: Final = attrgetter("ready")
_PRIORITY: Final = attrgetter("spec.priority")


class PodPartition(Struct, eq=False):
    """The pods of a group. `missing` are without a place, those that owners have still to create among them."""

    ranked: RankedPods = RankedPods()
    """Those that may move."""
    refused: list[tuple[Pod, PodController, Refusal]] = field(default_factory=list)
    missing: int = 0
    waiting: list[Pod] = field(default_factory=list)
    unborn: list[tuple[Pod, int]] = field(default_factory=list)
    """What owners have still to create: like which pod, and how many."""

    @property
    def movable(self) -> Mapping[str, list[Victim]]:
        """Those that may move, by node: the nodes by their cheapest, and on each of them the cheapest first."""
        return self.ranked.by_node


class PodPartitioner:
    """The rules of one policy and its budgets over one view."""

    def __init__(
        self, view: View, eligibility: EligibilityChecker, ledger: BudgetLedger, avoided: frozenset[str] = frozenset()
    ) -> None:
        """Take the UIDs of the pods that are victims of last resort as `avoided`."""
        self._view = view
        self._avoided = avoided
        self._eligibility = eligibility
        self._ledger = ledger

    def sorted_out(
        self,
        members: Sequence[PodController],
        whole: Sequence[Refusal | None],
        room: frozenset[str],
        counts: Callable[[Labels], bool],
    ) -> PodPartition | Refusal:
        """Sort the members' pods; `whole` says of each member why none of its pods may go, `room` where pods can land.

        `counts` says by its labels whether a pod counts.

        A pod whose labels have been changed so that it is not counted is neither movable nor refused: moving it would
        repair nothing. The group is refused while a pod of it waits for a node that is not the scheduler's free choice.
        """
        found = PodPartition()
        movable: list[Pod] = []
        several, plain = len(members) > 1, True
        owned: dict[str, PodController] = {}
        for member, refusal in zip(members, whole, strict=True):
            if refusal is None and self._plain(member.pods, counts):
                movable += member.pods
                waiting: Sequence[Pod] | Refusal = ()
            else:
                plain = False
                waiting = self._member(member, refusal, room, counts, found, movable)
            if several:
                owned.update(dict.fromkeys([pod.uid for pod in member.pods], member))
            blocked = waiting if isinstance(waiting, Refusal) else self._awaited(member, waiting, found)
            if blocked is not None:
                return blocked
        pods = self._cheapest_first(movable, several=several, alike=plain and not several)
        found.ranked = RankedPods(pods, members[0], owned, self._avoided)
        return found

    def _cheapest_first(self, pods: list[Pod], *, several: bool, alike: bool) -> list[Pod]:
        """Sort pods by what moving them costs (`Victim.cost`): from the least part of it on, each a stable sort.

        That is many times faster than comparing whole costs, as most pods of a workload are alike in most parts. Those
        of one member come by name. `alike`: they have one spec, and no annotations.
        """
        if several:
            pods.sort(key=_NAME)
        pods.sort(key=_CREATED, reverse=True)
        pods.sort(key=_READY)
        if not alike:
            pods.sort(key=deletion_cost)
            pods.sort(key=_PRIORITY)
        if self._avoided:
            pods.sort(key=lambda pod: pod.uid in self._avoided)
        return pods

    def _plain(self, pods: Sequence[Pod], counts: Callable[[Labels], bool]) -> bool:
        """Say whether all pods of a member may move, as a glance tells: they share what matters, and stand on nodes."""
        if not pods or not self._eligibility.all_free(pods):
            return False
        on_nodes = self._view.nodes.names.issuperset(map(_NODE, pods))
        return on_nodes and counts(pods[0].labels) and self._ledger.refusal(pods[0]) is None

    def _member(
        self,
        member: PodController,
        whole: Refusal | None,
        room: frozenset[str],
        counts: Callable[[Labels], bool],
        found: PodPartition,
        movable: list[Pod],
    ) -> Sequence[Pod] | Refusal:
        """Sort one member's pods into `found` and `movable`; return those without a node."""
        of_budgets, nodes = self._ledger.refusal, self._view.nodes.by_name
        alike: dict[Labels, tuple[bool, Refusal | None]] = {}
        waiting: list[Pod] = []
        for pod in member.pods:
            node, labels = pod.node, pod.labels
            if node is None:
                waiting.append(pod)
                continue
            if node not in nodes:
                return Refusal(Reason.GROUP_IN_FLIGHT, f"node {node} is gone; pod {pod.name} is to be replaced first")
            known = alike.get(labels)
            if known is None:
                known = alike[labels] = counts(labels), whole or of_budgets(pod)
            if not known[0]:
                continue
            refusal = known[1] or self._eligibility.of_pod(pod) or (self._pinned(pod, room) if pod.claims else None)
            if refusal is not None:
                found.refused.append((pod, member, refusal))
            else:
                movable.append(pod)
        return waiting

    def _awaited(self, member: PodController, waiting: Sequence[Pod], found: PodPartition) -> Refusal | None:
        """Count the pods of a member that have no place, in `found`; refuse where they are not free to go anywhere."""
        if member.owner is not None:
            unborn = max(0, member.owner.replicas - len(member.pods))
            found.missing += unborn + len(waiting)
            if unborn and not isinstance(member.next_pod, Unpredictable):
                found.unborn.append((member.next_pod, unborn))
        found.waiting += waiting
        return self._not_free(member, waiting)

    def _not_free(self, member: PodController, waiting: Sequence[Pod]) -> Refusal | None:
        """Refuse pods without a node that are held back (gates), or tied to fewer nodes than others by volumes."""
        for pod in waiting:
            unclear = unpredictable(pod, self._view)
            if unclear is not None:
                return Refusal(Reason.GROUP_IN_FLIGHT, f"pod {pod.name} has no node yet: {unclear.message}")
        missing = waiting or (member.owner is not None and member.owner.replicas > len(member.pods))
        if missing and any(pod.claims for pod in member.pods):
            return Refusal(
                Reason.GROUP_IN_FLIGHT, f"a pod of {member.reference} with volumes of its own has no node yet"
            )
        return None

    def _pinned(self, pod: Pod, room: frozenset[str]) -> Refusal | None:
        """Refuse a pod whose volumes reach less far than the group's room."""
        following = replacement(pod, self._view)
        if isinstance(following, Unpredictable):
            return Refusal(following.reason, following.message)
        reach = static_feasible(following, self._view, [pod])
        if room <= reach:
            return None
        return Refusal(Reason.VOLUME_PINNED, f"its volumes reach {len(reach & room)} of {len(room)} nodes")
