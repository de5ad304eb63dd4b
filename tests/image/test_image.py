"""The unmodified Dockerfile, built on stand-ins of its bases and run as the Deployment runs it.

What is not shown: the real bases, BuildKit, the registry, the signatures.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import source_hash
from pathlib import Path

import pytest

from rebalancer import __version__
from rebalancer.cli.errors import Exit
from tests.cli.files import write_list
from tests.cli.test_standard_output import cluster
from tests.control_plane.build import MissingPart
from tests.monitoring.programs import or_skip
from tools import sbom
from tools.environment import ELF_MACHINES, built_for
from tools.image.bases import NoMirrorError
from tools.image.build import PROGRAMS, Images, missing_programs
from tools.image.checks import find_label_problems, find_problems

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {ROOT / "docs" / "examples": "/examples"}
NAME = "rebalancer:tested"
REVISION = "0123456789abcdef0123456789abcdef01234567"

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    """Build the image; skipped where nobody could, which in CI is an error."""
    if missing := missing_programs():
        or_skip(MissingPart(f"the image needs {', '.join(missing)}: apt-get install {' '.join(PROGRAMS)}"))
    if os.geteuid():
        or_skip(MissingPart("the image is built and run by root, as in .ci/run"))
    try:
        with Images() as made:
            made.build(NAME, revision=REVISION)
            yield made
    except NoMirrorError as missing_mirror:
        or_skip(MissingPart(str(missing_mirror)))


@pytest.fixture(scope="module")
def magic(images: Images) -> bytes:
    """Return what the byte code of the image's own Python begins with."""
    asked = images.run(
        NAME, "-c", "import importlib.util; print(importlib.util.MAGIC_NUMBER.hex())", entrypoint="/usr/bin/python3"
    )
    return bytes.fromhex(asked.stdout)


def test_nothing_is_missing_stale_or_superfluous(images: Images, magic: bytes) -> None:
    """Byte code of every module, commands, licence, metadata; no shell, no package manager; below 235 MiB."""
    with images.files(NAME) as root:
        assert list(find_problems(root, magic)) == []
    assert list(find_label_problems(dict(images.labels(NAME)))) == []
    assert images.labels(NAME)["org.opencontainers.image.version"] == __version__
    assert images.labels(NAME)["org.opencontainers.image.revision"] == REVISION


def test_the_sbom_lists_what_is_in_it(images: Images, tmp_path: Path) -> None:
    """Every package that is there, and none that is not; the base's own are for its publisher to list."""
    file = tmp_path / "sbom.json"
    sbom.write(file)
    with images.files(NAME) as root:
        assert list(sbom.find_differences(file, root / "app")) == []
        document = json.loads(file.read_text(encoding="utf-8"))
        missing, other = document["components"].pop(), {"name": "yarl", "version": "1.0"}
        file.write_text(json.dumps({**document, "components": [*document["components"], other]}))
        assert list(sbom.find_differences(file, root / "app")) == [
            "yarl 1.0 is in the list and not in the image",
            f"{missing['name']} {missing['version']} is in the image and not in the list",
        ]


def test_the_same_commit_is_the_same_image(images: Images) -> None:
    """Of every file, with one time for all of them."""
    again = "rebalancer:again"
    images.build(again, revision=REVISION)
    assert images.digest(again) == images.digest(NAME)
    assert images.digest(NAME).startswith("sha256:")


def test_a_report_is_what_it_is_outside(images: Images) -> None:
    """Read-only, without capabilities and network, as nobody in particular; nothing goes to standard error."""
    command = ["report", "--snapshot", "/examples/zone-returned.json"]
    inside = images.run(NAME, *command, mounts=EXAMPLES)
    outside = subprocess.run(
        [sys.executable, "-m", "rebalancer.cli.start", "report", "--snapshot", "docs/examples/zone-returned.json"],
        cwd=ROOT,
        env=dict(os.environ),  # without the COLUMNS that readline sets behind Python's back
        check=False,
        capture_output=True,
        text=True,
    )
    assert inside.stdout == outside.stdout != ""
    assert (inside.returncode, inside.stderr) == (outside.returncode, "")


def test_a_plan_that_needs_the_solver_is_json_and_nothing_else(images: Images, tmp_path: Path) -> None:
    """Numpy and the solver are there, without what the image leaves out of them."""
    write_list(tmp_path / "cluster.yaml", cluster("blue", "green"))
    tmp_path.chmod(0o755)
    command = ["plan", "--snapshot", "/state/cluster.yaml", "-o", "json", "--at", "2026-01-05T09:00:00Z"]
    done = images.run(NAME, *command, mounts={tmp_path: "/state"})
    assert json.loads(done.stdout)["evictions"]


@pytest.mark.parametrize("command", ["rebalancer", "kubectl-rebalance"])
def test_a_command_is_found_by_its_name(images: Images, command: str) -> None:
    """As `kubectl exec` would start it, and with the revision that it was built from."""
    done = images.run(NAME, "version", entrypoint=command)
    assert done.stdout.splitlines()[0] == f"rebalancer {__version__}"
    assert f"revision {REVISION}" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_the_controller_without_a_cluster_ends_with_one_error(images: Images) -> None:
    """The default command; it has no right to write anywhere."""
    done = images.run(NAME)
    assert done.returncode == Exit.ERROR
    assert done.stderr.startswith("error: no cluster configured: ")
    assert len(done.stderr.splitlines()) == 1
    asked = "import os; print([path for path, _, _ in os.walk('/') if os.access(path, os.W_OK)], os.getuid())"
    allowed = images.run(NAME, "-c", asked, entrypoint="/usr/bin/python3").stdout
    assert [one for one in allowed.split("'")[1::2] if not one.startswith(("/proc", "/dev"))] == []
    assert allowed.endswith("] 65532\n")


def test_the_first_stage_installs_for_arm(images: Images) -> None:
    """Every compiled library is of that architecture."""
    images.build("rebalancer:arm", target="build", architecture="arm64")
    with images.files("rebalancer:arm") as root:
        assert built_for(root / "app") == {ELF_MACHINES["arm64"]}


def age(root: Path) -> None:
    """Change a source without its byte code."""
    source = root / "app/rebalancer/library.py"
    source.write_text(source.read_text() + "\n")


def date(root: Path) -> None:
    """Make byte code depend on the time of its source, as Python does by default."""
    code = next((root / "app/rebalancer/__pycache__").glob("engine.*.pyc"))
    body = code.read_bytes()
    code.write_bytes(body[:4] + bytes(4) + source_hash(b"") + body[16:])


def compile_elsewhere(root: Path) -> None:
    """Make byte code of another Python."""
    code = next((root / "usr/lib/python3.13/__pycache__").glob("ast.*.pyc"))
    code.write_bytes(b"\0\0\r\n" + code.read_bytes()[4:])


def grow(root: Path) -> None:
    """Put a large file into it."""
    (root / "app/large").write_bytes(bytes(60 * 2**20))


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "byte code of another source": (age, "of another source"),
    "byte code that depends on times": (date, "depends on the time"),
    "byte code of another Python": (compile_elsewhere, "of another Python"),
    "no byte code": (lambda root: (root / "usr/lib/python3.13/__pycache__/abc.cpython-313.pyc").unlink(), "no byte"),
    "a shell": (lambda root: (root / "usr/local/bin/sh").symlink_to("busybox"), "is a shell"),
    "a package manager": (lambda root: (root / "usr/local/bin/pip").write_text(""), "bin/pip is a package manager"),
    "pip as a module": (lambda root: (root / "app/pip").mkdir(), "app/pip is a package manager"),
    "a stub": (lambda root: (root / "app/rebalancer/engine.pyi").write_text(""), "for type checkers"),
    "no licence": (
        lambda root: next((root / "app").glob("rebalancer-*.dist-info/licenses/LICENSE")).unlink(),
        "has no licence",
    ),
    "metadata of what is not there": (
        lambda root: shutil.rmtree(root / "app/jinja2"),
        "describes a package that is not there",
    ),
    "no command": (lambda root: (root / "usr/local/bin/kubectl-rebalance").unlink(), "is missing"),
    "a command of another interpreter": (
        lambda root: (root / "usr/local/bin/rebalancer").write_text("#!/usr/local/bin/python3.13\n"),
        "does not start",
    ),
    "too large": (grow, "MiB, more than 235"),
    "no metadata": (
        lambda root: shutil.rmtree(next((root / "app").glob("rebalancer-*.dist-info"))),
        "0 folders of metadata",
    ),
}


def test_planted_faults_are_noticed(images: Images, magic: bytes) -> None:
    """Each by one problem; first all of them together but the last, which another one would hide."""
    *together, alone = PLANTED.values()
    for faults in (together, [alone]):
        with images.files(NAME) as root:
            for plant, _ in faults:
                plant(root)
            problems = list(find_problems(root, magic))
        assert len(problems) == len(faults), problems
        for _, words in faults:
            assert sum(words in problem for problem in problems) == 1, words


def test_a_label_that_is_missing_is_noticed(images: Images) -> None:
    labels = dict(images.labels(NAME))
    del labels["org.opencontainers.image.licenses"]
    (problem,) = find_label_problems(labels)
    assert problem.startswith("the image has no label org.opencontainers.image.licenses")
