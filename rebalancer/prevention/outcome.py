"""The outcome of an order of deletion: for every number of remaining pods, the greatest excess over the rules.

Pods of equal rank are deleted in an unknown order: by crowded nodes, then by age in powers of two, then by chance. So
every order of such pods is considered, and the worst result for each number counts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rebalancer.prevention.scale_down import UNCOUNTED, ScaleDown, ScaleDownTally

Excess = tuple[int, ...]
"""At position k: by how many pods the rules are exceeded if k pods remain."""


class Price(NamedTuple):
    """How good an order is; smaller is better.

    It compares how many numbers of remaining pods violate a rule, then the excess.
    """

    violated: int = 0
    excess: int = 0


def price(excess: Sequence[int]) -> Price:
    """Return the price of an outcome. The numbers all and 0 are left out, because they allow no choice."""
    inner = excess[1:-1]
    return Price(sum(amount > 0 for amount in inner), sum(inner))


def is_no_worse(excess: Sequence[int], before: Sequence[int]) -> bool:
    """Return whether an outcome is no worse than the one before, for each number of remaining pods."""
    return all(after <= amount for after, amount in zip(excess, before, strict=True))


def find_outcome(group: ScaleDown, ranks: Sequence[int]) -> Excess:
    """Return the excess for each number of remaining pods; pods of lower rank are deleted first."""
    tallies = [ScaleDownTally(rule, range(group.size)) for rule in group.rules]
    remaining = group.size
    excess = [0] * (group.size + 1)
    excess[remaining] = sum([tally.excess(remaining) for tally in tallies])
    for block in _blocks(ranks):
        alike = len(block) == 1 or len({group.kinds[pod] for pod in block}) == 1
        if not alike:
            for tally in tallies:
                for gone, amount in enumerate(_worst(tally, block, remaining), start=1):
                    excess[remaining - gone] += amount
        for pod in block:
            remaining -= 1
            for tally in tallies:
                tally.remove(tally.rule.domains[pod])
            if alike or pod == block[-1]:
                excess[remaining] = sum([tally.excess(remaining) for tally in tallies])
    return tuple(excess)


def _blocks(ranks: Sequence[int]) -> Iterator[list[int]]:
    """Yield the pods of equal rank, in the order of deletion."""
    by_rank = sorted(range(len(ranks)), key=ranks.__getitem__)
    for _, block in groupby(by_rank, key=ranks.__getitem__):
        yield list(block)


def _worst(tally: ScaleDownTally, block: Sequence[int], remaining: int) -> Iterator[int]:
    """Yield the most by which one rule can be exceeded after each deletion from a block of pods, except the last.

    A domain keeps most pods if the other pods of the block go first, and fewest if its own go first.
    """
    rule = tally.rule
    counted = Counter([rule.domains[pod] for pod in block])
    counted.pop(UNCOUNTED, None)
    others = [count for domain, count in enumerate(tally.held) if domain not in counted]
    lowest, highest = min(others, default=None), max(others, default=None)
    held = [(tally.held[domain], number) for domain, number in counted.items()]
    size = len(block)
    for gone in range(1, size):
        lows = [count - min(gone, number) for count, number in held]
        highs = [count - max(0, gone - size + number) for count, number in held]
        if lowest is not None and highest is not None:
            lows.append(lowest)
            highs.append(highest)
        yield rule.excess(remaining - gone, min(lows, default=None), max(highs, default=None))
