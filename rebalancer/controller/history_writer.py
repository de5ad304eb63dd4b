"""Writes the outbox into the ConfigMaps of the history, in its own thread, so that no decision waits for it.

An entry is written once the memory that holds it is saved, so that a new leader knows it, too. The leader first reads
what is stored, and writes what is missing. Each write carries the version that was read, so that a leader deposed
without knowing it overwrites nothing. After any error, everything is read again before the next write.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from rebalancer.controller.polling import PollingThread
from rebalancer.controller.state import HistoryStored, LoopEvent
from rebalancer.documents.history import (
    UNKNOWN_TIME,
    AsOf,
    HistoryDocument,
    TrendDocument,
    history_document,
    trend_document,
)
from rebalancer.history.contents import NO_CONTENTS, Contents, find_writes
from rebalancer.history.outbox import find_missing
from rebalancer.history.ring import read_ring
from rebalancer.history.trend import extend_trend, parse_trend
from rebalancer.model.history import Entry, EntryKind
from rebalancer.ports import HistoryError, HistoryStore

WRITE_SECONDS: Final = 10.0
"""Seconds between two writes, so the history may be this old, and older while the API server does not answer."""

_SKIPPED: Final = 5
"""Polls to skip after a failed poll."""

MOST_SHOWN: Final = 200
"""The process keeps this many of the newest entries for the status page."""

_log = structlog.get_logger("rebalancer.history")


class HistoryWriter(PollingThread):
    """Writes saved entries while this process `leads`; tells the loop what the ConfigMaps have."""

    def __init__(self, store: HistoryStore, *, leads: Callable[[], bool], tell: Callable[[LoopEvent], None]) -> None:
        self._store = store
        self._leads = leads
        self._tell = tell
        self._outbox: tuple[Entry, ...] = ()
        self._as_of = UNKNOWN_TIME
        self._contents: Contents | None = None
        """The contents as read and written since, None while unknown."""

        self._shown: tuple[Contents, tuple[Entry, ...]] = NO_CONTENTS, ()
        """The last known contents, and their entries."""

        self._problem = ""
        self._skipped = 0
        """How many polls to skip before the next try."""

        self._dropped = 0
        self._writing = threading.Lock()
        """Held for a write, because the end of the process writes from another thread."""

        super().__init__("history", WRITE_SECONDS, self.poll)

    def take(self, outbox: tuple[Entry, ...], as_of: AsOf = UNKNOWN_TIME) -> None:
        """Take the outbox of a saved memory, and its time; from the loop's thread, never blocks."""
        self._outbox, self._as_of = outbox, as_of

    def poll(self) -> None:
        """Write missing entries if this process leads; a failure is logged once, and retried in a minute."""
        with self._writing:
            self._skipped -= 1
            if self._skipped >= 0 and not self.stopping.is_set():
                return
            try:
                self._write()
            except HistoryError as error:
                self._contents, self._skipped = None, _SKIPPED
                if str(error) != self._problem:
                    consequence = "entries wait in the memory; decisions go on"
                    _log.warning("history not stored", error=str(error), consequence=consequence)
                self._problem = str(error)

    def finish(self, seconds: float) -> None:
        """Write the entries of the last saved memory, and end; wait at most `seconds` for that."""
        self.stop()
        last = threading.Thread(target=self.poll, name="history-end", daemon=True)
        last.start()
        last.join(max(0.0, seconds))

    def _write(self) -> None:
        if not self._leads():
            self._contents = None  # another leader writes
            return
        outbox = self._outbox
        self._warn_of_dropped(outbox)
        contents = self._contents
        if contents is None:
            contents = self._store.read()
            self._keep(contents)
        for write in find_writes(contents, outbox):
            if not self._leads():
                return
            self._store.write(write)
            contents = contents.after(write)
            self._keep(contents)
        self._problem = ""
        if outbox:
            self._tell(HistoryStored(stored=contents.stored))

    def _keep(self, contents: Contents) -> None:
        self._contents = contents
        self._shown = contents, read_ring(contents.segments)

    def _warn_of_dropped(self, outbox: tuple[Entry, ...]) -> None:
        dropped = sum(entry.number for entry in outbox if entry.kind == EntryKind.DROPPED)
        if dropped > self._dropped:
            _log.warning("history entries dropped, the oldest that were not stored", entries=dropped)
        self._dropped = dropped

    def read_past(self) -> tuple[HistoryDocument, TrendDocument]:
        """Return history and trend for the page, without a request."""
        return self.read_history(), self.read_trend()

    def read_history(self) -> HistoryDocument:
        """Return the newest entries, including those that are saved but not yet written. Sends no request."""
        contents, entries = self._shown
        missing = [one for one in find_missing(self._outbox, contents.stored) if one.kind != EntryKind.SAMPLE]
        every = (*entries, *missing)
        return history_document(every[-MOST_SHOWN:], total=len(every), as_of=self._as_of)

    def read_trend(self) -> TrendDocument:
        """Return the trend, including samples that are saved but not yet written. Sends no request."""
        contents, _ = self._shown
        return trend_document(extend_trend(parse_trend(contents.trend), self._outbox), self._as_of)
