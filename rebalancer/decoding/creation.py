"""Objects that decide about new pods: quotas, limit ranges, service accounts, classes, webhooks, policies, autoscalers.

Sources:

* defaults of absent fields: `pkg/apis/*/v1/defaults.go` of Kubernetes;
* rules of webhooks: `rules.Matcher` of `k8s.io/apiserver`; rules of policies: its `policy/matching`;
* vertical autoscalers: `pkg/utils/vpa/api.go` and `capping.go` of their own project.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from rebalancer.decoding import bounds
from rebalancer.decoding import creation_wire as wire
from rebalancer.decoding.admission_expressions import is_false_of_evictions
from rebalancer.decoding.constraints import decode_tolerations
from rebalancer.decoding.errors import parse_choice
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import decode_labels, decode_selector, find_last_change, find_target_kind
from rebalancer.decoding.resources import list_amounts, list_ratios
from rebalancer.decoding.wire import Quantity
from rebalancer.model.containers import Amounts
from rebalancer.model.creation import (
    ClusterQuota,
    ContainerTarget,
    EndpointSlice,
    EvictionBinding,
    EvictionPolicy,
    LimitRange,
    LimitRangeItem,
    MutatingBinding,
    MutatingPolicy,
    NewPods,
    PodWebhook,
    QuotaScope,
    ResourceQuota,
    RuntimeClass,
    ScalingMode,
    ServiceAccount,
    VerticalAutoscaler,
    WebhookConfiguration,
)
from rebalancer.model.labels import LabelSelector

_POD_LIMITS: Final = frozenset({"Container", "Pod"})
"""The other items of a LimitRange limit claims and images."""

_POD_SCOPES: Final = frozenset({"*", "Namespaced"})
_CONTROLLED: Final = ("cpu", "memory")
_ANY_CONTAINER: Final = "*"


def decode_quota(source: wire.ResourceQuota, _: Interner) -> ResourceQuota:
    """Convert a ResourceQuota to the model's."""
    hard, used = _decode_status(source.spec, source.status, "spec", "status")
    return ResourceQuota(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        hard=hard,
        used=used,
        scopes=_decode_scopes(source.spec),
    )


def decode_cluster_quota(source: wire.ClusterResourceQuota, _: Interner) -> ClusterQuota:
    """Convert a ClusterResourceQuota to the model's; no annotations select nothing by themselves."""
    quota, selector = source.spec.quota, source.spec.selector
    hard, used = _decode_status(quota, source.status.total, "spec.quota", "status.total")
    return ClusterQuota(
        name=source.metadata.name,
        labels=decode_selector(selector.labels, "spec.selector.labels"),
        annotations=decode_labels(selector.annotations) if selector.annotations else None,
        hard=hard,
        used=used,
        scopes=_decode_scopes(quota),
    )


def _decode_status(
    spec: wire.QuotaSpec, status: wire.QuotaStatus, of_spec: str, of_status: str
) -> tuple[Amounts, Amounts]:
    """Return the limits and the use, from the spec while there is no status yet."""
    hard, field = (status.hard, of_status) if status.hard else (spec.hard, of_spec)
    return list_amounts(hard, f"{field}.hard"), list_amounts(status.used, f"{of_status}.used")


def _decode_scopes(spec: wire.QuotaSpec) -> tuple[QuotaScope, ...]:
    selector = spec.scope_selector
    expressions = (selector.match_expressions if selector is not None else None) or ()
    return (
        *(QuotaScope(name) for name in spec.scopes or ()),
        *(
            QuotaScope(expression.scope_name, expression.operator, tuple(sorted(set(expression.values or ()))))
            for expression in expressions
        ),
    )


def decode_limit_range(source: wire.LimitRange, _: Interner) -> LimitRange:
    """Convert a LimitRange to the model's; only its items about containers and pods."""
    return LimitRange(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        items=tuple(
            _decode_limits(item, f"spec.limits[{position}]")
            for position, item in enumerate(source.spec.limits or ())
            if item.type in _POD_LIMITS
        ),
        changed=find_last_change(source.metadata.managed_fields),
    )


def _decode_limits(source: wire.LimitRangeItem, field: str) -> LimitRangeItem:
    """Convert an item, with the defaults that the API server adds for containers."""
    limits, requests = source.default or {}, source.default_request or {}
    if source.type == "Container":
        limits = {**(source.max or {}), **limits}
        requests = {**(source.min or {}), **limits, **requests}
    return LimitRangeItem(
        kind=source.type,
        default_requests=list_amounts(requests, f"{field}.defaultRequest"),
        default_limits=list_amounts(limits, f"{field}.default"),
        least=list_amounts(source.min, f"{field}.min"),
        most=list_amounts(source.max, f"{field}.max"),
        ratio=list_ratios(source.max_limit_request_ratio, f"{field}.maxLimitRequestRatio"),
    )


def decode_service_account(source: wire.ServiceAccount, _: Interner) -> ServiceAccount:
    """Convert a service account to the model's: its name."""
    return ServiceAccount(source.metadata.namespace, source.metadata.name)


def decode_runtime_class(source: wire.RuntimeClass, _: Interner) -> RuntimeClass:
    """Convert a RuntimeClass to the model's."""
    overhead, scheduling = source.overhead or wire.Overhead(), source.scheduling or wire.ClassScheduling()
    return RuntimeClass(
        name=source.metadata.name,
        handler=source.handler,
        overhead=list_amounts(overhead.pod_fixed, "overhead.podFixed"),
        node_selector=decode_labels(scheduling.node_selector),
        tolerations=decode_tolerations(scheduling.tolerations, "scheduling.tolerations"),
    )


def decode_validating(source: wire.WebhookConfiguration, _: Interner) -> WebhookConfiguration:
    """Convert a ValidatingWebhookConfiguration to the model's."""
    return _decode_configuration(source, mutating=False)


def decode_mutating(source: wire.WebhookConfiguration, _: Interner) -> WebhookConfiguration:
    """Convert a MutatingWebhookConfiguration to the model's."""
    return _decode_configuration(source, mutating=True)


def _decode_configuration(source: wire.WebhookConfiguration, *, mutating: bool) -> WebhookConfiguration:
    """Convert a configuration with its webhooks that are called when a pod is created, or evicted.

    `matchPolicy` makes no difference, because no other group or version has pods.
    """
    webhooks = []
    for position, webhook in enumerate(source.webhooks or ()):
        asked = [
            matches for matches in (_matches_new_pods, _matches_evictions) if any(map(matches, webhook.rules or ()))
        ]
        if not asked:
            continue
        field, service = f"webhooks[{position}]", webhook.client_config.service
        row = PodWebhook(
            configuration=source.metadata.name,
            name=webhook.name,
            mutating=mutating,
            must_answer=webhook.failure_policy != "Ignore",
            service=(service.namespace, service.name) if service is not None else None,
            namespaces=decode_selector(webhook.namespace_selector, f"{field}.namespaceSelector") or LabelSelector(),
            objects=decode_selector(webhook.object_selector, f"{field}.objectSelector") or LabelSelector(),
            is_conditional=bool(webhook.match_conditions),
        )
        webhooks += [structs.replace(row, of_evictions=matches is _matches_evictions) for matches in asked]
    return WebhookConfiguration(name=source.metadata.name, mutating=mutating, webhooks=tuple(webhooks))


def decode_validating_policy(source: wire.ValidatingAdmissionPolicy, _: Interner) -> EvictionPolicy:
    """Convert a ValidatingAdmissionPolicy to the model's: which evictions it denies, by any requester."""
    spec = source.spec
    denied = next((one for one in spec.validations or () if is_false_of_evictions(one.expression)), None)
    matched = None
    if denied is not None and spec.match_constraints is not None and not (spec.param_kind or spec.match_conditions):
        matched = _decode_matched(spec.match_constraints, "spec.matchConstraints", _matches_evictions)
    message = (denied.message or f"failed expression: {denied.expression}") if denied is not None else ""
    return EvictionPolicy(
        name=source.metadata.name, evictions=matched, message=bounds.shorten(message, bounds.LONGEST_TEXT)
    )


def decode_validating_binding(source: wire.ValidatingAdmissionPolicyBinding, _: Interner) -> EvictionBinding:
    """Convert a ValidatingAdmissionPolicyBinding to the model's; if it only warns or audits, it denies nothing."""
    spec, matched = source.spec, None
    if "Deny" in (spec.validation_actions or ()):
        resources = spec.match_resources or wire.MatchResources()
        matched = _decode_matched(resources, "spec.matchResources", _matches_evictions)
    return EvictionBinding(name=source.metadata.name, policy=spec.policy_name, evictions=matched)


def decode_mutating_policy(source: wire.MutatingAdmissionPolicy, _: Interner) -> MutatingPolicy:
    """Convert a MutatingAdmissionPolicy to the model's; one without `matchConstraints` matches nothing."""
    constraints = source.spec.match_constraints
    return MutatingPolicy(
        name=source.metadata.name,
        pods=_decode_matched(constraints, "spec.matchConstraints", _matches_new_pods)
        if constraints is not None
        else None,
        changed=find_last_change(source.metadata.managed_fields),
    )


def decode_mutating_binding(source: wire.MutatingAdmissionPolicyBinding, _: Interner) -> MutatingBinding:
    """Convert a MutatingAdmissionPolicyBinding to the model's; one without `matchResources` matches all."""
    return MutatingBinding(
        name=source.metadata.name,
        policy=source.spec.policy_name,
        pods=_decode_matched(
            source.spec.match_resources or wire.MatchResources(), "spec.matchResources", _matches_new_pods
        ),
        changed=find_last_change(source.metadata.managed_fields),
    )


def _decode_matched(source: wire.MatchResources, field: str, matches: Callable[[wire.Rule], bool]) -> NewPods | None:
    """Return which new pods, or evictions, are matched, None if none; without rules every resource is matched.

    `resourceNames` count as a possible match, because the names of most new pods are generated and not known before.
    """
    excluded = any(not rule.resource_names and matches(rule) for rule in source.exclude_resource_rules or ())
    if excluded or (source.resource_rules and not any(map(matches, source.resource_rules))):
        return None
    return NewPods(
        decode_selector(source.namespace_selector, f"{field}.namespaceSelector") or LabelSelector(),
        decode_selector(source.object_selector, f"{field}.objectSelector") or LabelSelector(),
    )


def _matches_new_pods(rule: wire.Rule) -> bool:
    return _matches_creation(rule) and any(map(_is_pods, rule.resources or ()))


def _matches_evictions(rule: wire.Rule) -> bool:
    """Say whether a rule matches requests of the Eviction API, which create a subresource of the pod, of every pod."""
    named = isinstance(rule, wire.NamedRule) and bool(rule.resource_names)
    return not named and _matches_creation(rule) and any(map(_is_eviction, rule.resources or ()))


def _matches_creation(rule: wire.Rule) -> bool:
    return (
        (rule.scope or "*") in _POD_SCOPES
        and _has(rule.operations, "CREATE")
        and _has(rule.api_groups, "")
        and _has(rule.api_versions, "v1")
    )


def _has(items: Sequence[str] | None, wanted: str) -> bool:
    return items is not None and (wanted in items or "*" in items)


def _is_pods(resource: str) -> bool:
    """Say whether a rule's resource includes pods themselves: `pods/*` has the subresource "" too."""
    name, _, subresource = resource.partition("/")
    return name in {"*", "pods"} and subresource in {"*", ""}


def _is_eviction(resource: str) -> bool:
    """Say whether a rule's resource includes evictions; `*` has resources alone, without their subresources."""
    name, slash, subresource = resource.partition("/")
    return bool(slash) and name in {"*", "pods"} and subresource in {"*", "eviction"}


def decode_endpoint_slice(source: wire.EndpointSlice, _: Interner) -> EndpointSlice:
    """Convert an EndpointSlice to the model's; an endpoint without a readiness counts as ready."""
    labels = source.metadata.labels or wire.SliceLabels()
    return EndpointSlice(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        service=labels.service,
        ready=sum(
            endpoint.conditions is None or endpoint.conditions.ready is not False for endpoint in source.endpoints or ()
        ),
    )


def decode_vertical_autoscaler(source: wire.VerticalPodAutoscaler, _: Interner) -> VerticalAutoscaler:
    """Convert a VerticalPodAutoscaler to the model's; containers that it leaves alone have no target."""
    spec, recommendation = source.spec, source.status.recommendation
    policies = (spec.resource_policy.container_policies if spec.resource_policy is not None else None) or ()
    mode = spec.update_policy.update_mode if spec.update_policy is not None else None
    recommended = (recommendation.container_recommendations if recommendation is not None else None) or ()
    targets = []
    for position, container in enumerate(recommended):
        policy = _find_policy(policies, container.container_name)
        if policy.mode == "Off":
            continue
        field = f"status.recommendation.containerRecommendations[{position}].target"
        requests = _bound(container.target, policy, field)
        targets.append(ContainerTarget(container=container.container_name, requests=requests))
    return VerticalAutoscaler(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        target_kind=find_target_kind(spec.target_ref) if spec.target_ref is not None else "",
        target_name=spec.target_ref.name if spec.target_ref is not None else "",
        mode=parse_choice(ScalingMode, mode or ScalingMode.RECREATE, "spec.updatePolicy.updateMode"),
        targets=tuple(targets),
    )


def _find_policy(policies: Iterable[wire.ContainerPolicy], container: str) -> wire.ContainerPolicy:
    by_name = {policy.container_name: policy for policy in policies}
    return by_name.get(container) or by_name.get(_ANY_CONTAINER) or wire.ContainerPolicy()


def _bound(target: Mapping[str, Quantity] | None, policy: wire.ContainerPolicy, field: str) -> Amounts:
    """Return the target requests of a container that the policy controls, within its bounds; a bound of 0 is none."""
    controlled = policy.controlled_resources if policy.controlled_resources is not None else _CONTROLLED
    least = dict(list_amounts(policy.min_allowed, "spec.resourcePolicy.minAllowed"))
    most = dict(list_amounts(policy.max_allowed, "spec.resourcePolicy.maxAllowed"))
    bounded = []
    for name, amount in list_amounts(target, field):
        if name in controlled:
            raised = max(amount, least.get(name, 0))
            bounded.append((name, min(raised, most.get(name) or raised)))
    return tuple(bounded)
