"""What is in the image, by size: `python -m tools.environment` installs the lock and prints a table.

Sizes are those on disk with byte code. What the Dockerfile removes is counted apart.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_REMOVED: Final = re.compile(r"rm -r /app/(\S+)")
_LEAST: Final = 1.0
"""MiB; smaller packages share a row."""


def removed_paths() -> list[str]:
    """Return what the Dockerfile removes of the installed packages."""
    return _REMOVED.findall((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def install(folder: Path, python: str = sys.executable) -> None:
    """Install what the lock names, as the Dockerfile does."""
    lock = str(ROOT / "requirements.lock")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "--only-binary=:all:", "--target", str(folder), "--requirement", lock], check=True)


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
        install(folder)
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
