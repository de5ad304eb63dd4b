"""What `helm template` and `kubectl kustomize` print, read."""

import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.build import HELM, PROGRAMS, MissingPart, found
from tests.deploy.manifests import DEPLOY, Manifest, identity
from tests.monitoring.programs import or_skip

CHART = DEPLOY / "chart" / "rebalancer"
NAMESPACE = "rebalancer-system"
VERSION = "1.37.0"

Objects = dict[tuple[str, str, str], Manifest]


@cache
def program(name: str) -> Path:
    """Return helm or kubectl; the test is skipped where nobody has built it, but not in CI."""
    (wanted,) = [entry for entry in (*PROGRAMS, HELM) if entry.name == name]
    try:
        return found(wanted)
    except MissingPart as missing:
        or_skip(missing)


def require_programs(*names: str) -> None:
    """Skip the test where one of these programs is missing, but not in CI."""
    for name in names:
        program(name)


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm with values, which it reads from its standard input."""
    flags = ["--values", "-"] if values is not None else []
    text = yaml.safe_dump(dict(values)) if values is not None else None
    return subprocess.run(
        [program("helm"), *arguments, *flags], input=text, capture_output=True, text=True, check=False, timeout=120
    )


def render_chart(values: Mapping[str, Any], *, namespace: str = NAMESPACE, hooks: bool = False) -> list[Manifest]:
    """Return what the chart installs with these values, without its hooks or only its hooks."""
    flags = ("--namespace", namespace, "--kube-version", VERSION)
    done = helm("template", "rebalancer", str(CHART), *flags, values=values)
    assert done.returncode == 0, done.stderr
    manifests = [document for document in yaml.safe_load_all(done.stdout) if document]
    return [manifest for manifest in manifests if ("helm.sh/hook" in _annotations(manifest)) == hooks]


def render_kustomization(folder: Path) -> list[Manifest]:
    """Return what `kubectl apply -k` of a folder applies."""
    done = subprocess.run(
        [program("kubectl"), "kustomize", folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def by_identity(manifests: Iterable[Manifest]) -> Objects:
    """Index manifests by kind, namespace and name; each is there once."""
    manifests = list(manifests)
    objects = {identity(manifest): manifest for manifest in manifests}
    assert len(objects) == len(manifests)
    return objects


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("annotations") or {}
