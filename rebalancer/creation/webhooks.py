"""Webhooks that must answer when a pod is created, and cannot: their Service has no ready endpoint.

What a webhook would answer is not known. Whether it is asked is, where nothing but selectors decides: match conditions
are expressions, and of webhooks with one nothing is said.

Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook` (generic, predicates).
"""

from collections.abc import Iterator, Mapping

from rebalancer.model.creation import PodWebhook
from rebalancer.model.facts import End, Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot


class WebhookUnreachable(Refusal):
    """A webhook that must answer before a pod is created has no ready endpoint, or its Service does not exist."""

    reason = Reason.CANNOT_CREATE
    configuration: str
    webhook: str
    service: str
    exists: bool

    def _end(self) -> End:
        return End(event=f"when webhook {self.webhook} answers")

    def __str__(self) -> str:
        what = "has no ready endpoint" if self.exists else "does not exist"
        return (
            f"no pod can be created: webhook {self.webhook} of {self.configuration} must answer, and its Service "
            f"{self.service} {what}. Repair the Service, or set failurePolicy: Ignore"
        )


def find_unreachable(namespace: str, labels: Mapping[str, str], snapshot: Snapshot) -> Iterator[WebhookUnreachable]:
    """Yield the webhooks that would be asked about a pod with these labels, must answer, and cannot."""
    for hook in snapshot.demanding_webhooks:
        assert hook.service is not None
        if not _is_asked(hook, namespace, labels, snapshot):
            continue
        place, name = hook.service
        services = snapshot.services_in.get(place, ())
        exists = any(service.name == name for service in services)
        kind = "MutatingWebhookConfiguration" if hook.mutating else "ValidatingWebhookConfiguration"
        # Of a namespace without any Service it is not known whether they were read: a file may be of one namespace.
        is_read = bool(services) or (bool(snapshot.namespaces) and place not in snapshot.namespace)
        missing = not exists and is_read and "Service" not in snapshot.unknown and snapshot.covers(place)
        # A Service with a selector has an empty slice at least; without any, the API server may reach it otherwise.
        if missing or snapshot.ready_endpoints.get(hook.service) == 0:
            yield WebhookUnreachable(f"{kind} {hook.configuration}", hook.name, f"{place}/{name}", not missing)


def _is_asked(hook: PodWebhook, namespace: str, labels: Mapping[str, str], snapshot: Snapshot) -> bool:
    if hook.objects is not None and not hook.objects.matches(labels):
        return False
    if hook.namespaces is None or hook.namespaces.empty:
        return True
    known = snapshot.namespace.get(namespace)
    return known is not None and hook.namespaces.matches(known.labels)
