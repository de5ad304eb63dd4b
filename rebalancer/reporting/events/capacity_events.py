"""Kubernetes events about capacity that was requested for a repair, on its workloads."""

from rebalancer.capacity.decision import CapacityDecision
from rebalancer.capacity.requests import RequestChange, Result
from rebalancer.model.events import Event, EventReason
from rebalancer.model.moves import CapacityRequest
from rebalancer.reporting.events.workload_events import workload_event
from rebalancer.reporting.phrases import plural
from rebalancer.reporting.refusals import domains_text


def capacity_events(decision: CapacityDecision) -> list[Event]:
    """Create the events about the requests that began, became ready or failed in a cycle."""
    events = []
    for request in decision.begun:
        note = f"requested capacity for {plural(len(request.placeholders), 'pod')} in {domains_text(request.domains)}"
        events += _events(EventReason.CAPACITY_REQUESTED, note, request)
    for change in decision.changes:
        events += _change_events(change)
    return events


def _change_events(change: RequestChange) -> list[Event]:
    where = domains_text(change.request.domains)
    if change.result is Result.READY:
        return _events(EventReason.CAPACITY_READY, f"the requested capacity in {where} is there", change.request)
    if change.result is None:
        return []
    note = f"released the capacity requested in {where}: {change.message}"
    return _events(EventReason.CAPACITY_FAILED, note, change.request)


def _events(reason: EventReason, note: str, request: CapacityRequest) -> list[Event]:
    return [workload_event(reason, note, workload) for workload in request.workloads]
