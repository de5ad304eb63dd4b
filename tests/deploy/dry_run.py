"""Runs the jobs of a workflow here: each in its own checkout, its scripts as they are, without a network.

Actions are what they do to files: a checkout, an artifact that one job leaves for another. Programs that would talk to
others are stand-ins that write down what they were asked, see `STAND_INS`; all else is real.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.test_repository import ROOT, tracked

STAND_IN: Final = """\
import hashlib, json, os, pathlib, subprocess, sys

program, *arguments = sys.argv[1:]
secret = sys.stdin.read() if "--password-stdin" in arguments else os.environ.get("GH_TOKEN")
entry = {"program": program, "arguments": arguments, "secret": secret, "folder": os.getcwd()}
with open(os.environ["ASKED"], "a") as asked:
    asked.write(json.dumps(entry) + "\\n")
if " ".join([program, *arguments]).startswith(os.environ["FAILING"]):
    sys.exit(f"{program}: no such host")
match program, arguments:
    case "docker", ["buildx", "imagetools", "inspect", image, *_]:
        print("sha256:" + hashlib.sha256(image.encode()).hexdigest())
    case "docker", ["buildx", "build", *options]:
        digest = "sha256:" + hashlib.sha256(pathlib.Path("Dockerfile").read_bytes()).hexdigest()
        file = pathlib.Path(options[options.index("--metadata-file") + 1])
        file.write_text(json.dumps({"containerimage.digest": digest}))
    case "helm", ["package", *_]:
        sys.exit(subprocess.run([os.environ["HELM"], *arguments]).returncode)
    case "helm", ["push", chart, to]:
        digest = hashlib.sha256(pathlib.Path(chart).read_bytes()).hexdigest()
        print(f"Pushed: {to.removeprefix('oci://')}\\nDigest: sha256:{digest}", file=sys.stderr)
"""
STAND_INS: Final = ("docker", "helm", "cosign", "gh")
"""Registry, signatures and release page; a chart is packed by the real program.

The registry gives each base the SHA-256 of its name as its digest, an image that of its Dockerfile.
"""

_ACTIONS: Final = {
    *("actions/checkout", "actions/upload-artifact", "actions/download-artifact"),
    *("pypa/gh-action-pypi-publish", "sigstore/cosign-installer"),
}
_STEP: Final = {"name", "run", "env", "uses", "with"}
_JOB: Final = {"name", "needs", "runs-on", "timeout-minutes", "permissions", "environment", "env", "steps"}
_BASH: Final = 4
"""The oldest major version that has what the scripts use."""


class StepFailed(Exception):  # noqa: N818 - what happened, not an error of this program
    """A step of a job ended with another status than 0: its name and what it printed."""


def missing_programs() -> list[str]:
    """Return what a runner has for scripts, and this machine has not."""
    missing = [name for name in ("git", "jq", "make") if shutil.which(name) is None]
    asked = subprocess.run(["bash", "-c", "echo ${BASH_VERSINFO[0]}"], capture_output=True, text=True, check=False)
    return [*missing, *([] if int(asked.stdout or 0) >= _BASH else [f"bash {_BASH}"])]


class DryRun:
    """A run of a workflow for a tag, in a folder of its own, with the real helm for what needs no network.

    A stand-in whose command begins with `failing` fails, as one does that reaches nobody. Steps of the names in
    `skipped` are not run.
    """

    def __init__(
        self,
        workflow: str,
        folder: Path,
        *,
        tag: str,
        helm: Path,
        failing: str = "nothing",
        skipped: Sequence[str] = (),
    ) -> None:
        document = yaml.safe_load(workflow)
        self.jobs: Mapping[str, Any] = document["jobs"]
        for job in self.jobs.values():
            _check_known(job)
        self._shell = document.get("defaults", {}).get("run", {}).get("shell")
        self.published: list[str] = []
        """The files that the package index was given."""
        self._folder, self._skipped = folder, skipped
        self._programs, self._asked = folder / "programs", folder / "asked"
        self._programs.mkdir(parents=True)
        script = self._programs / "stand_in.py"
        script.write_text(STAND_IN, encoding="utf-8")
        for name in STAND_INS:
            command = shlex.join([sys.executable, str(script), name])
            (self._programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            (self._programs / name).chmod(0o755)
        self._environment = {
            **{name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ},
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "GITHUB_REF_NAME": tag,
            "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
            "GITHUB_ACTOR": "somebody",
            "GITHUB_REPOSITORY": "Example/rebalancer",
            "GITHUB_SERVER_URL": "https://host.example",
            "ASKED": str(self._asked),
            "FAILING": failing,
            "HELM": str(helm),
        }

    def asked(self, program: str) -> list[Mapping[str, Any]]:
        """Return the calls of a stand-in, in their order."""
        if not self._asked.exists():
            return []
        entries = map(json.loads, self._asked.read_text(encoding="utf-8").splitlines())
        return [entry for entry in entries if entry["program"] == program]

    def artifact(self, name: str) -> Path:
        """Return the folder of what a job has left for others."""
        return self._folder / "artifacts" / name

    def run(self, *, after: "DryRun | None" = None) -> None:
        """Run each job after those that it needs; the first step that fails ends it all.

        What the job `build` of another run has left is taken `after` that, and not built again.
        """
        done: set[str] = set()
        if after is not None:
            shutil.copytree(after.artifact("built"), self.artifact("built"))
            done.add("build")
        while len(done) < len(self.jobs):
            name = next(name for name in self.jobs if name not in done and done.issuperset(self._needs(name)))
            self._run_job(name)
            done.add(name)

    def _needs(self, name: str) -> Sequence[str]:
        needs = self.jobs[name].get("needs", [])
        return [needs] if isinstance(needs, str) else needs

    def _run_job(self, name: str) -> None:
        job, work = self.jobs[name], self._folder / name
        work.mkdir()
        given = work.with_suffix(".environment")
        given.touch()
        environment = {**self._environment, **_fill_in(job.get("env", {})), "GITHUB_ENV": str(given)}
        for step in job["steps"]:
            if "uses" in step:
                self._act(_action(step), step.get("with", {}), work)
            elif step["name"] not in self._skipped:
                self._run_script(step, work, {**environment, **dict(_read(given)), **_fill_in(step.get("env", {}))})

    def _run_script(self, step: Mapping[str, Any], work: Path, environment: Mapping[str, str]) -> None:
        # As the runner does: a pipe fails with any of its parts only where the shell is named.
        pipes = ["-o", "pipefail"] if self._shell == "bash" else []
        command = ["bash", "--noprofile", "--norc", "-e", *pipes, "-c", step["run"]]
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise StepFailed(f"{step['name']}: {done.stdout}{done.stderr}")

    def _act(self, action: str, options: Mapping[str, Any], work: Path) -> None:
        match action:
            case "actions/checkout":
                _check_out(work)
            case "actions/upload-artifact":
                files = work / options["path"]
                if not (files.is_dir() and any(files.iterdir())):
                    raise StepFailed(f"{options['path']}: no files")
                shutil.copytree(files, self.artifact(options["name"]))
            case "actions/download-artifact":
                shutil.copytree(self.artifact(options["name"]), work / options["path"], dirs_exist_ok=True)
            case "pypa/gh-action-pypi-publish":
                self.published += sorted(file.name for file in (work / "dist").iterdir())


def _action(step: Mapping[str, Any]) -> str:
    name: str = step["uses"].split("@")[0]
    return name


def _check_known(job: Mapping[str, Any]) -> None:
    """Refuse what the runner would heed, and this would not."""
    unknown = {*(job.keys() - _JOB), *(word for step in job["steps"] for word in step.keys() - _STEP)}
    unknown |= {_action(step) for step in job["steps"] if "uses" in step} - _ACTIONS
    if unknown:
        raise NotImplementedError(f"{job.get('name')}: {', '.join(sorted(unknown))}")


def _fill_in(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables with what stands for a secret or a fact of the repository."""
    return {name: re.sub(r"\$\{\{ ([\w.]+) \}\}", r"<\1>", value) for name, value in variables.items()}


def _read(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if not equals:
            raise NotImplementedError(f"GITHUB_ENV: {line}")
        yield name, value


def _check_out(work: Path) -> None:
    """Copy what is in the repository, as one commit, beside an environment that is there already, for `make`, too."""
    for file in tracked():
        copy = work / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "--all", "--force"], [*identity, "commit", "-qm", "a version"]):
        subprocess.run(["git", *command], cwd=work, check=True, capture_output=True)
    environment = work / ".venv"
    environment.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name != ".installed":
            (environment / entry.name).symlink_to(entry)
    (environment / ".installed").touch()  # newer than the lock, so that nothing is installed into this environment
