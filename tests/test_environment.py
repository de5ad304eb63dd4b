"""What users install: the wheel and what the lock names. No development dependency, nothing that the image lacks."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, PackagePath, files
from pathlib import Path

import pytest

from rebalancer.cli.registry import VERBS
from tests.test_repository import ROOT, wheel
from tools.environment import (
    ELF_MACHINES,
    MACHINES,
    built_for,
    install,
    install_for_image,
    locked,
    removed_paths,
    sizes,
    unlocked_modules,
)

__all__ = ["wheel"]

PACKAGES = Path(sysconfig.get_paths()["purelib"])
SNAPSHOT = ("--snapshot", str(ROOT / "docs" / "examples" / "zone-returned.json"))
NOWHERE = ("--kubeconfig", "kubeconfig")
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
"""

COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (("run", "--once", *NOWHERE),),
    "report": (("report", *SNAPSHOT),),
    "plan": (("plan", *SNAPSHOT, "-o", "json"), ("plan", *NOWHERE)),
    "explain": (("explain", "pod/db-4", *SNAPSHOT),),
    "simulate": (("simulate", *SNAPSHOT),),
    "predict": (("predict", "--help"),),
    "resilience": (("resilience", "web", *SNAPSHOT),),
    "lint": (("lint", str(ROOT / "docs" / "examples" / "mistakes.yaml"), *SNAPSHOT, "--fail-on", "never"),),
    "suggest": (("suggest", "--limit", "<1/3", "--size", "9", "--domains", "3"),),
    "pause": (("pause", "--reason", "a test", *NOWHERE),),
    "resume": (("resume", *NOWHERE),),
    "policy": (("policy", "schema"), ("policy", "show")),
    "cleanup": (("cleanup", *NOWHERE),),
    "demo": (("demo",),),
    "approve": (("approve", *NOWHERE),),
    "apply": (("apply", "--help"),),
    "status": (("status", *NOWHERE),),
    "history": (("history", *NOWHERE),),
    "snapshot": (("snapshot", *NOWHERE),),
    "completion": (("completion", "bash"),),
    "check": (("check", *NOWHERE),),
    "version": (("version",),),
}
"""Commands of every verb; those with `NOWHERE` end with an error in one line, as no server is there."""


def imports(file: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports, and every text in it that could be one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield from (".".join(filter(None, (node.module, alias.name))) for alias in node.names)
            case ast.Constant(value=str(text)) if len(text) < 100:
                yield text


OPTIONAL = {
    "msgspec/_utils.py": "for classes of attrs, of which there are none",
    "prometheus_client/aiohttp/exposition.py": "for those who serve metrics by aiohttp",
}
"""Modules that import what is left out, and only for those who have it."""


def importers(packages: Iterable[str]) -> dict[str, set[str]]:
    """Return the files that import each of these packages, of this program and of what is locked and not left out."""
    left_out = [PACKAGES / path for path in removed_paths()]
    installed = [file for one in locked() for file in packages_files(one.requirement.name) if file.suffix == ".py"]
    words = re.compile(rf"^\s*(?:import|from) ({'|'.join(packages)})\b", re.MULTILINE)
    found: dict[str, set[str]] = {}
    for file in [*(ROOT / "rebalancer").rglob("*.py"), *(Path(str(file.locate())) for file in installed)]:
        if not any(path in file.parents for path in left_out) and not str(file).endswith(tuple(OPTIONAL)):
            for package in words.findall(file.read_text("utf-8")):
                found.setdefault(package, set()).add(str(file))
    return found


def packages_files(name: str) -> Sequence[PackagePath]:
    """Return the files of an installed package, none of one that this Python has not."""
    try:
        return files(name) or ()
    except PackageNotFoundError:
        return ()


def test_nothing_imports_a_package_that_the_lock_leaves_out() -> None:
    """Though the client of Kubernetes requires it: neither this program does, nor what the lock names."""
    modules = unlocked_modules()
    assert modules == {
        *("aiohappyeyeballs", "aiohttp", "aiohttp_retry", "aiosignal", "attr", "attrs"),
        *("frozenlist", "multidict", "propcache", "yarl"),
    }
    assert importers(modules) == {}


@pytest.mark.parametrize("removed", removed_paths())
def test_nothing_imports_what_the_image_leaves_out(removed: str) -> None:
    """Neither this program nor what it depends on, by name."""
    package, _, name = removed.partition("/")
    sources = [*(ROOT / "rebalancer").rglob("*.py"), *(PACKAGES / package).rglob("*.py")]
    outside = [file for file in sources if (PACKAGES / removed) not in file.parents]
    assert len(outside) > 100
    words = {f"{package}.{name}", name, f".{name}"}
    for file in outside:
        if name not in file.read_text(encoding="utf-8"):
            continue
        wrong = [text for text in imports(file) if text in words or text.startswith((f"{package}.{name}.", f"{name}."))]
        assert wrong == [], file


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", MACHINES)
def test_the_lock_has_wheels_for_every_architecture_of_the_image(architecture: str, tmp_path: Path) -> None:
    """For the image's Python, by hash and without compiling."""
    install_for_image(tmp_path, architecture)
    assert built_for(tmp_path) == {ELF_MACHINES[architecture]}


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", MACHINES)
def test_the_image_is_made_for_an_architecture_on_any_other(architecture: str, tmp_path: Path) -> None:
    """The Dockerfile's own command, with this machine's Python in the place of the image's."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^RUN (case (?:.*\\\n| *#.*\n)*.*)$", text, re.MULTILINE)
    folder = tmp_path / "app"
    script = re.sub(r"^ *#.*\n", "", command, flags=re.MULTILINE).replace("/app", str(folder))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-ec", script],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "TARGETARCH": architecture},
        check=True,
        capture_output=True,
    )
    assert built_for(folder) == {ELF_MACHINES[architecture]}
    assert not any((folder / removed).exists() for removed in removed_paths())


def test_every_verb_has_a_command_here() -> None:
    assert COMMANDS.keys() == {verb.name for verb in VERBS}


@pytest.mark.thorough
def test_a_fresh_environment_has_all_that_the_commands_need(wheel: Path, tmp_path: Path) -> None:
    """Installed from the index, without what the image leaves out; every command works from there."""
    folder = tmp_path / "app"
    install(folder)
    for removed in removed_paths():
        shutil.rmtree(folder / removed)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True, capture_output=True, timeout=120)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REBALANCER_"))}
    environment |= {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "KUBECONFIG": ""}
    # -S and -I would leave PYTHONPATH out, too: the interpreter is that of no virtual environment instead.
    interpreter = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    for command in (entry for entries in COMMANDS.values() for entry in entries):
        done = subprocess.run(
            [interpreter, "-s", "-m", "rebalancer.cli.main", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, (command, done.stderr)
        if NOWHERE[0] in command:
            assert (done.returncode, "127.0.0.1:1" in done.stderr) == (1, True), (command, done.stderr)
        else:
            assert (done.returncode, bool(done.stdout)) == (0, True), (command, done.stderr)
    packages = [name for name, _, _ in sizes(folder)]
    assert len(packages) == len({name.split(" ")[0].lower() for name in packages})
    report = subprocess.run(
        [
            interpreter,
            "-s",
            "-c",
            "import json, rebalancer, kubernetes; print(json.dumps([rebalancer.__file__, kubernetes.__file__]))",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(Path(file).is_relative_to(folder) for file in json.loads(report.stdout))
