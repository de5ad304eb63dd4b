"""The rendered Deployment as it would run: its command, user, environment, files, probes and rights, and nothing else.

A container engine is not needed. A new mount namespace has a root of its own: the machine's /usr for reading, the
installed wheel, the ConfigMaps and the token of the ServiceAccount where the manifest mounts them, and empty writable
folders where it has an emptyDir. The whole of it is read-only otherwise, and the process has the manifest's uid. Only
the port is another one, since all tests share the machine's.
"""

import atexit
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Self

import urllib3

from tests.cluster.controller import ROOT
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane, free_ports
from tests.control_plane.resources import Manifest
from tools.environment import removed_paths, unlocked_modules

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
INTERPRETER = "/python/bin/python3"
_HOST = ("usr", "lib", "lib64", "bin")


def find_obstacle() -> str:
    """Return why no process can be started like that here, "" if nothing is in the way."""
    if os.geteuid() != 0:
        return "only root may change the user of a process and what it has mounted"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


@cache
def installed_wheel() -> Path:
    """Build the wheel and install it, without its dependencies, into a folder of its own: /app of the image."""
    folder = Path(mkdtemp(prefix="rebalancer-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "app"), str(wheel)], check=True, capture_output=True, timeout=60)
    return folder / "app"


def image_settings() -> tuple[list[str], dict[str, str]]:
    """Return the entry point and the environment that the Dockerfile gives the image."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last = text[text.rindex("\nFROM ") :]
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", last, re.MULTILINE)
    (variables,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", last, re.MULTILINE)
    words = shlex.split(variables.replace("\\\n", " "))
    return json.loads(entry), dict(word.split("=", 1) for word in words)


class Installed:
    """One container of a rendered pod as a process; ended by SIGTERM at the end of the block."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        pod: Manifest,
        namespace: str,
        *,
        changed: Mapping[str, str] | None = None,
    ) -> None:
        """Take the `spec` of a pod, and its namespace. `changed` replaces texts in its arguments."""
        self._plane = plane
        self._pod = pod
        self._namespace = namespace
        (self.container,) = pod["containers"]
        self._changed = dict(changed or {})
        self.ports = {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}
        for name, free in zip(self.ports, free_ports(len(self.ports)), strict=True):
            self._changed[f":{self.ports[name]}"] = f":{free}"
            self.ports[name] = free
        self._folder = folder
        self.log_file = self._folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        script = self._folder / "start.sh"
        script.write_text("\n".join(["set -e", *self._commands(), ""]))
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ["PATH"]},
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if error is not None:
                error.add_note("its log ends:\n" + "\n".join(self.log_file.read_text().splitlines()[-40:]))

    def _commands(self) -> Iterable[str]:
        """Yield the lines of the script that makes the root and becomes the process."""
        root = self._folder / "root"
        yield f"mkdir {root} && mount -t tmpfs root {root} && cd {root}"
        yield "mkdir -p app dependencies python etc proc dev"
        for name in _HOST:
            yield f"if [ -L /{name} ]; then cp -P /{name} {name}; else mkdir {name}; mount --bind /{name} {name}; fi"
            yield f"if ! [ -L {name} ]; then mount -o remount,bind,ro {name}; fi"
        prefix = Path(sys.base_prefix).resolve()
        places = {"python": prefix, "dependencies": Path(sysconfig.get_paths()["purelib"]), "app": installed_wheel()}
        for name, place in places.items():
            yield f"mount --bind {place} {name} && mount -o remount,bind,ro {name}"
        for path in (*removed_paths(), *sorted(unlocked_modules())):  # the image does not have them
            yield f"mount -t tmpfs -o ro removed dependencies/{path}"
        yield "mount --rbind /proc proc && mount --rbind /dev dev"
        yield from self._volumes()
        yield f"mount -o remount,ro {root}"
        security = {**self._pod["securityContext"], **self.container["securityContext"]}
        assert security["readOnlyRootFilesystem"] is True
        user = f"--reuid={security['runAsUser']} --regid={security['runAsGroup']} --clear-groups"
        dropped = "--bounding-set=-all --inh-caps=-all --no-new-privs"
        assert security["capabilities"]["drop"] == ["ALL"]
        command = shlex.join(["env", "-i", *self._environment(), *self._command()])
        yield f"exec chroot {root} setpriv {user} {dropped} {command}"

    def _volumes(self) -> Iterable[str]:
        volumes = {volume["name"]: volume for volume in self._pod.get("volumes", ())}
        for mount in self.container.get("volumeMounts", ()):
            volume, place = volumes[mount["name"]], mount["mountPath"].lstrip("/")
            yield f"mkdir -p {place}"
            if "emptyDir" in volume:
                size = volume["emptyDir"]["sizeLimit"].removesuffix("i").lower()
                yield f"mount -t tmpfs -o mode=777,size={size} volume {place}"
            else:
                yield f"mount --bind {self._config_map(volume['configMap']['name'])} {place}"
                yield f"mount -o remount,bind,ro {place}"
        if self._pod["automountServiceAccountToken"]:
            place = SERVICE_ACCOUNT.lstrip("/")
            yield f"mkdir -p {place} && mount --bind {self._token()} {place} && mount -o remount,bind,ro {place}"

    def _config_map(self, name: str) -> Path:
        """Write a ConfigMap as the kubelet does."""
        folder = self._folder / name
        folder.mkdir()
        stored = self._plane.api.get(f"/api/v1/namespaces/{self._namespace}/configmaps/{name}")
        for key, text in stored["data"].items():
            (folder / key).write_text(text)
        return folder

    def _token(self) -> Path:
        folder = self._folder / "token"
        folder.mkdir()
        account = f"{self._namespace}/{self._pod['serviceAccountName']}"
        (folder / "token").write_text(self._plane.token(account))
        (folder / "namespace").write_text(self._namespace)
        (folder / "ca.crt").write_bytes(self._plane.ca_file.read_bytes())
        return folder

    def _environment(self) -> list[str]:
        _, image = image_settings()
        host, port = self._plane.url.removeprefix("https://").split(":")
        variables = {
            **image,
            "PYTHONPATH": f"{image['PYTHONPATH']}:/dependencies",
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "LD_LIBRARY_PATH": "/python/lib",
            "REBALANCER_PAGE_ADDRESS": "127.0.0.1:0",  # a pod has a loopback address of its own
            **{entry["name"]: entry["value"] for entry in self.container.get("env", ())},
        }
        return [f"{name}={value}" for name, value in variables.items()]

    def _command(self) -> list[str]:
        entry, _ = image_settings()
        words = [*self.container.get("command", entry), *self.container.get("args", ())]
        assert words[0] == "/usr/bin/python3"
        for old, new in self._changed.items():
            words = [word.replace(old, new) for word in words]
        return [INTERPRETER, *words[1:]]

    def probe(self, name: str) -> int:
        """Send the request of a probe, and return the answer's status."""
        probe = self.container[name]["httpGet"]
        port = self.ports[probe["port"]]
        timeout = self.container[name].get("timeoutSeconds", 1)
        return urllib3.request("GET", f"http://127.0.0.1:{port}{probe['path']}", timeout=timeout, retries=False).status

    def start_up(self) -> None:
        """Wait as the kubelet does until the startup probe succeeds; raises if that takes longer than it may."""
        probe = self.container["startupProbe"]

        def has_started() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, "the process has ended"
            try:
                return self.probe("startupProbe") == 200
            except urllib3.exceptions.HTTPError:
                return False

        wait_until(has_started, what="the startup probe", timeout=probe["periodSeconds"] * probe["failureThreshold"])

    def metrics(self) -> dict[str, float]:
        """Return its metrics: name with labels, and value."""
        answer = urllib3.request("GET", f"http://127.0.0.1:{self.ports['metrics']}/metrics", timeout=5.0, retries=False)
        rows = (line.rsplit(" ", 1) for line in answer.data.decode().splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return the lines of its log, or those of one event."""
        lines = [json.loads(line) for line in self.log_file.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if event in {None, line.get("event")}]

    def status(self, field: str) -> str:
        """Return a field of the kernel's status of the process."""
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        (value,) = re.findall(rf"^{field}:\s*(.*)$", text, re.MULTILINE)
        return str(value)

    def writable(self) -> list[str]:
        """Return the places of its file system that may be written, without those of the kernel."""
        assert self.process is not None
        mounts = Path(f"/proc/{self.process.pid}/mountinfo").read_text(encoding="utf-8").splitlines()
        places = [(line.split()[4], line.split()[5].split(",")) for line in mounts]
        return [place for place, options in places if "rw" in options and not place.startswith(("/proc", "/dev"))]
