"""Which pods policy and owner allow to move. Refused pods have a reason and a cause, and still count."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from operator import attrgetter
from typing import Final, NamedTuple

from rebalancer.assessment.spread_groups import PodController
from rebalancer.assessment.too_large import refuse_terms
from rebalancer.creation.acceptance import find_refusals
from rebalancer.creation.replacement import is_of_template
from rebalancer.creation.webhooks import find_unreachable_of_evictions
from rebalancer.model.cluster import Namespace
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moments import Clock
from rebalancer.model.pods import REVISION_LABELS, LocalStorage, LocalVolume, OwnerReference, Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import format_duration, format_rest, name_list, plural
from rebalancer.model.workloads import BUILT_IN, PodTemplate, Workload, is_beyond, name_owner, pod_ordinal
from rebalancer.planning.scope.eviction_policies import refuse_denied
from rebalancer.planning.scope.owners import (
    CreationFails,
    PodsTerminating,
    find_first_unready,
    refuse_other_replica_sets,
    refuse_owning,
    refuse_scaled,
)
from rebalancer.planning.scope.pod_groups import refuse_group
from rebalancer.planning.scope.template_starts import TemplateStarts
from rebalancer.policy import Owner, Policy
from rebalancer.policy.durations import parse_duration
from rebalancer.scheduling.unpredictable import Unpredictable

_CREATED: Final = attrgetter("created")
_STARTING: Final = attrgetter("starting_since")

_REVISION = "controller-revision-hash"
_EXCLUDE = "rebalancer.dev/exclude"
_PAUSE_UNTIL = "rebalancer.dev/pause-until"
_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_SYSTEM_CRITICAL: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Built into every API server, so known even if priority classes were not read."""

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""The cluster-autoscaler's annotations that allow evicting pods with any local volume, or with listed volumes."""

_DELETED_WITH_POD: Final = frozenset({LocalStorage.EMPTY_DIR, LocalStorage.EPHEMERAL})
_LEFT_ON_NODE: Final = frozenset({LocalStorage.HOST_PATH})


class OwnerKindNotListed(Refusal):
    """The policy's eligibility.owners does not list this kind."""

    reason = Reason.UNKNOWN_OWNER
    owner_kind: str

    def __str__(self) -> str:
        try:
            Owner.of(self.owner_kind)
        except ValueError as error:
            return f"eligibility.owners cannot list {self.owner_kind}: {error}"
        return f"eligibility.owners does not list {self.owner_kind}; add it to allow the eviction"


class OwnerUnknown(Refusal):
    """The owner was not read, or could not be read; `why` is "" if the cause is not known."""

    reason = Reason.UNKNOWN_OWNER
    owner_kind: str
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"its owner, {self.owner_kind} {self.name}, is not known{f': {self.why}' if self.why else ''}"


class NamespaceExcluded(Refusal):
    """The policy's eligibility.namespaces leaves this namespace out."""

    reason = Reason.EXCLUDED
    namespace: str

    def __str__(self) -> str:
        return f"eligibility.namespaces excludes {self.namespace}"


class TeamPolicyUnreadable(Refusal):
    """No valid version of the namespace's team policy is known."""

    reason = Reason.EXCLUDED
    namespace: str

    def __str__(self) -> str:
        return (
            f"the team policy of its namespace cannot be used; fix ConfigMap {self.namespace}/rebalancer-policy to "
            "allow evictions there"
        )


class NamespaceBeingDeleted(Refusal):
    """The namespace has a deletionTimestamp: no pod can be created there any more."""

    reason = Reason.CANNOT_CREATE
    namespace: str

    def __str__(self) -> str:
        return (
            f"namespace {self.namespace} is being deleted: no replacement could be created there. Nothing is to be done"
        )


class NotReplaced(Refusal):
    """Nothing replaces the pod (it is bare), or only on the same node (`same_node`)."""

    reason = Reason.NOT_EVICTABLE
    same_node: bool

    def __str__(self) -> str:
        where = "its replacement would come to the same node" if self.same_node else "nothing would replace it"
        return f"no workload that can be moved owns it: {where}"


class TooFewReplicas(Refusal):
    """The workload has fewer replicas than eligibility.minReplicas."""

    reason = Reason.TOO_FEW_REPLICAS
    replicas: int
    least: int

    def __str__(self) -> str:
        return f"it has {plural(self.replicas, 'replica')}; eligibility.minReplicas is {self.least}"


class OwnerBeingDeleted(Refusal):
    """The owner is being deleted."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    owner_kind: str

    def __str__(self) -> str:
        return f"its {self.owner_kind} is being deleted"


class OwnerPaused(Refusal):
    """The owner's rollout is paused."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    owner_kind: str

    def __str__(self) -> str:
        return f"the rollout of its {self.owner_kind} is paused"


class OwnerJustChanged(Refusal):
    """The owner's controller has not seen its newest spec."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    ends = "when the controller of its {self.owner_kind} has seen the change"
    owner_kind: str

    def __str__(self) -> str:
        return f"its {self.owner_kind} was just changed and its controller has not seen that yet"


class OwnerRollingOut(Refusal):
    """The owner lacks pods, has too many, or has pods of another template than replacements would have."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    ends = "when its rollout has ended"
    owner_kind: str
    current: int
    replicas: int
    updated: int

    def __str__(self) -> str:
        return (
            f"its {self.owner_kind} has {self.current} of {plural(self.replicas, 'pod')}, {self.updated} of them up to "
            "date"
        )


class PodsReplaced(Refusal):
    """A StatefulSet of one revision, or its status, lacks pods: they are being created again, not rolled out."""

    reason = Reason.ARRIVING
    ends = "when its StatefulSet has all its pods"
    missing: int
    replicas: int

    def __str__(self) -> str:
        return f"its StatefulSet creates {self.missing} of {plural(self.replicas, 'pod')} anew"


class OwnerShrinking(Refusal):
    """A StatefulSet has pods beyond its ordinals, which it deletes once all other pods are Ready."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    ends = "when its StatefulSet has deleted them"
    pods: int
    replicas: int

    def __str__(self) -> str:
        return (
            f"its StatefulSet is about to delete {plural(self.pods, 'pod')} beyond its "
            f"{plural(self.replicas, 'replica')}"
        )


class OnDeleteRevision(Refusal):
    """A StatefulSet with `updateStrategy: OnDelete` has a pod of another revision than its `updateRevision`."""

    reason = Reason.ROLLOUT_IN_PROGRESS
    pod: str
    revision: str
    update_revision: str

    def __str__(self) -> str:
        return (
            f"its StatefulSet has updateStrategy OnDelete, and pod {self.pod} is of revision "
            f"{self.revision or '(none)'}: an evicted pod would come back at updateRevision "
            f"{self.update_revision or '(none)'}. Delete the pods to roll the update out, or revert the template"
        )


class NodeSilent(Refusal):
    """The pod's node is not Ready, and its owner replaces it only after its end, which only the kubelet can confirm."""

    reason = Reason.CANNOT_CREATE
    ends = "when node {self.node} is Ready"
    owner_kind: str
    node: str

    def __str__(self) -> str:
        return (
            f"node {self.node} is not Ready, so nothing confirms that the pod has ended, and its {self.owner_kind} "
            "replaces the pod only after that. Bring the node back, or force-delete the pod if it has certainly ended"
        )


class MirrorPod(Refusal):
    """A mirror pod, which its node would create again."""

    reason = Reason.NOT_EVICTABLE

    def __str__(self) -> str:
        return "it is the mirror of a static pod, which its node would create again"


class Annotated(Refusal):
    """An annotation excludes the pod from moving: on the pod, an owner, or its Namespace.

    `until` is when the annotation expires, None if it stays in force as long as it is there.
    """

    reason = Reason.EXCLUDED
    ends_at = "until"
    object_kind: str
    key: str
    value: str
    until: datetime | None = None

    @property
    def passes(self) -> bool:
        """Whether the annotation expires by itself."""
        return self.until is not None

    def __str__(self) -> str:
        on = {"Namespace": "its namespace", "Pod": "it"}.get(self.object_kind, f"its {self.object_kind}")
        text = f"{on} is annotated {self.key}: {self.value}"
        if self.until is not None:
            return f"{text}, until {self.until:%Y-%m-%d %H:%M:%SZ}"
        return f"{text}; remove the annotation to allow the eviction"


def local_storage_fields(kinds: Collection[LocalStorage]) -> str:
    """Name the policy's fields about these kinds of volumes: `eligibility.localStorage.emptyDir and .hostPath`."""
    names = [f".{kind}" for kind in LocalStorage if kind in kinds]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]
    return f"eligibility.localStorage{listed}"


class LocalVolumes(Refusal):
    """The pod has volumes with data on its node, of kinds that the policy's eligibility.localStorage refuses."""

    reason = Reason.LOCAL_STORAGE
    volumes: tuple[LocalVolume, ...]

    def __str__(self) -> str:
        losses = []
        for lost, verb in ((_DELETED_WITH_POD, "delete"), (_LEFT_ON_NODE, "leave behind")):
            volumes = [f"{volume.name} ({volume.kind})" for volume in self.volumes if volume.kind in lost]
            if volumes:
                losses.append(f"{verb} the data of {'volume' if len(volumes) == 1 else 'volumes'} {name_list(volumes)}")
        kinds = {volume.kind for volume in self.volumes}
        names = ",".join(sorted({volume.name for volume in self.volumes}))
        verb, them = ("is", "it") if len(kinds) == 1 else ("are", "them")
        return (
            f"its eviction would {' and '.join(losses)}; {local_storage_fields(kinds)} {verb} Refuse. Set {them} to "
            f'Allow, or annotate the pod {SAFE_TO_EVICT_VOLUMES}: "{names}"'
        )


class NotSelected(Refusal):
    """The policy's eligibility.selector leaves the pod out."""

    reason = Reason.EXCLUDED

    def __str__(self) -> str:
        return "eligibility.selector does not select it"


class OtherScheduler(Refusal):
    """The pod is placed by a scheduler that the policy does not name."""

    reason = Reason.OTHER_SCHEDULER
    scheduler: str
    expected: str

    def __str__(self) -> str:
        return f"{self.scheduler} schedules it, not {self.expected}"


class EvictionResponders(Refusal):
    """The pod's evictionResponders decide about its eviction."""

    reason = Reason.EXCLUDED

    def __str__(self) -> str:
        return "its evictionResponders decide about its eviction"


class PriorityClassMissing(Refusal):
    """The PriorityClass that eligibility.priorityBelow names does not exist."""

    reason = Reason.PRIORITY_TOO_HIGH
    name: str

    def __str__(self) -> str:
        return f"eligibility.priorityBelow names PriorityClass {self.name}, which does not exist"


class PriorityTooHigh(Refusal):
    """The pod's priority is not below eligibility.priorityBelow."""

    reason = Reason.PRIORITY_TOO_HIGH
    priority: int
    bound: str

    def __str__(self) -> str:
        return f"its priority is {self.priority}; eligibility.priorityBelow is {self.bound}"


class TooYoung(Refusal):
    """The pod is younger than eligibility.minAge."""

    reason = Reason.TOO_YOUNG
    passes = True
    age: timedelta
    least: timedelta

    def _end(self) -> End:
        return End(after=self.least - self.age)

    def __str__(self) -> str:
        return (
            f"it is {format_duration(self.age)} old; eligibility.minAge is {format_duration(self.least)}: "
            f"{format_rest(self.least - self.age)} left"
        )

    @property
    def timeless(self) -> str:
        return f"it is younger than eligibility.minAge, {format_duration(self.least)}"


class Arriving(Refusal):
    """The pod replaces an evicted pod and is not Ready yet; until then the result of that move is not known."""

    reason = Reason.ARRIVING
    ends = "when it is Ready"
    passes = True

    def __str__(self) -> str:
        return "it replaces an evicted pod and is not Ready yet"


class Starting(Refusal):
    """The pod was never Ready, and its owner's progress deadline is not over; `age` counts from its binding."""

    reason = Reason.STARTING
    ends = "when it is Ready, or progressDeadlineSeconds of its owner are over"
    passes = True
    age: timedelta
    deadline: timedelta

    def __str__(self) -> str:
        return (
            f"it has been starting for {format_duration(self.age)} and was never Ready; progressDeadlineSeconds of its "
            f"owner gives it {format_duration(self.deadline)}: {format_rest(self.deadline - self.age)} left"
        )

    @property
    def timeless(self) -> str:
        given = format_duration(self.deadline)
        return f"it is starting and was never Ready; progressDeadlineSeconds of its owner gives it {given}"


class Check(NamedTuple):
    """A check of a pod; `concerns` returns the pods of an owner that the check may refuse, None: any pod.

    If pods are equal for the check, one of them is enough. The pods passed to `concerns` share their labels.
    """

    refuse: Callable[[Pod], Refusal | None]
    concerns: Callable[[Sequence[Pod]], Iterable[Pod]] | None = None


def _having(field: str) -> Callable[[Sequence[Pod]], Iterable[Pod]]:
    return partial(filter, attrgetter(field))


def _take_first(pods: Sequence[Pod]) -> Sequence[Pod]:
    return pods[:1]


def _one_of_each_spec(pods: Sequence[Pod]) -> Iterable[Pod]:
    return {id(pod.spec): pod for pod in pods}.values()


def _with_volumes(pods: Sequence[Pod]) -> Sequence[Pod]:
    return [pod for pod in pods if pod.local_volumes or pod.claims]


def _refuse_mirror(pod: Pod) -> MirrorPod | None:
    return MirrorPod() if pod.mirror else None


class EligibilityChecker:
    """Checks the pods of one snapshot by the eligibility rules of one policy."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, clock: Clock, arriving: frozenset[str] = frozenset()
    ) -> None:
        """Take the UIDs of replacements that are not Ready yet as `arriving`."""
        self._snapshot = snapshot
        self._arriving = arriving
        self._clock = clock
        self._rules = policy.eligibility
        self._rules_of_team = policy.rules_of
        self._scheduler = policy.scheduler.name
        self._owners = frozenset((owner.kind, owner.group) for owner in self._rules.owners)
        self._selects = cache(self._rules.namespaces.selects)
        self._bound = self._priority_bound()
        self._refuse_volumes = cache(self._rules_on_volumes)
        self._refused_storage = self._rules.local_storage.refused
        self._starts = TemplateStarts(snapshot)
        self._refuse_evictions = cache(self._rules_on_evictions)
        self._silent = frozenset(node.name for node in snapshot.nodes if not node.ready)
        self._first_unready = cache(lambda owner_uid: find_first_unready(snapshot.workload[owner_uid], snapshot))
        self._checks = tuple(self._list_checks())

    def _priority_bound(self) -> int | None:
        """Return the lowest priority of pods that must stay; None if the policy names an unknown PriorityClass."""
        bound = self._rules.priority_below
        if isinstance(bound, int):
            return bound
        values = {known.name: known.value for known in self._snapshot.priority_classes}
        return values.get(bound, _SYSTEM_CRITICAL.get(bound))

    def refuse_controller(self, member: PodController) -> Refusal | None:
        """Return why none of an owner's pods may move now, or None."""
        owner = member.owner
        if owner is None:
            return self._refuse_without_owner(member)
        if not self._lists(owner.kind, owner.group):
            return self._refuse_kind(owner.kind, owner.group)
        if not self._selects(owner.namespace):
            return NamespaceExcluded(owner.namespace)
        if self._rules_of_team(owner.namespace).suspended:
            return TeamPolicyUnreadable(owner.namespace)
        namespace = self._snapshot.namespace.get(owner.namespace)
        if namespace is not None and namespace.terminating:
            return NamespaceBeingDeleted(owner.namespace)
        for annotated in (namespace, owner, member.top):
            if annotated is not None and annotated.annotations:
                kind = "Namespace" if isinstance(annotated, Namespace) else annotated.kind
                refusal = self._refuse_annotated(annotated.annotations, kind, since=None)
                if refusal is not None:
                    return refusal
        if isinstance(member.next_pod, Unpredictable):  # its cause is always a PodGroup, too
            return refuse_group(member.pods[0], self._snapshot) or member.next_pod
        return (
            self._refuse_changing(member)
            or self._refuse_uncreatable(owner, member.next_pod, member.pods)
            or self._refuse_evictions(owner.namespace)
        )

    def _refuse_without_owner(self, member: PodController) -> Refusal:
        kind, controller = member.reference.kind, member.pods[0].owner
        if controller is None or kind in {"DaemonSet", "Node"}:
            return NotReplaced(same_node=controller is not None)
        name, group = member.reference.name, controller.group
        if kind in BUILT_IN or "." not in group:
            return OwnerUnknown(kind, name)
        if not self._lists(kind, group):
            return self._refuse_kind(kind, group)
        return OwnerUnknown(kind, name, self._find_unread(controller, member.reference.namespace))

    def _lists(self, kind: str, group: str) -> bool:
        return (kind.partition(".")[0], group) in self._owners

    def _refuse_kind(self, kind: str, group: str) -> Refusal:
        return OwnerKindNotListed(kind if kind in BUILT_IN else f"{kind.partition('.')[0]}.{group}")

    def _find_unread(self, controller: OwnerReference, namespace: str) -> str:
        """Return why a foreign owner was not read."""
        kind, group, known = controller.kind.partition(".")[0], controller.group, self._snapshot.unread_owners
        one = known.get(name_owner(kind, group, namespace, controller.name))
        return one or known.get(f"{kind}.{group}") or "it is not among what was read"

    def _refuse_changing(self, member: PodController) -> Refusal | None:
        """Refuse owners that are being scaled, rolled out or deleted, because their next action cannot be predicted."""
        owner, top = member.owner, member.top
        assert owner is not None
        fewest = self._rules.min_replicas
        workload = top or owner
        if workload.replicas < fewest:
            return TooFewReplicas(workload.replicas, fewest)
        for changing in (owner,) if workload is owner else (owner, workload):
            kind = changing.kind
            if changing.deleted is not None:
                return OwnerBeingDeleted(kind)
            if not changing.observed or changing.paused:
                return OwnerPaused(kind) if changing.paused else OwnerJustChanged(kind)
            if changing.creation_failure:
                return CreationFails(kind, changing.name, changing.creation_failure)
            refusal = self._refuse_rolled_out(changing, member) or refuse_scaled(changing, self._snapshot)
            if refusal is not None:
                return refusal
        if owner.kind == "StatefulSet":
            return _refuse_stateful_set(member.pods, owner)
        if owner.is_foreign:
            return _refuse_foreign(member.pods, owner)
        return refuse_other_replica_sets(member, self._snapshot)

    def _refuse_rolled_out(self, changing: Workload, member: PodController) -> Refusal | None:
        """Refuse an owner whose status shows a rollout. The cause may also be replaced pods or pods that cannot end."""
        rolling = _refuse_rolled_out(changing, member)
        if rolling is None or changing.kind != "StatefulSet":
            return rolling
        stuck = self._refuse_stuck(changing, rolling) if self._silent else None
        missing = changing.replicas - min(rolling.updated, rolling.current)
        if stuck is None and missing > 0 and changing.current_revision == changing.revision != "":
            return PodsReplaced(missing, changing.replicas)
        return stuck or rolling

    def _refuse_stuck(self, changing: Workload, rolling: OwnerRollingOut) -> PodsTerminating | None:
        """Refuse a StatefulSet that lacks only pods that cannot end because their nodes are not Ready."""
        ending = [pod for pod in self._snapshot.pods_of.get(changing.uid, ()) if pod.terminating and not pod.finished]
        stuck = [pod.node for pod in ending if pod.node in self._silent]
        is_rollout = changing.current_revision not in {"", changing.revision}
        missing = changing.replicas - rolling.updated
        if not stuck or rolling.current != changing.replicas or len(ending) < missing:
            return None
        if is_rollout and _count_in_place(ending, changing) < len(ending):
            return None
        return PodsTerminating(len(stuck), tuple(sorted({*stuck})))

    def _refuse_uncreatable(self, owner: Workload, new: Pod, pods: Sequence[Pod]) -> Refusal | None:
        """Return the first reason why the API server would refuse the replacements of an owner's pods, or None."""
        return next(find_refusals(owner, new, pods, self._snapshot), None)

    def _rules_on_evictions(self, namespace: str) -> Refusal | None:
        """Return why the API server would refuse every eviction in a namespace, or None."""
        unreachable = next(find_unreachable_of_evictions(namespace, self._snapshot), None)
        return unreachable or refuse_denied(namespace, self._snapshot)

    def are_all_movable(self, pods: Sequence[Pod]) -> bool:
        """Return whether `refuse_pod` refuses none of these pods of one owner, which share their labels.

        Each check runs only for the pods that it names as possible refusals, or for all if it names none.
        """
        for check in self._checks:
            for pod in pods if check.concerns is None else check.concerns(pods):
                if check.refuse(pod) is not None:
                    return False
        return True

    def refuse_pod(self, pod: Pod) -> Refusal | None:
        """Return why a pod may not move now although its owner's pods may, or None."""
        for check in self._checks:
            refusal = check.refuse(pod)
            if refusal is not None:
                return refusal
        return None

    def _list_checks(self) -> Iterator[Check]:
        """Yield the checks of each pod; if several refuse a pod, the first gives the reason."""
        yield Check(_refuse_mirror, _having("mirror"))
        yield Check(self._refuse_annotated_pod, _having("annotations"))
        if self._rules.selector is not None:
            yield Check(self._refuse_unselected, _take_first)
        yield Check(self._refuse_spec, _one_of_each_spec)
        if self._snapshot.owned_by_pod:
            yield Check(lambda pod: refuse_owning(pod, self._snapshot))
        yield Check(self._refuse_local_storage, _with_volumes)
        yield Check(self._refuse_young, self._find_youngest)
        yield Check(self._refuse_before_its_turn, self._find_in_turn)
        if self._silent:
            yield Check(self._refuse_on_silent_node)
        yield Check(self._starts.refuse, self._starts.find_concerned)

    def _refuse_annotated_pod(self, pod: Pod) -> Refusal | None:
        return self._refuse_annotated(pod.annotations, "Pod", since=pod.created)

    def _refuse_unselected(self, pod: Pod) -> NotSelected | None:
        selector = self._rules.selector
        assert selector is not None, "checked only where there is one"
        return None if selector.compiled.matches(pod.labels) else NotSelected()

    def _refuse_on_silent_node(self, pod: Pod) -> NodeSilent | None:
        """Refuse a pod that comes back under its name, on a node that is not Ready."""
        owner = self._snapshot.owner_of(pod) if pod.node in self._silent else None
        named = owner is not None and (owner.kind == "StatefulSet" or owner.ordered or owner.keeps_pods)
        return NodeSilent(owner.kind, pod.node or "") if owner is not None and named else None

    def _refuse_spec(self, pod: Pod) -> Refusal | None:
        if pod.spec.scheduler != self._scheduler:
            return OtherScheduler(pod.spec.scheduler, self._scheduler)
        if pod.spec.eviction_responders:
            return EvictionResponders()
        refusal = refuse_group(pod, self._snapshot) or refuse_terms(pod.spec, self._rules.max_terms)
        if refusal is not None:
            return refusal
        return self._refuse_important(pod)

    def _refuse_important(self, pod: Pod) -> Refusal | None:
        if self._bound is None:
            named = self._rules.priority_below
            return PriorityClassMissing(str(named))
        if pod.spec.priority >= self._bound:
            bound = str(self._rules.priority_below)
            return PriorityTooHigh(pod.spec.priority, bound)
        return None

    def _refuse_local_storage(self, pod: Pod) -> Refusal | None:
        behind = self._find_behind_claims(pod) if pod.claims else ()
        refusal = (
            self._rules_on_volumes((*pod.local_volumes, *behind)) if behind else self._refuse_volumes(pod.local_volumes)
        )
        if refusal is None or pod.annotations.get(SAFE_TO_EVICT) == "true":
            return None
        safe = pod.annotations.get(SAFE_TO_EVICT_VOLUMES)
        if safe is None:
            return refusal
        # Parsed like the cluster-autoscaler does: blanks between commas are part of a name, which matches no volume.
        names = frozenset(safe.split(","))
        left = tuple([volume for volume in (*pod.local_volumes, *behind) if volume.name not in names])
        return self._rules_on_volumes(left)

    def _find_behind_claims(self, pod: Pod) -> tuple[LocalVolume, ...]:
        """Return the claims of a pod whose volumes are directories or disks of nodes, by the names of the claims."""
        volumes = self._snapshot.volume
        claims = ((name, self._snapshot.claim.get((pod.namespace, name))) for name in pod.claims)
        bound = ((name, volumes.get(claim.volume)) for name, claim in claims if claim is not None)
        return tuple(
            LocalVolume(name, LocalStorage.HOST_PATH)
            for name, volume in bound
            if volume is not None and volume.left_behind
        )

    def _rules_on_volumes(self, volumes: tuple[LocalVolume, ...]) -> Refusal | None:
        """Refuse volumes if one is of a refused kind; thousands of pods share one answer."""
        refused = tuple([volume for volume in volumes if volume.kind in self._refused_storage])
        return LocalVolumes(refused) if refused else None

    def _find_in_turn(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pods of an owner that creates its pods in turn, if a pod is not Ready."""
        return pods if self._find_first_unready(pods[0]) is not None else ()

    def _refuse_before_its_turn(self, pod: Pod) -> Refusal | None:
        """Refuse a pod that would not be created again because a pod of a lower ordinal is not Ready."""
        first = self._find_first_unready(pod)
        return first[1] if first is not None and pod_ordinal(pod.name) > first[0] else None

    def _find_first_unready(self, pod: Pod) -> tuple[int, Refusal] | None:
        owner = self._snapshot.owner_of(pod)
        in_turn = owner is not None and (owner.kind == "StatefulSet" or owner.ordered)
        return self._first_unready(owner.uid) if owner is not None and in_turn else None

    def _find_youngest(self, pods: Sequence[Pod]) -> Iterable[Pod]:
        """Return the youngest pod, the starting pods, and the pods that have just arrived."""
        yield max(pods, key=_CREATED)
        yield from filter(_STARTING, pods)
        if self._arriving:
            yield from (pod for pod in pods if pod.uid in self._arriving)

    def _refuse_young(self, pod: Pod) -> Refusal | None:
        if pod.uid in self._arriving:
            return Arriving()
        least = self._rules.min_age
        if least and not self._clock.has_lasted(pod.created, least):
            return TooYoung(self._clock.age_of(pod.created), least)
        return None if pod.starting_since is None else self._refuse_starting(pod, pod.starting_since)

    def _refuse_starting(self, pod: Pod, since: datetime) -> Starting | None:
        top = self._snapshot.top_owner_of(pod)
        assert top is not None, "a pod without an owner is refused before"
        deadline = timedelta(seconds=top.progress_deadline_seconds)
        return None if self._clock.has_lasted(since, deadline) else Starting(self._clock.age_of(since), deadline)

    def _refuse_annotated(self, annotations: Mapping[str, str], kind: str, since: datetime | None) -> Refusal | None:
        for key, value, until in _blocking_annotations(annotations, self._clock, since):
            return Annotated(kind, key, value, until)
        return None


def _refuse_rolled_out(changing: Workload, member: PodController) -> OwnerRollingOut | None:
    """Refuse an owner, or its own owner, whose status counts missing pods or pods of another template.

    The status of a foreign owner above ReplicaSets does not tell which pods come back: an aborted Rollout has no pod of
    its template.
    """
    if changing is not member.owner and changing.is_foreign:
        return None
    updated = _count_in_place(member.pods, changing) if changing.held_back else changing.updated
    if changing.current == changing.replicas and updated >= changing.replicas:
        return None
    return OwnerRollingOut(changing.kind, changing.current, changing.replicas, updated)


def _count_in_place(pods: Sequence[Pod], owner: Workload) -> int:
    """Count the pods of a StatefulSet that would come back at the revision that they have.

    Below the partition that is an older revision, so `status.updatedReplicas` does not say whether a rollout has ended.
    """
    return sum(pod.labels.get(_REVISION) == owner.revision_at(pod_ordinal(pod.name)) for pod in pods)


def _refuse_foreign(pods: Sequence[Pod], owner: Workload) -> Refusal | None:
    """Refuse a foreign owner that has more or fewer pods than it wants, or pods of several templates.

    Its status is not used, because only its controller knows the meaning.
    """
    revisions = {tuple([pod.labels.get(key) for key in REVISION_LABELS]) for pod in pods}
    current = sum(is_of_template(pod, owner.template, "") and _has_images(pod, owner.template) for pod in pods)
    if len(pods) != owner.replicas or len(revisions) > 1 or current < len(pods):
        newest = max(pods, key=_CREATED).labels
        alike = sum(all(pod.labels.get(key) == newest.get(key) for key in REVISION_LABELS) for pod in pods)
        return OwnerRollingOut(owner.kind, len(pods), owner.replicas, min(alike, current))
    return None


def _has_images(pod: Pod, template: PodTemplate | None) -> bool:
    """Return whether a pod has the images of its owner's template; webhooks may have added others."""
    return template is None or set(template.spec.images) <= set(pod.spec.images)


def _refuse_stateful_set(pods: Sequence[Pod], owner: Workload) -> Refusal | None:
    """Refuse a StatefulSet that is about to delete pods, or whose newest template waits for pods to be deleted.

    Under `updateStrategy: OnDelete` an eviction would carry out the rollout that somebody holds back: docs/design.md,
    "Revisions". Pods of the newest template also stay until the others are replaced, because it may yet be reverted.
    """
    # In the status, surplus pods make up for missing pods.
    beyond = sum(is_beyond(pod_ordinal(pod.name), owner) for pod in pods)
    if beyond:
        return OwnerShrinking(beyond, owner.replicas)
    for pod in pods if owner.on_delete else ():
        revision = pod.labels.get(_REVISION, "")
        if revision != owner.revision:
            return OnDeleteRevision(pod.name, revision, owner.revision)
    return None


def _blocking_annotations(
    annotations: Mapping[str, str], clock: Clock, since: datetime | None
) -> Iterator[tuple[str, str, datetime | None]]:
    """Yield the annotations that exclude a pod from moving, and until when, the lasting ones first.

    An annotation with an invalid value excludes the pod, too.
    """
    if annotations.get(_EXCLUDE, "false").lower() != "false":
        yield _EXCLUDE, annotations[_EXCLUDE], None
    if _NO_EVICTION in annotations:
        yield _NO_EVICTION, annotations[_NO_EVICTION] or '""', None
    if annotations.get(SAFE_TO_EVICT, "true").lower() == "false":
        yield SAFE_TO_EVICT, "false", None
    if _PAUSE_UNTIL in annotations:
        pause = annotations[_PAUSE_UNTIL]
        until = _end_of_pause(pause)
        if until is None or not clock.has_passed(until):
            yield _PAUSE_UNTIL, pause, until
    if annotations.get(_DO_NOT_DISRUPT, "false") != "false":
        protection = annotations[_DO_NOT_DISRUPT]
        until = _end_of_protection(protection, since)
        if until is None or not clock.has_passed(until):
            yield _DO_NOT_DISRUPT, protection, until


def _end_of_pause(text: str) -> datetime | None:
    """Return when a pause ends, None if its value is no moment with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None


def _end_of_protection(text: str, since: datetime | None) -> datetime | None:
    """Return when Karpenter's annotation ends: a duration counts from the pod's creation on, `true` has no end."""
    try:
        grace = parse_duration(text)
        return since + grace if since is not None else None
    except (ValueError, OverflowError):
        return None
