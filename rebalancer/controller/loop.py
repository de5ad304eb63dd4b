"""The loop as a step function: `step(state, event, now) -> (state, requests)`.

Everything that is decided stands here and below; threads only bring events and carry requests out. So a run can be
simulated, replayed and shrunk. Evictions are requested one at a time: whatever arrives between two of them (a lost
lease, a new policy, the end of the process) takes effect before the next.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from rebalancer.controller.cycle import Cycle, Stopwatch, run_cycle, without_stopwatch
from rebalancer.guard.admission import Circumstances
from rebalancer.guard.backoff import missed
from rebalancer.guard.moves import Happening, happened, merged
from rebalancer.guard.pause import Pause
from rebalancer.model.moves import NO_MEMORY, Memory, Move, Spare
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.verdicts import State
from rebalancer.planning.plans import Eviction
from rebalancer.policy import Mode, Policy
from rebalancer.ports import EvictionAnswer, EvictionResult
from rebalancer.reporting.deadlock_events import of_deadlocks
from rebalancer.reporting.events import Event, EventReason, Regarding, of_assessments, of_ended, of_move
from rebalancer.reporting.limit_events import Told, of_limits
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
class Held:
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


Happened = CycleDue | Answered | Held | PolicyLoaded | PolicyRefused | PauseRead | Leading | Stopping

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


@dataclass(frozen=True, kw_only=True)
class Loop:
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
    told: Told = field(default_factory=dict)
    deadlocked: frozenset[str] = frozenset()
    queue: tuple[Eviction, ...] = ()
    cycle: Cycle | None = None

    @property
    def mode(self) -> Mode:
        """The mode in force: the policy's, or the process's own if that is safer."""
        return self.policy.mode.at_most(self.limit)


Requests = tuple[Request, ...]

SENT_WITHIN = timedelta(seconds=5)
"""How long after its snapshot a plan is acted on; what is left then waits for a plan on what is."""

_MOST_TARGETS = 16
"""A move remembers where its replacement may land only for keys with so few domains: memory is bounded."""


def step(
    state: Loop, event: Happened, now: datetime, stopwatch: Stopwatch = without_stopwatch
) -> tuple[Loop, Requests]:
    """Return the state after an event, and what is to be done about it, in order."""
    if state.pause is not None and not state.pause.holds(now):
        state = replace(state, pause=None)  # it ends by itself
    match event:
        case CycleDue():
            return _cycle(state, event, now, stopwatch)
        case Answered():
            return _answered(state, event, now)
        case Held():
            moves = tuple(move for move in state.memory.moves if move.uid != event.uid)
            dropped = replace(state, queue=(), memory=msgspec.structs.replace(state.memory, moves=moves))
            return dropped, _saved(dropped)
        case PolicyLoaded():
            return _loaded(state, event, now)
        case PolicyRefused():
            return _policy_refused(state, event)
        case Leading():
            memory = merged(state.memory, event.memory) if event.leads else state.memory
            violated = frozenset(name for name, _ in memory.seen)
            told = dict.fromkeys(violated, State.VIOLATED)
            following = replace(state, leads=event.leads, memory=memory, violated=violated, told=told, queue=())
            return following, _about_pause(following)
        case PauseRead():
            return _pause_read(state, event, now)
        case Stopping():
            return replace(state, stopping=True, queue=()), _saved(state)


def _cycle(state: Loop, event: CycleDue, now: datetime, stopwatch: Stopwatch) -> tuple[Loop, Requests]:
    if not state.leads:
        return state, ()
    circumstances = Circumstances(
        policy=state.policy,
        mode=state.mode,
        now=now,
        stale=event.stale,
        pause=state.pause,
        at_once=state.at_once,
    )
    before = state.cycle.snapshot if state.cycle is not None else None
    cycle = run_cycle(event.snapshot, state.profile, state.memory, circumstances, stopwatch, before)
    ended = _ended(state.memory, cycle.memory)
    about_limits, told = of_limits(state.told, cycle.assessment.limits, cycle.assessment.causes)
    about_pods, deadlocked = of_deadlocks(state.deadlocked, cycle.assessment.deadlocks)
    events = [*of_assessments(state.violated, cycle.assessment), *about_limits, *about_pods]
    for move in ended:
        events += of_ended(move)
    violated = frozenset(group.group.name for group in cycle.assessment.violated)
    following = replace(
        state,
        cycle=cycle,
        memory=cycle.memory,
        violated=violated,
        told=told,
        deadlocked=deadlocked,
        queue=() if state.stopping else cycle.admission.evictions,
    )
    following, evictions = _next(following, now)
    return following, (*(Publish(event=each) for each in events), *evictions, Save())


def _ended(before: Memory, after: Memory) -> list[Move]:
    over = {move.uid for move in before.moves if move.state.over}
    return [move for move in after.moves if move.state.over and move.uid not in over]


def _next(state: Loop, now: datetime) -> tuple[Loop, Requests]:
    """Take the next eviction from the queue, if nothing speaks against it."""
    old = state.cycle is None or now - state.cycle.circumstances.now > SENT_WITHIN
    if not state.queue or not state.leads or state.stopping or old or state.mode is Mode.OBSERVE or state.pause:
        return replace(state, queue=()), ()
    eviction, *rest = state.queue
    move = _move(eviction, now)
    # A pod that was asked for before and stayed has one move, not two.
    others = (each for each in state.memory.moves if each.uid != move.uid)
    memory = msgspec.structs.replace(state.memory, moves=(*others, move), sent=(*state.memory.sent, now))
    if eviction.repair.spare:
        kept = (each for each in memory.spares if each.group != eviction.group)
        spares = tuple(sorted((*kept, Spare(eviction.group, eviction.repair.goal))))
        memory = msgspec.structs.replace(memory, spares=spares)
    # What is about to be done is remembered before it is: the next leader must not do it again.
    return replace(state, queue=tuple(rest), memory=memory), (Save(), Evict(move=move))


def _move(eviction: Eviction, now: datetime) -> Move:
    pod = eviction.pod
    return Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=eviction.workload,
        owner_uid=eviction.owner_uid,
        cause=eviction.cause,
        group=eviction.group,
        targets=tuple(each for each in eviction.targets if len(each.values) <= _MOST_TARGETS),
        asked_at=now,
        changed_at=now,
    )


_GRANTED = frozenset({EvictionResult.EVICTED, EvictionResult.GONE})
_ENDS_EVERYTHING = frozenset({EvictionResult.THROTTLED, EvictionResult.UNKNOWN})
"""Answers that speak of the server, not of the pod: the rest waits for the next plan."""

_WILL_NOT_PASS = frozenset({EvictionResult.FORBIDDEN, EvictionResult.FAILED})
"""Refusals that asking again does not change: the group's repair is put off as after a miss."""


def _answered(state: Loop, event: Answered, now: datetime) -> tuple[Loop, Requests]:
    asked = next((move for move in state.memory.moves if move.uid == event.uid and not move.state.over), None)
    if asked is None:
        return state, ()
    result = event.answer.result
    move = asked
    if result is EvictionResult.EVICTED:
        move = happened(asked, Happening.GRANTED, now)
    elif result is not EvictionResult.UNKNOWN:
        move = happened(asked, Happening.REFUSED, now)
    moves = tuple(move if each.uid == event.uid else each for each in state.memory.moves)
    memory = msgspec.structs.replace(state.memory, moves=moves)
    if result in _WILL_NOT_PASS:
        memory = missed(memory, asked.group, now)
    following = replace(state, memory=memory)
    if result in _ENDS_EVERYTHING:
        following = replace(following, queue=())
    elif result not in _GRANTED:
        # The world is not as this step was planned for; other groups' steps do not depend on it.
        following = replace(following, queue=tuple(each for each in state.queue if each.group != asked.group))
    following, more = _next(following, now)
    published = tuple(Publish(event=each) for each in _events(move, event.answer))
    return following, (*published, *(more or _saved(following)))


def _saved(state: Loop) -> Requests:
    """Ask for the memory to be kept; only the leader writes."""
    return (Save(),) if state.leads else ()


def _events(move: Move, answer: EvictionAnswer) -> tuple[Event, ...]:
    match answer.result:
        case EvictionResult.EVICTED:
            places = ", ".join(f"{each.topology_key} {'/'.join(each.values[:4])}" for each in move.targets)
            return of_move(EventReason.EVICTED, f"evicted from {move.node} to repair {move.cause}; to {places}", move)
        case EvictionResult.BUDGET | EvictionResult.STALE:
            return of_move(EventReason.EVICTION_BLOCKED, answer.message, move)
        case EvictionResult.GONE | EvictionResult.CONFLICT:
            return ()
        case _:
            return of_move(EventReason.EVICTION_FAILED, f"{answer.result}: {answer.message}", move)


def _loaded(state: Loop, event: PolicyLoaded, now: datetime) -> tuple[Loop, Requests]:
    known = event.policy.hash == state.policy.hash
    following = replace(state, policy=event.policy, profile=event.profile, policy_error="", policy_since=now, queue=())
    if known and not state.policy_error:
        return replace(state, profile=event.profile), ()
    note = f"policy {event.policy.hash} is in force, mode {following.mode}"
    return following, _about_policy(state, EventReason.POLICY_RELOADED, note)


def _policy_refused(state: Loop, event: PolicyRefused) -> tuple[Loop, Requests]:
    if event.message == state.policy_error:
        return state, ()
    note = f"policy {state.policy.hash} stays in force: {event.message}"
    return replace(state, policy_error=event.message), _about_policy(state, EventReason.POLICY_INVALID, note)


def _about_policy(state: Loop, reason: EventReason, note: str) -> Requests:
    if state.policy_object is None or not state.leads:
        return ()
    return (Publish(event=Event(reason=reason, note=note[:1024], regarding=state.policy_object)),)


def _pause_read(state: Loop, event: PauseRead, now: datetime) -> tuple[Loop, Requests]:
    """Take a pause, its change or its end; what was admitted before waits for a plan that knows of it."""
    pause = event.pause if event.pause is not None and event.pause.holds(now) else None
    if pause == state.pause:
        return state, ()
    following = replace(state, pause=pause, queue=())
    return following, (*_about_pause(following), *_saved(following))


def _about_pause(state: Loop) -> Requests:
    if state.pause is None or state.pause_object is None or not state.leads:
        return ()
    note = state.pause.message
    return (Publish(event=Event(reason=EventReason.REBALANCE_PAUSED, note=note, regarding=state.pause_object)),)
