"""Next actions of an owner's controller that keep its pods in place: no replacement, a rollout, a scale-up.

The controller decides what replaces an evicted pod, and when. `eligibility` has further such facts (a rollout, a pause,
a deletion) and puts all of them in order.
"""

from collections.abc import Iterable

from rebalancer.assessment.controllers import PodController
from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.stateful_sets import find_awaited
from rebalancer.model.words import name_list, plural
from rebalancer.model.workloads import Workload


class CreationFails(Refusal):
    """The owner could not create its last pod: its condition ReplicaFailure, reason FailedCreate."""

    reason = Reason.CANNOT_CREATE
    ends = "when {self.owner_kind} {self.name} creates pods again"
    owner_kind: str
    name: str
    message: str

    def __str__(self) -> str:
        return (
            f"its {self.owner_kind} {self.name} cannot create pods: {self.message}; allow the pods to be created, or "
            "scale the workload down"
        )


class PodsTerminating(Refusal):
    """Pods of a StatefulSet are terminating on nodes that are not Ready, so nothing confirms that they ended."""

    reason = Reason.CANNOT_CREATE
    ends = "when its terminating pods are deleted"
    pods: int
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        are, them, their, they_are = f"nodes {name_list(self.nodes)} are", "them", "their Node objects", "they are"
        if len(self.nodes) == 1:
            are, them, their, they_are = f"node {self.nodes[0]} is", "it", "its Node object", "it is"
        return (
            f"its StatefulSet does not replace pods that are terminating, and {plural(self.pods, 'pod')} cannot end "
            f"while {are} not Ready. Bring {them} back, or delete {their} (kubectl delete node) once {they_are} off "
            "for certain"
        )


class SeveralReplicaSets(Refusal):
    """Several ReplicaSets of one owner have pods, so the owner, of any kind, is being rolled out."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    ends = "when its rollout has ended"
    owner_kind: str
    name: str
    replica_sets: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"its {self.owner_kind} {self.name} is being rolled out: {name_list(self.replica_sets)} "
            f"{'has or wants' if len(self.replica_sets) == 1 else 'have or want'} some of its pods"
        )


class AutoscalerScales(Refusal):
    """A HorizontalPodAutoscaler is about to scale the workload to its `minReplicas`, or to its `maxReplicas`."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    ends = "when HorizontalPodAutoscaler {self.autoscaler} has scaled it"
    autoscaler: str
    field: str
    bound: int
    replicas: int

    def __str__(self) -> str:
        return (
            f"HorizontalPodAutoscaler {self.autoscaler} is about to scale it: {self.field} is {self.bound}, and it has "
            f"{plural(self.replicas, 'replica')}"
        )


class LowerOrdinalNotReady(Refusal):
    """An owner with podManagementPolicy OrderedReady waits for a pod of a lower ordinal before it creates others.

    `state` says what is wrong with that pod.
    """

    reason = Reason.CANNOT_CREATE
    ends = "when pod {self.pod} is Ready"
    owner_kind: str
    pod: str
    state: str

    def __str__(self) -> str:
        return (
            f"its {self.owner_kind} has podManagementPolicy OrderedReady, and pod {self.pod} {self.state}: no "
            f"replacement would be created before {self.pod} is Ready. Repair that pod first"
        )


class OwnsObjects(Refusal):
    """The pod is the only owner of other objects: the garbage collector deletes them, too, and checks no budget."""

    reason = Reason.NOT_EVICTABLE
    objects: tuple[str, ...]
    pods: int

    def __str__(self) -> str:
        that = "that" if len(self.objects) == 1 else "these"
        return (
            f"it owns {name_list(self.objects)}: the garbage collector would delete {that} too, "
            f"{plural(self.pods, 'pod')} in all, whatever their PodDisruptionBudgets allow. Delete it by hand where "
            "that is wanted"
        )


def refuse_other_replica_sets(member: PodController, snapshot: Snapshot) -> Refusal | None:
    """Refuse a ReplicaSet if another ReplicaSet of its owner wants or has pods.

    Pods that are terminating or finished no longer belong to a rollout. Once an old ReplicaSet wants no pods, its last
    pods end by themselves, are not replaced, and do not count for the scheduler's spread. This rule does not apply to
    StatefulSets: the StatefulSets of one owner are the parts of one application, as an operator makes them.
    """
    owner = member.owner
    if owner is None or owner.owner is None:
        return None
    others = [
        other.name
        for other in snapshot.owned_by[owner.owner.uid]
        if other.kind == owner.kind and other.uid != owner.uid and _wants_or_has_pods(other, snapshot)
    ]
    return SeveralReplicaSets(owner.owner.kind, owner.owner.name, tuple(sorted(others))) if others else None


def _wants_or_has_pods(owner: Workload, snapshot: Snapshot) -> bool:
    return owner.replicas > 0 or any(run.living for run in snapshot.runs_of.get(owner.uid, ()))


def refuse_scaled(workload: Workload, snapshot: Snapshot) -> Refusal | None:
    """Refuse a workload with fewer or more replicas than its autoscaler allows.

    With 0 replicas the autoscaler is switched off or has scaled to zero; the workload has no pods that could move.
    Source: `pkg/controller/podautoscaler/horizontal.go` (reconcileAutoscaler), which needs no metrics to enforce these
    bounds.
    """
    if not workload.replicas:
        return None
    for scaler in snapshot.autoscalers_of.get((workload.namespace, workload.kind, workload.name), ()):
        name = f"{scaler.namespace}/{scaler.name}"
        if scaler.min_replicas > workload.replicas:
            return AutoscalerScales(name, "minReplicas", scaler.min_replicas, workload.replicas)
        if scaler.max_replicas is not None and scaler.max_replicas < workload.replicas:
            return AutoscalerScales(name, "maxReplicas", scaler.max_replicas, workload.replicas)
    return None


def find_first_unready(owner: Workload, snapshot: Snapshot) -> tuple[int, Refusal] | None:
    """Return the ordinal that a StatefulSet waits for, and why no higher ordinal would be created; None without one."""
    awaited = find_awaited(owner, snapshot.pods_of.get(owner.uid, ()))
    if awaited is None:
        return None
    ordinal, pod = awaited
    return ordinal, LowerOrdinalNotReady(owner.kind, f"{owner.name}-{ordinal}", _describe_awaited(pod))


def _describe_awaited(pod: Pod | None) -> str:
    if pod is None:
        return "does not exist"
    if pod.terminating:
        return "is terminating"
    return f"is {pod.phase}" if pod.finished else "is not Ready"


def refuse_owning(pod: Pod, snapshot: Snapshot) -> Refusal | None:
    """Refuse a pod with which other running pods would be deleted; ended or terminating pods do not count."""
    owned = [other for other in snapshot.owned_by_pod.get(pod.uid, ()) if _is_there(other)]
    if not owned:
        return None
    names = sorted(f"{'Pod' if isinstance(other, Pod) else other.kind} {other.name}" for other in owned)
    return OwnsObjects(tuple(names), _count_pods(owned, snapshot))


def _is_there(owned: Workload | Pod) -> bool:
    return owned.deleted is None and not (isinstance(owned, Pod) and owned.finished)


def _count_pods(objects: Iterable[Workload | Pod], snapshot: Snapshot) -> int:
    """Count the pods deleted together with some objects: pods among these, pods that they control, and so on."""
    going: dict[str, Workload | Pod] = {}
    left = list(objects)
    while left:
        owned = left.pop()
        if owned.uid in going or not _is_there(owned):  # owner references may form a circle
            continue
        going[owned.uid] = owned
        left += snapshot.owned_by_pod.get(owned.uid, ())
        left += snapshot.pods_of.get(owned.uid, ())
        left += snapshot.owned_by.get(owned.uid, ())
    return sum(isinstance(owned, Pod) for owned in going.values())
