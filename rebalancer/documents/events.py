"""Kubernetes events, for people who run `kubectl describe`: only events of the occurrences of a step.

An event regards the object at which its readers look for it:

* constraints, anti-affinity, capacity for a repair and surges: the workload;
* moves: the pod, and its workload;
* limits: the owners, and pods of the fullest domain;
* deadlocks: the pending pod, and its workload;
* approvals: the ConfigMap of approvals;
* domains that lose nodes, guards, and whether prevention can go on: the policy's ConfigMap;
* team policies: the ConfigMap in the team's namespace, with what the team sees of the policy in force.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.account.ended import Dropped, Gone
from rebalancer.account.happened import (
    AntiAffinityRecovered,
    AntiAffinityViolated,
    ApprovalProblem,
    Approved,
    Blocked,
    CapacityEnded,
    CapacityRequested,
    ClusterPolicyChanged,
    ClusterPolicyRefused,
    Deadlocked,
    Declared,
    DomainMoves,
    DomainSettled,
    Evicted,
    Expired,
    Failed,
    Granted,
    GroupRecovered,
    GroupViolated,
    GuardChanged,
    GuardFailed,
    LimitChanged,
    MoveEnded,
    Occurrence,
    OthersEvict,
    PauseChanged,
    Paused,
    PreventionResumed,
    PreventionStopped,
    Proposed,
    ReplacementOverdue,
    RequestAnswered,
    ResilienceChanged,
    RightsGranted,
    RightsMissing,
    Subject,
    SurgeBegan,
    SurgeEnded,
    TeamPolicyChanged,
    TeamPolicyRefused,
    ViolationBegan,
    ViolationEnded,
    WholeApproved,
    WholeEnded,
    ZoneLost,
    ZoneReturned,
    find_workloads,
)
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.rights import WAY_OUT
from rebalancer.admission.slow_start import overdue_replacement
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token
from rebalancer.assessment.deadlocks import Deadlock
from rebalancer.capacity.requests import RequestChange, Result
from rebalancer.documents.phrases import conflict_text, domains_text
from rebalancer.documents.resilience_status import describe_worst
from rebalancer.documents.surges import describe_begin, describe_end
from rebalancer.documents.waits import likely_domains
from rebalancer.model.approvals import Proposal, StandingApproval
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.moves import CapacityRequest, Move, MoveState, Reference, name_domains
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.words import name_list, plural
from rebalancer.planning.plan import Plan
from rebalancer.policy import NO_TEAM_POLICY, TeamReading
from rebalancer.policy.team_maps import POLICY_MAP
from rebalancer.surge.record import Ending

_LIMIT_REASONS: Final[Mapping[State, EventReason]] = {
    State.SATISFIED: EventReason.SHARE_LIMIT_RECOVERED,
    State.VIOLATED: EventReason.SHARE_LIMIT_VIOLATED,
    State.INFEASIBLE: EventReason.SHARE_LIMIT_INFEASIBLE,
}
"""The reason of the event for each state of a limit."""

_MOVE_ENDS: Final[Mapping[MoveState, tuple[EventReason, str]]] = {
    MoveState.VERIFIED: (EventReason.MOVE_VERIFIED, "the replacement is Ready where predicted"),
    MoveState.INEFFECTIVE: (EventReason.MOVE_INEFFECTIVE, "the replacement is Ready, but not where predicted"),
    MoveState.LOST: (EventReason.MOVE_INEFFECTIVE, "the replacement did not become Ready in time"),
}
"""Reason and note of the events about the end of a move; an end without a verdict has no event."""


_FAILED: Final = frozenset({Ending.MISPREDICTED, Ending.TIMED_OUT})
"""The endings of a surge that somebody should look at."""

_MOST_DROPPED: Final = 10
"""The end of a limit that is no longer required is reported on up to this many of its workloads."""


_MOST_OF_A_TERM: Final = 10
"""A term of podAntiAffinity is reported on up to this many workloads."""

_MOST_CONFLICTS: Final = 3
"""An event about a term names up to this many domains with conflicts."""


class EventObjects(NamedTuple):
    """The ConfigMaps that events about the policy, the pause and approvals regard; without a ConfigMap, no event."""

    policy: Regarding | None = None
    pause: Regarding | None = None
    approval: Regarding | None = None


def events_of(occurrence: Occurrence, objects: EventObjects) -> Sequence[Event]:  # noqa: C901, PLR0912, PLR0915  # one case for each occurrence
    """Create the events about an occurrence."""
    match occurrence:
        case GroupViolated(group, causes):
            return _group_events(EventReason.SKEW_VIOLATED, group, causes)
        case GroupRecovered(group, causes):
            return _group_events(EventReason.SKEW_RECOVERED, group, causes)
        case AntiAffinityViolated() | AntiAffinityRecovered():
            return _anti_affinity_events(occurrence)
        case LimitChanged():
            return list(_limit_events(occurrence))
        case Deadlocked(deadlock):
            return list(_deadlock_events(deadlock))
        case Evicted(move, preempts):
            places = ", ".join(f"{target.topology_key} {'/'.join(target.values[:4])}" for target in move.targets)
            note = f"evicted from {move.node} to repair {move.cause}; to {places}{preempts}"
            return _move_events(EventReason.EVICTED, note, move)
        case Blocked(move, why):
            return _move_events(EventReason.EVICTION_BLOCKED, why, move)
        case Failed(move, why):
            return _move_events(EventReason.EVICTION_FAILED, why, move)
        case MoveEnded(move, is_late):
            return _move_events(*_MOVE_ENDS[move.state], move) if move.state in _MOVE_ENDS and not is_late else ()
        case ReplacementOverdue(move):
            note = str(overdue_replacement(move, holds_namespace=False))
            return [_workload_event(EventReason.EVICTION_BLOCKED, note, move.workload)]
        case OthersEvict(evicted):
            return [_workload_event(EventReason.EVICTED_BY_OTHERS, str(evicted), evicted.evictions.workload)]
        case DomainMoves(domain):
            return _about(objects.policy, EventReason.DOMAIN_UNSETTLED, domain.sentence)
        case DomainSettled(motion):
            return _about(
                objects.policy, EventReason.DOMAIN_SETTLED, f"{motion}; that keeps no replacement away any more"
            )
        case CapacityRequested(request):
            pods = plural(len(request.placeholders), "pod")
            note = f"requested capacity for {pods} in {name_domains(request.domains)}"
            return _to_owners(EventReason.CAPACITY_REQUESTED, note, request)
        case CapacityEnded(change):
            return _change_events(change)
        case Expired(proposal):
            what = "was approved and made no progress" if proposal.approved else "was not approved"
            return _about(objects.approval, EventReason.PLAN_EXPIRED, f"{_name_plan(proposal)} {what} in time")
        case Proposed(proposal, plan, until):
            note = (
                f"{_name_plan(proposal)} waits for approval until {until:%Y-%m-%d %H:%M:%SZ}: "
                f"rebalancer approve {proposal.hash}. It evicts {_name_evictions(plan, proposal)}"
            )
            return _about(objects.approval, EventReason.PLAN_PROPOSED, note)
        case Approved(proposal):
            note = f"{_name_plan(proposal)} is approved and is carried out"
            return _about(objects.approval, EventReason.PLAN_APPROVED, note)
        case WholeApproved(standing):
            note = f"{_whole_text(standing)} is approved and is carried out"
            return _about(objects.approval, EventReason.PLAN_APPROVED, note)
        case WholeEnded(standing, why):
            note = f"the approval of {_whole_text(standing)} has ended, with {standing.left} left: {why}"
            return _about(objects.approval, EventReason.APPROVAL_ENDED, note)
        case ApprovalProblem(why):
            return _about(objects.approval, EventReason.APPROVAL_INVALID, why)
        case PreventionStopped(why):
            return _about(objects.policy, EventReason.PREVENTION_STOPPED, f"no deletion cost is written: {why}")
        case PreventionResumed():
            return _about(objects.policy, EventReason.PREVENTION_RESUMED, "deletion costs are written again")
        case ResilienceChanged(loss):
            reason = EventReason.RESILIENCE_REGAINED if loss.holds else EventReason.RESILIENCE_LOST
            return [_workload_event(reason, describe_worst(loss), loss.workload)]
        case SurgeBegan(surge):
            return [_workload_event(EventReason.SURGE_BEGAN, describe_begin(surge), surge.workload, surge.uid)]
        case SurgeEnded(surge, ending):
            event = _workload_event(EventReason.SURGE_ENDED, describe_end(surge, ending), surge.workload, surge.uid)
            return [structs.replace(event, is_failure=ending in _FAILED)]
        case GuardChanged(answer):
            return _guard_events(answer, objects.policy)
        case RightsMissing(namespaces):
            note = f"the controller's account has no right to evict in {name_list(namespaces)}: {WAY_OUT}"
            return _about(objects.policy, EventReason.RIGHT_MISSING, note)
        case RightsGranted(namespaces):
            note = f"the controller's account may evict in {name_list(namespaces)}"
            return _about(objects.policy, EventReason.RIGHT_GRANTED, note)
        case ClusterPolicyChanged(policy, mode):
            return _about(objects.policy, EventReason.POLICY_RELOADED, f"policy {policy} is in force, mode {mode}")
        case ClusterPolicyRefused(policy, why):
            note = f"policy {policy} stays in force: {_to_one_line(why)}"
            return _about(objects.policy, EventReason.POLICY_INVALID, note)
        case TeamPolicyChanged(namespace, reading):
            return _about(_team_map(namespace), EventReason.POLICY_RELOADED, _describe(reading))
        case TeamPolicyRefused(namespace, why):
            note = f"the team policy is not in force as written: {_to_one_line(why)}"
            return _about(_team_map(namespace), EventReason.POLICY_INVALID, note)
        case Paused(pause):
            return _about(objects.pause, EventReason.REBALANCE_PAUSED, pause.message)
        case ViolationEnded(subject=Subject(dropped=Dropped() as dropped) as subject):
            return list(_dropped_events(subject, dropped))
        case Declared() | PauseChanged() | RequestAnswered():
            # The history, the log and a counter have these occurrences.
            return ()
        case Granted() | GuardFailed() | ViolationBegan() | ViolationEnded() | ZoneLost() | ZoneReturned():
            # The answer, a guard without an answer, and a placement that changes have events of their own; the fate of
            # a zone has no object to report it on.
            return ()


def _about(regarding: Regarding | None, reason: EventReason, note: str) -> Sequence[Event]:
    return [Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)] if regarding is not None else ()


def _workload_event(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def _move_events(reason: EventReason, note: str, move: Move) -> Sequence[Event]:
    """Create the two events about a move: on the evicted pod, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, _workload_event(reason, f"Pod {move.pod}: {note}", move.workload)


def _group_events(reason: EventReason, group: EvaluatedGroup, causes: Causes) -> Sequence[Event]:
    note = "; ".join(
        f"{evaluated.constraint.key}: skew {evaluated.counts.skew}, maxSkew {evaluated.constraint.max_skew} "
        f"({counts_text(evaluated.counts.by_domain)}){cause_text(causes.get(constraint_token(group, evaluated)))}"
        for evaluated in group.hard
        if evaluated.counts.violated or reason is EventReason.SKEW_RECOVERED
    )
    return [_workload_event(reason, note, workload) for workload in group.spread.workloads]


def _anti_affinity_events(occurrence: AntiAffinityViolated | AntiAffinityRecovered) -> Sequence[Event]:
    """Create the events on the workloads that declare a term, and on other workloads whose pods conflict by it."""
    evaluated = occurrence.evaluated
    if isinstance(occurrence, AntiAffinityRecovered):
        reason, what = EventReason.ANTI_AFFINITY_RECOVERED, "no two pods share a domain"
    else:
        what = f"{_describe_conflicts(evaluated)}{cause_text(occurrence.cause)}"
        reason = EventReason.ANTI_AFFINITY_VIOLATED
    note = f"{_name_term(evaluated)}: {what}"
    others = sorted(evaluated.concerned.difference(evaluated.workloads))
    return [_workload_event(reason, note, workload) for workload in (*evaluated.workloads, *others)[:_MOST_OF_A_TERM]]


def _describe_conflicts(evaluated: EvaluatedTerm) -> str:
    conflicts = "; ".join(map(conflict_text, evaluated.conflicts[:_MOST_CONFLICTS]))
    more = len(evaluated.conflicts) - _MOST_CONFLICTS
    return f"{evaluated.message} ({conflicts}{f' and {more} more' if more > 0 else ''})"


def _name_term(evaluated: EvaluatedTerm) -> str:
    declared = name_list(map(str, evaluated.workloads))
    return f"required podAntiAffinity of {declared} over {evaluated.term.topology_key} to {evaluated.selected}"


def cause_text(cause: ViolationCause | None) -> str:
    """Name the cause of a violation, "" where it is unknown."""
    return f", cause {cause}" if cause not in {None, ViolationCause.UNKNOWN} else ""


def counts_text(counts: Mapping[str, int], limit: int = 8) -> str:
    """Show the counts of the fullest domains."""
    fullest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in fullest[:limit])
    return shown + (f" and {len(fullest) - limit} more" if len(fullest) > limit else "")


def _limit_events(changed: LimitChanged) -> Iterator[Event]:
    reason, limit = _LIMIT_REASONS[changed.state], changed.limit
    note = f"{limit.group}/{limit.limit}: {limit.sentence}{cause_text(changed.cause)}"
    for owner in changed.owners:
        yield _workload_event(reason, note, owner.workload, owner.uid)
    for pod in changed.pods:
        regarding = Regarding(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        yield Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def _dropped_events(subject: Subject, dropped: Dropped) -> Iterator[Event]:
    """Yield the events on the workloads of a dropped requirement. A deleted workload has no reader."""
    if dropped.gone is not Gone.WORKLOAD:
        for workload in find_workloads(subject.evaluated)[:_MOST_DROPPED]:
            yield _workload_event(EventReason.NO_LONGER_REQUIRED, f"no longer required: {dropped}", workload)


def _deadlock_events(deadlock: Deadlock) -> Iterator[Event]:
    pod = deadlock.pod
    regarding = Regarding(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
    yield Event(reason=EventReason.PLACEMENT_DEADLOCK, note=deadlock.message[:NOTE_LIMIT], regarding=regarding)
    if deadlock.workload.kind != "Pod":
        note = f"Pod {pod.name}: {deadlock.message}"
        yield _workload_event(EventReason.PLACEMENT_DEADLOCK, note, deadlock.workload)


def _name_plan(proposal: Proposal) -> str:
    return f"plan {proposal.hash} of {plural(len(proposal.uids), 'eviction')}"


def _whole_text(standing: StandingApproval) -> str:
    """Name a plan that is approved as a whole, with its bounds."""
    bound = f"up to {plural(standing.evictions, 'eviction')} until {standing.until:%Y-%m-%d %H:%M:%SZ}"
    return f"plan {standing.plan} with its later steps, {bound}{f', by {standing.by}' if standing.by else ''},"


def _name_evictions(plan: Plan, proposal: Proposal) -> str:
    """Name the pods of a proposal with where they would go."""
    chosen = [eviction for eviction in plan.fates.evictions if eviction.pod.uid in proposal.uids]
    return ", ".join(
        f"{eviction.pod.namespace}/{eviction.pod.name} from {eviction.pod.node} to "
        f"{domains_text(likely_domains(eviction.targets))}"
        for eviction in chosen
    )


def _change_events(change: RequestChange) -> Sequence[Event]:
    where = name_domains(change.request.domains)
    if change.result is Result.READY:
        return _to_owners(EventReason.CAPACITY_READY, f"the requested capacity in {where} is there", change.request)
    if change.result is None:
        return ()
    note = f"released the capacity requested in {where}: {change.message}"
    return _to_owners(EventReason.CAPACITY_FAILED, note, change.request)


def _to_owners(reason: EventReason, note: str, request: CapacityRequest) -> Sequence[Event]:
    return [_workload_event(reason, note, workload) for workload in request.workloads]


def _guard_events(answer: GuardAnswer, policy: Regarding | None) -> Sequence[Event]:
    if answer.verdict is Verdict.GOOD:
        return _about(policy, EventReason.GUARD_GOOD, f"guard {answer.name} is good again: {answer.message}")
    note = f"guard {answer.name} is not good, no step begins: {answer.message}"
    return _about(policy, EventReason.GUARD_NOT_GOOD, note)


def _describe(reading: TeamReading | None) -> str:
    policy = reading.policy if reading is not None else None
    if policy is None or policy == NO_TEAM_POLICY:
        return "there is no team policy; the cluster policy alone is in force"
    limits = sum(len(group.limits) for group in policy.groups)
    return f"the team policy is in force: {plural(len(policy.groups), 'group')} with {plural(limits, 'limit')}"


def _team_map(namespace: str) -> Regarding:
    return Regarding(kind="ConfigMap", namespace=namespace, name=POLICY_MAP)


def _to_one_line(text: str) -> str:
    """Join the lines of a message: a note is one line."""
    return text.replace("\n", "; ")
