"""kubectl's plugin as krew installs it: the manifest follows the rules of krew's index, the archive starts."""

import hashlib
import os
import re
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer import __version__
from tests.control_plane.api import wait_until
from tests.deploy.manifests import ROOT
from tests.deploy.rendering import program
from tools.krew import ARCHIVE, MANIFEST, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("krew")
    main([str(made)])
    return made


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((folder / MANIFEST).read_text(encoding="utf-8"))
    return document


def test_the_manifest_has_what_the_index_demands(manifest: dict[str, Any], folder: Path) -> None:
    """Names, a semantic version with a v, short texts, and for each platform the archive with its sum."""
    spec = manifest["spec"]
    assert (manifest["kind"], manifest["metadata"]) == ("Plugin", {"name": "rebalance"})
    assert spec["version"] == f"v{__version__}"
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert all(len(line) <= 100 for text in ("description", "caveats") for line in spec[text].splitlines())
    labels = {tuple(platform["selector"]["matchLabels"].values()) for platform in spec["platforms"]}
    assert labels == {(system, machine) for system in ("linux", "darwin") for machine in ("amd64", "arm64")}
    digest = hashlib.sha256((folder / ARCHIVE).read_bytes()).hexdigest()
    for platform in spec["platforms"]:
        assert platform["sha256"] == digest
        assert re.fullmatch(r"https://\S+\.tar\.gz", platform["uri"])
        assert platform["bin"] == "kubectl-rebalance"


def test_the_archive_has_what_the_plugin_needs_and_its_licence(folder: Path, tmp_path: Path) -> None:
    """Krew refuses an archive with links or paths that lead out of it; equal files are an equal archive."""
    with tarfile.open(folder / ARCHIVE) as archive:
        entries = {entry.name: entry for entry in archive.getmembers()}
    assert entries.keys() == {
        "LICENSE",
        "kubectl-rebalance",
        "install.py",
        f"rebalancer-{__version__}-py3-none-any.whl",
        "requirements.lock",
    }
    assert all(entry.isreg() and (entry.uid, entry.mtime) == (0, 0) for entry in entries.values())
    assert entries["kubectl-rebalance"].mode == 0o755
    main([str(tmp_path)])
    assert (tmp_path / ARCHIVE).read_bytes() == (folder / ARCHIVE).read_bytes()


def unpack(folder: Path, place: Path) -> dict[str, str]:
    """Install the archive as krew does, a link on the PATH to a folder of the plugin's; return the environment."""
    store, binaries = place / "store", place / "bin"
    store.mkdir()
    binaries.mkdir()
    with tarfile.open(folder / ARCHIVE) as archive:
        # Python 3.11 has filters from 3.11.4 on, and the first one without is supported, too.
        archive.extractall(store, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    (binaries / "kubectl-rebalance").symlink_to(store / "kubectl-rebalance")
    path = f"{binaries}:{Path(program('kubectl')).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(place), "XDG_DATA_HOME": str(place / "data")}


def kubectl(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(program("kubectl")), "rebalance", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.thorough
def test_kubectl_finds_it_and_it_installs_itself_once(folder: Path, tmp_path: Path) -> None:
    """From the index of packages, by hash; afterwards it says nothing but its answer."""
    environment = unpack(folder, tmp_path)
    first, second = kubectl(environment, "--version"), kubectl(environment, "--version")
    assert first.stdout == second.stdout == f"rebalancer {__version__}\n"
    assert first.stderr.startswith(f"kubectl rebalance: installing rebalancer {__version__} into {tmp_path}/data/")
    assert (second.returncode, second.stderr) == (0, "")
    report = kubectl(environment, "report", "--snapshot", "docs/examples/zone-returned.json")
    assert report.stdout.startswith("Report: 7 of 7 constraints not satisfied")
    assert "kubectl rebalance plan" in kubectl(environment, "plan", "--help").stdout


@pytest.mark.thorough
def test_of_two_first_calls_at_once_one_installs(folder: Path, tmp_path: Path) -> None:
    """The other waits for it."""
    environment = unpack(folder, tmp_path)
    calls = [start(environment, "--version") for _ in range(2)]
    ended = [call.communicate(timeout=300) for call in calls]
    assert [answer for answer, _ in ended] == [f"rebalancer {__version__}\n"] * 2
    assert sorted(text.startswith("kubectl rebalance: installing") for _, text in ended) == [False, True]
    assert left_in(tmp_path) == [".lock", __version__]


@pytest.mark.thorough
def test_an_installation_that_was_ended_or_whose_python_is_gone_is_made_anew(folder: Path, tmp_path: Path) -> None:
    """Ctrl-C leaves nothing; what a kill or an upgrade of Python leaves is replaced, as are other versions."""
    environment = unpack(folder, tmp_path)
    call = start(environment, "--version")
    wait_until((tmp_path / "data/kubectl-rebalance" / __version__ / "lib").exists, what="a part of it")
    os.killpg(call.pid, signal.SIGINT)
    _, text = call.communicate(timeout=60)
    assert (call.returncode, text.count("Traceback")) == (-signal.SIGINT, 0)
    assert left_in(tmp_path) == [".lock"]
    (tmp_path / "data/kubectl-rebalance/0.0.1").mkdir()
    assert kubectl(environment, "--version").stdout == f"rebalancer {__version__}\n"
    assert left_in(tmp_path) == [".lock", __version__]
    python = tmp_path / "data/kubectl-rebalance" / __version__ / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert kubectl(environment, "--version").stdout == f"rebalancer {__version__}\n"


def start(environment: dict[str, str], *words: str) -> "subprocess.Popen[str]":
    command = [str(program("kubectl")), "rebalance", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def left_in(place: Path) -> list[str]:
    return sorted(entry.name for entry in (place / "data" / "kubectl-rebalance").iterdir())


def test_without_an_index_it_says_what_it_needs(folder: Path, tmp_path: Path) -> None:
    """And leaves nothing behind."""
    environment = {**unpack(folder, tmp_path), "PIP_NO_INDEX": "1"}
    environment.pop("PIP_FIND_LINKS", None)
    done = kubectl(environment, "--version")
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: kubectl rebalance could not be installed, for which it needs an index of packages: ")
    assert left_in(tmp_path) == [".lock"]


def test_without_a_python_it_says_what_is_needed(folder: Path, tmp_path: Path) -> None:
    environment = unpack(folder, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "readlink", "basename", "cut", "mkdir"):
        (tools / name).symlink_to(next(p for p in (Path("/usr/bin") / name, Path("/bin") / name) if p.exists()))
    plugin = Path(tmp_path, "bin", "kubectl-rebalance")
    only = {**environment, "PATH": str(tools)}
    done = subprocess.run(["/bin/sh", str(plugin)], env=only, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: kubectl rebalance needs Python 3.11 or newer")
    assert not (tmp_path / "data").exists()
