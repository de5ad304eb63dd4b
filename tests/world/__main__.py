"""Run the worlds of some seeds: `python -m tests.world SEED` shows one, `python -m tests.world FIRST LAST` all.

`--scenario` forces a scenario, `--without` takes a safeguard out and ends with the first seed that notices it. The run
of one seed can be cut with `--only`, `--replicas` and `--chaos`; `--shrink` finds a small such run that still fails.
`--brief` takes 35 minutes of each seed instead of 90, at less than half the price.
"""

import argparse
import gc
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tests.world.safeguards import SAFEGUARDS, SURGE_SAFEGUARDS, without
from tests.world.scenarios import FORCED
from tests.world.schedule import BRIEF, WHOLE, Cut
from tests.world.shrink import command, shrink
from tests.world.world import Result, run

_YOUNG = 100_000
"""Objects after which the garbage collector looks at the youngest: it costs a tenth otherwise."""


def main() -> int:
    """Run them; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.world", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--scenario", choices=FORCED, default="")
    parser.add_argument("--without", choices=SAFEGUARDS | SURGE_SAFEGUARDS, default="", metavar="SAFEGUARD")
    parser.add_argument("--only", help="numbers of disturbances, or - for none")
    parser.add_argument("--replicas", type=int)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--chaos", type=float, help="seconds")
    parser.add_argument("--shrink", action="store_true")
    args = parser.parse_args()
    only = None if args.only is None else tuple(int(number) for number in args.only.split(",") if number != "-")
    base = BRIEF if args.brief else WHOLE
    chaos = base.chaos if args.chaos is None else args.chaos
    cut = replace(base, disturbances=only, replicas=args.replicas, chaos=chaos)
    gc.set_threshold(_YOUNG, 20, 100)
    removal: AbstractContextManager[None] = without(args.without) if args.without else nullcontext()
    with removal:
        if args.last is None:
            return _run_one(args.first, args.scenario, cut, args.without, shrinks=args.shrink)
        return _run_range(args.first, args.last, args.scenario, cut, args.without)


def _run_one(seed: int, scenario: str, cut: Cut, removed: str, *, shrinks: bool) -> int:
    result = run(seed, scenario, cut)
    if shrinks and result.breaches:
        cut, result = shrink(result, scenario, cut)
        print(command(seed, scenario, cut, removed))
    print(f"scenario {result.scenario}", *result.notes, *result.breaches, f"digest {result.digest}", sep="\n")
    return 1 if result.breaches else 0


def _run_range(first: int, last: int, scenario: str, cut: Cut, removed: str) -> int:
    began, results = time.process_time(), []
    failed = 0
    for seed in range(first, last + 1):
        result = run(seed, scenario, cut)
        results.append(result)
        if result.breaches:
            failed += 1
            print(f"seed {seed} ({result.scenario}): {result.breaches[0]}", flush=True)
            if removed:
                break
    _summarize(first, results, failed, time.process_time() - began)
    return 1 if failed else 0


def _summarize(first: int, results: list[Result], failed: int, spent: float) -> None:
    hours = sum(result.seconds for result in results) / 3600
    print(
        f"seeds {first} to {first + len(results) - 1}: {failed} failed; {hours:.1f} simulated hours, "
        f"{hours / spent * 3600:.0f} per CPU hour; at least {min(result.nodes for result in results)} nodes and "
        f"{min(result.pods for result in results)} pods; an hour {sum(r.evictions for r in results) / hours:.1f} "
        f"evictions and {sum(r.faults for r in results) / hours:.1f} faults"
    )


if __name__ == "__main__":
    sys.exit(main())
