"""Events about limits, when a limit changes its state: on the owners and on pods of the fullest domain."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rebalancer.assessment.causes import Causes, limit_token
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.reporting.events.workload_events import cause_text, workload_event

MOST_EVENTS: Final = 200
"""In one cycle. Further limits are reported in the next cycles, the worst first."""

_MOST_OWNERS, _MOST_PODS = 10, 5

_REASONS: Final[Mapping[State, EventReason]] = {
    State.SATISFIED: EventReason.SHARE_LIMIT_RECOVERED,
    State.VIOLATED: EventReason.SHARE_LIMIT_VIOLATED,
    State.INFEASIBLE: EventReason.SHARE_LIMIT_INFEASIBLE,
}

_NO_CAUSES: Final[Causes] = MappingProxyType({})

ReportedStates = Mapping[str, State]
"""The states last reported for limits that are not Satisfied, by the limit's token."""


def limit_events(
    reported: ReportedStates, limits: Sequence[EvaluatedLimit], causes: Causes = _NO_CAUSES
) -> tuple[list[Event], ReportedStates]:
    """Create the events for limits whose state changed since the last report; also return the states now reported."""
    after: dict[str, State] = {}
    changed: list[tuple[int, str, State, EvaluatedLimit]] = []
    for limit in limits:
        if limit.state is State.SATISFIED and not reported:
            continue
        token = limit_token(limit)
        before = reported.get(token, State.SATISFIED)
        if before is not State.SATISFIED:
            after[token] = before
        state = _reported_state(limit)
        if before is not state:
            changed.append((limit.headroom, limit.name, state, limit))
    events: list[Event] = []
    for _, _, state, limit in sorted(changed, key=lambda change: change[:2]):
        token = limit_token(limit)
        new = list(_events(limit, causes.get(limit_token(limit))))
        if len(events) + len(new) > MOST_EVENTS:
            continue
        events += new
        if state is State.SATISFIED:
            after.pop(token, None)
        else:
            after[token] = state
    return events, after


def _reported_state(limit: EvaluatedLimit) -> State:
    """Return the state of a limit for events: one that lacks nodes is violated too, and no new violation."""
    return State.VIOLATED if limit.state is State.UNFIXABLE else limit.state


def _events(limit: EvaluatedLimit, cause: ViolationCause | None) -> Iterator[Event]:
    reason = _REASONS[_reported_state(limit)]
    note = f"{limit.group}/{limit.limit}: {limit.message}{cause_text(cause)}"
    owners = {part.member.reference: part.member.top for part in limit.parts}
    for reference, owner in sorted(owners.items(), key=lambda item: item[0])[:_MOST_OWNERS]:
        if owner is not None:
            yield workload_event(reason, note, reference, owner.uid)
    if reason is EventReason.SHARE_LIMIT_VIOLATED and limit.min_pods is None and limit.largest is not None:
        crowded = [pod for pod in limit.pods if limit.stands_in(pod, limit.largest.domain)]
        for pod in crowded[:_MOST_PODS]:
            regarding = Regarding(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
            yield Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)
