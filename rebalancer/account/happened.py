"""What has happened between two states of the loop, found once: one list of occurrences for each step.

    state before, state after ──► occurrences ──► Kubernetes events, entries of the history, counters

An occurrence has the values that its renderings name, and no words of its own. If two renderings report it at different
moments, a field of the occurrence says so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final, NamedTuple

from rebalancer.account.ended import Dropped
from rebalancer.admission.approval import expires_at
from rebalancer.admission.guards import GuardAnswer, GuardState, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import Rights
from rebalancer.admission.standing import Outcome
from rebalancer.admission.written import NOT_READ, Written
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedGroup, UnsettledDomain
from rebalancer.assessment.causes import Causes, limit_token, term_token
from rebalancer.assessment.deadlocks import Deadlock
from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.capacity.decision import CapacityDecision
from rebalancer.capacity.requests import RequestChange
from rebalancer.model.approvals import Proposal, StandingApproval
from rebalancer.model.history import NOBODY, Author, EntryKind, SeenGone
from rebalancer.model.losses import DomainLoss
from rebalancer.model.motion import DomainMotion
from rebalancer.model.moves import (
    NEVER_GRANTED,
    CapacityRequest,
    DomainName,
    Memory,
    Move,
    MoveState,
    OthersEvictions,
    Reference,
    make_token,
)
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.planning.plan import Plan
from rebalancer.policy import NO_TEAM_POLICY, Mode, Policy, TeamReading
from rebalancer.prevention.report import PreventionReport
from rebalancer.resilience.worst import ResilienceReport, WorstLoss
from rebalancer.surge.record import Ending, Surge
from rebalancer.surge.report import SurgeReport
from rebalancer.tracking.moves import is_deferred

MOST_REPORTED: Final = 200
"""The most objects on which limits are reported in one step. Further limits follow in the next steps, worst first."""

MOST_TERMS: Final = 200
"""The most terms of podAntiAffinity that one step reports as violated.

Further terms follow in the next steps, worst first.
"""

_MOST_OWNERS, _MOST_PODS = 10, 5
"""The most owners, and the most pods, on which one limit is reported."""

MOST_DEADLOCKS: Final = 50
"""The most deadlocks that one step reports; further deadlocks follow in the next steps."""

_MOST_EVICTED: Final = 50
"""The most workloads for which one step reports evictions by others; the report and the metrics have all of them."""

_MOST_CHANGES: Final = 20
"""The most workloads for which one step reports changes of resilience; the metrics have all of them."""

_MOST_TEAMS: Final = 50
"""The most team policies that one step names, by namespace; the status and the metrics have all of them."""

ReportedStates = Mapping[str, State]
"""The states last reported for limits that are not Satisfied, by the limit's token."""


class GroupViolated(NamedTuple):
    """The placement of a group violates a constraint."""

    group: EvaluatedGroup
    causes: Causes


class GroupRecovered(NamedTuple):
    """The placement of a group satisfies its constraints, perhaps only until an evicted pod is replaced."""

    group: EvaluatedGroup
    causes: Causes


class AntiAffinityViolated(NamedTuple):
    """Pods share a domain although a required term of podAntiAffinity forbids it."""

    evaluated: EvaluatedTerm
    cause: ViolationCause | None


class AntiAffinityRecovered(NamedTuple):
    """A violated term is satisfied: no pods share a domain against it any more."""

    evaluated: EvaluatedTerm


class Owner(NamedTuple):
    """A workload of a limit, and the UID of the object."""

    workload: Reference
    uid: str


class LimitChanged(NamedTuple):
    """A limit is violated, infeasible or satisfied."""

    limit: EvaluatedLimit
    state: State
    """The new state."""
    cause: ViolationCause | None
    owners: Sequence[Owner]
    """The workloads on which the event is reported."""
    pods: Sequence[Pod]
    """The surplus pods, on which the event is reported, too."""


class Subject(NamedTuple):
    """What is or was violated, as the last cycle that counted it saw it."""

    evaluated: EvaluatedGroup | EvaluatedLimit | EvaluatedTerm
    causes: Causes
    dropped: Dropped | None = None
    """Why later cycles do not count the subject."""

    @property
    def only_waits(self) -> bool:
        """Whether a group's pods only wait for a node: its constraints, which count placed pods, are not violated."""
        group = self.evaluated
        return isinstance(group, EvaluatedGroup) and not any(one.counts.violated for one in (*group.hard, *group.soft))


class ViolationBegan(NamedTuple):
    """A group, limit or term is violated, and no move of the repair of an earlier violation is in flight.

    Also reported if a group's pods only wait for a node, and once more when the group violates a constraint.
    """

    token: str
    subject: Subject | None


class ViolationEnded(NamedTuple):
    """A violation is over, and so is its repair.

    `GroupRecovered` may come before: while a pod is evicted and not replaced, its group may look satisfied.
    """

    token: str
    subject: Subject | None
    """None if this process has not seen it: it may be satisfied, gone, or violated together with others."""
    since: int
    """When the violation began, in seconds."""
    gone: SeenGone | None = None
    """When an earlier cycle first saw that the violation is over, as status and trend reported; None if none did."""
    only_waited: bool = False
    """Whether no constraint was violated, and pods only waited for a node."""


class Deadlocked(NamedTuple):
    """The rules of a pending pod admit no node."""

    deadlock: Deadlock


class Evicted(NamedTuple):
    """The API server has answered that it evicts a pod; `preempts` says who is preempted for the replacement."""

    move: Move
    preempts: str


class Blocked(NamedTuple):
    """The answer to a request was that the pod is not evicted for now, because of a budget, a premise or a webhook."""

    move: Move
    why: str


class Failed(NamedTuple):
    """A request to evict a pod failed, or its answer was lost."""

    move: Move
    why: str


class Granted(NamedTuple):
    """A pod is evicted as requested, by the answer or because a snapshot shows it."""

    move: Move


class MoveEnded(NamedTuple):
    """A request to evict a pod has ended: with a replacement, without one, or because nothing was evicted.

    `is_late`: this process reported the end when it led before, and the last leader's memory does not have it, so only
    the history lacks it.
    """

    move: Move
    is_late: bool


class ReplacementOverdue(NamedTuple):
    """A replacement is overdue, or the reason has become known."""

    move: Move


class ZoneLost(NamedTuple):
    """The last node of a zone is gone or not Ready; `lost` says what it held, None if that is not known."""

    zone: DomainName
    lost: DomainLoss | None = None


class ZoneReturned(NamedTuple):
    """A zone has a Ready node again, or its first one; `since` is when it was lost, None if not known."""

    zone: DomainName
    since: datetime | None


class OthersEvict(NamedTuple):
    """Others have begun to evict pods of a workload."""

    evicted: EvictedByOthers


class DomainMoves(NamedTuple):
    """A domain has begun to lose nodes."""

    domain: UnsettledDomain


class DomainSettled(NamedTuple):
    """A domain no longer loses nodes."""

    motion: DomainMotion


class CapacityRequested(NamedTuple):
    """Capacity was requested for a repair."""

    request: CapacityRequest


class CapacityEnded(NamedTuple):
    """A request for capacity became ready, failed or was given up."""

    change: RequestChange


class Expired(NamedTuple):
    """A proposed plan was not approved in time, or made no progress."""

    proposal: Proposal


class Proposed(NamedTuple):
    """A plan waits for approval until `until`."""

    proposal: Proposal
    plan: Plan
    until: datetime


class Approved(NamedTuple):
    """A proposed plan is approved and is carried out."""

    proposal: Proposal


class WholeApproved(NamedTuple):
    """A proposed plan is approved with all later steps of its repairs."""

    standing: StandingApproval


class WholeEnded(NamedTuple):
    """The approval of a whole plan has ended; `author` is who withdrew it, None if nobody did."""

    standing: StandingApproval
    why: str
    author: Author | None = None


class ApprovalProblem(NamedTuple):
    """The written approval of a whole plan approves nothing."""

    why: str


class PreventionStopped(NamedTuple):
    """The rebalancer no longer writes deletion costs."""

    why: str


class PreventionResumed(NamedTuple):
    """The rebalancer writes deletion costs again."""


class ResilienceChanged(NamedTuple):
    """The pods that must be left of a workload after the loss of a domain are no longer guaranteed, or are again."""

    loss: WorstLoss


class SurgeBegan(NamedTuple):
    """Pods are about to be added to a workload, after which others go."""

    surge: Surge


class SurgeEnded(NamedTuple):
    """A surge is over, and nothing of it is left."""

    surge: Surge
    ending: Ending


class GuardChanged(NamedTuple):
    """A guard is no longer good, or is good again."""

    answer: GuardAnswer


class RightsMissing(NamedTuple):
    """It is now known that this account may not evict in these namespaces."""

    namespaces: Sequence[str]


class RightsGranted(NamedTuple):
    """This account may evict in these namespaces where the right was missing before."""

    namespaces: Sequence[str]


class GuardFailed(NamedTuple):
    """A question about a guard had no usable answer."""

    answer: GuardAnswer


class ClusterPolicyChanged(NamedTuple):
    """A cluster policy is in force, with the mode of the process."""

    hash: str
    mode: Mode


class ClusterPolicyRefused(NamedTuple):
    """The newest cluster policy is not valid. The policy with this hash stays in force."""

    hash: str
    why: str


class TeamPolicyChanged(NamedTuple):
    """Another team policy, or none, is in force in a namespace; None if it is no longer read."""

    namespace: str
    reading: TeamReading | None


class TeamPolicyRefused(NamedTuple):
    """A team policy is not in force as written."""

    namespace: str
    why: str


class Paused(NamedTuple):
    """Somebody has paused the rebalancer, or a pause holds when a process begins to lead."""

    pause: Pause


class PauseChanged(NamedTuple):
    """A process, leader or not, has read a different pause than before, or no pause any more."""

    before: Pause | None
    now: Pause | None


class Declared(NamedTuple):
    """A declaration by people, reported once, when its author is known, by any leader."""

    kind: EntryKind
    author: Author | None
    """None if nobody declared it (a pause ends by its time) or the author is unknown (a right is granted)."""
    what: str = ""
    since: int = 0
    """When the declared state began, in seconds; 0 without such a time."""
    until: int = 0
    """When the declared state ends, in seconds; 0 without such a time."""
    number: int = 0
    at: int = 0
    """When the act happened, in seconds, if that is known but was not seen; else 0."""


class RequestAnswered(NamedTuple):
    """A request for an eviction was answered, `result` in one word; in any process, leader or not."""

    result: str


Occurrence = (
    GroupViolated
    | GroupRecovered
    | AntiAffinityViolated
    | AntiAffinityRecovered
    | LimitChanged
    | ViolationBegan
    | ViolationEnded
    | Deadlocked
    | Evicted
    | Blocked
    | Failed
    | Granted
    | MoveEnded
    | ReplacementOverdue
    | ZoneLost
    | ZoneReturned
    | OthersEvict
    | DomainMoves
    | DomainSettled
    | CapacityRequested
    | CapacityEnded
    | Expired
    | Proposed
    | Approved
    | WholeApproved
    | WholeEnded
    | ApprovalProblem
    | PreventionStopped
    | PreventionResumed
    | ResilienceChanged
    | SurgeBegan
    | SurgeEnded
    | GuardChanged
    | GuardFailed
    | RightsMissing
    | RightsGranted
    | ClusterPolicyChanged
    | ClusterPolicyRefused
    | TeamPolicyChanged
    | TeamPolicyRefused
    | Paused
    | PauseChanged
    | Declared
    | RequestAnswered
)
"""Everything that can happen in a step."""


def find_group_changes(
    before: Collection[str], assessment: Assessment, causes: Causes
) -> Iterator[GroupViolated | GroupRecovered]:
    """Yield the groups that became violated or recovered; `before` has the tokens of the violated groups before."""
    for group in assessment.groups:
        was_violated = make_token(group.spread.name) in before
        if group.violated and not was_violated:
            yield GroupViolated(group, causes)
        elif was_violated and not group.violated:
            yield GroupRecovered(group, causes)


def find_anti_affinity_changes(
    reported: frozenset[str], evaluated: Sequence[EvaluatedTerm], causes: Causes
) -> tuple[Sequence[AntiAffinityViolated | AntiAffinityRecovered], frozenset[str]]:
    """Return the terms that became violated or recovered, and the tokens of those now reported as violated.

    A term that is not evaluated for now brings nothing new. If two revisions have the term, the violated one counts.
    """
    meant = (one for one in evaluated if reported or one.violated)
    known = {one.token: one for one in sorted(meant, key=lambda one: (one.violated, bool(one.unknown)))}
    new = [one for token, one in known.items() if one.violated and token not in reported]
    begun = sorted(new, key=lambda one: -one.excess)[:MOST_TERMS]
    ended = [token for token in reported if token in known and known[token].state is State.SATISFIED]
    after = reported & known.keys() - {*ended} | {one.token for one in begun}
    recovered = (AntiAffinityRecovered(known[token]) for token in sorted(ended))
    violated = (AntiAffinityViolated(one, causes.get(term_token(one))) for one in begun)
    return [*violated, *recovered], frozenset(after)


def find_limit_changes(
    reported: ReportedStates, limits: Sequence[EvaluatedLimit], causes: Causes
) -> tuple[Sequence[LimitChanged], ReportedStates]:
    """Return the limits whose state changed since the last report, and the states now reported."""
    after: dict[str, State] = {}
    changed: list[tuple[int, str, State, EvaluatedLimit]] = []
    for limit in limits:
        if limit.state is State.SATISFIED and not reported:
            continue
        token = limit_token(limit)
        before = reported.get(token, State.SATISFIED)
        if before is not State.SATISFIED:
            after[token] = before
        # A limit that lacks nodes was already violated, so this is no new violation.
        state: State = State.VIOLATED if limit.state is State.UNFIXABLE else limit.state
        if before is not state:
            changed.append((limit.headroom, limit.name, state, limit))
    changes: list[LimitChanged] = []
    left = MOST_REPORTED
    for _, _, state, limit in sorted(changed, key=lambda change: change[:2]):
        owners, pods = _find_owners(limit), _find_crowded(limit) if state is State.VIOLATED else []
        if len(owners) + len(pods) > left:
            continue
        left -= len(owners) + len(pods)
        token = limit_token(limit)
        changes.append(LimitChanged(limit, state, causes.get(token), owners, pods))
        if state is State.SATISFIED:
            after.pop(token, None)
        else:
            after[token] = state
    return changes, after


def _find_owners(limit: EvaluatedLimit) -> Sequence[Owner]:
    owners = {part.member.reference: part.member.top for part in limit.parts}
    first = sorted(owners.items(), key=lambda item: item[0])[:_MOST_OWNERS]
    return [Owner(reference, owner.uid) for reference, owner in first if owner is not None]


def _find_crowded(limit: EvaluatedLimit) -> Sequence[Pod]:
    """Return pods of the fullest domain, if it has too many."""
    if limit.min_pods is not None or limit.largest is None:
        return []
    return [pod for pod in limit.pods if limit.stands_in(pod, limit.largest.domain)][:_MOST_PODS]


FindSubjects = Callable[[frozenset[str]], Mapping[str, Subject]]
"""Finds what is or was violated, by tokens; subjects that no cycle of this process has seen are left out."""


def find_subjects(assessment: Assessment, causes: Causes, tokens: frozenset[str]) -> Mapping[str, Subject]:
    """Return the groups, limits and terms of these tokens, whether they are violated now or not."""
    found: dict[str, Subject] = {}
    for group in assessment.groups:
        if (token := make_token(group.spread.name)) in tokens:
            found[token] = Subject(group, causes)
    for limit in assessment.limits:
        if (token := limit_token(limit)) in tokens:
            found[token] = Subject(limit, causes)
    for term in (*assessment.anti_affinity, *assessment.preferred):
        if (token := term_token(term)) in tokens:
            found[token] = Subject(term, causes)
    return found


def find_workloads(evaluated: EvaluatedGroup | EvaluatedLimit | EvaluatedTerm) -> Sequence[Reference]:
    """Return the workloads of a group or limit, or the workloads that declare a term, by name."""
    if isinstance(evaluated, EvaluatedLimit):
        return sorted({part.member.reference for part in evaluated.parts})
    return evaluated.workloads


def find_open(memory: Memory) -> Mapping[str, int]:
    """Return when each present violation began, in seconds, by token; a repair does not interrupt a violation."""
    return _find_seen(memory) | dict(memory.noted.open)


def find_since(memory: Memory) -> Mapping[str, datetime]:
    """Return since when each violation exists, by token, according to the history."""
    return dict(memory.seen) | {token: datetime.fromtimestamp(since, UTC) for token, since in memory.noted.open}


def _find_seen(memory: Memory) -> dict[str, int]:
    return {token: int(since.timestamp()) for token, since in memory.seen}


def find_violations(before: Memory, after: Memory, subjects: FindSubjects) -> Iterator[ViolationBegan | ViolationEnded]:
    """Yield the violations that ended in between, then those that began.

    A violation whose moves are in flight has not ended, because it may come back. Once they are over, it counts as
    ended in the cycle that first saw it gone. A subject that only waited for a node, and violates a constraint now,
    begins now.
    """
    known, seen = find_open(before), _find_seen(after)
    waiting = frozenset(before.noted.waiting)
    if known == seen and not waiting:
        return
    moving = {make_token(move.group) for move in after.moves if move.in_flight or move.unexecuted}
    ended = {token: since for token, since in known.items() if token not in seen and token not in moving}
    begun, waited = seen.keys() - known.keys(), waiting & seen.keys()
    asked = frozenset(ended.keys() | begun | waited)
    found = subjects(asked) if asked else {}
    gone = {one.token: one for one in before.noted.gone}
    for token, since in ended.items():
        yield ViolationEnded(token, found.get(token), since, gone.get(token), token in waiting)
    violated = {token for token in waited if (subject := found.get(token)) is not None and not subject.only_waits}
    yield from (ViolationBegan(token, found.get(token)) for token in seen if token in begun | violated)


def find_zones(
    before: Memory, after: Memory, keys: Collection[str], there: Collection[DomainName]
) -> Iterator[ZoneLost | ZoneReturned]:
    """Yield each domain of these keys that was lost or has come back in between.

    It is lost when its last node is gone or not Ready. `there` holds the domains that have a node now.
    """
    was, silent = _whole_losses(before, keys), _whole_losses(after, keys)
    lost = {DomainName(loss.key, loss.value): loss for loss in after.lost}
    for domain in dict.fromkeys((*_gone(before, after, keys), *silent)):
        if domain not in was:
            yield ZoneLost(domain, lost.get(domain))
    back = _come(before, after, keys)
    back |= {domain: loss.until for domain, loss in was.items() if domain in there}
    for domain, since in back.items():
        if domain not in silent:
            yield ZoneReturned(domain, since)


def _whole_losses(memory: Memory, keys: Collection[str]) -> dict[DomainName, DomainLoss]:
    """Return the losses of domains that have lost every node."""
    whole = (loss for loss in memory.lost if loss.key in keys and loss.whole)
    return {DomainName(loss.key, loss.value): loss for loss in whole}


def _gone(before: Memory, after: Memory, keys: Collection[str]) -> Iterator[DomainName]:
    """Yield the domains whose last node has gone.

    Both memories list recently seen domains. The domains of the last snapshot share the latest time.
    """
    found, has = _seen(after)
    known, had = _seen(before)
    for domain, last in known.items() if before.zones != after.zones else ():
        if domain.topology_key in keys and last == had and found.get(domain) != has:
            yield domain


def _come(before: Memory, after: Memory, keys: Collection[str]) -> dict[DomainName, datetime | None]:
    """Return the domains that have a node again, each with when it was seen last, None for the first time.

    A key without known domains shows nothing, because all its domains are new.
    """
    if before.zones == after.zones:
        return {}
    found, has = _seen(after)
    known, had = _seen(before)
    keys_known = {domain.topology_key for domain in known} & set(keys)
    chosen = (domain for domain, last in found.items() if domain.topology_key in keys_known and last == has)
    return {domain: known.get(domain) for domain in chosen if known.get(domain) != had}


def _seen(memory: Memory) -> tuple[dict[DomainName, datetime], datetime | None]:
    """Return when each domain was seen last, and the last time of all."""
    seen = {DomainName(zone.key, zone.zone): zone.last for zone in memory.zones}
    return seen, max(seen.values(), default=None)


def find_deadlocked(
    reported: frozenset[str], deadlocks: Sequence[Deadlock]
) -> tuple[Sequence[Deadlocked], frozenset[str]]:
    """Return the deadlocks that are not reported yet, and the UIDs of the reported pods that are still pending."""
    pending = {deadlock.pod.uid for deadlock in deadlocks}
    new = [deadlock for deadlock in deadlocks if deadlock.pod.uid not in reported][:MOST_DEADLOCKS]
    return list(map(Deadlocked, new)), frozenset(reported & pending | {deadlock.pod.uid for deadlock in new})


def find_ended(before: Iterable[Move], after: Iterable[Move]) -> Iterator[MoveEnded]:
    """Yield the requests that have ended in between.

    A refused eviction may still be carried out by its refuser, and ends when that time is over. A move is
    identified by its pod, not by the time of its request, which a clock that is set back can change.
    """
    followed = {move.uid for move in before if not _has_ended(move)}
    for move in after:
        if _has_ended(move) and move.uid in followed:
            yield MoveEnded(move, is_late=False)


def find_late(stored: Iterable[Move], own: Iterable[Move]) -> Iterator[MoveEnded]:
    """Yield the requests that a new leader knows to have ended although the last leader's memory continues them.

    A later request for the same pod belongs to another leader.
    """
    followed = {(move.uid, move.requested_at) for move in stored if not _has_ended(move)}
    for move in own:
        if _has_ended(move) and (move.uid, move.requested_at) in followed:
            yield MoveEnded(move, is_late=True)


def _has_ended(move: Move) -> bool:
    return move.state.over and not is_deferred(move)


def find_granted(before: Iterable[Move], after: Iterable[Move]) -> Iterator[Granted]:
    """Yield the requests that were granted in between, in the order of the pods' UIDs."""
    known = {move.uid for move in before if _was_granted(move)}
    granted = (move for move in after if move.uid not in known and _was_granted(move))
    yield from map(Granted, sorted(granted, key=lambda move: move.uid))


def _was_granted(move: Move) -> bool:
    return move.state is not MoveState.PLANNED and move.state not in NEVER_GRANTED


def find_overdue(before: Iterable[Move], after: Iterable[Move]) -> Iterator[ReplacementOverdue]:
    """Yield the replacements that have become overdue, and overdue replacements with a newly known reason."""
    known = {move.uid: (move.uncreated, move.unstarted) for move in before}
    for move in after:
        uncreated, unstarted = known.get(move.uid, (None, None))
        is_new = move.uncreated is not None and move.uncreated != uncreated and not uncreated
        if is_new or (move.unstarted is not None and unstarted is None):
            yield ReplacementOverdue(move)


def find_others(before: Iterable[OthersEvictions], after: Iterable[EvictedByOthers]) -> Iterator[OthersEvict]:
    """Yield the workloads whose pods others have begun to evict; `before` are the earlier known runs."""
    known = {run.workload: run.since for run in before}
    new = [one for one in after if known.get(one.evictions.workload) != one.evictions.since]
    yield from map(OthersEvict, new[:_MOST_EVICTED])


def find_motion(
    before: Iterable[UnsettledDomain], after: Iterable[UnsettledDomain]
) -> Iterator[DomainMoves | DomainSettled]:
    """Yield the domains that have begun to lose nodes, then the domains that have settled."""
    known = {(domain.motion.key, domain.motion.value): domain.motion for domain in before}
    moving = {(domain.motion.key, domain.motion.value): domain for domain in after}
    yield from (DomainMoves(domain) for place, domain in moving.items() if place not in known)
    yield from (DomainSettled(motion) for place, motion in known.items() if place not in moving)


def find_capacity(decision: CapacityDecision) -> Iterator[CapacityRequested | CapacityEnded]:
    """Yield the requests for capacity that began, then the requests that ended."""
    yield from map(CapacityRequested, decision.begun)
    yield from map(CapacityEnded, decision.changes)


def find_approvals(
    before: Proposal | None, after: Proposal | None, plan: Plan, policy: Policy, now: datetime
) -> Iterator[Expired | Proposed | Approved]:
    """Yield what has become of the last cycle's proposal, and the new proposal made from the plan."""
    stays = before is not None and after is not None and before.hash == after.hash
    if before is not None and not stays and before.policy == policy.cluster.hash and now >= expires_at(before, policy):
        yield Expired(before)
    if after is not None and not stays:
        yield Proposed(after, plan, expires_at(after, policy))
    if before is not None and after is not None and stays and after.approved and not before.approved:
        yield Approved(after)


def find_whole(
    before: Outcome, after: Outcome, written: Written = NOT_READ, author: Author = NOBODY
) -> Iterator[WholeApproved | WholeEnded | ApprovalProblem]:
    """Yield the begin and the end of a whole plan's approval, and why the written approval approves nothing.

    `author` has written the present file. No command declares who removes the file: then the declaration belongs to an
    earlier approval.
    """
    if after.ended is not None:
        standing, why = after.ended
        is_withdrawn = written.is_read and written.id != standing.id
        about = written.approval.plan if written.approval is not None else ""
        yield WholeEnded(standing, why, author.about(about) if is_withdrawn else None)
    if after.begun and after.standing is not None:
        yield WholeApproved(after.standing)
    if after.problem and after.problem != before.problem:
        yield ApprovalProblem(after.problem)


def find_prevention(
    before: PreventionReport, after: PreventionReport
) -> Iterator[PreventionStopped | PreventionResumed]:
    """Yield whether an obstacle to prevention has come, or the last one has gone."""
    if bool(before.stopped) != bool(after.stopped):
        yield PreventionStopped(after.stopped) if after.stopped else PreventionResumed()


def find_resilience_changes(before: ResilienceReport, after: ResilienceReport) -> Iterator[ResilienceChanged]:
    """Yield one loss for each workload that no longer survives it, or does again: the worst such loss.

    A workload that was not computed before has not changed. Of many workloads that no longer survive, only the worst
    are reported.
    """
    was, now = before.by_workload, after.by_workload
    changed = [loss for workload, loss in now.items() if workload in was and was[workload].holds != loss.holds]
    lost = sorted((loss for loss in changed if not loss.holds), key=attrgetter("badness"))
    regained = sorted((loss for loss in changed if loss.holds), key=attrgetter("badness"))
    yield from map(ResilienceChanged, (*lost[:_MOST_CHANGES], *regained[:_MOST_CHANGES]))


def find_surges(report: SurgeReport) -> Iterator[SurgeBegan | SurgeEnded]:
    """Yield the surges that have begun since the report before, then the surges that have ended."""
    yield from map(SurgeBegan, report.begun)
    yield from (SurgeEnded(surge, ending) for surge, ending in report.ended)


def find_rights(before: Rights, after: Rights) -> Iterator[RightsMissing | RightsGranted]:
    """Yield the namespaces in which a right to evict is now known to be missing, and those that have it now."""
    if missing := sorted(after.missing.keys() - before.missing.keys()):
        yield RightsMissing(missing)
    if granted := [name for name in sorted(before.missing) if after.allows(name)]:
        yield RightsGranted(granted)


def find_guards(before: GuardState, after: GuardState) -> Iterator[GuardChanged | GuardFailed]:
    """Yield the guards that are not good any more, or good again, and the questions without a usable answer."""
    not_good = {answer.name for answer in before.not_good}
    for answer in after.answers:
        if (answer.verdict is Verdict.GOOD) == (answer.name in not_good):
            yield GuardChanged(answer)
    if after.asked_at != before.asked_at:
        yield from (GuardFailed(answer) for answer in after.answers if answer.verdict is Verdict.ERROR)


def find_team_changes(
    before: Mapping[str, TeamReading],
    after: Mapping[str, TeamReading],
    problems_before: Mapping[str, str],
    problems: Mapping[str, str],
) -> Sequence[TeamPolicyChanged | TeamPolicyRefused]:
    """Return the team policies that are newly out of force, out of force for another reason, or in force again."""
    changes: list[TeamPolicyChanged | TeamPolicyRefused] = []
    for namespace in sorted(before.keys() | after.keys()):
        problem = problems.get(namespace, "")
        old, new = before.get(namespace), after.get(namespace)
        is_new = (new.policy if new else NO_TEAM_POLICY) != (old.policy if old else NO_TEAM_POLICY)
        if problem and problem != problems_before.get(namespace):
            changes.append(TeamPolicyRefused(namespace, problem))
        elif not problem and (is_new or namespace in problems_before):
            changes.append(TeamPolicyChanged(namespace, new))
    return changes[:_MOST_TEAMS]


def find_team_problems(problems: Mapping[str, str]) -> Iterator[TeamPolicyRefused]:
    """Yield each problem for a new leader, since the last leader's process may never have published it."""
    for namespace, problem in list(problems.items())[:_MOST_TEAMS]:
        yield TeamPolicyRefused(namespace, problem)
