"""Events about limits: on the owners and on the pods that stand too close, when a limit changes its state."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rebalancer.assessment.causes import Causes, limit_token
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.reporting.events import cause_text, of_workload

MOST_EVENTS: Final = 200
"""In one cycle. What does not fit is told in the next ones, the worst first."""

_MOST_OWNERS, _MOST_PODS = 10, 5

_REASONS: Final[Mapping[State, EventReason]] = {
    State.SATISFIED: EventReason.SHARE_LIMIT_RECOVERED,
    State.VIOLATED: EventReason.SHARE_LIMIT_VIOLATED,
    State.INFEASIBLE: EventReason.SHARE_LIMIT_INFEASIBLE,
}

_NO_CAUSES: Final[Causes] = MappingProxyType({})

Told = Mapping[str, State]
"""What was last told of the limits that are not Satisfied, by name."""


def of_limits(told: Told, limits: Sequence[EvaluatedLimit], causes: Causes = _NO_CAUSES) -> tuple[list[Event], Told]:
    """Make the events for limits whose state is another than the one last told; and what is told after them."""
    after: dict[str, State] = {}
    changed: list[tuple[int, str, State, EvaluatedLimit]] = []
    for limit in limits:
        if limit.state is State.SATISFIED and not told:
            continue
        name = limit.name
        before = told.get(name, State.SATISFIED)
        if before is not State.SATISFIED:
            after[name] = before
        if before is not limit.state:
            changed.append((limit.headroom, name, limit.state, limit))
    made: list[Event] = []
    for _, name, state, limit in sorted(changed, key=lambda each: each[:2]):
        events = list(_events(limit, causes.get(limit_token(limit))))
        if len(made) + len(events) > MOST_EVENTS:
            continue
        made += events
        if state is State.SATISFIED:
            after.pop(name, None)
        else:
            after[name] = state
    return made, after


def _events(limit: EvaluatedLimit, cause: ViolationCause | None) -> Iterator[Event]:
    reason = _REASONS[limit.state]
    note = f"{limit.group}/{limit.limit}: {limit.message}{cause_text(cause)}"
    owners = {part.member.reference: part.member.top for part in limit.parts}
    for reference, owner in sorted(owners.items(), key=lambda item: item[0])[:_MOST_OWNERS]:
        if owner is not None:
            yield of_workload(reason, note, reference, owner.uid)
    if reason is EventReason.SHARE_LIMIT_VIOLATED and limit.min_pods is None and limit.largest is not None:
        standing = [pod for pod in limit.pods if limit.stands_in(pod, limit.largest.domain)]
        for pod in standing[:_MOST_PODS]:
            about = Regarding(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
            yield Event(reason=reason, note=note[:NOTE_LIMIT], regarding=about)
