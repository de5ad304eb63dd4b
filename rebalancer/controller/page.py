"""The status page of a process: its server, and its content from the loop's state."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from operator import is_
from typing import NamedTuple

import structlog
from msgspec import structs

from rebalancer.adapters.web import REFRESH_SECONDS, WebServer, page_routes
from rebalancer.assessment.findings import Finding
from rebalancer.controller.account import account_inputs, find_account
from rebalancer.controller.follower import Followed, Follower
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import LoopState
from rebalancer.controller.status import status_document
from rebalancer.documents.history import HistoryDocument, TrendDocument
from rebalancer.documents.overview import EVERYTHING, Selection
from rebalancer.documents.page import (
    FollowedStatus,
    PageDocument,
    PageSource,
    find_commands,
    page_document,
)
from rebalancer.documents.status import LeaseStatus, StatusDocument, pause_status
from rebalancer.locations import OUTSIDE_NAMESPACE, Address
from rebalancer.model.moves import NO_MEMORY
from rebalancer.reporting.acting import describe_controller

_log = structlog.get_logger("rebalancer")


class _Known(NamedTuple):
    """The content of the page, and its inputs."""

    made_of: Sequence[object]
    findings: Sequence[Finding]
    source: PageSource


class StatusPage:
    """Serves the newest state of the loop on an address; CannotListen if that is not possible.

    `now` is the clock of the state. `refresh` is the number of seconds after which a browser renews the page.

    `read_lease` says who leads, None if no Lease decides that. `read_past` returns history and trend, None if there are
    none. `follower` says what to show while another process leads, None if none can. `namespace` is the controller's
    own.

    The content of a cycle is made for its first reader, so the loop spends no time on it.
    """

    def __init__(
        self,
        address: Address,
        identity: Identity,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        refresh: int = REFRESH_SECONDS,
        read_lease: Callable[[], LeaseStatus | None] = lambda: None,
        read_past: Callable[[], tuple[HistoryDocument, TrendDocument] | None] = lambda: None,
        follower: Follower | None = None,
        namespace: str = OUTSIDE_NAMESPACE,
    ) -> None:
        self._identity = identity
        self._namespace = namespace
        self._now = now
        self._read_lease = read_lease
        self._read_past = read_past
        self._follower = follower
        local = bool(address.host) and ip_address(address.host).is_loopback
        routes = page_routes(self.read, local=local, now=now, refresh=refresh)
        self._server = WebServer(address.host, address.port, routes)
        self._newest: tuple[LoopState, Sequence[Finding]] | None = None
        self._making = threading.Lock()
        self._source: _Known | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        return self._server.address

    def start(self) -> None:
        self._server.start()
        host, port = self.address
        _log.info("serving the status page", host=host, port=port)

    def stop(self) -> None:
        self._server.stop()

    def show(self, state: LoopState, findings: Sequence[Finding]) -> None:
        """Take a new state, with the findings of its cycle; from the loop's thread, never blocks."""
        self._newest = state, findings
        if state.cycle is not None and state.leadership.leads and self._follower is not None:
            self._follower.forget()

    def read(self, selection: Selection = EVERYTHING, *, with_report: bool = False) -> PageDocument | None:
        """Return the content for a selection, None before the first state."""
        if self._newest is None:
            return None
        state, findings = self._newest
        lease, name = self._read_lease(), self._identity.name
        # The loop hears of a lost Lease only after the request that failed.
        leads = state.leadership.leads and (lease is None or lease.holder == name)
        followed = None if leads else self._follow(state)
        if followed is not None:
            status, source = followed.status, followed.source
        else:
            leader = name if leads or lease is None else lease.holder
            # Now the new leader reports what this process saw while it led.
            known = (
                state if leads or lease is None or not lease.holder else replace(state, cycle=None, memory=NO_MEMORY)
            )
            status = status_document(known, leader, self._identity.policy_source, self._now() if leads else None)
            source = self._find_source(state, findings) if leads else None
        status = structs.replace(status, lease=lease)
        if lease is not None and not lease.holder:  # the stored pause is that of the last cycle
            pause = state.in_force.pause
            stands = pause is not None and pause.holds(self._now())
            status = structs.replace(status, paused=pause_status(pause if stands else None))
        document = page_document(
            acting=self._describe(status, lease, leads=leads, follows=followed is not None),
            leads=leads,
            status=status,
            source=source,
            past=self._read_past() if leads else None,
            commands=find_commands(self._namespace) if lease is not None and not lease.holder else (),
            selection=selection,
            with_report=with_report,
        )
        return _mark(document, followed.follows) if followed is not None else document

    def _follow(self, state: LoopState) -> Followed | None:
        return self._follower.look(state.in_force) if self._follower is not None else None

    def _describe(self, status: StatusDocument, lease: LeaseStatus | None, *, leads: bool, follows: bool) -> str:
        if leads and status.last_cycle is None:
            return "the first cycle has not ended yet"
        if leads or (lease is not None and not lease.holder):
            return describe_controller(status, self._now())
        if lease is not None and lease.holder == self._identity.name:
            why = f": {lease.error}" if lease.error else ""
            return f"this process holds the Lease and does not lead yet{why}"
        if follows:
            return describe_controller(status, self._now())
        led = f"{lease.holder} does, and this process" if lease is not None else "it"
        return f"this process does not lead: {led} is ready to take over"

    def _find_source(self, state: LoopState, findings: Sequence[Finding]) -> PageSource | None:
        """Return the last cycle's content for the page, made at the first request after the cycle or after a move."""
        cycle = state.cycle
        if cycle is None:
            return None
        made_of = account_inputs(state)
        with self._making:
            known = self._source
            if known is None or not all(map(is_, known.made_of, made_of)) or known.findings != findings:
                source = PageSource(
                    evaluation=cycle.evaluation,
                    account=find_account(state, cycle),
                    overview=cycle.overview,
                    memory=state.memory,
                    findings=findings,
                    relaxations=cycle.relaxations,
                )
                self._source = known = _Known(made_of, findings, source)
            return known.source


def _mark(document: PageDocument, follows: FollowedStatus) -> PageDocument:
    """Return the page of a process that follows, with the leader's stored time of the next eviction."""
    document = structs.replace(document, follows=follows)
    overview, stored = document.overview, document.status.figures
    if overview is None:
        return document
    figures = structs.replace(
        overview.figures,
        next_at=stored.next_at if stored is not None else None,
        may_go_sooner=stored is not None and stored.may_go_sooner,
    )
    return structs.replace(document, overview=structs.replace(overview, figures=figures))
