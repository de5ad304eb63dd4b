"""The Page document: everything that the status page shows, for scripts and for the page itself."""

from typing import Final

from rebalancer.admission.admit import Admission
from rebalancer.planning.plan import Plan
from rebalancer.reporting.documents.document import API_VERSION, CamelCaseStruct, Text
from rebalancer.reporting.documents.plan import PlannedEviction, Totals, plan_totals, planned_eviction
from rebalancer.reporting.documents.report import ReportDocument
from rebalancer.reporting.documents.status import StatusDocument

_MOST_EVICTIONS: Final = 50
"""Evictions of this cycle that are listed; `perCycle` allows no more by default."""


class PageDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """What the status page shows.

    `acting` says in one line what the controller does. `leads`: the process that serves the page is the leader; any
    other has no report, and its plan is empty. `evictions` are the first fifty that this cycle lets go.
    """

    api_version: str = API_VERSION
    kind: str = "Page"
    acting: Text
    leads: bool
    status: StatusDocument
    totals: Totals | None
    evictions: tuple[PlannedEviction, ...]
    report: ReportDocument | None


def page_document(
    *,
    acting: str,
    leads: bool,
    status: StatusDocument,
    plan: Plan | None,
    admission: Admission | None,
    report: ReportDocument | None,
) -> PageDocument:
    """Put together what the page shows; plan, admission and report are None before the first cycle."""
    admitted = admission.evictions[:_MOST_EVICTIONS] if admission is not None else ()
    return PageDocument(
        acting=acting,
        leads=leads,
        status=status,
        totals=plan_totals(plan) if plan is not None else None,
        evictions=tuple(planned_eviction(eviction) for eviction in admitted),
        report=report,
    )
