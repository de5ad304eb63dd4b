"""The pods of a group that may move, cheapest first: what moving one costs, and its rank by that."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.pods import Pod

_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

Cost = tuple[bool, int, int, bool, float, str]


class Victim(Struct, frozen=True, gc=False):
    """A pod that may move, and the workload it belongs to.

    `rank` is its place by cost among all of its kind that may move; `avoided` are victims of last resort.
    """

    pod: Pod
    member: PodController
    rank: int
    avoided: bool = False

    @property
    def cost(self) -> Cost:
        """What moving it costs, the lowest goes first: wished to stay, important, costly to delete, ready, old."""
        pod = self.pod
        return self.avoided, pod.spec.priority, deletion_cost(pod), pod.ready, -pod.created.timestamp(), pod.name


def deletion_cost(pod: Pod) -> int:
    """Return what its annotation says that deleting a pod costs; 0 where it says nothing that can be read."""
    try:
        return int(pod.annotations.get(_DELETION_COST, "0"))
    except ValueError:
        return 0  # the API server refuses such a value, an old object may still carry it


class RankedPods(Struct, frozen=True, eq=False, dict=True):
    """The pods of a group that may move, cheapest first: a pod's rank is its place among them.

    `owners` gives the member that a pod belongs to by the pod's UID, where there are several. `avoided` are the UIDs
    of victims of last resort.
    """

    pods: Sequence[Pod] = ()
    member: PodController | None = None
    owners: Mapping[str, PodController] = {}
    avoided: frozenset[str] = frozenset()

    def victim(self, rank: int) -> Victim:
        """Return the pod of this rank as a victim."""
        pod = self.pods[rank]
        member = self.owners.get(pod.uid, self.member)
        assert member is not None, "who may move belongs to a member"
        return Victim(pod, member, rank, pod.uid in self.avoided)

    @cached_property
    def by_node(self) -> Mapping[str, list[Victim]]:
        """The same by node: the nodes by their cheapest, and on each of them the cheapest first."""
        found: dict[str, list[Victim]] = {}
        for rank, pod in enumerate(self.pods):
            found.setdefault(pod.node or "", []).append(self.victim(rank))
        return found
