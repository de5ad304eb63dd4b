"""Do the tests notice wrong code? `make mutation` changes a sample of places, one at a time, and reports survivors.

The packages that decide about evictions are tested: each change of `tools.mutants` is made in a copy of the tree, and
the package's nearest tests run until one fails. A change survives if no test fails: it makes no difference, or a test
is missing. A person decides which, so survivors are no error; tests that fail without any change are.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final
from xml.etree import ElementTree as ET

from tools.mutants import Mutant, mutants, sample

ROOT: Final = Path(__file__).resolve().parents[1]
MEMORY: Final = 8 << 30
"""Bytes of address space that the tests get: a change may make a loop that gathers without end."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package to change: how many changes are tried, and the folders of its nearest tests."""

    path: str
    count: int
    tests: tuple[str, ...]
    patience: float = 20
    """Seconds beyond four times the usual time before a test, or all tests together, count as failed."""


PACKAGES: Final = (
    Package(path="rebalancer/tracking", count=15, tests=("tests/tracking", "tests/controller")),
    Package(path="rebalancer/admission", count=15, tests=("tests/admission", "tests/controller")),
    Package(path="rebalancer/scheduling", count=30, tests=("tests/scheduling",)),
    Package(path="rebalancer/planning", count=40, tests=("tests/planning",)),
)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The tests without any change: seconds of each file; and with one: how many a test and all together may take."""

    files: Mapping[str, float]
    seconds_per_test: float
    together: float

    def order(self, module: str) -> list[str]:
        """Return the files of tests: those named after the module first, then the fast ones."""
        return sorted(self.files, key=lambda file: (Path(module).stem not in Path(file).stem, self.files[file], file))


class Copy:
    """A copy of the tree in which one module at a time is changed."""

    def __init__(self, source: Path, folder: Path) -> None:
        self._folder = folder
        self._output = folder / "output.txt"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=source, capture_output=True, check=True, text=True).stdout.split("\0")
        for name in names:
            if name and (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, folder / name)

    def mutants(self, package: Package) -> list[Mutant]:
        """Return every change that a package allows."""
        return [
            mutant
            for path in sorted((self._folder / package.path).rglob("*.py"))
            for mutant in mutants(path.relative_to(self._folder).as_posix(), path.read_text(encoding="utf-8"))
        ]

    def baseline(self, package: Package) -> Baseline:
        """Run a package's tests without any change, which must pass; they leave their byte code, too."""
        report = self._folder / "report.xml"
        begun = monotonic()
        if not self._passes([*package.tests, f"--junit-xml={report}"], limit=None, byte_code=True):
            sys.exit(f"Without any change:\n{self._output.read_text(encoding='utf-8')}")
        whole = monotonic() - begun
        files: dict[str, float] = {}
        longest = 0.0
        for case in ET.parse(report).iter("testcase"):
            parts = case.attrib["classname"].split(".")
            while not (self._folder / Path(*parts)).with_suffix(".py").is_file():
                parts.pop()
            seconds = float(case.attrib["time"])
            file = Path(*parts).with_suffix(".py").as_posix()
            files[file] = files.get(file, 0.0) + seconds
            longest = max(longest, seconds)
        return Baseline(
            files=files, seconds_per_test=package.patience + 4 * longest, together=package.patience + 4 * whole
        )

    def kills(self, mutant: Mutant, baseline: Baseline) -> bool:
        """Say whether a test fails with this change. One that takes far too long has failed."""
        path = self._folder / mutant.path
        before = path.with_suffix(".original")
        path.rename(before)
        path.write_text(mutant.source, encoding="utf-8")
        try:
            arguments = [*baseline.order(mutant.path), f"--timeout={baseline.seconds_per_test}"]
            return not self._passes(arguments, limit=baseline.together)
        finally:
            before.replace(path)

    def _passes(self, arguments: Sequence[str], *, limit: float | None, byte_code: bool = False) -> bool:
        """Run tests up to the first that fails, for `limit` seconds at most, and say whether all passed in time.

        Byte code is written only from unchanged modules: Python detects stale byte code by time and size, and those
        of a changed module may be equal.
        """
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not thorough and not cluster", *arguments]
        command += ["--hypothesis-profile=unshrunk", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self._folder)}
        environment |= {} if byte_code else {"PYTHONDONTWRITEBYTECODE": "1"}
        with self._output.open("w", encoding="utf-8") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=self._folder,
                    env=environment,
                    check=False,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
                )
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0


def survivors(source: Path, packages: Sequence[Package], seed: int) -> list[Mutant]:
    """Try a sample of every package and print the progress; return the changes that no test noticed."""
    alive: list[Mutant] = []
    for package in packages:
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            copy = Copy(source, Path(folder))
            possible = copy.mutants(package)
            drawn = sample(possible, package.count, seed)
            begun = monotonic()
            baseline = copy.baseline(package)
            survived = []
            for mutant in drawn:
                if not copy.kills(mutant, baseline):
                    survived.append(mutant)
                    print(f"survived  {mutant}", flush=True)
        print(
            f"{package.path}: {len(drawn) - len(survived)} killed, {len(survived)} survived, of {len(drawn)} drawn"
            f" from {len(possible)} with seed {seed}; {monotonic() - begun:.0f} s",
            flush=True,
        )
        alive += survived
    return alive


def main() -> None:
    """Run as `python -m tools.mutation`."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws another sample")
    names = [package.path for package in PACKAGES]
    parser.add_argument("--package", action="append", choices=names, help="only this package; may be given repeatedly")
    args = parser.parse_args()
    survivors(ROOT, [package for package in PACKAGES if package.path in (args.package or names)], args.seed)


if __name__ == "__main__":
    main()
