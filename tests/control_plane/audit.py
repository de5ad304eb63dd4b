"""The API server's audit log: the reliable record of every requested eviction and its response."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.control_plane.api import Api, wait_until
from tests.control_plane.configuration import MARK_PATH

_MARKS: Final = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request to the API server and its answer."""

    id: str
    user: str
    agent: str
    verb: str
    group: str
    resource: str
    """The plural: `pods`. Empty for paths that are no resource, like `/version`."""
    subresource: str
    """`eviction`, `status`, `binding`, … or empty."""
    namespace: str
    name: str
    """Empty where the server chose it, and for collections."""
    path: str
    code: int
    reason: str
    """The reason of a refusal in the answer's status: `TooManyRequests`, `Forbidden`, … or empty."""
    message: str
    received: datetime
    answered: datetime
    body: dict[str, Any] | None = field(default=None, repr=False)
    """The request's document: for evictions, bindings and patches of pods."""

    @property
    def dry_run(self) -> bool:
        """Whether the request changed nothing by its own wish."""
        options = (self.body or {}).get("deleteOptions") or {}
        return "dryRun=All" in self.path or "All" in options.get("dryRun", ())

    @classmethod
    def parse(cls, event: dict[str, Any]) -> Request:
        """Read an event of the audit log."""
        target = event.get("objectRef", {})
        status = event.get("responseStatus", {})
        return cls(
            id=event["auditID"],
            user=event["user"].get("username", ""),
            agent=event.get("userAgent", ""),
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            path=event["requestURI"],
            code=status.get("code", 0),
            reason=status.get("reason", ""),
            message=status.get("message", ""),
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            answered=datetime.fromisoformat(event["stageTimestamp"]),
            body=event.get("requestObject"),
        )


@dataclass(frozen=True)
class Mark:
    """A place in the log: requests that were answered before are not read again."""

    offset: int = 0


class AuditLog:
    """Reads the log of one API server, from its start or from a mark on."""

    def __init__(self, path: Path, *, api: Api, start: Mark | None = None) -> None:
        """Read nothing before `start`. The client only leaves marks in the log."""
        self._path = path
        self._api = api
        self._start = start or Mark()

    def mark(self) -> Mark:
        """Return the place of now: everything answered until here lies before it."""
        self._settle()
        return Mark(self._path.stat().st_size)

    def requests(
        self,
        *,
        since: Mark | None = None,
        user: str | None = None,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        namespace: str | None = None,
        where: Callable[[Request], bool] = lambda _: True,
    ) -> list[Request]:
        """Return the requests answered until now, in the order of their answers; a watch when it began."""
        self._settle()
        verbs = {verb} if isinstance(verb, str) else verb if verb is None else set(verb)
        wanted = {"user": user, "resource": resource, "subresource": subresource, "namespace": namespace}
        fixed = {name: value for name, value in wanted.items() if value is not None}
        return [
            request
            for request in self._read(since or self._start)
            if all(getattr(request, name) == value for name, value in fixed.items())
            and (verbs is None or request.verb in verbs)
            and where(request)
        ]

    def evictions(
        self, user: str | None = None, *, since: Mark | None = None, code: int | None = None, dry_run: bool = False
    ) -> list[Request]:
        """Return the requested evictions, granted or not; those of a code only, if one is given."""
        return self.requests(
            since=since,
            user=user,
            verb="create",
            resource="pods",
            subresource="eviction",
            where=lambda request: request.dry_run == dry_run and code in {None, request.code},
        )

    def _read(self, since: Mark) -> Iterable[Request]:
        seen: set[str] = set()
        with self._path.open("rb") as log:
            log.seek(since.offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                request = Request.parse(json.loads(line))
                # A watch is written when it begins and again when it ends.
                if request.id not in seen and not request.path.startswith(f"{MARK_PATH}?mark="):
                    seen.add(request.id)
                    yield request

    def _settle(self) -> None:
        """Wait until the log has what was answered before: a request's line is written just after its answer.

        A request of our own is made, and everything before it is old news when that shows.
        """
        mark = f"mark={next(_MARKS)}-end"
        self._api.get(f"{MARK_PATH}?{mark}")
        offset = max(0, self._path.stat().st_size - 65536)
        wait_until(lambda: self._has(mark, offset), what="the mark in the audit log", interval=0.005)

    def _has(self, mark: str, offset: int) -> bool:
        with self._path.open("rb") as log:
            log.seek(offset)
            return mark.encode() in log.read()
