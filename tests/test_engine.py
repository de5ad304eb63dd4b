"""There is one way from a snapshot to a plan: `engine.evaluate`."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
STEPS: Final[Mapping[str, str]] = {
    "rebalancer.assessment.assess": "assess",
    "rebalancer.planning.planner": "plan",
}
"""The two functions that `evaluate` calls, by their modules."""


def imported(module: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of everything that a module imports; the name is "" for a whole module."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def takes_a_step(module: Path) -> bool:
    """Return whether a module imports `assess` or `plan`, or the module of one of them whole."""
    for source, name in imported(module):
        if source in STEPS and name in {STEPS[source], "", "*"}:
            return True
        if f"{source}.{name}" in STEPS:
            return True
    return False


def test_only_the_engine_assesses_and_plans() -> None:
    """No module of the product imports `assess` or `plan` but `engine`, which calls them in `evaluate`."""
    modules = sorted((ROOT / "rebalancer").rglob("*.py"))
    assert [str(module.relative_to(ROOT)) for module in modules if takes_a_step(module)] == ["rebalancer/engine.py"]
