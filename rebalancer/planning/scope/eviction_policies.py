"""Validating admission policies that deny every eviction in a namespace, as their expressions alone show."""

from rebalancer.model.creation import NewPods
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import NO_LABELS
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot


class EvictionsDenied(Refusal):
    """A ValidatingAdmissionPolicy denies every eviction in a namespace; `message` is its own."""

    reason = Reason.REFUSED_BY_ADMISSION
    ends = "when policy {self.policy} or its binding {self.binding} no longer denies it"
    namespace: str
    policy: str
    binding: str
    message: str

    def __str__(self) -> str:
        return (
            f"ValidatingAdmissionPolicy {self.policy} (binding {self.binding}) denies every eviction in namespace "
            f"{self.namespace}: {self.message}"
        )


def refuse_denied(namespace: str, snapshot: Snapshot) -> EvictionsDenied | None:
    """Return which policy denies every eviction in a namespace, None if no policy certainly does."""
    for policy, binding in snapshot.denying_policies:
        if _matches(policy.evictions, namespace, snapshot) and _matches(binding.evictions, namespace, snapshot):
            return EvictionsDenied(namespace, policy.name, binding.name, policy.message)
    return None


def _matches(evictions: NewPods | None, namespace: str, snapshot: Snapshot) -> bool:
    if evictions is None or not evictions.objects.matches(NO_LABELS):
        return False
    known = snapshot.namespace.get(namespace)
    return evictions.namespaces.empty or (known is not None and evictions.namespaces.matches(known.labels))
