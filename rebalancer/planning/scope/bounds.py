"""What a constraint, a limit, or both together require of the domains of one topology key."""

from collections.abc import Iterable
from enum import Enum
from typing import Self

from msgspec import Struct


class Same(Enum):
    """Says that the scheduler enforces the required maxSkew."""

    SAME = "same"


class Bound(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """What is required of each domain, in pods.

    `max_skew` is the greatest difference to the emptiest domain, None for any. `floor_at_zero`: the emptiest counts as
    0, as it does while fewer domains exist than minDomains requires. `cap` is the most that a domain may hold, None for
    no limit; `least` the fewest. `enforced` is the maxSkew that the scheduler itself enforces, None where it enforces
    none: by default it is `max_skew`.
    """

    max_skew: int | None = None
    floor_at_zero: bool = False
    cap: int | None = None
    least: int = 0
    enforced: int | Same | None = Same.SAME

    @property
    def by_scheduler(self) -> int | None:
        """The maxSkew that the scheduler enforces."""
        return self.max_skew if self.enforced is Same.SAME else self.enforced

    def on_paper(self) -> "Bound":
        """Return what a placement must satisfy, enforced or not: with `floor_at_zero` maxSkew is a cap."""
        if not self.floor_at_zero or self.max_skew is None:
            return Bound(max_skew=self.max_skew, cap=self.cap, least=self.least)
        return Bound(cap=self.max_skew if self.cap is None else min(self.max_skew, self.cap), least=self.least)

    @classmethod
    def strictest(cls, bounds: "Iterable[Bound]") -> Self:
        """Return the bound that holds exactly if all these bounds, over the same pods and domains, hold."""
        combined = list(bounds)
        return cls(
            max_skew=min((bound.max_skew for bound in combined if bound.max_skew is not None), default=None),
            floor_at_zero=any(bound.floor_at_zero for bound in combined),
            cap=min((bound.cap for bound in combined if bound.cap is not None), default=None),
            least=max((bound.least for bound in combined), default=0),
            enforced=min((bound.by_scheduler for bound in combined if bound.by_scheduler is not None), default=None),
        )

    def excess(self, low: int, high: int) -> int:
        """Return by how many pods the bound is exceeded if domains hold from `low` to `high`; 0 if it holds."""
        over = [0, self.least - low]
        if self.max_skew is not None:
            over.append(high - (0 if self.floor_at_zero else low) - self.max_skew)
        if self.cap is not None:
            over.append(high - self.cap)
        return max(over)


FREE = Bound()
"""A bound that requires nothing."""
