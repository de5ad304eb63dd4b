"""The shell around the loop: passes events to it one by one, and carries out its requests.

One thread runs the loop; any other thread only puts events into the inbox. Eviction requests, and questions to
Prometheus, have threads of their own, so that a pause, a new policy or a lost lease takes effect while one hangs.
"""

import gc
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, Protocol

import structlog

from rebalancer.account.happened import Occurrence, PauseChanged
from rebalancer.account.numbers import add_numbers
from rebalancer.admission.breaker import NO_REQUESTS, RequestCounts
from rebalancer.admission.guards import calls_for_decision, next_question
from rebalancer.admission.pause import Pause
from rebalancer.admission.standing import is_in_force
from rebalancer.controller.capacity import CapacityReading, read_capacity, uses_capacity
from rebalancer.controller.cycle_timer import CycleTimer
from rebalancer.controller.loop import step
from rebalancer.controller.placeholders import PlaceholderJobs
from rebalancer.controller.saver import Saver
from rebalancer.controller.sender import Sender
from rebalancer.controller.state import (
    Answered,
    Clocks,
    CreatePlaceholders,
    CycleDue,
    DeletePlaceholders,
    Evict,
    GuardsRead,
    Held,
    LoopEvent,
    LoopState,
    NotSent,
    PauseRead,
    PlaceholdersCreated,
    Publish,
    Requests,
    Save,
    Saved,
    Watched,
)
from rebalancer.controller.triggers import NOTHING_AWAITED, calls_for_cycle, find_awaited
from rebalancer.documents.history import AsOf
from rebalancer.model.events import Event
from rebalancer.model.history import Entry
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Guards, Mode
from rebalancer.ports import (
    Cluster,
    EvictionAnswer,
    EvictionResult,
    Monitoring,
    Placeholders,
    ReadFailedError,
)
from rebalancer.tracking.evicted import SeenEviction, find_evicted

_log = structlog.get_logger("rebalancer")

Spawn = Callable[[Callable[[], None]], None]
"""Runs a function, in a thread of its own or at once."""

CAPACITY_SECONDS = 2.0
"""Seconds between cycles while placeholders exist, because capacity costs money and a step takes several cycles."""

_MOST_EVICTED: Final = 10_000
"""Up to this many evicted pods, the latest, are stored between two cycles."""

_CYCLES_OF_COLLECTION: Final = 100
"""After this many cycles all garbage is collected, not only the youngest; for 30,000 pods that takes 0.1 s."""

EARLY_SECONDS = 1.0
"""Seconds from a change that calls for an early cycle to the cycle, so that simultaneous changes make one cycle."""


class Identity(NamedTuple):
    """How a process names itself and its policy in the status."""

    name: str
    policy_source: str


class Observer(Protocol):
    """A consumer of measurements and states: metrics, a live view."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        ...

    def changed(self, state: LoopState) -> None:
        """Take the new state of the loop; called after every event."""
        ...


class _CycleAt(Enum):
    """A request for a cycle in the inbox, after the events that the cycle must know."""

    NOW = auto()
    ANOTHER_TIME = auto()
    AFTER_ANSWERS = auto()
    """Not before the due question about guards is answered."""


def spawn_thread(work: Callable[[], None]) -> None:
    """Run a function in a thread that cannot delay the end of the process."""
    threading.Thread(target=work, name="eviction", daemon=True).start()


def run_at_once(work: Callable[[], None]) -> None:
    """Run a function in the caller's thread, for a repeatable simulation."""
    work()


def _log_happened(happened: Iterable[Occurrence]) -> None:
    """Log occurrences that have no event, such as a pause that was read; also in a process that does not lead."""
    for occurrence in happened:
        match occurrence:
            case PauseChanged(_, Pause() as pause):
                _log.warning("paused", why=pause.message)
            case PauseChanged(Pause() as pause, None):
                _log.info("resumed", was=pause.message)
            case _:
                pass


def _log_event(event: Event) -> None:
    """Log an event, except single violations, because there may be thousands and the cycle's line counts them."""
    if event.action != "Assess":
        log = _log.warning if event.type == "Warning" else _log.info
        log("reported", reason=str(event.reason), about=str(event.regarding), note=event.note)


class Runner:
    """Runs one loop over one cluster.

    `may_act` says right before each eviction whether this process still leads in the plan's term, because a lease can
    run out between two events, and even be won again. `holds_lease` reads at the API server whether this process holds
    the Lease in a term. Without the Lease, nothing that another process has stored is overwritten.

    `cycle_ended` is called after every cycle that did not fail, and instead of a cycle while another process leads.
    `memory_saved` receives the history entries of a saved memory and its time; it never blocks.

    `placeholders` creates Jobs of placeholders; None creates none. `monitoring` answers the queries of guards; without
    it, guards allow no eviction. `count_requests` returns the requests to the API server within a time, for the
    breaker.
    """

    def __init__(  # noqa: PLR0913  # all that a loop is connected to
        self,
        *,
        state: LoopState,
        cluster: Cluster,
        clocks: Clocks,
        observer: Observer,
        may_act: Callable[[int], bool],
        identity: Identity,
        spawn: Spawn = run_at_once,
        cycle_ended: Callable[[], None] = lambda: None,
        placeholders: Placeholders | None = None,
        monitoring: Monitoring | None = None,
        count_requests: Callable[[timedelta], RequestCounts] = lambda _: NO_REQUESTS,
        memory_saved: Callable[[tuple[Entry, ...], AsOf], None] = lambda _, __: None,
        holds_lease: Callable[[int], bool] = lambda _: False,
        knows_approval: Callable[[], bool] = lambda: True,
    ) -> None:
        self.state = state
        self._cluster = cluster
        self._clocks = clocks
        self._observer = observer
        self._may_act = may_act
        self._spawn = spawn
        self._cycle_ended = cycle_ended
        self._placeholders = placeholders
        self._monitoring = monitoring
        self._asking = False
        self._question_at: float | None = None
        self._cycle_in: float | None = None
        """In how many seconds the next cycle was due at the last read."""
        self._jobs = PlaceholderJobs(placeholders, self._find_objection)
        self._count_requests = count_requests
        self._memory_saved = memory_saved
        self._knows_approval = knows_approval
        self._saver = Saver(cluster, clocks, holds_lease, identity=identity.name, policy_source=identity.policy_source)
        self._sender = Sender(cluster=cluster, find_objection=self._find_objection, clocks=clocks, tell=self.tell)
        self._inbox: queue.SimpleQueue[LoopEvent | _CycleAt] = queue.SimpleQueue()
        self._timer = CycleTimer(clocks.monotonic)
        self._awaited = NOTHING_AWAITED
        self._evicted: deque[SeenEviction] = deque(maxlen=_MOST_EVICTED)
        self._cycles = 0
        self.thread = threading.Thread(target=self._run, name="loop", daemon=True)

    # From any thread

    def tell(self, event: LoopEvent) -> None:
        """Put an event into the inbox; from any thread, never blocks."""
        self._inbox.put(event)

    def ask_cycle(self) -> None:
        """Ask for a cycle now, or right after the present one; from any thread, never blocks."""
        self._inbox.put(_CycleAt.NOW)

    def observe(self, before: object, after: object) -> None:
        """Take a change in the cluster, which may call for an early cycle; from any thread, never blocks."""
        evicted = find_evicted(before, after)
        if evicted is not None and self.state.leadership.leads:  # otherwise it may be another leader's
            self._evicted.append(SeenEviction(evicted, self._clocks.now()))
        if calls_for_cycle(before, after, self._awaited):
            self.ask_cycle_within(EARLY_SECONDS)

    def ask_cycle_within(self, seconds: float) -> None:
        """Ask for a cycle after this many seconds, or a little later; from any thread, never blocks."""
        if self._timer.ask(seconds):
            self._inbox.put(_CycleAt.ANOTHER_TIME)

    # In the loop's thread

    def _run(self) -> None:
        """Handle events until the process is to end and nothing is under way any more."""
        while not (self.state.leadership.stopping and not self.state.busy):
            wait = self.time_to_cycle()
            try:
                event = self._inbox.get(timeout=wait)
            except queue.Empty:
                event = _CycleAt.NOW if wait == self._cycle_in else _CycleAt.AFTER_ANSWERS
            try:
                self._take(event)
            except Exception:  # noqa: BLE001  # a defect is logged, this cycle ends where it was, the next is tried
                _log.exception("cycle failed")

    def time_to_cycle(self) -> float | None:
        """Return in how many seconds the next cycle or question is due, None if none is, or one waits for answers."""
        left = self._cycle_in = self._timer.left()
        if self._question_at is None:
            return left
        question = max(0.0, self._question_at - self._clocks.monotonic())
        return question if left is None else min(left, question)

    def tick(self) -> None:
        """Handle the events in the inbox, then run a cycle to its end; for a simulation."""
        self.ask_cycle()
        self.drain()

    def drain(self) -> None:
        """Handle the events in the inbox; for a simulation."""
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def _take(self, event: LoopEvent | _CycleAt) -> None:
        """Handle an event and the rest of the inbox, then run a cycle if one is due."""
        self._receive(event)
        for _ in range(self._inbox.qsize()):
            self._receive(self._inbox.get())
        if self._timer.is_asked and not (self.state.queue.evictions and self.state.queue.under_way):
            self._run_cycle()

    def _receive(self, event: LoopEvent | _CycleAt) -> None:
        match event:
            case _CycleAt.NOW:
                self._timer.ask(None)
            case _CycleAt.ANOTHER_TIME:
                pass  # the next wait is shorter
            case _CycleAt.AFTER_ANSWERS:
                self._ask_guards()
            case GuardsRead():
                self._take_answers(event)
            case _:
                self._handle(event)

    def _take_answers(self, event: GuardsRead) -> None:
        """Take answers about guards; a cycle follows only if they decide something."""
        self._asking = False
        before = self.state.guards
        self._handle(event)
        if calls_for_decision(before, self.state.guards):
            self._timer.ask(None)
        else:
            self._ask_guards()

    def _run_cycle(self) -> None:
        began = self._timer.begin()
        evicted = tuple(self._evicted.popleft() for _ in range(len(self._evicted)))
        if self.state.leadership.leads:
            if self.state.in_force.pause is not None:
                self._read_pause()
            with self._observer.phase("snapshot"):
                stale = self._cluster.staleness()
                read_at = self._clocks.monotonic()
                snapshot = self._cluster.snapshot(self._clocks.now())
            requests = self._count_requests(self.state.in_force.policy.breaker.window)
            capacity = self._read_capacity(snapshot)
            self._handle(
                CycleDue(
                    snapshot=snapshot,
                    read_at=read_at,
                    stale=stale,
                    knows_approval=self._knows_approval(),
                    requests=requests,
                    capacity=capacity,
                    evicted=evicted,
                )
            )
            self._report()
            if self.state.memory.capacity or (capacity is not None and capacity.jobs):
                self.ask_cycle_within(CAPACITY_SECONDS)
            self._await_next_try()
            self._ask_guards()
        elif not self._cluster.staleness():
            self._handle(Watched(snapshot=self._cluster.snapshot(self._clocks.now())))
        # Now that nothing waits: during planning it would cost a fifth of the time. What outlives a cycle, as an error
        # does that a watch waits with, is of an older generation, which by itself never gets full.
        self._cycles += 1
        gc.collect(0 if self._cycles % _CYCLES_OF_COLLECTION else 2)
        self._timer.end(began)
        self._cycle_ended()

    def _await_next_try(self) -> None:
        """Ask for a cycle at the time when a used-up rate admits more, instead of waiting for the interval."""
        cycle = self.state.cycle
        if cycle is not None and cycle.admission.next_try is not None:
            left = (cycle.admission.next_try - cycle.context.now).total_seconds()
            self.ask_cycle_within(max(EARLY_SECONDS, left))

    def _ask_guards(self) -> None:
        """Ask the queries of the guards if evictions wait for the answers, or note when that is due."""
        in_force, monitoring = self.state.in_force.policy, self._monitoring
        due = next_question(self.state.guards, in_force.guards, in_force.interval)
        self._question_at = None
        if due is None or monitoring is None or self._asking:
            return
        now = self._clocks.monotonic()
        if due > now:
            self._question_at = due
        elif why := self._begin(partial(self._read_guards, monitoring, in_force.guards)):
            _log.warning("guards not asked", why=why)
            self._question_at = now + EARLY_SECONDS
        else:
            self._asking = True

    def _read_guards(self, monitoring: Monitoring, guards: Guards) -> None:
        began = self._clocks.monotonic()
        self.tell(GuardsRead(guards=guards, answers=monitoring.ask(guards), at=began))

    def _read_capacity(self, snapshot: Snapshot) -> CapacityReading | None:
        """Read the Jobs of placeholders, where there can be any."""
        policy, memory = self.state.in_force.policy, self.state.memory
        if self._placeholders is None or not uses_capacity(policy, memory, snapshot):
            return None
        return read_capacity(self._placeholders, policy, memory, snapshot, self._clocks.now())

    def _read_pause(self) -> None:
        """Check whether the pause still holds.

        An eviction may have read the pause right before its end, with an answer that came after the watch's event. Then
        no later event would end the pause.
        """
        with suppress(ReadFailedError):
            self._handle(PauseRead(pause=self._cluster.read_pause()))

    def _handle(self, event: LoopEvent) -> None:
        """Step the loop and carry out its requests; immediate answers are handled before anything else."""
        pending: deque[LoopEvent] = deque([event])
        while pending:
            for request in self._step(pending.popleft()):
                match request:
                    case Evict():
                        if why := self._begin(partial(self._evict, request, self.state.read_at)):
                            uid, term = request.move.uid, request.term
                            pending.append(NotSent(uid=uid, why=why, term=term, held=Held.STEPS))
                    case Publish():
                        _log_event(request.event)
                        self._cluster.record(request.event)
                    case Save():
                        pending.extend(self._save())
                    case CreatePlaceholders():
                        if why := self._begin(partial(self._create, request)):
                            refused = {placeholder.token: why for placeholder in request.placeholders}
                            pending.append(PlaceholdersCreated(refused=refused))
                    case DeletePlaceholders():
                        self._delete(request)

    def _step(self, event: LoopEvent) -> Requests:
        now = self._clocks.now()
        self.state, requests = step(self.state, event, now, self._observer.phase)
        _log_happened(self.state.happened)
        self._awaited = find_awaited(self.state)
        try:
            self._observer.changed(self.state)
        except Exception:  # noqa: BLE001  # whatever the metrics do, what the loop requests is carried out
            _log.exception("state not observed")
        return requests

    def _begin(self, work: Callable[[], None]) -> str:
        """Begin a request in its own thread; return why no thread is available, "" if it has begun."""
        try:
            self._spawn(work)
        except RuntimeError as error:
            _log.warning("request not begun", error=str(error))
            return str(error)
        return ""

    def _evict(self, request: Evict, read_at: float) -> None:
        with self._observer.phase("act"):
            try:
                outcome = self._sender.send(request, read_at)
            except Exception as error:  # noqa: BLE001  # else its group would wait for the answer for ever
                _log.exception("eviction without a result", pod=request.move.pod)
                message = f"{type(error).__name__}: {error}"
                outcome = Answered(uid=request.move.uid, answer=EvictionAnswer(EvictionResult.UNKNOWN, message))
        self.tell(outcome)
        is_granted = isinstance(outcome, Answered) and outcome.answer.result is EvictionResult.EVICTED
        is_place_free = not is_granted and any(window.limited for window in self.state.memory.windows)
        if is_place_free or (isinstance(outcome, NotSent) and outcome.plans_again):
            self.ask_cycle_within(EARLY_SECONDS)

    def _create(self, request: CreatePlaceholders) -> None:
        self.tell(self._jobs.create(request, self.state.in_force.policy.capacity))

    def _delete(self, request: DeletePlaceholders) -> None:
        """Delete Jobs; if the process ends, in this thread, because nothing would wait for another.

        The next cycle or the next leader requests the deletion of remaining Jobs again.
        """
        if not self._may_act(self.state.leadership.term):  # only their leader may delete Jobs
            return
        work = partial(self._jobs.delete, request, self.state.in_force.policy.capacity)
        if self.state.leadership.stopping:
            work()
        else:
            self._begin(work)

    def _find_objection(self, term: int, plan: str = "") -> str:
        """Return why an eviction planned in a term may not be sent now; called by the requests' threads.

        `plan` is the hash of the plan whose approval lets it go, "" if it needs none.
        """
        state = self.state
        if not self._may_act(term):
            return "this process no longer leads"
        if state.in_force.pause is not None:
            return state.in_force.pause.message
        standing = state.memory.standing
        if standing and standing.plan == plan and not is_in_force(standing, state.in_force.written, self._clocks.now()):
            return f"the approval of plan {plan} is withdrawn, or its time is over"
        return f"the mode is {state.mode} now" if state.mode is Mode.OBSERVE else ""

    def _save(self) -> list[LoopEvent]:
        """Save memory and status, unless another process may lead, which has its own memory by now."""
        if not self._may_act(self.state.leadership.term):
            return [Saved(problem="this process no longer leads")]
        answer = self._saver.save(self.state)
        if answer is None:  # it is stored already
            self._tell_saved()
            return [Saved()]
        if self.state.queue.unsaved and not answer.problem:  # nothing was admitted for this reason: plan again
            self.ask_cycle_within(EARLY_SECONDS)
        if not answer.problem:
            self._tell_saved()
        return [Saved(problem=answer.problem)]

    def _tell_saved(self) -> None:
        cycle = self.state.cycle
        as_of = AsOf(self._clocks.now(), cycle.context.now if cycle is not None else None)
        self._memory_saved(self.state.memory.outbox, as_of)

    def _report(self) -> None:
        cycle = self.state.cycle
        if cycle is None:
            return
        _log.info(
            "cycle",
            mode=self.state.mode,
            groups=len(cycle.assessment.groups),
            violated=len(cycle.assessment.violated),
            limits=len(cycle.assessment.limits),
            limits_broken=sum(limit.state is not State.SATISFIED for limit in cycle.assessment.limits),
            minimum=add_numbers(cycle.numbers.values()).lower_bound,
            now=len(cycle.fates.going),
            waiting=len(cycle.fates.kept),
            waiting_for=Counter(str(one.reason) for one in cycle.fates.kept),
            breaker=[str(known.cause) for known in cycle.context.breaker.causes],
            in_flight=len(self.state.memory.in_flight),
            stale=cycle.context.stale,
            unsaved=self.state.queue.unsaved,
        )
        for fault in cycle.snapshot.faults:
            _log.warning("left out", object=str(fault))
