"""deploy/surge: the rights of repairs that add pods first, bounded, complete with prevention and without it."""

from typing import Any

import pytest
import yaml

from rebalancer.adapters.kubernetes.configmaps import SURGES
from tests.deploy.manifests import DEPLOY, Manifest, build
from tests.deploy.rendering import CHART, NAMESPACE, by_identity, helm, render_kustomization, require_programs

FORM = build(DEPLOY / "surge")
ACCOUNT = {"kind": "ServiceAccount", "name": "rebalancer", "namespace": NAMESPACE}
POLICIES = ("rebalancer-surge-pods", "rebalancer-surge-scale")
OF_HELM = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}


def test_the_rights_are_replicas_marks_and_one_record_and_belong_to_the_controller() -> None:
    assert [
        (set(rule["resources"]), set(rule["verbs"])) for rule in FORM["ClusterRole", "", "rebalancer-surge"]["rules"]
    ] == [
        ({"deployments", "replicasets"}, {"get"}),
        ({"deployments/scale", "replicasets/scale"}, {"get", "patch"}),
        ({"pods"}, {"patch"}),
    ]
    assert FORM["Role", NAMESPACE, "rebalancer-surge"]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [SURGES], "verbs": ["get", "patch"]}
    ]
    for kind, namespace in (("ClusterRoleBinding", ""), ("RoleBinding", NAMESPACE)):
        binding = FORM[kind, namespace, "rebalancer-surge"]
        assert binding["roleRef"]["name"] == "rebalancer-surge"
        assert binding["subjects"] == [ACCOUNT]


def test_the_record_is_shipped_without_data() -> None:
    """Applying the component again must not delete what a surge under way is carried on by."""
    assert FORM["ConfigMap", NAMESPACE, SURGES].keys() == {"apiVersion", "kind", "metadata"}


def test_each_right_to_write_comes_with_a_policy_in_force_about_the_same_account() -> None:
    """They deny, fail closed, and between them match every resource that may be patched."""
    matched = set()
    for name in POLICIES:
        spec = FORM["ValidatingAdmissionPolicy", "", name]["spec"]
        (condition,) = spec["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:rebalancer'"
        assert spec["failurePolicy"] == "Fail"
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert rule["operations"] == ["UPDATE"], "a patch is one"
        matched.update(rule["resources"])
        bound = FORM["ValidatingAdmissionPolicyBinding", "", name]["spec"]
        assert bound == {"policyName": name, "validationActions": ["Deny"]}
    rules = FORM["ClusterRole", "", "rebalancer-surge"]["rules"]
    assert {resource for rule in rules if "patch" in rule["verbs"] for resource in rule["resources"]} <= matched


def test_pods_are_protected_as_by_prevention_and_no_object_of_either_is_the_others() -> None:
    """Both can be installed, and each deleted without taking anything from the other."""
    prevention = build(DEPLOY / "prevention")
    ours = FORM["ValidatingAdmissionPolicy", "", "rebalancer-surge-pods"]["spec"]
    assert ours == prevention["ValidatingAdmissionPolicy", "", "rebalancer-prevention"]["spec"]
    assert not FORM.keys() & prevention.keys()


@pytest.mark.parametrize("method", ["Evict", "Surge", "SurgeWhereBlocked"])
@pytest.mark.parametrize("namespace", [NAMESPACE, "elsewhere"])
def test_the_chart_installs_the_same_with_every_method_that_adds_pods(method: str, namespace: str) -> None:
    require_programs("helm", "kubectl")
    arguments = ("--namespace", namespace, "--kube-version", "1.37.0")
    values = {"policy": {"mode": "Evict", "repair": {"method": method, "namespaces": ["*"]}}}
    done = helm("template", "rebalancer", str(CHART), *arguments, values=values)
    assert done.returncode == 0, done.stderr
    rendered = [_without_helm(one) for one in yaml.safe_load_all(done.stdout) if one and "surge" in _name(one)]
    expected = by_identity(render_kustomization(DEPLOY / "surge")) if method != "Evict" else {}
    text = yaml.safe_dump(list(expected.values())).replace(NAMESPACE, namespace)
    assert by_identity(rendered) == by_identity(yaml.safe_load(text))


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _without_helm(manifest: Manifest) -> Manifest:
    metadata: dict[str, Any] = manifest["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name not in OF_HELM}
    return {**manifest, "metadata": {**metadata, "labels": labels}}
