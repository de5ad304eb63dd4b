"""Which pods of a group are movable, which are kept by volumes, affinity or a leaving node, and how many wait."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct, field, structs

from rebalancer.assessment.controllers import PodController, count_members_pods
from rebalancer.creation.replacement import replacement
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.model.words import name_list, plural
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.eligibility import EligibilityChecker
from rebalancer.planning.scope.victims import Allowed, RankedPods, Victim, sort_by_cost
from rebalancer.scheduling.feasibility import reached_by_volumes
from rebalancer.scheduling.node_index import NodeCounts
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

_NODE: Final = attrgetter("node")


class VolumePinned(Refusal):
    """The pod's volumes reach only some of the nodes that its group can use, and no other domain that helps."""

    reason = Reason.VOLUME_PINNED
    reachable: int
    nodes: int

    def __str__(self) -> str:
        return f"its volumes can be attached on {self.reachable} of {plural(self.nodes, 'node')} that admit it"


class TemplatesDiffer(Refusal):
    """A partition keeps a StatefulSet at two revisions, and this pod is scheduled differently from the first one.

    All pods of one owner are planned in the class of its first pod.
    """

    reason = Reason.NOT_PREDICTABLE
    pod: str
    revision: str

    def __str__(self) -> str:
        return (
            f"it would come back at revision {self.revision}, whose pods are scheduled differently from {self.pod}, "
            "and the partition of its StatefulSet keeps both; finish the rollout to allow the eviction"
        )


class DefinitionsDiffer(Refusal):
    """A foreign owner without a template defines each of its pods, and this one is scheduled unlike the first one."""

    reason = Reason.NOT_PREDICTABLE
    owner_kind: str
    pod: str

    def __str__(self) -> str:
        return (
            f"its {self.owner_kind} defines each pod, and it is scheduled differently from {self.pod}: pods of one "
            "owner are planned only where they are alike"
        )


class VolumeInUse(Refusal):
    """Other pods use the pod's ReadWriteOnce volume on its node, so a replacement could start only there.

    The scheduler does not check that; the attach-detach controller answers Multi-Attach for as long as they live.
    `known` is whether CSIDrivers were read; a CSIDriver may say that its volumes need no attachment.
    """

    reason = Reason.VOLUME_PINNED
    claim: str
    node: str
    pods: tuple[str, ...]
    driver: str
    known: bool

    def __str__(self) -> str:
        unread = "" if self.known else f", or read CSIDrivers: {self.driver} may attach nothing (attachRequired: false)"
        return (
            f"its ReadWriteOnce volume (PersistentVolumeClaim {self.claim}) is attached to node {self.node}, where "
            f"{name_list(self.pods)} {'uses' if len(self.pods) == 1 else 'use'} it: its replacement would not start "
            f"elsewhere. Use a ReadWriteMany volume, or one for each pod{unread}"
        )


class ClaimLost(Refusal):
    """The volume of a claim is gone: the pod still runs, but no replacement would start."""

    reason = Reason.VOLUME_PINNED
    claim: str
    volume: str

    def __str__(self) -> str:
        return (
            f"its PersistentVolumeClaim {self.claim} is Lost, since PersistentVolume {self.volume} is gone: its "
            "replacement would not start. Restore the volume, or save the data and replace the claim"
        )


class ClaimBeingDeleted(Refusal):
    """A claim of the pod is being deleted. It goes away with the last pod that uses it."""

    reason = Reason.VOLUME_PINNED
    claim: str

    def __str__(self) -> str:
        return (
            f"its PersistentVolumeClaim {self.claim} is being deleted, and goes with the last pod that uses it. Save "
            "the data before that pod goes"
        )


class NodeGone(Refusal):
    """The node of a pod does not exist any more; the pod must be replaced first."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when pod {self.pod} is replaced"
    node: str
    pod: str

    def __str__(self) -> str:
        return f"node {self.node} no longer exists; waiting for the replacement of pod {self.pod}"


class PendingPodUnpredictable(Refusal):
    """A pod has no node yet, and the model cannot predict where it may be placed."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when pod {self.pod} has a node"
    pod: str
    message: str

    def __str__(self) -> str:
        return f"pod {self.pod} is pending: {self.message}"


class PendingPodWithVolumes(Refusal):
    """A pod with volumes of its own has no node yet."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when the pods of {self.workload} have a node"
    workload: Reference

    def __str__(self) -> str:
        return f"a pod of {self.workload} with volumes of its own is pending"


class PodPartition(Struct, eq=False):
    """The pods of a group. `missing` is the number without a node, including pods that owners have still to create."""

    ranked: RankedPods = RankedPods()
    """The pods that may move, ranked by cost."""
    refused: list[tuple[Pod, PodController, Refusal]] = field(default_factory=list)
    missing: int = 0
    waiting: list[Pod] = field(default_factory=list)
    uncreated: list[tuple[Pod, int]] = field(default_factory=list)
    """Pods that owners have still to create: an example pod, and how many."""

    @property
    def movable(self) -> Mapping[str, list[Victim]]:
        """The pods that may move by node, cheapest first; the nodes are in the order of their cheapest pod."""
        return self.ranked.by_node

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "PodPartition":
        """Return the partition with only those pods movable whose eviction is allowed by `latest`."""
        return structs.replace(self, ranked=self.ranked.within(allowed, latest))

    def add(self, other: "PodPartition") -> None:
        """Add the pods of another class; `ranked` stays, as each class ranks its own."""
        self.refused += other.refused
        self.missing += other.missing
        self.waiting += other.waiting
        self.uncreated += other.uncreated


class PodPartitioner:
    """Partitions pods by one policy and its budgets, over one view."""

    def __init__(
        self, view: View, eligibility: EligibilityChecker, ledger: BudgetLedger, avoided: frozenset[str] = frozenset()
    ) -> None:
        """Take the UIDs of the pods that are victims of last resort as `avoided`."""
        self._view = view
        self._avoided = avoided
        self._eligibility = eligibility
        self._ledger = ledger
        self._reach: dict[str, frozenset[str]] = {}

    def partition(
        self,
        members: Sequence[PodController],
        refusals: Sequence[Refusal | None],
        nodes: frozenset[str],
        counts: Callable[[Labels], bool],
        only: frozenset[str] | None = None,
    ) -> PodPartition | Refusal:
        """Partition the members' pods; `refusals` says for each member why none of its pods may move, or None.

        `nodes` admit the group's pods; `counts` returns whether pods with these labels count. With `only`, a set of
        UIDs, all other pods are left out.

        A pod whose labels have been changed so that it is not counted is neither movable nor refused: moving it would
        repair nothing. The group is refused while one of its pods is pending and the scheduler may not choose its node
        freely.
        """
        pods = PodPartition()
        movable: list[Pod] = []
        several, alike = len(members) > 1, True
        owned: dict[str, PodController] = {}
        counted: NodeCounts | None = None
        for member, refusal in zip(members, refusals, strict=True):
            if refusal is None and self._are_all_movable(member, counts):
                movable += member.pods
                if not several:
                    counted = count_members_pods(member, self._view)
                waiting: Sequence[Pod] | Refusal = ()
            else:
                alike = False
                of_class = _take(member, only)
                waiting = self._partition_member(of_class, member, refusal, nodes, counts, pods, movable)
            if several:
                owned.update(dict.fromkeys([pod.uid for pod in member.pods], member))
            blocked = waiting if isinstance(waiting, Refusal) else self._count_pending(member, waiting, pods)
            if blocked is not None:
                return blocked
        # The pods of one member are sorted by name already.
        sort_by_cost(movable, self._avoided, named=not several, alike=alike and not several)
        pods.ranked = RankedPods(movable, members[0], owned, self._avoided, counted)
        return pods

    def _are_all_movable(self, member: PodController, counts: Callable[[Labels], bool]) -> bool:
        """Return whether a quick test shows that all pods of a member are alike, on nodes, and may move.

        A plan of 150,000 pods takes 1.3 times as long if each pod is tested. One pod is tested here for checks that
        depend on labels alone. Members with volumes or pods of two templates are left to the test of each pod.
        """
        pods = member.pods
        if member.labels is None or not pods or _may_have_two_templates(member):
            return False
        spec = pods[0].spec
        if any(pod.spec is not spec or pod.annotations or pod.claims for pod in pods):
            return False
        # All pods of a member whose labels are known have a node.
        on_nodes = self._view.all_on_nodes or self._view.nodes.names.issuperset(map(_NODE, pods))
        return (
            on_nodes
            and counts(pods[0].labels)
            and self._ledger.refusal(pods[0]) is None
            and self._eligibility.are_all_movable(pods)
        )

    def _partition_member(
        self,
        of_class: Sequence[Pod],
        member: PodController,
        refusal_of_all: Refusal | None,
        reachable: frozenset[str],
        counts: Callable[[Labels], bool],
        pods: PodPartition,
        movable: list[Pod],
    ) -> Sequence[Pod] | Refusal:
        """Partition the pods of one member that are of the class; return those without a node."""
        refuse_by_budgets, nodes = self._ledger.refusal, self._view.nodes.by_name
        alike: dict[Labels, tuple[bool, Refusal | None]] = {}
        waiting: list[Pod] = []
        two_templates = _may_have_two_templates(member)
        for pod in of_class:
            node, labels = pod.node, pod.labels
            if node is None:
                if not pod.spec.gated:  # a pod with scheduling gates takes no place until they are removed
                    waiting.append(pod)
                continue
            if node not in nodes:
                return NodeGone(node, pod.name)
            known = alike.get(labels)
            if known is None:
                known = alike[labels] = counts(labels), refusal_of_all or refuse_by_budgets(pod)
            if not known[0]:
                continue
            refusal = known[1] or self._eligibility.refuse_pod(pod)
            if refusal is None and two_templates:
                refusal = self._refuse_other_template(pod, member, counts)
            if refusal is None and pod.claims:
                refusal = self._refuse_pinned(pod, reachable)
            if refusal is not None:
                pods.refused.append((pod, member, refusal))
            else:
                movable.append(pod)
        return waiting

    def _count_pending(self, member: PodController, waiting: Sequence[Pod], pods: PodPartition) -> Refusal | None:
        """Count the pods of a member without a node in `pods`; refuse if the scheduler may not choose freely."""
        if member.owner is not None:
            uncreated = max(0, member.owner.replicas - len(member.pods))
            pods.missing += uncreated + len(waiting)
            if uncreated and not isinstance(member.next_pod, Unpredictable):
                pods.uncreated.append((member.next_pod, uncreated))
        pods.waiting += waiting
        return self._refuse_held_back(member, waiting)

    def _refuse_held_back(self, member: PodController, waiting: Sequence[Pod]) -> Refusal | None:
        """Refuse pods without a node that are held back (gates), or tied to fewer nodes than others by volumes."""
        for pod in waiting:
            unclear = unpredictable(pod, self._view)
            if unclear is not None:
                return PendingPodUnpredictable(pod.name, unclear.message)
        missing = waiting or (member.owner is not None and member.owner.replicas > len(member.pods))
        if missing and any(pod.claims for pod in member.pods):
            return PendingPodWithVolumes(member.reference)
        return None

    def _refuse_other_template(
        self, pod: Pod, member: PodController, counts: Callable[[Labels], bool]
    ) -> Refusal | None:
        """Refuse a pod whose replacement would differ from the member's next pod; images make no difference."""
        made, sample = replacement(pod, self._view), member.next_pod
        if isinstance(made, Unpredictable):
            return made
        assert not isinstance(sample, Unpredictable), "no pod of such a member may move"
        if _scheduling_terms(made) == _scheduling_terms(sample) and counts(made.labels) == counts(sample.labels):
            return None
        if member.owner is not None and member.owner.keeps_pods:
            return DefinitionsDiffer(member.owner.kind, member.pods[0].name)
        return TemplatesDiffer(member.pods[0].name, made.labels["controller-revision-hash"])

    def _refuse_pinned(self, pod: Pod, nodes: frozenset[str]) -> Refusal | None:
        """Refuse a pod whose volumes are going or gone, or reach fewer nodes than admit the group's pods."""
        unusable = self._refuse_claims(pod)
        if unusable is not None:
            return unusable
        following = replacement(pod, self._view)
        if isinstance(following, Unpredictable):
            return following
        reach = self.reach(pod)
        if not nodes <= reach:
            return VolumePinned(len(reach & nodes), len(nodes))
        return self._refuse_attached(following, pod)

    def _refuse_claims(self, pod: Pod) -> ClaimLost | ClaimBeingDeleted | None:
        """Refuse a pod with a claim that its replacement cannot use, unless the claim is deleted with the pod."""
        for name in pod.claims:
            claim = self._view.snapshot.claim.get((pod.namespace, name))
            if claim is None or claim.owner_uid == pod.uid:
                continue
            if claim.lost:
                return ClaimLost(name, claim.volume)
            if claim.deleted:
                return ClaimBeingDeleted(name)
        return None

    def reach(self, pod: Pod) -> frozenset[str]:
        """Return the nodes that the volumes of a pod's replacement reach; none if these are not known."""
        known = self._reach.get(pod.uid)
        if known is None:
            following = replacement(pod, self._view)
            known = frozenset[str]()
            if not isinstance(following, Unpredictable):
                known = reached_by_volumes(following, self._view)
            self._reach[pod.uid] = known
        return known

    def _refuse_attached(self, following: Pod, pod: Pod) -> Refusal | None:
        """Refuse a pod that shares a ReadWriteOnce volume with other pods on one node.

        Some volumes are not attached: NFS, host paths, and those of CSI drivers that say so. Pods that have started
        with a volume on several nodes show the same.
        """
        snapshot = self._view.snapshot
        for name in following.claims:
            claim = snapshot.claim.get((pod.namespace, name))
            volume = snapshot.volume.get(claim.volume) if claim is not None else None
            if volume is None or not volume.of_one_node or not volume.attached:
                continue
            if volume.driver in snapshot.attaching_nothing:
                continue
            users = snapshot.users_of.get((pod.namespace, name), ())
            others = [other for other in users if other.uid != pod.uid]
            nodes = {user.node for user in users if user.started}
            if others and len(nodes) <= 1:
                node = next(iter(nodes), others[0].node) or ""
                names = tuple(sorted(other.name for other in others))
                known = not volume.driver or "CSIDriver" in snapshot.known
                return VolumeInUse(f"{pod.namespace}/{name}", node, names, volume.driver, known)
        return None


def _may_have_two_templates(member: PodController) -> bool:
    """Return whether pods of a member may come back by different templates."""
    return member.owner is not None and (bool(member.owner.held_back) or member.owner.keeps_pods)


def _take(member: PodController, only: frozenset[str] | None) -> Sequence[Pod]:
    return member.pods if only is None else [pod for pod in member.pods if pod.uid in only]


def _scheduling_terms(pod: Pod) -> PodSpec:
    """Return what the scheduler reads of a pod, but for its images."""
    return structs.replace(pod.spec, images=(), containers=1)
