"""The status page of a process: its server, and what it shows of the loop's state."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address

import structlog
from msgspec import structs

from rebalancer.adapters.web import REFRESH_SECONDS, WebServer, page_routes
from rebalancer.assessment.findings import Finding
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import LoopState
from rebalancer.controller.status import status_document
from rebalancer.locations import Address
from rebalancer.reporting.acting import describe_controller
from rebalancer.reporting.documents.page import PageDocument, page_document
from rebalancer.reporting.documents.report import ReportDocument, every_workload, report_document
from rebalancer.reporting.documents.status import LeaseStatus, StatusDocument

_log = structlog.get_logger("rebalancer")


class StatusPage:
    """Serves the newest state of the loop on an address; CannotListen where that is not possible.

    `now` is the clock of the state, `refresh` after how many seconds a browser renews the page, `read_lease` says who
    leads, None where no Lease decides that.

    The report of a cycle is made for the first who asks: of 5,000 workloads it takes a good part of a second, which the
    loop is not to spend where nobody looks.
    """

    def __init__(
        self,
        address: Address,
        identity: Identity,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        refresh: int = REFRESH_SECONDS,
        read_lease: Callable[[], LeaseStatus | None] = lambda: None,
    ) -> None:
        self._identity = identity
        self._now = now
        self._read_lease = read_lease
        local = bool(address.host) and ip_address(address.host).is_loopback
        routes = page_routes(self.read, local=local, now=now, refresh=refresh)
        self._server = WebServer(address.host, address.port, routes)
        self._newest: tuple[LoopState, Sequence[Finding]] | None = None
        self._making = threading.Lock()
        self._report: tuple[Cycle, ReportDocument] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        return self._server.address

    def start(self) -> None:
        """Begin to listen."""
        self._server.start()
        host, port = self.address
        _log.info("serving the status page", host=host, port=port)

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop()

    def show(self, state: LoopState, findings: Sequence[Finding]) -> None:
        """Take a new state, with the findings of its cycle; from the loop's thread, never blocks."""
        self._newest = state, findings

    def read(self) -> PageDocument | None:
        """Return what there is to show, None before the first state."""
        if self._newest is None:
            return None
        state, findings = self._newest
        lease, name = self._read_lease(), self._identity.name
        # The loop hears of a lost Lease only after the request that failed.
        leads = state.leadership.leads and (lease is None or lease.holder == name)
        leader = name if leads or lease is None else lease.holder
        status = structs.replace(status_document(state, leader, self._identity.policy_source), lease=lease)
        cycle = state.cycle if leads else None
        return page_document(
            acting=self._describe(status, lease, leads=leads),
            leads=leads,
            status=status,
            plan=cycle.plan if cycle is not None else None,
            admission=cycle.admission if cycle is not None else None,
            report=self._make_report(cycle, findings) if cycle is not None else None,
        )

    def _describe(self, status: StatusDocument, lease: LeaseStatus | None, *, leads: bool) -> str:
        if leads and status.last_cycle is None:
            return "the first cycle has not ended yet"
        if leads or (lease is not None and not lease.holder):
            return describe_controller(status, self._now())
        if lease is not None and lease.holder == self._identity.name:
            return f"this process holds the Lease and does not lead yet: {lease.error}"
        led = f"{lease.holder} does, and this process" if lease is not None else "it"
        return f"this process does not lead: {led} is ready to take over"

    def _make_report(self, cycle: Cycle, findings: Sequence[Finding]) -> ReportDocument:
        with self._making:
            if self._report is None or self._report[0] is not cycle:
                report = report_document(
                    cycle.assessment, cycle.plan, cycle.causes, findings, every_workload, None, cycle.relaxations
                )
                self._report = cycle, report
            return self._report[1]
