"""Two and three replicas of which one after the other loses the Lease, each schedule repeated by its number.

The leader is cut off from the server, or from its Lease only, or stopped for less and for more than the Lease is valid,
at several moments; the clocks of others, or its own, run fast; each eviction is answered after five seconds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.faults.schedule import LEASE_SECONDS, Clock, Fault, Rule, Schedule, Start, Stop

FIRST: Final = 2_000_001
"""The number of the first of them."""

_SLOW: Final = Rule(verb="create", resource="pods/eviction", fault=Fault.SLOW, probability=1.0)
"""Five seconds for each answer: evictions are under way whenever the lease goes over."""

_CUT_OFF: Final = tuple(
    Rule(verb="*", resource="*", fault=Fault.TIMEOUT, probability=1.0, process=number) for number in (0, 1)
)
_WITHOUT_LEASE: Final = tuple(
    Rule(verb="*", resource="leases", fault=Fault.TIMEOUT, probability=1.0, process=number) for number in (0, 1)
)
_FAST: Final = Clock(rate=1.4)
_LONG: Final = 1.5 * LEASE_SECONDS


def _schedule(
    controllers: int, *rules: Rule, stops: Sequence[Stop] = (), clocks: Sequence[Clock] = (), most: int = 1
) -> Schedule:
    return Schedule(
        seed=0,
        rules=(*rules, _SLOW),
        start=Start.EVICTION,
        seconds=2 * _LONG,
        max_unavailable=most,
        controllers=controllers,
        clocks=tuple(clocks),
        stops=tuple(stops),
    )


def _stops(*moments: float, process: int = 0, seconds: float = _LONG) -> list[Stop]:
    return [Stop(process=process, at=moment, seconds=seconds) for moment in moments]


def _numbered(schedules: Sequence[Schedule], *, first: int) -> tuple[Schedule, ...]:
    return tuple(replace(schedule, seed=number) for number, schedule in enumerate(schedules, start=first))


FEW: Final = _numbered(
    (
        _schedule(2, _CUT_OFF[0]),
        _schedule(2, _WITHOUT_LEASE[0], clocks=[Clock(), _FAST]),
        _schedule(3, stops=_stops(0.0), clocks=[Clock(), _FAST, Clock(ahead=-60)]),
    ),
    first=FIRST,
)
"""The leader is cut off; it cannot renew and the other's clock is fast; it is stopped while it evicts."""

MANY: Final = _numbered(
    [
        _schedule(controllers, *rules, stops=stops, clocks=clocks, most=most)
        for controllers in (2, 3)
        for clocks in ([], [Clock(), _FAST, _FAST], [_FAST])
        for most in (1, 3)
        for rules, stops in (
            (_CUT_OFF[:1], ()),
            (_WITHOUT_LEASE[:1], ()),
            (_WITHOUT_LEASE[: controllers - 1], ()),
            ((), _stops(0.0)),
            ((), _stops(0.3)),
            ((), _stops(0.0, seconds=_LONG / 2)),
            ((), _stops(0.7) + _stops(_LONG + 0.7, process=1)),
        )
    ],
    first=FIRST + len(FEW),
)
