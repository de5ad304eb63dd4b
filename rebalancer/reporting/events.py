"""Kubernetes events, for people who run `kubectl describe`: each is created when something changes, and only then.

An event regards the object at which its readers look for it. Constraints and capacity for a repair: the workload.
Moves: the pod, and its workload. Limits: the owners, and pods of the fullest domain. Deadlocks: the pending pod, and
its workload. Approvals: the ConfigMap of approvals. Domains that lose nodes, guards, and whether prevention can go on:
the policy's ConfigMap. Team policies: the ConfigMap in the team's namespace, with what its team sees of the policy in
force.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rebalancer.admission.admit import AdmissionContext
from rebalancer.admission.approval import expires_at
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.slow_start import overdue_replacement
from rebalancer.assessment.assess import Assessment, EvaluatedGroup, UnsettledDomain
from rebalancer.assessment.causes import Causes, constraint_token, limit_token
from rebalancer.assessment.deadlocks import Deadlock
from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.capacity.decision import CapacityDecision
from rebalancer.capacity.requests import RequestChange, Result
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.moves import (
    CapacityRequest,
    Move,
    MoveState,
    OthersEvictions,
    Proposal,
    Reference,
    make_token,
    name_domains,
)
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.words import plural
from rebalancer.planning.plan import Plan
from rebalancer.policy import NO_TEAM_POLICY, TeamReading
from rebalancer.policy.team_maps import POLICY_MAP
from rebalancer.prevention.report import PreventionReport
from rebalancer.reporting.documents.waits import likely_domains
from rebalancer.reporting.phrases import domains_text

MOST_EVENTS: Final = 200
"""Events about limits in one cycle. Further limits are reported in the next cycles, the worst first."""

_MOST_OWNERS, _MOST_PODS = 10, 5
"""How many of each get an event about one limit."""

_REASONS: Final[Mapping[State, EventReason]] = {
    State.SATISFIED: EventReason.SHARE_LIMIT_RECOVERED,
    State.VIOLATED: EventReason.SHARE_LIMIT_VIOLATED,
    State.INFEASIBLE: EventReason.SHARE_LIMIT_INFEASIBLE,
}
"""For the state of a limit the reason of its event."""

_NO_CAUSES: Final[Causes] = MappingProxyType({})

ReportedStates = Mapping[str, State]
"""The states last reported for limits that are not Satisfied, by the limit's token."""

MOST_DEADLOCKS: Final = 50
"""Deadlocks that are reported in one cycle. Further ones are reported in the next cycles."""

_MOST_EVICTED: Final = 50
"""Workloads for which one cycle reports that others evict their pods; the report and the metrics have the others."""

_MOST_TEAM_EVENTS: Final = 50
"""Events about team policies for one change, by namespace; the status and the metrics have the others."""


def workload_event(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    """Create an event about a workload."""
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def move_events(reason: EventReason, note: str, move: Move) -> tuple[Event, Event]:
    """Create the two events about a move: on the evicted pod, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, workload_event(reason, f"Pod {move.pod}: {note}", move.workload)


def overdue_events(before: Iterable[Move], after: Iterable[Move]) -> list[Event]:
    """Create the events for replacements that have become overdue, or for which a reason has become known."""
    known = {move.uid: (move.uncreated, move.unstarted) for move in before}
    events = []
    for move in after:
        uncreated, unstarted = known.get(move.uid, (None, None))
        is_new = move.uncreated is not None and move.uncreated != uncreated and not uncreated
        if is_new or (move.unstarted is not None and unstarted is None):
            note = str(overdue_replacement(move, holds_namespace=False))
            events.append(workload_event(EventReason.EVICTION_BLOCKED, note, move.workload))
    return events


def skew_events(before: Iterable[str], assessment: Assessment, causes: Causes) -> list[Event]:
    """Create the events for groups that became violated or recovered; `before` has the tokens of those before."""
    violated_before = set(before)
    events = []
    for group in assessment.groups:
        token = make_token(group.spread.name)
        if group.violated and token not in violated_before:
            events += _group_events(EventReason.SKEW_VIOLATED, group, causes)
        elif not group.violated and token in violated_before:
            events += _group_events(EventReason.SKEW_RECOVERED, group, causes)
    return events


def _group_events(reason: EventReason, group: EvaluatedGroup, causes: Causes) -> list[Event]:
    note = "; ".join(
        f"{evaluated.constraint.key}: skew {evaluated.counts.skew}, maxSkew {evaluated.constraint.max_skew} "
        f"({counts_text(evaluated.counts.by_domain)}){cause_text(causes.get(constraint_token(group, evaluated)))}"
        for evaluated in group.hard
        if evaluated.counts.violated or reason is EventReason.SKEW_RECOVERED
    )
    return [workload_event(reason, note, workload) for workload in group.spread.workloads]


def cause_text(cause: ViolationCause | None) -> str:
    """Name the cause of a violation, "" where it is unknown."""
    return f", cause {cause}" if cause not in {None, ViolationCause.UNKNOWN} else ""


def counts_text(counts: Mapping[str, int], limit: int = 8) -> str:
    """Show the counts of the fullest domains."""
    fullest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in fullest[:limit])
    return shown + (f" and {len(fullest) - limit} more" if len(fullest) > limit else "")


def ended_move_events(move: Move) -> tuple[Event, ...]:
    """Create the events for a move that has just ended; none for an end without a verdict."""
    match move.state:
        case MoveState.VERIFIED:
            return move_events(EventReason.MOVE_VERIFIED, "the replacement is Ready where predicted", move)
        case MoveState.INEFFECTIVE:
            return move_events(EventReason.MOVE_INEFFECTIVE, "the replacement is Ready, but not where predicted", move)
        case MoveState.LOST:
            return move_events(EventReason.MOVE_INEFFECTIVE, "the replacement did not become Ready in time", move)
        case _:
            return ()


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


def approval_events(
    before: Proposal | None, after: Proposal | None, plan: Plan, context: AdmissionContext, regarding: Regarding
) -> Iterator[Event]:
    """Yield what has become of the proposal of the last cycle, and the new one, which is of the plan."""
    policy, now = context.policy, context.now
    stays = before is not None and after is not None and before.hash == after.hash
    if before is not None and not stays and before.policy == policy.cluster.hash and now >= expires_at(before, policy):
        what = "was approved and made no progress" if before.approved else "was not approved"
        note = f"plan {before.hash} of {plural(len(before.uids), 'eviction')} {what} in time"
        yield Event(reason=EventReason.PLAN_EXPIRED, note=note, regarding=regarding)
    if after is not None and not stays:
        end = f"{expires_at(after, policy):%Y-%m-%d %H:%M:%SZ}"
        note = (
            f"plan {after.hash} of {plural(len(after.uids), 'eviction')} waits for approval until {end}: "
            f"rebalancer approve {after.hash}. It evicts {_name_evictions(plan, after)}"
        )[:NOTE_LIMIT]
        yield Event(reason=EventReason.PLAN_PROPOSED, note=note, regarding=regarding)
    if before is not None and after is not None and stays and after.approved and not before.approved:
        note = f"plan {after.hash} of {plural(len(after.uids), 'eviction')} is approved and is carried out"
        yield Event(reason=EventReason.PLAN_APPROVED, note=note, regarding=regarding)


def _name_evictions(plan: Plan, proposal: Proposal) -> str:
    """Name the pods of a proposal with where they would go."""
    chosen = [eviction for eviction in plan.fates.evictions if eviction.pod.uid in proposal.uids]
    return ", ".join(
        f"{eviction.pod.namespace}/{eviction.pod.name} from {eviction.pod.node} to "
        f"{domains_text(likely_domains(eviction.targets))}"
        for eviction in chosen
    )


def capacity_events(decision: CapacityDecision) -> list[Event]:
    """Create the events about the requests that began, became ready or failed in a cycle."""
    events = []
    for request in decision.begun:
        note = f"requested capacity for {plural(len(request.placeholders), 'pod')} in {name_domains(request.domains)}"
        events += _to_owners(EventReason.CAPACITY_REQUESTED, note, request)
    for change in decision.changes:
        events += _change_events(change)
    return events


def _change_events(change: RequestChange) -> list[Event]:
    where = name_domains(change.request.domains)
    if change.result is Result.READY:
        return _to_owners(EventReason.CAPACITY_READY, f"the requested capacity in {where} is there", change.request)
    if change.result is None:
        return []
    note = f"released the capacity requested in {where}: {change.message}"
    return _to_owners(EventReason.CAPACITY_FAILED, note, change.request)


def _to_owners(reason: EventReason, note: str, request: CapacityRequest) -> list[Event]:
    return [workload_event(reason, note, workload) for workload in request.workloads]


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


def guard_events(
    before: Iterable[GuardAnswer], after: Iterable[GuardAnswer], policy: Regarding | None
) -> Iterator[Event]:
    """Yield an event on the policy's ConfigMap for each guard that is not good any more, or is good again."""
    if policy is None:
        return
    not_good = {answer.name for answer in before if answer.verdict is not Verdict.GOOD}
    for answer in after:
        is_good = answer.verdict is Verdict.GOOD
        if is_good and answer.name in not_good:
            note = f"guard {answer.name} is good again: {answer.message}"
            yield Event(reason=EventReason.GUARD_GOOD, note=note[:NOTE_LIMIT], regarding=policy)
        elif not is_good and answer.name not in not_good:
            note = f"guard {answer.name} is not good, no step begins: {answer.message}"
            yield Event(reason=EventReason.GUARD_NOT_GOOD, note=note[:NOTE_LIMIT], regarding=policy)


def motion_events(
    before: Iterable[UnsettledDomain], after: Iterable[UnsettledDomain], policy: Regarding
) -> Iterator[Event]:
    """Yield an event on the policy's ConfigMap for each domain that has begun to lose nodes, or has settled."""
    known = {(domain.motion.key, domain.motion.value): domain.motion for domain in before}
    moving = {(domain.motion.key, domain.motion.value): domain for domain in after}
    for place, domain in moving.items():
        if place not in known:
            note = domain.sentence
            yield Event(reason=EventReason.DOMAIN_UNSETTLED, note=note[:NOTE_LIMIT], regarding=policy)
    for place, motion in known.items():
        if place not in moving:
            note = f"{motion}; it may take replacements again"
            yield Event(reason=EventReason.DOMAIN_SETTLED, note=note[:NOTE_LIMIT], regarding=policy)


def others_events(before: Iterable[OthersEvictions], after: Iterable[EvictedByOthers]) -> list[Event]:
    """Create the events for workloads whose pods others have begun to evict; `before` are the runs known before."""
    known = {run.workload: run.since for run in before}
    new = [one for one in after if known.get(one.evictions.workload) != one.evictions.since]
    return [
        workload_event(EventReason.EVICTED_BY_OTHERS, str(one), one.evictions.workload) for one in new[:_MOST_EVICTED]
    ]


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
    return tuple(events[:_MOST_TEAM_EVENTS])


def problem_events(problems: Mapping[str, str]) -> Iterator[Event]:
    """Yield an event for each problem, for a new leader: the last one's process may never have published it."""
    for namespace, problem in list(problems.items())[:_MOST_TEAM_EVENTS]:
        lines = problem.replace("\n", "; ")  # a line each; a note is one line
        yield _make_event(namespace, EventReason.POLICY_INVALID, f"the team policy is not in force as written: {lines}")


def _describe(reading: TeamReading | None) -> str:
    policy = reading.policy if reading is not None else None
    if policy is None or policy == NO_TEAM_POLICY:
        return "there is no team policy; the cluster policy alone is in force"
    limits = sum(len(group.limits) for group in policy.groups)
    return f"the team policy is in force: {plural(len(policy.groups), 'group')} with {plural(limits, 'limit')}"


def _make_event(namespace: str, reason: EventReason, note: str) -> Event:
    regarding = Regarding(kind="ConfigMap", namespace=namespace, name=POLICY_MAP)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)
