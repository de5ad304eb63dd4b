"""Objects that decide about new pods of a namespace: quotas, limits, classes, webhooks, policies, scalers.

`changed` is when an object was last changed, apart from its status, None if not known: files that kubectl has printed
omit it unless kubectl was told to show managed fields.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from rebalancer.model.affinity import Toleration
from rebalancer.model.containers import Amounts
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector


class QuotaScope(Struct, frozen=True, gc=False):
    """One condition on the pods that a quota counts: `PriorityClass In high`, `BestEffort Exists`."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(Struct, frozen=True, gc=False, kw_only=True):
    """A ResourceQuota; `hard` and `used` are from its status, by which the API server decides."""

    namespace: str
    name: str
    hard: Amounts = ()
    used: Amounts = ()
    scopes: tuple[QuotaScope, ...] = ()


class ClusterQuota(Struct, frozen=True, gc=False, kw_only=True):
    """A ClusterResourceQuota of OpenShift: one quota for all namespaces with these labels and annotations together.

    A selector that is None selects every namespace; an object with neither selects none.
    """

    name: str
    labels: LabelSelector | None = None
    annotations: Labels | None = None
    hard: Amounts = ()
    used: Amounts = ()
    scopes: tuple[QuotaScope, ...] = ()


class LimitRangeItem(Struct, frozen=True, gc=False, kw_only=True):
    """One item of a LimitRange: `kind` is Container or Pod; `ratio` is of limit to request, in thousandths."""

    kind: str
    default_requests: Amounts = ()
    default_limits: Amounts = ()
    least: Amounts = ()
    most: Amounts = ()
    ratio: Amounts = ()


class LimitRange(Struct, frozen=True, gc=False, kw_only=True):
    """A LimitRange: the defaults of containers without requests, and the bounds that no pod may exceed."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...] = ()
    changed: datetime | None = None


class RuntimeClass(Struct, frozen=True, gc=False, kw_only=True):
    """A RuntimeClass: its handler, and the overhead, node selector and tolerations that its pods get."""

    name: str
    handler: str = ""
    overhead: Amounts = ()
    node_selector: Labels = NO_LABELS
    tolerations: tuple[Toleration, ...] = ()


class ServiceAccount(Struct, frozen=True, gc=False):
    """A service account; a pod that names another cannot be created."""

    namespace: str
    name: str


class PodWebhook(Struct, frozen=True, gc=False, kw_only=True):
    """An admission webhook that is called when a pod is created or, with `of_evictions`, evicted: one row for each."""

    configuration: str
    """The name of its ValidatingWebhookConfiguration or MutatingWebhookConfiguration (`mutating`)."""
    name: str
    mutating: bool = False
    must_answer: bool = True
    """Whether failurePolicy is Fail."""
    service: tuple[str, str] | None = None
    """(namespace, name), None for a URL."""
    namespaces: LabelSelector | None = None
    objects: LabelSelector | None = None
    is_conditional: bool = False
    of_evictions: bool = False


class WebhookConfiguration(Struct, frozen=True, gc=False, kw_only=True):
    """A configuration with its webhooks that are called for new pods, or evictions."""

    name: str
    mutating: bool = False
    webhooks: tuple[PodWebhook, ...] = ()


class NewPods(Struct, frozen=True, gc=False):
    """New pods, or evictions, by labels of their namespaces and their own labels; an Eviction has no labels."""

    namespaces: LabelSelector = LabelSelector()
    objects: LabelSelector = LabelSelector()


class EvictionPolicy(Struct, frozen=True, gc=False, kw_only=True):
    """A ValidatingAdmissionPolicy: the evictions that it certainly denies, None: none; `message` is its own.

    Its expressions are evaluated if they compare fields that every eviction has; policies with parameters or conditions
    are not evaluated.
    """

    name: str
    evictions: NewPods | None = None
    message: str = ""


class EvictionBinding(Struct, frozen=True, gc=False, kw_only=True):
    """A ValidatingAdmissionPolicyBinding: the evictions for which its policy is in force and denies, None: none."""

    name: str
    policy: str
    evictions: NewPods | None = None


class MutatingPolicy(Struct, frozen=True, gc=False, kw_only=True):
    """A MutatingAdmissionPolicy: which new pods it may change, None: none. Its match conditions are not read."""

    name: str
    pods: NewPods | None = None
    changed: datetime | None = None


class MutatingBinding(Struct, frozen=True, gc=False, kw_only=True):
    """A MutatingAdmissionPolicyBinding: the new pods of its policy for which the policy is in force."""

    name: str
    policy: str
    pods: NewPods | None = None
    changed: datetime | None = None


class BoundPolicy(NamedTuple):
    """A policy that may change new pods: the pods that both policy and binding match."""

    policy: MutatingPolicy
    binding: MutatingBinding

    def last_change(self) -> datetime | None:
        """Return when one of the two was changed last, None if either time is unknown."""
        changes = (self.policy.changed, self.binding.changed)
        known = [moment for moment in changes if moment is not None]
        return max(known) if len(known) == len(changes) else None


def find_needed_services(configurations: Iterable[WebhookConfiguration]) -> frozenset[tuple[str, str]]:
    """Return (namespace, name) of the Services that pod creation needs: they serve webhooks that must answer."""
    return frozenset(
        webhook.service
        for configuration in configurations
        for webhook in configuration.webhooks
        if webhook.must_answer and webhook.service is not None
    )


class EndpointSlice(Struct, frozen=True, gc=False, kw_only=True):
    """How many ready endpoints of a Service one slice has."""

    namespace: str
    name: str
    service: str
    ready: int = 0


class SecurityViolation(Struct, frozen=True, gc=False):
    """What a level of Pod Security, `baseline` or `restricted`, forbids of a pod, and in which field.

    The rule holds in the versions of the standard from 1.`since` on, and before 1.`until` if that is not 0.
    """

    level: str
    what: str
    since: int = 0
    until: int = 0


class ScalingMode(StrEnum):
    """`updatePolicy.updateMode` of a VerticalPodAutoscaler. All but Off change the requests of new pods."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"


class ContainerTarget(Struct, frozen=True, gc=False, kw_only=True):
    """What a VerticalPodAutoscaler recommends for a container, within its bounds; only what it controls."""

    container: str
    requests: Amounts = ()


class VerticalAutoscaler(Struct, frozen=True, gc=False, kw_only=True):
    """A VerticalPodAutoscaler: the workload that it scales, and what its new pods request."""

    namespace: str
    name: str
    target_kind: str
    target_name: str
    mode: ScalingMode = ScalingMode.AUTO
    targets: tuple[ContainerTarget, ...] = ()
