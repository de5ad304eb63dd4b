"""Events about team policies, on the ConfigMap of the team's namespace: what its team sees of the policy in force."""

from collections.abc import Iterator, Mapping
from typing import Final

from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.policy import NO_TEAM_POLICY, TeamReading
from rebalancer.reporting.phrases import plural

TEAM_CONFIG_MAP: Final = "rebalancer-policy"
"""The name of the ConfigMap in the namespace of a team."""

_MOST_EVENTS: Final = 50
"""Events of one change, by namespace; the status and the metrics have the others."""


def team_events(
    before: Mapping[str, TeamReading],
    after: Mapping[str, TeamReading],
    problems_before: Mapping[str, str],
    problems: Mapping[str, str],
) -> tuple[Event, ...]:
    """Return an event for each team policy that is newly, or otherwise than before, not in force, or in force again."""
    events: list[Event] = []
    for namespace in sorted(before.keys() | after.keys()):
        problem = problems.get(namespace, "")
        old, new = before.get(namespace), after.get(namespace)
        is_new = (new.policy if new else NO_TEAM_POLICY) != (old.policy if old else NO_TEAM_POLICY)
        if problem and problem != problems_before.get(namespace):
            events += problem_events({namespace: problem})
        elif not problem and (is_new or namespace in problems_before):
            events.append(_make_event(namespace, EventReason.POLICY_RELOADED, _describe(new)))
    return tuple(events[:_MOST_EVENTS])


def problem_events(problems: Mapping[str, str]) -> Iterator[Event]:
    """Yield an event for each problem, for a new leader: the last one's process may never have published it."""
    for namespace, problem in list(problems.items())[:_MOST_EVENTS]:
        yield _make_event(
            namespace, EventReason.POLICY_INVALID, f"the team policy is not in force as written: {problem}"
        )


def _describe(reading: TeamReading | None) -> str:
    policy = reading.policy if reading is not None else None
    if policy is None or policy == NO_TEAM_POLICY:
        return "there is no team policy; the cluster policy alone is in force"
    limits = sum(len(group.limits) for group in policy.groups)
    return f"the team policy is in force: {plural(len(policy.groups), 'group')} with {plural(limits, 'limit')}"


def _make_event(namespace: str, reason: EventReason, note: str) -> Event:
    regarding = Regarding(kind="ConfigMap", namespace=namespace, name=TEAM_CONFIG_MAP)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)
