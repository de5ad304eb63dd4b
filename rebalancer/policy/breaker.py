"""The breaker: the bounds beyond which a cluster is in trouble, and nothing is evicted in it."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.policy.amounts import PERCENTAGE, expected_percentage
from rebalancer.policy.base import Section, read_value
from rebalancer.policy.durations import DAY, Duration, PositiveDuration, at_most

_WRITTEN = re.compile(PERCENTAGE.removesuffix("$") + r"\Z")
_EXPECTED = "a percentage such as 20%"


@dataclass(frozen=True, slots=True)
class Percentage:
    """A bound on a part of a total, in whole percent."""

    value: int

    @classmethod
    def of(cls, written: str) -> Self:
        """Read `20%`; ValueError says what was expected."""
        match = _WRITTEN.match(written)
        if match is None:
            raise ValueError(f"expected {expected_percentage(written) or _EXPECTED}")
        return cls(int(match.group(1)))

    def is_exceeded(self, part: int, total: int) -> bool:
        """Return whether a part is more than this percentage of the total; 100% is never exceeded."""
        return part * 100 > total * self.value

    def __str__(self) -> str:
        """Show the percentage as it is written in the file."""
        return f"{self.value}%"


def _validate(value: object) -> Percentage:
    return read_value(value, Percentage, Percentage.of, accepts=str, expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    """Guess that a number from 0 to 100 was meant as a percentage."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return f"{text}%" if _WRITTEN.match(f"{text}%") else None


PercentageField = Annotated[
    Percentage,
    PlainValidator(_validate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PERCENTAGE, "examples": ["20%"]}),
]
"""A field for a bound in percent."""


class Breaker(Section):
    """When a cluster counts as in trouble: nothing is evicted while more than one of these percentages has failed.

    A bound of 100% is switched off.
    """

    unready_nodes: PercentageField = Percentage(20)
    """Nodes that are not Ready, of all nodes that are not cordoned; at least 2."""
    unready_in_zone: PercentageField = Percentage(55)
    """Nodes of one zone that are not Ready, of all its nodes that are not cordoned; at least 2."""
    unready_for: Annotated[Duration, at_most(timedelta(hours=1))] = timedelta(minutes=5)
    """How long a node that has never been Ready may take before it counts as failed; at most 1h.

    A node that was Ready and no longer is counts at once.
    """
    pending_pods: PercentageField = Percentage(10)
    """Pods that have waited for a node for `pendingFor`, of all, without replacements of evicted pods; at least 5.

    Those that no node admits count only if they replace pods that were lost with their node.
    """
    pending_for: Annotated[Duration, at_most(timedelta(hours=1))] = timedelta(minutes=1)
    """How long a pod must have waited, since it was created, to count for `pendingPods` for `window`; at most 1h."""
    api_errors: PercentageField = Percentage(20)
    """Failed requests to the API server within `window`; at least 5. An outage of the API server is one failure."""
    failed_moves: PercentageField = Percentage(20)
    """Moves within `window` whose replacement was not Ready where predicted, of all moves that ended; at least 5."""
    window: Annotated[PositiveDuration, at_most(timedelta(hours=1))] = timedelta(minutes=5)
    """The time over which waiting pods, requests and moves are counted, at most 1h."""
    clear_after: Annotated[Duration, at_most(DAY)] = timedelta(minutes=5)
    """How long no bound may have been exceeded before evictions begin again."""
