"""Stores the memory and the status, only when they have changed, and despite writes by others.

If anything waits for the memory, such as evictions, it is stored at once. Documents that differ from the stored ones
only in times wait for a quarter of a minute, because many events make many cycles, and each would be a write.

Another writer of the ConfigMap is either the next leader or a stranger; the Lease says which. First the version of the
ConfigMap is read, then the Lease, at the API server. If this process holds the Lease in the term of its documents, no
other process led before the version was read. So overwriting loses nothing that a leader has stored. A stranger's text
is not read. If another process holds the Lease, or the Lease cannot be read, nothing is written.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import structlog

from rebalancer.controller.state import Clocks, LoopState
from rebalancer.controller.status import status_documents
from rebalancer.ports import MEMORY_KEY, Cluster, Document, SaveAnswer

SAME_AGAIN: Final = 15.0
"""Seconds before documents that differ from the stored ones only in times are stored."""

MOST_ATTEMPTS: Final = 10
"""Most writes for one request to save, each after a conflict with another writer."""

_MOMENT: Final = re.compile(r'"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)"')

_log = structlog.get_logger("rebalancer")


class _Stored(NamedTuple):
    """The last stored documents."""

    term: int
    """The term of leadership."""
    shape: tuple[str, ...]
    """The documents without their times."""
    at: float
    """When they were stored."""


class Saver:
    """Stores a process's documents; called by the loop's thread.

    `holds_lease` reads at the API server whether this process holds the Lease in a term of its leadership. `identity`
    and `policy_source` are the names of the process and of its policy.
    """

    def __init__(
        self,
        cluster: Cluster,
        clocks: Clocks,
        holds_lease: Callable[[int], bool],
        *,
        identity: str,
        policy_source: str,
    ) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._holds_lease = holds_lease
        self._identity = identity
        self._policy_source = policy_source
        self._stored: _Stored | None = None
        self._contested: int | None = None
        """The term in which another writer was noticed, until the Lease was read."""

    def save(self, state: LoopState) -> SaveAnswer | None:
        """Store memory and status; None if nothing has changed and nothing waits for it."""
        documents = status_documents(state, self._identity, self._policy_source, self._clocks.now())
        term = state.leadership.term
        shape, now = _find_shape(state, documents), self._clocks.monotonic()
        stored = self._stored
        is_awaited = state.queue.evictions or state.capacity.to_create or state.leadership.stopping
        if not is_awaited and stored is not None and stored[:2] == (term, shape) and now - stored.at < SAME_AGAIN:
            return None
        self._stored = None  # without an answer, the stored content is unknown
        answer = self._write(documents, term)
        if not answer.problem:
            self._stored = _Stored(term, shape, now)
        return answer

    def _write(self, documents: tuple[Document, ...], term: int) -> SaveAnswer:
        """Write, and retry after another writer's change while this process holds the Lease."""
        answer = SaveAnswer("somebody else has written into the status ConfigMap, and the Lease may be theirs")
        for _ in range(MOST_ATTEMPTS):
            if self._contested == term and not self._may_overwrite(term):
                return answer
            self._contested = None
            answer = self._cluster.save(documents)
            if not answer.conflict:
                return answer
            self._contested = term
        return answer

    def _may_overwrite(self, term: int) -> bool:
        """Read the version of the ConfigMap, then the Lease; return whether no other process has led until then."""
        try:
            self._cluster.load(MEMORY_KEY)
            holds = self._holds_lease(term)
        except Exception as error:  # noqa: BLE001  # nothing is overwritten, and the next request to save reads again
            _log.warning("status not read", error=str(error))
            return False
        if holds:
            _log.warning("status overwritten", why="somebody else has written it, and this process holds the Lease")
        return holds


def _find_shape(state: LoopState, documents: tuple[Document, ...]) -> tuple[str, ...]:
    """Return the documents without their times, and the memory before compression."""
    memory = msgspec.json.encode(state.memory).decode()
    texts = (memory, *(document.text for document in documents if document.key != MEMORY_KEY))
    return tuple(_MOMENT.sub("", text) for text in texts)
