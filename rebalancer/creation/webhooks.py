"""Webhooks that must answer when a pod is created or evicted, and cannot: their Service has no ready endpoint.

A webhook's answer is not known. Whether the API server calls it is known if only selectors decide. Webhooks with match
conditions, which are expressions, are left out.

Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook` (generic, predicates).
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from rebalancer.model.creation import PodWebhook
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import NO_LABELS
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot


class WebhookUnreachable(Refusal):
    """A webhook that must answer before a pod is created has no ready endpoint, or its Service does not exist."""

    reason = Reason.CANNOT_CREATE
    ends = "when webhook {self.webhook} answers"
    what: ClassVar = "created"
    configuration: str
    webhook: str
    service: str
    exists: bool

    def __str__(self) -> str:
        lacks = "has no ready endpoint" if self.exists else "does not exist"
        return (
            f"no pod can be {self.what}: webhook {self.webhook} of {self.configuration} must answer, and its Service "
            f"{self.service} {lacks}. Repair the Service, or set failurePolicy: Ignore"
        )


class EvictionWebhookUnreachable(WebhookUnreachable):
    """A webhook that must answer before a pod is evicted has no ready endpoint, or its Service does not exist."""

    reason = Reason.REFUSED_BY_ADMISSION
    what = "evicted"


def find_unreachable(namespace: str, labels: Mapping[str, str], snapshot: Snapshot) -> Iterator[WebhookUnreachable]:
    """Yield the webhooks that the API server would call for a pod with these labels, and that cannot answer.

    Only webhooks whose failure refuses the pod are included.
    """
    for hook in snapshot.demanding_webhooks:
        if not hook.of_evictions and _is_asked(hook, namespace, labels, snapshot):
            yield from _judge(hook, snapshot)


def find_unreachable_of_evictions(namespace: str, snapshot: Snapshot) -> Iterator[EvictionWebhookUnreachable]:
    """Yield the webhooks that the API server would call for evictions in a namespace, and that cannot answer.

    Their object is the Eviction, which has no labels.
    """
    for hook in snapshot.demanding_webhooks:
        if hook.of_evictions and _is_asked(hook, namespace, NO_LABELS, snapshot):
            for found in _judge(hook, snapshot):
                yield EvictionWebhookUnreachable(found.configuration, found.webhook, found.service, found.exists)


def _judge(hook: PodWebhook, snapshot: Snapshot) -> Iterator[WebhookUnreachable]:
    assert hook.service is not None
    place, name = hook.service
    services = snapshot.services_in.get(place, ())
    exists = any(service.name == name for service in services)
    kind = "MutatingWebhookConfiguration" if hook.mutating else "ValidatingWebhookConfiguration"
    # If a namespace has no Service at all, its Services may not have been read: a file may hold one namespace.
    is_read = bool(services) or (bool(snapshot.namespaces) and place not in snapshot.namespace)
    missing = not exists and is_read and "Service" not in snapshot.unknown and snapshot.covers(place)
    # A Service with a selector has at least an empty slice. A Service without a slice may be reachable in another way.
    if missing or snapshot.ready_endpoints.get(hook.service) == 0:
        yield WebhookUnreachable(f"{kind} {hook.configuration}", hook.name, f"{place}/{name}", not missing)


def _is_asked(hook: PodWebhook, namespace: str, labels: Mapping[str, str], snapshot: Snapshot) -> bool:
    if hook.objects is not None and not hook.objects.matches(labels):
        return False
    if hook.namespaces is None or hook.namespaces.empty:
        return True
    known = snapshot.namespace.get(namespace)
    return known is not None and hook.namespaces.matches(known.labels)
