"""Events about prevention: it cannot go on, or can again."""

from collections.abc import Iterator

from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.prevention.report import PreventionReport


def prevention_events(before: PreventionReport, after: PreventionReport, policy: Regarding | None) -> Iterator[Event]:
    """Yield an event on the policy's ConfigMap when an obstacle has come, or the last one has gone."""
    if policy is None or bool(before.stopped) == bool(after.stopped):
        return
    if after.stopped:
        note = f"no deletion cost is written: {after.stopped}"
        yield Event(reason=EventReason.PREVENTION_STOPPED, note=note[:NOTE_LIMIT], regarding=policy)
    else:
        note = "deletion costs are written again"
        yield Event(reason=EventReason.PREVENTION_RESUMED, note=note, regarding=policy)
