"""Computes repeatedly, in a separate process, what the loss of a domain leaves.

A thread waits for the next time, writes the last cycle's cluster to a new process, and passes its answer to the loop.

The process takes a core for as long as several cycles of a large cluster. So the next computation begins at least a
minute after the last one, or sooner if nodes have changed, and never before ten times the last duration has passed. No
decision about an eviction depends on it.
"""

import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

import structlog

from rebalancer.assessment.assess import Assessment
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, ResilienceReported
from rebalancer.resilience.demands import find_demands
from rebalancer.resilience.transport import Answer, Question, send_question
from rebalancer.resilience.worst import NOTHING_COMPUTED, ResilienceReport

FIRST_SECONDS: Final = 30.0
"""Seconds from a leader's first cycle to the first computation, because due repairs go first."""

SECONDS: Final = 60.0
"""Least seconds between the starts of two computations."""

_SOON: Final = 5.0
"""The same if nodes have come, gone or changed readiness, because the last result is then outdated."""

_SHARE: Final = 10
"""At most one second in this many is spent on computing."""

_LONGEST: Final = 600.0
"""Seconds after which a computation is ended."""

_LOOK: Final = 1.0
"""Seconds between two checks whether a computation is due. A second's delay does no harm."""

_log = structlog.get_logger("rebalancer")


class ResilienceWorker:
    """Keeps up to date, in one thread, what the loss of a domain leaves.

    `get_state` returns the loop's state, and `tell` passes an event to the loop. `compute` answers a question; once the
    event passed to it is set, it ends early, with a problem.
    """

    def __init__(
        self,
        *,
        get_state: Callable[[], LoopState],
        tell: Callable[[LoopEvent], None],
        clocks: Clocks,
        compute: Callable[[Question, threading.Event], Answer],
    ) -> None:
        self._get_state = get_state
        self._tell = tell
        self._clocks = clocks
        self._compute = compute
        self._due: float | None = None
        self._soonest = 0.0
        self._nodes: Mapping[str, bool] = {}
        self._last: Callable[[], Assessment | None] = lambda: None
        self._report = NOTHING_COMPUTED
        self._ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name="resilience", daemon=True)

    def stop(self) -> None:
        """End at once; from any thread."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(_LOOK):
            try:
                self.look()
            except Exception:  # noqa: BLE001  # a defect is logged, the next time is tried
                _log.exception("resilience failed")

    def look(self) -> None:
        """Start a computation if one is due and the cluster or the policy has changed since the last one."""
        now = self._clocks.monotonic()
        if not self._is_due(now):
            return
        try:
            self._work()
        finally:  # even after an error, the next computation is not at once
            rest = _SHARE * (self._clocks.monotonic() - now)
            self._due, self._soonest = now + max(SECONDS, rest), now + max(_SOON, rest)

    def _is_due(self, now: float) -> bool:
        state = self._get_state()
        cycle = state.cycle if state.leadership.leads else None
        if cycle is None:  # the loop drops reports of a term that is over
            self._due, self._nodes, self._report, self._last = None, {}, NOTHING_COMPUTED, lambda: None
            return False
        if self._due is None:
            self._due = now + FIRST_SECONDS
        nodes = {node.name: node.ready for node in cycle.snapshot.nodes}
        due = self._soonest if self._nodes and nodes != self._nodes else self._due
        if now < due or cycle.context.stale or self._last() is cycle.assessment:
            return False
        self._nodes = nodes
        return True

    def _work(self) -> None:
        asked = self._ask()
        if asked is None:
            return
        questions, as_of, term = asked
        try:
            answer = self._compute(questions.pop(), self._ending)
        except (OSError, pickle.PickleError, EOFError) as error:
            answer = Answer(problem=f"no other process can be asked: {error}")
        if answer.worst is not None:
            self._publish(ResilienceReport(as_of=as_of, worst=answer.worst), term)
        elif not self._ending.is_set():
            _log.warning("what a lost domain leaves is not known", why=answer.problem)
            last = self._report
            self._publish(ResilienceReport(as_of=last.as_of, worst=last.worst, problem=answer.problem), term)

    def _ask(self) -> tuple[list[Question], datetime, int] | None:
        """Return the question, in a list that is its only holder, the time of its cluster, and the term."""
        state = self._get_state()
        cycle = state.cycle
        if cycle is None:
            return None
        # An assessment is made anew whenever something differs; a reference would keep all its pods in memory.
        self._last = weakref.ref(cycle.assessment)
        demands = find_demands(cycle.evaluation.inputs.policy, cycle.assessment.pod_groups)
        if not demands.keys:
            self._publish(NOTHING_COMPUTED, state.leadership.term)
            return None
        question = Question(snapshot=cycle.view.snapshot, profile=cycle.view.profile, demands=demands)
        return [question], cycle.context.now, state.leadership.term

    def _publish(self, report: ResilienceReport, term: int) -> None:
        self._report = report
        self._tell(ResilienceReported(report=report, term=term))


def compute_elsewhere(question: Question, ending: threading.Event) -> Answer:
    """Return the answer of a new process, which is ended after some minutes, or when this process ends."""
    command = [sys.executable, "-m", "rebalancer.resilience"]
    with subprocess.Popen(  # noqa: S603  # this program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        done = threading.Event()
        watch = threading.Thread(target=_end, args=(process, ending, done), name="resilience-watch", daemon=True)
        watch.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            # A process that ends early, for example for lack of memory, has reported it.
            with suppress(BrokenPipeError), process.stdin as pipe:
                send_question(question, pipe)
            del question  # no cluster is held while waiting for the answer
            written = process.stdout.read()
        finally:
            done.set()
            watch.join()
    if not written:
        return Answer(
            problem=f"the process that computes it ended with code {process.returncode}; where the container's memory "
            "is nearly used up, give it more"
        )
    answer: Answer = pickle.loads(written)  # noqa: S301  # from the same program
    return answer


def _end(process: "subprocess.Popen[bytes]", ending: threading.Event, done: threading.Event) -> None:
    """End a process when its time is over, or this process ends."""
    left = _LONGEST
    while left > 0 and not done.wait(_LOOK / 4) and not ending.is_set():
        left -= _LOOK / 4
    if not done.is_set():
        process.kill()
