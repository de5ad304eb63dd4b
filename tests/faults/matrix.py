"""Every kind of fault for every kind of request, each in a schedule that is printed and repeated by its number.

Drawn schedules find what nobody thought of, and miss combinations. These name them: one fault, once for each kind of
request that the controller sends in one part of its life.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.faults.replicas import FEW, MANY
from tests.faults.requests import WRITES
from tests.faults.schedule import EVENT_FAULTS, POSSIBLE, Fault, Rule, Schedule, Start, draw

FIRST: Final = 1_000_001
"""The number of the first of them; smaller ones are drawn."""

_PARTS: Final[Mapping[Start, Sequence[tuple[str, str]]]] = {
    Start.PROCESS: (
        ("list", "pods"),
        ("list", "configmaps"),
        ("watch", "pods"),
        ("watch", "nodes"),
        ("watch", "configmaps"),
        ("get", "leases"),
    ),
    Start.LEADING: (("get", "configmaps"), ("patch", "configmaps"), ("patch", "leases")),
    Start.EVICTION: (("get", "deployments"), ("list", "pods"), ("create", "pods/eviction"), ("create", "events")),
}
"""What is requested while it starts, while it leads, and for each eviction."""

_REFUSED_TWICE: Final = Rule(verb="create", resource="pods/eviction", fault=Fault.PLAIN, count=2)
"""Ten seconds after the first refusal comes the second, whose events are the same: those are patched."""

_SECONDS: Final = 12.0
_HANGING: Final = frozenset({Fault.TIMEOUT, Fault.SLOW, Fault.UNANSWERED})
"""Faults that hold a request until it times out: the requests after it come later."""

_RIGHTS: Final = frozenset({Fault.UNAUTHORIZED, Fault.FORBIDDEN})
"""After these on the read before a step it waits for a minute, and only then requests an eviction."""


def _kind(verb: str) -> str:
    return "write" if verb in WRITES else verb


def _make_rule(verb: str, resource: str, fault: Fault) -> Rule:
    if fault not in EVENT_FAULTS:
        return Rule(verb=verb, resource=resource, fault=fault)
    return Rule(verb=verb, resource=resource, fault=fault, probability=1.0 if resource == "configmaps" else 0.5)


def _make_every() -> tuple[Schedule, ...]:
    made: list[Schedule] = []
    for start, targets in _PARTS.items():
        for fault in Fault:
            rules = tuple(_make_rule(*target, fault) for target in targets if fault in POSSIBLE[_kind(target[0])])
            if rules:
                late = start is Start.EVICTION and fault in _RIGHTS
                made.append(
                    Schedule(
                        seed=FIRST + len(made),
                        rules=rules,
                        start=start,
                        seconds=_SECONDS * (8 if late else 4 if fault in _HANGING else 1),
                        # Nothing else has events for a watch of ConfigMaps.
                        pause_at=8.0 if fault in EVENT_FAULTS else None,
                        touched=True,
                    )
                )
    for fault in dict.fromkeys(POSSIBLE["write"]):
        rules = (_REFUSED_TWICE, _make_rule("patch", "events", fault))
        made.append(Schedule(seed=FIRST + len(made), rules=rules, seconds=2 * _SECONDS))
    return tuple(made)


EVERY: Final = _make_every()


_NUMBERED: Final = {schedule.seed: schedule for schedule in (*EVERY, *FEW, *MANY)}


def schedule_of(seed: int) -> Schedule:
    """Return the schedule of a number, drawn unless it is one of those with a name."""
    return _NUMBERED[seed] if seed in _NUMBERED else draw(seed)
