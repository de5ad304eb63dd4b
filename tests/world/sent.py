"""All requests of a run as two digests: what was requested when, and the words for people in it.

`python -m tests.world.sent FIRST LAST` prints a line a seed: its number, how many requests were sent, and the digests.
Seeds with an even number have capacity and prevention on, for less time. A change of the code that is meant to decide
nothing otherwise prints the same lines before and after; one that only edits sentences changes the last column.
`--against FILE` compares with such lines, without the words, and names the seeds that differ.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import json


class Sent:
    """Takes every request of all replicas, in order."""

    def __init__(self) -> None:
        self._requests, self._words = sha256(), sha256()
        self.counts: Counter[str] = Counter()

    def note(self, seconds: float, sender: str, kind: str, *facts: object, words: str = "") -> None:
        """Take a request with what it requires, and with its words for people."""
        self.counts[kind] += 1
        self._requests.update(f"{seconds:.6f} {sender} {kind} ".encode())
        self._requests.update(json.encode(facts, enc_hook=str))
        self._words.update(f"{words}\n".encode())

    @property
    def line(self) -> str:
        """The number of requests, and the digests."""
        return f"{self.counts.total()} {self._requests.hexdigest()} {self._words.hexdigest()}"


def run_seeds(first: int, last: int, totals: Counter[str] | None = None) -> Iterator[str]:
    """Run the worlds of some seeds; yield the line of each, and add up the requests by kind."""
    from tests.world.schedule import BRIEF, WHOLE  # noqa: PLC0415  # the world imports this module
    from tests.world.world import World, quiet  # noqa: PLC0415

    with quiet():
        for seed in range(first, last + 1):
            has_features = seed % 2 == 0
            world = World(seed, cut=BRIEF if has_features else WHOLE, has_features=has_features)
            world.run()
            if totals is not None:
                totals.update(world.api.sent.counts)
            yield f"{seed} {world.api.sent.line}"


def differing(lines: Iterator[str], recorded: Path) -> list[str]:
    """Return the seeds of lines whose requests differ from the recorded ones."""
    known = {seed: facts for seed, *facts in map(str.split, recorded.read_text(encoding="utf-8").splitlines())}
    return [seed for seed, *facts in map(str.split, lines) if facts[:2] != known[seed][:2]]


def main() -> int:
    """Print or compare the lines of some seeds; 1 if some differ."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.world.sent", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--against", type=Path, metavar="FILE")
    args = parser.parse_args()
    totals: Counter[str] = Counter()
    lines = run_seeds(args.first, args.last, totals)
    differ: list[str] = []
    if args.against is None:
        for line in lines:
            print(line, flush=True)
    else:
        differ = differing(lines, args.against)
        print(f"{args.last - args.first + 1} seeds, {len(differ)} differ", *differ)
    print(*(f"{kind}: {number}" for kind, number in sorted(totals.items())), sep=", ", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
