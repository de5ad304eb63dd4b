"""LimitRanges that refuse the pods of a template: the workload is accepted, but its controller can create no pod.

A LimitRange of the cluster certainly exists before the pods. A LimitRange among the manifests may be created after the
first pods, and its defaults for containers are not counted in placements.

Source: `plugin/pkg/admission/limitranger/admission.go`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msgspec import structs

from rebalancer.creation.limit_ranges import (
    LimitRangeViolated,
    RequestAboveLimit,
    refuse_above_limits,
    refuse_by_limits,
)
from rebalancer.creation.next_requests import find_requests, find_targets
from rebalancer.lint.doubts import count_not_replaced
from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.ground import Ground, is_placed, namespace_of, reference_of
from rebalancer.lint.manifest import ONE_EACH, Manifest, Manifests, Path
from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests
from rebalancer.model.creation import LimitRange, PodWebhook
from rebalancer.model.pods import Pod
from rebalancer.model.quantities import format_amount
from rebalancer.model.requests import make_amounts
from rebalancer.model.snapshot import Snapshot

_NO_CLUSTER: Final = Snapshot(taken_at=datetime(1970, 1, 1, tzinfo=UTC))
_WEBHOOKS: Final = "MutatingWebhookConfiguration"


class _Refused(NamedTuple):
    """Why no pod of a template can be created, and the LimitRanges of its namespace."""

    why: LimitRangeViolated | RequestAboveLimit
    ranges: Sequence[LimitRange]


def check_limit_ranges(manifests: Manifests, ground: Ground | None) -> Iterator[Finding]:
    """Yield templates whose pods a LimitRange of their namespace refuses, in the cluster or among the manifests."""
    written = {(namespace_of(one), one.name): one.limit_range for one in manifests.every if one.limit_range is not None}
    snapshot = ground.snapshot if ground is not None else _NO_CLUSTER
    there = {(one.namespace, one.name): one for one in snapshot.limit_ranges}
    ranges = defaultdict[str, list[LimitRange]](list)
    for (namespace, _), one in ({**there, **written}).items():
        ranges[namespace].append(structs.replace(one, namespace=namespace))
    snapshot = replace(snapshot, limit_ranges=tuple(one for those in ranges.values() for one in those))
    of_manifests = {namespace for namespace, _ in written}
    for manifest in manifests.workloads if ranges else ():
        namespace = namespace_of(manifest)
        refused = _find_refused(manifest, ranges.get(namespace, ()), snapshot)
        if refused is not None:
            doubt = _find_doubt(manifest, ground, is_written=namespace in of_manifests)
            yield _describe(manifest, refused, doubt, snapshot)


def _find_refused(manifest: Manifest, ranges: Sequence[LimitRange], snapshot: Snapshot) -> _Refused | None:
    template = manifest.workload.template if manifest.workload is not None else None
    if not ranges or template is None or template.requested is None:
        return None
    if not manifest.replicas and manifest.kind not in ONE_EACH:
        return None
    if refuse_above_limits(template.requested) is not None:  # the API server refuses the workload itself
        return None
    why = _refuse(manifest, template.requested, ranges, snapshot)
    return _Refused(why, ranges) if why is not None else None


def _refuse(
    manifest: Manifest, requested: PodRequests, ranges: Sequence[LimitRange], snapshot: Snapshot
) -> LimitRangeViolated | RequestAboveLimit | None:
    """Return why a pod with these requests is refused, once admission has added the defaults."""
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    template = structs.replace(manifest.workload.template, requested=requested)
    owner = structs.replace(manifest.workload, namespace=namespace_of(manifest))
    if find_targets(owner, snapshot):  # a VerticalPodAutoscaler keeps its requests within the LimitRange
        return None
    made = find_requests(owner, template, (), snapshot)
    assert made is not None
    found = (refuse_by_limits(one, made.most) for one in ranges)
    return refuse_above_limits(made.most) or next((one for one in found if one is not None), None)


def _find_doubt(manifest: Manifest, ground: Ground | None, *, is_written: bool) -> str:
    """Say under which condition a new pod may still be created; return "" if it is certainly refused."""
    if ground is None or is_written:
        return "unless it is created before the LimitRange"
    if not is_placed(manifest) or reference_of(manifest) not in ground.changing:
        return "once one is wanted: those of today stay"
    if count_not_replaced(manifest, ground):
        return "once one is to have the new template"
    owner = ground.find_owner(manifest)
    assert owner is not None
    pod = ground.make_pod(owner)
    if not isinstance(pod, Pod):
        return f"as far as it is known: {pod.message}"
    if _WEBHOOKS not in ground.snapshot.known:
        return f"unless a webhook changes it: add {_WEBHOOKS}s to the snapshot"
    hook = _find_webhook(pod, ground.snapshot)
    return f"unless webhook {hook.name} of {_WEBHOOKS} {hook.configuration} changes it" if hook is not None else ""


def _find_webhook(pod: Pod, snapshot: Snapshot) -> PodWebhook | None:
    """Return a webhook that may change a new pod; the labels of the pod's namespace may be unknown."""
    namespace = snapshot.namespace.get(pod.namespace)
    for hook in (hook for one in snapshot.webhooks if one.mutating for hook in one.webhooks if not hook.of_evictions):
        there = namespace is None or hook.namespaces is None or hook.namespaces.matches(namespace.labels)
        if there and (hook.objects is None or hook.objects.matches(pod.labels)):
            return hook
    return None


def _describe(manifest: Manifest, refused: _Refused, doubt: str, snapshot: Snapshot) -> Finding:
    why = refused.why
    if isinstance(why, LimitRangeViolated):
        message = f"LimitRange {why.name} refuses its pods: {why.what}"
    else:
        requested, limit = (format_amount(why.resource, amount) for amount in (why.requested, why.limit))
        message = (
            f"the API server refuses its pods: container {why.container} requests {requested} of {why.resource}, more "
            f"than the limit of {limit} that a LimitRange gives it"
        )
    return Finding(
        rule=Rule.REFUSED_BY_LIMIT_RANGE,
        severity=Severity.WARNING if doubt else Severity.ERROR,
        manifest=manifest,
        path=_find_container(manifest, why.container),
        message=f"{message}; no new pod is created{f', {doubt}' if doubt else ''}",
        patch=_fix(manifest, refused, snapshot),
    )


def _find_container(manifest: Manifest, name: str) -> Path:
    """Return the path of a container, or of the template's spec if the violation concerns the whole pod."""
    assert manifest.template is not None
    spec = (*manifest.template, "spec")
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(manifest.find((*spec, kind)) or ()):
            if name and container.get("name") == name:
                return (*spec, kind, number)
    return spec


def _fix(manifest: Manifest, refused: _Refused, snapshot: Snapshot) -> tuple[Operation, ...]:
    """Return the change that brings a container within a bound, if no LimitRange refuses the pods after the change."""
    why, at = refused.why, _find_container(manifest, refused.why.container)
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    requested = manifest.workload.template.requested
    if not isinstance(why, LimitRangeViolated) or not why.container or requested is None:
        return ()
    containers = [_bound(one, why) if one.name == why.container else one for one in requested.containers]
    if _refuse(manifest, structs.replace(requested, containers=tuple(containers)), refused.ranges, snapshot):
        return ()
    (changed,) = (one for one in containers if one.name == why.container)
    written = manifest.find((*at, "resources")) or {}
    sides: dict[str, Mapping[str, Any]] = {}
    for side, amounts in (("requests", dict(changed.requests)), ("limits", dict(changed.limits))):
        if why.resource in amounts:
            amount = format_amount(why.resource, amounts[why.resource])
            sides[side] = {**(written.get(side) or {}), why.resource: amount}
    return set_field(manifest, (*at, "resources"), {**written, **sides})


def _bound(container: ContainerRequests, why: LimitRangeViolated) -> ContainerRequests:
    """Return a container whose request and limit of a resource are within the bound that they violate now."""
    request, limit = dict(container.requests).get(why.resource), dict(container.limits).get(why.resource)
    if why.rule == "max":
        limit = why.bound if limit is None else min(limit, why.bound)
        request = limit if request is None else min(request, limit)
    elif why.rule == "min":
        request = max(request or 0, why.bound)
        limit = max(limit, request) if limit is not None else None
    return structs.replace(
        container,
        requests=_with(container.requests, why.resource, request),
        limits=_with(container.limits, why.resource, limit),
    )


def _with(amounts: Amounts, resource: str, amount: int | None) -> Amounts:
    return make_amounts({**dict(amounts), resource: amount}) if amount is not None else amounts
