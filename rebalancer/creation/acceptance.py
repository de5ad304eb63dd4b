"""Whether the API server would accept an owner's next pod: what is visible now of what it would be refused for.

Of exemptions nothing can be seen. But a pod of the same template that was created after an object's last change proves
that this object admits it; then it is not the reason of a refusal. Quotas are arithmetic, and judged by their numbers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import structs

from rebalancer.creation.limit_ranges import refuse_above_limits, refuse_by_limits
from rebalancer.creation.named_objects import find_missing
from rebalancer.creation.next_requests import find_last_change, find_targets, is_webhook_registered
from rebalancer.creation.pod_security import refuse_by_security
from rebalancer.creation.quotas import find_charges, quotas_of, refuse_by, refuse_unwritten
from rebalancer.creation.webhooks import find_unreachable
from rebalancer.model.containers import PodRequests
from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload


def find_refusals(owner: Workload, new: Pod, pods: Sequence[Pod], snapshot: Snapshot) -> Iterator[Refusal]:
    """Yield why the API server would refuse the pod that replaces one of an owner's pods, as far as it can be seen.

    `new` is that pod, `pods` are the owner's. A quota refuses only if it refuses the replacement of each of them.
    """
    newest = max((pod.created for pod in pods if _has_template(pod, owner)), default=None)
    template, namespace = owner.template, snapshot.namespace.get(owner.namespace)
    if template is not None:
        yield from find_missing(template, owner.namespace, snapshot)
        if namespace is not None and not _is_proved(newest, namespace.changed):
            refusal = refuse_by_security(template, namespace, snapshot.version)
            if refusal is not None:
                yield refusal
    yield from find_unreachable(owner.namespace, new.labels, snapshot)
    # An autoscaler changes limits with requests, within the LimitRange: how, is not known here.
    sizes = None if find_targets(owner, snapshot) and is_webhook_registered(snapshot) is not False else new.requested
    if sizes is not None:
        yield from _refuse_by_limits(owner, sizes, newest, snapshot)
    yield from _refuse_by_quotas(owner, structs.replace(new, requested=sizes), pods, snapshot)


def _refuse_by_limits(
    owner: Workload, sizes: PodRequests, newest: datetime | None, snapshot: Snapshot
) -> Iterator[Refusal]:
    ranges = snapshot.limit_ranges_in.get(owner.namespace, ())
    if ranges and not _is_proved(newest, find_last_change(ranges)):
        above = refuse_above_limits(sizes)
        if above is not None:
            yield above
    for limits in ranges:
        if not _is_proved(newest, limits.changed):
            violated = refuse_by_limits(limits, sizes)
            if violated is not None:
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
    """Return one pod of each that differ in what a quota counts."""
    return list({(id(pod.requests), id(pod.requested), id(pod.spec)): pod for pod in reversed(pods)}.values())


def _has_template(pod: Pod, owner: Workload) -> bool:
    return not owner.revision or owner.revision in {
        pod.labels.get("pod-template-hash"),
        pod.labels.get("controller-revision-hash"),
    }


def _is_proved(newest: datetime | None, changed: datetime | None) -> bool:
    return newest is not None and changed is not None and newest > changed
