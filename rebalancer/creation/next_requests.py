"""What the containers of an owner's next pod request.

Two kinds of witnesses: the template with what admission adds today (the namespace's LimitRanges, the RuntimeClass, the
VerticalPodAutoscaler that targets the owner), and the newest pod of the same template, which shows what webhooks do. A
pod whose spec was changed after its creation, by a resize in place, is no witness of what its containers request, but
of which containers are injected.

Where the witnesses disagree, and nothing says which of them is right, the next pod's requests are a range.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests
from rebalancer.model.creation import LimitRange, ScalingMode
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload

AS_CREATED: Final = 1
"""The `metadata.generation` of a pod whose spec is as it was created."""
_AUTOSCALERS_WEBHOOK: Final = "vpa.k8s.io"
"""The webhook of the VerticalPodAutoscaler's admission controller; without it no recommendation reaches a new pod."""


class NextRequests(NamedTuple):
    """The requests of a pod that has still to be made: at most and at least; equal where they are known."""

    most: PodRequests
    least: PodRequests


def find_requests(
    owner: Workload, template: PodTemplate | None, newest_first: Sequence[Pod], snapshot: Snapshot
) -> NextRequests | None:
    """Return what the next pod of an owner requests; the pods are those of its template.

    None where the containers of the template are not known.
    """
    if template is None or template.requested is None:
        return None
    unchanged = next((pod for pod in newest_first if pod.generation <= AS_CREATED and pod.requested), None)
    judge = _Judge(owner, unchanged, snapshot)
    containers = (*template.requested.containers, *_injected(newest_first, template.requested))
    ranges = [judge.range_of(container) for container in containers]
    base = structs.replace(
        template.requested,
        pod_level=unchanged.requested.pod_level if unchanged and unchanged.requested else template.requested.pod_level,
        overhead=_find_overhead(template, unchanged, snapshot),
    )
    most, least = (
        structs.replace(
            base,
            containers=tuple(
                [structs.replace(one, requests=amounts[side]) for one, amounts in zip(containers, ranges, strict=True)]
            ),
        )
        for side in (0, 1)
    )
    return NextRequests(most, least)


def find_targets(owner: Workload, snapshot: Snapshot) -> Mapping[str, Amounts]:
    """Return what a VerticalPodAutoscaler recommends for an owner's containers, by name; empty where it changes none.

    It targets the owner, or the workload above it. Of two that target one workload the first by name acts
    (`vpa/pkg/utils/vpa/api.go`, GetControllingVPAForPod: the older one, and of equally old ones that).
    """
    known = snapshot.vertical_autoscalers_of
    if not known:
        return {}
    top = snapshot.workload.get(owner.owner.uid, owner) if owner.owner is not None else owner
    for workload in (top, owner):
        for scaler in known.get((workload.namespace, workload.kind, workload.name), ()):
            if scaler.mode is not ScalingMode.OFF:
                return {target.container: target.requests for target in scaler.targets}
    return {}


def _is_webhook_registered(snapshot: Snapshot) -> bool | None:
    """Return whether recommendations reach new pods, None where the webhooks were not read."""
    if "MutatingWebhookConfiguration" not in snapshot.known:
        return None
    hooks = (hook for configuration in snapshot.webhooks if configuration.mutating for hook in configuration.webhooks)
    return any(hook.name == _AUTOSCALERS_WEBHOOK for hook in hooks)


def _injected(newest_first: Sequence[Pod], written: PodRequests) -> Sequence[ContainerRequests]:
    """Return the containers of the newest pod that its template does not have: what webhooks add."""
    requested = next((pod.requested for pod in newest_first if pod.requested is not None), None)
    names = {container.name for container in written.containers}
    return [] if requested is None else [one for one in requested.containers if one.name not in names]


def _find_overhead(template: PodTemplate, unchanged: Pod | None, snapshot: Snapshot) -> Amounts:
    """Return the overhead that the pod's RuntimeClass has today, or else that of the newest pod."""
    known = snapshot.runtime_class.get(template.spec.runtime_class)
    if known is not None:
        return known.overhead
    if unchanged is not None and unchanged.requested is not None:
        return unchanged.requested.overhead
    return ()


class _Judge:
    """Judges by the witnesses what each container requests."""

    def __init__(self, owner: Workload, unchanged: Pod | None, snapshot: Snapshot) -> None:
        self._unchanged = unchanged
        shown = unchanged.requested if unchanged is not None else None
        self._shown = {one.name: one.requests for one in shown.containers} if shown is not None else {}
        self._ranges = snapshot.limit_ranges_in.get(owner.namespace, ())
        registered = _is_webhook_registered(snapshot)
        self._targets = find_targets(owner, snapshot) if registered is not False else {}
        self._is_sure_of_targets = bool(registered)

    def range_of(self, container: ContainerRequests) -> tuple[Amounts, Amounts]:
        """Return the largest and the smallest requests of a container, as it is written."""
        written, target = dict(container.requests), dict(self._targets.get(container.name, ()))
        today = {**_default_requests(self._ranges), **written}
        shown = self._shown.get(container.name)
        most, least = {}, {}
        for name in sorted({*today, *target, *dict(shown or ())}):
            amounts = {today.get(name)} if name not in target or not self._is_sure_of_targets else set()
            if name in target:
                amounts.add(target[name])
            if shown is not None:
                amounts = self._weigh(name, amounts, dict(shown).get(name), written, target)
            known = [amount for amount in amounts if amount is not None]
            if known:
                most[name] = max(known)
            if known and len(known) == len(amounts):
                least[name] = min(known)
        return tuple(most.items()), tuple(least.items())

    def _weigh(
        self,
        name: str,
        today: set[int | None],
        shown: int | None,
        written: Mapping[str, int],
        target: Mapping[str, int],
    ) -> set[int | None]:
        """Return which amounts of a resource are possible, of those of today and the one that the newest pod shows."""
        assert self._unchanged is not None
        if today == {shown} or name in target:
            return today | {shown}
        if name in written:
            # A webhook has changed it, or, where the API server does not count versions, somebody who resized the pod.
            return {shown} if self._unchanged.generation == AS_CREATED else today | {shown}
        if today == {None}:
            return {shown}  # only a webhook can have added it
        changed = _last_change(self._ranges)
        if changed is None:
            return today | {shown}
        return today if changed > self._unchanged.created else {shown}


def _default_requests(ranges: Sequence[LimitRange]) -> dict[str, int]:
    """Return what the LimitRanges of a namespace let containers request that say nothing; the first one decides."""
    defaults: dict[str, int] = {}
    for limits in ranges:
        for item in limits.items:
            for name, amount in item.default_requests if item.kind == "Container" else ():
                defaults.setdefault(name, amount)
    return defaults


def _last_change(ranges: Sequence[LimitRange]) -> datetime | None:
    """Return when one of the LimitRanges was changed last, None if that of one is not known."""
    changes = [limits.changed for limits in ranges]
    known = [moment for moment in changes if moment is not None]
    return max(known) if known and len(known) == len(changes) else None
