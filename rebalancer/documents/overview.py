"""The overview: a row for each set of workloads with rules, the totals, and how the rows divide.

A row joins the results of a cycle for some workloads: their constraints and limits, the repair, its obstacle, and the
moves in flight. The values for selection and sorting are made for all rows in one pass per cycle. Rows themselves are
made only when they are shown.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from heapq import nsmallest
from typing import Final, NamedTuple

from rebalancer.account.account import Account, Repair
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.anti_affinity import ReportedAntiAffinity
from rebalancer.documents.bounds import constraint_bounds, count_above, find_room
from rebalancer.documents.document import CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.documents.phrases import key_text, why_no_fewer, workload_names
from rebalancer.documents.report import ReportedConstraint, ReportedLimit, RuleReporter
from rebalancer.documents.state_reasons import StateReasons, limit_workloads
from rebalancer.documents.waits import RepairWait, repair_wait
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.planning.plan import ComponentPlan, Plan

ROWS: Final = 20
"""Rows on one page."""

_MOST_NAMESPACES: Final = 8
_NEAREST: Final = 3
_WORKLOAD: Final = "workload"
"""The key of a limit on the pods of one workload."""

_NEVER: Final = frozenset({State.INFEASIBLE, State.UNFIXABLE})
_BROKEN: Final = _NEVER | {State.VIOLATED}


class RowState(StrEnum):
    """The state of a row. The three states after `moving` are violated; a moving row may be satisfied already."""

    MOVING = "moving"
    WAITING = "waiting"
    UNREPAIRABLE = "unrepairable"
    REPORTED = "reported"
    """Violated, but not repaired: a soft constraint, a limit with `action: Alert`, or a term that is not acted on."""
    SATISFIED = "satisfied"
    UNKNOWN = "unknown"


VIOLATED: Final = "violated"
"""Selects every row with a violated rule or a moving pod."""


class WorkloadRow(CamelCaseStruct, frozen=True, kw_only=True):
    """Workloads that share rules, their violations, and the progress of the repair.

    `workloads` is empty for a limit on pods selected by labels; `of` names these pods. `above` is how many pods are
    above the bound of the most violated rule.

    Of the repair's evictions, `moving` are in flight, `needed` (at least `lowerBound`) are still to be made, and
    `blocked` cannot be made. `wait` says why the repair does not go on and until when, null if it goes on.
    """

    namespace: Text
    of: Text
    workloads: tuple[WorkloadName, ...]
    state: RowState
    above: Number
    constraints: tuple[ReportedConstraint, ...]
    limits: tuple[ReportedLimit, ...]
    anti_affinity: tuple[ReportedAntiAffinity, ...] = ()
    """The workloads' violated required terms of podAntiAffinity."""
    moving: Number
    needed: Number
    lower_bound: Number
    blocked: Number
    proof: str | None
    wait: RepairWait | None


class Figures(CamelCaseStruct, frozen=True, kw_only=True):
    """The numbers of a cycle: rows with rules and violated rows; evictions that move, wait, or cannot be made.

    `nextAt` is the first moment at which a wait ends, null if no such time is known. `mayGoSooner`: another repair may
    go on before `nextAt`, with an event whose time is not known.

    Of `violatedLimits`, `unsatisfiableLimits` are within their bounds now, but no placement of all their pods satisfies
    them. `violatedAntiAffinity` counts terms of podAntiAffinity: required terms, and preferred terms that the policy
    acts on.
    """

    workloads: Number
    violated: Number
    constraints: Number
    violated_constraints: Number
    limits: Number
    violated_limits: Number
    moving: Number
    waiting: Number
    next_at: datetime | None
    unrepairable: Number
    blocked: Number
    violated_anti_affinity: Number = 0
    may_go_sooner: bool = False
    unsatisfiable_limits: Number = 0


class FacetEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """How many of the selected rows have a value."""

    name: Text
    number: Number


class Facets(CamelCaseStruct, frozen=True, kw_only=True):
    """How the selected rows divide by state, by the reason for their wait, and by namespace.

    The eight namespaces with most violated rows are listed; `otherNamespaces` have `otherRows`.
    """

    states: tuple[FacetEntry, ...]
    reasons: tuple[FacetEntry, ...]
    namespaces: tuple[FacetEntry, ...]
    other_namespaces: Number
    other_rows: Number


class OverviewDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """One page of the `selected` rows: violated rows first, those with most pods above the bound before others.

    The selected rows have `workloads`, of which `violated` are violated. If `violated` is selected, pods of the
    remaining workloads move. A workload counts once, as in the figures, even if several rows have it.

    `nearest` are the three rows nearest to a bound, whose largest domain has least room; empty while something is
    violated.
    """

    figures: Figures
    facets: Facets
    rows: tuple[WorkloadRow, ...]
    nearest: tuple[WorkloadRow, ...]
    selected: Number
    workloads: Number
    violated: Number
    page: Number
    pages: Number


class Selection(NamedTuple):
    """Which rows are selected; "" selects all."""

    namespace: str = ""
    workload: str = ""
    """KIND/NAME."""
    node: str = ""
    """The name of a node that holds a pod of the row."""
    state: str = ""
    """A row's state, or `violated`."""
    reason: str = ""
    search: str = ""
    """A part of NAMESPACE/NAME."""
    page: int = 1

    def matches(self, namespace: str, name: str) -> bool:
        """Return whether an object of this name is selected, in any state."""
        if self.namespace and namespace != self.namespace:
            return False
        return not self.search or self.search.lower() in f"{namespace}/{name}".lower()

    def concerns(self, namespace: str, pod: str, workload: WorkloadName | Reference) -> bool:
        """Return whether a pod of a workload is selected, in any state."""
        return self.matches(namespace, pod) and self.workload in {"", f"{workload.kind}/{workload.name}"}


EVERYTHING: Final = Selection()
VIOLATIONS: Final = Selection(state=VIOLATED)


class _Entry(NamedTuple):
    """The results of a cycle for a row."""

    namespace: str
    of: str
    workloads: tuple[Reference, ...]
    members: frozenset[Reference]
    """The workloads, even for a limit on pods selected by labels."""
    spread: Sequence[EvaluatedGroup]
    limits: Sequence[EvaluatedLimit]
    terms: Sequence[EvaluatedTerm]
    constraints: Counter[State]
    """How many constraints have each state, likewise for limits below."""
    limit_states: Counter[State]
    term_states: Counter[State]
    state: RowState
    """The state while nothing moves."""
    above: int
    group: ComponentPlan | None
    """The repair, None if nothing is violated or planned."""

    @property
    def violated(self) -> bool:
        """Whether a rule is violated."""
        return not _BROKEN.isdisjoint((*self.constraints, *self.limit_states, *self.term_states))

    @property
    def stays(self) -> bool:
        """Whether evictions leave the row violated: no placement satisfies one of its limits."""
        return any(limit.state is State.INFEASIBLE for limit in self.limits)


_Key = tuple[str, tuple[Reference, ...], str]
"""Identifies a row: its namespace, its workloads, and the pods of a limit on labels."""


class _Rules(NamedTuple):
    """The rules of a row."""

    groups: list[EvaluatedGroup]
    limits: list[EvaluatedLimit]
    terms: list[EvaluatedTerm]


class _Row(NamedTuple):
    """The values that select and sort a row, and the data that it is made of."""

    entry: _Entry
    state: RowState
    moving: int
    repair: Repair | None

    @property
    def reason(self) -> str:
        """Why the row waits, "" if it does not."""
        return self.repair.wait.refusal.reason if self.repair is not None and self.repair.wait is not None else ""


class Overview:
    """The rows of one cycle; an account says what becomes of their repairs."""

    def __init__(self, assessment: Assessment, plan: Plan, states: StateReasons) -> None:
        self._assessment = assessment
        self._states = states
        self._decided = plan.fates.decided
        self._groups = {workload: group for group in reversed(plan.components) for workload in group.workloads}
        acted_on = (one for component in plan.components for one in component.component.preferred)
        self._terms = [one for one in (*assessment.anti_affinity, *acted_on) if one.violated]
        """The violated terms; preferred terms only if they are to be repaired."""
        self._groups_of_limits = {limit.name: group for group in plan.components for limit in group.limits}

    def find_figures(self, account: Account) -> Figures:
        """Return the numbers of all rows."""
        constraints, limits = self._totals
        return Figures(
            workloads=self._workloads,
            violated=self.violated,
            constraints=constraints.total(),
            violated_constraints=sum(constraints[state] for state in _BROKEN),
            limits=limits.total(),
            violated_limits=sum(limits[state] for state in _BROKEN),
            moving=account.moving.total(),
            waiting=account.waiting,
            next_at=account.next_at,
            may_go_sooner=account.may_go_sooner,
            unrepairable=len(self.find_stuck(account.moving.keys())),
            blocked=account.blocked,
            violated_anti_affinity=len(self._terms),
            unsatisfiable_limits=sum(one.unsatisfiable for one in self._assessment.limits),
        )

    def find_stuck(self, moving: Collection[Reference]) -> frozenset[Reference]:
        """Return the workloads that evictions leave violated; `moving` workloads only if that is certain."""
        return frozenset[Reference]().union(*(entry.members for entry in self._find_stuck(moving)))

    def find_stuck_limits(self, moving: Collection[Reference]) -> Iterator[EvaluatedLimit]:
        """Yield the limits that no placement satisfies, except those that belong to a refused repair."""
        for entry in self._find_stuck(moving):
            if entry.group is None or not _rests(entry, moving):
                yield from (one for one in entry.limits if one.state in _NEVER)

    def _find_stuck(self, moving: Collection[Reference]) -> Iterator[_Entry]:
        return (entry for entry in self._entries if entry.stays or _rests(entry, moving))

    def select(
        self,
        selection: Selection,
        account: Account,
        rules: RuleReporter,
        on_node: frozenset[Reference] = frozenset(),
    ) -> OverviewDocument:
        """Return one page of the selected rows; if the page does not exist, the nearest page.

        `on_node` are the workloads of the node's pods.
        """
        found = self._find(selection, account, on_node)
        pages = max(1, -(-len(found) // ROWS))
        page = min(max(1, selection.page), pages)
        nearest = [_row(entry, account) for entry in self._nearest()] if not self.violated else []
        return OverviewDocument(
            figures=self.find_figures(account),
            facets=_divide(found),
            rows=tuple(_show(row, account, rules) for row in found[(page - 1) * ROWS : page * ROWS]),
            nearest=tuple(_show(row, account, rules) for row in nearest),
            selected=len(found),
            workloads=_count_members(row.entry for row in found),
            violated=_count_members(row.entry for row in found if row.entry.violated),
            page=page,
            pages=pages,
        )

    def workloads(
        self, selection: Selection, account: Account, on_node: frozenset[Reference] = frozenset()
    ) -> frozenset[Reference]:
        """Return the workloads of all selected rows; for a limit on pods that labels name, the pods' workloads."""
        return frozenset[Reference]().union(*(row.entry.members for row in self._find(selection, account, on_node)))

    def _find(self, selection: Selection, account: Account, on_node: frozenset[Reference]) -> Sequence[_Row]:
        found = [row for entry in self._entries if _selects(selection, row := _row(entry, account))]
        if selection.node:
            found = [row for row in found if not on_node.isdisjoint(row.entry.members)]
        return found

    def _nearest(self) -> Sequence[_Entry]:
        near = [(room, entry) for entry in self._entries if (room := _room(entry)) is not None]
        first = nsmallest(_NEAREST, near, key=lambda one: (one[0], one[1].namespace, one[1].of))
        return [entry for _, entry in first]

    @cached_property
    def violated(self) -> int:
        """How many workloads are violated."""
        return _count_members(entry for entry in self._entries if entry.violated)

    @cached_property
    def _workloads(self) -> int:
        return _count_members(self._entries)

    @cached_property
    def _totals(self) -> tuple[Counter[State], Counter[State]]:
        """How many constraints, and how many limits, have each state."""
        constraints, limits = Counter[State](), Counter[State]()
        for entry in self._entries:
            constraints += entry.constraints
            limits += entry.limit_states
        return constraints, limits

    @cached_property
    def _entries(self) -> Sequence[_Entry]:
        found: defaultdict[_Key, _Rules] = defaultdict(lambda: _Rules([], [], []))
        for group in self._assessment.groups:
            found[group.spread.namespace, group.spread.workloads, ""].groups.append(group)
        for limit in self._assessment.limits:
            kind, _, name = limit.key.get(_WORKLOAD, "").partition("/")
            workloads = (Reference(limit.namespace, kind, name),) if name else ()
            of = "" if name else f"{limit.group} {key_text(limit.key)}".strip()
            found[limit.namespace, workloads, of].limits.append(limit)
        for term in self._terms:
            found[term.namespace, term.workloads, ""].terms.append(term)
        entries = [self._entry(*key, parts) for key, parts in found.items()]
        return sorted(entries, key=lambda one: (not one.violated, -one.above, one.namespace, one.of))

    def _entry(self, namespace: str, workloads: tuple[Reference, ...], of: str, rules: _Rules) -> _Entry:
        spread, limits, terms = rules
        members = frozenset(workloads).union(*(map(limit_workloads, limits) if of else ()))
        planned = (
            (self._groups_of_limits.get(limit.name) for limit in limits) if of else map(self._groups.get, workloads)
        )
        group = next((one for one in planned if one is not None), None)
        constraints = Counter(state for one in spread for state in self._constraint_states(one))
        states = Counter(self._states.for_limit(limit).state for limit in limits)
        apart = Counter(self._states.for_term(term).state for term in terms)
        known = {*constraints, *states, *apart}
        is_violated = not _BROKEN.isdisjoint(known)
        above = [*map(_above_limit, limits), *map(_above_skew, spread), *(term.excess for term in terms)]
        return _Entry(
            namespace=namespace,
            of=of or workload_names(workloads),
            workloads=workloads,
            members=members,
            spread=spread,
            limits=limits,
            terms=terms,
            constraints=constraints,
            limit_states=states,
            term_states=apart,
            state=self._find_resting_state(known, group),
            above=max(above, default=0) if is_violated else 0,
            group=group if is_violated else None,
        )

    def _find_resting_state(self, known: set[State], group: ComponentPlan | None) -> RowState:
        """Return the state of a row without moves whose rules have these states.

        A violation that is being repaired in part counts as waiting; it counts as not repairable only if no eviction
        helps.
        """
        if not known & _BROKEN:
            return RowState.UNKNOWN if State.UNKNOWN in known else RowState.SATISFIED
        if group is None:
            return RowState.REPORTED if known & _BROKEN == {State.VIOLATED} else RowState.UNREPAIRABLE
        hopeless = group.state in _NEVER and not self._decided.get(group.name)
        return RowState.UNREPAIRABLE if hopeless else RowState.WAITING

    def _constraint_states(self, group: EvaluatedGroup) -> Iterator[State]:
        return (self._states.for_constraint(group, evaluated).state for evaluated in (*group.hard, *group.soft))


def _rests(entry: _Entry, moving: Collection[Reference]) -> bool:
    """Return whether a row is violated and nothing is, or will be, evicted for it."""
    return entry.state is RowState.UNREPAIRABLE and entry.members.isdisjoint(moving)


def _row(entry: _Entry, account: Account) -> _Row:
    moving = sum(account.moving[one] for one in entry.members) if account.moving else 0
    repair = account.repairs[entry.group.name] if entry.group is not None else None
    return _Row(entry, RowState.MOVING if moving else entry.state, moving, repair)


def _show(row: _Row, account: Account, rules: RuleReporter) -> WorkloadRow:
    entry, repair = row.entry, row.repair
    return WorkloadRow(
        namespace=entry.namespace,
        of=entry.of,
        workloads=tuple(map(workload_name, entry.workloads)),
        state=row.state,
        above=entry.above,
        constraints=tuple(shown for one in entry.spread for shown in rules.constraints(one)),
        limits=tuple(map(rules.limit, entry.limits)),
        anti_affinity=tuple(map(rules.term, entry.terms)),
        moving=row.moving,
        needed=repair.needed if repair is not None else 0,
        lower_bound=repair.lower_bound if repair is not None else 0,
        blocked=repair.numbers.blocked if repair is not None else 0,
        proof=(why_no_fewer(repair.component) or None) if repair is not None else None,
        wait=repair_wait(repair, repair.wait, account) if repair is not None and repair.wait else None,
    )


def _selects(selection: Selection, row: _Row) -> bool:
    state, entry = selection.state, row.entry
    return (
        selection.matches(entry.namespace, entry.of)
        and (not selection.workload or selection.workload in {f"{one.kind}/{one.name}" for one in entry.members})
        and (not state or _has_state(row, state))
        and (not selection.reason or row.reason == selection.reason)
    )


def _has_state(row: _Row, state: str) -> bool:
    if state == VIOLATED:
        return row.entry.violated or row.moving > 0
    return row.state == state or (state == RowState.UNREPAIRABLE and row.entry.stays)


def _above_limit(limit: EvaluatedLimit) -> int:
    return max(0, -limit.headroom)


def _above_skew(group: EvaluatedGroup) -> int:
    violated = (one.counts for one in (*group.hard, *group.soft) if one.counts.violated)
    return max((count_above(one.by_domain.filled.values(), constraint_bounds(one)) for one in violated), default=0)


def _count_members(entries: Iterable[_Entry]) -> int:
    return len(frozenset[Reference]().union(*(entry.members for entry in entries)))


def _room(entry: _Entry) -> int | None:
    """Return how many pods fit into the largest domain of the rule with least room, None without a bound."""
    counted = [one.counts for group in entry.spread for one in group.hard]
    rooms = [find_room(counts.by_domain.filled.values(), constraint_bounds(counts)) for counts in counted]
    rooms += [limit.headroom for limit in entry.limits if limit.counts]
    return min((room for room in rooms if room is not None), default=None)


def _divide(rows: Sequence[_Row]) -> Facets:
    states = Counter(row.state for row in rows)
    reasons = Counter(row.reason for row in rows if row.reason)
    namespaces = Counter(row.entry.namespace for row in rows if row.entry.violated)
    listed = namespaces.most_common(_MOST_NAMESPACES)
    return Facets(
        states=tuple(FacetEntry(name=state, number=states[state]) for state in RowState if states[state]),
        reasons=tuple(_facet_entries(reasons.most_common())),
        namespaces=tuple(_facet_entries(listed)),
        other_namespaces=len(namespaces) - len(listed),
        other_rows=namespaces.total() - sum(number for _, number in listed),
    )


def _facet_entries(numbers: Iterable[tuple[str, int]]) -> Iterator[FacetEntry]:
    return (FacetEntry(name=name, number=number) for name, number in numbers)
