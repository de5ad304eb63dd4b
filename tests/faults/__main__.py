"""Repeat schedules of faults by their seeds, or draw many: `python -m tests.faults 17 42`, `… --count 200`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.control_plane.plane import ControlPlane
from tests.faults.cases import CASES, NESTED
from tests.faults.matrix import schedule_of
from tests.faults.scenario import Outcome, run_all, run_schedules, summarize
from tests.faults.schedule import kill_after


def main() -> int:
    """Run, and return 1 if an invariant did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED")
    parser.add_argument("--count", type=int, default=0, help="seeds 1 to COUNT")
    parser.add_argument("--kill", type=int, default=0, metavar="K", help="no faults; kill it after its K-th write")
    parser.add_argument("--case", default=NESTED.name, choices=[case.name for case in CASES], help="with --kill")
    parser.add_argument("--lanes", type=int, default=6, help="how many run side by side")
    parser.add_argument("--show", action="store_true", help="only print the schedules")
    parser.add_argument("--logs", type=Path, help="a folder for the controllers' logs and the requests of failed runs")
    args = parser.parse_args()
    seeds = [*args.seeds, *range(1, args.count + 1)]
    if args.show:
        for seed in seeds:
            print(schedule_of(seed))
        return 0

    def report(outcome: Outcome) -> None:
        print(outcome, flush=True)
        if args.logs and (outcome.breaches or len(seeds) <= 1):
            outcome.save(args.logs)

    began = time.monotonic()
    with ControlPlane() as plane:
        if args.kill:
            case = next(case for case in CASES if case.name == args.case)
            outcomes = run_all(plane, [(kill_after(args.kill), case)], lanes=1, report=report)
        else:
            outcomes = run_schedules(plane, seeds, lanes=args.lanes, report=report)
    print(summarize(outcomes, time.monotonic() - began))
    return int(any(outcome.breaches for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
