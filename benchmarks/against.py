"""Runs the same benchmarks in two checkouts in turn, A B A B, and prints each figure's median and the ratio B / A.

`python -m benchmarks.against OLD [NEW] [--rounds N] [BENCHMARK …]`: both checkouts run with this interpreter, so what
differs is their code alone. Figures are the seconds that the benchmarks print; the machine's drift meets both alike.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
FIGURE = re.compile(r"(?P<label>[A-Za-z][^;:\n]*?) (?P<seconds>\d+\.\d+) s\b")


def figures(checkout: Path, benchmark: str) -> dict[str, float]:
    """Run a benchmark of a checkout and return the seconds that it prints, by what stands before them."""
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", f"benchmarks/{benchmark}"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    counted: dict[str, float] = {}
    for line in done.stdout.splitlines():
        for match in FIGURE.finditer(line):
            label = match["label"].strip(" ,.")
            counted[label if label not in counted else f"{label} (again)"] = float(match["seconds"])
    return counted


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--benchmark", action="append", help="a file in benchmarks/ (default: test_planning.py)")
    args = parser.parse_args()
    seconds: dict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for _ in range(args.rounds):
        for side, checkout in enumerate((args.old.resolve(), args.new.resolve())):
            for benchmark in args.benchmark or ["test_planning.py"]:
                for label, figure in figures(checkout, benchmark).items():
                    seconds[benchmark, label][side].append(figure)
    print("| benchmark | figure | before (s) | after (s) | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for (benchmark, label), (old, new) in seconds.items():
        if old and new:
            ratio = f"{median(new) / median(old):.2f}" if median(old) else "-"
            print(f"| {benchmark} | {label} | {median(old):.3f} | {median(new):.3f} | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
