"""Events about placement deadlocks: on the pod that waits and on its workload, once when it is found."""

from collections.abc import Sequence
from typing import Final

from rebalancer.assessment.deadlocks import Deadlock
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.reporting.events import of_workload

MOST_DEADLOCKS: Final = 50
"""Told of in one cycle; the rest is told in the next ones."""


def of_deadlocks(told: frozenset[str], deadlocks: Sequence[Deadlock]) -> tuple[list[Event], frozenset[str]]:
    """Make the events for pods that nothing was told of yet, and the UIDs of those told of that still wait."""
    waiting = {each.pod.uid for each in deadlocks}
    new = [each for each in deadlocks if each.pod.uid not in told][:MOST_DEADLOCKS]
    events: list[Event] = []
    for each in new:
        pod = Regarding(kind="Pod", namespace=each.pod.namespace, name=each.pod.name, uid=each.pod.uid)
        events.append(Event(reason=EventReason.PLACEMENT_DEADLOCK, note=each.message[:NOTE_LIMIT], regarding=pod))
        if each.workload.kind != "Pod":
            note = f"Pod {each.pod.name}: {each.message}"
            events.append(of_workload(EventReason.PLACEMENT_DEADLOCK, note, each.workload))
    return events, frozenset(told & waiting | {each.pod.uid for each in new})
