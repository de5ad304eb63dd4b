"""The Kubernetes release that the tests run on is chosen by the environment, among those that have a module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer.model.cluster import NEWEST
from tests.control_plane.build import (
    CHOICE,
    GIVEN_FOLDER,
    MODULES,
    PROGRAMS,
    Versions,
    cache_folder,
    kubernetes_modules,
    kubernetes_release,
    programs,
)

ROOT = Path(__file__).resolve().parents[1]


def test_the_modules_reach_from_the_oldest_supported_release_to_the_newest() -> None:
    """The tests can run on the oldest release that the documents promise, on the newest, and on one between."""
    releases = list(kubernetes_modules())
    assert f"* Kubernetes {releases[0]} and newer." in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert releases[-1] == str(NEWEST)
    assert len(releases) >= 3


def test_the_newest_release_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a choice, or with an empty one, the tests run on the newest release."""
    monkeypatch.delenv(CHOICE, raising=False)
    assert kubernetes_release() == str(NEWEST)
    monkeypatch.setenv(CHOICE, "")
    assert kubernetes_release() == str(NEWEST)


@pytest.mark.parametrize("release", kubernetes_modules())
def test_a_release_has_servers_of_its_own(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen release's servers lie in its own folder; what is not Kubernetes' own is the same for all releases."""
    monkeypatch.delenv(CHOICE, raising=False)
    shared = {program.name: cache_folder(program) for program in PROGRAMS if program.name in {"etcd", "kwok"}}
    monkeypatch.setenv(CHOICE, release)
    folders = {program.name: cache_folder(program) for program in PROGRAMS}
    assert Versions.wanted().kubernetes.startswith(f"v{release}.")
    assert folders["kube-scheduler"].name == Versions.wanted().folder
    assert {name: folders[name] for name in shared} == shared


@pytest.mark.parametrize("release", kubernetes_modules())
def test_a_module_names_one_release(release: str) -> None:
    """Every staging module is replaced by that of the same release: a mixture would build, and be no release."""
    patch = Versions.wanted(release).kubernetes.removeprefix("v1.")
    text = (MODULES / kubernetes_modules()[release] / "go.mod").read_text(encoding="utf-8")
    replaced = [line.split() for line in text.splitlines() if line.startswith("replace ")]
    assert len(replaced) > 20
    assert {(words[1], words[4]) for words in replaced} == {(words[3], f"v0.{patch}") for words in replaced}


def test_the_servers_of_the_chosen_release_are_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Go builds them in the folder of that release's module, with its version in them."""
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do args="$args $1"; shift; done\necho "$PWD $args" > "$2"\nchmod +x "$2"\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(GIVEN_FOLDER, raising=False)
    oldest = next(iter(kubernetes_modules()))
    monkeypatch.setenv(CHOICE, oldest)
    built = programs(program for program in PROGRAMS if program.name == "kube-scheduler")["kube-scheduler"]
    folder, arguments = built.read_text(encoding="utf-8").split(" ", maxsplit=1)
    assert folder == str(MODULES / kubernetes_modules()[oldest])
    assert f"gitVersion={Versions.wanted().kubernetes} " in arguments


@pytest.mark.parametrize("command", [["tests.control_plane.build"], ["pytest", "-q", str(Path(__file__))]])
def test_a_release_without_a_module_is_refused(command: list[str]) -> None:
    """One line names the releases that there are, before anything is built or tested."""
    environment = {**os.environ, CHOICE: "1.29"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"{CHOICE} is '1.29', expected one of {', '.join(kubernetes_modules())}" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
