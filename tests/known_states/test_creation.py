"""What the API server would say to the replacement of an evicted pod: it is refused, or admitted."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    State,
    assert_evicted,
    changed,
    cluster,
    containers,
    deployment,
    make,
    namespace,
)


def assert_refused(state: State, *named: str) -> None:
    """Assert that nothing is evicted, since the replacement could not be created, and what the message names."""
    said = state.plan().assert_kept(Reason.CANNOT_CREATE)
    for name in named:
        assert name in said


def test_no_pod_can_be_created_in_a_namespace_that_is_being_deleted() -> None:
    state = cluster(deployment())
    leaving = state.get("Namespace", "shop")
    leaving["metadata"] |= {"deletionTimestamp": "2026-05-04T11:00:00Z"}
    leaving["status"]["phase"] = "Terminating"
    assert_refused(state, "namespace shop is being deleted")


class TestQuota:
    def limited(self, hard: int, used: int, **spec: Any) -> State:
        quota = make(
            "v1",
            "ResourceQuota",
            "team",
            spec={"hard": {"pods": str(hard)}, **spec},
            status={"hard": {"pods": str(hard)}, "used": {"pods": str(used)}},
        )
        return cluster(deployment(), [quota])

    def test_one_that_is_exceeded_refuses_the_replacement(self) -> None:
        """It was lowered below what is used: the pods that run stay, and none comes back."""
        assert_refused(self.limited(3, 4), "ResourceQuota shop/team", "limits pods to 3", "4 used")

    def test_one_that_is_exactly_full_admits_it(self) -> None:
        """The evicted pod returns what it uses."""
        assert_evicted(self.limited(4, 4))

    @pytest.mark.parametrize(
        "spec",
        [
            {"scopes": ["BestEffort"]},
            {"scopes": ["Terminating"]},
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
        ],
    )
    def test_one_of_other_pods_does_not_matter(self, spec: dict[str, Any]) -> None:
        assert_evicted(self.limited(3, 4, **spec))

    def test_one_whose_scope_the_pod_is_in_does(self) -> None:
        assert_refused(self.limited(3, 4, scopes=["NotTerminating", "NotBestEffort"]), "ResourceQuota shop/team")

    def test_that_of_another_namespace_does_not_matter(self) -> None:
        state = self.limited(3, 4)
        state.get("ResourceQuota", "team")["metadata"]["namespace"] = "office"
        assert_evicted(state)


HARDENED: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class TestClusterQuota:
    """OpenShift's quota over several namespaces together."""

    def limited(self, hard: int, used: int, team: str) -> State:
        quota = make(
            "quota.openshift.io/v1",
            "ClusterResourceQuota",
            "red-pods",
            None,
            spec={"quota": {"hard": {"pods": str(hard)}}, "selector": {"labels": {"matchLabels": {"team": "red"}}}},
            status={"total": {"hard": {"pods": str(hard)}, "used": {"pods": str(used)}}},
        )
        state = cluster(deployment(), [quota])
        state.get("Namespace", "shop")["metadata"]["labels"]["team"] = team
        return state

    def test_one_that_is_exceeded_in_all_refuses_the_replacement_in_each(self) -> None:
        assert_refused(self.limited(9, 10, "red"), "ClusterResourceQuota red-pods")

    def test_one_that_is_full_admits_it(self) -> None:
        assert_evicted(self.limited(10, 10, "red"))

    def test_one_of_other_namespaces_does_not_matter(self) -> None:
        assert_evicted(self.limited(9, 10, "blue"))


class TestPodSecurity:
    def labelled(self, *modes: str, **spec: Any) -> State:
        """Return the state whose namespace got these labels after the pods had been created."""
        state = cluster(deployment(**spec))
        metadata = state.get("Namespace", "shop")["metadata"]
        metadata["labels"] |= {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in modes}
        metadata["managedFields"] = changed()
        return state

    def test_a_pod_that_may_run_as_root_is_refused_where_restricted_is_enforced(self) -> None:
        assert_refused(self.labelled("enforce"), "namespace shop enforces Pod Security restricted", "runAsNonRoot")

    def test_a_hardened_pod_is_admitted(self) -> None:
        (container,) = containers("100m")
        hardened = [{**container, "securityContext": HARDENED}]
        assert_evicted(self.labelled("enforce", "warn", "audit", containers=hardened))

    def test_warnings_and_audit_refuse_nothing(self) -> None:
        assert_evicted(self.labelled("warn", "audit"))


NAMED: dict[str, tuple[dict[str, Any], str, str]] = {
    "RuntimeClass": ({"runtimeClassName": "sandbox"}, "RuntimeClass sandbox", "node.k8s.io/v1"),
    "PriorityClass": (
        {"priorityClassName": "urgent", "priority": 1000},
        "PriorityClass urgent",
        "scheduling.k8s.io/v1",
    ),
    "ServiceAccount": ({"serviceAccountName": "robot"}, "ServiceAccount shop/robot", "v1"),
}


@pytest.mark.parametrize("kind", NAMED)
class TestNamedObjects:
    """Objects that the template names; the pods that run were created while they existed."""

    def naming(self, kind: str, *names: str) -> State:
        spec, _, api_version = NAMED[kind]
        place = "shop" if kind == "ServiceAccount" else None
        fields = {"handler": "run"} if kind == "RuntimeClass" else {"value": 1000} if kind == "PriorityClass" else {}
        return cluster(deployment(**spec), [make(api_version, kind, name, place, **fields) for name in names])

    def test_one_that_was_deleted_refuses_the_replacement(self, kind: str) -> None:
        assert_refused(self.naming(kind, "another"), f"names {NAMED[kind][1]}, which does not exist")

    def test_one_that_exists_admits_it(self, kind: str) -> None:
        (name,) = (value for key, value in NAMED[kind][0].items() if key.endswith("Name"))
        assert_evicted(self.naming(kind, "another", name))

    def test_where_the_file_does_not_contain_the_kind_nothing_is_missing(self, kind: str) -> None:
        assert_evicted(self.naming(kind))


class TestLimitRange:
    def raised(self, at: str, **item: Any) -> State:
        """Return the state with a LimitRange that was last changed then; a container requests 100m, at most 200m."""
        limits = make(
            "v1", "LimitRange", "sizes", managedFields=changed(at), spec={"limits": [{"type": "Container", **item}]}
        )
        (container,) = containers("100m")
        container["resources"]["limits"] = {"cpu": "200m"}
        return cluster(deployment(containers=[container]), [limits])

    def test_a_minimum_that_was_raised_above_the_request_refuses_the_replacement(self) -> None:
        state = self.raised("2026-05-01T00:00:00Z", min={"cpu": "250m"})
        assert_refused(state, "LimitRange shop/sizes", "min of cpu is 250m", "container app has 100m")

    def test_a_maximum_that_was_lowered_below_the_limit_refuses_it(self) -> None:
        state = self.raised("2026-05-01T00:00:00Z", max={"cpu": "150m"})
        assert_refused(state, "LimitRange shop/sizes", "max of cpu is 150m", "container app has 200m")

    def test_one_that_the_pods_were_created_under_admits_it(self) -> None:
        """Whatever exempts them."""
        assert_evicted(self.raised("2019-01-01T00:00:00Z", min={"cpu": "250m"}))

    def test_one_that_the_request_satisfies_admits_it(self) -> None:
        assert_evicted(self.raised("2026-05-01T00:00:00Z", min={"cpu": "50m"}))


class TestDefaultLimit:
    """A LimitRange gives containers a limit that state none; what judges limits judges that."""

    def with_limits(self, item: dict[str, Any], *others: Manifest) -> State:
        limits = make("v1", "LimitRange", "sizes", spec={"limits": [{"type": "Container", **item}]})
        return cluster(deployment(containers=containers("100m")), [limits, *others])

    def quota(self, hard: str) -> Manifest:
        amounts = {"limits.cpu": hard}
        return make(
            "v1", "ResourceQuota", "team", spec={"hard": amounts}, status={"hard": amounts, "used": {"limits.cpu": "0"}}
        )

    def test_a_quota_on_limits_is_satisfied_by_it(self) -> None:
        assert_evicted(self.with_limits({"default": {"cpu": "200m"}}, self.quota("10")))

    def test_and_counts_it(self) -> None:
        assert_refused(
            self.with_limits({"default": {"cpu": "2"}}, self.quota("1")), "ResourceQuota shop/team", "limits.cpu"
        )

    def test_without_it_the_quota_refuses_containers_that_state_none(self) -> None:
        plain = cluster(deployment(containers=containers("100m")), [self.quota("10")])
        assert_refused(plain, "ResourceQuota shop/team", "limits.cpu", "container app")

    def test_a_maximum_is_the_default_where_none_is_given(self) -> None:
        assert_evicted(self.with_limits({"max": {"cpu": "1"}}))

    def test_one_below_what_the_template_requests_makes_no_pod(self) -> None:
        assert_refused(self.with_limits({"default": {"cpu": "50m"}}), "container app", "more than its limit of 50m")


def registered(kind: str, *, ready: bool = False, **fields: Any) -> State:
    hook: Manifest = {
        "name": "check.guard.test",
        "clientConfig": {"service": {"namespace": "guard", "name": "gate", "path": "/pods"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}
    return cluster(
        deployment(),
        [
            namespace("guard"),
            make("admissionregistration.k8s.io/v1", kind, "guard", None, webhooks=[hook]),
            make("v1", "Service", "gate", "guard", spec={"selector": {"app": "gate"}}),
            make(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                "gate-x",
                "guard",
                labels={"kubernetes.io/service-name": "gate"},
                addressType="IPv4",
                endpoints=[endpoint],
            ),
        ],
    )


class TestWebhook:
    @pytest.mark.parametrize("kind", ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
    def test_one_that_must_answer_and_cannot_refuses_the_replacement(self, kind: str) -> None:
        state = registered(kind)
        assert_refused(state, f"webhook check.guard.test of {kind} guard", "guard/gate has no ready endpoint")

    @pytest.mark.parametrize(
        "fields",
        [
            {"failurePolicy": "Ignore"},
            {"ready": True},
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "office"}}},
            {"objectSelector": {"matchLabels": {"app": "other"}}},
            {"rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]},
        ],
        ids=["ignored", "answering", "another namespace", "other pods", "another operation"],
    )
    def test_one_that_need_not_answer_can_or_is_not_asked_does_not_matter(self, fields: dict[str, Any]) -> None:
        assert_evicted(registered("ValidatingWebhookConfiguration", **fields))

    @pytest.mark.parametrize("resources", [["*"], ["*/*"], ["pods/*"], ["services", "pods"]])
    def test_one_is_asked_whose_rules_have_pods_among_others(self, resources: Sequence[str]) -> None:
        rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [*resources]}
        assert_refused(registered("ValidatingWebhookConfiguration", rules=[rule]), "guard/gate")


VALIDATING = "ValidatingWebhookConfiguration"
EVICTIONS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}


class TestWebhooksForEvictions:
    """The Eviction API asks them before it deletes a pod: nothing is sent that it would refuse with an error."""

    @pytest.mark.parametrize("kind", ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
    @pytest.mark.parametrize("resources", [["pods/eviction"], ["*/eviction"], ["pods/*"], ["*/*"]])
    def test_one_that_must_answer_and_cannot_holds_evictions_back(self, kind: str, resources: Sequence[str]) -> None:
        state = registered(kind, rules=[{**EVICTIONS, "resources": [*resources]}])
        reasons = {Reason.REFUSED_BY_ADMISSION, Reason.CANNOT_CREATE}
        outcome = state.plan()
        assert outcome.evicted == []
        assert outcome.reasons & reasons

    def test_it_is_named_with_the_way_out(self) -> None:
        said = registered(VALIDATING, rules=[EVICTIONS]).plan().assert_kept(Reason.REFUSED_BY_ADMISSION)
        assert "no pod can be evicted: webhook check.guard.test of ValidatingWebhookConfiguration guard must" in said
        assert "guard/gate has no ready endpoint. Repair the Service, or set failurePolicy: Ignore" in said

    @pytest.mark.parametrize(
        "fields",
        [
            {"failurePolicy": "Ignore"},
            {"ready": True},
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "office"}}},
            {"objectSelector": {"matchLabels": {"app": "web"}}},
            {"rules": [{**EVICTIONS, "operations": ["UPDATE", "DELETE"]}]},
            {"rules": [{**EVICTIONS, "resources": ["pods/exec", "pods/status"]}]},
            {"rules": [{**EVICTIONS, "resources": ["deployments/*", "*/scale"]}]},
            {"rules": [{**EVICTIONS, "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"]}]},
            {"rules": [{**EVICTIONS, "scope": "Cluster"}]},
            {"matchConditions": [{"name": "only-people", "expression": "request.userInfo.username != 'x'"}]},
        ],
    )
    def test_one_that_need_not_answer_can_or_is_not_asked_stops_nothing(self, fields: dict[str, Any]) -> None:
        """An Eviction has no labels, so that a selector of objects by labels does not match it."""
        assert_evicted(registered(VALIDATING, **{"rules": [EVICTIONS], **fields}))

    def test_one_for_evictions_alone_says_nothing_about_new_pods(self) -> None:
        state = registered(VALIDATING, rules=[EVICTIONS])
        assert Reason.CANNOT_CREATE not in state.plan().reasons


class TestPoliciesForEvictions:
    """Validating admission policies that deny every eviction, as far as their expressions can be evaluated."""

    def frozen(
        self,
        expression: str = "false",
        *,
        actions: Sequence[str] = ("Deny",),
        binding: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> State:
        rules = {"resourceRules": [EVICTIONS]}
        fields = {
            "matchConstraints": rules,
            "validations": [{"expression": expression, "message": "frozen until Monday"}],
        }
        bound = {"policyName": "freeze", "validationActions": [*actions], **(binding or {})}
        group = "admissionregistration.k8s.io/v1"
        return cluster(
            deployment(),
            [
                make(group, "ValidatingAdmissionPolicy", "freeze", None, spec={**fields, **spec}),
                make(group, "ValidatingAdmissionPolicyBinding", "freeze-all", None, spec=bound),
            ],
        )

    @pytest.mark.parametrize(
        "expression",
        [
            "false",
            " false ",
            "request.subResource != 'eviction'",
            '!(request.subResource == "eviction")',
            "(request.operation != 'CREATE')",
            "!true",
        ],
    )
    def test_one_that_denies_every_eviction_holds_them_back(self, expression: str) -> None:
        said = self.frozen(expression).plan().assert_kept(Reason.REFUSED_BY_ADMISSION)
        assert said.splitlines()[0] == (
            "ValidatingAdmissionPolicy freeze (binding freeze-all) denies every eviction in namespace shop: frozen "
            "until Monday"
        )

    @pytest.mark.parametrize(
        "expression",
        [
            "true",
            "request.subResource == 'eviction'",
            "request.userInfo.username != 'system:serviceaccount:ops:drain'",
            "object.metadata.name.startsWith('db')",
            "(false) || (request.namespace == 'shop')",
            "!request.subResource == 'eviction'",
            r"request.subResource == 'evicti\\u006fn'",
            "!" * 3_000 + "false",
            "(" * 3_000 + "false" + ")" * 3_000,
            "request.namespace != 'shop'",
            "",
        ],
    )
    def test_of_one_that_cannot_be_evaluated_or_admits_nothing_is_said(self, expression: str) -> None:
        assert_evicted(self.frozen(expression))

    @pytest.mark.parametrize(
        "fields",
        [
            {"actions": ("Warn", "Audit")},
            {"binding": {"policyName": "another"}},
            {"binding": {"matchResources": {"namespaceSelector": {"matchLabels": {"team": "office"}}}}},
            {"binding": {"matchResources": {"resourceRules": [{**EVICTIONS, "resources": ["pods"]}]}}},
            {"binding": {"matchResources": {"excludeResourceRules": [EVICTIONS]}}},
            {"matchConstraints": {"resourceRules": [{**EVICTIONS, "resources": ["pods", "pods/exec"]}]}},
            {"matchConstraints": {"resourceRules": [{**EVICTIONS, "resourceNames": ["web-0"]}]}},
            {"matchConditions": [{"name": "people", "expression": "true"}]},
            {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
            {"matchConstraints": {"resourceRules": [EVICTIONS], "objectSelector": {"matchLabels": {"app": "web"}}}},
        ],
    )
    def test_one_that_is_not_in_force_for_these_evictions_stops_nothing(self, fields: dict[str, Any]) -> None:
        assert_evicted(self.frozen(**fields))

    def test_one_for_the_namespace_is_in_force_there(self) -> None:
        selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}
        self.frozen(binding={"matchResources": selector}).plan().assert_kept(Reason.REFUSED_BY_ADMISSION)
