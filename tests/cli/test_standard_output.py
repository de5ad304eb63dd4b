"""Standard output has the document alone, whatever a library under the program prints; it may be closed."""

import json
import os
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.cli.files import ready_nodes, replica_set, write_list
from tests.control_plane.manifests import HOSTNAME, ZONE, spread
from tests.control_plane.resources import Manifest
from tests.drawing import sampled

NODES = [f"{zone}-{number}" for zone in "abc" for number in (0, 1)]
SHOP = {"tier": "shop"}
ROOT = Path(__file__).resolve().parents[2]


def cluster(*apps: str) -> list[Manifest]:
    """Return the state after zone c came back: six pods of each app in zones a and b, under one pair of constraints.

    Pods of green may not leave those zones.
    """
    items = ready_nodes({"a": 2, "b": 2, "c": 2}, cpu="16", memory="64Gi")
    for app in apps:
        zones = [{"key": ZONE, "operator": "In", "values": list("ab" if app == "green" else "abc")}]
        required = {"nodeSelectorTerms": [{"matchExpressions": zones}]}
        items += replica_set(
            app,
            NODES[:4] + NODES[:2],
            namespace="shop",
            labels={**SHOP, "app": app},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            topologySpreadConstraints=[spread(key, labels=SHOP) for key in (ZONE, HOSTNAME)],
        )
    return items


@pytest.mark.parametrize(
    ("verb", "apps", "solves"),
    [("plan", ("blue", "green"), True), ("plan", ("blue",), True), ("report", ("blue",), False)],
)
def test_a_plan_that_needs_the_solver_is_json(verb: str, apps: tuple[str, ...], solves: bool, tmp_path: Path) -> None:
    """As a process: the solver writes to the file descriptor. That it was loaded is what Python itself says.

    A plan needs it for evictions of several classes, and for what a lost zone leaves before and after any.
    """
    file = write_list(tmp_path / "cluster.yaml", cluster(*apps))
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "rebalancer.cli.start"),
            *(verb, "--snapshot", file, "-o", "json", "--at", "2026-01-05T09:00:00Z"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    document = json.loads(done.stdout)
    assert document["kind"].lower() == verb
    assert verb == "report" or (document["groups"] and document["evictions"])
    loaded = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines() if line.startswith(b"import time:")}
    assert (b"highspy" in loaded) is solves


A_RELEASE_WITH_A_BANNER = """
import os, highspy
enable = highspy.Highs.enableCallbacks
def enable_loudly(self):
    if self.getOptionValue("output_flag")[1]:
        os.write(1, b"Running HiGHS")
        os.write(2, b"Running HiGHS")
    enable(self)
highspy.Highs.enableCallbacks = enable_loudly
"""
"""As 1.16.0 does it: at the first call but of an option, which its constructor makes."""


@pytest.mark.parametrize("release", ["", A_RELEASE_WITH_A_BANNER], ids=["installed", "with a banner"])
def test_the_solver_prints_nothing(release: str) -> None:
    """As the library uses it, with the descriptors of the process as they are; `make ranges` tries other releases."""
    program = (
        f"{release}\n"
        "from rebalancer.planning.multi_class.milp import Program, _solve\n"
        "from tests.planning.states import LIMITS\n"
        "program = Program()\n"
        "columns = [program.add_column(0, 9, -1) for _ in range(3)]\n"
        "program.add_row(0, 7, dict.fromkeys(columns, 2.0))\n"
        "(values, bound) = _solve(program, LIMITS, 10**6).answer\n"
        "assert sum(values) == 3\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_c_code_prints_is_no_part_of_the_answer() -> None:
    """Some libraries write to the descriptor 1, as some releases of HiGHS did: it goes to standard error."""
    program = (
        "import os, sys; from rebalancer.cli import main, start; answer = main.main;"
        "main.main = lambda: (os.write(1, b'a banner\\n'), answer())[1];"
        "sys.argv = ['rebalancer', 'report', '--snapshot', 'docs/examples/zone-returned.json', '-o', 'json'];"
        "start.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["kind"] == "Report"
    assert done.stderr == "a banner\n"


CODES = {
    **{f"{verb} --snapshot docs/examples/zone-returned.json": 0 for verb in ("plan", "report", "explain deploy/cart")},
    "status --kubeconfig /nowhere": 1,
    "demo --scenario docs/examples/zone-back/scenario.yaml": 0,
    "nothing": 2,
}
"""Commands and their exit codes."""


@cache
def with_open_streams(words: str) -> "subprocess.CompletedProcess[str]":
    return run_in_shell(words)


@pytest.mark.parametrize(("words", "closed"), sampled(product(CODES, ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])))
def test_closed_streams_change_no_exit_code(words: str, closed: str) -> None:
    """As cron jobs and daemons close them: no traceback, and what is open gets what it gets else."""
    done, whole = run_in_shell(f"{words} {closed}"), with_open_streams(words)
    assert (done.returncode, whole.returncode) == (CODES[words], CODES[words])
    assert done.stdout == ("" if ">&- 2" in closed or closed == ">&-" else whole.stdout)
    assert done.stderr == ("" if "2>&-" in closed else whole.stderr)


def test_a_file_that_is_opened_gets_the_number_of_no_closed_stream() -> None:
    """What is printed would be written into it, or into a request to the API server."""
    program = (
        "import os, sys; from rebalancer.cli import start; sys.argv = ['rebalancer', '--version'];"
        "sys.exit = lambda code: os._exit(os.open(os.devnull, os.O_RDONLY)); start.main()"
    )
    command = f'exec {sys.executable} -c "$0" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command, program], check=False, timeout=60, env=dict(os.environ))
    assert done.returncode >= 3


@pytest.mark.parametrize("words", ["version", "report --snapshot docs/examples/zone-returned.json"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(words: str, unbuffered: str) -> None:
    """Whether it shows when a line is printed, or at the end."""
    done = run_in_shell(f"{words} > /dev/full", unbuffered)
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device\n")


def test_a_full_disk_of_a_named_file_is_one_line_with_its_name() -> None:
    done = run_in_shell("plan --snapshot docs/examples/zone-returned.json --out /dev/full")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: /dev/full: No space left on device\n")


def test_what_is_printed_without_buffers_is_there_at_once() -> None:
    """With `python -u`, as the image has it, for all that is not flushed."""
    program = (
        "import os, sys; from rebalancer.cli import start; start._keep_standard_output();"
        "sys.stdout.write('one'); sys.stdout.write('two\\n'); os._exit(0)"
    )
    for unbuffered, printed in ("1", "onetwo\n"), ("", ""):
        variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout == printed


def run_in_shell(words: str, unbuffered: str = "") -> "subprocess.CompletedProcess[str]":
    command = ["sh", "-c", f"exec {sys.executable} -m rebalancer.cli.start {words}"]
    variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=60)
