"""The lease's thread: tries to take or renew the Lease every few seconds, and reports the leader to the loop."""

import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import structs

from rebalancer.controller.election import (
    Election,
    free_since,
    next_record,
    observe_lease,
    patience,
    record_renewal,
    release_record,
    renewed_ago,
)
from rebalancer.controller.state import Clocks, Leading, LoopEvent
from rebalancer.documents.status import LeaseStatus
from rebalancer.model.moves import Memory
from rebalancer.ports import Lease, LeaseRecord, LeaseUnavailable

_SILENT: Final = 5.0
"""Seconds without an answer after which the content of the Lease is unknown. By default it is read every 2 seconds."""

_log = structlog.get_logger("rebalancer.lease")


class Elector:
    """One candidate's part in the election.

    `load_memory` reads what the last leader saved. Leadership begins only when that could be read, because the memory
    of moves in flight keeps a new leader from repeating them. `find_remaining` reads which pods of its planned moves
    are as they were (`controller.takeover`).
    """

    def __init__(
        self,
        *,
        lease: Lease,
        election: Election,
        retry: float,
        clocks: Clocks,
        load_memory: Callable[[], Memory],
        tell: Callable[[LoopEvent], None],
        find_remaining: Callable[[Memory], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._lease = lease
        self._election = election
        self._retry = retry
        self._clocks = clocks
        self._load_memory = load_memory
        self._tell = tell
        self._find_remaining = find_remaining
        self._announced: LeaseRecord | None = None
        self._term = 0
        self._logged = LeaseStatus()
        self._has_read = False
        self._releases = True
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self.problem = ""
        """Why this process could not take or renew the lease the last time, or not lead with it; "" if it could."""
        self.obstacle = ""
        """What people have to change in the cluster before any process can hold the Lease, "" if nothing."""

    def start(self) -> None:
        """Begin to take part in the election."""
        self.thread.start()

    def leads(self) -> bool:
        """Return whether this process may act now, by the monotonic clock."""
        election, announced = self._election, self._announced
        known = announced is not None and _is_same_term(announced, election.seen)
        return known and election.leads(self._clocks.monotonic())

    def leads_in(self, term: int) -> bool:
        """Return whether this process may continue what it began in a term of its leadership (`Leading.term`).

        A leader in between has made and stored evictions that plans of an earlier term do not know.
        """
        return self.leads() and term == self._term

    def confirms(self, term: int) -> bool:
        """Return whether this process leads in a term and the Lease confirms it; raise if the Lease cannot be read.

        The loop's thread calls it. The elector's own state does not change.
        """
        announced, read = self._announced, self._lease.read()
        if announced is None or read is None or read.holder != self._election.identity:
            return False
        return _is_same_term(announced, read) and self.leads_in(term)

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last seen, "" for none."""
        seen = self._election.seen
        return seen.holder if seen is not None else ""

    def describe_lease(self) -> LeaseStatus:
        """Return who leads as far as this process knows, by its own clocks; called by any thread.

        If the Lease ran out before this process read it, no process leads, although the Lease may not be taken yet.
        """
        if not self._has_read:
            return LeaseStatus(error=self.problem or "the Lease has not been read yet")
        at = self._clocks.monotonic()
        status = self._describe(at)
        silent = at - (self._election.read_at or at)
        if silent < max(_SILENT, 2 * self._retry):
            return status
        return structs.replace(status, unread_since=self._clocks.now() - timedelta(seconds=silent))

    def _describe(self, at: float) -> LeaseStatus:
        election, problem = self._election, self.problem
        if election.seen is not None and election.seen.holder not in {"", election.identity}:
            return _describe_other(election, election.seen, at, self._clocks.now(), problem)
        since = free_since(election, at)
        if since is not None and (election.seen is not None or not problem):
            own = election.seen.holder if election.seen is not None else ""
            renewed = self._find_renewal(at) if own else None
            free = self._clocks.now() - timedelta(seconds=max(0.0, at - since))
            return LeaseStatus(last_holder=own, renewed=renewed, free_since=free, error=problem)
        if election.seen is None:
            return LeaseStatus(error=problem)
        holder, acquired = election.seen.holder, election.seen.acquired
        return LeaseStatus(holder=holder, renewed=self._find_renewal(at), since=acquired, error=problem)

    def _find_renewal(self, at: float) -> datetime | None:
        """Return when this process has renewed its own Lease last."""
        renewed_at = self._election.renewed_at
        return self._clocks.now() - timedelta(seconds=max(0.0, at - renewed_at)) if renewed_at is not None else None

    def stop(self, timeout: float, *, release: bool = True) -> None:
        """End, and with `release` hand the lease back, so that others need not wait for it to run out."""
        self._releases = release
        self._stopping.set()
        if self.thread.is_alive():
            self.thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self.take_part())
        self._release()

    def take_part(self) -> float:
        """Take or renew the lease, report a change of leadership, and return after how many seconds to do so again."""
        began, failed = self._clocks.monotonic(), True
        try:
            problem, obstacle_to_lead = self._attempt(), self._announce()
            self.problem = problem or obstacle_to_lead
            failed = bool(problem)
            self._log_holder()
        except Exception as error:  # noqa: BLE001  # the thread must not die: nobody else renews the lease
            _log.exception("lease not renewed")
            self.problem = str(error)
        # A request that failed late, after its timeout, is repeated at once, because the deadline approaches.
        spent = self._clocks.monotonic() - began if failed else 0.0
        wait = self._retry * random.uniform(1.0, 1.2) - spent  # noqa: S311  # jitter, not a secret
        return max(0.0, wait)

    def _log_holder(self) -> None:
        """Log once for each other holder that this process waits for it, and whether it leads."""
        lease, logged = self.describe_lease(), self._logged
        if (lease.holder, lease.last_holder) == (logged.holder, logged.last_holder):
            return
        self._logged = lease
        if lease.holder and not self._holds_lease():
            _log.info("another process leads", holder=lease.holder)
        elif lease.last_holder and lease.last_holder != logged.holder:
            _log.info("waiting for a Lease that was not handed back", holder=lease.last_holder)

    def _attempt(self) -> str:
        """Take or renew the lease; return the problem, "" if there is none."""
        began = self._clocks.monotonic()
        try:
            self._election = observe_lease(self._election, self._lease.read(), began)
            self._has_read = True
            record = next_record(self._election, began, self._clocks.now())
            if record is not None:
                written = self._lease.write(record)
                if written is not None:
                    self._election = record_renewal(self._election, written, began)
        except Exception as error:  # noqa: BLE001  # not to renew is the safe answer to any error, and the next try comes
            self.obstacle = str(error) if isinstance(error, LeaseUnavailable) else ""
            self._log_failure(error, began)
            return str(error)
        self.obstacle = ""
        return ""

    def _log_failure(self, error: Exception, at: float) -> None:
        """Warn if leadership is at stake; while another process leads, a failed read of its Lease does not matter."""
        if self._holds_lease():
            _log.warning("lease not renewed", error=str(error))
        elif self.obstacle or free_since(self._election, at) is not None:
            _log.warning("lease not taken", error=str(error))
        else:
            _log.info("lease not read, another process leads", error=str(error), holder=self.holder)

    def _announce(self) -> str:
        """Tell the loop when leadership has begun or ended; return the obstacle to leading."""
        leads = self._election.leads(self._clocks.monotonic()) and self._holds_lease()
        held = self._election.seen if leads else None
        # If telling fails, it is repeated; an end of leadership counts at once, by the election itself.
        if self._announced is not None and not _is_same_term(self._announced, held):
            _log.info("no longer leading", identity=self._election.identity)
            self._tell(Leading(leads=False))
            self._announced = None
        if held is None or self._announced is not None:
            return ""
        try:
            memory = self._load_memory()
            remaining = self._find_remaining(memory)
        except Exception as error:  # noqa: BLE001  # see above
            _log.warning("memory not read, not leading yet", error=str(error))
            return f"the memory of the last leader cannot be read: {error}"
        _log.info("leading", identity=self._election.identity)
        self._term += 1
        self._tell(Leading(leads=True, memory=memory, remaining=remaining, term=self._term))
        self._announced = held
        return ""

    def _holds_lease(self) -> bool:
        seen = self._election.seen
        return seen is not None and seen.holder == self._election.identity

    def _release(self) -> None:
        record = release_record(self._election, self._clocks.now()) if self._releases else None
        if record is None:
            return
        try:
            self._lease.write(record)
        except Exception as error:  # noqa: BLE001  # it runs out by itself
            _log.warning("lease not released", error=str(error))


def _describe_other(election: Election, seen: LeaseRecord, at: float, now: datetime, problem: str) -> LeaseStatus:
    """Say that another process leads, or, if its Lease has run out, that none does."""
    renewed = now - timedelta(seconds=renewed_ago(election, at, now))
    out = renewed + timedelta(seconds=patience(election))
    if now >= out:
        return LeaseStatus(last_holder=seen.holder, renewed=renewed, free_since=out, error=problem)
    return LeaseStatus(holder=seen.holder, renewed=renewed, since=seen.acquired, error=problem)


def _is_same_term(announced: LeaseRecord, held: LeaseRecord | None) -> bool:
    """Return whether no other process has held the lease since; a process that was stopped may find it free again."""
    if held is None:
        return False
    return (announced.acquired, announced.transitions) == (held.acquired, held.transitions)
