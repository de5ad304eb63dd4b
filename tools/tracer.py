"""The way of one snapshot through the code: `python -m tools.tracer`.

Problem: only following a cycle shows whether a newcomer can follow it.
Idea: play one real cycle, and one `rebalancer plan`, under a profiler. Both start at the command line, which is stable
while the code behind it moves. The output has three parts: the modules outside planning that are entered before the
planner is, and in all; the calls from a lower to a higher layer of import-linter's list (`climbs`); and the names under
which functions know the snapshot.
"""

import io
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rebalancer.cli.main import main as run_command
from rebalancer.model.snapshot import Snapshot

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLE: Final = ROOT / "docs" / "examples" / "zone-returned.json"
PACKAGE: Final = "rebalancer."
PLANNING: Final = "rebalancer.planning"

_EVERYWHERE: Final = frozenset({"model", "policy", "simulator"})
"""Facts and intent, which every package reads, and the simulator, which plays the cycle here."""

POLICY: Final = """\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
spread: {for: 0s}
groups: []
"""
"""Everything optional is off."""


def read_layers() -> dict[str, int]:
    """Return the rank of each package in import-linter's list, the highest first; packages on one line share a rank."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines: Sequence[str] = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    ranks = range(len(lines), 0, -1)
    return {name.strip(): rank for line, rank in zip(lines, ranks, strict=True) for name in line.split("|")}


@dataclass
class Way:
    """What one run entered, from the first call of a function to its return."""

    begins: tuple[str, str]
    """Module and name of the function with which it begins."""
    layers: dict[str, int]
    entered: dict[str, None] = field(default_factory=dict)
    """All modules, in the order of their first call."""
    before_planner: int | None = None
    """How many modules and climbs there were when the planner was called, None if it never was."""
    climbs_before_planner: int = 0
    climbs: Counter[tuple[str, str]] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)
    _outermost: FrameType | None = None
    _over: bool = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take an event of the profiler."""
        module = frame.f_globals.get("__name__", "")
        if self._over or not module.startswith(PACKAGE):
            return
        if self._outermost is None:
            if event != "call" or (module, frame.f_code.co_name) != self.begins:
                return
            self._outermost = frame
        if event == "call":
            self._enter(module, frame)
        elif event == "return":
            self.names |= {name for name, value in frame.f_locals.items() if isinstance(value, Snapshot)}
            self._over = frame is self._outermost

    def _enter(self, module: str, frame: FrameType) -> None:
        if module.startswith(PLANNING) and self.before_planner is None and frame.f_code.co_name == "plan":
            self.before_planner = len(self.modules)
            self.climbs_before_planner = self.climbs.total()
        self.entered.setdefault(module)
        caller = _caller(frame)
        if caller and 0 < self._rank(caller) < self._rank(module):
            self.climbs[caller, module] += 1

    @property
    def modules(self) -> list[str]:
        """Those outside of planning."""
        return [module for module in self.entered if not module.startswith(PLANNING)]

    def _rank(self, module: str) -> int:
        names = [name for name in self.layers if module == name or module.startswith(f"{name}.")]
        return self.layers[max(names, key=len)] if names else 0

    def lines(self) -> list[str]:
        """Return what was found, for people."""
        before = "never" if self.before_planner is None else self.before_planner
        pairs = [f"    {caller} -> {callee}" for caller, callee in self.climbs]
        return [
            f"modules outside of planning: {before} before the planner, {len(self.modules)} in all",
            f"climbs: {self.climbs_before_planner} calls before the planner, {self.climbs.total()} in all, between",
            *pairs,
            f"names for the snapshot: {len(self.names)}: {', '.join(sorted(self.names))}",
            f"modules, in order: {' '.join(name.removeprefix(PACKAGE) for name in self.modules)}",
        ]


def _caller(frame: FrameType) -> str:
    """Return the nearest module of the package that called a frame: libraries in between are passed over."""
    above = frame.f_back
    while above is not None:
        module: str = above.f_globals.get("__name__", "")
        if module.startswith(PACKAGE):
            return module
        above = above.f_back
    return ""


def follow(arguments: Sequence[str], begins: tuple[str, str]) -> Way:
    """Run a command, and follow it from the first call of a function."""
    way = Way(begins, read_layers())
    with redirect_stdout(io.StringIO()):
        _profiled(lambda: run_command(list(arguments)), way)
    return way


def _profiled(work: Callable[[], object], way: Way) -> None:
    sys.setprofile(way)
    try:
        work()
    finally:
        sys.setprofile(None)


def drawing() -> str:
    """Draw the packages in the order in which one cycle first enters them, from the snapshot to admitted evictions."""
    entered = dict.fromkeys(_package(module) for module in _follow_cycle().entered)
    packages = [package for package in entered if package not in _EVERYWHERE]
    arrows = [f"    {before} --> {after}" for before, after in pairwise(packages)]
    return "\n".join(["```mermaid", "flowchart LR", *arrows, "```", ""])


def _package(module: str) -> str:
    return module.removeprefix(PACKAGE).partition(".")[0]


def _follow_cycle() -> Way:
    with tempfile.TemporaryDirectory() as folder:
        return follow(["simulate", *_flags(folder)], ("rebalancer.controller.cycle", "run_cycle"))


def _flags(folder: str) -> list[str]:
    policy = Path(folder) / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    return ["--snapshot", str(EXAMPLE), "--policy", str(policy)]


def main() -> None:
    """Print both ways."""
    cycle = _follow_cycle()
    print("One cycle (rebalancer simulate)", *cycle.lines(), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        plan = follow(["plan", *_flags(folder), "-o", "json"], ("rebalancer.cli.plan", "run"))
    print("", "rebalancer plan", *plan.lines(), sep="\n")


if __name__ == "__main__":
    main()
