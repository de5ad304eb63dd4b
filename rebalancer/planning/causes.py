"""Why something is not moved, or cannot be repaired: causes as data, which reporting puts into words.

Each class is one fact with its numbers. `Refusal` pairs it with the reason of the closed enum that others rely on.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from rebalancer.model.motion import DomainMotion, NodeChange
from rebalancer.model.moves import DomainName, Reference
from rebalancer.model.pods import LocalVolume
from rebalancer.model.reasons import Reason

MAX_UNAVAILABLE: Final = "budgets.maxUnavailable"
PER_WORKLOAD: Final = "budgets.perWorkload"
"""The policy's fields that limit one workload: pods that are unavailable for any cause, and moves in flight."""

OF_TEAM: Final = " of the team policy"
"""Follows the name of a budget that the team policy of the namespace sets."""

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""The cluster-autoscaler's annotations that allow evicting a pod with local volumes: with any, or with those listed."""


class Fact(Struct, frozen=True, gc=False):
    """A fact; equal facts are equal values."""


class Modelled(Fact, frozen=True, gc=False):
    """The message of the scheduling model about a pod that it cannot predict; `workload` may be None."""

    message: str
    workload: Reference | None = None


# Which pods may move: the owner


class OwnerKindNotListed(Fact, frozen=True, gc=False):
    """The policy's eligibility.owners does not list this kind."""

    kind: str


class OwnerUnknown(Fact, frozen=True, gc=False):
    """The owner was not read."""

    kind: str
    name: str


class NamespaceExcluded(Fact, frozen=True, gc=False):
    """The policy's eligibility.namespaces leaves this namespace out."""

    namespace: str


class TeamPolicyUnreadable(Fact, frozen=True, gc=False):
    """No valid version of the namespace's team policy is known."""

    namespace: str


class NamespaceBeingDeleted(Fact, frozen=True, gc=False):
    """The namespace has a deletionTimestamp: no pod can be created there any more."""

    namespace: str


class NotReplaced(Fact, frozen=True, gc=False):
    """Nothing replaces it (a bare pod), or only on the same node (`same_node`)."""

    same_node: bool


class TooFewReplicas(Fact, frozen=True, gc=False):
    """The workload has fewer replicas than eligibility.minReplicas."""

    replicas: int
    least: int


class OwnerBeingDeleted(Fact, frozen=True, gc=False):
    """The owner is being deleted."""

    kind: str


class OwnerPaused(Fact, frozen=True, gc=False):
    """The owner's rollout is paused."""

    kind: str


class OwnerJustChanged(Fact, frozen=True, gc=False):
    """The owner's controller has not seen its newest spec."""

    kind: str


class OwnerRollingOut(Fact, frozen=True, gc=False):
    """The owner has not the pods that it should have, or some of an older template."""

    kind: str
    current: int
    replicas: int
    updated: int


class OwnerShrinking(Fact, frozen=True, gc=False):
    """A StatefulSet has pods beyond its ordinals, which it deletes as soon as all others are Ready."""

    pods: int
    replicas: int


class OnDeleteRevision(Fact, frozen=True, gc=False):
    """A StatefulSet with `updateStrategy: OnDelete` has a pod of another revision than its `updateRevision`."""

    pod: str
    revision: str
    update_revision: str


# Which pods may move: the pod


class MirrorPod(Fact, frozen=True, gc=False):
    """Its node would create it again."""


class Annotated(Fact, frozen=True, gc=False):
    """An annotation excludes it from moving: on the pod, its owner of a kind, or its Namespace."""

    kind: str
    key: str
    value: str


class LocalVolumes(Fact, frozen=True, gc=False):
    """Volumes with data on its node, of kinds that the policy's eligibility.localStorage refuses."""

    volumes: tuple[LocalVolume, ...]


class NotSelected(Fact, frozen=True, gc=False):
    """The policy's eligibility.selector leaves it out."""


class OtherScheduler(Fact, frozen=True, gc=False):
    """A scheduler that the policy does not name places it."""

    scheduler: str
    expected: str


class EvictionResponders(Fact, frozen=True, gc=False):
    """Its evictionResponders decide about its eviction."""


class PriorityClassMissing(Fact, frozen=True, gc=False):
    """The PriorityClass that eligibility.priorityBelow names does not exist."""

    name: str


class PriorityTooHigh(Fact, frozen=True, gc=False):
    """Its priority is not below eligibility.priorityBelow."""

    priority: int
    bound: str


class TooYoung(Fact, frozen=True, gc=False):
    """It is younger than eligibility.minAge."""

    age: timedelta
    least: timedelta


class Arriving(Fact, frozen=True, gc=False):
    """It replaces an evicted pod, and is not Ready yet: whether that move was right is not known before."""


class VolumePinned(Fact, frozen=True, gc=False):
    """Its volumes reach fewer of the nodes than the group's pods can use."""

    reachable: int
    nodes: int


# Budgets


class SeveralBudgets(Fact, frozen=True, gc=False):
    """Several PodDisruptionBudgets select it, so that the API refuses to evict it."""

    budgets: tuple[str, ...]


class BudgetNotObserved(Fact, frozen=True, gc=False):
    """The PodDisruptionBudget was just changed; its controller has not computed its status yet."""

    budget: str


class BudgetNotComputed(Fact, frozen=True, gc=False):
    """The disruption controller could not compute the budget's status."""

    budget: str


class BudgetExhausted(Fact, frozen=True, gc=False):
    """The PodDisruptionBudget allows no further eviction now; `planned` of those that it allowed are in the plan."""

    budget: str
    healthy: int
    expected: int
    desired: int
    planned: int = 0


class WorkloadLimitReached(Fact, frozen=True, gc=False):
    """Our own limits for one workload allow no further eviction now: at most `allowed` by `field` of the policy.

    `unavailable` of its replicas are unavailable for any cause, `moving` are in flight, `planned` are the pods that are
    to be evicted before.
    """

    replicas: int
    unavailable: int
    moving: int
    planned: tuple[str, ...]
    field: str
    allowed: int


class GroupUnavailable(Fact, frozen=True, gc=False):
    """The group's disruption.maxInFlight is used up; `pending_is_one`: also by the pod that the repair would free."""

    group: str
    unavailable: int
    most: int
    pending_is_one: bool = False


class GroupSettling(Fact, frozen=True, gc=False):
    """A pod of the group became Ready less than disruption.settle ago."""

    group: str
    ago: timedelta
    settle: timedelta


class StepExceedsBudget(Fact, frozen=True, gc=False):
    """The smallest step needs more concurrent evictions than the budgets of the workload ever allow.

    `budgets` are the PodDisruptionBudgets that allow no more than `allowed`, `fields` those fields of the policy; with
    neither it is a limit's `disruption`. `workload` is "" where there are several workloads.
    """

    needed: int
    allowed: int
    workload: str = ""
    budgets: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class StepWaitsForBudget(Fact, frozen=True, gc=False):
    """The step may need more concurrent evictions than the budgets allow now."""

    needed: int


# The component as a whole


class ObjectUnreadable(Fact, frozen=True, gc=False):
    """An object that could count as a pod, or forbid an eviction, could not be read."""

    fault: str


class OthersUncreated(Fact, frozen=True, gc=False):
    """Another owner has still to create pods that the constraints count too."""

    owner: str


class OthersPending(Fact, frozen=True, gc=False):
    """A pod of another workload, which the constraints count too, has no node yet."""

    pod: str


class NodeGone(Fact, frozen=True, gc=False):
    """The node of a pod does not exist any more; the pod must be replaced first."""

    node: str
    pod: str


class PendingPodUnpredictable(Fact, frozen=True, gc=False):
    """A pod has no node yet, and the model cannot say where it may be placed."""

    pod: str
    message: str


class PendingPodWithVolumes(Fact, frozen=True, gc=False):
    """A pod with volumes of its own has no node yet."""

    workload: Reference


class NodeBeingDeleted(Fact, frozen=True, gc=False):
    """A node that may take a replacement is being deleted."""

    node: str


class NodeToBeRemoved(Fact, frozen=True, gc=False):
    """An autoscaler is about to remove a node that may take a replacement, as its taint says."""

    node: str
    taint: str


class PodsNodeBeingRemoved(Fact, frozen=True, gc=False):
    """An autoscaler is removing the node of a pod, which it will evict."""

    node: str
    pod: str
    taint: str


class NodeNotReady(Fact, frozen=True, gc=False):
    """A node that may take a replacement is not Ready."""

    node: str


class NodeSettling(Fact, frozen=True, gc=False):
    """A node that may take a replacement has been Ready for less than nodes.settle; the step waits until `until`."""

    node: str
    since: datetime
    settle: timedelta
    until: datetime


class NodeChanged(Fact, frozen=True, gc=False):
    """A replacement may land on a node that was uncordoned, relabelled or lost lately, or near it if it is lost.

    `domain` is that of a lost node, in which the step waits with it; else None. The component waits at most `longest`
    in all.
    """

    change: NodeChange
    domain: DomainName | None
    longest: timedelta
    until: datetime


class DomainInMotion(Fact, frozen=True, gc=False):
    """A replacement may land in a domain that loses nodes, or has until a moment ago."""

    motion: DomainMotion
    until: datetime


class CountsInMotion(Fact, frozen=True, gc=False):
    """What is to be repaired was not so, or less so, before a node changed: it waits until that has lasted."""

    change: NodeChange
    settle: timedelta
    until: datetime


class OwnPodsNotSelected(Fact, frozen=True, gc=False):
    """A constraint's selector does not match the workload's own pods."""


class NothingRecreates(Fact, frozen=True, gc=False):
    """No owner that is known would create its pods again."""


class HostPortsOfSeveralClasses(Fact, frozen=True, gc=False):
    """Pods of several classes have host ports; which of them exclude each other is not modelled."""


class PodAffinityRequired(Fact, frozen=True, gc=False):
    """Required affinity to pods changes the feasible nodes with every placement."""


class OneSidedAntiAffinity(Fact, frozen=True, gc=False):
    """Some of its pods have anti-affinity to others that have none to them."""


class NotActedOn(Fact, frozen=True, gc=False):
    """The policy's spread.actOn does not list what is violated."""


# Why no eviction, or none now


class PendingWillSatisfy(Fact, frozen=True, gc=False):
    """Scheduling the pending pods repairs it."""

    pods: int


class NoNodeAdmits(Fact, frozen=True, gc=False):
    """No node admits a pending pod, though a placement of all pods exists."""

    pod: str


class CapacityReserved(Fact, frozen=True, gc=False):
    """Pods that are being placed may take the capacity that it needs."""


class PredictionUnverified(Fact, frozen=True, gc=False):
    """A predicted move of the component is to be verified first."""


class FailedPredictions(Fact, frozen=True, gc=False):
    """The replacements of several moves in a row were not placed as predicted, and nothing forces them to be."""

    moves: int


class NoSafeEviction(Fact, frozen=True, gc=False):
    """The scheduler could place the replacement of every candidate where it does not help."""


class StepSearchLimit(Fact, frozen=True, gc=False):
    """The search for a safe step reached its limit."""


class MinimumSearchLimit(Fact, frozen=True, gc=False):
    """The search for the fewest evictions reached its limit."""


class NoSequence(Fact, frozen=True, gc=False):
    """A placement exists, but no sequence of evictions and placements leads there: proved."""

    evictions: int


class PodsStay(Fact, frozen=True, gc=False):
    """Every placement that satisfies everything moves pods that must stay, most of them for the reason of `pod`."""

    pods: int
    pod: str
    cause: Fact


class OthersStay(Fact, frozen=True, gc=False):
    """The constraints count pods of other workloads too, and these are not moved for this one."""


class NoCapacity(Fact, frozen=True, gc=False):
    """The nodes that would have to take more of these pods are full; `domains` of `key` are theirs where known."""

    key: str = ""
    domains: tuple[str, ...] = ()


class DomainsCordoned(Fact, frozen=True, gc=False):
    """Every node of these domains is cordoned: a zone in maintenance."""

    key: str
    domains: tuple[str, ...]


class TooFewDomains(Fact, frozen=True, gc=False):
    """Fewer domains exist than minDomains requires: each may hold at most maxSkew pods.

    `feasible` are the nearest numbers of pods that can be placed.
    """

    domains: int
    max_skew: int
    pods: int
    feasible: tuple[int, ...]


class NoPlacement(Fact, frozen=True, gc=False):
    """No placement of `pods` equal pods satisfies everything; `feasible` are the nearest numbers for which one does."""

    pods: int
    feasible: tuple[int, ...]


class NoPlacementOfClasses(Fact, frozen=True, gc=False):
    """No placement of pods of several classes satisfies everything.

    The nearest one, if known, has `unplaced` pods without a node and exceeds requirements by `excess` pods.
    """

    pods: int
    classes: int
    unplaced: int = 0
    excess: int = 0


class Refusal(Struct, frozen=True, gc=False):
    """Why something is not moved."""

    reason: Reason
    cause: Fact
