"""The content of the status page as text and numbers: the head, rows, steps, facets. It is bounded for any cluster."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby, islice
from math import inf
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.adapters.web.bars import Bar, Bars, draw_bars
from rebalancer.adapters.web.map_drawing import Drawing, Table, draw_map, draw_zones, tabulate
from rebalancer.adapters.web.page_address import REFRESH_SECONDS, PageAddress
from rebalancer.adapters.web.sentences import (
    FindingGroup,
    Saying,
    Shared,
    find_shared,
    group_findings,
    leave_out,
)
from rebalancer.adapters.web.trend_drawing import RANGES, Trend, draw_trend
from rebalancer.adapters.web.zones_drawing import ZonesDrawing, ZonesTable, draw_zone_panels, tabulate_zones
from rebalancer.documents.anti_affinity import ReportedAntiAffinity
from rebalancer.documents.history import HistoryEntry
from rebalancer.documents.map import NodeState, node_word
from rebalancer.documents.nodes import NodeEntry
from rebalancer.documents.overview import ROWS, VIOLATIONS, FacetEntry, RowState, WorkloadRow
from rebalancer.documents.page import PageDocument
from rebalancer.documents.phrases import (
    ago,
    domains_text,
    from_now,
    past_moves,
    took_text,
    uncounted_text,
    unsatisfiable_text,
    wait_until,
)
from rebalancer.documents.report import ReportedConstraint, ReportedLimit
from rebalancer.documents.status import MoveEntry
from rebalancer.documents.waits import LikelyDomains, RepairWait, shorten
from rebalancer.model.history import EntryKind
from rebalancer.model.moves import MoveState
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.reasons import Reason, State, ViolationCause
from rebalancer.model.words import constraint_name, limit_name, plural, short_key, shorten_keys
from rebalancer.reporting.acting import (
    describe_policy_problem,
    describe_unwatched,
    goes_on,
    moving_word,
    policy_source,
    runs,
    slow_start_text,
)
from rebalancer.reporting.headline import (
    NOT_NOW,
    Headline,
    Sign,
    approval_sentences,
    approval_title,
    headlines,
    hold_sentence,
    next_move_text,
    or_another,
    wait_sentence,
)
from rebalancer.reporting.resilience import loss_title, resilience_sentences, worst_rows
from rebalancer.reporting.standing import standing_sentences, standing_title
from rebalancer.reporting.surges import surge_rows, surge_sentences

MOVING_SECONDS: Final = 2
"""A browser renews the page after this many seconds while something moves, surges, or waits for approval."""

FIRST: Final = 25
"""Up to this many refusals, problems and last moves are shown."""

_MOST_RULES: Final = 4
_MOST_PAST: Final = 10
_MOST_STEPS: Final = 20
_BAR_PIXELS: Final = 70.0
_BROKEN: Final = frozenset({State.VIOLATED, State.INFEASIBLE, State.UNFIXABLE})
_HARD: Final = "DoNotSchedule"
_NEVER_ENDS: Final = "does not end by itself"
_LEADERLESS: Final = "when a controller leads"

SIGNS: Final = {
    RowState.MOVING: Sign.MOVING,
    RowState.WAITING: Sign.WAITING,
    RowState.UNREPAIRABLE: Sign.UNREPAIRABLE,
    RowState.REPORTED: Sign.VIOLATED,
    RowState.SATISFIED: Sign.GOOD,
    RowState.UNKNOWN: Sign.NOTE,
}
"""The sign of each state of a row."""

_RULE_SIGNS: Final = {
    State.SATISFIED: Sign.GOOD,
    State.VIOLATED: Sign.VIOLATED,
    State.INFEASIBLE: Sign.UNREPAIRABLE,
    State.UNFIXABLE: Sign.UNREPAIRABLE,
    State.UNKNOWN: Sign.NOTE,
}

_PAST_SIGNS: Final[Mapping[str, Sign]] = {
    EntryKind.VIOLATED: Sign.VIOLATED,
    EntryKind.SATISFIED: Sign.GOOD,
    EntryKind.WITHOUT_NODE: Sign.NOTE,
    EntryKind.NODE_FOUND: Sign.GOOD,
    EntryKind.PAUSED: Sign.PAUSE,
    EntryKind.POLICY_REFUSED: Sign.NONE,
    EntryKind.POLICY_MISSING: Sign.NONE,
    EntryKind.RIGHT_MISSING: Sign.NONE,
    EntryKind.DROPPED: Sign.NONE,
}
"""The sign of an entry of the history; any other entry has a note, and the outcome decides for a move or a surge."""

_PATTERNS: Final = {Sign.VIOLATED: "over", Sign.WAITING: "striped", Sign.UNREPAIRABLE: "crossed"}
"""The pattern of the bars of a sign; without one, bars are plain."""

WORDS: Final = {
    RowState.MOVING: "moving",
    RowState.WAITING: "waiting",
    RowState.UNREPAIRABLE: NOT_NOW,
    RowState.REPORTED: "violated, only reported",
    RowState.SATISFIED: "satisfied",
    RowState.UNKNOWN: "not known",
}
"""The words of each state of a row."""


class Fact(NamedTuple):
    """A fact below the headline."""

    name: str
    value: str


class Figure(NamedTuple):
    """One of the four figures."""

    sign: Sign
    label: str
    number: int
    detail: str
    link: str


Rule = ReportedConstraint | ReportedLimit | ReportedAntiAffinity


class RuleView(NamedTuple):
    """A rule of a row: its name, its state in a sentence, its bars."""

    name: str
    words: str
    state: str
    sign: Sign
    bars: Bars


class Ends(NamedTuple):
    """When a wait ends, in a few words; the time beside it; and what follows."""

    short: str
    beside: Sequence[str]


class RowView(NamedTuple):
    """A row of the list of workloads: its line names the `reasons`; `why` has their texts that no other row has."""

    name: str
    anchor: str
    link: str
    sign: Sign
    words: str
    repair: str
    rule: RuleView
    others: Sequence[str]
    reasons: Sequence[str]
    why: Sequence[str]
    ends: Ends | None


class Rows(NamedTuple):
    """Rows, and the sentences that several rows share, once."""

    entries: Sequence[RowView]
    shared: Sequence[Shared]


class Resilience(NamedTuple):
    """What the loss of a domain leaves: sentences, and the cells of the worst losses."""

    title: str
    sentences: Sequence[str]
    rows: Sequence[Sequence[str]]


class Surges(NamedTuple):
    """Surges: the cells of their workloads, and why none goes on."""

    rows: Sequence[Sequence[str]]
    sentences: Sequence[str]


class Move(NamedTuple):
    """A pod and its route."""

    pod: str
    route: str


class Detail(NamedTuple):
    """A row in the view of its workload: every rule, the proof, and since when it is violated."""

    name: str
    rules: Sequence[RuleView]
    sentences: Sequence[str]
    proof: str
    since: datetime | None


class Step(NamedTuple):
    """Evictions of one step that go or wait together: the step's number, when they go, and what they wait for.

    `line` has the reason and further facts; `why` has the texts that no other step has.
    """

    sign: Sign
    number: str
    when: str
    moves: Sequence[Move]
    line: str
    sayings: Sequence[Saying]
    why: Sequence[str] = ()


class Steps(NamedTuple):
    """Steps, and the sentences that several steps share, once."""

    entries: Sequence[Step]
    shared: Sequence[Shared]


class NodeView(NamedTuple):
    """A node: its name, zone, state with its pattern, description, and pods."""

    name: str
    link: str
    zone: str
    state: str
    pattern: str
    sentences: Sequence[str]
    pods: int


class Facet(NamedTuple):
    """A line of the filters."""

    name: str
    number: int
    pixels: float
    sign: str
    pattern: str
    link: str
    chosen: bool


class Past(NamedTuple):
    """A past occurrence."""

    at: datetime
    when: str
    sign: Sign
    what: str
    detail: str
    took: str


class PageView:
    """The content that the template shows."""

    def __init__(self, page: PageDocument, address: PageAddress, now: datetime, seconds: int = REFRESH_SECONDS) -> None:
        self._page = page
        self._address = address
        self._now = now
        self._seconds = seconds

    # The head

    @property
    def headline(self) -> Headline:
        """The lost zone, if any, else what happens now and what comes next."""
        return self._headlines[0]

    @property
    def below(self) -> Sequence[Headline]:
        """Other lost zones, and, after a loss, what happens now and what comes next."""
        return self._headlines[1:]

    @cached_property
    def _headlines(self) -> Sequence[Headline]:
        overview = self._page.overview
        if self._address.path == "/workload" and overview is not None and overview.rows:
            row = overview.rows[0]
            end = f", {self._ends(row.wait).short}" if row.wait is not None else ""
            return [
                Headline(SIGNS[row.state], f"{row.namespace}/{row.of}: {_state_words(row, self._moving_word)}{end}")
            ]
        if not self._page.leads and self._page.follows is None and self._page.status.leader:
            return [Headline(Sign.NOTE, f"This process does not lead: open the page of {self._page.status.leader}")]
        figures = overview.figures if overview is not None else self._page.status.figures
        return headlines(self._page.status, figures, self._now)

    @property
    def follows(self) -> Sequence[str]:
        """Which parts of the page are the leader's, which this process's own, and their ages; empty if it leads."""
        follows = self._page.follows
        if follows is None:
            return ()
        led = f"led by {follows.leader}"
        age = f"as of {ago(follows.as_of, self._now)}, {led}" if follows.as_of is not None else f"{led}, no cycle yet"
        stored = f"This replica does not lead. What the controller does, moves and waits: {age}."
        if follows.evaluated_at is None:
            return [stored, f"Nothing is evaluated: {follows.problem}."]
        made = ago(follows.evaluated_at, self._now)
        own = f"Counts, map and plan: this replica's own evaluation, {made}, as rebalancer plan makes it."
        return [stored, f"{own} Trend and history are on the leader's page."]

    @property
    def seconds(self) -> int:
        """After how many seconds a browser renews the page."""
        status = self._page.status
        asks = status.approval is not None and not status.approval.approved
        return min(self._seconds, MOVING_SECONDS) if status.in_flight or status.surges or asks else self._seconds

    @property
    def _goes_on(self) -> bool:
        """Whether anything follows the end of a wait."""
        return goes_on(self._page.status)

    @property
    def _leaderless(self) -> str:
        """Why no time can be given for the next step: no process leads, or it is not known whether one does."""
        lease = self._page.status.lease
        return "not known" if lease is not None and lease.unread_since is not None else _LEADERLESS

    @property
    def old(self) -> bool:
        """Whether the page may be outdated, because no process leads or nothing is known."""
        lease = self._page.status.lease
        return lease is not None and (not lease.holder or lease.unread_since is not None)

    @cached_property
    def facts(self) -> Sequence[Fact]:
        """The facts that apply to the whole page."""
        status = self._page.status
        return [
            Fact("Mode", status.mode),
            Fact("Paused", self._paused()),
            Fact(
                "Slow start",
                slow_start_text(status.slow_start).removeprefix("Slow start: ") if status.slow_start else "off",
            ),
            Fact("Breaker", f"open: {', '.join(status.breaker.causes)}" if status.breaker.open else "closed"),
            *([Fact("Guards", self._guards())] if status.guards else []),
            *([Fact("Prevention", self._prevention())] if status.prevention.mode != "Off" else []),
        ]

    def _paused(self) -> str:
        pause = self._page.status.paused
        if pause is None:
            return "no"
        until = f"until {pause.until:%Y-%m-%d %H:%M:%S} UTC" if pause.until is not None else "until somebody resumes"
        return f"{until}{f' by {pause.by}' if pause.by else ''}: {pause.error or pause.reason}"

    def _guards(self) -> str:
        guards = self._page.status.guards
        bad = [f"{guard.name}: {guard.message}" for guard in guards if not guard.good]
        good = f"{len(guards) - len(bad)} of {len(guards)} good"
        return "; ".join([good, *bad])

    def _prevention(self) -> str:
        status = self._page.status.prevention
        ordered = f"{status.ordered} of {plural(status.workloads, 'workload')}"
        waiting = plural(status.waiting, "patch", "patches")
        text = f"{status.mode}: deletion costs in order for {ordered}, {waiting} to send"
        return f"{text}; stopped: {status.stopped}" if status.stopped else text

    @cached_property
    def resilience(self) -> Resilience | None:
        """What the loss of a domain leaves, None if it is not computed."""
        status = self._page.status.resilience
        is_led = runs(self._page.status)
        said = [*resilience_sentences(status, self._now, is_led=is_led)] if status is not None else []
        return Resilience(loss_title(status), said, worst_rows(status)) if status is not None and said else None

    @cached_property
    def surges(self) -> Surges | None:
        """The surges under way, None if there are none and nothing stops them."""
        status = self._page.status
        rows, sentences = surge_rows(status, self._now), list(surge_sentences(status))
        return Surges(rows, sentences) if rows or sentences else None

    @property
    def policy_source(self) -> str:
        """The place of the policy in force."""
        return policy_source(self._page.status)

    @property
    def without_node(self) -> Sequence[str]:
        """Which pods wait for a node, of those in the status, and why. They violate no rule: no row has them."""
        waits = (wait for wait in self._page.status.waits if wait.without_node)
        return [wait_sentence(wait, self._now, goes_on=self._goes_on) for wait in waits]

    @property
    def holds(self) -> Sequence[str]:
        """What keeps evictions back beyond single repairs, except for a pause, which is the headline."""
        status = self._page.status
        chosen = (hold for hold in status.holds if hold.reason != Reason.PAUSED)
        return [hold_sentence(hold, self._now, goes_on=self._goes_on) for hold in chosen]

    @property
    def problems(self) -> Sequence[str]:
        """Problems with the policy, the rights and replacements."""
        status = self._page.status
        return [
            *(describe_policy_problem(status).split("\n") if not status.policy.valid else []),
            *(
                line
                for team in status.policy.team_errors
                for line in f"Team policy of {team.namespace}: {team.error}".split("\n")
            ),
            *(f"{blocked.refusal.reason}: {blocked.refusal}" for blocked in status.breaker.namespaces),
            *(f"{entry.refusal.reason}: {entry.pod}: {entry.refusal}" for entry in status.refused_evictions[:FIRST]),
            *(
                [f"Not allowed to list {', '.join(status.forbidden_kinds)}; the roles of this version have the right."]
                if status.forbidden_kinds
                else []
            ),
        ]

    @cached_property
    def figures(self) -> Sequence[Figure]:
        overview = self._page.overview
        assert overview is not None
        figures, link = overview.figures, self._address.filter
        constraints = f"{figures.violated_constraints} of {plural(figures.constraints, 'constraint')}"
        within = unsatisfiable_text(figures.unsatisfiable_limits)
        limits = f"{figures.violated_limits} of {plural(figures.limits, 'limit')}{f' ({within})' if within else ''}"
        next_at = figures.next_at if self._goes_on and figures.next_at and figures.next_at > self._now else None
        what = "a wait ends" if figures.may_go_sooner else "the next"
        following = f"{what} {from_now(next_at, self._now)}" if next_at is not None else ""
        moving = self._page.status.in_flight
        first = self._describe_moving(moving[0]) if moving else ""
        blocked = plural(figures.blocked, "eviction")
        totals = self._page.totals
        how_few = "in all, the proved minimum" if figures.waiting and self._optimal else ""
        if totals is not None and totals.uncounted:
            following = "; ".join(filter(None, [uncounted_text(totals.uncounted), following]))
        return [
            Figure(
                Sign.VIOLATED,
                "Violated",
                figures.violated,
                f"of {plural(figures.workloads, 'workload')}; {constraints}, {limits}",
                link(state="violated"),
            ),
            Figure(Sign.MOVING, self._moving_title, figures.moving, first, link(state=RowState.MOVING)),
            Figure(
                Sign.WAITING,
                "To be evicted",
                figures.waiting,
                following or how_few,
                link(state=RowState.WAITING),
            ),
            Figure(
                Sign.UNREPAIRABLE,
                NOT_NOW.capitalize(),
                figures.unrepairable,
                f"{blocked} would be needed" if figures.blocked else "",
                link(state=RowState.UNREPAIRABLE),
            ),
        ]

    @property
    def _moving_word(self) -> str:
        """The word for pods in flight."""
        return moving_word(self._page.status)

    @property
    def _moving_title(self) -> str:
        return "Moving now" if self._goes_on else "Evicted, not watched"

    @property
    def zones_moving(self) -> str:
        """The word for the zones' pods that were evicted or go now."""
        return "moving" if self._goes_on else "evicted or next"

    def _describe_moving(self, move: MoveEntry) -> str:
        if self._goes_on:
            return _moving_words(move, self._now)
        known = describe_unwatched(move.state, move.requested_at or move.since, self._now)
        return f"{move.namespace}/{move.pod} {known}"

    @property
    def _optimal(self) -> bool:
        return self._page.totals is not None and self._page.totals.optimal

    # The rows

    @cached_property
    def rows(self) -> Rows:
        overview = self._page.overview
        return self._rows(overview.rows if overview is not None else ())

    @cached_property
    def nearest(self) -> Rows:
        """The rows that are nearest to a bound, none while something is violated."""
        overview = self._page.overview
        return self._rows(overview.nearest if overview is not None else ())

    def _rows(self, rows: Sequence[WorkloadRow]) -> Rows:
        sayings = [_sayings(row) for row in rows]
        shared = find_shared(sayings, map(_reasons, rows))
        entries = [self._row(row, leave_out(said, shared)) for row, said in zip(rows, sayings, strict=True)]
        return Rows(entries, shared)

    @property
    def _needs_attention(self) -> bool:
        """Whether exactly the violated and moving rows are selected, without another filter."""
        return self._address.selection == VIOLATIONS._replace(page=self._address.selection.page)

    @property
    def attention_title(self) -> str:
        """Name the rows, with the number of their workloads."""
        overview = self._page.overview
        assert overview is not None
        return f"{'Needs attention' if self._needs_attention else 'Selected'}: {overview.workloads:,}"

    @property
    def rows_title(self) -> str:
        """Say how many workloads are violated, the state of the rest, and which rows are shown."""
        overview = self._page.overview
        assert overview is not None
        if not overview.selected:
            return ""
        parts = [f"{overview.violated:,} of {plural(overview.workloads, 'workload')} violated"]
        calm = overview.workloads - overview.violated
        if self._needs_attention:
            moving = f", {calm:,} moving within {'its' if calm == 1 else 'their'} bounds" if calm else ""
            parts = [f"{overview.violated:,} violated{moving}"]
        first = (overview.page - 1) * ROWS + 1
        shown = f": rows {first:,} to {first + len(overview.rows) - 1:,} of {overview.selected:,}"
        order = "most pods above the bound first" if overview.selected > 1 else ""
        return "; ".join([*parts, *([order + (shown if overview.pages > 1 else "")] if order else [])])

    def _row(self, row: WorkloadRow, why: Sequence[str]) -> RowView:
        every = _rules(row)
        shown = [*_broken(row)] or sorted(every, key=_rank_room)
        others = [f"also {_rule_name(rule)}" for rule in shown[1:_MOST_RULES]]
        rest = len(every) - 1 - len(others)
        return RowView(
            name=f"{row.namespace}/{row.of}",
            anchor=f"{row.namespace}/{row.of}".replace(" ", "-"),
            link=self._link(row),
            sign=SIGNS[row.state],
            words=_state_words(row, self._moving_word),
            repair=_repair_words(row),
            rule=_rule_view(shown[0]),
            others=[*others, *([f"and {plural(rest, 'rule')} more"] if rest else [])],
            reasons=_reasons(row),
            why=why,
            ends=self._row_ends(row),
        )

    def _link(self, row: WorkloadRow) -> str:
        """Return the address of the view of a row's first workload, "" for a row without workloads."""
        if not row.workloads:
            return ""
        first = row.workloads[0]
        name = f"{first.kind}/{first.name}"
        return self._address.link(
            "/workload", namespace=row.namespace, workload=name, state="", reason="", q="", page=""
        )

    @property
    def command(self) -> str:
        """The command that explains the workload of this view."""
        kind, _, name = self._address.value("workload").partition("/")
        return f"rebalancer explain {kind.lower()}/{name} --namespace {self._address.value('namespace')}"

    @cached_property
    def details(self) -> Sequence[Detail]:
        """The details of each row of one workload, which has a row for each set of workloads that share rules."""
        overview = self._page.overview
        return [_detail(row) for row in overview.rows] if overview is not None else []

    def _row_ends(self, row: WorkloadRow) -> Ends | None:
        """Return when a row goes on; a row that no eviction repairs has no wait, and does not go on by itself."""
        if row.wait is not None:
            return self._ends(row.wait)
        return Ends(_NEVER_ENDS, ()) if row.state is RowState.UNREPAIRABLE else None

    def _ends(self, wait: RepairWait) -> Ends:
        if not self._goes_on:
            return Ends(self._leaderless, ())
        then = ""
        if wait.then is not None and (wait.until is not None or wait.ends_with):
            then = f"then {next_move_text(wait.then)}"
        beside = [then] if then else []
        if wait.until is not None:
            text, _, clock = wait_until(wait.until, self._now).partition(" (")
            return Ends(text, [f"{clock.removesuffix(')')} at the earliest", *beside] if clock else beside)
        if not wait.ends_with:
            return Ends(_NEVER_ENDS, beside)
        if wait.usual is not None:
            beside = [past_moves(wait.usual), *beside]
        return Ends(shorten_keys(wait.ends_with), beside)

    # The map

    @cached_property
    def map(self) -> Drawing:
        """The map as shapes."""
        assert self._page.map is not None
        return draw_map(self._page.map, self._now)

    @cached_property
    def zone_maps(self) -> Sequence[Drawing]:
        """The map of each zone, for a narrow screen."""
        assert self._page.map is not None
        return draw_zones(self._page.map, self._now)

    @cached_property
    def map_table(self) -> Table:
        assert self._page.map is not None
        return tabulate(self._page.map)

    @property
    def map_title(self) -> str:
        """Say what the map shows."""
        drawn = self._page.map
        assert drawn is not None
        states = Counter(node.state for zone in drawn.zones for node in zone.nodes)
        for zone in drawn.zones:
            states.update(zone.folded)
        every = sum(zone.of for zone in drawn.zones)
        lost = every - states.total() + states[NodeState.LOST]  # the names of some lost nodes are unknown
        nodes = plural(every - lost, "node")
        nodes += f" ({states[NodeState.NOT_READY]} not ready)" if states[NodeState.NOT_READY] else ""
        nodes += f" and {lost} lost" if lost else ""
        more = f"; {plural(drawn.more, 'more lane')} not drawn" if drawn.more else ""
        zones = plural(len(drawn.zones) + drawn.more_zones, "zone")
        return f"{nodes} in {zones}; each square is a pod of the workloads shown{more}"

    # The zones

    @cached_property
    def zones(self) -> ZonesDrawing:
        """The zones as shapes."""
        assert self._page.zones is not None
        return draw_zone_panels(self._page.zones, self._now, self.zones_moving)

    @property
    def zones_table(self) -> ZonesTable:
        assert self._page.zones is not None
        return tabulate_zones(self._page.zones, self.zones_moving)

    @property
    def zones_title(self) -> str:
        """Say how many nodes there are, what a square is, and whose pods are counted."""
        zones = self._page.zones
        assert zones is not None
        nodes = f"{zones.nodes:,} nodes in {plural(len(zones.zones) + zones.more_zones, 'zone')}"
        square = "a node" if self.zones.square == 1 else f"up to {self.zones.square} nodes of a kind"
        selected = "; pods of what is selected" if self._address.filtered else ""
        return f"{nodes}; each square is {square}, those with something to say first{selected}"

    # The nodes

    @property
    def nodes_title(self) -> str:
        """Say how many nodes take pods."""
        nodes = self._page.nodes
        assert nodes is not None
        return ", ".join(f"{number:,} {node_word(state)}" for state, number in nodes.states.items()) or "none"

    @property
    def nodes(self) -> Sequence[NodeView]:
        """The nodes, first those that take no pods."""
        document = self._page.nodes
        return [self._node(node) for node in document.nodes] if document is not None else []

    def _node(self, node: NodeEntry) -> NodeView:
        pattern = "" if node.state is NodeState.READY else node.state.replace(" ", "-")
        since = f"since {self.time(node.since)} ({ago(node.since, self._now)})" if node.since is not None else ""
        end = ""
        if node.until is not None and node.takes:  # the scheduler may place other pods on it at any time
            end = f"takes {node.takes.replace('pods', 'replacements', 1)} {from_now(node.until, self._now)}"
        link = self._address.link(
            "/node", node=node.name, namespace="", workload="", state="", reason="", q="", page=""
        )
        sentences = [text for text in (node.why, since, end) if text]
        return NodeView(node.name, link, node.zone, node_word(node.state), pattern, sentences, node.pods)

    # The plan

    @property
    def _sent(self) -> int:
        """How many evictions of the plan were requested since the cycle."""
        totals, overview = self._page.totals, self._page.overview
        return totals.evictions - overview.figures.waiting if totals is not None and overview is not None else 0

    @property
    def plan_title(self) -> str:
        """Say the numbers of the plan."""
        totals = self._page.totals
        if totals is None or not (totals.evictions or totals.blocked):
            return "nothing is to be evicted"
        proof = "the proved minimum" if totals.optimal else f"at least {totals.lower_bound}"
        if totals.uncounted:
            proof += f", {uncounted_text(totals.uncounted)}"
        sent = self._sent
        parts = [f"{plural(totals.evictions, 'eviction')} ({proof})"] if totals.evictions else []
        numbers = (
            ("sent", sent),
            ("now", totals.now - sent),
            ("waiting", totals.waiting),
            ("later", totals.later),
            ("blocked", totals.blocked),
        )
        return ": ".join([*parts, ", ".join(f"{number} {name}" for name, number in numbers if number)])

    @cached_property
    def steps(self) -> Steps:
        """The moves under way, the evictions of this cycle and the waiting evictions, in the order of the plan."""
        steps = list(islice(chain(self._moving(), self._going(), self._waiting()), _MOST_STEPS))
        above = self.rows.shared if self._address.path == "/" else ()
        shared = [one for one in find_shared(step.sayings for step in steps) if not one.is_among(above)]
        return Steps([step._replace(why=leave_out(step.sayings, [*above, *shared])) for step in steps], shared)

    def _moving(self) -> Iterator[Step]:
        steps = {eviction.uid: str(eviction.step) for eviction in self._page.evictions}
        selects = self._address.selection.concerns
        chosen = (move for move in self._page.status.in_flight if selects(move.namespace, move.pod, move.workload))
        for move in islice(chosen, FIRST):
            usual = past_moves(move.usual) if move.usual is not None and self._goes_on else ""
            began = move.requested_at or move.since
            state = f"{move.state}, overdue: {move.overdue}" if move.overdue else move.state
            yield Step(
                Sign.MOVING,
                steps.get(move.uid, "\N{RIGHTWARDS ARROW}"),
                f"now, for {ago(began, self._now).removesuffix(' ago')}"
                if self._goes_on
                else describe_unwatched(move.state, began, self._now),
                [Move(f"{move.namespace}/{move.pod}", _route(move.node, move.to))],
                ", ".join(filter(None, (state, move.reason, usual))),
                (),
            )

    def _going(self) -> Iterator[Step]:
        status = self._page.status
        moving = {move.uid for move in (*status.in_flight, *status.last_moves)}  # begun, or refused, since the cycle
        for one in self._page.evictions:
            if one.uid not in moving:
                route = _route(one.node, shorten(one.predicted.domains))
                said = Saying(one.reason, shorten_keys(one.message))
                moves = [Move(f"{one.namespace}/{one.pod}", route)]
                led = "now" if self._page.leads else "when the leader decides"
                when = led if self._goes_on else self._leaderless
                yield Step(Sign.MOVING, str(one.step), when, moves, one.reason, [said])

    def _waiting(self) -> Iterator[Step]:
        waiting = sorted(self._page.waiting, key=lambda one: one.step)
        for (number, reason, message), group in groupby(waiting, key=lambda one: (one.step, one.for_, one.message)):
            together = list(group)
            first = together[0]
            when = first.ends_with
            if first.until is not None:
                when = f"{wait_until(first.until, self._now)} at the earliest"
            when = (when or _NEVER_ENDS) if self._goes_on else self._leaderless
            moves = [
                Move(f"{one.namespace}/{one.pod}", _route(one.node, one.then.domains) + or_another(one.then))
                for one in together
            ]
            line = f"{reason}, {past_moves(first.usual)}" if first.usual is not None else reason
            said = Saying(reason, shorten_keys(message))
            yield Step(Sign.WAITING, str(number), when, moves, line, [said])

    @property
    def findings(self) -> Sequence[FindingGroup]:
        """The findings on wrong or incomplete configuration, by kind."""
        return group_findings(self._page.findings)

    @property
    def refusals(self) -> Sequence[tuple[str, int]]:
        """Why pods are not evicted."""
        return sorted(self._page.status.refusals.items())

    @property
    def approval_title(self) -> str:
        """Name the plan that waits for approval or is carried out; "" if there is none."""
        approval = self._page.status.approval
        return approval_title(approval) if approval is not None else ""

    @property
    def approval_sentences(self) -> Sequence[str]:
        """Say how and until when to approve the plan."""
        approval = self._page.status.approval
        return tuple(approval_sentences(approval, self._now)) if approval is not None else ()

    @property
    def standing_title(self) -> str:
        """Name the approval of a whole plan in force, or say that a written one approves nothing; "" without any."""
        return standing_title(self._page.status)

    @property
    def standing_sentences(self) -> Sequence[str]:
        """Say who approved the whole plan, until when, and why a written approval has no effect."""
        return tuple(standing_sentences(self._page.status, self._now))

    def domains(self, by_key: Mapping[str, LikelyDomains]) -> str:
        """Name the domains that may receive a replacement."""
        return domains_text(by_key)

    # Facets

    @cached_property
    def facets(self) -> Sequence[tuple[str, Sequence[Facet]]]:
        """The filters of the list: states, reasons, namespaces."""
        overview = self._page.overview
        if overview is None:
            return []
        facets = overview.facets
        groups = [
            ("State", "state", facets.states),
            ("Reason", "reason", facets.reasons),
            ("Namespace", "namespace", facets.namespaces),
        ]
        lists = [(title, list(self._facets(name, entries))) for title, name, entries in groups]
        if facets.other_namespaces:
            name = plural(facets.other_namespaces, "other")
            lists[-1][1].append(Facet(name, facets.other_rows, 0.0, "", "", "", chosen=False))
        return lists

    def _name_state(self, state: RowState) -> str:
        return self._moving_word if state is RowState.MOVING else WORDS[state]

    def _facets(self, parameter: str, entries: Sequence[FacetEntry]) -> Iterator[Facet]:
        largest = max((entry.number for entry in entries), default=1)
        chosen = self._address.value(parameter)
        for entry in entries:
            sign = SIGNS[RowState(entry.name)] if parameter == "state" else None
            yield Facet(
                name=self._name_state(RowState(entry.name)) if sign is not None else entry.name,
                number=entry.number,
                pixels=round(_BAR_PIXELS * entry.number / largest, 1),
                sign=sign or "",
                pattern=_PATTERNS.get(sign, "") if sign is not None else "",
                link=self._address.filter(**{parameter: "" if entry.name == chosen else entry.name}),
                chosen=entry.name == chosen,
            )

    # What happened

    @property
    def past(self) -> Sequence[Past]:
        """The latest occurrences, the newest first."""
        return self.all_past[:_MOST_PAST]

    @cached_property
    def all_past(self) -> Sequence[Past]:
        """All occurrences, the newest first: the history, or without one the last moves."""
        if self._page.history:
            return [self._entry(entry) for entry in reversed(self._page.history)]
        chosen = [
            move
            for move in self._page.status.last_moves
            if self._address.selection.concerns(move.namespace, move.pod, move.workload)
        ]
        return [self._past(move) for move in sorted(chosen, key=lambda move: move.since, reverse=True)[:FIRST]]

    def _entry(self, entry: HistoryEntry) -> Past:
        sign = _PAST_SIGNS.get(entry.kind, Sign.NOTE)
        if entry.outcome:
            sign = Sign.GOOD if entry.went_well else Sign.NONE
        return Past(entry.at, self._when(entry.at), sign, shorten_keys(entry.text), "", "")

    def _past(self, move: MoveEntry) -> Past:
        good = move.state == MoveState.VERIFIED
        began = move.requested_at
        took = took_text(move.state, began, move.since, move.ready_at) if began is not None else ""
        what = f"{move.namespace}/{move.pod} {_route(move.node, move.to)}"
        detail = ", ".join(filter(None, (move.state, move.reason)))
        return Past(move.since, self._when(move.since), Sign.GOOD if good else Sign.NONE, what, detail, took)

    def _when(self, moment: datetime) -> str:
        today = moment.date() == self._now.date()
        return f"{moment:%H:%M:%S}" if today else f"{moment:%d %b %H:%M:%S}"

    # The trend

    trend_ranges = tuple(RANGES)

    @property
    def trend_range(self) -> str:
        """The name of the chosen range; two hours while something is violated, a day otherwise."""
        chosen = self._address.value("trend")
        if chosen in RANGES:
            return chosen
        overview = self._page.overview
        return "2h" if overview is not None and (overview.figures.violated or overview.figures.moving) else "24h"

    @cached_property
    def trend(self) -> Trend:
        """The trend as shapes."""
        samples, overview, at = self._page.trend, self._page.overview, self._page.status.last_cycle
        if samples and overview is not None and at is not None and samples[-1].violated != overview.figures.violated:
            # The sample of the last cycle is not stored yet: without it the figure above would differ.
            last = structs.replace(samples[-1], at=max(at, samples[-1].at), violated=overview.figures.violated)
            samples = (*samples, last)
        return draw_trend(samples, self._page.marks, self._now, RANGES[self.trend_range])

    def time(self, moment: datetime) -> str:
        """Write a time."""
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"

    def ago(self, moment: datetime) -> str:
        """Say how long ago a moment was, in its largest unit."""
        return ago(moment, self._now)


def _detail(row: WorkloadRow) -> Detail:
    every = _rules(row)
    since = [rule.since for rule in every if rule.since is not None]
    return Detail(
        name=f"{row.namespace}/{row.of}",
        rules=[_rule_view(rule) for rule in every],
        sentences=_why(row),
        proof=shorten_keys(row.proof or ""),
        since=min(since, default=None),
    )


def _is_broken(rule: Rule) -> bool:
    return rule.state in _BROKEN


def _moving_words(move: MoveEntry, now: datetime) -> str:
    """Say which pod moves, for how long, and how long the last moves of its workload took."""
    usual = f", {past_moves(move.usual)}" if move.usual is not None else ""
    began = move.requested_at or move.since
    return f"{move.namespace}/{move.pod} since {ago(began, now).removesuffix(' ago')}{usual}"


def _route(node: str, to: Mapping[str, LikelyDomains]) -> str:
    return f"{node or 'no node'} \N{RIGHTWARDS ARROW} {domains_text(to)}"


def _rule_view(rule: Rule) -> RuleView:
    bounds = rule.bounds
    bars = [Bar(domain, count, bounds[domain].min, bounds[domain].max) for domain, count in rule.counts.items()]
    drawn = draw_bars(bars, whole_names=rule.topology_key != HOSTNAME)
    if isinstance(rule, ReportedLimit):
        share = f"{rule.largest.count} of {rule.total} ({rule.largest.share:.0%})" if rule.largest else "no pods"
        state = f"{share}, headroom {plural(rule.headroom, 'pod')}"
    elif isinstance(rule, ReportedAntiAffinity):
        state = rule.message
    else:
        state = f"skew {rule.skew}, at most {rule.max_skew}"
    return RuleView(_rule_name(rule), rule.state, state, _RULE_SIGNS[State(rule.state)], drawn)


def _rule_name(rule: Rule) -> str:
    if isinstance(rule, ReportedLimit):
        return limit_name(f"{rule.group}/{rule.limit}", rule.bound, rule.topology_key)
    if isinstance(rule, ReportedAntiAffinity):
        return f"required anti-affinity over {short_key(rule.topology_key)} to {rule.selects}"
    return constraint_name(rule.topology_key, rule.max_skew, hard=rule.when_unsatisfiable == _HARD)


def _state_words(row: WorkloadRow, moving: str) -> str:
    """Say what happens to a row: `1 moving, 2 waiting`; `moving` is the word for pods in flight."""
    if row.state is RowState.MOVING and row.needed:
        return f"{row.moving} {moving}, {row.needed} to go"
    if row.state is RowState.MOVING:
        return f"{row.moving} {moving}"
    if row.state is RowState.WAITING and row.wait is None:
        return f"{row.needed} going now"
    if row.state is RowState.WAITING and row.needed:
        return f"{row.needed} {'waits' if row.needed == 1 else 'wait'}"
    return WORDS[row.state]


def _repair_words(row: WorkloadRow) -> str:
    if row.needed:
        proof = "proved minimum" if row.needed == row.lower_bound else f"at least {row.lower_bound}"
        return f"{plural(row.needed, 'eviction')} left, {proof}"
    return f"{plural(row.blocked, 'eviction')} would repair it" if row.blocked else ""


def _rules(row: WorkloadRow) -> Sequence[Rule]:
    return [*row.limits, *row.constraints, *row.anti_affinity]


def _rank_room(rule: Rule) -> float:
    """Return a sort key: the rule that is nearest to its bound first."""
    return inf if isinstance(rule, ReportedAntiAffinity) or rule.room is None else rule.room


def _why(row: WorkloadRow) -> Sequence[str]:
    """Say why a row is violated and not repaired, with its causes, without repetition."""
    causes = _causes(row)
    return [*dict.fromkeys(said.text for said in _sayings(row)), *([f"Cause: {', '.join(causes)}."] if causes else [])]


def _sayings(row: WorkloadRow) -> Sequence[Saying]:
    """Return why a row is violated and not repaired, without repetition."""
    said = [(row.wait.reason, row.wait.message)] if row.wait is not None else []
    for rule in _broken(row):
        name = rule.reason or rule.cause or ""
        said += [(name, _obstacle(rule))] if row.wait is None or rule.state == State.INFEASIBLE else []
        said += [(_remedy_name(rule), rule.remedy)]
    return list(dict.fromkeys(Saying(name, shorten_keys(text)) for name, text in said if text))


def _remedy_name(rule: Rule) -> str:
    """Return the name of a remedy: the reason's name only if the remedy is that of the reason."""
    if not rule.reason:
        return rule.cause or ""
    return rule.reason if Reason(rule.reason).remedy == rule.remedy else ""


def _reasons(row: WorkloadRow) -> Sequence[str]:
    """Name why a row is not repaired, and the causes of its violations."""
    first = row.wait.reason if row.wait is not None else next(filter(None, (one.reason for one in _broken(row))), "")
    return [name for name in dict.fromkeys((first, *_causes(row))) if name]


def _causes(row: WorkloadRow) -> Sequence[str]:
    causes = (rule.cause for rule in _broken(row))
    return [cause for cause in dict.fromkeys(causes) if cause and cause != ViolationCause.UNKNOWN]


def _broken(row: WorkloadRow) -> Iterator[Rule]:
    return filter(_is_broken, _rules(row))


def _obstacle(rule: Rule) -> str:
    """Say why a rule is not repaired; for a limit that is infeasible by itself, the counts say so."""
    if isinstance(rule, ReportedAntiAffinity):
        return rule.obstacle
    if isinstance(rule, ReportedLimit):
        return rule.obstacle or (rule.message if rule.state == State.INFEASIBLE else "")
    return rule.message
