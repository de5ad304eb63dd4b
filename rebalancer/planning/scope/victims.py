"""The pods of a group that may move, cheapest first: their costs, ranks by cost, and words for the costs.

The fields of `Cost` alone define the order of the costs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import Struct

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.deletion_costs import foreign_cost
from rebalancer.model.pods import Pod
from rebalancer.model.words import format_duration
from rebalancer.scheduling.node_index import NodeCounts


class Allowed(IntEnum):
    """When the budgets allow the eviction of a pod."""

    NOW = 0
    SCARCE = 1
    """Now, but not for as many pods like it as a repair may take."""
    LATER = 2
    NEVER = 3


class Cost(NamedTuple):
    """The cost of moving a pod; between two equally useful pods the first difference decides."""

    allowed: Allowed
    avoided: bool
    priority: int
    deletion_cost: int
    ready: bool
    age: float
    """The seconds from its creation to the epoch, so that the youngest pod has the lowest number."""
    name: str

    @property
    def tier(self) -> tuple[Allowed, bool, int, int]:
        """What an integer program prices: few values in a component. The rest decides among pods of one node."""
        return self[:4]


def _age(pod: Pod) -> float:
    return -pod.created.timestamp()


_OF_POD: Final[Mapping[str, Callable[[Pod], Any]]] = {
    "priority": attrgetter("spec.priority"),
    "deletion_cost": foreign_cost,
    "ready": attrgetter("ready"),
    "age": _age,
    "name": attrgetter("name"),
}
"""The fields of `Cost` that are read from the pod itself, in order, and how."""

_SAME_IF_ALIKE: Final = frozenset({"priority", "deletion_cost"})

_ALLOWED: Final = {
    Allowed.SCARCE: "is one of more pods than the budgets let go now, {} is not",
    Allowed.LATER: "is allowed by the budgets later than {}",
    Allowed.NEVER: "is never allowed by the budgets, {} is",
}
"""The words for a pod that the budgets allow less soon than another."""

_UNDATED: Final = 0.0
"""The age used if a file does not say when a pod was created."""

_WORDS: Final[Mapping[str, tuple[str, Callable[[Cost, Cost, str], str]]]] = {
    "allowed": ("budgets", lambda mine, _, other: _ALLOWED[mine.allowed].format(other)),
    "avoided": ("avoid", lambda _, __, other: f"is a victim of last resort by the policy (avoid), {other} is not"),
    "priority": ("priority", lambda mine, its, other: f"has priority {mine.priority}, {other} {its.priority}"),
    "deletion_cost": (
        "deletion cost",
        lambda mine, its, other: f"has deletion cost {mine.deletion_cost}, {other} {its.deletion_cost}",
    ),
    "ready": ("readiness", lambda _, __, other: f"is Ready, {other} is not"),
    "age": (
        "age",
        lambda mine, its, other: (
            f"is older than {other} by {format_duration(timedelta(seconds=mine.age - its.age))}"
            if mine.age != _UNDATED
            else f"may be older than {other}: when it was created is not known"
        ),
    ),
}
"""For each field of `Cost` but the name: its name in messages, and the words for a pod that costs more in it."""


def describe_difference(staying: Cost, evicted: Cost) -> str:
    """Say in which cost a pod first differs from the pod that is evicted instead."""
    *costs, name = Cost._fields
    first = next((cost for cost in costs if getattr(staying, cost) != getattr(evicted, cost)), name)
    if first == name:
        return f"{staying.name} costs as much as {evicted.name}, and the name decides"
    _, describe = _WORDS[first]
    equal = [_WORDS[cost][0] for cost in costs[: costs.index(first)]]
    text = f"{staying.name} {describe(staying, evicted, evicted.name)}"
    if not equal:
        return text
    *others, last = equal
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"{text}; {listed} are equal"


def sort_by_cost(pods: list[Pod], avoided: frozenset[str], *, named: bool, alike: bool) -> None:
    """Sort pods by cost, budgets left aside: one stable sort by each part, the least important first.

    This is many times faster than comparing whole costs, because most pods of a workload are equal in most parts.
    `named`: they are sorted by name already. `alike`: they share one spec and have no annotations.
    """
    for field in reversed(tuple(_OF_POD)):
        if not ((named and field == "name") or (alike and field in _SAME_IF_ALIKE)):
            pods.sort(key=_OF_POD[field])
    if avoided:
        pods.sort(key=lambda pod: pod.uid in avoided)


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
        """The cost of moving it."""
        return Cost(self.allowed, self.avoided, *[read(self.pod) for read in _OF_POD.values()])


class RankedPods(Struct, frozen=True, eq=False, dict=True):
    """The pods of a group that may move, cheapest first: a pod's rank is its position among them.

    `owners` gives the member that a pod belongs to by the pod's UID, where there are several. `avoided` are the UIDs of
    victims of last resort. `counted` are the counts by node of exactly these pods, where that is known. `allowed` is
    when the budgets allow the eviction of each pod, by UID, if they distinguish the pods.
    """

    pods: Sequence[Pod] = ()
    member: PodController | None = None
    owners: Mapping[str, PodController] = {}
    avoided: frozenset[str] = frozenset()
    counted: NodeCounts | None = None
    allowed: Mapping[str, Allowed] = {}

    def joined_by(self, pods: Iterable[tuple[Pod, PodController]]) -> "RankedPods":
        """Return these pods and others, each with its member, after them."""
        joining = list(pods)
        members = {id(member): member for _, member in joining}
        owners = {**self.owners, **{pod.uid: member for pod, member in joining}}
        first = self.member if self.member is not None else next(iter(members.values()))
        return RankedPods([*self.pods, *(pod for pod, _ in joining)], first, owners, self.avoided)

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "RankedPods":
        """Return the pods whose eviction is allowed by `latest`, sorted by how soon it is allowed."""
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

    def find(self, uid: str) -> Victim | None:
        """Return the pod with this UID as a victim, None if it is not among these pods."""
        return next((self.victims([rank])[0] for rank, pod in enumerate(self.pods) if pod.uid == uid), None)

    @cached_property
    def by_node(self) -> Mapping[str, list[Victim]]:
        """The victims by node, cheapest first; the nodes are in the order of their cheapest victim."""
        victims: dict[str, list[Victim]] = {}
        for victim in self.victims(range(len(self.pods))) if self.pods else ():
            victims.setdefault(victim.pod.node or "", []).append(victim)
        return victims
