"""The shell around the loop: passes it events and carries out its requests, one thread at a time.

Other threads (lease, policy, signals) only put events into the inbox; these take effect before the next eviction.
"""

import gc
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

import structlog

from rebalancer.controller.loop import step
from rebalancer.controller.state import (
    Answered,
    CycleDue,
    Evict,
    LoopEvent,
    LoopState,
    NotSent,
    Publish,
    Requests,
    Save,
)
from rebalancer.controller.status import status_documents
from rebalancer.model.reasons import State
from rebalancer.ports import Cluster, EvictionResult

_log = structlog.get_logger("rebalancer")


class Observer(Protocol):
    """A consumer of measurements and states: metrics, a live view."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        ...

    def answered(self, result: EvictionResult) -> None:
        """Count an answer to an eviction request."""
        ...

    def changed(self, state: LoopState) -> None:
        """Take the new state of the loop; called after every event."""
        ...


class Runner:
    """Runs one loop over one cluster.

    `clock` returns the time in UTC; `may_act` says right before each eviction whether this process still leads,
    since a lease can run out between two events.
    """

    def __init__(
        self,
        *,
        state: LoopState,
        cluster: Cluster,
        clock: Callable[[], datetime],
        observer: Observer,
        may_act: Callable[[], bool],
        identity: str,
        policy_source: str,
    ) -> None:
        self.state = state
        self._cluster = cluster
        self._clock = clock
        self._observer = observer
        self._may_act = may_act
        self._identity = identity
        self._policy_source = policy_source
        self._inbox: deque[LoopEvent] = deque()
        self._turn = threading.Lock()
        self._safe = True

    def tell(self, event: LoopEvent) -> None:
        """Put an event into the inbox; from any thread, never blocks."""
        self._inbox.append(event)

    def tick(self) -> None:
        """Handle the events in the inbox, then run a cycle."""
        with self._turn:
            self._drain()
            if not self.state.leads:
                return
            with self._observer.phase("snapshot"):
                stale = self._cluster.staleness()
                snapshot = self._cluster.snapshot(self._clock())
            self._handle(CycleDue(snapshot=snapshot, stale=stale))
            self._report()
            gc.collect(0)  # now that nothing waits: during planning it would cost a fifth of the time

    def drain(self) -> None:
        """Handle the events in the inbox, without a cycle."""
        with self._turn:
            self._drain()

    def _drain(self) -> None:
        while self._inbox:
            self._handle(self._inbox.popleft())

    def _handle(self, event: LoopEvent) -> None:
        """Step the loop and carry out its requests, until there are no more."""
        pending: deque[LoopEvent] = deque([event])
        while pending:
            requests = self._step(pending.popleft())
            for request in requests:
                match request:
                    case Evict():
                        outcome = self._evict(request)
                        # Events that arrived meanwhile take effect before the loop requests the next eviction.
                        pending.extend(self._inbox)
                        self._inbox.clear()
                        pending.append(outcome)
                    case Publish():
                        self._cluster.record(request.event)
                    case Save():
                        self._safe = self._cluster.save(
                            status_documents(self.state, self._identity, self._policy_source)
                        )

    def _step(self, event: LoopEvent) -> Requests:
        now = self._clock()
        before = self.state.pause
        self.state, requests = step(self.state, event, now, self._observer.phase)
        pause = self.state.pause
        if pause is not None and pause != before:
            _log.warning("paused", why=pause.message)
        elif pause is None and before is not None:
            _log.info("resumed", was=before.message)
        self._observer.changed(self.state)
        return requests

    def _evict(self, request: Evict) -> Answered | NotSent:
        move = request.move
        held = self._held()
        if held:
            _log.warning("eviction held back", namespace=move.namespace, pod=move.pod, why=held)
            return NotSent(uid=move.uid, why=held)
        with self._observer.phase("act"):
            answer = self._cluster.evict(move)
        self._observer.answered(answer.result)
        _log.info(
            "eviction",
            namespace=move.namespace,
            pod=move.pod,
            uid=move.uid,
            node=move.node,
            workload=str(move.workload),
            result=answer.result,
            message=answer.message,
        )
        return Answered(uid=move.uid, answer=answer)

    def _held(self) -> str:
        """Return why no eviction may be sent right now, "" if it may: things may have changed since the cycle began."""
        if self._inbox:
            return "an event arrived after it was requested and takes effect first"
        if not self._may_act():
            return "this process no longer leads"
        if not self._safe:
            return "the memory of this move could not be saved"
        return self._cluster.staleness()

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
            minimum=cycle.plan.lower_bound,
            now=len(cycle.admission.evictions),
            waiting=len(cycle.plan.waiting) + len(cycle.admission.waiting),
            in_flight=len(self.state.memory.in_flight),
            stale=cycle.context.stale,
        )
        for fault in cycle.snapshot.faults:
            _log.warning("left out", object=str(fault))
