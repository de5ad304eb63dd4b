"""Whether the quotas of a namespace admit a replacement, after the evicted pod's usage has been returned.

A quota decides by its status, for each resource that the new pod uses. The evicted pod's usage is returned once the pod
is gone, or at the end of its grace period; until then the owner's controller retries. Here it counts as returned.

Source: `pkg/quota/v1/evaluator/core/pods.go`, `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota`;
OpenShift's ClusterResourceQuota works alike over all of its namespaces together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.affinity import PodAffinity
from rebalancer.model.cluster import Namespace
from rebalancer.model.containers import ContainerRequests
from rebalancer.model.creation import ClusterQuota, QuotaScope, ResourceQuota
from rebalancer.model.facts import NOT_BY_ITSELF, End, Refusal
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.quantities import format_amount
from rebalancer.model.reasons import Reason
from rebalancer.model.requests import sum_amounts, sum_limits
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import name_list

Quota = ResourceQuota | ClusterQuota

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_WRITTEN: Final = frozenset(
    f"{prefix}{name}" for name in ("cpu", "memory") for prefix in ("", "requests.", "limits.")
)
"""If a quota tracks one of these resources, every container has to state it (`validationSet`)."""


class QuotaExceeded(Refusal):
    """A quota would not admit the replacement; `planned` is what earlier evictions of the plan add to `used`."""

    reason = Reason.CANNOT_CREATE
    quota: str
    resource: str
    hard: int
    used: int
    returned: int
    requested: int
    planned: int = 0

    def _end(self) -> End:
        return End(event="when the replacements planned before are there") if self.planned else NOT_BY_ITSELF

    def __str__(self) -> str:
        def amount(number: int) -> str:
            return format_amount(self.resource, number)

        planned = f" and {amount(self.planned)} planned" if self.planned else ""
        return (
            f"{self.quota} limits {self.resource} to {amount(self.hard)}: {amount(self.used)} used{planned}. "
            f"The evicted pod returns {amount(self.returned)}, and its replacement needs {amount(self.requested)}. "
            "Raise the quota, or lower what is used"
        )


class QuotaNeedsRequests(Refusal):
    """A quota refuses pods with a container that does not say how much of a resource it needs."""

    reason = Reason.CANNOT_CREATE
    quota: str
    resources: tuple[str, ...]
    container: str

    def __str__(self) -> str:
        return (
            f"{self.quota} refuses pods whose containers do not state {name_list(self.resources)}, and container "
            f"{self.container} does not. State it in the template, or add a LimitRange with a default"
        )


class Charge(NamedTuple):
    """The change of one replacement in a quota: per resource, what the evicted pod returns and the new pod needs."""

    resource: str
    returned: int
    requested: int


def quotas_of(namespace: str, snapshot: Snapshot) -> Iterator[Quota]:
    """Yield the quotas that pods of a namespace count in."""
    yield from snapshot.quotas_in.get(namespace, ())
    known = snapshot.namespace.get(namespace)
    for quota in snapshot.cluster_quotas if known is not None else ():
        if known is not None and _covers(quota, known):
            yield quota


def name_quota(quota: Quota) -> str:
    """Name a quota as messages do."""
    if isinstance(quota, ResourceQuota):
        return f"ResourceQuota {quota.namespace}/{quota.name}"
    return f"ClusterResourceQuota {quota.name}"


def find_charges(quota: Quota, evicted: Pod, new: Pod) -> Sequence[Charge]:
    """Return what a replacement changes in the resources that a quota tracks and the new pod uses.

    Nothing, if the new pod is out of its scope.
    """
    if not _is_in_scope(quota, new):
        return ()
    needed = _usage(new)
    returned = _usage(evicted) if _is_in_scope(quota, evicted) else {}
    return [
        Charge(resource, returned.get(resource, 0), needed[resource])
        for resource, _ in quota.hard
        if resource in needed
    ]


def refuse_by(quota: Quota, charges: Sequence[Charge], planned: Mapping[str, int]) -> QuotaExceeded | None:
    """Return why a quota would not admit a replacement beside the use already planned, by resource, or None."""
    hard, used = dict(quota.hard), dict(quota.used)
    for charge in charges:
        before = used.get(charge.resource, 0)
        after = before + planned.get(charge.resource, 0) - charge.returned + charge.requested
        if after > hard[charge.resource]:
            return QuotaExceeded(
                name_quota(quota),
                charge.resource,
                hard[charge.resource],
                before,
                charge.returned,
                charge.requested,
                planned.get(charge.resource, 0),
            )
    return None


def refuse_unwritten(quota: Quota, new: Pod) -> QuotaNeedsRequests | None:
    """Return why a quota refuses a pod at any usage: a container does not state a tracked resource."""
    wanted = _MUST_BE_WRITTEN.intersection(name for name, _ in quota.hard)
    requested = new.requested
    if not wanted or requested is None or requested.pod_level or requested.pod_limits or not _is_in_scope(quota, new):
        return None
    for container in requested.containers:
        missing = wanted - _written(container)
        if missing:
            return QuotaNeedsRequests(name_quota(quota), tuple(sorted(missing)), container.name)
    return None


def _written(container: ContainerRequests) -> set[str]:
    requests, limits = (dict(amounts) for amounts in (container.requests, container.limits))
    return {*requests, *(f"requests.{name}" for name in requests), *(f"limits.{name}" for name in limits)}


def _covers(quota: ClusterQuota, namespace: Namespace) -> bool:
    if quota.labels is None and quota.annotations is None:
        return False
    labelled = quota.labels is None or quota.labels.matches(namespace.labels)
    return labelled and (quota.annotations or {}).items() <= namespace.annotations.items()


def _usage(pod: Pod) -> dict[str, int]:
    """Return what a pod uses, by the names that quotas use."""
    requests = _by_name(pod.requests)
    limits = sum_limits(pod.requested) if pod.requested is not None else {}
    usage = {"pods": 1, "count/pods": 1}
    for name, amount in requests.items():
        usage[f"requests.{name}"] = amount
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
    usage |= {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    return usage


def _by_name(requests: Resources) -> dict[str, int]:
    named = {"cpu": requests.cpu, "memory": requests.memory, "ephemeral-storage": requests.ephemeral_storage}
    return {name: amount for name, amount in (*named.items(), *requests.extended) if amount}


def _is_in_scope(quota: Quota, pod: Pod) -> bool:
    return all(_matches(scope, pod) for scope in quota.scopes)


def _matches(scope: QuotaScope, pod: Pod) -> bool:
    """Return whether a scope holds for a pod (`podMatchesScopeFunc`); the pods of owners have no deadline."""
    match scope.name:
        case "Terminating":
            return False
        case "NotTerminating":
            return True
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            return _selects_class(scope, pod.spec.priority_class)
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(pod.spec.pod_affinity)
    return False


def _is_best_effort(pod: Pod) -> bool:
    """Return whether no container states CPU or memory; overhead does not count (`GetPodQOS`)."""
    if pod.requested is None:
        return not pod.requests.cpu and not pod.requests.memory
    containers = structs.replace(pod.requested, overhead=())
    amounts = (sum_amounts(containers), sum_limits(containers))
    return not any(one.get(name) for one in amounts for name in ("cpu", "memory"))


def _selects_class(scope: QuotaScope, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "DoesNotExist":
            return not name
    return bool(name)


def _crosses_namespaces(affinity: PodAffinity) -> bool:
    terms = [*affinity.required, *affinity.anti_required]
    terms += [preferred.term for preferred in (*affinity.preferred, *affinity.anti_preferred)]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)
