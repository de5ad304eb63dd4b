"""The Status document: the controller's mode, moves, plan and refusals."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from msgspec import Meta, structs

from rebalancer.account.account import Account
from rebalancer.admission.admit import RefusedByAdmission
from rebalancer.admission.approval import expires_at
from rebalancer.admission.guards import GuardState, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.admission.slow_start import ReplacementNotCreated, ReplacementNotRunning, WindowUses
from rebalancer.documents.document import (
    API_VERSION,
    CamelCaseStruct,
    LeftOut,
    Number,
    Text,
    WorkloadName,
    fit_json,
    to_json,
    workload_name,
)
from rebalancer.documents.losses import LossStatus
from rebalancer.documents.map import MapDocument
from rebalancer.documents.overview import Figures
from rebalancer.documents.resilience_status import ResilienceStatus
from rebalancer.documents.surges import SurgeRefusal, SurgeStatus
from rebalancer.documents.waits import (
    HoldStatus,
    LikelyDomains,
    NextMove,
    RepairWait,
    Usual,
    likely_domains,
)
from rebalancer.model.approvals import Proposal, StandingApproval
from rebalancer.model.breaker import BreakerCause, BreakerState
from rebalancer.model.events import NOTE_LIMIT
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Memory, Move, OwnFailure, Reference
from rebalancer.model.reasons import Reason
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy
from rebalancer.prevention.report import PreventionReport
from rebalancer.tracking.holds import find_held_namespaces

_MOST_TEAMS: Final = 20
_MOST_NAMESPACES: Final = 20
_MOST_REFUSED: Final = 100
_MOST_PROPOSED: Final = 20


class MoveEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """One move of the controller; `overdue` is why its replacement is missing or does not run, "" if it is not late.

    `to` are the predicted domains of its replacement, by topology key; `reason` is what the eviction repairs.
    `requested_at` is when it began. If the move has ended, its end was seen at `since`. `ready_at` is when its
    replacement became Ready, null if not known. `usual` is how long the workload's last moves took, null if the move
    has ended or that is not known.
    """

    namespace: Text
    pod: Text
    uid: Text
    node: str
    workload: WorkloadName
    state: Text
    since: datetime
    overdue: str = ""
    to: Mapping[str, LikelyDomains] = {}
    reason: str = ""
    requested_at: datetime | None = None
    ready_at: datetime | None = None
    usual: Usual | None = None


class TeamPolicyStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A namespace whose team policy is not in force as written; `error` says why."""

    namespace: Text
    error: Text


class PolicyStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """The policy in force, without team policies. `valid` is false while a newer one is refused; `error` says why.

    The policy is also `missing` if none can be read any more. If no controller runs, all this describes the last cycle,
    and no policy is in force.

    `team_errors` are the first twenty namespaces whose team policy is not in force as written, of `teams_invalid`.
    """

    hash: Text
    source: str
    valid: bool
    missing: bool = False
    error: str = ""
    interval_seconds: Number = 60
    teams_invalid: Number = 0
    team_errors: tuple[TeamPolicyStatus, ...] = ()


class PauseStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A pause. `until` is null if it lasts until `resume`; `error` says why the file is unreadable, else ""."""

    until: datetime | None
    reason: str
    by: str
    error: str = ""


class BlockedNamespace(CamelCaseStruct, frozen=True, kw_only=True):
    """A namespace in which nothing is evicted until a workload has replaced its evicted `pod`.

    `failure` says why the replacement cannot be created, by the workload's condition, "" if it has none. `since` is
    when `pod` was evicted. `not_running` is why a created replacement does not run, "" if none was created.

    `own_failure` is a cause within the namespace (object, image or template), which holds up no other namespace. It is
    "" if the failure is the cluster's.
    """

    namespace: Text
    workload: WorkloadName
    pod: Text
    since: datetime
    failure: str
    not_running: str = ""
    own_failure: str = ""

    @property
    def refusal(self) -> Refusal:
        """Why its evictions wait."""
        workload = Reference(self.namespace, self.workload.kind, self.workload.name)
        own = OwnFailure(self.own_failure) if self.own_failure else None
        if self.not_running:
            return ReplacementNotRunning(workload, self.pod, self.not_running, holds_namespace=True, own=own)
        return ReplacementNotCreated(workload, self.pod, self.failure, own)


class RefusedEviction(CamelCaseStruct, frozen=True, kw_only=True):
    """An eviction that admission control refused; no request for `group` follows before `next_try`.

    `pod` is NAMESPACE/NAME. `refuser` says who refused it: an admission webhook, policy or plugin, with its name;
    `message` is its answer. `times` requests of the group in a row were not granted.
    """

    group: Text
    pod: Text
    refuser: Text
    message: str
    times: Number
    next_try: datetime

    @property
    def refusal(self) -> Refusal:
        """Why the evictions of the group wait."""
        return RefusedByAdmission(self.refuser, self.message, self.next_try)


class LeaseStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """Who leads, and `since` when, by the Lease.

    `holder` is "" if it is not known, or if no process has led since `free_since`. `last_holder` is the process whose
    Lease has run out, "" if it was handed back. `renewed` is the last renewal by the holder or the last holder, null if
    not known. `ahead_seconds` is by how much the leader's clock is ahead of the API server's, negative if it is behind.

    `error` says why the Lease cannot be read, or why this process does not lead, else "". `unread_since` is since when
    the process has failed to read the Lease; since then, neither the leader nor its actions are known. It is null while
    the Lease can be read.
    """

    holder: str = ""
    last_holder: str = ""
    renewed: datetime | None = None
    since: datetime | None = None
    free_since: datetime | None = None
    ahead_seconds: int = 0
    error: str = ""
    unread_since: datetime | None = None


class BreakerStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """The breaker, and the causes for which it is open.

    `namespaces` are the first twenty in which nothing is evicted because a replacement is not created.
    """

    open: bool
    causes: tuple[BreakerCause, ...]
    namespaces: tuple[BlockedNamespace, ...] = ()


class SlowStartWindow(CamelCaseStruct, frozen=True, kw_only=True):
    """How many moves may be under way at once in a namespace, and how many are."""

    namespace: Text
    at_once: Number
    under_way: Number


class SlowStartStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """How many moves may be under way at once in the cluster, and how many are.

    `namespaces` are the first twenty in which evictions wait for their window.
    """

    at_once: Number
    under_way: Number
    namespaces: tuple[SlowStartWindow, ...] = ()


class ProposedEviction(NextMove, frozen=True, kw_only=True):
    """An eviction of a proposed plan, and what it repairs; `added` as in the plan."""

    reason: Text
    added: Number = 0


class CoveredStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A repair that the approval of the whole plan covers, and how many pods it takes away according to the plan.

    `workloads` are NAMESPACE/KIND/NAME, with the kind in lower case.
    """

    workloads: tuple[Text, ...]
    evictions: Number


class ApprovalStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """In mode Approve the plan that waits for approval, or is approved and carried out: its first twenty evictions.

    `total` is how many evictions there are, `left` how many are not carried out yet. `since` is when the plan was
    proposed or approved. Until `expires_at`, `command` approves it, or it goes on; `who` says who may approve.
    `repairs` are what its approval as a whole covers, from the first step to the last.
    """

    hash: Text
    approved: bool
    since: datetime
    expires_at: datetime
    evictions: tuple[ProposedEviction, ...]
    total: Number
    left: Number
    command: Text
    who: Text
    repairs: tuple[CoveredStatus, ...] = ()


class StandingStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """In mode Approve the approval of a whole plan in force, for up to `evictions` pods and until the time `until`.

    `left` is how many pods may still be taken away. `by` is the approver named in the file, maybe not its author.
    """

    plan: Text
    by: str = ""
    since: datetime
    until: datetime
    evictions: Number
    left: Number


class GuardStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A guard of the evictions: whether its last answer was good, and that answer."""

    name: Text
    good: bool
    message: str


class PlanSummary(CamelCaseStruct, frozen=True, kw_only=True):
    """The evictions that are still needed for all violations that can be repaired, and their proved minimum.

    `uncounted` repairs are not in these numbers: they go on once a pod of their StatefulSet exists or is Ready.
    """

    evictions: Number
    minimum: Number
    uncounted: Number = 0


class PreventionStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """The state of prevention. Of `workloads` with constraints or limits, `ordered` have the best order that was found.

    `waiting` patches are still to be sent, and `left` of Rebalancer's own costs are still to be removed. `stopped` says
    why nothing is written, "" if nothing prevents writing. `unsteered` counts the workloads left alone, by reason.
    """

    mode: Text
    workloads: Number
    ordered: Number
    waiting: Number
    left: Number
    stopped: str
    unsteered: dict[str, Annotated[int, Meta(ge=1)]]


class StatusDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """The controller's status. `cluster` is the configured name of the cluster, "" if it has none.

    `paused` is the pause in force. If no controller runs, it is the pause that the next controller will find, as far as
    it can be read. `leader` wrote the status; `lease` says who leads now, null in the stored document. `page_port` is
    the port on which the leader serves its page, null if it serves none. `page_command` opens the page, "" if the
    leader is no pod of its namespace, and in the stored document.

    The status is what its process knew at `as_of`, null if that is not stated. Anything later, such as another cycle,
    is missing.

    `losses` are the first five zones that have lost nodes, whole zones first. `figures` are the numbers of the last
    cycle, null before the first. `guards` is empty while no eviction waits for a guard.

    `waits` are the first twenty repairs that do not go on, those that will go on soonest first. `holds` are the reasons
    that keep evictions back in the cluster, in namespaces and into domains. `refused_evictions` are the first hundred
    that admission control refused and that must not be tried again yet.

    `forbidden_kinds` are the optional kinds that the controller's account may not list. `missing_rights` are the
    namespaces with planned evictions in which it may not evict, none in mode Observe. `approval` is the plan that waits
    for approval, `standing` the approval of a whole plan that is carried out. `approval_problem` says why the written
    approval approves nothing.

    `resilience` is what the loss of a domain leaves, null if the policy names no key. `surges` are the surges under
    way. `surges_refused` are the first twenty workloads to which no pods are added although the plan says so.
    `surges_stopped` says why surges write nothing now, "" if nothing prevents writing.

    `map` has the first six violated workloads, null if there are none or the map does not fit into the ConfigMap; in
    the latter case `left_out` counts the rows that lists lose.
    """

    api_version: str = API_VERSION
    kind: str = "Status"
    cluster: str = ""
    mode: Text
    paused: PauseStatus | None
    leader: str
    lease: LeaseStatus | None = None
    page_port: int | None = None
    page_command: str = ""
    as_of: datetime | None = None
    last_cycle: datetime | None
    stale: str
    breaker: BreakerStatus
    slow_start: SlowStartStatus | None = None
    guards: tuple[GuardStatus, ...] = ()
    in_flight: tuple[MoveEntry, ...]
    last_moves: tuple[MoveEntry, ...]
    plan: PlanSummary
    losses: tuple[LossStatus, ...] = ()
    figures: Figures | None = None
    approval: ApprovalStatus | None = None
    standing: StandingStatus | None = None
    approval_problem: str = ""
    refusals: dict[str, Annotated[int, Meta(ge=1)]]
    waits: tuple[RepairWait, ...] = ()
    holds: tuple[HoldStatus, ...] = ()
    refused_evictions: tuple[RefusedEviction, ...] = ()
    policy: PolicyStatus
    prevention: PreventionStatus
    surges: tuple[SurgeStatus, ...] = ()
    surges_refused: tuple[SurgeRefusal, ...] = ()
    surges_stopped: str = ""
    resilience: ResilienceStatus | None = None
    forbidden_kinds: tuple[str, ...] = ()
    missing_rights: tuple[Text, ...] = ()
    left_out: LeftOut = msgspec.field(default_factory=dict)
    map: MapDocument | None = None


_LISTS: Final = ("in_flight", "last_moves", "waits", "holds", "refused_evictions", "surges")
"""The lists that lose rows if a status is too large."""


def fit_status(status: StatusDocument, drawn: MapDocument | None, most: int, beside: int = 0) -> str:
    """Return a status as JSON of at most `most` bytes, with a map if that leaves `beside` bytes free.

    A status that is too large even without the map loses rows.
    """
    whole = to_json(structs.replace(status, map=drawn))
    if len(whole) + beside <= most:
        return whole.decode()
    fitted = fit_json(status, _LISTS, most)
    if len(fitted) > most and status.approval is not None:  # its steps can be approved one by one
        approval = structs.replace(status.approval, repairs=())
        fitted = fit_json(structs.replace(status, approval=approval), _LISTS, most)
    return fitted.decode()


def blocked_namespaces(moves: Iterable[Move]) -> tuple[BlockedNamespace, ...]:
    """Return the entries of the first namespaces in which nothing is evicted because of these moves."""
    overdue = sorted(find_held_namespaces(moves).items())[:_MOST_NAMESPACES]
    return tuple(
        BlockedNamespace(
            namespace=namespace,
            workload=workload_name(move.workload),
            pod=move.pod,
            since=move.requested_at,
            failure=move.uncreated or "",
            not_running=move.unstarted or "" if move.uncreated is None else "",
            own_failure=move.own_failure or "",
        )
        for namespace, move in overdue
    )


def refused_evictions(memory: Memory, now: datetime) -> tuple[RefusedEviction, ...]:
    """Return the entries of the first groups that wait because admission control refused an eviction."""
    waiting = sorted((one for one in memory.refused if one.refuser and one.next_try > now), key=attrgetter("group"))
    return tuple(
        RefusedEviction(
            group=one.group,
            pod=one.pod,
            refuser=one.refuser,
            message=one.words,
            times=one.times,
            next_try=one.next_try,
        )
        for one in waiting[:_MOST_REFUSED]
    )


def prevention_status(report: PreventionReport) -> PreventionStatus:
    """Convert the last report of prevention to its entry."""
    return PreventionStatus(
        mode=report.mode,
        workloads=report.workloads,
        ordered=report.ordered,
        waiting=report.waiting,
        left=report.left,
        stopped=report.stopped[:NOTE_LIMIT],
        unsteered=dict(report.unsteered),
    )


def team_errors(problems: Mapping[str, str]) -> tuple[TeamPolicyStatus, ...]:
    """Return the entries of the first problems of team policies, by namespace."""
    first = sorted(problems.items())[:_MOST_TEAMS]
    return tuple(TeamPolicyStatus(namespace=name, error=problem[:NOTE_LIMIT]) for name, problem in first)


def move_entry(move: Move, usual: Usual | None = None) -> MoveEntry:
    """Convert a move to its entry."""
    return MoveEntry(
        namespace=move.namespace,
        pod=move.pod,
        uid=move.uid,
        node=move.node,
        workload=workload_name(move.workload),
        state=move.state,
        since=move.changed_at,
        overdue=(move.uncreated or move.unstarted or "no replacement was created") if move.overdue else "",
        to=likely_domains(move.targets),
        reason=move.cause,
        requested_at=move.requested_at,
        ready_at=move.ready_at or None,
        usual=usual,
    )


def pause_status(pause: Pause | None) -> PauseStatus | None:
    """Convert a pause to its status."""
    if pause is None:
        return None
    return PauseStatus(until=pause.until, reason=pause.reason, by=pause.by, error=pause.unreadable)


def breaker_status(state: BreakerState, moves: Iterable[Move]) -> BreakerStatus:
    """Convert the breaker's state to its status; `moves` are the moves of the memory."""
    causes = tuple(known.cause for known in state.causes)
    return BreakerStatus(open=state.is_open, causes=causes, namespaces=blocked_namespaces(moves))


def slow_start_status(uses: WindowUses | None) -> SlowStartStatus | None:
    """Convert the windows of slow start to their entry, None if slow start is off."""
    if uses is None:
        return None
    return SlowStartStatus(
        at_once=uses.cluster.at_once,
        under_way=uses.cluster.under_way,
        namespaces=tuple(
            SlowStartWindow(namespace=namespace, at_once=use.at_once, under_way=use.under_way)
            for namespace, use in list(uses.namespaces.items())[:_MOST_NAMESPACES]
        ),
    )


def approval_status(plan: Plan, proposal: Proposal | None, policy: Policy) -> ApprovalStatus | None:
    """Convert the proposal of mode Approve to its entry, None if there is none."""
    if proposal is None:
        return None
    planned = {eviction.pod.uid: eviction for eviction in plan.fates.evictions}
    left = [planned[uid] for uid in proposal.uids if uid in planned]
    return ApprovalStatus(
        hash=proposal.hash,
        approved=proposal.approved,
        since=proposal.since,
        expires_at=expires_at(proposal, policy),
        evictions=tuple(
            ProposedEviction(
                namespace=eviction.pod.namespace,
                pod=eviction.pod.name,
                node=eviction.pod.node or "",
                reason=eviction.cause,
                added=eviction.repair.added,
                domains=likely_domains(eviction.targets),
            )
            for eviction in left[:_MOST_PROPOSED]
        ),
        total=len(proposal.uids),
        left=len(left),
        command=f"rebalancer approve {proposal.hash}",
        who="accounts that may patch ConfigMap rebalancer-approval, such as those with ClusterRole rebalancer-approve",
        repairs=tuple(
            CoveredStatus(workloads=repair.workloads, evictions=repair.evictions)
            for repair in (proposal.coverage.repairs if proposal.coverage else ())
        ),
    )


def standing_status(standing: StandingApproval | None) -> StandingStatus | None:
    """Convert the approval of a whole plan to its entry, None if there is none."""
    if standing is None:
        return None
    return StandingStatus(
        plan=standing.plan,
        by=standing.by,
        since=standing.since,
        until=standing.until,
        evictions=standing.evictions,
        left=standing.left,
    )


def guard_status(state: GuardState) -> tuple[GuardStatus, ...]:
    """Return the entries of the guards; empty while nothing waits for guards, and before their first answers."""
    answers = state.answers if state.wanted else ()
    return tuple(
        GuardStatus(name=answer.name, good=answer.verdict is Verdict.GOOD, message=answer.message) for answer in answers
    )


def count_refusals(account: Account, deadlocks: int) -> dict[str, int]:
    """Count refusals by reason; `deadlocks` is the number of pods in a placement deadlock."""
    counts: dict[str, int] = {str(reason): number for reason, number in account.refusals.items()}
    if deadlocks:
        counts[Reason.PLACEMENT_DEADLOCK] = deadlocks
    return dict(sorted(counts.items()))
