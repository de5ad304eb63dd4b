"""The events about occurrences, of a process that has each of its ConfigMaps."""

from collections.abc import Iterable

from rebalancer.account.happened import Occurrence
from rebalancer.documents.events import EventObjects, events_of
from rebalancer.model.events import Event, Regarding

OBJECTS = EventObjects(*(Regarding(kind="ConfigMap", namespace="ns", name=name) for name in EventObjects._fields))


def about(happened: Iterable[Occurrence]) -> list[Event]:
    return [event for occurrence in happened for event in events_of(occurrence, OBJECTS)]
