"""Counts by domain as documents list them: a document grows with the pods of its cluster, not with its domains.

Of 5,000 nodes, a workload of 30 pods uses 30. Only domains that hold pods or that a plan changes are listed; the others
are counted. Up to `FEW` domains are all listed, even empty ones: readers want to see that zone c is empty.
"""

from collections.abc import Mapping
from itertools import repeat
from typing import Final, NamedTuple

from rebalancer.scheduling.pod_topology_spread import DomainCounts

FEW: Final = 12
"""Up to this many domains are listed whether they hold pods or not."""

_NOTHING: Final[Mapping[str, int]] = {}


class ListedCounts(NamedTuple):
    """Pods by domain now and later, for the listed domains in one order."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    """Empty if the later counts are not known."""
    empty: int
    """The number of domains that are not listed."""


def list_counts(counts: Mapping[str, int], after: Mapping[str, int] = _NOTHING) -> ListedCounts:
    """Choose the domains to list."""
    filled, filled_after = find_filled(counts), find_filled(after)
    listed = sorted(counts if len(counts) <= FEW else {**filled_after, **filled})
    return ListedCounts(
        before=dict(zip(listed, map(filled.get, listed, repeat(0)), strict=True)),
        after=dict(zip(listed, map(filled_after.get, listed, repeat(0)), strict=True)) if after else {},
        empty=max(0, len(counts) - len(listed)),
    )


def find_filled(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the domains that hold pods."""
    if isinstance(counts, DomainCounts):
        return counts.filled
    return {name: count for name, count in counts.items() if count}
