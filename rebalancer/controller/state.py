"""What the loop hears, what it asks for, and what it knows: the words that its parts and its shell have in common."""

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
    """It is time for a cycle. `stale` says why the snapshot cannot be trusted, "" if it can."""

    snapshot: Snapshot
    stale: str = ""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An eviction request was answered."""

    uid: str
    answer: EvictionAnswer


@dataclass(frozen=True, kw_only=True)
class NotSent:
    """An eviction that was asked for was not sent: it is no longer certain that it may be."""

    uid: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PolicyLoaded:
    """A valid policy was read; it is in force from now on."""

    policy: Policy
    profile: Profile = DEFAULT_PROFILE


@dataclass(frozen=True, kw_only=True)
class PolicyRefused:
    """What was read is no policy; the last good one stays in force."""

    message: str


@dataclass(frozen=True, kw_only=True)
class PauseRead:
    """What the kill switch says was read: a pause, or None where there is none."""

    pause: Pause | None


@dataclass(frozen=True, kw_only=True)
class Leading:
    """Leadership was won, with the memory that the last leader left, or lost."""

    leads: bool
    memory: Memory = NO_MEMORY


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The process is to end: nothing new is begun."""


LoopEvent = CycleDue | Answered | NotSent | PolicyLoaded | PolicyRefused | PauseRead | Leading | Stopping

# Requests


@dataclass(frozen=True, kw_only=True)
class Evict:
    """Ask the API server to evict the move's pod; answer with `Answered`."""

    move: Move


@dataclass(frozen=True, kw_only=True)
class Publish:
    """Publish an event."""

    event: Event


@dataclass(frozen=True, kw_only=True)
class Save:
    """Keep the memory and show the status."""


Request = Evict | Publish | Save
Requests = tuple[Request, ...]


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """The state of the loop.

    `violated`, `told` and `deadlocked` are what events were last published about: groups, limits that are not
    Satisfied, waiting pods by UID.
    `queue` are admitted evictions that were not yet requested; `cycle` is the last one, None before the first.
    `policy_error` says why the newest policy file is not the one in force, "" if it is. `limit` is the furthest mode
    that the process may go to, `at_once` leaves `spread.for` out of account. `pause` is the one that holds.
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
    told: ReportedStates = field(default_factory=dict)
    deadlocked: frozenset[str] = frozenset()
    queue: tuple[Eviction, ...] = ()
    cycle: Cycle | None = None

    @property
    def mode(self) -> Mode:
        """The mode in force: the policy's, or the process's own if that is safer."""
        return self.policy.mode.at_most(self.limit)
