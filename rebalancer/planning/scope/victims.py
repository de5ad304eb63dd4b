"""The pods of a group that may move, cheapest first: the cost of moving each, and its rank by that cost."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.deletion_costs import foreign_cost
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import NodeCounts

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
        return self.avoided, pod.spec.priority, foreign_cost(pod), pod.ready, -pod.created.timestamp(), pod.name


class RankedPods(Struct, frozen=True, eq=False, dict=True):
    """The pods of a group that may move, cheapest first: a pod's rank is its position among them.

    `owners` gives the member that a pod belongs to by the pod's UID, where there are several. `avoided` are the UIDs
    of victims of last resort. `counted` are the counts by node of exactly these pods, where that is known.
    """

    pods: Sequence[Pod] = ()
    member: PodController | None = None
    owners: Mapping[str, PodController] = {}
    avoided: frozenset[str] = frozenset()
    counted: NodeCounts | None = None

    def victims(self, ranks: Iterable[int]) -> list[Victim]:
        """Return the pods of these ranks as victims."""
        pods, owners, member, avoided = self.pods, self.owners, self.member, self.avoided
        assert member is not None, "a pod that may move belongs to a member"
        if not owners and not avoided:
            return [Victim(pods[rank], member, rank) for rank in ranks]
        named = [(rank, pods[rank]) for rank in ranks]
        return [Victim(pod, owners.get(pod.uid, member), rank, pod.uid in avoided) for rank, pod in named]

    @cached_property
    def by_node(self) -> Mapping[str, list[Victim]]:
        """The victims by node, cheapest first; the nodes are in the order of their cheapest victim."""
        victims: dict[str, list[Victim]] = {}
        for victim in self.victims(range(len(self.pods))) if self.pods else ():
            victims.setdefault(victim.pod.node or "", []).append(victim)
        return victims
