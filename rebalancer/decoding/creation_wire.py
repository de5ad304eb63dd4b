"""The fields that are read of objects that decide about new pods; see `wire` for the form.

Their metadata has only fields that are read. Labels and annotations of such objects are private, and so are the
certificates, addresses and credentials that they contain.
"""

from msgspec import field

from rebalancer.decoding.wire import BareMetadata, LabelSelector, ManagedFields, Present, Quantity, ScaleTarget, Wire
from rebalancer.model.affinity import Toleration


class DatedMetadata(BareMetadata, frozen=True):
    managed_fields: list[ManagedFields] | None = None


class ScopeExpression(Wire, frozen=True):
    scope_name: str
    operator: str
    values: list[str] | None = None


class ScopeSelector(Wire, frozen=True):
    match_expressions: list[ScopeExpression] | None = None


class QuotaSpec(Wire, frozen=True):
    hard: dict[str, Quantity] | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaStatus(Wire, frozen=True):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class ResourceQuota(Wire, frozen=True):
    metadata: BareMetadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class ClusterQuotaSelector(Wire, frozen=True):
    labels: LabelSelector | None = None
    annotations: dict[str, str] | None = None


class ClusterQuotaSpec(Wire, frozen=True):
    selector: ClusterQuotaSelector = ClusterQuotaSelector()
    quota: QuotaSpec = QuotaSpec()


class ClusterQuotaStatus(Wire, frozen=True):
    total: QuotaStatus = QuotaStatus()


class ClusterResourceQuota(Wire, frozen=True):
    metadata: BareMetadata
    spec: ClusterQuotaSpec = ClusterQuotaSpec()
    status: ClusterQuotaStatus = ClusterQuotaStatus()


class LimitRangeItem(Wire, frozen=True):
    type: str
    default: dict[str, Quantity] | None = None
    default_request: dict[str, Quantity] | None = None
    min: dict[str, Quantity] | None = None
    max: dict[str, Quantity] | None = None
    max_limit_request_ratio: dict[str, Quantity] | None = None


class LimitRangeSpec(Wire, frozen=True):
    limits: list[LimitRangeItem] | None = None


class LimitRange(Wire, frozen=True):
    metadata: DatedMetadata
    spec: LimitRangeSpec = LimitRangeSpec()


class ServiceAccount(Wire, frozen=True):
    metadata: BareMetadata


class Overhead(Wire, frozen=True):
    pod_fixed: dict[str, Quantity] | None = None


class ClassScheduling(Wire, frozen=True):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Wire, frozen=True):
    metadata: BareMetadata
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: ClassScheduling | None = None


class ServiceReference(Wire, frozen=True):
    namespace: str
    name: str


class ClientConfig(Wire, frozen=True):
    """How a webhook is reached; without a service by its URL, which may contain a credential."""

    service: ServiceReference | None = None


class Rule(Wire, frozen=True):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class Webhook(Wire, frozen=True):
    name: str
    client_config: ClientConfig = ClientConfig()
    rules: list[Rule] | None = None
    failure_policy: str | None = None
    match_conditions: list[Present] | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class WebhookConfiguration(Wire, frozen=True):
    """A ValidatingWebhookConfiguration or a MutatingWebhookConfiguration."""

    metadata: BareMetadata
    webhooks: list[Webhook] | None = None


class NamedRule(Rule, frozen=True):
    resource_names: list[str] | None = None


class MatchResources(Wire, frozen=True):
    resource_rules: list[NamedRule] | None = None
    exclude_resource_rules: list[NamedRule] | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class Validation(Wire, frozen=True):
    expression: str = ""
    message: str = ""


class ValidatingPolicySpec(Wire, frozen=True):
    param_kind: Present | None = None
    match_constraints: MatchResources | None = None
    match_conditions: list[Present] | None = None
    validations: list[Validation] | None = None


class ValidatingAdmissionPolicy(Wire, frozen=True):
    metadata: BareMetadata
    spec: ValidatingPolicySpec = ValidatingPolicySpec()


class ValidatingBindingSpec(Wire, frozen=True):
    policy_name: str = ""
    match_resources: MatchResources | None = None
    validation_actions: list[str] | None = None


class ValidatingAdmissionPolicyBinding(Wire, frozen=True):
    metadata: BareMetadata
    spec: ValidatingBindingSpec = ValidatingBindingSpec()


class MutatingPolicySpec(Wire, frozen=True):
    """The spec without its expressions, because pods show their effect."""

    match_constraints: MatchResources | None = None


class MutatingAdmissionPolicy(Wire, frozen=True):
    metadata: DatedMetadata
    spec: MutatingPolicySpec = MutatingPolicySpec()


class MutatingBindingSpec(Wire, frozen=True):
    policy_name: str = ""
    match_resources: MatchResources | None = None


class MutatingAdmissionPolicyBinding(Wire, frozen=True):
    metadata: DatedMetadata
    spec: MutatingBindingSpec = MutatingBindingSpec()


class SliceLabels(Wire, frozen=True):
    service: str = field(default="", name="kubernetes.io/service-name")


class SliceMetadata(BareMetadata, frozen=True):
    labels: SliceLabels | None = None


class EndpointConditions(Wire, frozen=True):
    ready: bool | None = None


class Endpoint(Wire, frozen=True):
    conditions: EndpointConditions | None = None


class EndpointSlice(Wire, frozen=True):
    metadata: SliceMetadata
    endpoints: list[Endpoint] | None = None


class UpdatePolicy(Wire, frozen=True):
    update_mode: str | None = None


class ContainerPolicy(Wire, frozen=True):
    container_name: str = ""
    mode: str | None = None
    min_allowed: dict[str, Quantity] | None = None
    max_allowed: dict[str, Quantity] | None = None
    controlled_resources: list[str] | None = None


class ResourcePolicy(Wire, frozen=True):
    container_policies: list[ContainerPolicy] | None = None


class VerticalAutoscalerSpec(Wire, frozen=True):
    target_ref: ScaleTarget | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None


class ContainerRecommendation(Wire, frozen=True):
    container_name: str
    target: dict[str, Quantity] | None = None


class Recommendation(Wire, frozen=True):
    container_recommendations: list[ContainerRecommendation] | None = None


class VerticalAutoscalerStatus(Wire, frozen=True):
    recommendation: Recommendation | None = None


class VerticalPodAutoscaler(Wire, frozen=True):
    metadata: BareMetadata
    spec: VerticalAutoscalerSpec = VerticalAutoscalerSpec()
    status: VerticalAutoscalerStatus = VerticalAutoscalerStatus()
