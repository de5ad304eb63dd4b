"""Runs the program's tests with the oldest and the newest releases that the dependencies' ranges allow.

    python -m tools.ranges    # minutes for each Python that this machine has; prints a table, exits 1 if one fails

The lock has one version of each dependency; users of the wheel get other versions. For each interpreter, the wheel is
installed once with the lowest versions of the direct dependencies and once with the highest (`uv pip install
--resolution`). The acceptance cases, the known states and the tests of the commands run there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS: Final = ("lowest-direct", "highest")

_UV: Final = str(Path(sys.executable).with_name("uv"))
_TOOLS: Final = ("pytest", "hypothesis", "pytest-timeout", "pytest-xdist", "jsonschema", "greenlet")
"""What the tests below need of the dependency group `dev`."""

_TESTS: Final = ("tests/acceptance", "tests/cli", "tests/known_states")
_MARKS: Final = "not cluster and not image and not thorough"


def find_pythons() -> Iterator[tuple[str, str]]:
    """Yield the minor versions of Python that this machine has, pyenv's among them, with their interpreters."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in PYTHONS:
        name = f"python{version}"
        own = pyenv.glob(f"{version}.*/bin/{name}") if os.access(pyenv, os.R_OK | os.X_OK) else ()
        places = [shutil.which(name), *sorted(map(str, own))]
        for place in filter(None, places):
            asked = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
            if asked.returncode == 0:  # a shim of pyenv is there and starts nothing
                yield version, place
                break


def direct_dependencies() -> list[str]:
    """Return the dependencies that pyproject.toml declares, with their ranges."""
    declared: list[str] = _pyproject()["project"]["dependencies"]
    return declared


def name_of(requirement: str) -> str:
    """Return the normalized name of a requirement or of an installed package."""
    return canonicalize_name(Requirement(requirement).name)


def tools_of_tests() -> list[str]:
    """Return the requirements of the tests, as the group `dev` declares them."""
    declared = _pyproject()["dependency-groups"]["dev"]
    return [one for one in declared if isinstance(one, str) and name_of(one) in _TOOLS]


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def install(folder: Path, interpreter: str, resolution: str, wheel: Path) -> dict[str, str]:
    """Install the wheel and the tests' requirements, and return the versions of the direct dependencies."""
    python = folder / "bin" / "python"
    _run(_UV, "venv", "--quiet", "--python", interpreter, str(folder))
    pip = (_UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python))
    # The wheel's dependencies beside it: those of a wheel alone are not direct ones.
    _run(*pip, "--resolution", resolution, str(wheel), *direct_dependencies())
    # What is there stays as it is: a requirement of the tests may not lift a dependency of the program.
    installed = [line for line in _run(_UV, "pip", "freeze", "--python", str(python)).splitlines() if "==" in line]
    pinned = folder / "pinned.txt"
    pinned.write_text("".join(f"{line}\n" for line in installed), encoding="utf-8")
    _run(*pip, "--constraint", str(pinned), *tools_of_tests())
    versions = {name_of(line): line.split("==")[1] for line in installed}
    return {name_of(one): versions[name_of(one)] for one in direct_dependencies()}


def run_tests(folder: Path) -> str:
    """Run the tests with the interpreter of a virtual environment and return the last line."""
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-m", _MARKS]
    done = subprocess.run([*command, *_TESTS], cwd=ROOT, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "\n".join([*failed, *done.stdout.splitlines()[-1:]]) or done.stderr


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def main() -> int:
    """Try every combination; with CI=true every Python must be there."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", name, str(ROOT))
        (wheel,) = Path(name).glob("*.whl")
        pythons = dict(find_pythons())
        for version in PYTHONS:
            if version not in pythons:
                print(f"Python {version}: this machine has none")
                wrong += os.environ.get("CI") == "true"
                continue
            for resolution in RESOLUTIONS:
                folder = Path(name) / f"{version}-{resolution}"
                versions = install(folder, pythons[version], resolution, wheel)
                print(f"Python {version}, {resolution}: " + ", ".join(" ".join(one) for one in versions.items()))
                result = run_tests(folder)
                print(f"  {result}", flush=True)
                wrong += " failed" in result or "error" in result or " passed" not in result
    return 1 if wrong or not pythons else 0


if __name__ == "__main__":
    sys.exit(main())
