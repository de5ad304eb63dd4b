"""Whether the API server would accept an owner's next pod: the reasons for a refusal that are visible now.

Exemptions are not visible. But a pod of the same template that was created after an object's last change proves that
this object admits it; then the object is no reason for a refusal. Quotas are arithmetic, and evaluated by their
numbers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import structs

from rebalancer.creation.limit_ranges import refuse_above_limits, refuse_by_limits
from rebalancer.creation.named_objects import find_missing
from rebalancer.creation.next_requests import find_last_change, find_targets
from rebalancer.creation.pod_security import refuse_by_security
from rebalancer.creation.quotas import find_charges, quotas_of, refuse_by, refuse_unwritten
from rebalancer.creation.webhooks import find_unreachable
from rebalancer.model.containers import PodRequests
from rebalancer.model.facts import Refusal
from rebalancer.model.pods import REVISION_LABELS, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload


def find_refusals(owner: Workload, new: Pod, pods: Sequence[Pod], snapshot: Snapshot) -> Iterator[Refusal]:
    """Yield the visible reasons why the API server would refuse the replacement of one of an owner's pods.

    `new` is the replacement, `pods` are the owner's. A quota refuses only if it refuses the replacement of each pod.
    """
    template, namespace = owner.template, snapshot.namespace.get(owner.namespace)
    if template is not None:
        yield from find_missing(template, owner.namespace, snapshot)
        if namespace is not None:
            refusal = refuse_by_security(template, namespace, snapshot.version)
            if refusal is not None and not _is_proved(owner, pods, namespace.changed):
                yield refusal
    yield from find_unreachable(owner.namespace, new.labels, snapshot)
    # An autoscaler changes limits along with requests, within the LimitRange; the result is not known here.
    sizes = None if find_targets(owner, snapshot) else new.requested
    if sizes is not None:
        yield from _refuse_by_limits(owner, sizes, pods, snapshot)
    yield from _refuse_by_quotas(owner, structs.replace(new, requested=sizes), pods, snapshot)


def _refuse_by_limits(
    owner: Workload, sizes: PodRequests, pods: Sequence[Pod], snapshot: Snapshot
) -> Iterator[Refusal]:
    ranges = snapshot.limit_ranges_in.get(owner.namespace, ())
    above = refuse_above_limits(sizes) if ranges else None
    if above is not None and not _is_proved(owner, pods, find_last_change(ranges)):
        yield above
    for limits in ranges:
        violated = refuse_by_limits(limits, sizes)
        if violated is not None and not _is_proved(owner, pods, limits.changed):
            yield violated


def _refuse_by_quotas(owner: Workload, new: Pod, pods: Sequence[Pod], snapshot: Snapshot) -> Iterator[Refusal]:
    for quota in quotas_of(owner.namespace, snapshot):
        unwritten = refuse_unwritten(quota, new)
        if unwritten is not None:
            yield unwritten
        exceeded = [refuse_by(quota, find_charges(quota, pod, new), {}) for pod in _one_of_each(pods)]
        if exceeded and exceeded[0] is not None and None not in exceeded:
            yield exceeded[0]


def _one_of_each(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return one pod of each set of pods that quotas count alike."""
    return list({(id(pod.requests), id(pod.requested), id(pod.spec)): pod for pod in reversed(pods)}.values())


def _is_proved(owner: Workload, pods: Sequence[Pod], changed: datetime | None) -> bool:
    """Return whether a pod of an owner's template was created after an object was changed last."""
    revision = owner.revision
    return changed is not None and any(
        pod.created > changed and (not revision or any(pod.labels.get(key) == revision for key in REVISION_LABELS))
        for pod in pods
    )
