"""The contents of the image by size: `python -m tools.environment` installs the lock and prints a table.

The lock is installed for the Python and the platform of the image, not of this process: for older ones it has another
version of numpy. Sizes are on disk, with the byte code that this process makes. Files that the Dockerfile removes are
counted apart.
"""

import compileall
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions, packages_distributions, requires
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""The architectures of the image, as container engines and as wheels call them."""

ELF_MACHINES: Final = {"amd64": 62, "arm64": 183}
"""The same in compiled files."""

_PYTHON: Final = re.compile(r"^FROM .*\bpython:(\d+\.\d+)-", re.MULTILINE)
_GLIBC: Final = "manylinux_2_28"
"""The newest that the Dockerfile accepts; Debian 13 has a newer one."""

_LOCKED: Final = re.compile(r"^(\S+==[^\\\n]+?) \\\n(?: .*\n)+", re.MULTILINE)
_REMOVED: Final = re.compile(r"rm -r((?:\s+(?:\\\n\s+)?/app/\S+)+)")
_LEAST: Final = 1.0
"""MiB; smaller packages share a row."""


def removed_paths() -> list[str]:
    """Return what the Dockerfile removes of the installed packages."""
    found = _REMOVED.search((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found is not None
    return [path.removeprefix("/app/") for path in found[1].replace("\\", " ").split()]


class Locked(NamedTuple):
    """A package of the lock: its version and marker, and its lines there, with the hashes."""

    requirement: Requirement
    text: str

    @property
    def is_for_image(self) -> bool:
        """Whether it is installed into the image, whatever the Python and the machine of this process."""
        marker, version = self.requirement.marker, image_python()
        there = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
        return marker is None or marker.evaluate(there)


def locked() -> list[Locked]:
    """Return what the lock names."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return [Locked(Requirement(entry[1]), entry[0]) for entry in _LOCKED.finditer(lock)]


def required() -> set[str]:
    """Return the names of the packages that pip would install here with this program, by their requirements."""
    found, left = set[str](), ["rebalancer"]
    while left:
        if (name := canonicalize_name(left.pop())) not in found:
            found.add(name)
            wanted = map(Requirement, requires(name) or ())
            left += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found - {"rebalancer"}


def unlocked_modules() -> set[str]:
    """Return the modules of packages that are required, and that the lock leaves out, so that no image has them."""
    left_out = required().difference(one.requirement.name for one in locked())
    return {
        module
        for module, names in packages_distributions().items()
        if not left_out.isdisjoint(canonicalize_name(name) for name in names)
    }


def image_python() -> str:
    """Return the minor version of Python that the image has."""
    (version,) = _PYTHON.findall((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return str(version)


def install(folder: Path) -> None:
    """Install what the lock names for this interpreter, as the Dockerfile does for the image's."""
    lock = str(ROOT / "requirements.lock")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "--no-deps", "--only-binary=:all:", "--target", str(folder), "-r", lock], check=True)


def install_for_image(folder: Path, architecture: str) -> None:
    """Install the lock for the image's Python on one of its architectures; pip would install for this machine."""
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    platform = ["--python-version", image_python(), "--python-platform", f"{MACHINES[architecture]}-{_GLIBC}"]
    lock = str(ROOT / "requirements.lock")
    subprocess.run(
        [*uv, *platform, "--only-binary", ":all:", "--target", str(folder), "--requirement", lock], check=True
    )


def built_for(folder: Path) -> set[int]:
    """Return the machines that the compiled extensions and libraries below a folder are for, as ELF numbers them."""
    files = [file for file in folder.rglob("*.so*") if file.is_file()]
    if not files:
        raise FileNotFoundError(f"{folder} has no compiled extension")
    return {int.from_bytes(file.read_bytes()[18:20], "little") for file in files}


def sizes(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield each package with its version, its MiB, and the MiB of it that the image leaves out; the largest first."""
    removed = tuple(f"{path}/" for path in removed_paths())
    rows = [(_name(package), *_measure(package, folder, removed)) for package in distributions(path=[str(folder)])]
    yield from sorted(rows, key=lambda row: (-row[1], row[0]))


def _name(package: Distribution) -> str:
    return f"{package.metadata['Name']} {package.version}"


def _measure(package: Distribution, folder: Path, removed: tuple[str, ...]) -> tuple[float, float]:
    files = {folder / file for file in package.files or ()}
    files |= {compiled for file in files for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")}
    total = {file: file.stat().st_size for file in files if file.is_file()}
    left_out = sum(size for file, size in total.items() if str(file.relative_to(folder)).startswith(removed))
    return sum(total.values()) / 2**20, left_out / 2**20


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install_for_image(folder, "amd64")
        compileall.compile_dir(folder, quiet=2, workers=0)
        rows = list(sizes(folder))
    print("| package | MiB | of these left out of the image |\n| --- | ---: | ---: |")
    for package, total, left_out in rows:
        if total >= _LEAST:
            print(f"| {package} | {total:.1f} | {f'{left_out:.1f}' if left_out else ''} |")
    small = [row for row in rows if row[1] < _LEAST]
    print(f"| {len(small)} others | {sum(row[1] for row in small):.1f} | |")
    print(f"| together | {sum(row[1] for row in rows):.1f} | {sum(row[2] for row in rows):.1f} |")
    print("\nThe others: " + ", ".join(sorted(row[0] for row in small)) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
