"""Lint where others run it: the hook of pre-commit, the action of a workflow, the SARIF that code scanning reads."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.control_plane.build import ACTIONLINT, MissingPart, found, sarif_schema
from tests.deploy.manifests import DEPLOY, ROOT
from tests.lint.build import deployment, text
from tests.monitoring.programs import or_skip

ACTION = DEPLOY / "gitops" / "lint"
MISTAKES = "docs/examples/mistakes.yaml"
CLUSTER = "docs/examples/zone-returned.json"
USES = """
on: push
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: ./deploy/gitops/lint
        with: {WITH}
"""


def rebalancer(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rebalancer.cli.start", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """Return a folder with the program, as the action installs it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "rebalancer"
    program.write_text(f'#!/usr/bin/env bash\nexec {shlex.quote(sys.executable)} -m rebalancer.cli.start "$@"\n')
    program.chmod(0o755)
    return folder


def run_action(bin_folder: Path, sarif: Path, files: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's script as its step does."""
    own = {"FILES": files, "FAIL_ON": "error", "SNAPSHOT": "", "SARIF": str(sarif), **inputs}
    environment = {**os.environ, **own, "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = ["bash", str(ACTION / "lint.sh")]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("flags", [(), ("--snapshot", CLUSTER, "--drain", "a-0")])
def test_the_sarif_is_valid_by_its_schema(flags: tuple[str, ...]) -> None:
    """With all that the format says: formats of texts, and no field that it does not have."""
    try:
        schema = json.loads(sarif_schema())
    except MissingPart as missing:
        or_skip(missing)
    log = json.loads(rebalancer("lint", MISTAKES, *flags, "-o", "sarif", "--fail-on", "never").stdout)
    checker = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    checker.validate(log)
    assert log["runs"][0]["results"]
    log["runs"][0]["results"][0]["level"] = "worse"
    assert list(checker.iter_errors(log)), "the schema says something"


def test_the_hook_lints_the_files_that_are_committed() -> None:
    """pre-commit appends their names to the entry."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = (one for one in hooks if one["id"] == "rebalancer-lint")
    program, *words = shlex.split(hook["entry"])
    assert program == "rebalancer"
    refused = rebalancer(*words, "docs/examples/limits.yaml", MISTAKES)
    assert (refused.returncode, "[contradictory-constraints]" in refused.stdout) == (3, True)


def test_the_action_annotates_what_it_finds_and_fails_as_lint_does(bin_folder: Path, tmp_path: Path) -> None:
    """At the file and line of each finding; the SARIF file has the same."""
    sarif = tmp_path / "lint.sarif"
    done = run_action(bin_folder, sarif, MISTAKES)
    assert done.returncode == 3, done.stderr
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::")]
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    assert len(annotations) == len(results) == 5
    assert annotations[-1].startswith(
        f"::error file={MISTAKES},line=58,title=contradictory-constraints::StatefulSet shop/ledger: minDomains"
    )
    assert run_action(bin_folder, sarif, MISTAKES, FAIL_ON="never").returncode == 0
    assert run_action(bin_folder, sarif, "gone.yaml").returncode == 1


def test_the_action_annotates_what_it_finds_beside_a_file_that_cannot_be_read(bin_folder: Path, tmp_path: Path) -> None:
    """That file is named, and fails it."""
    done = run_action(bin_folder, tmp_path / "lint.sarif", f"gone.yaml {MISTAKES}")
    assert done.returncode == 1
    assert f"::error file={MISTAKES},line=58,title=contradictory-constraints::" in done.stdout
    assert "gone.yaml cannot be read" in done.stderr


def test_the_action_takes_several_files_and_a_cluster(bin_folder: Path, tmp_path: Path) -> None:
    """Names are separated by spaces; what a cluster shows is annotated, too."""
    good = tmp_path / "good.yaml"
    good.write_text(text(deployment(1)))
    done = run_action(bin_folder, tmp_path / "lint.sarif", f"{good} {MISTAKES}", SNAPSHOT=CLUSTER)
    assert done.returncode == 3
    assert "title=missing-domains::" in done.stdout
    assert "4 objects in 2 files" in done.stdout


def check_workflow(actionlint: Path, tmp_path: Path, given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run actionlint over a workflow that uses the action with some inputs."""
    shutil.rmtree(tmp_path / "repository", ignore_errors=True)
    workflows = tmp_path / "repository" / ".github" / "workflows"
    workflows.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path / "repository")], check=True)
    shutil.copytree(ACTION, tmp_path / "repository" / "deploy" / "gitops" / "lint")
    (workflows / "lint.yaml").write_text(USES.replace("{WITH}", json.dumps(given)))
    command = [str(actionlint), "-no-color"]
    return subprocess.run(command, cwd=tmp_path / "repository", capture_output=True, text=True, check=False)


def test_actionlint_accepts_the_action_and_the_workflows(tmp_path: Path) -> None:
    """It reads the action's inputs where a workflow uses it: one that is missing or unknown is an error."""
    try:
        actionlint = found(ACTIONLINT)
    except MissingPart as missing:
        or_skip(missing)
    own = subprocess.run([str(actionlint), "-no-color"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (own.returncode, own.stdout) == (0, "")
    used = check_workflow(actionlint, tmp_path, {"files": "deploy", "fail-on": "warning"})
    assert (used.returncode, used.stdout) == (0, "")
    assert 'missing input "files"' in check_workflow(actionlint, tmp_path, {}).stdout
    assert (
        'input "fail_on" is not defined' in check_workflow(actionlint, tmp_path, {"files": "x", "fail_on": "y"}).stdout
    )
