"""The lease's thread: tries to take or renew it every few seconds and tells the loop who leads."""

import random
import threading
import time
from collections.abc import Callable
from datetime import datetime

import structlog

from rebalancer.controller.election import Election, next_record, observe_lease, record_renewal, release_record
from rebalancer.controller.state import Leading, LoopEvent
from rebalancer.model.moves import Memory
from rebalancer.ports import Lease

_log = structlog.get_logger("rebalancer.lease")


class Elector:
    """Holds one candidate's part in the election.

    `remembered` fetches what the last leader left; leadership begins only when that could be read, since the memory of
    moves in flight keeps a new leader from repeating them.
    """

    def __init__(
        self,
        *,
        lease: Lease,
        election: Election,
        retry: float,
        clock: Callable[[], datetime],
        remembered: Callable[[], Memory],
        tell: Callable[[LoopEvent], None],
    ) -> None:
        self._lease = lease
        self._election = election
        self._retry = retry
        self._clock = clock
        self._remembered = remembered
        self._tell = tell
        self._told = False
        self._releases = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self.problem = ""
        """Why the lease could not be read or written the last time, "" if it could."""

    def start(self) -> None:
        """Begin to stand for election."""
        self._thread.start()

    def leads(self) -> bool:
        """Say, by the monotonic clock and now, whether this process may act."""
        return self._told and self._election.leads(time.monotonic())

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen, "" for nobody."""
        seen = self._election.seen
        return seen.holder if seen is not None else ""

    def stop(self, timeout: float, *, release: bool = True) -> None:
        """End, and hand the lease back, unless told not to, so that others need not wait for it to run out."""
        self._releases = release
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._attempt()
            self._announce()
            self._stopping.wait(self._retry * random.uniform(1.0, 1.2))  # noqa: S311  # jitter, not a secret
        self._release()

    def _attempt(self) -> None:
        began = time.monotonic()
        try:
            self._election = observe_lease(self._election, self._lease.read(), began)
            wanted = next_record(self._election, began, self._clock())
            if wanted is not None:
                written = self._lease.write(wanted)
                if written is not None:
                    self._election = record_renewal(self._election, written, began)
        except Exception as error:  # noqa: BLE001  # whatever it is, not to renew is the safe answer, and the next try comes
            self.problem = str(error)
            _log.warning("lease not renewed", error=self.problem)
        else:
            self.problem = ""

    def _announce(self) -> None:
        leads = self._election.leads(time.monotonic()) and self._holds()
        if leads == self._told:
            return
        memory = None
        if leads:
            try:
                memory = self._remembered()
            except Exception as error:  # noqa: BLE001  # see above
                _log.warning("memory not read, not leading yet", error=str(error))
                return
        self._told = leads
        _log.info("leading" if leads else "no longer leading", identity=self._election.identity)
        self._tell(Leading(leads=leads, memory=memory) if memory is not None else Leading(leads=leads))

    def _holds(self) -> bool:
        seen = self._election.seen
        return seen is not None and seen.holder == self._election.identity

    def _release(self) -> None:
        record = release_record(self._election, self._clock()) if self._releases else None
        if record is None:
            return
        try:
            self._lease.write(record)
        except Exception as error:  # noqa: BLE001  # it runs out by itself
            _log.warning("lease not handed back", error=str(error))
