"""What decides about new pods, as the API server sends it and as a dump has it."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED, OPTIONAL_KINDS
from rebalancer.decoding.lists import FileContents, decode, decode_file, make_snapshot, reduce_file
from rebalancer.decoding.reduction import reduce_object, reduced_list
from rebalancer.model.affinity import Toleration
from rebalancer.model.creation import (
    ClusterQuota,
    ContainerTarget,
    EndpointSlice,
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
)
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.snapshot import OPTIONAL, Fault

NAMED = {kind.name: kind for kind in OPTIONAL_KINDS} | KIND_NAMED
GI = 2**30
ALL = LabelSelector()


def made(kind: str, **fields: Any) -> Any:
    """Return what an object is decoded to; the dump of it must be decoded to the same."""
    metadata = {"name": "x", **fields.pop("metadata", {})}
    if NAMED[kind].namespaced:
        metadata = {"namespace": "shop", **metadata}
    data = json.dumps({"metadata": metadata, **fields}).encode()
    decoded = decode(NAMED[kind], data, Interner())
    if not isinstance(decoded, Fault):
        reduced = reduce_object(NAMED[kind], msgspec.Raw(data))
        assert decode(NAMED[kind], reduced, Interner()) == decoded, reduced
    return decoded


def test_the_model_names_the_kinds_that_are_optional() -> None:
    assert {kind.name for kind in OPTIONAL_KINDS} == OPTIONAL


@pytest.mark.parametrize(
    ("spec", "status", "hard", "used"),
    [
        (
            {"hard": {"requests.cpu": "5"}},
            {"hard": {"requests.cpu": "2", "pods": "3"}, "used": {"requests.cpu": "1500m", "pods": "1"}},
            (("pods", 3), ("requests.cpu", 2000)),
            (("pods", 1), ("requests.cpu", 1500)),
        ),
        ({"hard": {"limits.memory": "1Gi", "limits.cpu": "1"}}, {}, (("limits.cpu", 1000), ("limits.memory", GI)), ()),
        ({"hard": {"cpu": 1}}, {"hard": None, "used": None}, (("cpu", 1000),), ()),
        ({"hard": {"requests.example.com/cpu": "2"}}, {}, (("requests.example.com/cpu", 2),), ()),
        ({}, {}, (), ()),
    ],
)
def test_a_quota_is_judged_by_its_status_and_before_there_is_one_by_its_spec(
    spec: dict[str, Any], status: dict[str, Any], hard: tuple[Any, ...], used: tuple[Any, ...]
) -> None:
    """CPU is in thousandths under each of its names, a resource of somebody else's name is not CPU."""
    assert made("ResourceQuota", spec=spec, status=status) == ResourceQuota(
        namespace="shop", name="x", hard=hard, used=used
    )


@pytest.mark.parametrize(
    ("spec", "scopes"),
    [
        ({"scopes": ["BestEffort"]}, (QuotaScope("BestEffort", "Exists"),)),
        (
            {
                "scopes": ["NotTerminating"],
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["low", "high", "low"]},
                        {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"},
                    ]
                },
            },
            (
                QuotaScope("NotTerminating"),
                QuotaScope("PriorityClass", "In", ("high", "low")),
                QuotaScope("CrossNamespacePodAffinity", "Exists"),
            ),
        ),
        ({"scopes": None, "scopeSelector": {"matchExpressions": None}}, ()),
    ],
)
def test_scopes_and_scope_selectors_are_one_list(spec: dict[str, Any], scopes: tuple[QuotaScope, ...]) -> None:
    assert made("ResourceQuota", spec=spec).scopes == scopes
    assert made("ClusterResourceQuota", spec={"quota": spec}).scopes == scopes


@pytest.mark.parametrize(
    ("selector", "labels", "annotations"),
    [
        ({"labels": {"matchLabels": {"team": "red"}}}, LabelSelector.of({"team": "red"}), None),
        ({"labels": None, "annotations": {"owner": "ann"}}, None, Labels({"owner": "ann"})),
        ({"labels": {}, "annotations": {}}, ALL, None),
        ({"labels": None, "annotations": None}, None, None),
    ],
)
def test_a_cluster_quota_has_the_sum_over_its_namespaces(
    selector: dict[str, Any], labels: LabelSelector | None, annotations: Labels | None
) -> None:
    quota = made(
        "ClusterResourceQuota",
        spec={"selector": selector, "quota": {"hard": {"pods": "9"}}},
        status={
            "total": {"hard": {"pods": "5"}, "used": {"pods": "4"}},
            "namespaces": [{"namespace": "shop", "status": {"used": {"pods": "1"}}}],
        },
    )
    assert quota == ClusterQuota(
        name="x", labels=labels, annotations=annotations, hard=(("pods", 5),), used=(("pods", 4),)
    )


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {"max": {"cpu": "2"}},
            LimitRangeItem(
                kind="Container",
                default_requests=(("cpu", 2000),),
                default_limits=(("cpu", 2000),),
                most=(("cpu", 2000),),
            ),
        ),
        (
            {"min": {"memory": "1Gi"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "250m"}},
            LimitRangeItem(
                kind="Container",
                default_requests=(("cpu", 250), ("memory", GI)),
                default_limits=(("cpu", 1000),),
                least=(("memory", GI),),
            ),
        ),
        (
            {"type": "Pod", "max": {"cpu": "2", "memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "1.5", "cpu": 2}},
            LimitRangeItem(kind="Pod", most=(("cpu", 2000), ("memory", GI)), ratio=(("cpu", 2000), ("memory", 1500))),
        ),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}, None),
    ],
)
def test_a_limit_range_has_the_defaults_of_the_api_server(
    item: dict[str, Any], expected: LimitRangeItem | None
) -> None:
    """A container's limit is at most the maximum where nothing else is said, and its request the limit."""
    decoded = made("LimitRange", spec={"limits": [{"type": "Container", **item}]})
    assert decoded == LimitRange(namespace="shop", name="x", items=(expected,) if expected is not None else ())


def test_a_service_account_is_its_name() -> None:
    account = made("ServiceAccount", secrets=[{"name": "token"}], imagePullSecrets=[{"name": "registry"}])
    assert account == ServiceAccount("shop", "x")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"handler": "runc"}, RuntimeClass(name="x", handler="runc")),
        (
            {
                "overhead": {"podFixed": {"memory": "1Gi", "cpu": "250m"}},
                "scheduling": {
                    "nodeSelector": {"sandbox": "yes"},
                    "tolerations": [{"key": "sandbox", "operator": "Exists"}, {"key": "a", "value": "b"}],
                },
            },
            RuntimeClass(
                name="x",
                overhead=(("cpu", 250), ("memory", GI)),
                node_selector=Labels({"sandbox": "yes"}),
                tolerations=(Toleration(key="sandbox", operator="Exists"), Toleration(key="a", value="b")),
            ),
        ),
        ({"overhead": None, "scheduling": {"nodeSelector": None, "tolerations": None}}, RuntimeClass(name="x")),
    ],
)
def test_a_runtime_class(fields: dict[str, Any], expected: RuntimeClass) -> None:
    assert made("RuntimeClass", **fields) == expected


RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rules", "matches"),
    [
        ([{}], True),
        ([{"operations": ["UPDATE", "*"]}], True),
        ([{"operations": ["UPDATE", "DELETE"]}], False),
        ([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}], True),
        ([{"apiGroups": ["apps"]}], False),
        ([{"apiVersions": ["v1beta1"]}], False),
        ([{"resources": ["*/*"]}], True),
        ([{"resources": ["pods/*"]}], True),
        ([{"resources": ["pods/"]}], True),
        ([{"resources": ["pods/ephemeralcontainers", "*/eviction", "deployments"]}], False),
        ([{"resources": ["*/scale"]}], False),
        ([{"scope": "Namespaced"}], True),
        ([{"scope": "*"}], True),
        ([{"scope": "Cluster"}], False),
        ([{"operations": ["UPDATE"]}, {}], True),
        ([{"operations": None}], False),
        ([], False),
    ],
)
def test_a_webhook_is_called_for_new_pods_as_the_api_server_matches_rules(
    rules: list[dict[str, Any]], matches: bool
) -> None:
    """One rule must match in all its fields; the subresource `*` includes the resource itself."""
    webhook = {"name": "w", "clientConfig": {"url": "https://x"}, "rules": [{**RULE, **rule} for rule in rules]}
    other = {**webhook, "name": "other", "rules": None}
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        decoded = made(kind, webhooks=[other, webhook])
        assert [one.name for one in decoded.webhooks if not one.of_evictions] == ["w"] * matches
        assert decoded.mutating is (kind == "MutatingWebhookConfiguration")


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"resources": ["pods/eviction"]}, True),
        ({"resources": ["pods", "*/eviction"]}, True),
        ({"resources": ["pods/*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["*"]}, False),
        ({"resources": ["pods", "pods/", "deployments/eviction"]}, False),
        ({"resources": ["pods/eviction"], "operations": ["DELETE"]}, False),
        ({"resources": ["pods/eviction"], "apiGroups": ["policy"]}, False),
        ({"resources": ["pods/eviction"], "scope": "Cluster"}, False),
    ],
)
def test_a_webhook_is_called_for_evictions_as_the_api_server_matches_rules(rule: dict[str, Any], matches: bool) -> None:
    """An eviction creates a subresource of a pod; `*` has no subresources."""
    webhook = {"name": "w", "clientConfig": {"url": "https://x"}, "rules": [{**RULE, **rule}]}
    decoded = made("ValidatingWebhookConfiguration", webhooks=[webhook])
    assert [one.name for one in decoded.webhooks if one.of_evictions] == ["w"] * matches


@pytest.mark.parametrize(
    ("resources", "matches"),
    [
        ({}, True),
        ({"resourceRules": [RULE]}, True),
        ({"resourceRules": [{**RULE, "resourceNames": ["web-0"]}]}, True),
        ({"resourceRules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"resourceRules": [{**RULE, "resources": ["deployments"]}, RULE]}, True),
        ({"excludeResourceRules": [RULE]}, False),
        ({"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resources": ["pods/status"]}]}, True),
        ({"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["web-0"]}]}, True),
        ({"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resources": ["*"]}]}, False),
    ],
)
def test_a_mutating_policy_is_for_new_pods_as_the_api_server_matches_rules(
    resources: dict[str, Any], matches: bool
) -> None:
    """Of a policy and of a binding alike; without rules all is matched, and names may match a generated name."""
    policy = made("MutatingAdmissionPolicy", spec={"matchConstraints": resources})
    binding = made("MutatingAdmissionPolicyBinding", spec={"policyName": "p", "matchResources": resources})
    assert (policy.pods, binding.pods) == ((NewPods(), NewPods()) if matches else (None, None))


def test_a_mutating_policy_has_its_selectors_and_the_time_of_its_last_change() -> None:
    """A binding without `matchResources` is for all that its policy matches, a policy without constraints for none."""
    selectors = {
        "namespaceSelector": {"matchLabels": {"team": "red"}},
        "objectSelector": {"matchLabels": {"app": "web"}},
        "matchPolicy": "Exact",
    }
    dated = {"metadata": {"managedFields": [{"time": NOON}]}}
    pods = NewPods(LabelSelector.of({"team": "red"}), LabelSelector.of({"app": "web"}))
    changed = datetime.fromisoformat(NOON)
    conditions = [{"name": "a", "expression": "true"}]
    made_policy = made(
        "MutatingAdmissionPolicy", spec={"matchConstraints": selectors, "matchConditions": conditions}, **dated
    )
    assert made_policy == MutatingPolicy(name="x", pods=pods, changed=changed)
    made_binding = made(
        "MutatingAdmissionPolicyBinding",
        spec={"policyName": "p", "matchResources": selectors, "paramRef": {"name": "own"}},
        **dated,
    )
    assert made_binding == MutatingBinding(name="x", policy="p", pods=pods, changed=changed)
    assert made("MutatingAdmissionPolicy", spec={}) == MutatingPolicy(name="x")
    unlimited = made("MutatingAdmissionPolicyBinding", spec={"policyName": "p"})
    assert unlimited == MutatingBinding(name="x", policy="p", pods=NewPods())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, PodWebhook(configuration="x", name="w", namespaces=ALL, objects=ALL)),
        (
            {
                "clientConfig": {"service": {"namespace": "sys", "name": "gate", "port": 8443}, "caBundle": "Q0E="},
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": "a", "expression": "object.spec.x"}, {"name": "b", "expression": "true"}],
                "namespaceSelector": {"matchLabels": {"team": "red"}},
                "objectSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            },
            PodWebhook(
                configuration="x",
                name="w",
                must_answer=False,
                service=("sys", "gate"),
                is_conditional=True,
                namespaces=LabelSelector.of({"team": "red"}),
                objects=LabelSelector.of(None, [SelectorRequirement("app", Operator.EXISTS)]),
            ),
        ),
        (
            {"clientConfig": {"url": "https://x"}, "failurePolicy": "Fail", "namespaceSelector": None},
            PodWebhook(configuration="x", name="w", namespaces=ALL, objects=ALL),
        ),
    ],
)
def test_a_webhook(fields: dict[str, Any], expected: PodWebhook) -> None:
    """It must answer unless it says otherwise, and selects everything unless it says what."""
    (webhook,) = made("ValidatingWebhookConfiguration", webhooks=[{"name": "w", "rules": [RULE], **fields}]).webhooks
    assert webhook == expected


@pytest.mark.parametrize(
    ("endpoints", "ready"),
    [
        ([{}, {"conditions": {}}, {"conditions": {"ready": None}}, {"conditions": {"ready": True}}], 4),
        ([{"conditions": {"ready": False}}, {"conditions": {"ready": True, "serving": False}}], 1),
        ([], 0),
        (None, 0),
    ],
)
def test_an_endpoint_is_ready_unless_it_says_that_it_is_not(endpoints: Any, ready: int) -> None:
    labels = {"kubernetes.io/service-name": "gate", "team": "red"}
    decoded = made("EndpointSlice", metadata={"labels": labels}, endpoints=endpoints)
    assert decoded == EndpointSlice(namespace="shop", name="x", service="gate", ready=ready)


def test_a_slice_of_no_service_is_of_none() -> None:
    assert made("EndpointSlice", endpoints=[{}]).service == ""


@pytest.mark.parametrize(
    ("update_policy", "mode"),
    [
        (None, ScalingMode.RECREATE),
        ({}, ScalingMode.RECREATE),
        ({"updateMode": ""}, ScalingMode.RECREATE),
        *(({"updateMode": str(mode)}, mode) for mode in ScalingMode),
    ],
)
def test_a_vertical_autoscaler_recreates_pods_unless_it_says_otherwise(update_policy: Any, mode: ScalingMode) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert made("VerticalPodAutoscaler", spec={"targetRef": target, "updatePolicy": update_policy}) == (
        VerticalAutoscaler(namespace="shop", name="x", target_kind="Deployment", target_name="web", mode=mode)
    )


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (None, {"a": {"cpu": 500, "memory": GI}, "b": {"cpu": 100}}),
        ([{"containerName": "a", "mode": "Off"}], {"b": {"cpu": 100}}),
        ([{"containerName": "*", "mode": "Off"}, {"containerName": "b"}], {"b": {"cpu": 100}}),
        (
            [{"containerName": "*", "minAllowed": {"cpu": "200m"}, "maxAllowed": {"cpu": "300m", "memory": "0"}}],
            {"a": {"cpu": 300, "memory": GI}, "b": {"cpu": 200}},
        ),
        (
            [{"containerName": "a", "minAllowed": {"cpu": "2", "memory": "2Gi"}, "maxAllowed": {"cpu": "1"}}],
            {"a": {"cpu": 1000, "memory": 2 * GI}, "b": {"cpu": 100}},
        ),
        ([{"containerName": "*", "controlledResources": ["memory"]}], {"a": {"memory": GI}, "b": {}}),
        ([{"containerName": "*", "controlledResources": []}], {"a": {}, "b": {}}),
    ],
)
def test_targets_are_within_the_bounds_of_the_policy_that_applies(
    policies: Any, expected: dict[str, dict[str, int]]
) -> None:
    """That of the container, or of all; of two bounds that contradict each other the upper one; 0 is no bound."""
    recommended = [
        {"containerName": "a", "target": {"memory": "1Gi", "cpu": "500m"}, "upperBound": {"cpu": "9"}},
        {"containerName": "b", "target": {"cpu": "100m"}},
    ]
    decoded = made(
        "VerticalPodAutoscaler",
        spec={"resourcePolicy": {"containerPolicies": policies}},
        status={"recommendation": {"containerRecommendations": recommended}},
    )
    assert decoded.targets == tuple(
        ContainerTarget(container=name, requests=tuple(amounts.items())) for name, amounts in expected.items()
    )


NOON, LATER = "2026-01-02T12:00:00Z", "2026-01-02T13:00:00Z"


@pytest.mark.parametrize(
    ("entries", "changed"),
    [
        (None, None),
        ([], None),
        ([{"manager": "kubectl", "operation": "Update"}], None),
        ([{"time": LATER}, {"time": NOON}], LATER),
        ([{"time": NOON}, {"time": LATER, "subresource": "status"}], NOON),
        ([{"time": LATER, "subresource": "status"}], None),
        ([{"time": NOON}, {"time": LATER, "subresource": "scale"}], LATER),
    ],
)
@pytest.mark.parametrize("kind", ["Namespace", "LimitRange"])
def test_an_object_was_changed_when_its_last_manager_wrote(kind: str, entries: Any, changed: str | None) -> None:
    """Not when somebody wrote its status; without managed fields it is not known."""
    decoded = made(kind, metadata={"managedFields": entries})
    assert decoded.changed == (datetime.fromisoformat(changed) if changed else None)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("ResourceQuota", {"status": {"hard": {"pods": "many"}}}, "status.hard.pods: 'many' is not a quantity"),
        ("ResourceQuota", {"spec": {"hard": {"cpu": -1}}}, "spec.hard.cpu: -1 is negative"),
        ("ClusterResourceQuota", {"status": {"total": {"used": {"cpu": "x"}}}}, "status.total.used.cpu: 'x'"),
        ("LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "x"}}]}}, "spec.limits[0].max.cpu: 'x'"),
        ("ServiceAccount", {"metadata": {"name": 5}}, "$.metadata.name"),
        ("RuntimeClass", {"scheduling": {"tolerations": [{}]}}, "scheduling.tolerations[0].operator: 'Equal' needs"),
        (
            "MutatingWebhookConfiguration",
            {
                "webhooks": [
                    {
                        "name": "w",
                        "rules": [RULE],
                        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]},
                    }
                ]
            },
            "webhooks[0].objectSelector.matchExpressions[0].operator: 'Gt'",
        ),
        (
            "MutatingAdmissionPolicy",
            {"spec": {"matchConstraints": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}}},
            "spec.matchConstraints.objectSelector.matchExpressions[0].operator: 'Gt'",
        ),
        (
            "MutatingAdmissionPolicyBinding",
            {"spec": {"matchResources": {"namespaceSelector": {"matchLabels": 5}}}},
            "$.spec.matchResources.namespaceSelector.matchLabels",
        ),
        ("EndpointSlice", {"endpoints": {}}, "$.endpoints"),
        ("VerticalPodAutoscaler", {"spec": {"updatePolicy": {"updateMode": "Never"}}}, "'Never' is not one of Off"),
    ],
)
def test_a_malformed_object_is_a_fault_that_names_the_field(kind: str, fields: dict[str, Any], message: str) -> None:
    fault = made(kind, **fields)
    assert isinstance(fault, Fault)
    assert fault.kind == kind
    assert message in fault.message


@pytest.mark.parametrize("kind", sorted(OPTIONAL))
def test_a_file_says_which_optional_kinds_it_contains(kind: str) -> None:
    """By an object, by the name of an empty list, or as a dump does; not by a kind of that name of another project."""
    version = NAMED[kind].api_version

    def known(document: dict[str, Any]) -> frozenset[str]:
        data = json.dumps(document).encode()
        decoded = decode_file(FileContents.of(data))
        items, kinds, _, _ = reduce_file(FileContents.of(data))
        dumped = decode_file(FileContents.of(b"".join(reduced_list(items, kinds, ""))))
        made = make_snapshot(decoded.objects, taken_at=datetime.now(UTC), known=decoded.kinds)
        assert made.known == OPTIONAL & dumped.kinds
        return made.known

    item = {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}
    assert known({"kind": "List", "items": [pod]}) == frozenset()
    assert known({"kind": "List", "items": [pod, item]}) == {kind}
    assert known({"kind": f"{kind}List", "apiVersion": version, "items": []}) == {kind}
    assert known({"kind": f"{kind}List", "apiVersion": "example.com/v1", "items": []}) == frozenset()
    assert known({"kind": "List", "items": [{**item, "apiVersion": "example.com/v1"}]}) == frozenset()
