"""Objects that a pod names and that must exist when it is created: RuntimeClass, PriorityClass, ServiceAccount.

Source: `plugin/pkg/admission/{runtimeclass,priority,serviceaccount}/admission.go`.
"""

from collections.abc import Iterator
from typing import Final

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate

_BUILT_IN: Final = frozenset({"system-cluster-critical", "system-node-critical"})
"""Every API server creates these priority classes again."""


class NamedObjectMissing(Refusal):
    """The template names an object that does not exist, so that the API server refuses its pods."""

    reason = Reason.CANNOT_CREATE
    object_kind: str
    name: str

    def __str__(self) -> str:
        return (
            f"its template names {self.object_kind} {self.name}, which does not exist: its replacement could not be "
            f"created. Create it, or change the template"
        )


def find_missing(template: PodTemplate, namespace: str, snapshot: Snapshot) -> Iterator[NamedObjectMissing]:
    """Yield the objects that a template names and that do not exist, for the kinds that were read.

    A file may have the service accounts of some namespaces only: each namespace has at least the account `default`.
    """
    spec = template.spec
    if spec.runtime_class and "RuntimeClass" in snapshot.known and spec.runtime_class not in snapshot.runtime_class:
        yield NamedObjectMissing("RuntimeClass", spec.runtime_class)
    known = {priority_class.name for priority_class in snapshot.priority_classes} | _BUILT_IN
    if spec.priority_class and "PriorityClass" not in snapshot.unknown and spec.priority_class not in known:
        yield NamedObjectMissing("PriorityClass", spec.priority_class)
    accounts = snapshot.service_account_names.get(namespace)
    if accounts and template.service_account not in accounts:
        yield NamedObjectMissing("ServiceAccount", f"{namespace}/{template.service_account}")
