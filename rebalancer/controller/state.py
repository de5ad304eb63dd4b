"""The loop's events, requests and state: the types that its parts and its shell share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rebalancer.account.happened import Occurrence, ReportedStates
from rebalancer.account.people import NO_ACTS, Acts
from rebalancer.admission.admit import Overload
from rebalancer.admission.breaker import NO_REQUESTS, RequestCounts
from rebalancer.admission.guards import NO_ANSWERS, GuardAnswer, GuardState
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import Rights
from rebalancer.admission.slow_start import WindowUses, describe_windows
from rebalancer.admission.written import NOT_READ, NOTHING_WRITTEN, Written
from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.controller.capacity import CapacityReading
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.events import EventObjects
from rebalancer.history.outbox import Stored
from rebalancer.model.events import Event, Regarding
from rebalancer.model.history import NOBODY, Author
from rebalancer.model.moves import NO_MEMORY, Memory, Move, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import Guards, Mode, Policy, TeamReading
from rebalancer.ports import EvictionAnswer, ReplicaCount
from rebalancer.prevention.report import NO_REPORT, PreventionReport
from rebalancer.resilience.worst import NOTHING_COMPUTED, ResilienceReport
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.surge.report import NO_SURGES, SurgeReport
from rebalancer.tracking.evicted import SeenEviction
from rebalancer.tracking.motion import Look


class Clocks(NamedTuple):
    """The two clocks of a process: the time in UTC, and seconds that only ever increase."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]


# Events


@dataclass(frozen=True, kw_only=True)
class CycleDue:
    """It is time for a cycle."""

    snapshot: Snapshot
    read_at: float = 0.0
    """When the snapshot was taken, by the monotonic clock."""
    stale: str = ""
    """Why the snapshot is out of date, "" if it is not."""
    requests: RequestCounts = NO_REQUESTS
    """The requests to the API server within `breaker.window`."""
    capacity: CapacityReading | None = None
    """What was read about placeholders, None where there can be none."""
    evicted: tuple[SeenEviction, ...] = ()
    """The pods that were evicted since the last cycle, also by others."""
    knows_approval: bool = True
    """Whether the approval that was read last is the written one."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The cluster as seen by a process that does not lead, while its view is fresh."""

    snapshot: Snapshot


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An eviction request was answered. `overload` is the wait that an overloaded API server has asked for."""

    uid: str
    answer: EvictionAnswer
    overload: Overload | None = None


class Held(StrEnum):
    """Which other evictions an objection to an eviction holds back."""

    GROUP = "group"
    """The step of its group."""
    STEPS = "steps"
    """Every step that has not begun."""
    ALL = "all"
    """Everything, even evictions that a begun step requires."""


@dataclass(frozen=True, kw_only=True)
class NotSent:
    """A requested eviction was not sent, because it is no longer certain that it is allowed.

    `term` is that of the request. With `plans_again`, the view was wrong, and a cycle must follow.
    """

    uid: str
    why: str
    term: int
    held: Held = Held.GROUP
    plans_again: bool = False


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The memory was saved, or not: `problem` says why not, "" if it was."""

    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class PolicyLoaded:
    """A valid policy was read; it is in force from now on."""

    policy: Policy
    profile: Profile = DEFAULT_PROFILE
    author: Author | None = NOBODY
    """Its author, None if a `PolicyAuthorRead` follows: a policy does not wait for its author."""


@dataclass(frozen=True, kw_only=True)
class PolicyRefused:
    """The policy that was read is not valid; the last valid one stays in force."""

    message: str
    author: Author | None = NOBODY
    missing: bool = False
    """Whether the policy does not exist or cannot be read."""


@dataclass(frozen=True, kw_only=True)
class PolicyAuthorRead:
    """The author of the last loaded or refused policy was read."""

    author: Author


@dataclass(frozen=True, kw_only=True)
class TeamPoliciesRead:
    """The team policies by namespace have changed since the last such event, or their problems have."""

    teams: Mapping[str, TeamReading]


@dataclass(frozen=True, kw_only=True)
class PauseRead:
    """The kill switch was read: a pause, or None where there is none.

    `author` changed it last; None if only the pause was read.
    """

    pause: Pause | None
    author: Author | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovalRead:
    """The approvals were read: the hash of the plan that a person approved last, "" if there is none.

    `written` is the approval of a whole plan.
    """

    approved: str
    written: Written = NOTHING_WRITTEN
    author: Author = NOBODY
    written_author: Author = NOBODY


@dataclass(frozen=True, kw_only=True)
class GuardsRead:
    """The queries of these guards were asked; `at` is when that began, by the monotonic clock."""

    guards: Guards
    answers: tuple[GuardAnswer, ...]
    at: float


@dataclass(frozen=True, kw_only=True)
class RightsRead:
    """The API server was asked where this account may evict."""

    rights: Rights


@dataclass(frozen=True, kw_only=True)
class PreventionReported:
    """Prevention has evaluated a cycle, or has met an obstacle."""

    report: PreventionReport


@dataclass(frozen=True, kw_only=True)
class ResilienceReported:
    """The resilience of a cycle in a term of this process was computed, or could not be."""

    report: ResilienceReport
    term: int


@dataclass(frozen=True, kw_only=True)
class SurgesReported:
    """Surges have gone on, ended, or met an obstacle."""

    report: SurgeReport


@dataclass(frozen=True, kw_only=True)
class HistoryStored:
    """The ConfigMaps of the history were written or read; `stored` has their last numbers."""

    stored: Stored


@dataclass(frozen=True, kw_only=True)
class Leading:
    """Leadership was won, with the memory that the last leader saved, or lost. `term` counts how often it was won.

    `remaining` are the UIDs of pods of its planned moves that still exist and are not terminating, as read since then.
    """

    leads: bool
    memory: Memory = NO_MEMORY
    remaining: frozenset[str] = frozenset()
    term: int = 0


@dataclass(frozen=True, kw_only=True)
class PlaceholdersCreated:
    """Placeholders were created, or not: `refused` says why not, by the token of the request."""

    refused: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The process is to end: no eviction is requested any more."""


LoopEvent = (
    CycleDue
    | Watched
    | Answered
    | NotSent
    | Saved
    | PolicyLoaded
    | PolicyRefused
    | PolicyAuthorRead
    | TeamPoliciesRead
    | PauseRead
    | ApprovalRead
    | GuardsRead
    | RightsRead
    | PreventionReported
    | ResilienceReported
    | SurgesReported
    | HistoryStored
    | Leading
    | PlaceholdersCreated
    | Stopping
)

# Requests


@dataclass(frozen=True, kw_only=True)
class Evict:
    """Request the eviction of the move's pod; the shell answers with `Answered` or `NotSent`."""

    move: Move
    term: int
    """The term of leadership in which it was planned."""
    expected: tuple[tuple[Reference, ReplicaCount], ...] = ()
    """What each workload concerned must have at the API server before the request is sent.

    That is how many pods it wants, how many must be Ready at least, and which pods it has on which nodes. It is empty
    within a step that has begun and needs this eviction.
    """


@dataclass(frozen=True, kw_only=True)
class Publish:
    """Publish an event."""

    event: Event


@dataclass(frozen=True, kw_only=True)
class Save:
    """Save the memory and the status; the shell answers with `Saved`."""


@dataclass(frozen=True, kw_only=True)
class CreatePlaceholders:
    """Create placeholders, until one is refused; the shell answers with `PlaceholdersCreated`."""

    placeholders: tuple[Placeholder, ...]
    term: int


@dataclass(frozen=True, kw_only=True)
class DeletePlaceholders:
    """Delete placeholders, by the names of their Jobs."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UnderWay:
    """An eviction request without an answer yet, the group that it is for, and what is said of who is preempted."""

    uid: str
    group: str
    preempts: str = ""


LoopRequest = Evict | Publish | Save | CreatePlaceholders | DeletePlaceholders
Requests = tuple[LoopRequest, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Leadership:
    """Whether this process leads."""

    leads: bool = False
    term: int = 0
    """How often leadership was won; that of the last `Leading`."""
    stopping: bool = False
    """The process is to end: no eviction is requested any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InForce:
    """What people have said: policy, team policies, pause, approval."""

    policy: Policy
    """The cluster policy with what `teams` add."""
    policy_since: datetime
    profile: Profile = DEFAULT_PROFILE
    """The scheduler profile that the policy names."""
    policy_error: str = ""
    """Why the newest policy is not in force, "" if it is."""
    policy_missing: bool = False
    """Whether that is because there is no policy to read any more."""
    teams: Mapping[str, TeamReading] = field(default_factory=dict)
    """The last reading of each team policy, by namespace."""
    team_problems: Mapping[str, str] = field(default_factory=dict)
    """What of a team policy is not in force, by namespace."""
    pause: Pause | None = None
    approved: str = ""
    """The hash of the plan that a person has approved last, "" if there is none."""
    written: Written = NOT_READ
    """The approval of a whole plan as it is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessFacts:
    """What is decided at the start of the process, and does not change."""

    furthest_mode: Mode | None = None
    """The mode that the process allows at most, None: the policy's."""
    at_once: bool = False
    """`spread.for` is ignored."""
    policy_object: Regarding | None = None
    """What events about the policy regard; likewise below."""
    pause_object: Regarding | None = None
    approval_object: Regarding | None = None
    history_name: str = ""
    """How the process names itself in the history, "" where none is kept."""
    cluster_name: str = ""
    """What people call the cluster, "" where nobody has said it."""
    page_port: int | None = None
    """The port of its status page, None where it serves none."""

    @property
    def event_objects(self) -> EventObjects:
        """What events regard that are about no workload and no pod."""
        return EventObjects(policy=self.policy_object, pause=self.pause_object, approval=self.approval_object)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """The evictions of the last cycle, on their way to the API server."""

    evictions: tuple[Eviction, ...] = ()
    """Admitted and not yet requested."""
    under_way: tuple[UnderWay, ...] = ()
    """Requests without an answer."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """How many evictions of the present step were requested, by group."""
    silent: frozenset[str] = frozenset()
    """The namespaces of requests that had no answer or a server's error in this cycle."""
    unsaved: str = ""
    """Why the memory could not be saved the last time, "" if it was."""
    overload: Overload | None = None
    """Until when the API server has asked to send nothing, as the sender says it; None if it has not."""
    forbidden: Mapping[str, str] = field(default_factory=dict)
    """Why this account may not evict in a namespace, as far as it has tried."""
    rights: Rights = field(default_factory=Rights)
    """Where it may, as the API server says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityQueue:
    """Placeholders on their way to the API server; empty where capacity is off."""

    to_create: tuple[Placeholder, ...] = ()
    """They wait until the memory is saved."""
    to_delete: tuple[str, ...] = ()
    creating: frozenset[str] = frozenset()
    """The names of those whose creation has not been answered."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why one was not created, by token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """What the last events and reports have said."""

    violated: frozenset[str] = frozenset()
    """Groups that are violated, by token."""
    limits: ReportedStates = field(default_factory=dict)
    """Limits that are not Satisfied, by token."""
    anti_affinity: frozenset[str] = frozenset()
    """Terms of podAntiAffinity that are violated, by token."""
    deadlocked: frozenset[str] = frozenset()
    """Pending pods, by UID."""
    unsettled: tuple[UnsettledDomain, ...] = ()
    """Domains that had not settled."""
    prevention: PreventionReport = NO_REPORT
    resilience: ResilienceReport = NOTHING_COMPUTED
    surges: SurgeReport = NO_SURGES


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopState:
    """The state of the loop."""

    in_force: InForce
    process: ProcessFacts = ProcessFacts()
    leadership: Leadership = Leadership()
    memory: Memory = NO_MEMORY
    """What must be stored."""
    queue: Queue = Queue()
    capacity: CapacityQueue = CapacityQueue()
    reported: Reported = Reported()
    happened: tuple[Occurrence, ...] = ()
    """What has happened in the last step, and in no step before."""
    acts: Acts = NO_ACTS
    """What people have said, and who, for the history."""
    guards: GuardState = NO_ANSWERS
    """What Prometheus has answered to the queries of the guards."""
    cycle: Cycle | None = None
    """The last one, None before the first."""
    before: Snapshot | None = None
    """What the last cycle evaluated whose view was not stale, for the next one; None before the first."""
    read_at: float = 0.0
    """When the cluster was read for it, by the monotonic clock."""
    turn: int = 0
    """How many cycles there were."""
    look: Look | None = None
    """The last look at the nodes, also while another process led; None before the first one."""

    @property
    def busy(self) -> bool:
        """Whether evictions of the last cycle are still to be requested or answered."""
        return bool(self.queue.evictions or self.queue.under_way)

    @property
    def mode(self) -> Mode:
        """The mode in force: the policy's, or the process's own if that is safer."""
        return self.in_force.policy.mode.at_most(self.process.furthest_mode)


def find_windows(state: LoopState) -> WindowUses | None:
    """Return how slow start stands; None where it is off, or before the first cycle."""
    if state.cycle is None or not state.in_force.policy.budgets.slow_start:
        return None
    return describe_windows(state.memory, state.cycle.snapshot, state.cycle.context.now)
