"""Prevention in one cycle: each workload's order, the patches that maintain it, and the skipped workloads.

Pure: the arguments are the cluster, the policy, and three values that the caller carries from cycle to cycle:

* since when a workload is not settled;
* the last results, which are valid until something about a group changes;
* written costs that the watch has not delivered yet.

All three may be lost at any time: the annotations are the state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from rebalancer.assessment.assess import Assessment
from rebalancer.model.deletion_costs import SURGE_COST, is_foreign, is_overwritten
from rebalancer.model.moves import Memory
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.worded import Worded
from rebalancer.policy import Policy, ScaleDownPrevention
from rebalancer.prevention.groups import CHOOSING_KINDS, PodGroup, find_pod_groups
from rebalancer.prevention.outcome import price
from rebalancer.prevention.scale_down import ScaleDown
from rebalancer.prevention.steering import Steering, removals, steer
from rebalancer.scheduling.view import View

UNSETTLED_FOR: Final = timedelta(minutes=1)
"""For how long a workload may lack Ready pods before the pods that it has are ranked without the missing ones."""

Known = tuple[ScaleDown, tuple[int, ...], Steering]
"""A group, the ranks of its pods, and the results that follow from them."""


class PodPatch(Struct, frozen=True, kw_only=True):
    """One pod's new deletion cost. Patches of a group are sent in their order, or not at all.

    The pod is patched only if it is unchanged since it was read: `uid` and `resource_version` are preconditions.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    cost: int | None
    """None to remove the cost."""
    marker_only: bool = False
    """Whether only the rebalancer's own annotation is removed, because somebody else has written the cost beside it."""


class Written(Struct, frozen=True):
    """A written cost, None if it was removed, and the pod's resourceVersion afterwards.

    It is kept until the watch delivers it.
    """

    cost: int | None
    resource_version: str


class Unsteered(Worded):
    """Why the order of a workload's pods is not kept; `sentence` says it to people."""

    FOREIGN = "Foreign", "Its order is not kept: somebody else has set a pod-deletion-cost on one of its pods."
    OVERWRITTEN = "Overwritten", "Its order is not kept: somebody has changed a deletion cost of the rebalancer's."
    SURGING = "Surging", "Its order waits for the end of a surge: one of its pods is marked to go."
    UNSETTLED = "Unsettled", "Its order waits for pods that are not Ready."
    BLOCKED = "Blocked", "Its order is not kept: every change of it would do harm before the next one."
    DELETED = "Deleted", "It is being deleted."


@dataclass(frozen=True, kw_only=True)
class GroupResult:
    """The order of one group, and the patches that maintain it.

    `unsteered` says why it is not maintained, None if it is. `unsettled_since` is None if the group is settled.
    """

    group: PodGroup
    known: Known
    patches: tuple[PodPatch, ...] = ()
    unsteered: Unsteered | None = None
    unsettled_since: datetime | None = None

    @property
    def uid(self) -> str:
        """The controller's UID."""
        return self.group.owner.uid

    @property
    def is_best(self) -> bool:
        """Whether the present ranks are as good as the best order found."""
        return price(self.steering.present) <= self.steering.order.price

    @property
    def steering(self) -> Steering:
        """What the present ranks leave, and what the best order would leave."""
        return self.known[2]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The deletion cost of each pod, whoever wrote it."""
        return self.known[1]


@dataclass(frozen=True, kw_only=True)
class Carried:
    """The state carried from cycle to cycle, by the UID of the controller, or for `written` of the pod."""

    unsettled: Mapping[str, datetime]
    known: Mapping[str, Known]
    written: Mapping[str, Written]


NOTHING_CARRIED: Final = Carried(unsettled={}, known={}, written={})


def evaluate_groups(
    view: View,
    assessment: Assessment,
    policy: Policy,
    memory: Memory,
    now: datetime,
    carried: Carried = NOTHING_CARRIED,
) -> Iterator[GroupResult]:
    """Yield the order of each workload with rules, one by one, and with `Steer` the patches that maintain it.

    With `Off`, yield nothing.
    """
    if policy.prevention.scale_down is not ScaleDownPrevention.OFF:
        for group in find_pod_groups(view, assessment, policy, memory):
            yield evaluate_group(group, policy, now, carried)


def evaluate_group(group: PodGroup, policy: Policy, now: datetime, carried: Carried = NOTHING_CARRIED) -> GroupResult:
    """Return the order of one group, and with `Steer` the patches that maintain it."""
    uid = group.owner.uid
    ranks = tuple([_rank(pod, carried.written) for pod in group.pods])
    known = carried.known.get(uid)
    if known is None or known[0] != group.problem or known[1] != ranks:
        known = group.problem, ranks, steer(group.problem, ranks)
    since = None if group.settled else carried.unsettled.get(uid, now)
    unsteered = _refuse(group, known[2], since, now)
    steered = (
        policy.prevention.scale_down is ScaleDownPrevention.STEER
        and unsteered is None
        and is_selected(group.owner.namespace, group.member.pods, policy)
    )
    patches = [_patch(group.pods[number], rank, carried.written) for number, rank in known[2].patches if steered]
    return GroupResult(group=group, known=known, patches=tuple(patches), unsteered=unsteered, unsettled_since=since)


def _rank(pod: Pod, written: Mapping[str, Written]) -> int:
    """Return a pod's own cost; the mark of a surge counts as 0.

    A group with such a mark, or with a cost that others have set, is not steered, so its value does not matter.
    """
    late = _find_late(pod, written)
    return (late.cost or 0) if late is not None else max(0, pod.own_deletion_cost)


def _find_late(pod: Pod, written: Mapping[str, Written]) -> Written | None:
    """Return the cost that was written to a pod and that the watch has not delivered yet."""
    late = written.get(pod.uid) if written else None
    return late if late is not None and is_older(pod.resource_version, late.resource_version) else None


def is_older(version: str, other: str) -> bool:
    """Return whether a resourceVersion is older than another: from Kubernetes 1.35 on they are numbers by contract."""
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other


def is_selected(namespace: str, pods: tuple[Pod, ...] | list[Pod], policy: Policy) -> bool:
    """Return whether the policy selects a workload, by its namespace and by all of its pods."""
    rules = policy.prevention
    if not rules.namespaces.selects(namespace):
        return False
    return rules.selector is None or all(rules.selector.compiled.matches(pod.labels) for pod in pods)


def _refuse(group: PodGroup, steering: Steering, since: datetime | None, now: datetime) -> Unsteered | None:
    top = group.member.top
    if group.owner.deleted is not None or (top is not None and top.deleted is not None):
        return Unsteered.DELETED
    if any(map(_is_surging, group.member.pods)):
        return Unsteered.SURGING
    foreign = [pod for pod in group.member.pods if pod.annotations and is_foreign(pod)]
    if foreign:
        return Unsteered.OVERWRITTEN if any(map(is_overwritten, foreign)) else Unsteered.FOREIGN
    if since is not None and now - since < UNSETTLED_FOR:
        return Unsteered.UNSETTLED
    return Unsteered.BLOCKED if steering.blocked else None


def _is_surging(pod: Pod) -> bool:
    return pod.own_deletion_cost == SURGE_COST


def find_removals(
    snapshot: Snapshot, policy: Policy, steered: frozenset[str], written: Mapping[str, Written]
) -> tuple[tuple[PodPatch, ...], ...]:
    """Return the patches that remove unwanted costs of the rebalancer, by controller, lowest costs first.

    `steered` are the UIDs of the controllers that have an order. If a workload is too small for an order at the moment,
    its costs stay, as they do during a surge. If Rebalancer has written no costs, only one number per pod is read.
    """
    by_owner: dict[str, list[Pod]] = {}
    for pod in snapshot.covered_pods:
        if (pod.own_deletion_cost or (pod.annotations and is_overwritten(pod))) and not pod.terminating:
            late = _find_late(pod, written)
            if late is None or late.cost is not None:
                by_owner.setdefault(pod.owner.uid if pod.owner is not None else "", []).append(pod)
    return tuple(
        tuple([_patch(pods[number], None, written) for number in removals([pod.own_deletion_cost for pod in pods])])
        for uid, pods in by_owner.items()
        if not any(map(_is_surging, pods)) and not _is_wanted(uid, snapshot, policy, steered)
    )


def _is_wanted(uid: str, snapshot: Snapshot, policy: Policy, steered: frozenset[str]) -> bool:
    owner = snapshot.workload.get(uid)
    if policy.prevention.scale_down is not ScaleDownPrevention.STEER or owner is None:
        return False
    living = [pod for pod in snapshot.pods_of.get(uid, ()) if not pod.terminating and not pod.finished]
    if owner.kind not in CHOOSING_KINDS or not is_selected(owner.namespace, living, policy):
        return False
    return uid in steered or sum(pod.ready and pod.node is not None for pod in living) < 2


def _patch(pod: Pod, cost: int | None, written: Mapping[str, Written]) -> PodPatch:
    late = _find_late(pod, written)
    return PodPatch(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=late.resource_version if late is not None else pod.resource_version,
        cost=cost,
        marker_only=cost is None and is_overwritten(pod),
    )
