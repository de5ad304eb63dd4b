"""Facts for people: each has its numbers, its sentence and the tag with which it is written in one place.

A refusal is a fact that keeps a pod, a step or a component where it is: it has its reason, too. The module that finds a
fact defines it. A complete example:

    class TooFewReplicas(Refusal):
        \"\"\"The workload has fewer replicas than eligibility.minReplicas.\"\"\"

        reason = Reason.TOO_FEW_REPLICAS
        replicas: int
        least: int

        def __str__(self) -> str:
            return f"it has {plural(self.replicas, 'replica')}; eligibility.minReplicas is {self.least}"
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Final, NamedTuple, dataclass_transform

from msgspec import Struct

from rebalancer.model.reasons import Reason


@dataclass_transform(frozen_default=True)
class Fact(Struct, frozen=True, gc=False, tag_field="kind", tag=True):
    """A fact, whose sentence names object, field and value, and what to do if that is known.

    Equal facts are equal values. Subclasses inherit all of this: they are frozen, and written with the name of their
    class as `kind`.
    """

    def __str__(self) -> str:
        """Return the fact's sentence, without a capital and a full stop."""
        raise NotImplementedError


def fact_kinds() -> Mapping[str, type[Fact]]:
    """Return the classes of facts by their kinds, of all modules that are imported."""
    kinds: dict[str, type[Fact]] = {}
    left = [Fact]
    while left:
        derived = left.pop().__subclasses__()
        kinds.update({kind.__name__: kind for kind in derived})
        left += derived
    return kinds


class End(NamedTuple):
    """When a wait ends: `after` a span from when it was reported, `at` a moment, or with an `event`, "when …".

    `of_move`: the event is the end of a move; how long the last moves took is known. `by_people`: only people bring the
    event about, at any time, so the end of another wait says nothing then.

    Without any of these the wait does not end by itself. A time is when this wait ends; another wait may follow.
    """

    after: timedelta | None = None
    at: datetime | None = None
    event: str = ""
    of_move: bool = False
    by_people: bool = False

    @property
    def is_never(self) -> bool:
        """Whether the wait never ends by itself."""
        return self.after is None and self.at is None and not self.event

    @property
    def is_last(self) -> bool:
        """Whether the wait outlasts every wait that ends at a moment, as it ends only by people or never by itself."""
        return self.is_never or self.by_people

    def until(self, said: datetime | None) -> datetime | None:
        """Return the moment of the end, None if not known; `said` is the snapshot's time, None if unknown."""
        if self.after is None or said is None:
            return self.at
        return said + self.after


NOT_BY_ITSELF: Final = End()


class Refusal(Fact):
    """Why something is not moved, or not yet.

    A class states when the wait ends in one of three ways: `ends`, an event with its fields as "when pod {self.pod} is
    gone"; `ends_at`, the name of the field with the moment; or `ends_after`, the name of the field with the span. If
    that is not enough, the class overrides `_end`.

    `is_standing`: people have decided that nothing goes on before this wait ends, even if other waits end earlier.
    """

    is_standing: ClassVar[bool] = False
    ends: ClassVar[str] = ""
    ends_at: ClassVar[str] = ""
    ends_after: ClassVar[str] = ""

    @property
    def end(self) -> End:
        """When the refusal ends."""
        return self._end()

    def _end(self) -> End:
        if self.ends_at:
            return End(at=getattr(self, self.ends_at))
        if self.ends_after:
            return End(after=getattr(self, self.ends_after))
        return End(event=self.ends.format(self=self))

    @property
    def timeless(self) -> str:
        """The sentence without durations: beside the end of the wait, durations would soon be wrong."""
        return str(self)

    @property
    def passes(self) -> bool:
        """Whether it ends by itself, so that the object is waiting, not beyond repair."""
        return False

    @property
    def reason(self) -> Reason:
        """The reason, a value of the closed enum on which scripts and dashboards rely."""
        raise NotImplementedError


def find_last(first: Refusal, following: Iterable[Refusal], said: datetime) -> Refusal:
    """Return which of several waits of one object ends last, as far as known; `said` is when they were reported.

    A wait that does not end by itself, or only when people act, is the last; among waits that end at a moment, the
    latest. An event may come before or after a moment: then the first wait stays, and its moment is a lower bound.
    """
    last, until = first, first.end.until(said)
    rest = iter(following)
    while not last.end.is_last and (one := next(rest, None)) is not None:
        later = one.end.until(said)
        if one.end.is_last or (until is not None and later is not None and later > until):
            last, until = one, later
    return last


def outlasts(common: Refusal, wait: Refusal, said: datetime) -> bool:
    """Return whether a hold on everything ends after another wait, as far as known; `said` is when both were reported.

    Nobody knows when an event comes. A standing decision of people, or a wait that only people end, is named instead of
    an event, because the event alone lets nothing go.
    """
    end, last = wait.end, common.end.until(said)
    until = end.until(said)
    if until is not None:
        return last is None or last > until
    if end.is_never:
        return False
    return common.end.is_never if end.by_people else common.end.is_last or common.is_standing
