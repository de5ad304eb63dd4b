"""What the status page shows of a cluster: the parts that its address selects, as text and numbers.

It is bounded for any cluster: so many rows of each table, found by a search and by pages.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final, Generic, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.words import plural, short_key
from rebalancer.reporting.acting import slow_start_text
from rebalancer.reporting.documents.page import PageDocument
from rebalancer.reporting.documents.plan import PlannedEviction
from rebalancer.reporting.documents.report import ReportedConstraint, ReportedFinding, ReportedLimit
from rebalancer.reporting.documents.status import MoveEntry
from rebalancer.reporting.documents.waits import LikelyDomains
from rebalancer.reporting.phrases import domains_text, key_text, portion, workload_names
from rebalancer.reporting.wait_sentences import (
    approval_sentences,
    approval_title,
    hold_sentence,
    wait_sentence,
)

Row = TypeVar("Row")

REFRESH_SECONDS: Final = 30
ROWS: Final = 50
"""Workloads on one page of the grid."""

FIRST: Final = 25
"""Violations, limits, findings and evictions that are shown."""

_LAST_MOVES: Final = 20
_COLUMNS: Final = 30
"""Domains with a column of their own; of the others it is said how many hold pods."""

_SHADES: Final = 4
MOODS: Final = {
    State.SATISFIED: "good",
    State.VIOLATED: "bad",
    State.INFEASIBLE: "stuck",
    State.UNFIXABLE: "stuck",
    State.UNKNOWN: "caution",
}
"""The class of each state; the terminal has the same colours (`reporting.text.layout`)."""

_FINE: Final = frozenset({State.SATISFIED, State.UNKNOWN})
_HARD: Final = "DoNotSchedule"


class _Violation(NamedTuple):
    anchor: str
    of: str
    what: str
    state: str
    mood: str
    counts: Sequence[str]
    sentences: Sequence[str]


class _LimitRow(NamedTuple):
    name: str
    pods: str
    largest: str
    share: float | None
    share_text: str
    bound: str
    headroom: int
    state: str
    mood: str


class _Cell(NamedTuple):
    text: str
    shade: int


class _GridRow(NamedTuple):
    workload: str
    skew: str
    mood: str
    cells: Sequence[_Cell]
    others: str


class _First(NamedTuple, Generic[Row]):
    """The rows of a table that are shown, and how many `more` there are."""

    rows: Sequence[Row]
    more: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Show the first rows."""
        return cls(rows[:FIRST], max(0, len(rows) - FIRST))


class PageView:
    """What the template shows of a page: the parts that the query selects, as text and numbers."""

    def __init__(
        self, page: PageDocument, query: Mapping[str, str], now: datetime, seconds: int = REFRESH_SECONDS
    ) -> None:
        self.seconds = seconds
        """After how many seconds a browser renews the page."""
        self._page = page
        self._query = query
        self._now = now
        self.search = query.get("q", "").strip()
        self.refreshes = query.get("refresh") != "off"

    def link(self, **changes: object) -> str:
        """Return the address of this page with other parameters; an empty one is left out."""
        query = {**self._query, **{name: str(value) for name, value in changes.items()}}
        return f"./?{urlencode({name: value for name, value in sorted(query.items()) if value})}"

    def time(self, moment: datetime) -> str:
        """Write a time."""
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"

    def ago(self, moment: datetime) -> str:
        """Say how long ago a moment was, in its largest unit."""
        seconds = max(0, int((self._now - moment).total_seconds()))
        for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
            if seconds >= length:
                return f"{seconds // length} {unit} ago"
        return f"{seconds} s ago"

    @property
    def title(self) -> str:
        """What a tab of the browser shows."""
        return f"{len(self._broken)} violated" if self._broken else "nothing violated"

    @property
    def mood(self) -> str:
        """The colour of the first sentence."""
        status = self._page.status
        bad = any(not guard.good for guard in status.guards)
        held = status.paused is not None or status.breaker.open or bool(status.stale) or bad
        return "caution" if held or not self._page.leads else ""

    # What waits

    @property
    def approval_title(self) -> str:
        """Name the plan that waits for approval, or is carried out; "" if there is none."""
        approval = self._page.status.approval
        return approval_title(approval) if approval is not None else ""

    @property
    def approval_sentences(self) -> Sequence[str]:
        """Say how and until when it is approved."""
        approval = self._page.status.approval
        return tuple(approval_sentences(approval, self._now)) if approval is not None else ()

    @property
    def waits(self) -> Sequence[str]:
        """Say of each repair that does not go on when it does, and of what is held until when."""
        status = self._page.status
        holds = (hold_sentence(hold, self._now) for hold in status.holds)
        return (*holds, *(wait_sentence(wait, self._now) for wait in status.waits))

    def domains(self, by_key: Mapping[str, LikelyDomains]) -> str:
        """Name the domains that may receive a replacement."""
        return domains_text(by_key)

    # Violations

    @property
    def summary(self) -> str:
        """Say how much is satisfied, of all."""
        report = self._page.report
        assert report is not None
        constraints, limits = report.constraints, report.limits
        satisfied = sum(row.state == State.SATISFIED for row in constraints)
        held = sum(row.state == State.SATISFIED for row in limits)
        text = portion(satisfied, len(constraints), "constraint", "hold")
        if limits:
            text = f"{text}, {portion(held, len(limits), 'limit', 'hold')}"
        deadlocks = f", {plural(len(report.deadlocks), 'pod')} in a placement deadlock" if report.deadlocks else ""
        return f"{text}{deadlocks}."

    @cached_property
    def _broken(self) -> list[_Violation]:
        report = self._page.report
        if report is None:
            return []
        limits = [_violated_limit(row) for row in report.limits if row.state not in _FINE and self._selects_limit(row)]
        constraints = [
            _violated_constraint(row) for row in report.constraints if row.state not in _FINE and self._selects(row)
        ]
        return [*limits, *constraints]

    @property
    def violations(self) -> _First[_Violation]:
        """The first violations: limits, then constraints, as the report sorts them."""
        return _First.of(self._broken)

    def _selects(self, row: ReportedConstraint) -> bool:
        return self._matches(row.namespace, *(workload.name for workload in row.workloads))

    def _selects_limit(self, row: ReportedLimit) -> bool:
        return self._matches(row.namespace, *row.key.values())

    def _matches(self, namespace: str, *names: str) -> bool:
        wanted = self.search.lower()
        return any(wanted in f"{namespace}/{name}".lower() for name in names or ("",))

    # Limits

    @cached_property
    def limits(self) -> _First[_LimitRow]:
        """The limits with the least headroom."""
        report = self._page.report
        rows = [row for row in report.limits if self._selects_limit(row)] if report is not None else []
        return _First.of([_limit_row(row) for row in sorted(rows, key=lambda row: row.headroom)])

    # The grid

    @cached_property
    def keys(self) -> list[str]:
        """The topology keys of the constraints; the first is the one of which most pods see fewest domains."""
        domains: dict[str, int] = {}
        for row in self._page.report.constraints if self._page.report is not None else ():
            known = len(row.counts) + row.empty_domains
            domains[row.topology_key] = max(domains.get(row.topology_key, 0), known)
        return sorted(domains, key=lambda key: (domains[key], key))

    @property
    def key(self) -> str:
        """The topology key of the grid, "" without constraints."""
        chosen = self._query.get("key", "")
        return chosen if chosen in self.keys else next(iter(self.keys), "")

    @cached_property
    def _rows_of_key(self) -> list[ReportedConstraint]:
        report = self._page.report
        rows = report.constraints if report is not None else ()
        return [row for row in rows if row.topology_key == self.key and self._selects(row)]

    @property
    def pages(self) -> int:
        """How many pages the grid has."""
        return max(1, -(-len(self._rows_of_key) // ROWS))

    @property
    def page(self) -> int:
        """The number of this page."""
        chosen = self._query.get("page", "1")
        return min(max(1, int(chosen)), self.pages) if chosen.isdecimal() and len(chosen) < 9 else 1

    @cached_property
    def _shown(self) -> list[ReportedConstraint]:
        return self._rows_of_key[(self.page - 1) * ROWS : self.page * ROWS]

    @cached_property
    def columns(self) -> list[str]:
        """The domains of this page's rows that have a column: those with most pods, in the order of their names."""
        totals: dict[str, int] = {}
        for row in self._shown:
            for domain, count in row.counts.items():
                totals[domain] = totals.get(domain, 0) + count
        return sorted(sorted(totals, key=lambda domain: (-totals[domain], domain))[:_COLUMNS])

    @property
    def has_others(self) -> bool:
        """Whether a row has pods in a domain without a column."""
        return any(row.counts.keys() - set(self.columns) for row in self._shown)

    @property
    def grid(self) -> list[_GridRow]:
        """The rows of this page."""
        return [self._grid_row(row) for row in self._shown]

    def _grid_row(self, row: ReportedConstraint) -> _GridRow:
        total = sum(row.counts.values())
        others = [count for domain, count in row.counts.items() if domain not in self.columns and count]
        return _GridRow(
            workload=f"{row.namespace}/{workload_names(row.workloads)}",
            skew=_skew(row),
            mood=_mood(row.state),
            cells=[_cell(row.counts.get(domain), total) for domain in self.columns],
            others=f"{plural(sum(others), 'pod')} in {len(others)}" if others else "",
        )

    # Plan and moves

    @property
    def plan(self) -> str:
        """Say what the plan is in numbers."""
        totals = self._page.totals
        if totals is None or not (totals.evictions or totals.blocked):
            return "Nothing is to be evicted."
        proof = "the proved minimum" if totals.optimal else f"at least {totals.lower_bound}"
        parts = [f"{plural(totals.evictions, 'eviction')} ({proof})"] if totals.evictions else []
        numbers = (
            ("now", totals.now),
            ("waiting", totals.waiting),
            ("later", totals.later),
            ("blocked", totals.blocked),
        )
        return f"{': '.join([*parts, ', '.join(f'{number} {name}' for name, number in numbers if number)])}."

    @property
    def next(self) -> Sequence[PlannedEviction]:
        """The evictions that this cycle lets go."""
        return self._page.evictions[:FIRST]

    @property
    def refusals(self) -> Iterable[tuple[str, int]]:
        """Why pods are not evicted."""
        return sorted(self._page.status.refusals.items())

    @property
    def blocked(self) -> Sequence[str]:
        """Why nothing is evicted in some namespaces."""
        return [str(blocked.refusal) for blocked in self._page.status.breaker.namespaces]

    @property
    def slow_start(self) -> str:
        """How many moves may be under way at once, "" where slow start is off."""
        windows = self._page.status.slow_start
        return slow_start_text(windows) if windows is not None else ""

    @property
    def refused(self) -> Sequence[str]:
        """Which evictions admission control refused."""
        refused = self._page.status.refused_evictions[:FIRST]
        return [f"{entry.pod}: {entry.refusal}" for entry in refused]

    @property
    def last_moves(self) -> Sequence[MoveEntry]:
        """The moves that ended last, the newest first."""
        return sorted(self._page.status.last_moves, key=lambda move: move.since, reverse=True)[:_LAST_MOVES]

    @property
    def prevention(self) -> str:
        """Say what prevention does."""
        status = self._page.status.prevention
        ordered = f"{status.ordered} of {plural(status.workloads, 'workload')}"
        waiting = plural(status.waiting, "patch", "patches")
        text = f"{status.mode}: deletion costs in order for {ordered}, {waiting} to send"
        return f"{text}; stopped: {status.stopped}" if status.stopped else f"{text}."

    # Findings

    @cached_property
    def findings(self) -> _First[ReportedFinding]:
        """The first findings."""
        report = self._page.report
        rows = report.findings if report is not None else ()
        return _First.of([row for row in rows if self.search.lower() in row.object.lower()])


def _skew(row: ReportedConstraint) -> str:
    text = f"{row.skew}, at most {row.max_skew}"
    return text if row.when_unsatisfiable == _HARD else f"{text} (soft)"


def _mood(state: str) -> str:
    return MOODS.get(State(state), "caution")


def _violated_constraint(row: ReportedConstraint) -> _Violation:
    key = short_key(row.topology_key)
    reason = f"{row.reason}: {row.message}" if row.reason and row.message else row.message
    return _Violation(
        anchor=f"{row.namespace}/{'+'.join(one.name for one in row.workloads[:3])}/{key}",
        of=f"{row.namespace}/{workload_names(row.workloads)}",
        what=f"{key}: skew {_skew(row)}",
        state=row.state,
        mood=_mood(row.state),
        counts=_counts(row.counts, row.empty_domains),
        sentences=[text for text in (reason, _cause(row), row.remedy) if text],
    )


def _violated_limit(row: ReportedLimit) -> _Violation:
    return _Violation(
        anchor=f"{row.namespace}/{key_text(row.key)}/{row.group}/{row.limit}",
        of=f"{row.namespace}/{key_text(row.key)}",
        what=f"limit {row.group}/{row.limit}: {row.bound} per {short_key(row.topology_key)} ({row.severity})",
        state=row.state,
        mood=_mood(row.state),
        counts=_counts(row.counts, row.empty_domains),
        sentences=[text for text in (row.message, row.obstacle, _cause(row), row.remedy) if text],
    )


def _cause(row: ReportedConstraint | ReportedLimit) -> str:
    return f"Cause: {row.cause}." if row.cause and row.cause != ViolationCause.UNKNOWN else ""


def _counts(counts: Mapping[str, int], empty: int) -> Sequence[str]:
    """List the parts of the counts; none is broken over two lines."""
    shown = list(counts.items())[:_COLUMNS]
    rest = len(counts) - len(shown)
    parts = [f"{domain or '(empty)'} {count}" for domain, count in shown]
    return [*parts, *([f"{rest} more"] if rest else []), *([plural(empty, "empty domain")] if empty else [])]


def _limit_row(row: ReportedLimit) -> _LimitRow:
    largest = row.largest
    return _LimitRow(
        name=f"{row.group}/{row.limit}",
        pods=f"{row.namespace}/{key_text(row.key)}",
        largest=f"{short_key(row.topology_key)} {largest.domain}" if largest is not None else "-",
        share=min(1.0, largest.share) if largest is not None else None,
        share_text=f"{largest.count} of {row.total} ({largest.share:.0%})" if largest is not None else "",
        bound=row.bound,
        headroom=row.headroom,
        state=row.state,
        mood=_mood(row.state),
    )


def _cell(count: int | None, total: int) -> _Cell:
    if count is None:  # no such domain for this workload, or an empty one of very many
        return _Cell("", 0)
    return _Cell(str(count), -(-count * _SHADES // total) if total else 0)
