"""The loop's events, requests and state: the types that its parts and its shell share."""

from dataclasses import dataclass, field
from datetime import datetime

from rebalancer.admission.pause import Pause
from rebalancer.controller.cycle import Cycle
from rebalancer.model.events import Event, Regarding
from rebalancer.model.moves import NO_MEMORY, Memory, Move
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Eviction
from rebalancer.policy import Mode, Policy
from rebalancer.ports import EvictionAnswer
from rebalancer.reporting.events.limit_events import ReportedStates
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile

# Events


@dataclass(frozen=True, kw_only=True)
class CycleDue:
    """It is time for a cycle. `stale` says why the snapshot is out of date, "" if it is not."""

    snapshot: Snapshot
    stale: str = ""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An eviction request was answered."""

    uid: str
    answer: EvictionAnswer


@dataclass(frozen=True, kw_only=True)
class NotSent:
    """A requested eviction was not sent, because it is no longer certain that it is allowed."""

    uid: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PolicyLoaded:
    """A valid policy was read; it is in force from now on."""

    policy: Policy
    profile: Profile = DEFAULT_PROFILE


@dataclass(frozen=True, kw_only=True)
class PolicyRefused:
    """The policy that was read is not valid; the last valid one stays in force."""

    message: str


@dataclass(frozen=True, kw_only=True)
class PauseRead:
    """The kill switch was read: a pause, or None where there is none."""

    pause: Pause | None


@dataclass(frozen=True, kw_only=True)
class Leading:
    """Leadership was won, with the memory that the last leader saved, or lost."""

    leads: bool
    memory: Memory = NO_MEMORY


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The process is to end: no eviction is requested any more."""


LoopEvent = CycleDue | Answered | NotSent | PolicyLoaded | PolicyRefused | PauseRead | Leading | Stopping

# Requests


@dataclass(frozen=True, kw_only=True)
class Evict:
    """Request the eviction of the move's pod; the shell answers with `Answered` or `NotSent`."""

    move: Move


@dataclass(frozen=True, kw_only=True)
class Publish:
    """Publish an event."""

    event: Event


@dataclass(frozen=True, kw_only=True)
class Save:
    """Save the memory and the status."""


LoopRequest = Evict | Publish | Save
Requests = tuple[LoopRequest, ...]


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """The state of the loop.

    `violated`, `reported` and `deadlocked` are what the last events reported: groups, limits that are not Satisfied,
    pending pods by UID.
    `queue` has the admitted evictions that are not yet requested; `cycle` is the last one, None before the first.
    `policy_error` says why the newest policy is not in force, "" if it is. `limit` is the furthest mode that the
    process allows, `at_once` ignores `spread.for`. `pause` is the pause in force.
    """

    policy: Policy
    profile: Profile = DEFAULT_PROFILE
    policy_error: str = ""
    policy_since: datetime
    limit: Mode | None = None
    at_once: bool = False
    policy_object: Regarding | None = None
    pause: Pause | None = None
    pause_object: Regarding | None = None
    leads: bool = False
    stopping: bool = False
    memory: Memory = NO_MEMORY
    violated: frozenset[str] = frozenset()
    reported: ReportedStates = field(default_factory=dict)
    deadlocked: frozenset[str] = frozenset()
    queue: tuple[Eviction, ...] = ()
    cycle: Cycle | None = None

    @property
    def mode(self) -> Mode:
        """The mode in force: the policy's, or the process's own if that is safer."""
        return self.policy.mode.at_most(self.limit)
