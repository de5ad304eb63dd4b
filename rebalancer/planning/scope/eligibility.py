"""Who may move at all. Every refusal has its reason and a sentence; refused pods count all the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.cluster import Namespace
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.policy.durations import parse_duration
from rebalancer.scheduling.unpredictable import Unpredictable

_EXCLUDE = "rebalancer.dev/exclude"
_PAUSE_UNTIL = "rebalancer.dev/pause-until"
_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_SYSTEM_CRITICAL: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Built into every API server, so known even where priority classes were not read."""


@dataclass(frozen=True)
class Refusal:
    """Why something is not moved."""

    reason: Reason
    message: str


class EligibilityChecker:
    """The rules of one policy over one snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._rules = policy.eligibility
        self._scheduler = policy.scheduler.name
        self._now = snapshot.taken_at
        self._owners = frozenset((each.kind, each.group) for each in self._rules.owners)
        self._selects = cache(self._rules.namespaces.selects)
        self._bound = self._priority_bound()
        self._everyone = self._rules.selector is None
        self._born_before = self._now - self._rules.min_age

    def _priority_bound(self) -> int | None:
        """Return the priority from which on pods stay; None where the class that says it is not known."""
        bound = self._rules.priority_below
        if isinstance(bound, int):
            return bound
        values = {each.name: each.value for each in self._snapshot.priority_classes}
        return values.get(bound, _SYSTEM_CRITICAL.get(bound))

    def of_member(self, member: PodController) -> Refusal | None:
        """Say why none of an owner's pods may move now, or None."""
        owner = member.owner
        if owner is None:
            return self._without_owner(member)
        if (owner.kind, owner.group) not in self._owners:
            return Refusal(Reason.UNKNOWN_OWNER, f"{owner.kind} is not listed in eligibility.owners")
        if not self._selects(owner.namespace):
            return Refusal(Reason.EXCLUDED, f"eligibility.namespaces leaves {owner.namespace} out")
        namespace = self._snapshot.namespace.get(owner.namespace)
        for each in (namespace, owner, member.top):
            if each is not None and each.annotations:
                place = "the namespace" if isinstance(each, Namespace) else f"the {each.kind}"
                refused = self._annotated(each.annotations, place, since=None)
                if refused is not None:
                    return refused
        if isinstance(member.next_pod, Unpredictable):
            return Refusal(member.next_pod.reason, member.next_pod.message)
        return self._unsettled(member)

    def _without_owner(self, member: PodController) -> Refusal:
        kind = member.reference.kind
        if kind in {"Pod", "DaemonSet", "Node"}:
            what = "nothing would replace it" if kind == "Pod" else "its replacement would come to the same node"
            return Refusal(Reason.NOT_EVICTABLE, f"it belongs to no workload that is moved: {what}")
        return Refusal(Reason.UNKNOWN_OWNER, f"its owner, {kind} {member.reference.name}, is not known")

    def _unsettled(self, member: PodController) -> Refusal | None:
        """Refuse owners that are being scaled, rolled out or deleted: what they will do next is not ours to foresee."""
        owner, top = member.owner, member.top
        assert owner is not None
        fewest = self._rules.min_replicas
        workload = top or owner
        if workload.replicas < fewest:
            return Refusal(Reason.TOO_FEW_REPLICAS, f"it has {workload.replicas}, eligibility.minReplicas is {fewest}")
        for each in (owner,) if workload is owner else (owner, workload):
            if each.deleted is not None:
                return Refusal(Reason.ROLLOUT_IN_PROGRESS, f"the {each.kind} is being deleted")
            if not each.observed or each.paused:
                state = "is paused" if each.paused else "was just changed"
                return Refusal(Reason.ROLLOUT_IN_PROGRESS, f"the {each.kind} {state}")
            if each.current != each.replicas or each.updated < each.replicas:
                return Refusal(
                    Reason.ROLLOUT_IN_PROGRESS,
                    f"the {each.kind} has {each.current} of {each.replicas} pods, {each.updated} up to date",
                )
        return None

    def all_free(self, pods: Sequence[Pod]) -> bool:
        """Say whether nothing keeps any of these pods where it is, as a glance tells.

        That is where they share labels and spec and have neither annotations nor volumes of their own, as most pods of
        a cluster. Where it says no, `of_pod` may still refuse none.
        """
        if not self._everyone or self._of_spec(pods[0]) is not None:
            return False
        spec, labels, born_before = pods[0].spec, pods[0].labels, self._born_before
        for pod in pods:
            if pod.spec is not spec or pod.labels is not labels:
                return False
            if pod.annotations or pod.claims or pod.mirror or pod.created > born_before:
                return False
        return True

    def of_pod(self, pod: Pod) -> Refusal | None:
        """Say why a pod may not move now although its owner's pods may, or None."""
        if pod.mirror:
            return Refusal(Reason.NOT_EVICTABLE, "it is the mirror of a static pod, which its node would make anew")
        refused = self._annotated(pod.annotations, "the pod", since=pod.created)
        if refused is not None:
            return refused
        selector = self._rules.selector
        if selector is not None and not selector.compiled.matches(pod.labels):
            return Refusal(Reason.EXCLUDED, "eligibility.selector leaves it out")
        return self._of_spec(pod) or self._young(pod)

    def _of_spec(self, pod: Pod) -> Refusal | None:
        if pod.spec.scheduler != self._scheduler:
            return Refusal(Reason.OTHER_SCHEDULER, f"{pod.spec.scheduler} places it, not {self._scheduler}")
        if pod.spec.eviction_responders:
            return Refusal(Reason.EXCLUDED, "it has evictionResponders, which decide about its eviction")
        return self._important(pod)

    def _important(self, pod: Pod) -> Refusal | None:
        if self._bound is None:
            named = self._rules.priority_below
            return Refusal(Reason.PRIORITY_TOO_HIGH, f"no PriorityClass {named}, which eligibility.priorityBelow names")
        if pod.spec.priority >= self._bound:
            return Refusal(
                Reason.PRIORITY_TOO_HIGH,
                f"its priority is {pod.spec.priority}, eligibility.priorityBelow {self._rules.priority_below}",
            )
        return None

    def _young(self, pod: Pod) -> Refusal | None:
        age, least = self._now - pod.created, self._rules.min_age
        if age < least:
            return Refusal(Reason.TOO_YOUNG, f"it is {_seconds(age)} old, eligibility.minAge is {_seconds(least)}")
        return None

    def _annotated(self, annotations: Mapping[str, str], place: str, since: datetime | None) -> Refusal | None:
        for key, why in _stops(annotations, self._now, since):
            return Refusal(Reason.EXCLUDED, f"{place} is annotated {key}: {why}")
        return None


def _stops(annotations: Mapping[str, str], now: datetime, since: datetime | None) -> Iterator[tuple[str, str]]:
    """Yield the annotations that keep a pod where it is. One whose value cannot be read keeps it, too."""
    if annotations.get(_EXCLUDE, "false").lower() != "false":
        yield _EXCLUDE, annotations[_EXCLUDE]
    if _NO_EVICTION in annotations:
        yield _NO_EVICTION, annotations[_NO_EVICTION] or '""'
    if annotations.get(_SAFE_TO_EVICT, "true").lower() == "false":
        yield _SAFE_TO_EVICT, "false"
    if _PAUSE_UNTIL in annotations and not _past(annotations[_PAUSE_UNTIL], now):
        yield _PAUSE_UNTIL, annotations[_PAUSE_UNTIL]
    if _DO_NOT_DISRUPT in annotations and _undisturbed(annotations[_DO_NOT_DISRUPT], now, since):
        yield _DO_NOT_DISRUPT, annotations[_DO_NOT_DISRUPT]


def _past(text: str, now: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and moment <= now


def _undisturbed(text: str, now: datetime, since: datetime | None) -> bool:
    """Say whether Karpenter's annotation holds: true for ever, a duration from the pod's creation on."""
    if text == "false":
        return False
    try:
        grace = parse_duration(text)
    except ValueError:
        return True
    return since is None or now < since + grace


def _seconds(span: timedelta) -> str:
    return f"{int(span.total_seconds())}s"
