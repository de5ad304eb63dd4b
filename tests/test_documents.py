"""The documents say what is so: links lead somewhere, commands exist, output shown is output printed."""

import argparse
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rebalancer import __version__
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS
from rebalancer.model.events import EventReason
from rebalancer.policy import PolicyError, load_policy
from rebalancer.policy.document import API_VERSION
from rebalancer.tracking.moves import TRANSITIONS
from tests.pages import (
    EXAMPLES,
    FAILS,
    ON_A_CLUSTER,
    PAGES_BY_HAND,
    QUICK_START,
    RUNBOOKS,
    Command,
    Place,
    as_pattern,
    blocks,
    check,
    commands,
    printed,
    runbook_commands,
)
from tools.reference import COMMAND, PAGES, PARTS, ROOT, marked, parts_of, renewed

LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
CODE = re.compile(r"```.*?```", re.DOTALL)
BLOCK = re.compile(
    r"(?:^<!-- for: (?P<reader>[^>]*) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL | re.MULTILINE
)
READERS = {"Argo CD", "Flux", "Helm", "Prometheus", "a workflow", "an overlay", "pre-commit"}
"""Who reads a block of YAML below `<!-- for: … -->`; all others are policies."""
NOT_COUNTED = re.compile(r"<!-- generated: .*?<!-- end[^>]*-->|^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`((?:rebalancer|tests|docs|config|deploy|tools|benchmarks)/[\w./-]+)`")


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


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_a_row_of_a_table_is_one_line(page: str) -> None:
    """A line break in a cell ends the table: the rest of it is shown as text."""
    rows = [line for line in CODE.sub("", text_of(page)).splitlines() if line.startswith("|")]
    assert [row for row in rows if not row.rstrip().endswith("|")] == []


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_files_that_are_named_exist(page: str) -> None:
    """A file in backquotes, seen from the top of the repository."""
    missing = [name for name in FILE.findall(text_of(page)) if not (ROOT / name).exists()]
    assert missing == []


def test_headings_that_the_code_cites_exist() -> None:
    """Those of the design, as `docs/design.md, "Responses"`."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "rebalancer").rglob("*.py")]
    cited = {name for text in sources for name in re.findall(r'docs/design\.md,\s+"([^"]+)"', text)}
    assert cited
    assert cited <= set(re.findall(r"^#+ (.+)$", text_of("docs/design.md"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES_BY_HAND)
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


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_commands_and_flags_exist(page: str) -> None:
    """Each `rebalancer X --flag` that is mentioned is understood."""
    mentioned = re.findall(
        r"(?:`|\$ |\| |^ {4,})rebalancer ([a-z]+)((?:[^`\n|&]|\n(?!\n|\$ | {4}))*)", text_of(page), re.MULTILINE
    )
    assert mentioned or page not in {"README.md", "docs/reference/commands.md"}
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


def test_every_invariant_that_names_real_servers_has_a_test_there_that_every_change_must_pass() -> None:
    """A row that names a file of tests/cluster has a marked test, and a mark has its row."""
    page = text_of("docs/design.md")
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([^|]+) \|$", page.partition("\n## Invariants\n")[2], re.MULTILINE)
    assert {name for name, tests in rows if "tests/cluster/" in tests} == marked("invariant").keys()


def test_every_event_is_described() -> None:
    """A name that is only in the code is of no use to who sees it in a cluster."""
    assert all(f"`{reason}`" in text_of("docs/reference/reasons.md") for reason in EventReason)


def policies(page: str) -> Iterator[str]:
    """Yield the policies of a page; a fragment that begins with a field of a policy gets the head that it lacks."""
    for block in BLOCK.finditer(text_of(page)):
        if block["language"] == "yaml" and not block["reader"] and not page.startswith("deploy/"):
            whole = "kind: RebalancePolicy" in block["text"]
            yield block["text"] if whole else f"apiVersion: {API_VERSION}\nkind: RebalancePolicy\n{block['text']}"


@pytest.mark.parametrize("page", [page for page in PAGES_BY_HAND if list(policies(page))])
def test_every_policy_of_a_page_is_valid(page: str) -> None:
    """What people copy from there is valid."""
    for text in policies(page):
        load_policy(text.encode(), source=page)


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_a_block_for_another_program_is_no_policy(page: str) -> None:
    """Otherwise its mark would hide a policy from the test above."""
    for block in BLOCK.finditer(text_of(page)):
        if block["reader"]:
            assert block["reader"] in READERS, page
            for head in ("", f"apiVersion: {API_VERSION}\nkind: RebalancePolicy\n"):
                with pytest.raises(PolicyError):
                    load_policy(f"{head}{block['text']}".encode(), source=page)


def test_policies_are_shown() -> None:
    """The test above speaks of something, of fragments too."""
    assert len(list(policies("docs/policy.md"))) >= 5


COMMANDS = [command for page in PAGES_BY_HAND for command in commands(page)]
"""Of all pages."""

IN_THE_REPOSITORY = [command for command in COMMANDS if command.place is Place.REPOSITORY]


@cache
def run(text: str) -> tuple[int, str]:
    return printed(*shlex.split(text)[1:])


@pytest.mark.parametrize("command", IN_THE_REPOSITORY, ids=lambda command: f"{command.page}: {command.text}")
def test_a_page_shows_what_is_printed(command: Command) -> None:
    """Output on a page is real output, shortened with `…`, of a command that ends as the page says."""
    code, output = run(command.text)
    assert code == FAILS.get(command.text, 0), output
    check(command, output)


def test_pages_show_several_commands() -> None:
    """The tests above speak of something."""
    assert len(IN_THE_REPOSITORY) >= 12


def test_every_command_of_a_page_is_run_somewhere() -> None:
    """A page with a command that needs a cluster is one of those whose commands are run on one."""
    run_there = {QUICK_START, *EXAMPLES, *(page for pages in ON_A_CLUSTER.values() for page in pages)}
    assert {command.page for command in COMMANDS if command.place is Place.CLUSTER} == run_there
    known = {"docker", "kind", "k3d", "minikube", "kubectl", "helm", "rebalancer", "make", "export", "curl"}
    assert {command.text.split()[0] for command in COMMANDS} <= known


@pytest.mark.parametrize("page", RUNBOOKS)
def test_the_commands_of_a_runbook_can_be_pasted_and_repeated(page: str) -> None:
    """No character outside of quotes that zsh would look for in file names; no patch that fails the second time."""
    for command in runbook_commands(page):
        checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, ""), command
        assert not re.search(r"[?*\[{]", re.sub(r"'[^']*'", "", command)), command
        assert "--type=json" not in command, command


@pytest.mark.parametrize("page", PAGES_BY_HAND)
def test_no_command_hides_from_the_tests(page: str) -> None:
    """Each block of `console` begins at the start of its line, and is one of those that are read."""
    fences = len(re.findall(r"```console", text_of(page)))
    assert fences == len(list(blocks(page)))


@pytest.mark.parametrize("page", ["README.md", QUICK_START])
def test_who_has_no_make_is_told_how_to_install(page: str) -> None:
    """From the checkout, as long as no index has the package; that such a wheel runs is in test_environment.py."""
    shown = text_of(page)
    assert all(f"`{command}`" in shown for command in ("pipx install .", "uv tool install .", "pip install ."))
    assert not re.search(r"pypi|install rebalancer", shown)


def test_output_that_differs_is_noticed() -> None:
    """A changed word, a line too many, a line too few."""
    pattern = as_pattern(["one two", "…", "three …"])
    assert pattern.match("one two\nthree four\n")
    assert pattern.match("one two\nx\ny\nthree four\n")
    assert not pattern.match("one tow\nthree four\n")
    assert not pattern.match("one two\nthree four\nfive\n")
    assert not pattern.match("one two\n")


README_ROWS = 110
"""Lines: what leads to a first result, what it promises, and where it ends."""


def test_the_readme_is_short() -> None:
    """What does not lead to the first result belongs to another page."""
    assert len(text_of("README.md").splitlines()) <= README_ROWS


DOCS_PAGES, DOCS_WORDS = 16, 24_000
"""At most, directly in docs/."""


def test_the_documents_can_be_read() -> None:
    """Few pages in docs/ (not in folders below), with few words: what stands in headings, text and tables.

    Generated parts, fenced blocks and comments are not counted, nor are signs without a letter or a digit.
    """
    pages = [page for page in PAGES_BY_HAND if re.fullmatch(r"docs/[\w-]+\.md", page)]
    words = {page: len(re.findall(r"\S*\w\S*", NOT_COUNTED.sub(" ", text_of(page)))) for page in pages}
    assert len(pages) <= DOCS_PAGES, pages
    assert sum(words.values()) <= DOCS_WORDS, words


def rows(page: str, start: str) -> Iterator[list[str]]:
    """Yield the cells of the rows of a page's tables that begin with this text."""
    for line in text_of(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith(start):
            yield cells


@pytest.mark.parametrize("states", ["45 where", "29 where"])
def test_the_readme_compares_as_measured(states: str) -> None:
    """Its figures are those of the page of the comparison."""
    (measured,) = rows("docs/comparison.md", states)
    lines = text_of("README.md").splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith(f"| {states}"))
    for line, program, figures in (
        (lines[first], "Rebalancer", measured[2:7]),
        (lines[first + 1], "descheduler", measured[7:12]),
    ):
        evictions, refused, _, pending, repaired = figures
        shown = [cell.strip() for cell in line.strip("|").split("|")][1:]
        assert shown == [program, f"{repaired}, with {evictions} evictions", refused, pending]
    assert re.search(rf", {measured[1]}\b", lines[first].split("|")[1])


def test_no_page_says_that_it_is_released() -> None:
    """As long as the changelog calls its version unreleased."""
    assert f"## [{__version__}] - unreleased" in text_of("CHANGELOG.md")
    pages = ["deploy/chart/rebalancer/Chart.yaml", *PAGES_BY_HAND]
    assert [page for page in pages if "first release" in text_of(page).lower()] == []


def test_the_map_of_the_code_has_every_folder() -> None:
    """Whoever opens the repository for the first time finds each package and folder in CONTRIBUTING.md."""
    packages = {f"rebalancer/{path.parent.name}" for path in (ROOT / "rebalancer").glob("*/__init__.py")}
    listed = subprocess.run(["git", "ls-files", "*/*"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {name.partition("/")[0] for name in listed.splitlines() if not name.startswith(".")}
    shown = {cells[0].strip("`") for cells in rows("CONTRIBUTING.md", "`")}
    assert packages | folders - {"rebalancer"} <= shown


def test_the_changelog_speaks_of_this_version() -> None:
    """Newest first, in the form of Keep a Changelog."""
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == __version__


def test_the_readme_begins_with_two_commands_that_ci_runs_too() -> None:
    """Each alone in its block, before any other; CI runs the second, then the lanes that need more than Python."""
    demo, test, *others = blocks("README.md")
    assert [[command.text for command in block] for block in (demo, test)] == [["make demo"], ["make test"]]
    assert others
    script = Path(ROOT / ".ci" / "run")
    assert script.read_text(encoding="utf-8").endswith("exec make parts control-plane test coverage cluster image\n")
    assert script.stat().st_mode & 0o111
