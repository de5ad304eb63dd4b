"""The manifests fit together, with each other and with the program, before any API server has seen them."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer import __version__
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.history.ring import SEGMENT_MAPS
from rebalancer.history.trend import TREND_MAP
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST
from rebalancer.policy import Mode, Policy, default_policy, load_policy
from rebalancer.policy.team_maps import VALID_POLICY_MAP
from tests.deploy.manifests import DEPLOY, ROOT, Manifest, build, documents, identity

NAMESPACE = "rebalancer-system"
FORMS = ("base", "evict")
SELECTOR = {"app.kubernetes.io/name": "rebalancer"}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def manifests(form: str) -> dict[tuple[str, str, str], Manifest]:
    return build(DEPLOY / form)


@pytest.fixture
def deployment(manifests: dict[tuple[str, str, str], Manifest]) -> Manifest:
    return manifests["Deployment", NAMESPACE, "rebalancer"]


@pytest.fixture
def container(deployment: Manifest) -> Manifest:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def policy_of(manifests: dict[tuple[str, str, str], Manifest]) -> Policy:
    data = manifests["ConfigMap", NAMESPACE, "rebalancer-policy"]["data"]
    assert data.keys() == {"policy.yaml"}
    return load_policy(data["policy.yaml"].encode(), source="rebalancer-policy")


def test_every_manifest_belongs_to_a_kustomization() -> None:
    """A file that nothing lists is installed by nobody."""
    folders = [file.parent for file in DEPLOY.rglob("kustomization.yaml") if file.parent.name != "monitoring"]
    assert {DEPLOY / form for form in FORMS} < set(folders)
    for folder in folders:
        (kustomization,) = documents(folder / "kustomization.yaml")
        patches = {patch["path"] for patch in kustomization.get("patches", ()) if "path" in patch}
        texts = {name for one in kustomization.get("configMapGenerator", ()) for name in one["files"]}
        listed = {*kustomization.get("resources", ()), *patches, *texts}
        files = {file.name for file in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in listed if not (folder / name).is_dir()}, folder


def test_every_object_is_in_the_namespace_or_the_cluster_and_labelled(
    manifests: dict[tuple[str, str, str], Manifest],
) -> None:
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    for (kind, namespace, name), manifest in manifests.items():
        assert namespace == ("" if kind in cluster_wide else NAMESPACE), (kind, name)
        assert manifest["metadata"]["labels"].items() >= SELECTOR.items(), (kind, name)


def test_the_base_ships_the_shipped_policy_byte_for_byte() -> None:
    """Comments included: it is what people will edit."""
    manifests = build(DEPLOY / "base")
    assert policy_of(manifests) == default_policy()
    text = manifests["ConfigMap", NAMESPACE, "rebalancer-policy"]["data"]["policy.yaml"]
    assert text == (ROOT / "config" / "policy.yaml").read_text(encoding="utf-8")


def test_the_evicting_form_differs_by_mode_and_right_only() -> None:
    base, evict = build(DEPLOY / "base"), build(DEPLOY / "evict")
    assert policy_of(base).mode is Mode.OBSERVE
    assert policy_of(evict) == default_policy().model_copy(update={"mode": Mode.EVICT})
    added = {("ClusterRole", "", "rebalancer-evict"), ("ClusterRoleBinding", "", "rebalancer-evict")}
    assert evict.keys() - base.keys() == added
    policy = ("ConfigMap", NAMESPACE, "rebalancer-policy")
    assert all(evict[key] == base[key] for key in base if key != policy)


def test_selectors_find_the_pods(manifests: dict[tuple[str, str, str], Manifest], deployment: Manifest) -> None:
    """Deployment, Service, PodDisruptionBudget and the spread constraints mean the same pods."""
    template = deployment["spec"]["template"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        manifests["Service", NAMESPACE, "rebalancer-metrics"]["spec"]["selector"],
        manifests["PodDisruptionBudget", NAMESPACE, "rebalancer"]["spec"]["selector"]["matchLabels"],
        *(constraint["labelSelector"]["matchLabels"] for constraint in template["spec"]["topologySpreadConstraints"]),
    ]
    assert all(selector.items() <= template["metadata"]["labels"].items() for selector in selectors)


def test_ports_and_probes_meet_what_the_program_listens_on(
    manifests: dict[tuple[str, str, str], Manifest], container: Manifest
) -> None:
    parser = Parser(prog="rebalancer run", description="Run.")
    add_settings_arguments(parser)
    verb, *flags = container["args"]
    settings = load_flags(parser.parse_args(flags))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = manifests["Service", NAMESPACE, "rebalancer-metrics"]["spec"]
    assert verb == "run"
    assert ports == {"metrics": settings.metrics_address.port}
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(8080, "metrics")]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: (probe["path"], probe["port"]) for name, probe in probes.items()} == {
        "startupProbe": ("/healthz", "metrics"),
        "livenessProbe": ("/healthz", "metrics"),
        "readinessProbe": ("/readyz", "metrics"),
    }


def test_no_probe_comes_before_the_program_listens(container: Manifest) -> None:
    """Each start would have an event of an unhealthy pod; one that never listens is restarted within 70 seconds."""
    probe = container["startupProbe"]
    assert probe["initialDelaySeconds"] >= 5
    assert probe["initialDelaySeconds"] + probe["periodSeconds"] * probe["failureThreshold"] <= 70


def test_the_policy_is_mounted_as_a_directory_where_the_program_reads_it(
    deployment: Manifest, container: Manifest
) -> None:
    """A subPath mount would never see a change of the ConfigMap."""
    (flag,) = [flag for flag in container["args"] if flag.startswith("--policy=")]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    mount = mounts[str(Path(flag.removeprefix("--policy=")).parent)]
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert Path(flag).name == "policy.yaml"
    assert "subPath" not in mount
    assert volumes[mount["name"]]["configMap"] == {"name": "rebalancer-policy"}
    assert {mount["name"] for mount in mounts.values()} == volumes.keys()


def test_the_pod_passes_the_restricted_pod_security_standard(
    manifests: dict[tuple[str, str, str], Manifest], deployment: Manifest, container: Manifest
) -> None:
    """The namespace enforces it."""
    labels = manifests["Namespace", "", NAMESPACE]["metadata"]["labels"]
    pod = deployment["spec"]["template"]["spec"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert all(volume.keys() & {"configMap", "emptyDir"} for volume in pod["volumes"])
    assert pod["enableServiceLinks"] is False


def test_the_image_is_of_this_version(container: Manifest) -> None:
    assert container["image"] == f"rebalancer:{__version__}"
    assert f"ARG VERSION={__version__}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_a_drain_never_takes_both_replicas(
    manifests: dict[tuple[str, str, str], Manifest], deployment: Manifest
) -> None:
    budget = manifests["PodDisruptionBudget", NAMESPACE, "rebalancer"]["spec"]["maxUnavailable"]
    assert 0 < budget < deployment["spec"]["replicas"]


def rules(manifest: Manifest) -> set[tuple[str, str, str, str]]:
    """Flatten rules to (group, resource, name or "any", verb)."""
    return {
        triple
        for rule in manifest["rules"]
        for triple in product(
            (group or "core" for group in rule["apiGroups"]),
            rule["resources"],
            rule.get("resourceNames", ["any"]),
            rule["verbs"],
        )
    }


SECURITY = ROOT / "docs" / "security.md"
COLUMNS = ("role", "API group", "resources", "names", "verbs", "why")


def listed(cell: str) -> list[str]:
    """Split a cell; `name-{0..2}` stands for name-0, name-1 and name-2."""
    found = []
    for word in cell.split(", "):
        several = re.fullmatch(r"(.+)\{(\d)\.\.(\d)\}", word)
        found += (
            [f"{several[1]}{number}" for number in range(int(several[2]), int(several[3]) + 1)] if several else [word]
        )
    return found


def documented() -> dict[str, set[tuple[str, str, str, str]]]:
    """Flatten the tables of docs/security.md to the rights of each role, named `ClusterRole NAME` or `Role NAME`."""
    rights: dict[str, set[tuple[str, str, str, str]]] = {}
    for line in SECURITY.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("| ClusterRole ", "| Role ")):
            continue
        row = dict(zip(COLUMNS, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        assert row["why"], line
        split = [listed(row[column]) for column in COLUMNS[1:5]]
        of_role = rights.setdefault(row["role"], set())
        for group, resource, name, verb in product(*split):
            assert (group, resource, name, verb) not in of_role, line
            of_role.add((group, resource, name, verb))
    return rights


def granted() -> dict[str, set[tuple[str, str, str, str]]]:
    """Return the rights of every role in any manifest of deploy/ but the chart's copies."""
    files = [file for file in DEPLOY.rglob("*.yaml") if "chart" not in file.relative_to(DEPLOY).parts]
    roles = [
        manifest
        for file in files
        for manifest in documents(file)
        if "kind" in manifest and manifest["kind"] in {"Role", "ClusterRole"}  # patches have no kind
    ]
    return {f"{role['kind']} {role['metadata']['name']}": rules(role) for role in roles}


def test_the_rights_are_exactly_the_documented_ones() -> None:
    """docs/security.md lists every rule of every role with its reason, and nothing else is granted."""
    assert documented() == granted()


WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def test_security_md_names_every_right_to_write() -> None:
    """Verb, resource and name, each once, and no right that no role has."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What it writes")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "][2:]
    named = [
        right
        for resource, names, verbs, what, _ in rows
        if what
        for right in product([resource], listed(names), verbs.split(", "))
    ]
    assert len(named) == len(set(named))
    assert set(named) == {rule[1:] for of_role in granted().values() for rule in of_role if rule[3] in WRITES}


def test_one_file_installs_the_base() -> None:
    """deploy/install.yaml is deploy/base, object by object."""
    assert {identity(manifest): manifest for manifest in documents(DEPLOY / "install.yaml")} == build(DEPLOY / "base")


PEOPLE = ("rebalancer-view", "rebalancer-pause", "rebalancer-approve")


def test_a_person_who_views_reads_what_the_controller_reads_of_the_cluster_and_writes_nothing() -> None:
    """`report` lists the kinds that the controller watches."""
    manifests = build(DEPLOY / "base")
    view = rules(manifests["ClusterRole", "", "rebalancer-view"])
    read = {
        rule[:3]
        for name in ("rebalancer", "rebalancer-workloads")
        for rule in rules(manifests["ClusterRole", "", name])
        if rule[3] == "list"
    }
    assert {rule[:3] for rule in view if rule[3] == "list"} >= read
    assert {rule[3] for rule in view} == {"get", "list", "watch"}


def test_people_write_their_own_switch_only() -> None:
    """Who may pause may not approve, and neither may touch anything else."""
    manifests = build(DEPLOY / "base")
    written = {
        role: {rule for rule in rules(manifests["ClusterRole", "", role]) if rule[3] not in {"get", "list", "watch"}}
        for role in PEOPLE
    }
    assert written == {
        "rebalancer-view": set(),
        "rebalancer-pause": {("core", "configmaps", "rebalancer-control", "patch")},
        "rebalancer-approve": {("core", "configmaps", "rebalancer-approval", "patch")},
    }


def test_what_people_and_the_controller_write_is_shipped_without_data() -> None:
    """Applying the installation again must not end a pause, withdraw an approval or delete the memory."""
    manifests = build(DEPLOY / "evict")
    history = (TREND_MAP, *SEGMENT_MAPS)
    for name in ("rebalancer-status", "rebalancer-control", "rebalancer-approval", VALID_POLICY_MAP, *history):
        assert manifests["ConfigMap", NAMESPACE, name].keys() == {"apiVersion", "kind", "metadata"}
    own = rules(manifests["Role", NAMESPACE, "rebalancer"])
    shipped = {name for kind, _, name in manifests if kind == "ConfigMap"}
    assert {name for _, resource, name, _ in own if resource == "configmaps"} == shipped
    assert {rule[2] for rule in own if rule[1] == "configmaps" and rule[3] == "patch"} == {
        "rebalancer-status",
        VALID_POLICY_MAP,
        *history,
    }
    assert not {rule for rule in own if rule[1] == "configmaps" and rule[3] == "create"}


def test_observing_has_no_right_that_changes_a_workload() -> None:
    """All it writes in the cluster are events; `*`, secrets and deletion appear nowhere."""
    manifests = build(DEPLOY / "base")
    granted = {
        rule for name in ("rebalancer", "rebalancer-workloads") for rule in rules(manifests["ClusterRole", "", name])
    }
    assert {rule for rule in granted if rule[3] not in {"get", "list", "watch"}} == {
        ("events.k8s.io", "events", "any", "create"),
        ("events.k8s.io", "events", "any", "patch"),
    }
    roles = [manifest for (kind, _, _), manifest in build(DEPLOY / "evict").items() if kind.endswith("Role")]
    words: set[Any] = {word for role in roles for rule in rules(role) for word in rule}
    assert not words & {"*", "secrets", "delete", "deletecollection", "pods/exec", "impersonate", "escalate", "bind"}


def test_each_binding_gives_its_role_to_the_account_of_the_pods(
    manifests: dict[tuple[str, str, str], Manifest], deployment: Manifest
) -> None:
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert ("ServiceAccount", NAMESPACE, account) in manifests
    bindings = {key: manifest for key, manifest in manifests.items() if key[0].endswith("Binding")}
    bound = {(binding["roleRef"]["kind"], key[1], binding["roleRef"]["name"]) for key, binding in bindings.items()}
    roles = {key for key in manifests if key[0] in {"Role", "ClusterRole"}}
    assert bound == roles - {("ClusterRole", "", role) for role in PEOPLE}, "who pauses and approves is for you to say"
    for manifest in bindings.values():
        assert manifest["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]


def test_manifests_are_plain_yaml() -> None:
    """No anchors and tags: kustomize and reviewers read them without surprises."""
    templates = DEPLOY / "chart" / "rebalancer" / "templates"
    for file in (file for file in DEPLOY.rglob("*.yaml") if not file.is_relative_to(templates)):
        tokens = (yaml.AnchorToken, yaml.AliasToken, yaml.TagToken)
        assert not [token for token in yaml.scan(file.read_text(encoding="utf-8")) if isinstance(token, tokens)], file


def test_the_right_to_patch_pods_comes_with_its_restriction() -> None:
    """The admission policy is about the account that gets the right, and is in force: it denies, and fails closed."""
    manifests = build(DEPLOY / "prevention")
    role, binding = (
        manifests["ClusterRole", "", "rebalancer-prevention"],
        manifests["ClusterRoleBinding", "", "rebalancer-prevention"],
    )
    policy = manifests["ValidatingAdmissionPolicy", "", "rebalancer-prevention"]["spec"]
    bound = manifests["ValidatingAdmissionPolicyBinding", "", "rebalancer-prevention"]["spec"]
    assert {rule for rule in rules(role) if rule[3] not in {"get", "list", "watch"}} == {
        ("core", "pods", "any", "patch")
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "rebalancer", "namespace": NAMESPACE}]
    assert binding["roleRef"]["name"] == "rebalancer-prevention"
    (condition,) = policy["matchConditions"]
    user = f"system:serviceaccount:{NAMESPACE}:rebalancer"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert policy["failurePolicy"] == "Fail"
    assert policy["matchConstraints"]["resourceRules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods", "pods/*"]}
    ]
    assert bound == {"policyName": "rebalancer-prevention", "validationActions": ["Deny"]}
    assert {DELETION_COST, OWN_DELETION_COST} == set(
        yaml.safe_load(next(variable["expression"] for variable in policy["variables"] if variable["name"] == "own"))
    )


def test_a_team_policy_is_readable_by_its_name_alone() -> None:
    """deploy/team gives `get` on one ConfigMap, in the namespace of `kubectl apply -n`, and is documented as such."""
    manifests = build(DEPLOY / "team")
    role, binding = (
        manifests["Role", "", "rebalancer-team-policy"],
        manifests["RoleBinding", "", "rebalancer-team-policy"],
    )
    assert rules(role) == {("core", "configmaps", "rebalancer-policy", "get")}
    assert binding["roleRef"]["name"] == "rebalancer-team-policy"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "rebalancer", "namespace": NAMESPACE}]
    assert "`kubectl apply -n NAMESPACE -k deploy/team`" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
