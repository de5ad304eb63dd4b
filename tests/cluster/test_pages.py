"""Every kubectl, helm and rebalancer command of the pages on installing works, in their order, and a second time.

Commands that need a container engine, a registry or a kubelet are marked on their page; of these the syntax is checked.
KWOK runs the pods, so that hooks end when this test says so: `test_install.py` and `test_chart.py` run what is in them.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import yaml

from tests.cluster.controller import NAMESPACE, ROOT, environment
from tests.cluster.test_install import operators
from tests.control_plane.api import ApiError, wait_until
from tests.control_plane.layout import lay_out, nodes
from tests.control_plane.plane import ControlPlane
from tests.deploy.rendering import program, require_programs
from tests.pages import (
    ARGO_CD,
    CONTROLLER,
    ON_A_CLUSTER,
    PAGES_BY_HAND,
    Command,
    Place,
    blocks,
    check,
    checkout,
    commands,
)

__all__ = ["operators"]


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("helm", "kubectl")


def chosen(form: str) -> Iterator[Command]:
    """Yield the commands for one way of installing; a page may have blocks of both."""
    other = "helm " if form == "kustomize" else " -k deploy/"
    for block in chain.from_iterable(blocks(page) for page in ON_A_CLUSTER[form]):
        if not any(other in command.text for command in block):
            yield from (command for command in block if command.place is Place.CLUSTER)


def as_a_reader(plane: ControlPlane, folder: Path) -> dict[str, str]:
    """Return the environment of somebody who has the three programs and the rights of a cluster administrator."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).symlink_to(program(name))
    (programs / "rebalancer").write_text(f'#!/bin/sh\nexec {sys.executable} -m rebalancer.cli.main "$@"\n')
    (programs / "rebalancer").chmod(0o755)
    variables = environment({"PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig())})
    return variables | {"PYTHONPATH": str(ROOT), "HELM_CACHE_HOME": str(folder), "HELM_CONFIG_HOME": str(folder)}


def run(command: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, from the top of something like the repository."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@contextlib.contextmanager
def ending_hooks(plane: ControlPlane) -> Iterator[None]:
    """Let the pods of hooks and Jobs end as if their containers had."""
    ended = threading.Event()

    def end() -> None:
        while not ended.wait(0.2):
            for name in ("rebalancer-test", "rebalancer-cleanup"):
                pods = plane.api.list("/api/v1/pods", labels=f"app.kubernetes.io/name={name}")
                for pod in (pod for pod in pods if pod["status"].get("phase") == "Running"):
                    metadata = pod["metadata"]
                    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
                    with contextlib.suppress(ApiError):
                        plane.api.patch(path, {"status": {"phase": "Succeeded"}})

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("form", ON_A_CLUSTER)
def test_the_commands_of_the_pages_work_twice(operators: ControlPlane, tmp_path: Path, form: str) -> None:
    """From the first to the last, on a new cluster, with the rights of a cluster administrator; then all again."""
    lay_out(operators, nodes({"a": 2, "b": 2}))
    variables = as_a_reader(operators, tmp_path)
    top = tmp_path / "checkout"
    top.mkdir()
    checkout(top)
    todo = list(chosen(form))
    assert len(todo) >= 5
    with ending_hooks(operators):
        for number, command in enumerate([*todo, *todo]):
            done = run(command.text, top, variables)
            time = "the second time" if number >= len(todo) else "the first time"
            message = f"{command.page}, {time}: {command.text}\n{done.stdout}\n{done.stderr}"
            assert done.returncode == 0, message
            check(command, done.stdout)


def test_argo_cd_gets_the_health_check_beside_what_it_has(operators: ControlPlane, tmp_path: Path) -> None:
    """Its ConfigMap alone is there, without Argo CD; the page's command adds two keys."""
    lay_out(operators, nodes({"a": 1}))
    top, metadata = tmp_path / "checkout", {"name": "argocd-cm", "namespace": "argocd"}
    top.mkdir()
    checkout(top)
    (command,) = (one for page in PAGES_BY_HAND for one in commands(page) if one.needs == ARGO_CD)
    operators.api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}])
    operators.api.apply(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"admin.enabled": "true"}}]
    )
    done = run(command.text, top, as_a_reader(operators, tmp_path))
    assert done.returncode == 0, done.stderr
    added = yaml.safe_load((ROOT / "deploy" / "gitops" / "argocd-cm.yaml").read_text())["data"]
    assert len(added) == 2
    found = operators.api.get("/api/v1/namespaces/argocd/configmaps/argocd-cm")["data"]
    assert found == {"admin.enabled": "true", **added}


@pytest.mark.parametrize("page", [page for page in PAGES_BY_HAND if list(blocks(page))])
def test_what_cannot_be_run_here_is_marked_and_well_formed(page: str) -> None:
    """Only container engines, what loads images into local clusters, and requests to a kubelet; the shell reads all."""
    for command in commands(page):
        if command.place is Place.NEEDS and command.needs not in {CONTROLLER, ARGO_CD}:
            of_a_kubelet = any(f" {verb} " in command.text for verb in ("port-forward", "logs", "exec"))
            assert command.text.split()[0] in {"docker", "kind", "k3d", "minikube"} or of_a_kubelet
        checked = subprocess.run(["bash", "-n", "-c", command.text], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_an_upgrade_keeps_what_was_written_and_an_uninstallation_leaves_nothing(
    operators: ControlPlane, tmp_path: Path
) -> None:
    """Memory, pause and approval survive an upgrade and a rollback; then only the namespace is left."""
    lay_out(operators, nodes({"a": 2}))
    api = operators.api
    before = every_object(operators)
    variables = environment({"KUBECONFIG": str(operators.kubeconfig()), "HOME": str(tmp_path)})

    def run(*arguments: str) -> None:
        command = [str(program("helm")), *arguments, "-n", NAMESPACE]
        done = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr

    switches = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")
    sets = [word for switch in (*switches, "policy.prevention.scaleDown=Steer") for word in ("--set", switch)]
    chart = "deploy/chart/rebalancer"
    run("install", "rebalancer", chart, "--create-namespace", *sets)
    written = {
        "rebalancer-status": "memory.json",
        "rebalancer-control": "pause.yaml",
        "rebalancer-approval": "approved",
    }
    for name, key in written.items():
        api.patch(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}", {"data": {key: "reason: a test"}})
    # A namespace of its own: a test before this one may have left the default one, which is not Helm's.
    capacity = ("--set", "policy.capacity.mode=Request", "--set", "policy.capacity.namespace=upgraded")
    mode = ("--set", "policy.mode=Evict", *capacity)
    for step in (("upgrade", "rebalancer", chart, "--reuse-values", *mode), ("rollback", "rebalancer", "1")):
        run(*step)
        for name, key in written.items():
            stored = api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
            assert stored["data"] == {key: "reason: a test"}, step
    policy = api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy")["data"]["policy.yaml"]
    assert "mode: Observe" in policy
    with ending_hooks(operators):
        run("uninstall", "rebalancer")
    wait_until(lambda: every_object(operators) <= before, what="everything to be deleted", timeout=60)


def every_object(plane: ControlPlane) -> set[str]:
    """Return the objects of every kind that an installation may have, but for what Kubernetes makes by itself."""
    paths = [
        *(f"/api/v1/{kind}" for kind in ("configmaps", "services", "serviceaccounts", "secrets")),
        *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "replicasets")),
        *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("roles", "rolebindings")),
        *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")),
        *(f"/apis/monitoring.coreos.com/v1/{kind}" for kind in ("servicemonitors", "prometheusrules")),
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/apis/batch/v1/jobs",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ]
    own = {"kube-root-ca.crt", "default"}
    return {
        f"{path} {entry['metadata'].get('namespace', '')}/{entry['metadata']['name']}"
        for path in paths
        for entry in plane.api.list(path)
        if entry["metadata"]["name"] not in own and entry["metadata"].get("namespace") != "kube-system"
    }
