"""The programs of a control plane and of its monitoring, found or built.

No container engine and no download of binaries is needed: Go builds kube-apiserver and its companions from source,
through the small modules under `tools/control-plane/`. That takes minutes once, so what was built is kept outside the
repository, in a folder named after the versions: a new version is a new folder, and nothing stale is ever started.

    python -m tests.control_plane.build

The Kubernetes servers are those of the newest release that `tools/control-plane/` has a module for, or of the one that
the environment variable REBALANCER_KUBERNETES names, such as 1.33. All releases share the other programs.

A folder of ready binaries can be given in the environment variable REBALANCER_CONTROL_PLANE instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).resolve().parents[2] / "tools" / "control-plane"
GIVEN_FOLDER: Final = "REBALANCER_CONTROL_PLANE"
CHOICE: Final = "REBALANCER_KUBERNETES"
KUBERNETES: Final = "kubernetes"
"""The folder of the newest release's module, and what the names of the older ones' begin with."""
REQUIREMENT: Final = re.compile(r"^\s*(?:require\s+)?(?P<module>\S+)\s+(?P<version>v\S+)", re.MULTILINE)


class MissingPart(Exception):  # noqa: N818 (it names what is missing, not a mistake)
    """A program is neither given, nor cached, nor can it be built here. The message is one line."""


class UnknownReleaseError(Exception):
    """No module builds the Kubernetes release that the environment names."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program and the Go package it is built from."""

    name: str
    folder: str
    """The module under `tools/control-plane/`."""
    package: str
    module: str = ""
    """The Go module of the package where it is not what stands before `/cmd/`."""


PROGRAMS: Final = (
    Program(name="etcd", folder="etcd", package="go.etcd.io/etcd/server/v3"),
    Program(name="kwok", folder="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
    Program(name="kube-apiserver", folder=KUBERNETES, package="k8s.io/kubernetes/cmd/kube-apiserver"),
    Program(name="kube-controller-manager", folder=KUBERNETES, package="k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program(name="kube-scheduler", folder=KUBERNETES, package="k8s.io/kubernetes/cmd/kube-scheduler"),
    Program(name="kubectl", folder=KUBERNETES, package="k8s.io/kubernetes/cmd/kubectl"),
)

KUBELET: Final = Program(name="kubelet", folder=KUBERNETES, package="k8s.io/kubernetes/cmd/kubelet")
"""Stored beside the servers. Only `tests/nodes` needs it and builds it: all others have KWOK's nodes."""

KUBE_STATE_METRICS: Final = Program(
    name="kube-state-metrics", folder="kube-state-metrics", package="k8s.io/kube-state-metrics/v2"
)
PINT: Final = Program(name="pint", folder="pint", package="github.com/cloudflare/pint/cmd/pint")
MONITORING: Final = (KUBE_STATE_METRICS, PINT)
"""No part of a control plane: the alert rules are tried with them. Each is stored in a folder of its own."""

HELM: Final = Program(name="helm", folder="helm", package="helm.sh/helm/v4/cmd/helm")
"""Renders and installs the chart. Stored in a folder of its own, too."""

ACTIONLINT: Final = Program(
    name="actionlint", folder="actionlint", package="github.com/rhysd/actionlint/cmd/actionlint"
)
"""Checks the workflows and the action of this repository. In a folder of its own."""

DESCHEDULER: Final = Program(
    name="descheduler", folder="descheduler", package="sigs.k8s.io/descheduler/cmd/descheduler"
)
"""The peer of benchmarks/comparison.py. No test needs it, so that it is built for the comparison only."""

KARPENTER: Final = Program(
    name="karpenter", folder="karpenter", package="sigs.k8s.io/karpenter/kwok", module="sigs.k8s.io/karpenter"
)
"""Karpenter with its provider of simulated nodes, which KWOK makes Ready. Only thorough tests need it and build it."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What the go.mod files ask for. They are the only place where a version is written."""

    kubernetes: str
    etcd: str
    kwok: str

    @classmethod
    def wanted(cls, release: str = "") -> Versions:
        """Read the versions from the go.mod files, with the Kubernetes release that the tests run on or another one."""
        return cls(
            kubernetes=required_version(kubernetes_modules()[release or kubernetes_release()], "k8s.io/kubernetes"),
            etcd=required_version("etcd", "go.etcd.io/etcd/server/v3"),
            kwok=required_version("kwok", "sigs.k8s.io/kwok"),
        )

    @property
    def folder(self) -> str:
        """The cache folder's name."""
        return f"control-plane-{self.kubernetes}-{self.etcd}-{self.kwok}"


def required_version(folder: str, module: str) -> str:
    """Return the version of a module that `tools/control-plane/<folder>/go.mod` requires."""
    text = (MODULES / folder / "go.mod").read_text(encoding="utf-8")
    for line in REQUIREMENT.finditer(text):
        if line["module"] == module:
            return line["version"]
    message = f"tools/control-plane/{folder}/go.mod does not require {module}"
    raise MissingPart(message)


def kubernetes_modules() -> dict[str, str]:
    """Return the module's folder of each Kubernetes release, such as `1.33`, the oldest first."""
    versions = {path.name: required_version(path.name, "k8s.io/kubernetes") for path in MODULES.glob(f"{KUBERNETES}*")}
    releases = {tuple(map(int, version[1:].split(".")[:2])): folder for folder, version in versions.items()}
    return {".".join(map(str, release)): folder for release, folder in sorted(releases.items())}


def kubernetes_release() -> str:
    """Return the Kubernetes release that the tests run on; raises UnknownReleaseError if no module builds it."""
    releases = list(kubernetes_modules())
    chosen = os.environ.get(CHOICE) or releases[-1]
    if chosen not in releases:
        raise UnknownReleaseError(f"{CHOICE} is {chosen!r}, expected one of {', '.join(releases)}")
    return chosen


def serves_device_classes() -> bool:
    """Return whether the servers have resource.k8s.io/v1, which came with 1.34."""
    return int(kubernetes_release().split(".")[1]) >= 34


def serves_mutating_policies() -> bool:
    """Return whether the servers have MutatingAdmissionPolicies in v1, which came with 1.36."""
    return int(kubernetes_release().split(".")[1]) >= 36


def cache_root() -> Path:
    """Return the folder that has one folder for each version of the built programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")) / "rebalancer"


def cache_folder(program: Program) -> Path:
    """Return the folder in which a built program is stored."""
    if program in (*PROGRAMS, KUBELET):
        # What is not Kubernetes' own is stored beside the newest release, and built once for all of them.
        release = kubernetes_release() if program.folder == KUBERNETES else list(kubernetes_modules())[-1]
        return cache_root() / Versions.wanted(release).folder
    module = program.module or program.package.partition("/cmd/")[0]
    return cache_root() / f"{program.folder}-{required_version(program.folder, module)}"


def programs(wanted: Iterable[Program] = PROGRAMS) -> dict[str, Path]:
    """Return the path of every wanted program by its name, building what is missing.

    Raises MissingPart if something is missing and can't be built.
    """
    wanted = tuple(wanted)
    paths = {program.name: path for program in wanted if (path := _find(program))}
    missing = [program for program in wanted if program.name not in paths]
    if not missing:
        return paths
    names = ", ".join(program.name for program in missing)
    if not (go := shutil.which("go")):
        message = f"no Go here to build {names}; install Go or set {GIVEN_FOLDER} to a folder that has them"
        raise MissingPart(message)
    for program in missing:
        folder = cache_folder(program)
        folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder / ".lock"):
            # Whoever held the lock before may have built it meanwhile.
            paths[program.name] = _find(program) or _build(program, go=go, folder=folder)
    return paths


def found(program: Program) -> Path:
    """Return the path of a program that is there already; raises MissingPart, and builds nothing."""
    if path := _find(program):
        return path
    raise MissingPart(f"no {program.name} here; `make control-plane` builds it")


def karpenter_definitions() -> list[Path]:
    """Return the files with Karpenter's CustomResourceDefinitions, stored beside the program."""
    sources = ("pkg/apis/crds", "kwok/apis/crds")
    return _definitions(KARPENTER.folder, "sigs.k8s.io/karpenter", sources, cache_folder(KARPENTER))


def monitoring_definitions() -> list[Path]:
    """Return the files with the CustomResourceDefinitions of the Prometheus operator."""
    module = "github.com/prometheus-operator/prometheus-operator"
    folder = cache_root() / f"prometheus-operator-{required_version('prometheus-operator', module)}"
    return _definitions("prometheus-operator", module, ("example/prometheus-operator-crd",), folder)


def sarif_schema() -> str:
    """Return the JSON Schema of SARIF 2.1.0, which a Go library has in its source; stored in the cache folder once."""
    module, folder = "github.com/owenrumney/go-sarif/v3", "sarif"
    stored = cache_root() / f"{folder}-{required_version(folder, module)}" / "sarif-2.1.0.json"
    if not stored.exists():
        source = _download(folder, module, "the schema of SARIF") / "pkg/report/v210/sarif/schema.go"
        text = source.read_text(encoding="utf-8").split("`")[1]
        stored.parent.mkdir(parents=True, exist_ok=True)
        unfinished = stored.with_name(f".{stored.name}.{os.getpid()}")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(stored)
    return stored.read_text(encoding="utf-8")


def _definitions(folder: str, module: str, sources: Iterable[str], cache: Path) -> list[Path]:
    """Return the YAML files in some folders of a Go module, copied into a cache folder once."""
    stored = cache / "crds"
    if not stored.exists():
        downloaded = _download(folder, module, f"the CustomResourceDefinitions of {module}")
        unfinished = stored.with_name(f".crds.{os.getpid()}")
        unfinished.mkdir(parents=True)
        for source in sources:
            for file in (downloaded / source).glob("*.yaml"):
                (unfinished / file.name).write_bytes(file.read_bytes())
        unfinished.replace(stored)
    return sorted(stored.glob("*.yaml"))


def _download(folder: str, module: str, what: str) -> Path:
    """Return the folder with the source of a Go module, as go.mod and go.sum of a folder here name it."""
    command = ["go", "mod", "download", "-json", module]
    try:
        answer = subprocess.run(
            command, cwd=MODULES / folder, env=_environment(), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        message = f"no Go here to download {what}"
        raise MissingPart(message) from None
    if answer.returncode != 0:
        message = f"{what}: {_last_line(answer.stderr)}"
        raise MissingPart(message)
    return Path(json.loads(answer.stdout)["Dir"])


def _find(program: Program) -> Path | None:
    folders = [Path(given)] if (given := os.environ.get(GIVEN_FOLDER)) else []
    for folder in (*folders, cache_folder(program)):
        path = folder / program.name
        if os.access(path, os.X_OK) and path.is_file():
            return path.resolve()
    return None


def _build(program: Program, *, go: str, folder: Path) -> Path:
    target = folder / program.name
    unfinished = folder / f".{program.name}.{os.getpid()}"
    started = time.monotonic()
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", _linker_flags(program)]
    command += ["-o", str(unfinished), program.package]
    module = kubernetes_modules()[kubernetes_release()] if program.folder == KUBERNETES else program.folder
    try:
        build = subprocess.run(
            command, cwd=MODULES / module, env=_environment(), capture_output=True, text=True, check=False
        )
        if build.returncode != 0:
            message = f"{program.name} did not build: {_last_line(build.stderr)}"
            raise MissingPart(message)
        # A rename is atomic: nobody ever starts half a program.
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    _say(f"{program.name:<24} built in {time.monotonic() - started:5.1f} s")
    return target


def _environment() -> Mapping[str, str]:
    """Return Go's environment."""
    # The compiler collects garbage less often: a quarter less of the processor's time, for some memory. Go fetches
    # itself anew where a module asks for a newer one than there is.
    own = {"GOGC": "400", "GOTOOLCHAIN": "auto"}
    return {**own, **os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _linker_flags(program: Program) -> str:
    """Without its version set a Kubernetes server calls itself v0.0.0, and version checks of clients fail."""
    if program == HELM:
        version = required_version(program.folder, "helm.sh/helm/v4")
        return f"-s -w -X helm.sh/helm/v4/internal/version.version={version}"
    if program.folder != KUBERNETES:
        return "-s -w"
    wanted = Versions.wanted()
    major, minor, _patch = wanted.kubernetes.removeprefix("v").split(".", maxsplit=2)
    variables = {"gitVersion": wanted.kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = (f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items())
    return " ".join(("-s -w", *flags))


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a file lock: two test runs started together build once. The kernel frees it if the holder dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Find or build everything and say where it is."""
    everything = (*PROGRAMS, *MONITORING, HELM, ACTIONLINT)
    try:
        before = {program.name: path for program in everything if (path := _find(program))}
        paths = programs(everything)
        monitoring_definitions()
        sarif_schema()
    except (MissingPart, UnknownReleaseError) as error:
        _say(str(error))
        return 1
    for name, path in paths.items():
        if name in before:
            _say(f"{name:<24} found")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
