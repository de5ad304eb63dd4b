"""Which tests run where: what a lane selects, how many examples it draws, and what it says it lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawing import SHARES, sampled, scaled
from tests.parts import LANES

ROOT = Path(__file__).resolve().parents[1]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def selected(expression: str) -> set[str]:
    """Return which of two files an expression over marks selects tests of."""
    files = ("tests/cluster/test_repair.py", "tests/cluster/test_kill_switch.py")
    done = run("pytest", "--collect-only", "-q", "-m", expression, *files)
    return {Path(line.partition("::")[0]).stem for line in done.stdout.splitlines() if "::" in line}


def test_what_holds_an_invariant_on_real_servers_runs_for_every_change_and_the_rest_at_night() -> None:
    assert selected("cluster and not thorough") == {"test_repair"}
    assert selected("nightly") == selected("thorough") == {"test_kill_switch"}


def test_a_profile_draws_its_share_evenly_over_the_list() -> None:
    """All in CI, at least one whatever there is, and none twice."""
    assert SHARES["ci"] == 1
    assert scaled(1) >= 1
    assert sampled([]) == []
    for length in (1, 2, 7, 100):
        tried = sampled(range(length))
        assert len(tried) == min(scaled(length), length)
        assert tried[0] == 0
        gaps = [after - before for before, after in zip(tried, [*tried[1:], length], strict=True)]
        assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("lane", LANES)
def test_what_a_machine_lacks_is_listed_with_what_is_skipped_and_the_remedy(lane: str, tmp_path: Path) -> None:
    """A machine without any program; it is an error only in CI, and then of the whole run."""
    bare = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "REBALANCER_CONTROL_PLANE": ""}
    listed = run("tests.parts", lane, **bare, CI="")
    head, *rows = listed.stdout.splitlines()
    assert head.split() == ["HERE", "PART", "SKIPPED", "REMEDY"]
    lacking = [row for row in rows if row.startswith("no ")]
    assert lacking
    assert all(len([cell for cell in row.split("  ") if cell.strip()]) == 4 for row in lacking)
    assert listed.returncode == 0
    in_ci = run("tests.parts", lane, **bare, CI="true")
    assert (in_ci.returncode, in_ci.stdout) == (1, listed.stdout)
    assert in_ci.stderr == "CI=true: every test must run; install what this machine lacks.\n"
