"""The library: the names that `import rebalancer` gives, and the examples of its page."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

import rebalancer
from tests.pages import as_pattern

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"^```python\n(.*?)^```\n+```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PUBLIC_MOST: Final = 20
NOW: Final = datetime(2026, 1, 5, 9, tzinfo=UTC)


def test_the_public_names_are_few_and_sorted() -> None:
    """At most twenty, as a linter sorts them: classes, then functions."""
    assert len(rebalancer.__all__) <= PUBLIC_MOST
    assert list(rebalancer.__all__) == sorted(rebalancer.__all__)
    assert set(rebalancer.__all__) <= set(dir(rebalancer))


@pytest.mark.parametrize("name", rebalancer.__all__)
def test_each_public_name_exists_and_says_what_it_is(name: str) -> None:
    """A docstring of its own, and a row of the page."""
    documented = getattr(rebalancer, name)
    assert documented.__name__ == name
    assert (documented.__doc__ or "").strip()
    assert f"`{name}`" in PAGE.partition("## What stays")[2]


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="module 'rebalancer' has no attribute 'assess'"):
        getattr(rebalancer, "assess")  # noqa: B009  # a type checker refuses it as an attribute


def test_to_import_the_package_imports_nothing_else() -> None:
    """Commands import the package first: what a name needs is imported when the name is used."""
    script = (
        "import sys; before = set(sys.modules); import rebalancer; "
        "print(*sorted(set(sys.modules) - before - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert [name for name in done.stdout.split() if not name.startswith("importlib")] == ["rebalancer"]


def test_the_page_has_four_examples() -> None:
    assert len(EXAMPLES) == len(re.findall(r"^```python", PAGE, re.MULTILINE)) == 4


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_the_examples_print_what_the_page_shows(code: str, output: str) -> None:
    """Each as a program of its own, without a warning; the check in CI ends with 1: a limit is violated."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 1 if "sys.exit" in code else 0)
    assert as_pattern(output.splitlines()).match(done.stdout), done.stdout


def test_what_a_snapshot_lacks_is_a_warning() -> None:
    """The snapshot is returned alone; where an exact answer is wanted, the warning can be an error."""
    nodes = b'{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Node", "metadata": {"name": "a"}}]}'
    with pytest.warns(rebalancer.IncompleteSnapshot, match="cluster has no .*PodDisruptionBudgets"):
        snapshot = rebalancer.read_snapshot(nodes, source="cluster", at=NOW, version="1.34")
    assert ([node.name for node in snapshot.nodes], str(snapshot.version)) == (["a"], "1.34")


def test_a_file_that_is_no_snapshot_and_a_version_that_is_none_are_errors() -> None:
    with pytest.raises(rebalancer.UnreadableSnapshot, match="cluster: it is a single Secret"):
        rebalancer.read_snapshot(b'{"kind": "Secret", "apiVersion": "v1"}', source="cluster")
    with pytest.raises(ValueError, match="is not a Kubernetes version"):
        rebalancer.read_snapshot(b"{}", version="latest")
