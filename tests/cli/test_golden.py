"""What each command prints, at 80 and 120 columns, with and without colour; and the help of each.

`python -m tests.cli.test_golden` writes the files anew; a change of them is a decision. What `apply` prints while it
evicts is in tests/cluster/test_apply.py.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rebalancer.cli.registry import VERBS
from rebalancer.reporting.text.layout import visible_width
from tests.adapters.kubernetes.fake_server import Handler
from tests.cli.printing import (
    paused_server,
    printed,
    proposing_server,
    repairing_server,
    running_server,
    stopped_server,
)
from tests.cli.test_cleanup import used
from tests.cli.test_history import recorded

GOLDEN = Path(__file__).parent / "golden" / "output"
HELP = Path(__file__).parent / "golden" / "help"
EXAMPLE = "docs/examples/zone-returned.json"
SMALL = "tests/cli/golden/cluster.yaml"
NOTHING = "tests/cli/golden/nothing.json"
LIMITS = ("--policy", "docs/examples/limits.yaml")
COMMANDS = {
    "report": ("report", "--snapshot", EXAMPLE),
    "report-limits": ("report", "--snapshot", EXAMPLE, *LIMITS),
    "report-failures": ("report", "--snapshot", EXAMPLE, "--failures"),
    "report-limited": ("report", "--snapshot", EXAMPLE, *LIMITS, "--limit", "1"),
    "report-wide": ("report", "--snapshot", EXAMPLE, "-o", "wide"),
    "report-map": ("report", "--snapshot", EXAMPLE, "--map"),
    "report-map-workload": ("report", "--snapshot", EXAMPLE, "--map", "deployment/web"),
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
    "resilience": ("resilience", "--snapshot", EXAMPLE),
    "resilience-web": ("resilience", "web", "--snapshot", EXAMPLE),
    "lint": ("lint", "docs/examples/mistakes.yaml"),
    "lint-cluster": ("lint", "docs/examples/mistakes.yaml", "--snapshot", EXAMPLE, "--drain", "a-0"),
    "lint-sarif": ("lint", "-o", "sarif", "docs/examples/mistakes.yaml"),
    "suggest": ("suggest", "--limit", "<1/3", "--size", "10", "--domains", "6"),
    "suggest-nothing": ("suggest", "--limit", "<1/3", "--size", "6", "--domains", "3"),
    "policy-validate": ("policy", "validate", "docs/examples/limits.yaml"),
    "policy-show": ("policy", "show"),
    "snapshot": ("snapshot", "--snapshot", SMALL),
    "apply-nothing": ("apply", NOTHING),
    "demo": ("demo", "--scenario", "docs/examples/zone-back/scenario.yaml"),
    "completion": ("completion", "bash"),
    "pause": ("pause", "--reason", "zone b is upgraded"),
    "pause-for": ("pause", "--reason", "zone b is upgraded", "--for", "2h"),
    "resume": ("resume",),
    "resume-nothing": ("resume",),
    "approve": ("approve", "--yes"),
    "status": ("status",),
    "status-paused": ("status",),
    "history": ("history",),
    "history-trend": ("history", "--trend"),
    "cleanup": ("cleanup", "--yes"),
}
SERVERS: dict[str, Callable[[], Handler]] = {
    "pause": running_server,
    "pause-for": running_server,
    "resume": paused_server,
    "resume-nothing": running_server,
    "approve": proposing_server,
    "status": repairing_server,
    "status-paused": stopped_server,
    "history": recorded,
    "history-trend": recorded,
    "cleanup": used,
}
"""The API servers that commands about a cluster reach."""

SAME = {"plan-wide": "plan", "report-wide": "report"}
"""Those that print what another one does."""

DOCUMENTS = {"policy-show", "snapshot", "completion", "lint-sarif"}
"""These print what another program reads."""

WORDS = [(verb.name,) for verb in VERBS] + [("policy", name) for name in ("validate", "show", "schema")]
LOOKS = [(80, "never"), (80, "always"), (120, "never"), (120, "always")]


def shown(name: str, width: int, color: str) -> str:
    """Return what a command of COMMANDS prints."""
    return printed(COMMANDS[name], width, color, SERVERS.get(name))


def written(name: str) -> str:
    """Return the golden text of a command: each look under its title; one title where all looks are the same."""
    texts = [shown(name, width, color) for width, color in LOOKS]
    if len(set(texts)) == 1:
        return f"--- any width, any color\n{texts[0]}"
    titles = [f"--- {width} columns, color {color}\n" for width, color in LOOKS]
    return "".join(title + text for title, text in zip(titles, texts, strict=True))


def written_help(words: tuple[str, ...]) -> str:
    """Return the golden text of the help of a command, which has no colour."""
    return "".join(f"--- {width} columns\n{printed((*words, '--help'), width, 'never')}" for width in (80, 120))


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(name: str) -> None:
    """To the letter."""
    assert written(name) == (GOLDEN / f"{SAME.get(name, name)}.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse writes flags with values in another form there")
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_what_help_prints(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """To the letter; no line is wider than the terminal."""
    monkeypatch.setattr(sys, "argv", ["rebalancer"])
    text = written_help(words)
    assert text == (HELP / f"{'-'.join(words)}.txt").read_text(encoding="utf-8")
    narrow = text.partition("--- 120 columns")[0]
    assert all(len(line) <= 80 for line in narrow.splitlines())


def test_no_command_is_left_out() -> None:
    """But `run`, which prints its log only, and `version`, which prints that of Python."""
    assert {command[0] for command in COMMANDS.values()} == {verb.name for verb in VERBS} - {"run", "version", "check"}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - DOCUMENTS))
@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(name: str, width: int) -> None:
    """But for a word that is wider than it, and YAML to paste."""
    for line in shown(name, width, "never").splitlines():
        assert visible_width(line) <= width or " " not in line.strip() or line.startswith("#"), line


@pytest.mark.parametrize("name", COMMANDS)
def test_colours_change_nothing_else(name: str) -> None:
    """Whoever does not see them reads the same."""
    plain, colored = (shown(name, 80, color) for color in ("never", "always"))
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
    sys.argv = ["rebalancer"]
    printed(("plan", "--snapshot", EXAMPLE, "-l", "app=cart", "--out", NOTHING), 80, "never")
    for folder in (GOLDEN, HELP):
        folder.mkdir(parents=True, exist_ok=True)
    for known in COMMANDS.keys() - SAME:
        (GOLDEN / f"{known}.txt").write_text(written(known), encoding="utf-8")
    for command in WORDS:
        (HELP / f"{'-'.join(command)}.txt").write_text(written_help(command), encoding="utf-8")
    sys.stdout.write(f"{len(COMMANDS)} files written to {GOLDEN}, {len(WORDS)} to {HELP}\n")
