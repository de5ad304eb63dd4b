"""The pods of a group that may move, cheapest first: the cost of moving each, and its rank by that cost."""

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

    `rank` is its position by cost among all pods of its group that may move; `avoided`: it is a victim of last resort.
    """

    pod: Pod
    member: PodController
    rank: int
    avoided: bool = False

    @property
    def cost(self) -> Cost:
        """The cost of moving it, lowest first: avoided by policy, priority, deletion cost, readiness, age, name."""
        pod = self.pod
        return self.avoided, pod.spec.priority, deletion_cost(pod), pod.ready, -pod.created.timestamp(), pod.name


def deletion_cost(pod: Pod) -> int:
    """Return the pod-deletion-cost of a pod's annotation; 0 where it is absent or invalid."""
    try:
        return int(pod.annotations.get(_DELETION_COST, "0"))
    except ValueError:
        return 0  # the API server refuses such a value, an old object may still carry it


class RankedPods(Struct, frozen=True, eq=False, dict=True):
    """The pods of a group that may move, cheapest first: a pod's rank is its position among them.

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
        assert member is not None, "a pod that may move belongs to a member"
        return Victim(pod, member, rank, pod.uid in self.avoided)

    @cached_property
    def by_node(self) -> Mapping[str, list[Victim]]:
        """The victims by node, cheapest first; the nodes are in the order of their cheapest victim."""
        victims: dict[str, list[Victim]] = {}
        for rank, pod in enumerate(self.pods):
            victims.setdefault(pod.node or "", []).append(self.victim(rank))
        return victims
