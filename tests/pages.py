"""The commands of the pages: where each of them is run, and what it is shown to print.

A block of `console` has commands after `$ `, each with its output; `…` stands for what is left out. A block below
`<!-- needs: … -->` cannot be run everywhere.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES_BY_HAND: Final = sorted(
    subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
)
ON_A_CLUSTER: Final = {
    "kustomize": (
        "README.md",
        "docs/reading.md",
        "docs/operations.md",
        "docs/prevention.md",
        "docs/install.md",
    ),
    "helm": ("deploy/chart/rebalancer/README.md", "docs/install.md"),
}
"""The pages whose commands `tests/cluster/test_pages.py` runs, in this order, on one cluster for each installation."""

QUICK_START: Final = "docs/quickstart.md"
"""`tests/cluster/test_quick_start.py` runs it, beside a running controller."""

EXAMPLES: Final = [page for page in PAGES_BY_HAND if re.fullmatch(r"docs/examples/[a-z-]+/README\.md", page)]
"""`tests/cluster/test_examples.py` plays them on real servers, `tests/cli/test_examples.py` simulates some."""

CONTROLLER: Final = "a running controller"
ARGO_CD: Final = "Argo CD"
"""What the blocks need that `tests/cluster/test_quick_start.py` runs."""

FAILS: Final = {
    "rebalancer policy validate docs/examples/mistaken-policy.yaml": 1,
    "rebalancer lint docs/examples/mistakes.yaml": 3,
    "rebalancer lint docs/examples/mistakes.yaml --policy docs/examples/limits.yaml": 3,
    "rebalancer lint --snapshot docs/examples/zone-returned.json --drain a-0": 3,
}
"""The exit codes of commands whose error a page shows."""

RUNBOOKS: Final = [page for page in PAGES_BY_HAND if page.startswith("deploy/runbooks/")]
"""Their commands are indented, below the points of their lists."""

_INDENTED: Final = re.compile(r"^ {4,}((?:kubectl|rebalancer) .+)$", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^(?:<!-- needs: (?P<needs>[^>]*) -->\n)?```console\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
_READS_A_FILE: Final = re.compile(
    r"rebalancer (?:lint|suggest|policy) |rebalancer demo$|rebalancer [a-z]+ .*--snapshot docs/|"
    r"rebalancer simulate --scenario "
)


class Place(StrEnum):
    """Where a command is run."""

    CLUSTER = "on a real control plane"
    REPOSITORY = "in the repository, without a cluster"
    SHELL = "by whoever sets up the repository: its targets exist"
    NEEDS = "nowhere but where the page says"


class Command(NamedTuple):
    """A command of a page, and the lines below it."""

    page: str
    text: str
    output: tuple[str, ...]
    needs: str

    @property
    def place(self) -> Place:
        """Say where it is run."""
        if self.needs:
            return Place.NEEDS
        if self.text.startswith(("make ", "export ")):
            return Place.SHELL
        return Place.REPOSITORY if _READS_A_FILE.match(self.text) else Place.CLUSTER


def blocks(page: str) -> Iterator[list[Command]]:
    """Yield the commands of each block of a page; a backslash at the end of a line continues it."""
    for block in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        joined = block["text"].replace("\\\n", "")
        parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
        lines = [part.splitlines() for part in parts]
        yield [Command(page, text, tuple(output), block["needs"] or "") for text, *output in lines]


def commands(page: str) -> Iterator[Command]:
    """Yield the commands of a page."""
    for block in blocks(page):
        yield from block


def runbook_commands(page: str) -> list[str]:
    """Return the commands of a runbook, with names in capitals for what its reader fills in."""
    return _INDENTED.findall((ROOT / page).read_text(encoding="utf-8"))


def as_pattern(lines: Sequence[str]) -> re.Pattern[str]:
    """Take a line of `…` for any lines or none, `…` within a line for any text."""
    made = [r"(?:[^\n]*\n)*?" if line == "…" else re.escape(line).replace("…", r"[^\n]*") + r"\n" for line in lines]
    return re.compile("".join(made) + r"\Z")


def check(command: Command, output: str) -> None:
    """Compare what a command printed with its page, if that shows anything."""
    if command.output:
        message = f"{command.page}: `{command.text}` prints, other than the page says:\n{output}"
        assert as_pattern(command.output).match(output), message


def printed(*command: str) -> tuple[int, str]:
    """Run a command as a reader would, from the top of the repository; messages come before the result."""
    done = subprocess.run(
        [sys.executable, "-m", "rebalancer.cli.main", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),  # without the COLUMNS that readline sets behind Python's back
        check=False,
    )
    return done.returncode, done.stderr + done.stdout


def checkout(folder: Path) -> Path:
    """Make a folder that looks like the top of the repository, in which commands may leave files."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    return folder
