"""The controller as users run it: a process of its own, with the account and the rights of deploy/."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
import yaml

from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "rebalancer-system"
ACCOUNT = f"{NAMESPACE}/rebalancer"
USER = f"system:serviceaccount:{NAMESPACE}:rebalancer"
COMMAND = (sys.executable, "-m", "rebalancer.cli.main")

FAST = {"interval": "2s", "spread": {"for": "0s"}, "eligibility": {"minAge": "0s"}, "nodes": {"settle": "0s"}}
"""What tests change of the default policy: times, nothing else."""


def policy(mode: str, **changes: Any) -> str:
    """Return a policy file."""
    return yaml.safe_dump(
        {"apiVersion": "rebalancer.dev/v1alpha1", "kind": "RebalancePolicy", "mode": mode, **FAST, **changes}
    )


def install(plane: ControlPlane, *forms: str) -> None:
    """Apply what deploy/ installs but the Deployment itself: the process runs outside the cluster here."""
    plane.api.apply(manifest for form in forms for manifest in manifests(form) if manifest["kind"] != "Deployment")


def hide(plane: ControlPlane, resource: str) -> None:
    """Take the controller's right to read a kind: what it cannot see is for the nets below to find out."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    for roles in (f"{group}/clusterroles", f"{group}/namespaces/{NAMESPACE}/roles"):
        for role in plane.api.list(roles):
            if role["metadata"]["name"].startswith("rebalancer"):
                rules = [
                    {**rule, "resources": left}
                    for rule in role.get("rules") or ()
                    if (left := [name for name in rule.get("resources", ()) if name != resource])
                ]
                plane.api.patch(f"{roles}/{role['metadata']['name']}", {"rules": rules})


def manifests(form: str) -> list[Manifest]:
    """Read the manifests of a form of deploy/, its patches and bases aside."""
    return _read_manifests(ROOT / "deploy" / form)


def _read_manifests(folder: Path) -> list[Manifest]:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    files = [folder / name for name in kustomization.get("resources", ()) if name.endswith(".yaml")]
    own = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    components = [_read_manifests(folder / component) for component in kustomization.get("components", ())]
    return [*own, *(document for component in components for document in component)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment without the settings of the tests themselves, or a proxy or kubeconfig of the machine.

    Its allocator is the image's.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("REBALANCER_", "KUBE"))}
    allocator = dict(re.findall(r"\b(MALLOC_\w+)=(\S+)", (ROOT / "Dockerfile").read_text()))
    return {**environment, **allocator, **(extra or {})}


class Controller:
    """`rebalancer run` as a process; ended by SIGTERM at the end of the block."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        policy_text: str,
        *flags: str,
        command: Sequence[str] = (*COMMAND, "run"),
        tree: Path = ROOT,
    ) -> None:
        """Prepare a process whose code is that in the folder `tree`."""
        self._plane = plane
        self._tree = tree
        self._command = command
        self._folder = folder
        self._flags = flags
        self.policy_file = folder / "policy.yaml"
        self.policy_file.write_text(policy_text)
        self.log_file = folder / "controller.log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *self._command,
                    f"--policy={self.policy_file}",
                    f"--kubeconfig={self._plane.kubeconfig(ACCOUNT)}",
                    f"--namespace={NAMESPACE}",
                    "--metrics-address=127.0.0.1:0",
                    "--page-address=127.0.0.1:0",
                    "--log-format=json",
                    *self._flags,
                ],
                stdout=log,
                stderr=log,
                env=environment(),
                cwd=self._tree,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note("the controller's log ends:\n" + "\n".join(self.log_file.read_text().splitlines()[-40:]))

    def stop(self, *, timeout: float = 20.0) -> int:
        """End it by SIGTERM and return its exit code; a process that does not end is killed, and that is an error."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def wait(self, timeout: float) -> int:
        """Wait until it ends by itself."""
        assert self.process is not None
        return self.process.wait(timeout)

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return the lines of its log, or those of one event."""
        whole, _, _ = self.log_file.read_text().rpartition("\n")  # the last line may still be written
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if event in {None, line.get("event")}]

    def wait_for(self, event: str, *, count: int = 1, timeout: float = 60.0) -> list[dict[str, Any]]:
        """Wait until its log has an event that many times."""

        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None or len(self.log(event)) >= count, "the controller has ended"
            return len(self.log(event)) >= count

        wait_until(there, what=f"{count} of {event!r} in the controller's log", timeout=timeout)
        return self.log(event)

    def get(self, path: str) -> urllib3.BaseHTTPResponse:
        """Ask its web server."""
        port = self.wait_for("listening")[0]["port"]
        return urllib3.request("GET", f"http://127.0.0.1:{port}{path}", timeout=5.0, retries=False)

    def metrics(self) -> dict[str, float]:
        """Return its metrics: name with labels, and value."""
        lines = self.get("/metrics").data.decode().splitlines()
        rows = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}


def rebalancer(
    *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None, timeout: float = 60.0
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
        env=environment(env),
        cwd=ROOT,
        timeout=timeout,
    )
