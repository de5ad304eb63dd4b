"""The fate of each decided eviction: it goes, waits, never goes, or is under way already.

Planning decides the fate first, then admission, then the gate of capacity, then events since; the last decision counts.
Only `Fates.hold` keeps an eviction back, and nothing releases an eviction that was kept back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

from msgspec import Struct

from rebalancer.model.facts import Refusal, find_last, outlasts
from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction


class Goes(Struct, frozen=True, gc=False):
    """An eviction that may be requested now."""

    eviction: Eviction


class UnderWay(Struct, frozen=True, gc=False):
    """An eviction that was requested since its fate was decided."""

    eviction: Eviction


class Waits(Struct, frozen=True, gc=False):
    """An eviction that waits, and what it waits for."""

    eviction: Eviction
    refusal: Refusal

    @property
    def reason(self) -> Reason:
        """What the eviction waits for, as a value of the closed enum."""
        return self.refusal.reason


class Never(Waits, frozen=True, gc=False):
    """An eviction that the budgets never allow, so that waiting does not help."""


Fate = Goes | UnderWay | Waits | Never


class Fates(Struct, frozen=True, dict=True):
    """The fates of evictions, in the order in which the evictions go."""

    rows: tuple[Fate, ...] = ()

    @cached_property
    def evictions(self) -> tuple[Eviction, ...]:
        """All evictions."""
        return tuple(fate.eviction for fate in self.rows)

    @cached_property
    def going(self) -> tuple[Eviction, ...]:
        """The evictions that may be requested now."""
        return tuple(fate.eviction for fate in self.rows if isinstance(fate, Goes))

    @cached_property
    def under_way(self) -> tuple[Eviction, ...]:
        """The evictions that were requested."""
        return tuple(fate.eviction for fate in self.rows if isinstance(fate, UnderWay))

    @cached_property
    def let_go(self) -> tuple[Eviction, ...]:
        """The evictions that nothing keeps back: they may be requested now, or were."""
        return tuple(fate.eviction for fate in self.rows if not isinstance(fate, Waits))

    @cached_property
    def kept(self) -> tuple[Waits, ...]:
        """The evictions that wait or never go."""
        return tuple(fate for fate in self.rows if isinstance(fate, Waits))

    @cached_property
    def waiting(self) -> tuple[Waits, ...]:
        """The evictions that wait."""
        return tuple(fate for fate in self.kept if not isinstance(fate, Never))

    @cached_property
    def decided(self) -> Mapping[str, Sequence[Eviction]]:
        """The next evictions of each repair, now or once a wait is over, by the name of its component."""
        by_group: dict[str, list[Eviction]] = {}
        for fate in self.rows:
            if not isinstance(fate, Never):
                by_group.setdefault(fate.eviction.group, []).append(fate.eviction)
        return by_group

    def hold(self, find_refusal: Callable[[Eviction], Refusal | None]) -> "Fates":
        """Keep back the going evictions for which this returns a refusal."""
        rows = list(self.rows)
        for place, fate in enumerate(rows):
            refusal = find_refusal(fate.eviction) if isinstance(fate, Goes) else None
            if refusal is not None:
                rows[place] = Waits(fate.eviction, refusal)
        return Fates(tuple(rows))

    def outlast(self, find_later: Callable[[Eviction], Refusal | None], said: datetime) -> "Fates":
        """Let evictions wait for this refusal if it outlasts their own wait; `said` is when both were reported."""

        def find_longer(wait: Waits) -> Refusal | None:
            later = find_later(wait.eviction)
            return later if later is not None and outlasts(later, wait.refusal, said) else None

        return self.replace(find_longer)

    def replace(self, find_refusal: Callable[[Waits], Refusal | None]) -> "Fates":
        """Replace the refusal of each waiting eviction with what `find_refusal` returns; None leaves it unchanged."""
        rows = list(self.rows)
        for place, fate in enumerate(rows):
            if isinstance(fate, Waits) and not isinstance(fate, Never):
                refusal = find_refusal(fate)
                rows[place] = Waits(fate.eviction, refusal) if refusal is not None else fate
        return Fates(tuple(rows))

    def await_last(self, find_following: Callable[[Eviction], Iterable[Refusal]], said: datetime) -> "Fates":
        """Let evictions wait for the later of the found wait and their own; `said` is when both were reported."""
        return Fates(
            tuple(
                Waits(fate.eviction, find_last(fate.refusal, find_following(fate.eviction), said))
                if isinstance(fate, Waits) and not isinstance(fate, Never)
                else fate
                for fate in self.rows
            )
        )

    def begin(self, requested: Collection[str]) -> "Fates":
        """Record that the going evictions whose pods have these UIDs were requested."""
        return Fates(
            tuple(
                UnderWay(fate.eviction) if isinstance(fate, Goes) and fate.eviction.pod.uid in requested else fate
                for fate in self.rows
            )
        )

    def as_decided(self) -> "Fates":
        """Return the fates as they were before any eviction was requested."""
        return Fates(tuple(Goes(fate.eviction) if isinstance(fate, UnderWay) else fate for fate in self.rows))

    def put_first(self, evictions: Iterable[Eviction]) -> "Fates":
        """Put these evictions first, in this order."""
        known = {fate.eviction.pod.uid: fate for fate in self.rows}
        first = [known.pop(eviction.pod.uid) for eviction in evictions]
        return Fates((*first, *known.values()))

    def select(self, groups: Collection[str]) -> "Fates":
        """Return the fates of the components with these names."""
        return Fates(tuple(fate for fate in self.rows if fate.eviction.group in groups))


NO_FATES: Final = Fates()
