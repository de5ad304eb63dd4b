"""The repository itself: nothing of a developer's machine, nothing unpinned, and a wheel that installs and runs."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rebalancer import __version__

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
LOCKED = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)(?P<marker> ;[^\\\n]*)?(?P<hashes>( \\\n    --hash=\S+)+)\n"
)
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the licence's text as the Apache Software Foundation publishes it."""

# Put together here, so that this file does not hold what it looks for.
MACHINES = re.compile("/" + r"(?:work|root|home|Users)/[\w.-]+")
REGISTRIES = re.compile(
    "|".join(
        re.escape(".".join(host))
        for host in (
            ("pypi", "org"),
            ("files", "pythonhosted", "org"),
            ("proxy", "golang", "org"),
            ("registry", "npmjs", "org"),
            ("crates", "io"),
        )
    )
)


@cache
def tracked() -> tuple[Path, ...]:
    """Return the files of the repository that exist; one that is being deleted does not."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return tuple(ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file())


@cache
def pyproject() -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def find_lines(pattern: re.Pattern[str]) -> list[str]:
    """Return where a pattern occurs."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in tracked()
        if path.suffix != ".png"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for match in [pattern.search(line)]
        if match
    ]


def test_every_tracked_file_is_text() -> None:
    """No binaries: they cannot be reviewed. But pictures in the documentation, which `make pictures` takes."""
    for path in tracked():
        data = path.read_bytes()
        if path.suffix == ".png":
            assert path.parent == ROOT / "docs" / "pictures", path
            assert data.startswith(b"\x89PNG"), path
            assert len(data) <= 200_000, path
            continue
        assert b"\0" not in data, path
        data.decode("utf-8")


def test_tracked_files_are_small() -> None:
    """Each can be read; generated data of megabytes belongs elsewhere."""
    assert [path for path in tracked() if path.stat().st_size > 1_000_000] == []


def test_no_path_of_a_machine() -> None:
    """A file that names a folder of somebody's machine works on that one only."""
    assert find_lines(MACHINES) == []


def test_no_registry_is_named() -> None:
    """Where packages come from is the user's configuration, a mirror perhaps."""
    assert find_lines(REGISTRIES) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(MACHINES, "see /" + "home/ann/notes"), (REGISTRIES, "https://" + "pypi." + "org/simple")],
)
def test_the_patterns_match_what_they_forbid(pattern: re.Pattern[str], text: str) -> None:
    """The two tests above can fail."""
    assert pattern.search(text)


def test_the_makefile_tells_of_every_target() -> None:
    """`make` alone lists all there is; each is phony, since none makes a file of its name."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z][a-z-]*):(.*)$", text, re.MULTILINE)
    assert {"demo", "test", "lint", "docs"} <= {name for name, _ in targets}
    assert [name for name, rest in targets if not re.search(r"## \S", rest)] == []
    assert {name for name, _ in targets} == set(re.findall(r"^\.PHONY: (\S+)$", text, re.MULTILINE))


UNDOCUMENTED = """from typing import Protocol


def function() -> None: ...


class Thing(Protocol):
    def method(self) -> None: ...
"""


def test_what_is_public_and_undocumented_does_not_pass_the_linter() -> None:
    """Module, function and class of the package; `make lint` runs the same rules over all of it."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--output-format=json",
        "--stdin-filename=rebalancer/planted.py",
        "-",
    ]
    done = subprocess.run(command, input=UNDOCUMENTED, cwd=ROOT, capture_output=True, text=True, check=False)
    assert {entry["code"] for entry in json.loads(done.stdout)} >= {"D100", "D101", "D103"}
    exempt = pyproject()["tool"]["ruff"]["lint"]["per-file-ignores"]
    assert [path for path in exempt if path.startswith("rebalancer/")] == ["rebalancer/decoding/*wire.py"]


Function = ast.FunctionDef | ast.AsyncFunctionDef

LONGEST = 45
"""Lines of a function, with its signature and its docstring."""
LONGER = {
    "rebalancer/adapters/kubernetes/reflector.py:__init__": "a line for each field, and what each means",
    "rebalancer/controller/loop.py:_handle": "a case for each event",
    "rebalancer/controller/loop.py:_handle_cycle": "what a cycle is made of and what follows from it, in order",
    "rebalancer/decoding/pods.py:decode_pod": "a line for each field of a pod",
    "rebalancer/documents/events.py:events_of": "a case for each occurrence",
}
"""The functions that are longer, and why."""


def functions(*roots: str) -> Iterator[tuple[str, Function]]:
    """Yield every function below some folders, with its file and name."""
    for path in tracked():
        name = path.relative_to(ROOT)
        if path.suffix == ".py" and name.parts[0] in roots:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, Function):
                    yield f"{name}:{node.name}", node


def count_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_no_function_is_longer_than_a_page() -> None:
    """One that is has its reason here, and one with a reason is that long."""
    longer = {name for name, function in functions("rebalancer") if count_lines(function) > LONGEST}
    assert longer == LONGER.keys()


IDLE = {"a", "an", "the", "it", "its", "this", "that", "return"}
"""Words that add nothing to a name."""


def repeats_name(function: Function) -> bool:
    """Return whether a docstring has no word that the name of its function does not have."""
    text = ast.get_docstring(function) or ""
    said, named = ({word.rstrip("s") for word in re.findall("[a-z]+", part.lower())} for part in (text, function.name))
    return bool(text) and said - IDLE <= named


def test_no_docstring_only_repeats_the_name() -> None:
    """It says more, or there is none."""
    everywhere = functions("rebalancer", "tests", "tools", "benchmarks")
    assert [name for name, function in everywhere if repeats_name(function)] == []


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ('def begin(): """Begin."""', True),
        ('def read_pages(): """Return the page that it reads."""', True),
        ('def read_pages(): """Read pages, until one is empty."""', False),
        ("def read_pages(): return 1", False),
    ],
)
def test_what_counts_as_a_repeated_name(text: str, *, repeats: bool) -> None:
    """Articles, plurals and "Return" make no difference; another word does."""
    function = ast.parse(text).body[0]
    assert isinstance(function, Function)
    assert repeats_name(function) == repeats


def test_the_licence_is_apache_2() -> None:
    """The text as published, and the same named in the metadata."""
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE
    assert pyproject()["project"]["license"] == "Apache-2.0"


def locked(name: str) -> Mapping[str, str]:
    """Return the versions that a lock file pins; everything in it must be a pinned requirement with hashes."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert LOCKED.sub("", text) == "", f"{name} holds something that is not pinned with hashes"
    assert all(
        re.fullmatch(r"(?: \\\n    --hash=sha256:[0-9a-f]{64})+", entry["hashes"]) for entry in LOCKED.finditer(text)
    )
    return {canonicalize_name(entry["name"]): entry["version"] for entry in LOCKED.finditer(text)}


@pytest.mark.parametrize("name", LOCKS)
def test_every_dependency_is_locked_at_a_version_it_allows(name: str) -> None:
    """`make lock` was run after the last change of pyproject.toml."""
    wanted = list(pyproject()["project"]["dependencies"])
    if name == "requirements-dev.lock":
        groups = pyproject()["dependency-groups"]
        wanted += [one for one in groups["dev"] if isinstance(one, str)] + groups["build"]
    elif name == "requirements-build.lock":
        wanted = pyproject()["dependency-groups"]["build"]
    pins = locked(name)
    for requirement in map(Requirement, wanted):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {name}: make lock"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is {version}: make lock"


def test_what_runs_is_what_was_tested() -> None:
    """The locks of the image are parts of the developers' lock, version by version."""
    *parts, develop = (locked(name) for name in LOCKS)
    for part in parts:
        assert {name: develop.get(name) for name in part} == dict(part)


def test_the_version_is_the_same_everywhere() -> None:
    """Package, image and its manifest."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert f"ARG VERSION={__version__}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"image: rebalancer:{__version__}\n" in (ROOT / "deploy/base/deployment.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, offline, with the build backend that the lock names."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module, the marker for type checkers, the licence; no tests."""
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in tracked() if path.is_relative_to(ROOT / "rebalancer")}
    assert {name for name in names if ".dist-info/" not in name} >= sources
    assert {name.partition("/")[0] for name in names} == {"rebalancer", f"rebalancer-{__version__}.dist-info"}
    assert "rebalancer/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheel_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, with the dependencies of this one, away from the sources."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    interpreter = home / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    pip = (sys.executable, "-m", "pip", "--python", str(interpreter), "install")
    run(*pip, "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", str(wheel))
    paths = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)})
    Path(paths["purelib"], "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    where = run(str(interpreter), "-c", "import rebalancer; print(rebalancer.__file__)")
    assert Path(where.strip()).is_relative_to(home)
    assert run(str(home / "bin" / "rebalancer"), "--version") == f"rebalancer {__version__}\n"
    assert json.loads(run(str(home / "bin" / "kubectl-rebalance"), "policy", "schema"))["title"]
