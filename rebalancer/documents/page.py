"""The Page document: everything that the status page shows, for scripts and for the page itself."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.account.account import Account
from rebalancer.account.happened import find_since
from rebalancer.assessment.controllers import find_reference
from rebalancer.assessment.findings import Finding
from rebalancer.documents.cluster_map import WHOLE, MapSize, map_document
from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Text
from rebalancer.documents.folded_zones import zones_document
from rebalancer.documents.history import HistoryDocument, HistoryEntry, TrendDocument, TrendSample
from rebalancer.documents.map import MapDocument
from rebalancer.documents.nodes import NodesDocument, nodes_document
from rebalancer.documents.overview import (
    EVERYTHING,
    VIOLATED,
    VIOLATIONS,
    Overview,
    OverviewDocument,
    RowState,
    Selection,
)
from rebalancer.documents.plan import (
    PlannedEviction,
    Totals,
    WaitingEviction,
    plan_totals,
    planned_eviction,
    waiting_evictions,
)
from rebalancer.documents.report import (
    ReportDocument,
    ReportedFinding,
    RuleReporter,
    report_document,
    reported_finding,
)
from rebalancer.documents.state_reasons import StateReasons
from rebalancer.documents.status import StatusDocument
from rebalancer.documents.zones import ZonesDocument
from rebalancer.engine import Evaluation
from rebalancer.model.history import EntryKind
from rebalancer.model.moves import Memory, Reference
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations

_MOST: Final = 50
"""Up to this many evictions, waits and findings are listed; by default `perCycle` allows no more evictions."""

_KEPT: Final = 8
"""Up to this many selections of a cycle are cached: each is as large as a page."""

_MARKS: Final = frozenset(
    {
        EntryKind.MOVED,
        EntryKind.SURGED,
        EntryKind.PAUSED,
        EntryKind.RESUMED,
        EntryKind.ZONE_LOST,
        EntryKind.ZONE_RETURNED,
    }
)
"""Occurrences that are marked in the trend, under any selection."""

_GOING: Final = frozenset({"", VIOLATED, RowState.MOVING, RowState.WAITING})
"""The selectable states whose rows have evictions to list."""

_MAP: Final = WHOLE._replace(lanes=8)
"""With more lanes, the map is not readable at a glance and the page exceeds 100 kB."""

_MAP_BELOW_ZONES: Final = _MAP._replace(lanes=6)
"""Fewer lanes if the zones take a part of the 100 kB."""


class FollowedStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """The sources of a page whose process does not lead.

    `status` is the status that `leader` has stored, as of `as_of`. Everything else was evaluated by this process, with
    the moves that the leader has stored, at `evaluated_at`. Without an evaluation, `evaluated_at` is null and `problem`
    says why.
    """

    leader: Text
    as_of: datetime | None
    evaluated_at: datetime | None
    problem: str = ""


class PageDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """What the status page shows.

    `acting` says in one line what the controller does. `leads`: the process that serves the page is the leader. Any
    other process has `follows`: it shows the leader's status and its own evaluation, without `history`, `trend` and
    `marks`. While no process leads, `commands` are the next commands to try.

    `evictions` are the first fifty that this cycle admits; in a process that does not lead, those with no known
    obstacle. `waiting` are the first fifty decided evictions that wait. `zones` is null in a cluster of at most 60
    nodes, because the map lists all of them.

    `overview`, `map`, `zones`, `nodes`, `evictions`, `waiting` and `findings` show the selection. So does `history`,
    the oldest first, as far as the process stores it. `report`, `trend` and its `marks` show everything. History and
    trend are as of `history_as_of`, when they were last stored; null if not known.
    """

    api_version: str = API_VERSION
    kind: str = "Page"
    acting: Text
    leads: bool
    follows: FollowedStatus | None = None
    commands: tuple[Text, ...]
    status: StatusDocument
    totals: Totals | None
    overview: OverviewDocument | None
    map: MapDocument | None
    zones: ZonesDocument | None
    evictions: tuple[PlannedEviction, ...]
    waiting: tuple[WaitingEviction, ...]
    nodes: NodesDocument | None
    history_as_of: datetime | None = None
    history: tuple[HistoryEntry, ...]
    trend: tuple[TrendSample, ...]
    marks: tuple[HistoryEntry, ...]
    findings: tuple[ReportedFinding, ...]
    report: ReportDocument | None


class _Selected(NamedTuple):
    overview: OverviewDocument
    map: MapDocument
    zones: ZonesDocument | None


class PageSource:
    """The content of the page for one cycle.

    It is made when a cycle has ended, and computes nothing before the page is requested.
    """

    def __init__(
        self,
        *,
        evaluation: Evaluation,
        account: Account,
        overview: Overview,
        memory: Memory,
        findings: Sequence[Finding],
        relaxations: Relaxations = NO_RELAXATIONS,
    ) -> None:
        self._evaluation = evaluation
        self._account = account
        self._findings = findings
        self._relaxations = relaxations
        states = StateReasons(account.plan, relaxations)
        self._rules = RuleReporter(states, evaluation.causes, findings, find_since(memory))
        self._overview = overview
        self._memory = memory
        self._selected: dict[Selection, _Selected] = {}

    def select(self, selection: Selection) -> _Selected:
        """Return the rows, the map, and the zones if the map does not list all nodes.

        Browsers ask again every 2 to 30 s for unchanged data: with 5,000 workloads, a cached answer takes half as long.
        An `lru_cache` of a method would refer to this object. Then only a full garbage collection, which the controller
        seldom makes, would free it and its cycle.
        """
        selected = self._selected.get(selection)
        if selected is None:
            selected = self._select(selection)
            if len(self._selected) >= _KEPT:
                self._selected.clear()
            self._selected[selection] = selected
        return selected

    def _select(self, selection: Selection) -> _Selected:
        view = self._evaluation.view
        pods = view.pods_on(selection.node) if selection.node in view.nodes.by_name else ()
        on_node = frozenset(find_reference(pod, view) for pod in pods)
        shown = self._overview.select(selection, self._account, self._rules, on_node)
        if len(view.nodes.by_name) <= _MAP.nodes:
            return _Selected(shown, self._draw_map(selection, shown, _MAP), None)
        drawn = self._draw_map(selection, shown, _MAP_BELOW_ZONES)
        return _Selected(shown, drawn, self._count_zones(selection, on_node))

    def _count_zones(self, selection: Selection, on_node: frozenset[Reference]) -> ZonesDocument:
        is_all = selection in {EVERYTHING, VIOLATIONS}
        chosen = None if is_all else self._overview.workloads(selection, self._account, on_node)
        return zones_document(self._evaluation, self._memory, self._account.fates, chosen)

    def _draw_map(self, selection: Selection, shown: OverviewDocument, size: MapSize) -> MapDocument:
        """Return the map of the violated workloads or those nearest to a bound, or of the shown rows of a selection."""
        chosen, rows = None, shown.rows
        if selection in {EVERYTHING, VIOLATIONS}:
            rows = shown.nearest if not shown.figures.moving else ()
        if rows or selection not in {EVERYTHING, VIOLATIONS}:
            chosen = [Reference(row.namespace, one.kind, one.name) for row in rows for one in row.workloads]
        fates, overview = self._account.fates, self._overview
        return map_document(self._evaluation, self._memory, fates=fates, chosen=chosen, size=size, overview=overview)

    @property
    def totals(self) -> Totals:
        """The sums of the plan, updated by the fates of its evictions: evictions under way count as made now."""
        return plan_totals(structs.replace(self._account.plan, fates=self._account.fates.as_decided()))

    def evictions(self, selection: Selection) -> tuple[PlannedEviction, ...]:
        """Return the first selected evictions that this cycle admits."""
        going = self._account.fates.let_go if not selection.reason and selection.state in _GOING else ()
        chosen = (
            one
            for one in going
            if selection.concerns(one.pod.namespace, one.pod.name, one.workload)
            and selection.node in {"", one.pod.node}
        )
        return tuple(map(planned_eviction, islice(chosen, _MOST)))

    def waiting(self, selection: Selection) -> tuple[WaitingEviction, ...]:
        """Return the first selected evictions that wait."""
        account = self._account
        waiting: Iterable[WaitingEviction] = ()
        if selection.state in _GOING:
            waiting = waiting_evictions(account.plan, account.fates, account.undecided, account.moves)
        chosen = (
            one
            for one in waiting
            if selection.concerns(one.namespace, one.pod, one.workload)
            and selection.reason in {"", one.for_}
            and selection.node in {"", one.node}
        )
        return tuple(islice(chosen, _MOST))

    def nodes(self, selection: Selection) -> NodesDocument:
        """Return the nodes that match the selection."""
        return nodes_document(self._evaluation, self._memory, selection.search, selection.node)

    def findings(self, selection: Selection) -> tuple[ReportedFinding, ...]:
        """Return the first selected findings."""
        wanted, namespace = selection.search.lower(), f" {selection.namespace}/" if selection.namespace else ""
        chosen = (one for one in self._findings if wanted in one.object.lower() and namespace in f" {one.object}")
        return tuple(map(reported_finding, islice(chosen, _MOST)))

    @cached_property
    def report(self) -> ReportDocument:
        """The report of everything: for 5,000 workloads it takes a good part of a second."""
        return report_document(
            self._evaluation.assessment,
            self._account.plan,
            self._evaluation.causes,
            self._findings,
            relaxations=self._relaxations,
            memory=self._memory,
        )


def page_document(
    *,
    acting: str,
    leads: bool,
    status: StatusDocument,
    source: PageSource | None,
    past: tuple[HistoryDocument, TrendDocument] | None = None,
    commands: tuple[str, ...] = (),
    selection: Selection = EVERYTHING,
    with_report: bool = True,
) -> PageDocument:
    """Put together the page of a selection; `source` is None if nothing was evaluated."""
    if source is None:
        return _page_without_plan(acting=acting, leads=leads, status=status, commands=commands)
    selected = source.select(selection)
    return PageDocument(
        acting=acting,
        leads=leads,
        commands=commands,
        status=status,
        totals=source.totals,
        overview=selected.overview,
        map=selected.map,
        zones=selected.zones,
        evictions=source.evictions(selection),
        waiting=source.waiting(selection),
        nodes=source.nodes(selection),
        history_as_of=past[0].as_of if past is not None else None,
        history=tuple(_select(past[0].entries, selection)) if past is not None else (),
        trend=past[1].samples if past is not None else (),
        marks=tuple(one for one in past[0].entries if one.kind in _MARKS) if past is not None else (),
        findings=source.findings(selection),
        report=source.report if with_report else None,
    )


def _page_without_plan(*, acting: str, leads: bool, status: StatusDocument, commands: tuple[str, ...]) -> PageDocument:
    return PageDocument(
        acting=acting,
        leads=leads,
        commands=commands,
        status=status,
        totals=None,
        overview=None,
        map=None,
        zones=None,
        evictions=(),
        waiting=(),
        nodes=None,
        history=(),
        trend=(),
        marks=(),
        findings=(),
        report=None,
    )


def find_commands(namespace: str) -> tuple[str, ...]:
    """Return commands for a cluster without a controller: they show its processes, how these ended, and its rights."""
    return (
        f"kubectl get pods,events -n {namespace}",
        f"kubectl logs -n {namespace} deploy/rebalancer --previous",
        f"kubectl auth can-i update leases -n {namespace} --as system:serviceaccount:{namespace}:rebalancer",
    )


def _select(entries: Iterable[HistoryEntry], selection: Selection) -> Iterator[HistoryEntry]:
    """Yield the selected entries; entries on the whole cluster stay unless a name is searched for."""
    for entry in entries:
        if entry.workload is None:
            if not (selection.namespace or selection.workload) and selection.search.lower() in entry.text.lower():
                yield entry
        elif any(
            selection.concerns(entry.namespace, f"{workload.name} {entry.pod}", workload)
            for workload in (entry.workload, *entry.others)
        ):
            yield entry
