"""Events about placement deadlocks: on the pending pod and on its workload, once for each deadlock."""

from collections.abc import Sequence
from typing import Final

from rebalancer.assessment.deadlocks import Deadlock
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.reporting.events.workload_events import workload_event

MOST_DEADLOCKS: Final = 50
"""In one cycle. Further deadlocks are reported in the next cycles."""


def deadlock_events(reported: frozenset[str], deadlocks: Sequence[Deadlock]) -> tuple[list[Event], frozenset[str]]:
    """Create the events for pods not reported yet; also return the UIDs of the reported pods that are still pending."""
    pending = {deadlock.pod.uid for deadlock in deadlocks}
    new = [deadlock for deadlock in deadlocks if deadlock.pod.uid not in reported][:MOST_DEADLOCKS]
    events: list[Event] = []
    for deadlock in new:
        pod = deadlock.pod
        regarding = Regarding(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        note = deadlock.message[:NOTE_LIMIT]
        events.append(Event(reason=EventReason.PLACEMENT_DEADLOCK, note=note, regarding=regarding))
        if deadlock.workload.kind != "Pod":
            note = f"Pod {pod.name}: {deadlock.message}"
            events.append(workload_event(EventReason.PLACEMENT_DEADLOCK, note, deadlock.workload))
    return events, frozenset(reported & pending | {deadlock.pod.uid for deadlock in new})
