"""Where the time and the memory of one `rebalancer plan` and `report` go, phase by phase, and how both grow.

    python -m benchmarks.phases [--size 1k] [--functions 25]     # or: make profile
    python -m benchmarks.phases --growth docs/growth.svg         # four sizes, exponents, and a picture

Reads a recorded API server over TLS, as the process does. Seconds are those of the processor, which other work on the
machine changes less; MiB is the peak so far. An exponent of 1 is growth in proportion to the pods.
"""

import argparse
import cProfile
import io
import json
import math
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.growth_picture import draw
from benchmarks.recorded.pages import recorded
from benchmarks.recorded.server import served
from benchmarks.recorded.states import SCENARIOS, SIZES
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.assessment.findings import find_findings
from rebalancer.cli.main import collect_rarely
from rebalancer.documents.document import json_chunks
from rebalancer.documents.plan import plan_document
from rebalancer.documents.report import every_workload, report_document
from rebalancer.engine import evaluate
from rebalancer.planning.planner import find_relaxations
from rebalancer.policy import default_policy

T = TypeVar("T")

GROWTH: Final = ("half", "1k", "2k", "4k")
PHASES: Final = ("receive", "decode", "assess", "plan", "plan document", "plan JSON", "report document")


class Phases:
    """Seconds of processor time and the peak of memory of each phase, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak: dict[str, float] = {}

    def run(self, name: str, function: Callable[[], T]) -> T:
        """Run one phase."""
        with self.watch(name):
            return function()

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Time the block, as one phase."""
        began = time.process_time()
        yield
        self.note(name, time.process_time() - began)

    def note(self, name: str, seconds: float) -> None:
        """Note what a phase took."""
        self.seconds[name] = seconds
        self.peak[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(kubeconfig: Path) -> Phases:
    """Do what `plan -o json` and `report` do, from the list to the document."""
    collect_rarely()
    phases, policy = Phases(), default_policy()
    transport = connect(kubeconfig=str(kubeconfig))
    begin, received = transport.begin, 0.0

    def timed(*args: Any, **named: Any) -> Callable[[], bytes]:
        body = begin(*args, **named)

        def read() -> bytes:
            nonlocal received
            began = time.process_time()
            data = body()
            received += time.process_time() - began
            return data

        return read

    transport.begin = timed  # type: ignore[method-assign]  # what a body takes to be read is what counts
    began = time.process_time()
    snapshot = read_once(transport, datetime.now(UTC))
    whole = time.process_time() - began
    phases.note("receive", received)
    phases.note("decode", whole - received)
    transport.close()
    evaluation = evaluate(snapshot, policy, stopwatch=phases.watch)
    made = evaluation.plan
    document = phases.run("plan document", lambda: plan_document(made, snapshot, find_relaxations(made)))
    phases.run("plan JSON", lambda: sum(map(len, json_chunks(document))))
    view, assessment = evaluation.view, evaluation.assessment
    phases.run(
        "report document",
        lambda: report_document(
            assessment, made, evaluation.causes, find_findings(view, assessment, ()), every_workload
        ),
    )
    return phases


def measure_apart(scenario: str, size: str, root: Path) -> Mapping[str, Mapping[str, float]]:
    """Measure one size in a process of its own; returns seconds and peak by phase."""
    folder = recorded(scenario, size, root)
    with served(folder, root) as kubeconfig:
        command = [sys.executable, "-m", "benchmarks.phases", "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: Mapping[str, Mapping[str, float]] = json.loads(done.stdout)
    return result


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of a straight line through the logarithms, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 1e-9)) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def show_growth(scenario: str, root: Path, picture: Path | None) -> None:
    """Print a row for each phase with its seconds at each size and its exponent; draw them."""
    pods = [SIZES[size][1] for size in GROWTH]
    measured = [measure_apart(scenario, size, root) for size in GROWTH]
    rows = {phase: [sizes["seconds"][phase] for sizes in measured] for phase in PHASES}
    print(f"| phase | {' | '.join(f'{count:,} pods' for count in pods)} | exponent |\n|{' --- |' * (len(pods) + 2)}")
    for phase, values in rows.items():
        print(f"| {phase} | {' | '.join(f'{value:.2f} s' for value in values)} | {exponent(pods, values):.2f} |")
    whole = [sum(sizes["seconds"].values()) for sizes in measured]
    print(f"| all | {' | '.join(f'{value:.2f} s' for value in whole)} | {exponent(pods, whole):.2f} |")
    peaks = [max(sizes["peak"].values()) for sizes in measured]
    print(f"| peak memory | {' | '.join(f'{value:.0f} MiB' for value in peaks)} | {exponent(pods, peaks):.2f} |")
    if picture is not None:
        picture.write_text(draw(pods, {**rows, "all": whole}), encoding="utf-8")


def show_profile(scenario: str, size: str, root: Path, functions: int) -> None:
    """Print the phases of one size, and the functions that take the most of it."""
    folder = recorded(scenario, size, root)
    profiler = cProfile.Profile() if functions else None
    with served(folder, root) as kubeconfig, profiler or nullcontext():
        phases = measure(kubeconfig)
    print(f"{scenario}, {SIZES[size][1]:,} pods{', slowed by the profiler' if functions else ''}\n")
    for phase, seconds in phases.seconds.items():
        print(f"{phase:16} {seconds:7.2f} s  {phases.peak[phase]:6.0f} MiB")
    if profiler is not None:
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(functions)
        print(text.getvalue().partition("Ordered by")[2])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phases", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="1k")
    parser.add_argument("--scenario", choices=SCENARIOS, default="zone-returned")
    parser.add_argument("--functions", type=int, default=0, help="also so many functions, by a profiler")
    parser.add_argument("--growth", type=Path, metavar="FILE", help="measure four sizes and draw them into a file")
    parser.add_argument("--kubeconfig", type=Path, help="of a server that runs already; prints JSON")
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    if options.kubeconfig:
        phases = measure(options.kubeconfig)
        print(json.dumps({"seconds": phases.seconds, "peak": phases.peak}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = options.work or Path(temporary)
        if options.growth:
            show_growth(options.scenario, root, options.growth)
        else:
            show_profile(options.scenario, options.size, root, options.functions)


if __name__ == "__main__":
    main()
