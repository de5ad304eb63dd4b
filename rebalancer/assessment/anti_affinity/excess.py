"""The fewest pods that must leave one domain, so that no two of the remaining pods conflict by a term.

A pod of the domain declares the term, is selected by it, or both. Two pods conflict if one declares the term and it
selects the other. So pods that do both conflict with all other pods. Pods that only declare it do not conflict with
each other, nor do pods that are only selected. Pods of two ReplicaSets of one Deployment never conflict: its rollout
removes one of them.

At most this many can stay (a greatest set without conflicts); the rest is in excess:

* all that only declare it, or all that are only selected, or
* for one Deployment, from each of its ReplicaSets: one that does both, or all that only declare, or all that are only
  selected, whichever is more. No other pod can stay beside two ReplicaSets that differ in this, or beside a pod that
  does both: it would conflict with one of them.

    3 batch pods declare that they avoid api; 1 api pod: 3 | 1 can stay of 4, so that 1 is in excess

Pods are counted by their part and owner, so that the cost does not depend on their number.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple


class Part(IntEnum):
    """The part of a pod in a term."""

    DECLARES = 0
    SELECTED = 1
    BOTH = 2


class Share(NamedTuple):
    """Equal pods of a domain: their part, their owner, and their workload, within which owners do not conflict."""

    part: Part
    owner: Hashable
    workload: Hashable
    number: int


def count_excess(shares: Iterable[Share]) -> int:
    """Return the fewest of these pods that would have to move."""
    total, by_workload = _add(shares)
    staying = max(total[Part.DECLARES], total[Part.SELECTED])
    for owners in by_workload.values():
        alone = sum(
            max(min(1, numbers[Part.BOTH]), numbers[Part.DECLARES], numbers[Part.SELECTED])
            for numbers in owners.values()
        )
        staying = max(staying, alone)
    return sum(total) - staying


def find_conflicting(shares: Sequence[Share]) -> Sequence[Share]:
    """Return the pods that conflict with another pod: of another workload, or of their own owner."""
    total, by_workload = _add(shares)
    conflicting = []
    for share in shares:
        part, owner, workload, _ = share
        partners = tuple(Part) if part is Part.BOTH else (Part.BOTH, Part(1 - part))
        owners = by_workload[workload]
        others = sum(total[other] - sum(numbers[other] for numbers in owners.values()) for other in partners)
        others += sum(owners[owner][other] for other in partners)
        if others > (part is Part.BOTH):  # a pod that does both is among those that it selects
            conflicting.append(share)
    return conflicting


def _add(shares: Iterable[Share]) -> tuple[list[int], dict[Hashable, dict[Hashable, list[int]]]]:
    """Return how many pods have each part, in all, and by workload and owner."""
    total = [0, 0, 0]
    by_workload: defaultdict[Hashable, dict[Hashable, list[int]]] = defaultdict(dict)
    for part, owner, workload, number in shares:
        total[part] += number
        by_workload[workload].setdefault(owner, [0, 0, 0])[part] += number
    return total, by_workload
