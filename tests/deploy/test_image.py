"""The image's recipe: what it starts exists, and it runs as the Deployment expects."""

import re
import runpy
import sys

import pytest

from tests.deploy.manifests import ROOT
from tools.environment import MACHINES
from tools.release import base_images

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_dependencies_are_installed_by_hash_only() -> None:
    """A replaced package on an index cannot get in."""
    assert "--require-hashes" in TEXT
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert all("\\" in line for line in lock.splitlines() if "==" in line and not line.startswith(" "))


def test_the_last_stage_has_no_shell_and_no_root() -> None:
    """Every instruction that starts something is in exec form, and none runs at build time."""
    last = TEXT[TEXT.rindex("\nFROM ") :]
    assert "RUN " not in last
    assert re.search(r"^USER 65532:65532$", last, re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", last, re.MULTILINE)
    assert all(line.split(" ", 1)[1].startswith("[") for line in last.splitlines() if re.match("ENTRYPOINT|CMD", line))


def test_both_stages_run_the_same_python() -> None:
    """debian13 is trixie, whose interpreter is 3.13: extensions and byte code of the first stage fit."""
    last, first = base_images()
    assert first == "python:3.13-slim-trixie"
    assert last.startswith("gcr.io/distroless/python3-debian13:")


def test_the_image_is_published_for_every_architecture_that_the_recipe_knows() -> None:
    """The first stage runs where it is built, and installs for the architecture that the second one is of."""
    workflow = (ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8")
    (published,) = re.findall(r"--platform (\S+)", workflow)
    assert published.split(",") == [f"linux/{architecture}" for architecture in MACHINES]
    assert dict(re.findall(r" (\w+)\) machine=(\w+) ;;", TEXT)) == MACHINES
    assert TEXT.count("FROM --platform=$BUILDPLATFORM ") == 1


def test_the_entry_point_is_a_module_that_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (module,) = re.findall(r'ENTRYPOINT \["/usr/bin/python3", "-m", "([\w.]+)"\]', TEXT)
    monkeypatch.setattr(sys, "argv", ["rebalancer", "--version"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module(module, run_name="__main__")
    assert capsys.readouterr().out.startswith("rebalancer ")


def test_the_build_sees_what_it_copies_and_nothing_else() -> None:
    """The context is an allow-list."""
    allowed = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n"))
    listed = re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.MULTILINE)
    copied = {name for line in listed for name in line.split()}
    assert "*" in allowed
    assert {line.removeprefix("!") for line in allowed if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
