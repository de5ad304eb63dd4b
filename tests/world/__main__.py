"""Run the worlds of some seeds: `python -m tests.world SEED` shows one, `python -m tests.world FIRST LAST` all."""

import argparse
import sys
import time

from tests.world.world import run


def main() -> int:
    """Run them; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    args = parser.parse_args()
    last = args.first if args.last is None else args.last
    began, seconds, evictions, failed = time.process_time(), 0.0, 0, []
    for seed in range(args.first, last + 1):
        result = run(seed)
        seconds += result.seconds
        evictions += result.evictions
        if result.breaches:
            failed.append(seed)
            print(f"seed {seed}: {result.breaches[0]}", flush=True)
        if args.last is None:
            print(*result.notes, *result.breaches, f"digest {result.digest}", sep="\n")
    spent = time.process_time() - began
    hours = seconds / 3600
    print(
        f"{last - args.first + 1} seeds, {hours:.1f} simulated hours, {evictions / hours:.1f} evictions an hour, "
        f"{hours / spent * 3600:.0f} simulated hours per CPU hour, {len(failed)} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
