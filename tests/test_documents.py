"""The documents say what is so: links lead somewhere, commands exist, output shown is output printed."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rebalancer import __version__
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS
from rebalancer.model.events import EventReason
from rebalancer.policy import load_policy
from rebalancer.tracking.moves import TRANSITIONS
from tools.reference import COMMAND, PAGES, PARTS, ROOT, parts_of, renewed

SKIPPED = {".venv", ".git", "node_modules"}
PAGES_BY_HAND = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.parts)
)
MANUALS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/design.md",
    "docs/planning.md",
    "docs/reference.md",
    "SECURITY.md",
    "CHANGELOG.md",
]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
CODE = re.compile(r"```.*?```", re.DOTALL)
BLOCK = re.compile(r"```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
FILE = re.compile(r"`((?:rebalancer|tests|docs|config|deploy|tools|benchmarks)/[\w./-]+)`")
ELSEWHERE = ("rebalancer run", "rebalancer demo |")
"""Commands of the README that need a cluster or a terminal."""


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """Return the anchors of a page as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", CODE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link names a file that exists, and a heading that it has."""
    for link in LINK.finditer(CODE.sub("", text_of(page))):
        target = (ROOT / page).parent / link["path"] if link["path"] else ROOT / page
        assert target.exists(), f"{page}: {link[0]}"
        if link["anchor"]:
            assert link["anchor"] in anchors(target.resolve().relative_to(ROOT).as_posix()), f"{page}: {link[0]}"


@pytest.mark.parametrize("page", MANUALS)
def test_files_that_are_named_exist(page: str) -> None:
    """A file in backquotes, seen from the top of the repository."""
    missing = [name for name in FILE.findall(text_of(page)) if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", MANUALS)
def test_targets_of_make_exist(page: str) -> None:
    """Each `make X` that is mentioned is a target."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", text_of(page))) <= targets


def arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield name
                yield from arguments(child)


@cache
def known(verb: str) -> frozenset[str]:
    """Return the flags and verbs below a verb."""
    command = next((command for command in VERBS if command.name == verb), None)
    assert command is not None, f"there is no `rebalancer {verb}`"
    parser = Parser(prog=verb, description="")
    command.load().add_arguments(parser)
    return frozenset(arguments(parser))


@pytest.mark.parametrize("page", MANUALS)
def test_commands_and_flags_exist(page: str) -> None:
    """Each `rebalancer X --flag` that is mentioned is understood."""
    mentioned = re.findall(r"(?:`|\$ |\| )rebalancer ([a-z]+)((?:[^`\n|&]|\n(?!\n))*)", text_of(page))
    assert mentioned or page not in {"README.md", "docs/reference.md"}
    for verb, rest in mentioned:
        flags = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest))
        assert flags <= known(verb), f"rebalancer {verb}{rest}"


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_current(page: str) -> None:
    """The tables of the reference and the diagram of a move are the code's own."""
    assert parts_of(text_of(page)) == PAGES[page]
    assert text_of(page) == renewed(text_of(page)), f"{page} is stale: {COMMAND}"


def test_the_diagram_is_the_transition_table() -> None:
    """Every transition is drawn and nothing else, read back from the page."""
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", text_of("docs/design.md"), re.MULTILINE)
    assert sorted(drawn) == sorted((str(a), str(c), str(b)) for (a, b), c in TRANSITIONS.items())


def test_every_part_is_on_a_page() -> None:
    """What is generated can be read somewhere."""
    assert frozenset[str]().union(*PAGES.values()) == set(PARTS)


def test_every_event_is_described() -> None:
    """A name that is only in the code is of no use to who sees it in a cluster."""
    assert all(f"`{reason}`" in text_of("docs/reference.md") for reason in EventReason)


def test_every_field_of_a_policy_in_the_readme_is_known() -> None:
    """What people copy from there is valid."""
    policies = [block["text"] for block in BLOCK.finditer(text_of("README.md")) if block["language"] == "yaml"]
    assert policies
    for text in policies:
        load_policy(text.encode(), source="README.md")


def shown() -> Iterator[tuple[str, list[str]]]:
    """Yield every command of these pages that needs no cluster, with the lines that it is shown to print."""
    for block in BLOCK.finditer("".join(map(text_of, ("README.md", "docs/planning.md", "docs/simulate.md")))):
        if block["language"] != "console":
            continue
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            if command.startswith("rebalancer ") and not command.startswith(ELSEWHERE):
                yield command, lines


SHOWN = dict(shown())


def as_pattern(lines: list[str]) -> re.Pattern[str]:
    """Take a line of `…` for any lines or none, `…` within a line for any text."""
    made = [r"(?:[^\n]*\n)*?" if line == "…" else re.escape(line).replace("…", r"[^\n]*") + r"\n" for line in lines]
    return re.compile("".join(made) + r"\Z")


def printed(*command: str) -> str:
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
    return done.stderr + done.stdout


def check(command: str, lines: list[str], output: str) -> None:
    assert as_pattern(lines).match(output), f"`{command}` prints, other than the README says:\n{output}"


@pytest.mark.parametrize("command", SHOWN)
def test_the_readme_shows_what_is_printed(command: str) -> None:
    """Output in the README is real output, shortened with `…`."""
    check(command, SHOWN[command], printed(*shlex.split(command)[1:]))


def test_the_readme_shows_the_demo() -> None:
    """The same at another pace."""
    (block,) = (
        block["text"] for block in BLOCK.finditer(text_of("README.md")) if "$ rebalancer demo |" in block["text"]
    )
    check("rebalancer demo", block.splitlines()[1:], printed("demo", "--speed", "100000"))


def test_the_readme_shows_several_commands() -> None:
    """The tests above speak of something."""
    assert len(SHOWN) >= 4


def test_output_that_differs_is_noticed() -> None:
    """A changed word, a line too many, a line too few."""
    pattern = as_pattern(["one two", "…", "three …"])
    assert pattern.match("one two\nthree four\n")
    assert pattern.match("one two\nx\ny\nthree four\n")
    assert not pattern.match("one tow\nthree four\n")
    assert not pattern.match("one two\nthree four\nfive\n")
    assert not pattern.match("one two\n")


def test_the_changelog_speaks_of_this_version() -> None:
    """Newest first, in the form of Keep a Changelog."""
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == __version__


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """The commands in CONTRIBUTING are those that CI runs."""
    script = Path(ROOT / ".ci" / "run")
    assert "$ make test" in text_of("README.md")
    assert script.read_text(encoding="utf-8").rstrip().endswith("exec make test")
    assert script.stat().st_mode & 0o111
