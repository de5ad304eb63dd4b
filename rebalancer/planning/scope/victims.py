"""The pods of a group that may move, cheapest first: the cost of moving each, and its rank by that cost."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property

from msgspec import Struct

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.deletion_costs import foreign_cost
from rebalancer.model.pods import Pod

Cost = tuple[int, bool, int, int, bool, float, str]


class Allowed(IntEnum):
    """When the budgets allow the eviction of a pod."""

    NOW = 0
    SCARCE = 1
    """Now, but not of as many pods like it as a repair may take."""
    LATER = 2
    NEVER = 3


class Victim(Struct, frozen=True, gc=False):
    """A pod that may move, and the workload it belongs to.

    `rank` is its position by cost among all pods of its group that may move; `avoided`: it is a victim of last resort.
    `allowed` is when the budgets allow its eviction, where they tell the pods of its group apart.
    """

    pod: Pod
    member: PodController
    rank: int
    avoided: bool = False
    allowed: Allowed = Allowed.NOW

    @property
    def cost(self) -> Cost:
        """The cost of moving it, lowest first.

        That is: when the budgets allow it, avoided by policy, priority, deletion cost, readiness, age, name.
        """
        pod = self.pod
        age = -pod.created.timestamp()
        return self.allowed, self.avoided, pod.spec.priority, foreign_cost(pod), pod.ready, age, pod.name


class RankedPods(Struct, frozen=True, eq=False, dict=True):
    """The pods of a group that may move, cheapest first: a pod's rank is its position among them.

    `owners` gives the member that a pod belongs to by the pod's UID, where there are several. `avoided` are the UIDs
    of victims of last resort. `allowed` is
    when the budgets allow the eviction of each, by UID, where they tell the pods apart.
    """

    pods: Sequence[Pod] = ()
    member: PodController | None = None
    owners: Mapping[str, PodController] = {}
    avoided: frozenset[str] = frozenset()
    allowed: Mapping[str, Allowed] = {}

    def joined_by(self, pods: Iterable[tuple[Pod, PodController]]) -> "RankedPods":
        """Return these pods and others, each with its member, after them."""
        joining = list(pods)
        members = {id(member): member for _, member in joining}
        owners = {**self.owners, **{pod.uid: member for pod, member in joining}}
        first = self.member if self.member is not None else next(iter(members.values()))
        return RankedPods([*self.pods, *(pod for pod, _ in joining)], first, owners, self.avoided)

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "RankedPods":
        """Return the pods whose eviction is allowed by then, those that are allowed soonest first."""
        pods = [pod for pod in self.pods if allowed[pod.uid] <= latest]
        pods.sort(key=lambda pod: allowed[pod.uid])
        return RankedPods(pods, self.member, self.owners, self.avoided, allowed=allowed)

    def victims(self, ranks: Iterable[int]) -> list[Victim]:
        """Return the pods of these ranks as victims."""
        pods, owners, member, avoided = self.pods, self.owners, self.member, self.avoided
        assert member is not None, "a pod that may move belongs to a member"
        if not owners and not avoided and not self.allowed:
            return [Victim(pods[rank], member, rank) for rank in ranks]
        named = [(rank, pods[rank], pods[rank].uid) for rank in ranks]
        allowed = self.allowed
        return [
            Victim(pod, owners.get(uid, member), rank, uid in avoided, allowed.get(uid, Allowed.NOW))
            for rank, pod, uid in named
        ]

    @cached_property
    def by_node(self) -> Mapping[str, list[Victim]]:
        """The victims by node, cheapest first; the nodes are in the order of their cheapest victim."""
        victims: dict[str, list[Victim]] = {}
        for victim in self.victims(range(len(self.pods))) if self.pods else ():
            victims.setdefault(victim.pod.node or "", []).append(victim)
        return victims
