"""Sentences for what planning and admission give as data: why a pod, a step or a component has to stay or to wait.

Each cause has one sentence, which names object, field and value, and what to do where that is known.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Any, Final

from rebalancer.admission import causes as admission
from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.findings.motion import describe_unsettled
from rebalancer.capacity import causes as capacity
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import DomainName
from rebalancer.model.pods import LocalStorage
from rebalancer.planning import causes as planning
from rebalancer.planning.causes import Fact, Refusal
from rebalancer.planning.diagnosis.relaxation import Relaxation, ReplicaChange
from rebalancer.planning.diagnosis.slack import RelaxedBound
from rebalancer.planning.plan import ComponentPlan, Eviction, ViolatedRequirement
from rebalancer.policy import Share, format_duration
from rebalancer.reporting.phrases import name_list, plural, short_key

Relaxations = Mapping[str, Relaxation]
"""The relaxations of infeasible components, by the component's name."""

NO_RELAXATIONS: Final[Relaxations] = {}

_DELETED_WITH_POD: Final = frozenset({LocalStorage.EMPTY_DIR, LocalStorage.EPHEMERAL})
_LEFT_ON_NODE: Final = frozenset({LocalStorage.HOST_PATH})

_MOST_NAMED = 3
"""So many workloads are named; the rest is counted."""


def refusal_text(refusal: Refusal) -> str:
    """Say why something is refused."""
    return cause_text(refusal.cause)


def component_text(group: ComponentPlan, relaxations: Relaxations = NO_RELAXATIONS) -> str:
    """Say why a component is not repaired, or not further now, and what would make it feasible; "" if it is."""
    if group.refusal is None:
        return ""
    text, relaxation = refusal_text(group.refusal), relaxations.get(group.name)
    return text if relaxation is None else f"{text}{_relaxation_text(relaxation)}"


_LONG_GRACE: Final = timedelta(minutes=10)
"""A grace period that is longer is named."""


def eviction_text(eviction: Eviction) -> str:
    """Return why a pod of this node is evicted: the counts of its domains and their bounds.

    And how long it may take to end, where that is longer than anybody expects.
    """
    parts = []
    for requirement in eviction.repair.violated:
        domain = requirement.domain.get(eviction.pod.node or "")
        if domain is not None:
            parts.append(
                f"{requirement.key} {domain} holds {plural(requirement.held[domain], 'pod')}, "
                f"the emptiest domain {requirement.emptiest}, {_requirement_text(requirement)}"
            )
    why = "; ".join(parts) or "a pending pod finds a node once this pod is evicted"
    grace = timedelta(seconds=eviction.pod.grace_seconds)
    if grace <= _LONG_GRACE:
        return why
    return f"{why}. The pod may take {format_duration(grace)} to end (terminationGracePeriodSeconds)"


def _requirement_text(requirement: ViolatedRequirement) -> str:
    if requirement.limit:
        return f"limit {requirement.limit} ({requirement.bound})"
    return f"maxSkew is {requirement.bound}"


def cause_text(cause: Fact) -> str:
    """Return the sentence of a cause."""
    return _SENTENCES[type(cause)](cause)


def _seconds(span: timedelta) -> str:
    return f"{int(span.total_seconds())}s"


def _domains(key: str, domains: Sequence[str]) -> str:
    return f"{key} {', '.join(domains)}"


def _feasible(counts: Sequence[int]) -> str:
    return f"; {' or '.join(map(str, counts))} pods are feasible" if counts else ""


def _annotated(cause: planning.Annotated) -> str:
    on = "its namespace" if cause.kind == "Namespace" else "it" if cause.kind == "Pod" else f"its {cause.kind}"
    return f"{on} is annotated {cause.key}: {cause.value}; remove the annotation to allow the eviction"


def _local_volumes(cause: planning.LocalVolumes) -> str:
    """Name the volumes by what an eviction does to their data, the fields that refuse it, and both ways to allow it."""
    losses = []
    for lost, verb in ((_DELETED_WITH_POD, "delete"), (_LEFT_ON_NODE, "leave behind")):
        volumes = [f"{volume.name} ({volume.kind})" for volume in cause.volumes if volume.kind in lost]
        if volumes:
            losses.append(f"{verb} the data of {'volume' if len(volumes) == 1 else 'volumes'} {name_list(volumes)}")
    kinds = {volume.kind for volume in cause.volumes}
    names = ",".join(sorted({volume.name for volume in cause.volumes}))
    verb, them = ("is", "it") if len(kinds) == 1 else ("are", "them")
    return (
        f"its eviction would {' and '.join(losses)}; {local_storage_fields(kinds)} {verb} Refuse. Set {them} to Allow, "
        f'or annotate the pod {planning.SAFE_TO_EVICT_VOLUMES}: "{names}"'
    )


def local_storage_fields(kinds: Collection[LocalStorage]) -> str:
    """Name the policy's fields about these kinds of volumes: `eligibility.localStorage.emptyDir and .hostPath`."""
    names = [f".{kind}" for kind in LocalStorage if kind in kinds]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]
    return f"eligibility.localStorage{listed}"


def _not_replaced(cause: planning.NotReplaced) -> str:
    where = "its replacement would come to the same node" if cause.same_node else "nothing would replace it"
    return f"no workload that can be moved owns it: {where}"


def _modelled(cause: planning.Modelled) -> str:
    return cause.message if cause.workload is None else f"{cause.workload}: {cause.message}"


def _group_unavailable(cause: planning.GroupUnavailable) -> str:
    verb = "is" if cause.unavailable == 1 else "are"
    pods = f"{plural(cause.unavailable, 'pod')} of {cause.group} {verb} unavailable"
    text = f"{pods}; disruption.maxInFlight is {cause.most}"
    if cause.pending_is_one:
        text += f", and the pending pod is one of them: raise it to {cause.most + 1} to free that pod"
    return text


def _only_planned(planned: int) -> str:
    return f"no more than the {plural(planned, 'eviction')} planned before" if planned else "no eviction now"


def _workload_limit(cause: planning.WorkloadLimitReached) -> str:
    if cause.planned:
        noun = "the eviction" if len(cause.planned) == 1 else "the evictions"
        wait = f"waiting for {noun} of {name_list(cause.planned)} to finish"
    elif cause.moving:
        wait = f"waiting for {plural(cause.moving, 'move')} in flight to finish"
    else:
        verb = "is" if cause.unavailable == 1 else "are"
        wait = f"{cause.unavailable} of {plural(cause.replicas, 'pod')} {verb} unavailable"
    if cause.field.startswith(planning.PER_WORKLOAD):
        return f"{wait}: at most {plural(cause.allowed, 'eviction')} of one workload may be in flight ({cause.field})"
    return f"{wait}: at most {cause.allowed} of {plural(cause.replicas, 'pod')} may be unavailable ({cause.field})"


def _step_exceeds(cause: planning.StepExceedsBudget) -> str:
    needs = f"needs {plural(cause.needed, 'concurrent eviction')}"
    allowed = "never allow any" if not cause.allowed else f"allow at most {cause.allowed}"
    if not cause.workload:
        return f"{needs}; the budgets {allowed}. Raise maxUnavailable or lower minAvailable"
    allows = "never allows any" if not cause.allowed else f"allows at most {cause.allowed}"
    limits = [
        *(
            f"PodDisruptionBudget {name} {allows}. Raise its maxUnavailable or lower its minAvailable"
            for name in cause.budgets
        ),
        *(f"{field} {allows} for {cause.workload}. Raise it in the policy" for field in cause.fields),
    ]
    if not limits:
        limits = [f"disruption.maxInFlight {allows}. Raise it in the policy"]
    return f"{needs}; {'; '.join(limits)}"


def _backing_off(cause: admission.BackingOff) -> str:
    if cause.left is None:
        return (
            f"the replacements of {cause.times} evictions in a row were not Ready where predicted; "
            "no further eviction until the violation is repaired by other means"
        )
    return (
        "the replacement of the last eviction was not Ready where predicted; "
        f"next attempt in {_whole_seconds(cause.left)}"
    )


def _whole_seconds(left: timedelta) -> str:
    """Return how long is left, rounded up, so that it never says 0s."""
    return f"{ceil(left.total_seconds())}s"


_EXCESSES: Final[Mapping[BreakerCause, tuple[str, str]]] = {
    BreakerCause.UNREADY_NODES: ("uncordoned nodes not Ready", "unreadyNodes"),
    BreakerCause.UNREADY_ZONE: ("uncordoned nodes of zone {zone} not Ready", "unreadyInZone"),
    BreakerCause.PENDING_PODS: ("pods pending", "pendingPods"),
    BreakerCause.API_ERRORS: ("requests to the API server failed", "apiErrors"),
    BreakerCause.FAILED_MOVES: ("moves failed", "failedMoves"),
}
"""For each cause of the breaker what is counted, and the policy's field in `breaker`."""


def _not_created(cause: admission.ReplacementNotCreated) -> str:
    namespace = cause.workload.namespace
    missing = f"{cause.workload} has no pod in place of {cause.pod}, which was evicted"
    held = f"nothing is evicted in namespace {namespace} until it has"
    if not cause.failure:
        return f"{missing}; {held}. See kubectl get events -n {namespace} for the reason, or scale the workload down"
    return f"{missing}: {cause.failure}; {held}. Allow the pod to be created, or scale the workload down"


def _window_full(cause: admission.WindowFull) -> str:
    where = f"namespace {cause.namespace}" if cause.namespace else "the cluster"
    return (
        f"waiting for the replacements of the last evictions to arrive: {cause.under_way} "
        f"{'is' if cause.under_way == 1 else 'are'} under way, slow start allows {cause.allowed} at once in {where} now"
    )


def _breaker_open(cause: admission.BreakerOpen) -> str:
    excesses = []
    for known in cause.causes:
        if known.cause is BreakerCause.REPLACEMENTS:
            continue
        what, field = _EXCESSES[known.cause]
        share = f"{round(100 * known.part / known.total)}%"
        ago = f", {_seconds(cause.at - known.last)} ago" if cause.at > known.last else ""
        counted = f"{known.part} of {known.total} {what.format(zone=known.zone)} ({share}{ago})"
        excesses.append(f"{counted}, breaker.{field} is {known.bound}%")
    sentences = [
        f"the cluster does not replace evicted pods: {plural(known.part, 'replacement')} of {known.total} "
        f"{'is' if known.part == 1 else 'are'} overdue ({known.note}). "
        "One eviction at a time, the first after a minute, shows whether it does again"
        for known in cause.causes
        if known.cause is BreakerCause.REPLACEMENTS
    ]
    if excesses:
        sentences.append(
            f"the breaker is open: {'; '.join(excesses)}. It closes when no bound has been exceeded for "
            f"{format_duration(cause.clear_after)}"
        )
    return "; ".join(sentences)


def _pods_stay(cause: planning.PodsStay) -> str:
    why = cause_text(cause.cause)
    if cause.pods == 1:
        return f"pod {cause.pod} stays on its node: {why}"
    return f"{plural(cause.pods, 'pod')} stay on their nodes, {cause.pod} among them: {why}"


def _no_capacity(cause: planning.NoCapacity) -> str:
    if cause.domains:
        return f"no node of {_domains(cause.key, cause.domains)} has the capacity for another of these pods"
    return "the nodes that would have to take more of these pods do not have the capacity for them"


def domains_text(domains: Iterable[DomainName]) -> str:
    """Name domains, those of one key together: zone b, c."""
    by_key: dict[str, list[str]] = {}
    for domain in domains:
        by_key.setdefault(domain.topology_key, []).append(domain.value)
    return " and ".join(_domains(short_key(key), values) for key, values in by_key.items())


def _capacity_needed(cause: capacity.CapacityNeeded) -> str:
    requests = cause.requests
    amount = [f"{requests.cpu / 1000:.2g} cores"] if requests.cpu else []
    amount += [f"{requests.memory / 2**30:.2g} GiB"] if requests.memory else []
    size = " and ".join(amount) or f"capacity for {plural(cause.pods, 'pod')}"
    text = (
        f"{plural(cause.evictions, 'eviction')} would repair it with capacity for {plural(cause.pods, 'pod')} in "
        f"{domains_text(cause.domains)}; needs about {size} there for some minutes"
    )
    return text if cause.obstacle is None else f"{text}; not requested: {cause_text(cause.obstacle)}"


def _capacity_backing_off(cause: capacity.CapacityBackingOff) -> str:
    what = f"did not come ({cause.failure})" if cause.failure else "was used and is gone again"
    left = _whole_seconds(cause.left)
    return f"capacity requested in {domains_text([cause.domain])} {what}; requested again in {left} at the earliest"


def _too_few_domains(cause: planning.TooFewDomains) -> str:
    verb = "exists" if cause.domains == 1 else "exist"
    return (
        f"only {plural(cause.domains, 'domain')} {verb}, fewer than minDomains, so each may hold {cause.max_skew}: "
        f"too few for {plural(cause.pods, 'pod')}{_feasible(cause.feasible)}"
    )


def _no_placement_of_classes(cause: planning.NoPlacementOfClasses) -> str:
    parts = [f"leaves {plural(cause.unplaced, 'pod')} without a node"] if cause.unplaced else []
    parts += [f"exceeds the requirements by {cause.excess} in all"] if cause.excess else []
    nearest = f"; the nearest placement {' and '.join(parts)}" if parts else ""
    pods = f"{plural(cause.pods, 'pod')} of {plural(cause.classes, 'class', 'classes')}"
    return f"no placement of {pods} satisfies all{nearest}"


def _relaxation_text(relaxation: Relaxation) -> str:
    options = [_replicas_text(relaxation.replicas)] if relaxation.replicas else []
    options += [_bound_text(relaxation.bound)] if relaxation.bound is not None else []
    if not options:
        return ""
    limit = "; the search limit was reached, so something nearer may exist" if relaxation.limit_reached else ""
    return f"; feasible with {', or with '.join(options)}{limit}"


def _replicas_text(changes: Sequence[ReplicaChange]) -> str:
    """Name workloads with the numbers of replicas that they would have; of many only by how much they change."""
    if len(changes) > _MOST_NAMED:
        added = sum(max(0, change.more) for change in changes)
        removed = sum(max(0, -change.more) for change in changes)
        counts = [f"{number} {word}" for number, word in ((removed, "fewer"), (added, "more")) if number]
        return f"{' and '.join(counts)} pods in {len(changes)} workloads"
    return " and ".join(f"{plural(change.replicas, 'replica')} of {change.workload}" for change in changes)


def _bound_text(bound: RelaxedBound) -> str:
    """Say how a bound is to be written: of which object, which field, what value."""
    if bound.max_share is not None:
        value = f"maxShare {Share(strict=False, fraction=bound.max_share)}"
    elif bound.max_pods is not None:
        value = f"maxPods {bound.max_pods}"
    elif bound.max_skew is not None:
        value = f"maxSkew {bound.max_skew}"
    else:
        value = f"minPods {bound.min_pods}"
    if bound.limit:
        return f"{value} in limit {bound.limit}"
    rest = f" and {len(bound.workloads) - _MOST_NAMED} more" if len(bound.workloads) > _MOST_NAMED else ""
    return f"{value} over {bound.key} in {', '.join(map(str, bound.workloads[:_MOST_NAMED]))}{rest}"


def _budget(cause: Any) -> str:
    return f"PodDisruptionBudget {cause.budget}"


_NODE_VERBS: Final[Mapping[NodeEvent, str]] = {
    NodeEvent.CORDONED: "was cordoned",
    NodeEvent.UNREADY: "became not Ready",
    NodeEvent.UNCORDONED: "was uncordoned",
}
"""What has become of a node, of the changes for which a repair waits; of another label the old value is named."""


def _change_text(change: NodeChange) -> str:
    """Say what has become of a node, and when."""
    at = f"{change.at:%Y-%m-%d %H:%M:%SZ}"
    if not change.node:
        return f"more nodes were relabelled at {at} than can be stored"
    if change.event is NodeEvent.RELABELLED:
        was = "not there" if change.value is None else change.value or '""'
        return f"{change.key} of node {change.node} was {was} until {at}"
    return f"node {change.node} {_NODE_VERBS[change.event]} at {at}"


def _node_changed(cause: planning.NodeChanged) -> str:
    where = f"on node {cause.change.node}" if cause.domain is None else f"in {cause.domain}"
    return (
        f"a replacement may land {where}: {_change_text(cause.change)}; "
        f"waiting until {cause.until:%Y-%m-%d %H:%M:%SZ}, at most {format_duration(cause.longest)} in all"
    )


_SENTENCES: Final[Mapping[type[Fact], Callable[[Any], str]]] = {
    # who may move
    planning.Modelled: _modelled,
    planning.OwnerKindNotListed: lambda c: f"eligibility.owners does not list {c.kind}; add it to allow the eviction",
    planning.OwnerUnknown: lambda c: f"its owner, {c.kind} {c.name}, is not known",
    planning.NamespaceExcluded: lambda c: f"eligibility.namespaces excludes {c.namespace}",
    planning.TeamPolicyUnreadable: lambda c: (
        f"the team policy of its namespace cannot be used; fix ConfigMap {c.namespace}/rebalancer-policy to allow "
        "evictions there"
    ),
    planning.NamespaceBeingDeleted: lambda c: (
        f"namespace {c.namespace} is being deleted, so that no replacement can be created there; nothing is evicted "
        "in it, and nothing is to be done"
    ),
    planning.NotReplaced: _not_replaced,
    planning.TooFewReplicas: lambda c: f"it has {plural(c.replicas, 'replica')}; eligibility.minReplicas is {c.least}",
    planning.OwnerBeingDeleted: lambda c: f"its {c.kind} is being deleted",
    planning.OwnerPaused: lambda c: f"the rollout of its {c.kind} is paused",
    planning.OwnerJustChanged: lambda c: f"its {c.kind} was just changed and its controller has not seen that yet",
    planning.OwnerRollingOut: lambda c: (
        f"its {c.kind} has {c.current} of {plural(c.replicas, 'pod')}, {c.updated} of them up to date"
    ),
    planning.MirrorPod: lambda _: "it is the mirror of a static pod, which its node would create again",
    planning.Annotated: _annotated,
    planning.LocalVolumes: _local_volumes,
    planning.NotSelected: lambda _: "eligibility.selector does not select it",
    planning.OtherScheduler: lambda c: f"{c.scheduler} schedules it, not {c.expected}",
    planning.EvictionResponders: lambda _: "its evictionResponders decide about its eviction",
    planning.PriorityClassMissing: lambda c: (
        f"eligibility.priorityBelow names PriorityClass {c.name}, which does not exist"
    ),
    planning.PriorityTooHigh: lambda c: f"its priority is {c.priority}; eligibility.priorityBelow is {c.bound}",
    planning.OwnerShrinking: lambda c: (
        f"its StatefulSet is about to delete {plural(c.pods, 'pod')} beyond its {plural(c.replicas, 'replica')}"
    ),
    planning.OnDeleteRevision: lambda c: (
        f"its StatefulSet has updateStrategy OnDelete, and pod {c.pod} is of revision {c.revision or '(none)'}: an "
        f"evicted pod would come back at updateRevision {c.update_revision or '(none)'}. Delete the pods to roll it "
        "out, or revert the template"
    ),
    planning.Arriving: lambda _: "it replaces an evicted pod and is not Ready yet",
    planning.TooYoung: lambda c: f"it is {_seconds(c.age)} old; eligibility.minAge is {_seconds(c.least)}",
    planning.VolumePinned: lambda c: (
        f"its volumes can be attached on {c.reachable} of {plural(c.nodes, 'node')} that admit it"
    ),
    # budgets
    planning.SeveralBudgets: lambda c: (
        f"PodDisruptionBudgets {name_list(c.budgets)} select it, and the API refuses to evict such a pod; "
        "let only one select it"
    ),
    planning.BudgetNotObserved: lambda c: f"{_budget(c)} was just changed; its status is not up to date yet",
    planning.BudgetNotComputed: lambda c: f"{_budget(c)} could not be computed; see its DisruptionAllowed condition",
    planning.BudgetExhausted: lambda c: (
        f"{_budget(c)} allows {_only_planned(c.planned)}: "
        f"{c.healthy} of {plural(c.expected, 'pod')} healthy, {c.desired} required"
    ),
    planning.WorkloadLimitReached: _workload_limit,
    planning.GroupUnavailable: _group_unavailable,
    planning.GroupSettling: lambda c: (
        f"a pod of {c.group} became Ready {_seconds(c.ago)} ago; disruption.settle is {format_duration(c.settle)}"
    ),
    planning.StepExceedsBudget: _step_exceeds,
    planning.StepWaitsForBudget: lambda c: (
        f"may need {plural(c.needed, 'concurrent eviction')}; the budgets allow fewer just now"
    ),
    # the component as a whole
    planning.ObjectUnreadable: lambda c: f"an object that may matter could not be read: {c.fault}",
    planning.OthersUncreated: lambda c: f"{c.owner} has still to create pods that count too",
    planning.OthersPending: lambda c: f"pod {c.pod} of another workload counts too and is pending",
    planning.NodeGone: lambda c: f"node {c.node} no longer exists; waiting for the replacement of pod {c.pod}",
    planning.PendingPodUnpredictable: lambda c: f"pod {c.pod} is pending: {c.message}",
    planning.PendingPodWithVolumes: lambda c: f"a pod of {c.workload} with volumes of its own is pending",
    planning.NodeBeingDeleted: lambda c: f"node {c.node} may take a replacement and is being deleted",
    planning.NodeToBeRemoved: lambda c: (
        f"node {c.node} may take a replacement, and an autoscaler is about to remove it (taint {c.taint})"
    ),
    planning.PodsNodeBeingRemoved: lambda c: (
        f"an autoscaler is removing node {c.node} of pod {c.pod} (taint {c.taint}); waiting until it is gone"
    ),
    planning.NodeNotReady: lambda c: f"node {c.node} may take a replacement and is not Ready",
    planning.NodeSettling: lambda c: (
        f"node {c.node} may take a replacement and has been Ready only since {c.since:%Y-%m-%d %H:%M:%SZ}; "
        f"waiting until {c.until:%Y-%m-%d %H:%M:%SZ}, at most nodes.settle ({format_duration(c.settle)}) in all"
    ),
    planning.NodeChanged: _node_changed,
    planning.DomainInMotion: lambda c: (
        f"a replacement may land in a domain in motion: {describe_unsettled(UnsettledDomain(c.motion, c.until))}"
    ),
    planning.CountsInMotion: lambda c: (
        f"it was not violated so before a node changed ({_change_text(c.change)}): waiting until that has lasted for "
        f"nodes.settle ({format_duration(c.settle)}), until {c.until:%Y-%m-%d %H:%M:%SZ}"
    ),
    planning.OwnPodsNotSelected: lambda _: "a constraint's selector does not match the workload's own pods",
    planning.NothingRecreates: lambda _: "no known owner would create its pods again",
    planning.HostPortsOfSeveralClasses: lambda _: "its pods differ and some have host ports, which is not modelled",
    planning.PodAffinityRequired: lambda _: (
        "its required affinity to pods changes the feasible nodes with every placement"
    ),
    planning.OneSidedAntiAffinity: lambda _: "some of its pods keep away from others that do not keep away from them",
    planning.NotActedOn: lambda _: "spread.actOn does not list the violated constraints",
    # why nothing, or nothing now
    planning.PendingWillSatisfy: lambda c: (
        f"waiting for {plural(c.pods, 'pending pod')}: scheduling {'it' if c.pods == 1 else 'them'} will satisfy all"
    ),
    planning.NoNodeAdmits: lambda c: f"no node admits pod {c.pod}, although a placement of all pods exists",
    planning.CapacityReserved: lambda _: (
        "pods that are being placed may take the capacity it needs; planned again afterwards"
    ),
    planning.PredictionUnverified: lambda _: "waiting until the last predicted move is verified",
    planning.FailedPredictions: lambda c: (
        f"{plural(c.moves, 'move')} in a row did not come out as predicted; nothing forces the scheduler to do better"
    ),
    planning.NoSafeEviction: lambda _: (
        "no safe eviction found: the scheduler could place the replacement where it does not help"
    ),
    planning.StepSearchLimit: lambda _: (
        "the search for a safe eviction reached its limit; it is tried again each cycle"
    ),
    planning.MinimumSearchLimit: lambda _: "the search for the fewest evictions reached its limit",
    planning.NoSequence: lambda c: (
        f"{plural(c.evictions, 'eviction')} would be enough by counting; no sequence of placements leads there (proved)"
    ),
    planning.PodsStay: _pods_stay,
    planning.OthersStay: lambda _: "pods of other workloads count too, and are not moved for this one",
    planning.NoCapacity: _no_capacity,
    planning.DomainsCordoned: lambda c: (
        f"every node of {_domains(c.key, c.domains)} is cordoned; waiting until they are uncordoned"
    ),
    planning.TooFewDomains: _too_few_domains,
    planning.NoPlacement: lambda c: (
        f"no placement of {plural(c.pods, 'pod')} over these domains satisfies all{_feasible(c.feasible)}"
    ),
    planning.NoPlacementOfClasses: _no_placement_of_classes,
    # capacity
    capacity.CapacityNeeded: _capacity_needed,
    capacity.CapacityObserves: lambda _: "capacity.mode is Observe",
    capacity.NotInModeEvict: lambda _: "the mode is not Evict",
    capacity.PlaceholdersUnread: lambda c: f"placeholders cannot be read: {c.message}",
    capacity.NotYetLasting: lambda c: (
        f"capacity has been missing for {_seconds(c.lasted)}; spread.for is {format_duration(c.required)}"
    ),
    capacity.OthersRequested: lambda c: (
        f"{plural(c.present, 'placeholder')} of other requests exist; capacity.maxPods is {c.most}"
    ),
    capacity.TooManyPlaceholders: lambda c: (
        f"needs capacity for {plural(c.pods, 'pod')} in {domains_text(c.domains)}; capacity.maxPods is {c.most}"
    ),
    capacity.CapacityBackingOff: _capacity_backing_off,
    capacity.DomainJustLost: lambda c: (
        f"{domains_text([c.domain])} lost its nodes {_seconds(c.ago)} ago; capacity is requested there in "
        f"{_whole_seconds(c.left)} at the earliest"
    ),
    capacity.CapacityRequested: lambda c: (
        f"waiting for capacity in {domains_text(c.domains)}, requested {_seconds(c.ago)} ago: {c.running} of "
        f"{plural(c.placeholders, 'placeholder')} run"
    ),
    capacity.CapacityBeingFreed: lambda c: (
        f"{plural(c.placeholders, 'placeholder')} being deleted to make capacity for it"
    ),
    capacity.CapacityDisputed: lambda c: f"pod {c.pod} waits for a node and could take the capacity",
    capacity.CapacityIncomplete: lambda _: "waiting until all the capacity that was requested for its repair is there",
    capacity.CapacityHeld: lambda _: (
        "the capacity that it needs is held by placeholders for another repair, or is not free"
    ),
    # admission
    admission.Paused: lambda c: c.message,
    admission.ModeObserves: lambda _: "mode is Observe",
    admission.AwaitsApproval: lambda c: f"plan {c.plan} waits for approval until {c.expires_at:%Y-%m-%d %H:%M:%SZ}",
    admission.NotProposed: lambda c: f"it is not part of plan {c.plan}; it is proposed when that plan has ended",
    admission.Stale: lambda c: c.message,
    admission.OutsideWindow: lambda c: (
        f"no window is open; the next one ({c.schedule}, {c.time_zone}) opens at {c.opens_at:%Y-%m-%d %H:%MZ}"
    ),
    admission.BreakerOpen: _breaker_open,
    admission.NotLasting: lambda c: f"violated for {_seconds(c.lasted)}; {c.field} is {format_duration(c.required)}",
    admission.MemoryUnsaved: lambda c: f"the memory cannot be saved, without which nothing is evicted: {c.message}",
    admission.NotAllowed: lambda c: (
        f"this account has no right to evict there: {c.message}. Install the form with that right "
        f"(deploy/evict, in the chart policy.mode), or set mode: Observe; next attempt in {_whole_seconds(c.left)}"
    ),
    admission.EvictionUndecided: lambda c: (
        f"the last leader may have requested the eviction of pod {c.pod}, and the API server may carry it out until "
        f"{c.until:%H:%M:%SZ}: until then no other pod is evicted for it"
    ),
    admission.ReplacementNotCreated: _not_created,
    admission.ReplacementNotRunning: lambda c: (
        f"the replacement of pod {c.pod} of {c.workload} does not run: {c.why}. Nothing more is evicted in the "
        f"{'namespace, in which this is so in several workloads,' if c.holds_namespace else 'workload'} until it does"
    ),
    admission.PodEnding: lambda c: f"waiting for pod {c.pod} of the same workload, which is still terminating",
    admission.WindowFull: _window_full,
    admission.StepQueued: lambda c: (
        f"a step of {c.workload} that needs {c.needed} concurrent evictions has waited for long, and goes first"
    ),
    admission.ServerOverloaded: lambda c: f"the API server is overloaded; next attempt in {_whole_seconds(c.left)}",
    admission.BackingOff: _backing_off,
    admission.RequestsRefused: lambda c: (
        f"the last {plural(c.times, 'eviction request')} for it {'was' if c.times == 1 else 'were'} not granted; "
        f"next attempt in {_whole_seconds(c.left)}"
    ),
    admission.RefusedByAdmission: lambda c: (
        f"{c.refuser} refused the eviction: {c.words}; tried again at {c.next_try:%H:%M:%SZ}"
    ),
    admission.RateReached: lambda c: f"budgets.{c.budget} allows {c.allowed}",
    admission.TooManyInFlight: lambda c: f"at most {c.allowed} evictions may be in flight at once",
}


def known_causes() -> Iterable[type[Fact]]:
    """Return every cause that has a sentence."""
    return _SENTENCES
