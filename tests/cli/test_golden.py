"""What each command prints, at 80 and 120 columns, with and without colour.

`python -m tests.cli.test_golden` writes the files anew; a change of them is a decision.
"""

import io
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from rebalancer.cli import main as entry
from rebalancer.reporting.text.layout import visible_width

GOLDEN = Path(__file__).parent / "golden" / "output"
EXAMPLE = "docs/examples/zone-returned.json"
LIMITS = ("--policy", "docs/examples/limits.yaml")
COMMANDS = {
    "report": ("report", "--snapshot", EXAMPLE),
    "report-limits": ("report", "--snapshot", EXAMPLE, *LIMITS),
    "report-failures": ("report", "--snapshot", EXAMPLE, "--failures"),
    "report-limited": ("report", "--snapshot", EXAMPLE, *LIMITS, "--limit", "1"),
    "report-wide": ("report", "--snapshot", EXAMPLE, "-o", "wide"),
    "report-name": ("report", "--snapshot", EXAMPLE, "-o", "name"),
    "plan": ("plan", "--snapshot", EXAMPLE),
    "plan-limited": ("plan", "--snapshot", EXAMPLE, "--limit", "1"),
    "plan-verbose": ("plan", "--snapshot", EXAMPLE, "-v", "-l", "app=web"),
    "plan-wide": ("plan", "--snapshot", EXAMPLE, "-o", "wide"),
    "plan-name": ("plan", "--snapshot", EXAMPLE, "-o", "name"),
    "explain-pod": ("explain", "pod", "db-4", "--snapshot", EXAMPLE),
    "explain-workload": ("explain", "deployment/web", "--snapshot", EXAMPLE),
    "explain-blocked": ("explain", "deploy/cart", "--snapshot", EXAMPLE),
    "predict": ("predict", "--pod", "tests/cli/golden/pod.yaml", "--snapshot", EXAMPLE),
    "simulate": ("simulate", "--snapshot", EXAMPLE, "--scenario", "docs/examples/zone-lost.yaml"),
    "simulate-each": ("simulate", "--snapshot", EXAMPLE, "--each", "topology.kubernetes.io/zone"),
    "suggest": ("suggest", "--limit", "<1/3", "--size", "6", "--domains", "3"),
    "policy-validate": ("policy", "validate", "docs/examples/limits.yaml"),
}
LOOKS = [(80, "never"), (80, "always"), (120, "never"), (120, "always")]


def printed(command: tuple[str, ...], width: int, color: str) -> str:
    """Return what a command prints on a terminal of a width."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    colors = () if command[0] == "policy" else ("--color", color)
    with patch.dict(os.environ, {"COLUMNS": str(width)}), redirect_stdout(out), redirect_stderr(io.StringIO()):
        entry.main([*command, *colors])
    out.seek(0)
    return out.read()


def written(name: str) -> str:
    """Return the golden text of a command: each look under its title."""
    return "".join(
        f"--- {width} columns, color {color}\n{printed(COMMANDS[name], width, color)}" for width, color in LOOKS
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(name: str) -> None:
    """To the letter."""
    assert written(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_terminal(name: str, width: int) -> None:
    """But for a word that is wider than it, and YAML to paste."""
    for line in printed(COMMANDS[name], width, "never").splitlines():
        assert visible_width(line) <= width or " " not in line.strip() or line.startswith("#"), line


@pytest.mark.parametrize("name", COMMANDS)
def test_colours_change_nothing_else(name: str) -> None:
    """Whoever does not see them reads the same."""
    plain, colored = (printed(COMMANDS[name], 80, color) for color in ("never", "always"))
    assert re.sub("\x1b\\[[0-9;]*m", "", colored) == plain


@pytest.mark.parametrize("name", ["report-limits", "plan"])
def test_a_limit_changes_no_sum(name: str) -> None:
    """The summary counts all workloads; what is not shown is counted too."""
    whole, limited = (printed((*COMMANDS[name], "--limit", number), 120, "never") for number in ("0", "1"))
    assert whole.splitlines()[:1] == limited.splitlines()[:1]
    if name == "plan":
        assert whole.splitlines()[:3] == limited.splitlines()[:3]
    assert "and 3 more: -n, -l, --limit, -o json" in limited
    assert "more: -n" not in whole


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for known in COMMANDS:
        (GOLDEN / f"{known}.txt").write_text(written(known), encoding="utf-8")
    sys.stdout.write(f"{len(COMMANDS)} files written to {GOLDEN}\n")
