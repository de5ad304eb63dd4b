"""What the containers of an owner's next pod request.

There are two kinds of witnesses. The first is the template with what admission adds today: the namespace's LimitRanges,
the RuntimeClass, the VerticalPodAutoscaler that targets the owner. The second is the newest pod of the same template,
which shows what webhooks do. A pod whose spec was changed after its creation, by a resize in place, shows which
containers are injected, but not what its containers request.

If the witnesses disagree, and nothing shows which is right, the next pod's requests are a range.
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
    """The requests of a pod that does not exist yet: at most and at least, which are equal if known."""

    most: PodRequests
    least: PodRequests


def find_requests(
    owner: Workload, template: PodTemplate | None, newest_first: Sequence[Pod], snapshot: Snapshot
) -> NextRequests | None:
    """Return what the next pod of an owner requests; the pods are those of its template.

    None if the containers of the template are not known.
    """
    if template is None or template.requested is None:
        return None
    unchanged = next((pod for pod in newest_first if pod.generation <= AS_CREATED and pod.requested), None)
    judge = _Judge(owner, unchanged, snapshot)
    shown = next((pod.requested for pod in newest_first if pod.requested is not None), None)
    made = [judge.judge(container) for container in _in_order(template.requested, shown)]
    base = structs.replace(
        template.requested,
        pod_level=unchanged.requested.pod_level if unchanged and unchanged.requested else template.requested.pod_level,
        overhead=_find_overhead(template, unchanged, snapshot),
    )
    most, least = (structs.replace(base, containers=tuple([sizes[side] for sizes in made])) for side in (0, 1))
    return NextRequests(most, least)


def find_targets(owner: Workload, snapshot: Snapshot) -> Mapping[str, Amounts]:
    """Return what a VerticalPodAutoscaler recommends for an owner's containers, by name; empty if it changes none.

    It targets the owner, or the workload above it. If two target one workload, the first by name is taken. If the
    webhooks were not read, a recommendation may or may not reach new pods.
    """
    known = snapshot.vertical_autoscalers_of
    if not known or _is_webhook_registered(snapshot) is False:
        return {}
    top = snapshot.top_of(owner)
    for workload in (top, owner):
        for scaler in known.get((workload.namespace, workload.kind, workload.name), ()):
            if scaler.mode is not ScalingMode.OFF:
                return {target.container: target.requests for target in scaler.targets}
    return {}


def _is_webhook_registered(snapshot: Snapshot) -> bool | None:
    """Return whether recommendations reach new pods, None where the webhooks were not read."""
    if "MutatingWebhookConfiguration" not in snapshot.known:
        return None
    configurations = (configuration for configuration in snapshot.webhooks if configuration.mutating)
    hooks = (hook for configuration in configurations for hook in configuration.webhooks if not hook.of_evictions)
    return any(hook.name == _AUTOSCALERS_WEBHOOK for hook in hooks)


def _in_order(written: PodRequests, shown: PodRequests | None) -> Sequence[ContainerRequests]:
    """Return the containers of a template, and the containers that webhooks add, which the newest pod has.

    They are in the pod's order: what an init container needs depends on the sidecars before it.
    """
    if shown is None:
        return written.containers
    of_template = {container.name: container for container in written.containers}
    names = {container.name for container in shown.containers}
    absent = [container for container in written.containers if container.name not in names]
    return [*(of_template.get(container.name, container) for container in shown.containers), *absent]


def _find_overhead(template: PodTemplate, unchanged: Pod | None, snapshot: Snapshot) -> Amounts:
    """Return the overhead that the pod's RuntimeClass has today, otherwise that of the newest pod."""
    known = snapshot.runtime_class.get(template.spec.runtime_class)
    if known is not None:
        return known.overhead
    if unchanged is not None and unchanged.requested is not None:
        return unchanged.requested.overhead
    return ()


class _Judge:
    """Decides from the witnesses each container's requests and limits."""

    def __init__(self, owner: Workload, unchanged: Pod | None, snapshot: Snapshot) -> None:
        self._unchanged = unchanged
        shown = unchanged.requested if unchanged is not None else None
        self._shown = {one.name: one for one in shown.containers} if shown is not None else {}
        self._ranges = snapshot.limit_ranges_in.get(owner.namespace, ())
        self._targets = find_targets(owner, snapshot)
        self._is_sure_of_targets = bool(self._targets) and bool(_is_webhook_registered(snapshot))

    def judge(self, container: ContainerRequests) -> tuple[ContainerRequests, ContainerRequests]:
        """Return a container as written, with the most, and with the least requests that it may have.

        Unknown limits are taken from the newest pod. A VerticalPodAutoscaler changes limits along with requests, so do
        not use the limits of its containers.
        """
        shown = self._shown.get(container.name)
        requests = self._weigh_all(
            dict(container.requests),
            _defaults(self._ranges, "default_requests"),
            dict(shown.requests) if shown is not None else None,
            dict(self._targets.get(container.name, ())),
        )
        limits = self._weigh_all(
            dict(container.limits),
            _defaults(self._ranges, "default_limits"),
            dict(shown.limits) if shown is not None else None,
            {},
        )
        of_pod = dict(shown.limits) if shown is not None else {}
        chosen = {name: next(iter(one)) if len(one) == 1 else of_pod.get(name) for name, one in limits.items()}
        limited = structs.replace(container, limits=_known(chosen))
        most, least = (
            structs.replace(limited, requests=_known({name: pick(amounts) for name, amounts in requests.items()}))
            for pick in (_most, _least)
        )
        return most, least

    def _weigh_all(
        self,
        written: Mapping[str, int],
        defaults: Mapping[str, int],
        shown: Mapping[str, int] | None,
        target: Mapping[str, int],
    ) -> dict[str, set[int | None]]:
        """Return the possible amounts of each resource; None among them: the container may say nothing."""
        today = {**defaults, **written}
        possible = {}
        for name in sorted({*today, *target, *(shown or ())}):
            amounts = {today.get(name)} if name not in target or not self._is_sure_of_targets else set()
            if name in target:
                amounts.add(target[name])
            if shown is not None:
                amounts = self._weigh(amounts, shown.get(name), is_written=name in written, is_target=name in target)
            possible[name] = amounts
        return possible

    def _weigh(
        self, today: set[int | None], shown: int | None, *, is_written: bool, is_target: bool
    ) -> set[int | None]:
        """Return which amounts of a resource are possible, from today's and the newest pod's."""
        assert self._unchanged is not None
        if today == {shown} or is_target:
            return today | {shown}
        if is_written:
            # A webhook has changed the amount or, if the API server does not count versions, somebody has resized the
            # pod.
            return {shown} if self._unchanged.generation == AS_CREATED else today | {shown}
        if today == {None}:
            return {shown}  # only a webhook can have added it
        if shown is None:
            return today  # the default is newer than the pod
        changed = find_last_change(self._ranges)
        if changed is None:
            return today | {shown}
        return today if changed > self._unchanged.created else {shown}


def _known(amounts: Mapping[str, int | None]) -> Amounts:
    return tuple([(name, amount) for name, amount in amounts.items() if amount is not None])


def _least(amounts: set[int | None]) -> int | None:
    """Return the smallest amount, None if any is None."""
    known = [amount for amount in amounts if amount is not None]
    return min(known) if len(known) == len(amounts) else None


def _most(amounts: set[int | None]) -> int | None:
    return max((amount for amount in amounts if amount is not None), default=None)


def _defaults(ranges: Sequence[LimitRange], field: str) -> dict[str, int]:
    """Return what the LimitRanges of a namespace give containers that say nothing; the first LimitRange decides."""
    defaults: dict[str, int] = {}
    for limits in ranges:
        for item in limits.items:
            for name, amount in getattr(item, field) if item.kind == "Container" else ():
                defaults.setdefault(name, amount)
    return defaults


def find_last_change(ranges: Sequence[LimitRange]) -> datetime | None:
    """Return when the last of the LimitRanges was changed, None if any of these times is unknown."""
    changes = [limits.changed for limits in ranges]
    known = [moment for moment in changes if moment is not None]
    return max(known) if known and len(known) == len(changes) else None
