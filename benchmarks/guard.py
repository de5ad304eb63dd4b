"""Whether a whole `plan -o json` has become slower or larger than it was when the ratio in `guard.json` was stored.

    python -m benchmarks.guard [--size 5k] [--rounds 3] [--work FOLDER] [--store]

Seconds of another machine, or of another hour, say nothing. So the processor time of the process is divided by that of
fixed work in pure Python (`unit`), each the least of some runs in turn. The peak of memory is compared as it is. Exits
with 1 if either is above `MOST` times what is stored; `--store` stores what is measured. The ratio depends on how the
interpreter was built: one with profile-guided optimisation needs a ratio of its own.
"""

import argparse
import compileall
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from benchmarks.recorded.pages import recorded
from benchmarks.recorded.server import served
from benchmarks.recorded.states import SIZES
from benchmarks.timing import seconds
from benchmarks.whole import COMMANDS, PROGRAM, measure
from rebalancer import __file__ as package

STORED: Final = Path(__file__).with_suffix(".json")
MOST: Final = 1.1
_COMMAND: Final = "plan -o json"
_ROWS: Final = 100_000


class Figures(NamedTuple):
    """What is compared: the processor time in units, and the peak of memory in MiB."""

    ratio: float
    peak: float


def unit() -> None:
    """Do the work that is the unit: parsing, grouping, sorting and writing rows that are always the same."""
    choice = Random(1)
    text = json.dumps([{"name": f"pod-{row}", "zone": choice.randrange(3), "age": row} for row in range(_ROWS)])
    rows = json.loads(text)
    counts = Counter((row["zone"], row["age"] % 1_000) for row in rows)
    ordered = sorted(rows, key=lambda row: (-counts[row["zone"], row["age"] % 1_000], row["name"]))
    json.dumps(ordered)


def measure_figures(size: str, rounds: int, work: Path) -> Figures:
    """Measure the process and the unit in turn, on a recorded API server."""
    folder = recorded("zone-returned", size, work)
    compileall.compile_dir(Path(package).parent, quiet=1)  # as in the image
    units, runs = [], []
    with served(folder, work) as kubeconfig:
        for _ in range(rounds):
            units.append(seconds(unit))
            runs.append(measure([*PROGRAM, *COMMANDS[_COMMAND], "--kubeconfig", str(kubeconfig)], work / "guard.out"))
    if any(run.code for run in runs):
        sys.exit(f"{_COMMAND} failed: {(work / 'guard.err').read_text(encoding='utf-8')}")
    return Figures(min(run.cpu for run in runs) / min(units), min(run.peak for run in runs))


def is_within(now: Figures, stored: Figures) -> bool:
    """Print figures beside the stored ones; return whether none is above `MOST` times the stored one."""
    factors = [new / old for new, old in zip(now, stored, strict=True)]
    print(f"processor time: {now.ratio:.2f} units, stored {stored.ratio:.2f}: factor {factors[0]:.2f}")
    print(f"peak of memory: {now.peak:.0f} MiB, stored {stored.peak:.0f}: factor {factors[1]:.2f}")
    return max(factors) <= MOST


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="5k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    parser.add_argument("--store", action="store_true", help="store what is measured for this size")
    parser.add_argument("--stored", type=Path, default=STORED, help="the file of what is stored")
    options = parser.parse_args(arguments)
    stored: Mapping[str, Sequence[float]] = json.loads(options.stored.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        now = measure_figures(options.size, options.rounds, options.work or Path(temporary))
    if options.store:
        rows = {**stored, options.size: [round(now.ratio, 2), round(now.peak)]}
        options.stored.write_text(json.dumps(rows, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if not options.store and options.size not in stored:
        sys.exit(f"nothing is stored for {options.size}: run with --store")
    return 0 if options.store or is_within(now, Figures(*stored[options.size])) else 1


if __name__ == "__main__":
    sys.exit(main())
