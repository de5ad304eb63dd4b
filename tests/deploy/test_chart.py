"""The Helm chart and the kustomize forms install the same, and refuse what is misspelt. No control plane is needed."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from rebalancer import __version__
from rebalancer.adapters.web import WebServer, probe_routes
from rebalancer.policy import load_policy
from tests.deploy.manifests import DEPLOY, Manifest, documents
from tests.deploy.rendering import (
    CHART,
    NAMESPACE,
    by_identity,
    helm,
    render_chart,
    render_kustomization,
    require_programs,
)
from tests.pages import printed
from tools.install_manifest import COMMAND, FILE, manifest_text

OF_HELM = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}
"""Labels that the chart adds; the selectors have none of them."""

EVICT: Mapping[str, Any] = {"policy": {"mode": "Evict"}}
CHOICES: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "default": ({}, ("base",)),
    "observe only": ({"extraArgs": ["--mode=Observe"]}, ("base", "components/observe-only")),
    "evict": (EVICT, ("base", "components/evict")),
    "ha": (
        {**EVICT, "replicas": 3, "spread": "DoNotSchedule", "priorityClassName": "system-cluster-critical"},
        ("base", "components/evict", "components/ha"),
    ),
    "monitoring": (
        {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard")},
        ("base", "components/monitoring"),
    ),
    "network policy": ({"networkPolicy": {"enabled": True}}, ("base", "components/network-policy")),
    "network policy with guards": (
        {"networkPolicy": {"enabled": True, "prometheus": {"namespace": "monitoring"}}},
        ("base", "components/network-policy", "components/network-policy-prometheus"),
    ),
    "page proxy": ({"pageProxy": {"enabled": True}}, ("base", "components/page-proxy")),
    "page proxy with network policy": (
        {"pageProxy": {"enabled": True}, "networkPolicy": {"enabled": True}},
        ("base", "components/page-proxy", "components/network-policy", "components/network-policy-page"),
    ),
    "namespaced": (
        {
            "policy": {"mode": "Evict", "groups": None, "eligibility": {"namespaces": {"include": ["shop"]}}},
            "rbac": {"namespaced": True},
        },
        ("overlays/one-namespace",),
    ),
    "namespace-scoped": ({**EVICT, "workloadNamespaces": ["shop"]}, ("overlays/namespace-scoped",)),
    "owners": ({"ownerResources": ["clonesets.apps.kruise.io"]}, ("base", "components/owners")),
    "prevention": ({"policy": {"prevention": {"scaleDown": "Steer"}}}, ("base", "prevention")),
    "capacity": (
        {"policy": {"mode": "Evict", "capacity": {"mode": "Request"}}},
        ("base", "components/evict", "capacity"),
    ),
}
"""The same choice as values of the chart, and as folders of deploy/."""


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("helm", "kubectl")


def kustomize(folder: Path, parts: tuple[str, ...]) -> Iterator[Manifest]:
    """Render a kustomization made of parts of deploy/, copied beside each other as a user has them."""
    components = [part for part in parts if part.startswith("components/")]
    resources = [part for part in parts if part not in components]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"../deploy/{part}" for part in resources],
        "components": [f"../deploy/{part}" for part in components],
    }
    (folder / "deploy").symlink_to(DEPLOY)
    own = folder / "own"
    own.mkdir()
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    yield from render_kustomization(own)


def without_helm(manifest: Manifest) -> Manifest:
    """Leave out the labels that the chart adds."""
    copy = deepcopy(manifest)
    metadata = [copy["metadata"]]
    if copy["kind"] == "Deployment":
        metadata.append(copy["spec"]["template"]["metadata"])
    for entry in metadata:
        entry["labels"] = {name: value for name, value in entry["labels"].items() if name not in OF_HELM}
    return copy


@pytest.mark.parametrize("choice", CHOICES)
def test_the_chart_installs_what_kustomize_installs(choice: str, tmp_path: Path) -> None:
    """Rights, alert rules, dashboard, Deployment and all: equal, object by object. Policies are compared as read."""
    values, parts = CHOICES[choice]
    chart = by_identity(without_helm(manifest) for manifest in render_chart(values))
    expected = by_identity(kustomize(tmp_path, parts))
    expected.pop(("Namespace", "", NAMESPACE))  # `helm install --create-namespace`
    policy = ("ConfigMap", NAMESPACE, "rebalancer-policy")
    chart_policy, kustomize_policy = (
        load_policy(objects[policy].pop("data")["policy.yaml"].encode(), source="policy.yaml")
        for objects in (chart, expected)
    )
    if choice not in {"prevention", "capacity"}:  # kustomize adds what these need; the policy is for the user to write
        assert chart_policy == kustomize_policy
    assert chart == expected


def test_an_installation_for_one_namespace_reads_no_workload_of_another(tmp_path: Path) -> None:
    """In the whole cluster it reads pods, nodes, volumes, classes and webhooks, and writes nothing."""
    manifests = by_identity(kustomize(tmp_path, ("overlays/namespace-scoped",)))
    bound = [(key, manifest["roleRef"]["name"]) for key, manifest in manifests.items() if key[0].endswith("Binding")]
    assert [role for (kind, _, _), role in bound if kind == "ClusterRoleBinding"] == ["rebalancer"]
    assert {role for (_, namespace, _), role in bound if namespace == "shop"} == {
        "rebalancer-evict",
        "rebalancer-workloads",
    }
    rules = manifests["ClusterRole", "", "rebalancer"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    assert {resource for rule in rules for resource in rule["resources"]} == {
        *("pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims"),
        *(
            "storageclasses",
            "csinodes",
            "csidrivers",
            "priorityclasses",
            "deviceclasses",
            "nodepools",
            "runtimeclasses",
            "clusterresourcequotas",
        ),
        *("validatingwebhookconfigurations", "mutatingwebhookconfigurations", "endpointslices"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    }


def test_the_names_of_the_choices_are_all_components() -> None:
    """A new component has a line above, or is a part of another one."""
    chosen = {part for _, parts in CHOICES.values() for part in parts}
    overlays = {"components/namespaced"} if "overlays/namespace-scoped" in chosen else set()
    folders = list((DEPLOY / "components").iterdir())
    named = [yaml.safe_load((folder / "kustomization.yaml").read_text()).get("components", ()) for folder in folders]
    of_others = {f"components/{Path(part).name}" for parts in named for part in parts}
    assert {f"components/{folder.name}" for folder in folders} <= chosen | overlays | of_others


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"replica": 2}, "replica"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"policy": {"mode": "Evicting"}}, "/policy/mode"),
        ({"policy": {"budget": {}}}, "budget"),
        ({"policy": {"budgets": {"perMinutes": 3}}}, "perMinutes"),
        ({"replicas": 0}, "/replicas"),
        ({"extraArgs": ["--kubeconfig=x"]}, "/extraArgs/0"),
        ({"serviceMonitor": {"enabled": "yes"}}, "/serviceMonitor/enabled"),
        ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
        ({"pageProxy": {"image": "quay.io/oauth2-proxy/oauth2-proxy"}}, "/pageProxy/image"),
        ({"workloadNamespaces": ["team-*"]}, "/workloadNamespaces/0"),
        ({"workloadNamespaces": ["shop", "shop"]}, "/workloadNamespaces"),
    ],
)
def test_a_misspelt_value_is_refused_before_anything_is_rendered(values: Mapping[str, Any], where: str) -> None:
    done = helm("template", "rebalancer", str(CHART), values=values)
    assert done.returncode != 0
    assert done.stdout == ""
    assert where in done.stderr


def test_the_name_of_the_cluster_is_a_value() -> None:
    """Without it nothing is set."""
    for name, expected in (("prod-eu", [{"name": "REBALANCER_CLUSTER_NAME", "value": "prod-eu"}]), ("", [])):
        manifests = render_chart({"cluster": {"name": name}})
        (deployment,) = (manifest for manifest in manifests if manifest["kind"] == "Deployment")
        assert deployment["spec"]["template"]["spec"]["containers"][0].get("env", []) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "scraped twice"),
        ({"policy": {"mode": "Evict"}, "rbac": {"namespaced": True}}, "needs the names of namespaces"),
        (
            {
                "policy": {"mode": "Evict", "eligibility": {"namespaces": {"include": ["team-*"]}}},
                "rbac": {"namespaced": True},
            },
            'found the glob "team-*"',
        ),
        (
            {
                "policy": {"mode": "Evict", "eligibility": {"namespaces": {"include": ["cart"]}}},
                "rbac": {"namespaced": True},
                "workloadNamespaces": ["shop"],
            },
            'namespaces.include has "cart", which is not in workloadNamespaces',
        ),
        (
            {"policy": {"teamPolicies": {"namespaces": ["cart"]}}, "workloadNamespaces": ["shop"]},
            'teamPolicies.namespaces has "cart", which is not in workloadNamespaces',
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: Mapping[str, Any], message: str) -> None:
    done = helm("template", "rebalancer", str(CHART), values=values)
    assert done.returncode != 0
    assert message in done.stderr


def test_an_older_kubernetes_is_refused() -> None:
    done = helm("template", "rebalancer", str(CHART), "--kube-version", "1.29.9")
    assert done.returncode != 0
    assert "incompatible with Kubernetes" in done.stderr


def test_helm_lint_finds_nothing() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert (done.returncode, "[WARNING]" in done.stdout, "[ERROR]" in done.stdout) == (0, False, False), done.stdout


def test_labels_annotations_and_extensions_arrive_where_they_belong() -> None:
    mount = {"name": "extra", "mountPath": "/extra"}
    manifests = by_identity(
        render_chart(
            {
                "labels": {"team": "platform"},
                "annotations": {"note": "1"},
                "podLabels": {"pod": "yes"},
                "podAnnotations": {"pod-note": "2"},
                "serviceAccountAnnotations": {"account-note": "3"},
                "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
                "extraVolumes": [{"name": "extra", "emptyDir": {}}],
                "extraVolumeMounts": [mount],
                "image": {"repository": "registry.example/rebalancer", "digest": "sha256:" + "0" * 64},
            }
        )
    )
    for manifest in manifests.values():
        assert manifest["metadata"]["labels"]["team"] == "platform"
        assert manifest["metadata"]["annotations"]["note"] == "1"
    account = manifests["ServiceAccount", NAMESPACE, "rebalancer"]["metadata"]["annotations"]
    assert account == {"note": "1", "account-note": "3"}
    template = manifests["Deployment", NAMESPACE, "rebalancer"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert template["metadata"]["labels"]["pod"] == "yes"
    assert template["metadata"]["annotations"] == {"pod-note": "2"}
    assert container["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}]
    assert mount in container["volumeMounts"]
    assert {"name": "extra", "emptyDir": {}} in template["spec"]["volumes"]
    assert container["image"] == "registry.example/rebalancer@sha256:" + "0" * 64


def test_nothing_names_another_namespace_than_the_releases() -> None:
    """Bindings, the admission policy and the monitors follow `--namespace`."""
    values = {
        "policy": {"mode": "Evict", "prevention": {"scaleDown": "Steer"}},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
    }
    manifests = render_chart(values, namespace="elsewhere")
    assert {manifest["metadata"].get("namespace") for manifest in manifests} == {None, "elsewhere"}
    for manifest in manifests:
        rules = manifest["kind"] == "PrometheusRule"  # the text of an alert may name where people usually look
        assert rules or NAMESPACE not in yaml.safe_dump(manifest), manifest["kind"]


def test_prevention_that_only_observes_has_no_right_to_patch() -> None:
    manifests = by_identity(render_chart({"policy": {"prevention": {"scaleDown": "Observe"}}}))
    assert not any("prevention" in name for _, _, name in manifests), "what it reads is read always"
    assert not any(kind.startswith("ValidatingAdmissionPolicy") for kind, _, _ in manifests)


def test_a_team_gets_its_role_where_the_policy_names_its_namespace() -> None:
    """A glob is no namespace: the notes say what to do."""
    values = {"policy": {"teamPolicies": {"namespaces": ["shop", "team-*"]}}}
    manifests = by_identity(render_chart(values))
    role = manifests["Role", "shop", "rebalancer-team-policy"]
    (shipped,) = [entry for entry in documents(DEPLOY / "team" / "role.yaml") if entry["kind"] == "Role"]
    assert role["rules"] == shipped["rules"]
    assert ("RoleBinding", "shop", "rebalancer-team-policy") in manifests
    assert not any(namespace == "team-*" for _, namespace, _ in manifests)


def test_runbooks_are_where_the_values_say() -> None:
    address = "https://wiki.example/runbooks/"
    (rule,) = [
        manifest
        for manifest in render_chart({"prometheusRule": {"enabled": True, "runbookUrl": address}})
        if manifest["kind"] == "PrometheusRule"
    ]
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"] if "alert" in alert]
    assert alerts
    assert all(alert["annotations"]["runbook_url"] == address + alert["alert"] for alert in alerts)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_example_in_the_readme_is_valid() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    assert render_chart(yaml.safe_load(example))


def test_the_notes_say_the_next_three_commands() -> None:
    """`helm install --dry-run` prints them; each is a command that this cluster would understand."""
    for mode, third in (("Observe", "helm upgrade"), ("Evict", "kubectl patch")):
        done = helm("install", "rebalancer", str(CHART), "--dry-run=client", values={"policy": {"mode": mode}})
        assert done.returncode == 0, done.stderr
        notes = done.stdout.partition("\nNOTES:\n")[2]
        assert re.findall(r"^   (\w+ \w+)", notes, re.MULTILINE) == ["kubectl rollout", "kubectl get", third]


def test_the_manifest_in_one_file_is_the_base() -> None:
    """`kubectl apply -f deploy/install.yaml` installs what `kubectl apply -k deploy/base` does."""
    assert FILE.read_text(encoding="utf-8") == manifest_text(), f"deploy/install.yaml is stale: {COMMAND}"
    assert by_identity(documents(FILE)) == by_identity(render_kustomization(DEPLOY / "base"))


def test_the_hook_before_an_uninstallation_is_the_job_of_kustomize() -> None:
    """The same objects, which helm creates before it deletes the release and deletes when they have succeeded."""
    hooks = [hook for hook in render_chart({}, hooks=True) if hook["metadata"]["annotations"]["helm.sh/hook"] != "test"]
    for hook in hooks:
        annotations = hook["metadata"].pop("annotations")
        assert annotations["helm.sh/hook"] == "pre-delete"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        assert (annotations.get("helm.sh/hook-weight") == "-1") == (hook["kind"] != "Job"), "the rights come first"
    assert by_identity(map(without_helm, hooks)) == by_identity(render_kustomization(DEPLOY / "cleanup"))


def test_the_hook_of_helm_test_notices_an_invalid_policy_and_a_replica_that_is_not_ready(tmp_path: Path) -> None:
    """Its two containers, run as processes: they end well where all is well, and with an error where it is not."""
    (hook,) = [pod for pod in render_chart({}, hooks=True) if pod["metadata"]["name"] == "rebalancer-test"]
    policy, ready = hook["spec"]["containers"]
    text = by_identity(render_chart({}))["ConfigMap", NAMESPACE, "rebalancer-policy"]["data"]["policy.yaml"]
    file = tmp_path / "policy.yaml"
    arguments = [word.replace("/etc/rebalancer/policy.yaml", str(file)) for word in policy["args"]]
    for content, code in ((text, 0), (text.replace("mode: ", "mood: "), 1)):
        file.write_text(content)
        assert printed(*arguments)[0] == code
    interpreter, *options = ready["command"]
    assert interpreter == "/usr/bin/python3"
    for reason, code in (("", 0), ("Pod: not listed yet", 1)):
        checks = {"watches": partial(str, reason)}
        server = WebServer("127.0.0.1", 0, probe_routes(CollectorRegistry(), live={}, ready=checks))
        server.start()
        try:
            script = [
                word.replace("rebalancer-metrics:8080", "{}:{}".format(*server.address)) for word in ready["args"]
            ]
            done = subprocess.run([sys.executable, *options, *script], capture_output=True, check=False, timeout=30)
        finally:
            server.stop()
        assert done.returncode == code, done.stderr
