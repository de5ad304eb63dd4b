"""Every cause has one sentence that names object, field and value, and what to do where there is one."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from msgspec import structs

from rebalancer.admission import causes as admission
from rebalancer.assessment.assess import assess
from rebalancer.capacity import causes as capacity
from rebalancer.model.breaker import BreakerCause, OpenCause
from rebalancer.model.motion import DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, DomainName, Reference
from rebalancer.model.pods import LocalStorage, LocalVolume, Resources
from rebalancer.model.reasons import Reason, State
from rebalancer.planning import causes as planning
from rebalancer.planning.causes import Fact, Refusal
from rebalancer.planning.diagnosis.relaxation import Relaxation, ReplicaChange
from rebalancer.planning.diagnosis.slack import RelaxedBound
from rebalancer.planning.planner import find_relaxations
from rebalancer.reporting.documents.explanation import ExplanationDetails, explain_workload
from rebalancer.reporting.refusals import cause_text, component_text, known_causes, refusal_text
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import PlanView, plan_text
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.planning.build import DEADLOCK, planned
from tests.planning.build import shards as repairable
from tests.planning.diagnosis.test_relaxation import shards

CART = Reference("shop", "Deployment", "cart")
MINUTE = timedelta(minutes=1)
IN_C, IN_D = (DomainName(ZONE, zone) for zone in "cd")

NINE = datetime(2026, 7, 12, 9, tzinfo=UTC)
MOTION = DomainMotion(
    key=ZONE,
    value="c",
    since=NINE,
    until=NINE + MINUTE,
    moved=NINE + MINUTE,
    lasting=False,
    had=6,
    lost=6,
    events=(NodeEvent.CORDONED,),
    by=("kubectl",),
)

BREAKER_AT = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)


def excess(cause: BreakerCause, part: int, total: int, bound: int, zone: str = "") -> OpenCause:
    return OpenCause(cause=cause, part=part, total=total, bound=bound, since=BREAKER_AT, last=BREAKER_AT, zone=zone)


SENTENCES: list[tuple[Fact, str]] = [
    (planning.Modelled("spec.resourceClaims is not modelled"), "spec.resourceClaims is not modelled"),
    (planning.Modelled("it is gated", CART), "shop/cart (Deployment): it is gated"),
    (planning.OwnerKindNotListed("Job"), "eligibility.owners does not list Job; add it to allow the eviction"),
    (planning.OwnerUnknown("ReplicaSet", "cart-1"), "its owner, ReplicaSet cart-1, is not known"),
    (planning.NamespaceExcluded("shop"), "eligibility.namespaces excludes shop"),
    (
        planning.TeamPolicyUnreadable("shop"),
        (
            "the team policy of its namespace cannot be used; "
            "fix ConfigMap shop/rebalancer-policy to allow evictions there"
        ),
    ),
    (
        planning.NotReplaced(same_node=True),
        "no workload that can be moved owns it: its replacement would come to the same node",
    ),
    (planning.NotReplaced(same_node=False), "no workload that can be moved owns it: nothing would replace it"),
    (
        planning.NamespaceBeingDeleted("shop"),
        (
            "namespace shop is being deleted, so that no replacement can be created there; nothing is evicted in it, "
            "and nothing is to be done"
        ),
    ),
    (planning.TooFewReplicas(1, 2), "it has 1 replica; eligibility.minReplicas is 2"),
    (planning.TooFewReplicas(2, 3), "it has 2 replicas; eligibility.minReplicas is 3"),
    (planning.OwnerBeingDeleted("ReplicaSet"), "its ReplicaSet is being deleted"),
    (planning.OwnerPaused("Deployment"), "the rollout of its Deployment is paused"),
    (
        planning.OwnerJustChanged("Deployment"),
        "its Deployment was just changed and its controller has not seen that yet",
    ),
    (planning.OwnerRollingOut("ReplicaSet", 2, 3, 1), "its ReplicaSet has 2 of 3 pods, 1 of them up to date"),
    (planning.MirrorPod(), "it is the mirror of a static pod, which its node would create again"),
    (
        planning.Annotated("Pod", "rebalancer.dev/exclude", "true"),
        "it is annotated rebalancer.dev/exclude: true; remove the annotation to allow the eviction",
    ),
    (
        planning.Annotated("ReplicaSet", "rebalancer.dev/exclude", "true"),
        "its ReplicaSet is annotated rebalancer.dev/exclude: true; remove the annotation to allow the eviction",
    ),
    (
        planning.Annotated("Namespace", "rebalancer.dev/exclude", "true"),
        "its namespace is annotated rebalancer.dev/exclude: true; remove the annotation to allow the eviction",
    ),
    (planning.NotSelected(), "eligibility.selector does not select it"),
    (
        planning.LocalVolumes((LocalVolume("cache", LocalStorage.EMPTY_DIR),)),
        (
            "its eviction would delete the data of volume cache (emptyDir); eligibility.localStorage.emptyDir is "
            "Refuse. Set it to Allow, or annotate the pod "
            'cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: "cache"'
        ),
    ),
    (
        planning.LocalVolumes(
            (
                LocalVolume("cache", LocalStorage.EMPTY_DIR),
                LocalVolume("logs", LocalStorage.HOST_PATH),
                LocalVolume("scratch", LocalStorage.EPHEMERAL),
            )
        ),
        (
            "its eviction would delete the data of volumes cache (emptyDir), scratch (ephemeral) and leave behind "
            "the data of volume logs (hostPath); eligibility.localStorage.emptyDir, .ephemeral and "
            ".hostPath are Refuse. Set them to Allow, or annotate the pod "
            'cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: "cache,logs,scratch"'
        ),
    ),
    (planning.OtherScheduler("volcano", "default-scheduler"), "volcano schedules it, not default-scheduler"),
    (planning.EvictionResponders(), "its evictionResponders decide about its eviction"),
    (
        planning.PriorityClassMissing("gold"),
        "eligibility.priorityBelow names PriorityClass gold, which does not exist",
    ),
    (planning.PriorityTooHigh(1000, "gold"), "its priority is 1000; eligibility.priorityBelow is gold"),
    (planning.Arriving(), "it replaces an evicted pod and is not Ready yet"),
    (planning.OwnerShrinking(2, 8), "its StatefulSet is about to delete 2 pods beyond its 8 replicas"),
    (planning.TooYoung(timedelta(seconds=90), 5 * MINUTE), "it is 90s old; eligibility.minAge is 300s"),
    (planning.VolumePinned(1, 6), "its volumes can be attached on 1 of 6 nodes that admit it"),
    (planning.VolumePinned(0, 1), "its volumes can be attached on 0 of 1 node that admit it"),
    (
        planning.SeveralBudgets(("shop/a", "shop/b")),
        (
            "PodDisruptionBudgets shop/a, shop/b select it, and the API refuses to evict such a pod; "
            "let only one select it"
        ),
    ),
    (
        planning.BudgetNotObserved("shop/cart"),
        "PodDisruptionBudget shop/cart was just changed; its status is not up to date yet",
    ),
    (
        planning.BudgetNotComputed("shop/cart"),
        "PodDisruptionBudget shop/cart could not be computed; see its DisruptionAllowed condition",
    ),
    (
        planning.BudgetExhausted("shop/cart", 2, 3, 2),
        "PodDisruptionBudget shop/cart allows no eviction now: 2 of 3 pods healthy, 2 required",
    ),
    (
        planning.BudgetExhausted("shop/web", 12, 12, 10, planned=2),
        (
            "PodDisruptionBudget shop/web allows no more than the 2 evictions planned before: "
            "12 of 12 pods healthy, 10 required"
        ),
    ),
    (
        planning.WorkloadLimitReached(6, 0, 1, ("web-0",), "budgets.maxUnavailable", 1),
        "waiting for the eviction of web-0 to finish: at most 1 of 6 pods may be unavailable (budgets.maxUnavailable)",
    ),
    (
        planning.WorkloadLimitReached(6, 0, 1, ("web-0", "web-1"), "budgets.perWorkload", 2),
        (
            "waiting for the evictions of web-0, web-1 to finish: "
            "at most 2 evictions of one workload may be in flight (budgets.perWorkload)"
        ),
    ),
    (
        planning.WorkloadLimitReached(6, 1, 1, (), "budgets.maxUnavailable", 1),
        "waiting for 1 move in flight to finish: at most 1 of 6 pods may be unavailable (budgets.maxUnavailable)",
    ),
    (
        planning.WorkloadLimitReached(6, 2, 0, (), "budgets.maxUnavailable", 1),
        "2 of 6 pods are unavailable: at most 1 of 6 pods may be unavailable (budgets.maxUnavailable)",
    ),
    (
        planning.GroupUnavailable("search", 1, 1),
        "1 pod of search is unavailable; disruption.maxInFlight is 1",
    ),
    (
        planning.GroupUnavailable("search", 2, 2, pending_is_one=True),
        (
            "2 pods of search are unavailable; disruption.maxInFlight is 2, and the pending pod is one of them: "
            "raise it to 3 to free that pod"
        ),
    ),
    (
        planning.GroupSettling("search", MINUTE, 5 * MINUTE),
        "a pod of search became Ready 60s ago; disruption.settle is 5m",
    ),
    (
        planning.StepExceedsBudget(2, 1),
        "needs 2 concurrent evictions; the budgets allow at most 1. Raise maxUnavailable or lower minAvailable",
    ),
    (
        planning.StepExceedsBudget(1, 0, str(CART), ("shop/cart",)),
        (
            "needs 1 concurrent eviction; PodDisruptionBudget shop/cart never allows any. "
            "Raise its maxUnavailable or lower its minAvailable"
        ),
    ),
    (
        planning.StepExceedsBudget(3, 1, str(CART), ("shop/cart",), ("budgets.perWorkload",)),
        (
            "needs 3 concurrent evictions; PodDisruptionBudget shop/cart allows at most 1. "
            "Raise its maxUnavailable or lower its minAvailable; "
            "budgets.perWorkload allows at most 1 for shop/cart (Deployment). Raise it in the policy"
        ),
    ),
    (
        planning.StepExceedsBudget(1, 0, str(CART), fields=("budgets.maxUnavailable",)),
        (
            "needs 1 concurrent eviction; "
            "budgets.maxUnavailable never allows any for shop/cart (Deployment). Raise it in the policy"
        ),
    ),
    (
        planning.StepExceedsBudget(2, 1, str(CART)),
        "needs 2 concurrent evictions; disruption.maxInFlight allows at most 1. Raise it in the policy",
    ),
    (planning.StepWaitsForBudget(2), "may need 2 concurrent evictions; the budgets allow fewer just now"),
    (
        planning.ObjectUnreadable("Pod shop/cart-1: spec.x: y"),
        "an object that may matter could not be read: Pod shop/cart-1: spec.x: y",
    ),
    (
        planning.OthersUncreated("ReplicaSet shop/cart-1"),
        "ReplicaSet shop/cart-1 has still to create pods that count too",
    ),
    (planning.OthersPending("web-1"), "pod web-1 of another workload counts too and is pending"),
    (planning.NodeGone("b-2", "web-1"), "node b-2 no longer exists; waiting for the replacement of pod web-1"),
    (planning.PendingPodUnpredictable("web-1", "it is gated"), "pod web-1 is pending: it is gated"),
    (
        planning.PendingPodWithVolumes(CART),
        "a pod of shop/cart (Deployment) with volumes of its own is pending",
    ),
    (planning.NodeBeingDeleted("c-1"), "node c-1 may take a replacement and is being deleted"),
    (
        planning.NodeToBeRemoved("c-1", "ToBeDeletedByClusterAutoscaler"),
        (
            "node c-1 may take a replacement, and an autoscaler is about to remove it "
            "(taint ToBeDeletedByClusterAutoscaler)"
        ),
    ),
    (
        planning.PodsNodeBeingRemoved("a-1", "web-1", "karpenter.sh/disrupted"),
        ("an autoscaler is removing node a-1 of pod web-1 (taint karpenter.sh/disrupted); waiting until it is gone"),
    ),
    (
        planning.OnDeleteRevision("od-0", "od-5f8f6f548d", "od-6c7d"),
        (
            "its StatefulSet has updateStrategy OnDelete, and pod od-0 is of revision od-5f8f6f548d: an evicted pod "
            "would come back at updateRevision od-6c7d. Delete the pods to roll it out, or revert the template"
        ),
    ),
    (planning.NodeNotReady("c-1"), "node c-1 may take a replacement and is not Ready"),
    (
        planning.NodeSettling(
            "c-1", datetime(2026, 7, 12, 9, tzinfo=UTC), 5 * MINUTE, datetime(2026, 7, 12, 9, 5, tzinfo=UTC)
        ),
        (
            "node c-1 may take a replacement and has been Ready only since 2026-07-12 09:00:00Z; "
            "waiting until 2026-07-12 09:05:00Z, at most nodes.settle (5m) in all"
        ),
    ),
    (
        planning.NodeChanged(NodeChange(NINE, "c-1", NodeEvent.UNCORDONED), None, 60 * MINUTE, NINE + 5 * MINUTE),
        (
            "a replacement may land on node c-1: node c-1 was uncordoned at 2026-07-12 09:00:00Z; "
            "waiting until 2026-07-12 09:05:00Z, at most 1h in all"
        ),
    ),
    (
        planning.NodeChanged(
            NodeChange(NINE, "c-1", NodeEvent.CORDONED, ZONE, "c", "kubectl"), IN_C, 5 * MINUTE, NINE + 5 * MINUTE
        ),
        (
            "a replacement may land in topology.kubernetes.io/zone=c: node c-1 was cordoned at 2026-07-12 09:00:00Z; "
            "waiting until 2026-07-12 09:05:00Z, at most 5m in all"
        ),
    ),
    (
        planning.CountsInMotion(
            NodeChange(NINE, "c-1", NodeEvent.RELABELLED, ZONE, "c"), 5 * MINUTE, NINE + 5 * MINUTE
        ),
        (
            "it was not violated so before a node changed (topology.kubernetes.io/zone of node c-1 was c until "
            "2026-07-12 09:00:00Z): waiting until that has lasted for nodes.settle (5m), until 2026-07-12 09:05:00Z"
        ),
    ),
    (
        planning.CountsInMotion(NodeChange(NINE, "", NodeEvent.RELABELLED), 5 * MINUTE, NINE + 5 * MINUTE),
        (
            "it was not violated so before a node changed (more nodes were relabelled at 2026-07-12 09:00:00Z than can "
            "be stored): waiting until that has lasted for nodes.settle (5m), until 2026-07-12 09:05:00Z"
        ),
    ),
    (
        planning.CountsInMotion(NodeChange(NINE, "c-1", NodeEvent.RELABELLED, ZONE), 5 * MINUTE, NINE + 5 * MINUTE),
        (
            "it was not violated so before a node changed (topology.kubernetes.io/zone of node c-1 was not there until "
            "2026-07-12 09:00:00Z): waiting until that has lasted for nodes.settle (5m), until 2026-07-12 09:05:00Z"
        ),
    ),
    (
        planning.DomainInMotion(MOTION, NINE + 5 * MINUTE),
        (
            "a replacement may land in a domain in motion: 6 of 6 nodes of topology.kubernetes.io/zone=c were cordoned "
            "within 60 s by kubectl: nothing is moved there until 2026-07-12 09:05:00Z"
        ),
    ),
    (
        planning.DomainInMotion(
            structs.replace(
                MOTION, lasting=True, lost=1, had=1, until=NINE, events=(NodeEvent.DELETED, NodeEvent.UNREADY), by=()
            ),
            NINE + 60 * MINUTE,
        ),
        (
            "a replacement may land in a domain in motion: 1 of 1 node of topology.kubernetes.io/zone=c was deleted or "
            "not Ready any more: nothing is moved there until they have taken pods again for a while, at most until "
            "2026-07-12 10:00:00Z"
        ),
    ),
    (planning.OwnPodsNotSelected(), "a constraint's selector does not match the workload's own pods"),
    (planning.NothingRecreates(), "no known owner would create its pods again"),
    (
        planning.HostPortsOfSeveralClasses(),
        "its pods differ and some have host ports, which is not modelled",
    ),
    (
        planning.PodAffinityRequired(),
        "its required affinity to pods changes the feasible nodes with every placement",
    ),
    (
        planning.OneSidedAntiAffinity(),
        "some of its pods keep away from others that do not keep away from them",
    ),
    (planning.NotActedOn(), "spread.actOn does not list the violated constraints"),
    (planning.PendingWillSatisfy(1), "waiting for 1 pending pod: scheduling it will satisfy all"),
    (planning.PendingWillSatisfy(2), "waiting for 2 pending pods: scheduling them will satisfy all"),
    (planning.NoNodeAdmits("web-1"), "no node admits pod web-1, although a placement of all pods exists"),
    (
        planning.CapacityReserved(),
        "pods that are being placed may take the capacity it needs; planned again afterwards",
    ),
    (planning.PredictionUnverified(), "waiting until the last predicted move is verified"),
    (
        planning.FailedPredictions(3),
        "3 moves in a row did not come out as predicted; nothing forces the scheduler to do better",
    ),
    (
        planning.NoSafeEviction(),
        "no safe eviction found: the scheduler could place the replacement where it does not help",
    ),
    (planning.StepSearchLimit(), "the search for a safe eviction reached its limit; it is tried again each cycle"),
    (planning.MinimumSearchLimit(), "the search for the fewest evictions reached its limit"),
    (
        planning.NoSequence(2),
        "2 evictions would be enough by counting; no sequence of placements leads there (proved)",
    ),
    (
        planning.PodsStay(1, "web-1", planning.NotSelected()),
        "pod web-1 stays on its node: eligibility.selector does not select it",
    ),
    (
        planning.PodsStay(11, "web-1", planning.NotSelected()),
        "11 pods stay on their nodes, web-1 among them: eligibility.selector does not select it",
    ),
    (planning.OthersStay(), "pods of other workloads count too, and are not moved for this one"),
    (planning.NoCapacity(), "the nodes that would have to take more of these pods do not have the capacity for them"),
    (
        planning.NoCapacity("zone", ("b", "c")),
        "no node of zone b, c has the capacity for another of these pods",
    ),
    (
        planning.DomainsCordoned("zone", ("c",)),
        "every node of zone c is cordoned; waiting until they are uncordoned",
    ),
    (
        planning.TooFewDomains(2, 1, 6, (2,)),
        "only 2 domains exist, fewer than minDomains, so each may hold 1: too few for 6 pods; 2 pods are feasible",
    ),
    (
        planning.TooFewDomains(1, 1, 6, ()),
        "only 1 domain exists, fewer than minDomains, so each may hold 1: too few for 6 pods",
    ),
    (
        planning.NoPlacement(4, (3, 5)),
        "no placement of 4 pods over these domains satisfies all; 3 or 5 pods are feasible",
    ),
    (planning.NoPlacement(8, ()), "no placement of 8 pods over these domains satisfies all"),
    (planning.NoPlacementOfClasses(6, 2), "no placement of 6 pods of 2 classes satisfies all"),
    (
        planning.NoPlacementOfClasses(6, 1, unplaced=1, excess=3),
        (
            "no placement of 6 pods of 1 class satisfies all; "
            "the nearest placement leaves 1 pod without a node and exceeds the requirements by 3 in all"
        ),
    ),
    (
        capacity.CapacityNeeded((IN_C,), 4, 4, Resources(cpu=3_200, memory=2**30), capacity.CapacityObserves()),
        (
            "4 evictions would repair it with capacity for 4 pods in zone c; needs about 3.2 cores and 1 GiB there for "
            "some minutes; not requested: capacity.mode is Observe"
        ),
    ),
    (
        capacity.CapacityNeeded((IN_C, IN_D), 1, 1, Resources(), None),
        (
            "1 eviction would repair it with capacity for 1 pod in zone c, d; needs about capacity for 1 pod there for "
            "some minutes"
        ),
    ),
    (capacity.CapacityObserves(), "capacity.mode is Observe"),
    (capacity.NotInModeEvict(), "the mode is not Evict"),
    (capacity.PlaceholdersUnread("HTTP 403"), "placeholders cannot be read: HTTP 403"),
    (
        capacity.NotYetLasting(timedelta(seconds=30), 2 * MINUTE),
        "capacity has been missing for 30s; spread.for is 2m",
    ),
    (
        capacity.OthersRequested(18, 20),
        "18 placeholders of other requests exist; capacity.maxPods is 20",
    ),
    (
        capacity.TooManyPlaceholders((IN_C,), 30, 20),
        "needs capacity for 30 pods in zone c; capacity.maxPods is 20",
    ),
    (
        capacity.CapacityBackingOff(IN_C, "no node within 10m", 2, 5 * MINUTE),
        "capacity requested in zone c did not come (no node within 10m); requested again in 300s at the earliest",
    ),
    (
        capacity.CapacityBackingOff(IN_C, "", 1, MINUTE),
        "capacity requested in zone c was used and is gone again; requested again in 60s at the earliest",
    ),
    (
        capacity.DomainJustLost(IN_C, MINUTE, 9 * MINUTE),
        "zone c lost its nodes 60s ago; capacity is requested there in 540s at the earliest",
    ),
    (
        capacity.CapacityRequested((IN_C,), 1, 4, MINUTE),
        "waiting for capacity in zone c, requested 60s ago: 1 of 4 placeholders run",
    ),
    (capacity.CapacityBeingFreed(1), "1 placeholder being deleted to make capacity for it"),
    (capacity.CapacityDisputed("other/x"), "pod other/x waits for a node and could take the capacity"),
    (capacity.CapacityIncomplete(), "waiting until all the capacity that was requested for its repair is there"),
    (
        capacity.CapacityHeld(),
        "the capacity that it needs is held by placeholders for another repair, or is not free",
    ),
    (admission.Paused("paused by ada until noon"), "paused by ada until noon"),
    (admission.ModeObserves(), "mode is Observe"),
    (
        admission.AwaitsApproval("0a1b", datetime(2026, 6, 1, 20, 0, tzinfo=UTC)),
        "plan 0a1b waits for approval until 2026-06-01 20:00:00Z",
    ),
    (
        admission.NotProposed("0a1b"),
        "it is not part of plan 0a1b; it is proposed when that plan has ended",
    ),
    (admission.Stale("the snapshot is 90s old"), "the snapshot is 90s old"),
    (
        admission.OutsideWindow(datetime(2026, 6, 1, 20, 0, tzinfo=UTC), "0 22 * * 1-5", "Europe/Berlin"),
        "no window is open; the next one (0 22 * * 1-5, Europe/Berlin) opens at 2026-06-01 20:00Z",
    ),
    (
        admission.BreakerOpen((excess(BreakerCause.UNREADY_NODES, 3, 10, 20),), BREAKER_AT, 5 * MINUTE),
        (
            "the breaker is open: 3 of 10 uncordoned nodes not Ready (30%), breaker.unreadyNodes is 20%. It closes "
            "when no bound has been exceeded for 5m"
        ),
    ),
    (
        admission.BreakerOpen(
            (
                excess(BreakerCause.UNREADY_ZONE, 4, 5, 55, zone="c"),
                excess(BreakerCause.PENDING_PODS, 7, 40, 10),
                excess(BreakerCause.API_ERRORS, 30, 100, 20),
                excess(BreakerCause.FAILED_MOVES, 5, 6, 20),
            ),
            BREAKER_AT + MINUTE,
            5 * MINUTE,
        ),
        (
            "the breaker is open: 4 of 5 uncordoned nodes of zone c not Ready (80%, 60s ago), breaker.unreadyInZone is "
            "55%; 7 of 40 pods pending (18%, 60s ago), breaker.pendingPods is 10%; 30 of 100 requests to the API "
            "server failed (30%, 60s ago), breaker.apiErrors is 20%; 5 of 6 moves failed (83%, 60s ago), "
            "breaker.failedMoves is 20%. It closes when no bound has been exceeded for 5m"
        ),
    ),
    (admission.NotLasting(MINUTE, "spread.for", 5 * MINUTE), "violated for 60s; spread.for is 5m"),
    (
        admission.BackingOff(1, timedelta(minutes=5)),
        "the replacement of the last eviction was not Ready where predicted; next attempt in 300s",
    ),
    (
        admission.BackingOff(3, None),
        (
            "the replacements of 3 evictions in a row were not Ready where predicted; "
            "no further eviction until the violation is repaired by other means"
        ),
    ),
    (
        admission.RequestsRefused(1, timedelta(seconds=9.2)),
        "the last 1 eviction request for it was not granted; next attempt in 10s",
    ),
    (
        admission.RequestsRefused(2, MINUTE),
        "the last 2 eviction requests for it were not granted; next attempt in 60s",
    ),
    (
        admission.RefusedByAdmission("admission webhook guard", "zone b is being rolled", BREAKER_AT),
        f"admission webhook guard refused the eviction: zone b is being rolled; tried again at {BREAKER_AT:%H:%M:%SZ}",
    ),
    (
        admission.NotAllowed('pods "web-0" is forbidden', MINUTE),
        (
            'this account has no right to evict there: pods "web-0" is forbidden. Install the form with that right '
            "(deploy/evict, in the chart policy.mode), or set mode: Observe; next attempt in 60s"
        ),
    ),
    (
        admission.ReplacementNotCreated(Reference("shop", "Deployment", "web"), "web-0", "exceeded quota: pods"),
        (
            "shop/web (Deployment) has no pod in place of web-0, which was evicted: exceeded quota: pods; nothing is "
            "evicted in namespace shop until it has. Allow the pod to be created, or scale the workload down"
        ),
    ),
    (
        admission.ReplacementNotCreated(Reference("shop", "StatefulSet", "db"), "db-0", ""),
        (
            "shop/db (StatefulSet) has no pod in place of db-0, which was evicted; nothing is evicted in namespace "
            "shop until it has. See kubectl get events -n shop for the reason, or scale the workload down"
        ),
    ),
    (
        admission.BreakerOpen(
            (
                structs.replace(
                    excess(BreakerCause.REPLACEMENTS, 2, 3, 0), note="shop/web (Deployment): failed calling webhook"
                ),
            ),
            BREAKER_AT,
            5 * MINUTE,
        ),
        (
            "the cluster does not replace evicted pods: 2 replacements of 3 are overdue (shop/web (Deployment): failed "
            "calling webhook). One eviction at a time, the first after a minute, shows whether it does again"
        ),
    ),
    (
        admission.ReplacementNotRunning(
            Reference("shop", "Deployment", "web"), "web-0", "ImagePullBackOff", holds_namespace=False
        ),
        (
            "the replacement of pod web-0 of shop/web (Deployment) does not run: ImagePullBackOff. Nothing more is "
            "evicted in the workload until it does"
        ),
    ),
    (
        admission.ReplacementNotRunning(
            Reference("shop", "Deployment", "web"), "web-0", "ImagePullBackOff", holds_namespace=True
        ),
        (
            "the replacement of pod web-0 of shop/web (Deployment) does not run: ImagePullBackOff. Nothing more is "
            "evicted in the namespace, in which this is so in several workloads, until it does"
        ),
    ),
    (
        admission.EvictionUndecided("web-0", BREAKER_AT),
        (
            "the last leader may have requested the eviction of pod web-0, and the API server may carry it out until "
            f"{BREAKER_AT:%H:%M:%SZ}: until then no other pod is evicted for it"
        ),
    ),
    (
        admission.PodEnding("db-0"),
        "waiting for pod db-0 of the same workload, which is still terminating",
    ),
    (
        admission.WindowFull("", 4, 4),
        (
            "waiting for the replacements of the last evictions to arrive: 4 are under way, slow start allows 4 at "
            "once in the cluster now"
        ),
    ),
    (
        admission.WindowFull("shop", 1, 1),
        (
            "waiting for the replacements of the last evictions to arrive: 1 is under way, slow start allows 1 at once "
            "in namespace shop now"
        ),
    ),
    (
        admission.StepQueued(Reference("shop", "Deployment", "web"), 3),
        "a step of shop/web (Deployment) that needs 3 concurrent evictions has waited for long, and goes first",
    ),
    (admission.ServerOverloaded(timedelta(seconds=5)), "the API server is overloaded; next attempt in 5s"),
    (
        admission.MemoryUnsaved("HTTP 409"),
        "the memory cannot be saved, without which nothing is evicted: HTTP 409",
    ),
    (admission.RateReached("perMinute", 5), "budgets.perMinute allows 5"),
    (admission.TooManyInFlight(500), "at most 500 evictions may be in flight at once"),
]


@pytest.mark.parametrize(("cause", "sentence"), SENTENCES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_a_cause_has_its_sentence(cause: Fact, sentence: str) -> None:
    """One example of every cause, in one number and in several where they differ."""
    assert cause_text(cause) == sentence
    assert refusal_text(Refusal(Reason.EXCLUDED, cause)) == sentence


def all_facts(base: type[Fact] = Fact) -> Iterator[type[Fact]]:
    for fact in base.__subclasses__():
        yield fact
        yield from all_facts(fact)


def test_every_cause_has_a_sentence_and_an_example() -> None:
    """A cause that is added needs both."""
    facts = {fact for fact in all_facts() if fact.__module__.startswith("rebalancer.")}
    assert set(known_causes()) == facts
    assert {type(cause) for cause, _ in SENTENCES} == facts


def component(relaxation: Relaxation | None) -> str:
    """Return the sentence about an infeasible component."""
    (group,) = planned(shards(2).snapshot(), shards(2).policy()).groups
    assert group.state is State.INFEASIBLE
    return component_text(group, {} if relaxation is None else {group.name: relaxation})


def change(name: str, replicas: int, more: int) -> ReplicaChange:
    return ReplicaChange(Reference("default", "StatefulSet", name), replicas, more)


NEAREST = "no placement of 6 pods of 2 classes satisfies all; the nearest placement leaves 2 pods without a node"
TWO = (change("w0", 2, -1), change("w1", 1, -1))


@pytest.mark.parametrize(
    ("relaxation", "options"),
    [
        (None, ""),
        (Relaxation(), ""),
        (
            Relaxation(TWO),
            "; feasible with 2 replicas of default/w0 (StatefulSet) and 1 replica of default/w1 (StatefulSet)",
        ),
        (
            Relaxation(tuple(change(f"w{number}", 2, -2) for number in range(4))),
            "; feasible with 8 fewer pods in 4 workloads",
        ),
        (
            Relaxation((*(change(f"w{number}", 2, -1) for number in range(3)), change("w3", 4, 1))),
            "; feasible with 3 fewer and 1 more pods in 4 workloads",
        ),
        (
            Relaxation((change("w0", 3, -1),), RelaxedBound(limit="g/l0", max_pods=6)),
            "; feasible with 3 replicas of default/w0 (StatefulSet), or with maxPods 6 in limit g/l0",
        ),
        (Relaxation(bound=RelaxedBound(limit="g/l0", min_pods=1)), "; feasible with minPods 1 in limit g/l0"),
        (Relaxation(bound=RelaxedBound(limit="g/l0", max_skew=4)), "; feasible with maxSkew 4 in limit g/l0"),
        (
            Relaxation(bound=RelaxedBound(limit="g/l0", max_share=Fraction(3, 4))),
            "; feasible with maxShare <=3/4 in limit g/l0",
        ),
        (
            Relaxation(bound=RelaxedBound(key=ZONE, workloads=(CART,), max_skew=2)),
            f"; feasible with maxSkew 2 over {ZONE} in shop/cart (Deployment)",
        ),
        (
            Relaxation(bound=RelaxedBound(key="rack", workloads=(CART,) * 5, max_skew=2)),
            (
                "; feasible with maxSkew 2 over rack in shop/cart (Deployment), shop/cart (Deployment), "
                "shop/cart (Deployment) and 2 more"
            ),
        ),
        (
            Relaxation((change("w0", 3, -1),), limit_reached=True),
            (
                "; feasible with 3 replicas of default/w0 (StatefulSet); "
                "the search limit was reached, so something nearer may exist"
            ),
        ),
    ],
)
def test_a_relaxation_is_named_as_it_would_be_written(relaxation: Relaxation | None, options: str) -> None:
    """Workloads with their replicas, or how much all change together; a bound with its object, field and value."""
    assert component(relaxation) == NEAREST + options


def test_plan_and_explanation_name_the_relaxation() -> None:
    """A person reads it where it says why nothing is planned."""
    scene = shards(2)
    snapshot, policy = scene.snapshot(), scene.policy()
    plan = planned(snapshot, policy)
    relaxations = find_relaxations(plan)
    replicas = "2 replicas of default/w0 (StatefulSet) and 2 replicas of default/w1 (StatefulSet)"
    reference = Reference("default", "StatefulSet", "w0")
    details = ExplanationDetails(relaxations, verbose=False)
    document = explain_workload(reference, assess(View(snapshot), policy, NO_MEMORY), plan, snapshot, details)
    shown = plan_text(plan, snapshot, PlanView(acting="mode Evict", satisfied=0, relaxations=relaxations))
    for text in (shown, explanation_text(document)):
        assert f"{NEAREST}; feasible with {replicas}\n" in text


def test_a_component_that_is_repaired_has_no_sentence() -> None:
    """Nothing keeps it."""
    (group,) = planned(repairable(DEADLOCK)).groups
    assert group.refusal is None
    assert component_text(group) == ""
