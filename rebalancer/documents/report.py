"""The Report document: constraints, limits and anti-affinity with their states; deadlocks, findings, domain losses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

from msgspec import Meta

from rebalancer.account.happened import find_since
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token, limit_token, term_token
from rebalancer.assessment.findings import Finding
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.sizes.find import WorkloadSizes
from rebalancer.assessment.waiting_pods import find_waiting_pods
from rebalancer.documents.anti_affinity import ReportedAntiAffinity, report_term
from rebalancer.documents.bounds import DomainBounds, constraint_bounds, find_room, limit_bounds
from rebalancer.documents.document import (
    API_VERSION,
    CamelCaseStruct,
    Counts,
    Number,
    SizeRange,
    Text,
    WorkloadName,
    list_ranges,
    workload_name,
)
from rebalancer.documents.domain_counts import list_counts
from rebalancer.documents.map import MapDocument
from rebalancer.documents.remedies import Violation, find_revision_label, limit_remedy, remedy, term_remedy
from rebalancer.documents.resilience import DomainLoss, RemainingWorkload, ResilienceDocument
from rebalancer.documents.state_reasons import StateReason, StateReasons, limit_workloads
from rebalancer.model.moves import NO_MEMORY, Memory, Reference, make_token
from rebalancer.model.reasons import FindingKind, State, ViolationCause
from rebalancer.model.snapshot import get_known_time
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.plan import Plan
from rebalancer.scheduling.view import View

WorkloadFilter = Callable[[Reference], bool]


class ReportedConstraint(CamelCaseStruct, frozen=True, kw_only=True):
    """One constraint of one group of workloads, counted as the scheduler counts it.

    `cause` is what led to a violation, null if there is none. If there are more than twelve domains, `counts` lists
    only those that hold pods; `emptyDomains` counts the rest. `bounds` are the fewest and the most pods that each
    listed domain may hold once repaired. `since` is when the controller first saw the group violated, null if it has
    not.
    """

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    topology_key: Text
    max_skew: Annotated[int, Meta(ge=1)]
    min_domains: Annotated[int, Meta(ge=1)]
    when_unsatisfiable: Text
    origin: Text
    counts: Counts
    empty_domains: Number
    bounds: Mapping[str, DomainBounds]
    skew: Number
    state: Text
    reason: str | None
    message: str
    since: datetime | None
    cause: str | None
    remedy: str

    @property
    def room(self) -> int | None:
        """How many more pods its fullest domain may hold, None for a soft constraint and without a bound."""
        bounds = next(iter(self.bounds.values()), None)
        is_hard = self.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE
        return find_room(self.counts.values(), bounds) if is_hard and bounds is not None else None


class LargestShare(CamelCaseStruct, frozen=True, kw_only=True):
    """The domain that holds most pods, and its share of the total."""

    domain: str
    count: Number
    share: Annotated[float, Meta(ge=0)]


class ReportedLimit(CamelCaseStruct, frozen=True, kw_only=True):
    """One limit of the policy on one set of pods.

    `key` is the workload, or labels and their values. `cap` is null for maxSkew and minPods. If there are more than
    twelve domains, `counts` lists only those that hold pods; `emptyDomains` counts the rest. `bounds` and `since` are
    as for a constraint; the most that a domain may hold is the cap.

    `headroom` is in pods, negative if the limit is violated. `message` states the counts. `obstacle` says why the
    violation is not repaired; it is empty if the violation is repaired or planning does not handle it.
    """

    group: Text
    limit: Text
    namespace: Text
    key: Mapping[str, str]
    topology_key: Text
    bound: Text
    total: Number
    cap: Number | None
    counts: Counts
    empty_domains: Number
    bounds: Mapping[str, DomainBounds]
    largest: LargestShare | None
    headroom: int
    state: Text
    reason: str | None
    message: str
    obstacle: str
    since: datetime | None
    cause: str | None
    remedy: str
    guaranteed: bool
    severity: Text

    @property
    def room(self) -> int | None:
        """How many more pods (minPods: fewer) its worst domain may hold, None if there is no domain."""
        return self.headroom if self.counts else None


class ReportedDeadlock(CamelCaseStruct, frozen=True, kw_only=True):
    """A pending pod whose own rules exclude each other, and these rules."""

    namespace: Text
    pod: Text
    message: Text


class ReportedWaiting(CamelCaseStruct, frozen=True, kw_only=True):
    """Pods of a workload that have no node, and why, in the scheduler's words; `gated` pods wait for their gates."""

    namespace: Text
    workload: WorkloadName
    pods: tuple[Text, ...]
    message: Text
    gated: bool


class ReportedFinding(CamelCaseStruct, frozen=True, kw_only=True):
    """A configuration fault that violates nothing yet: its kind, the object, and what to do."""

    kind: Text
    object: Text
    message: Text


class ReportedSizes(CamelCaseStruct, frozen=True, kw_only=True):
    """Numbers of replicas of a workload, from `first` to `last`, that have no placement, even with enough capacity.

    For the `impossible` sizes no placement satisfies the hard constraints. The `unreachable` sizes have a placement,
    but pods that are placed one by one do not reach it from where they are now.

    `autoscaler` is the HorizontalPodAutoscaler that may choose these sizes, null if they only lie within twice the
    replicas (`--verbose`). `change` is the smallest change that leaves no such size, empty if no tried change is
    enough.
    """

    namespace: Text
    workload: WorkloadName
    autoscaler: str | None
    first: Annotated[int, Meta(ge=1)]
    last: Annotated[int, Meta(ge=1)]
    impossible: tuple[SizeRange, ...]
    unreachable: tuple[SizeRange, ...]
    constraints: tuple[Text, ...]
    change: str


class LostGroup(CamelCaseStruct, frozen=True, kw_only=True):
    """One workload in the loss of a domain, a group of its own: of its wanted pods, `lost` are at once not Ready.

    `holds`: a majority stays Ready.
    """

    group: Text
    namespace: Text
    key: Mapping[str, str]
    lost: Number
    share: Annotated[float, Meta(ge=0, le=1)]
    holds: bool


class ReportedFailure(CamelCaseStruct, frozen=True, kw_only=True):
    """The loss of one domain: its workloads, and how many pods are not certain to find a node, in the worse phase."""

    topology_key: Text
    domain: str
    groups: tuple[LostGroup, ...]
    unplaceable: Number


class ReportDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A report. `generatedAt` is the snapshot's time, null if it has none; `map` is null unless it was requested."""

    api_version: str = API_VERSION
    kind: str = "Report"
    generated_at: datetime | None
    constraints: tuple[ReportedConstraint, ...]
    limits: tuple[ReportedLimit, ...]
    deadlocks: tuple[ReportedDeadlock, ...]
    waiting: tuple[ReportedWaiting, ...]
    findings: tuple[ReportedFinding, ...]
    sizes: tuple[ReportedSizes, ...]
    failures: tuple[ReportedFailure, ...] | None
    """A summary of `resilience`, one for each domain; null without `--failures`."""
    map: MapDocument | None
    anti_affinity: tuple[ReportedAntiAffinity, ...] = ()
    """Terms of podAntiAffinity, required and preferred."""
    resilience: ResilienceDocument | None = None
    """What is left of each workload after the loss of a domain; null without `--failures`."""


def every_workload(_: Reference) -> bool:
    """Select every workload."""
    return True


def report_document(  # noqa: PLR0913  # all that a report is made from
    assessment: Assessment,
    plan: Plan,
    causes: Causes,
    findings: Sequence[Finding],
    chosen: WorkloadFilter = every_workload,
    lost: ResilienceDocument | None = None,
    relaxations: Relaxations = NO_RELAXATIONS,
    view: View | None = None,
    *,
    memory: Memory = NO_MEMORY,
    drawn: MapDocument | None = None,
) -> ReportDocument:
    """Report on the chosen workloads, violations first; `lost` is the loss of each domain, `drawn` the map.

    With a `view`, also report on pods that have no node. The `memory` says since when something is violated.

    `causes`, `findings` and `relaxations` are the results of `find_causes`, `find_findings` and `find_relaxations`.
    """
    states = StateReasons(plan, relaxations, {move.workload for move in memory.in_flight})
    rules = RuleReporter(states, causes, findings, find_since(memory))
    return ReportDocument(
        generated_at=get_known_time(plan.made_at),
        constraints=_reported_constraints(assessment, rules, chosen),
        limits=_reported_limits(assessment, rules, chosen),
        deadlocks=tuple(
            ReportedDeadlock(namespace=deadlock.pod.namespace, pod=deadlock.pod.name, message=deadlock.message)
            for deadlock in assessment.deadlocks
            if chosen(deadlock.workload)
        ),
        waiting=tuple(_reported_waiting(assessment, view, chosen)) if view is not None else (),
        findings=tuple(
            reported_finding(finding)
            for finding in findings
            if any(map(chosen, finding.workloads)) or (chosen is every_workload and not finding.workloads)
        ),
        sizes=tuple(
            _reported_sizes(sizes) for sizes in assessment.sizes if sizes.verdict.number and chosen(sizes.workload)
        ),
        failures=tuple(_reported_failures(lost)) if lost is not None else None,
        map=drawn,
        anti_affinity=_reported_terms(assessment, rules, chosen),
        resilience=lost,
    )


def _reported_constraints(
    assessment: Assessment, rules: "RuleReporter", chosen: WorkloadFilter
) -> tuple[ReportedConstraint, ...]:
    """Return the entries of the chosen constraints, violations first."""
    groups = (group for group in assessment.groups if any(map(chosen, group.spread.workloads)))
    rows = (row for group in groups for row in rules.constraints(group))
    return tuple(sorted(rows, key=lambda row: row.state == State.SATISFIED))


def _reported_limits(
    assessment: Assessment, rules: "RuleReporter", chosen: WorkloadFilter
) -> tuple[ReportedLimit, ...]:
    """Return the entries of the chosen limits, violations first."""
    rows = (rules.limit(limit) for limit in assessment.limits if any(map(chosen, limit_workloads(limit))))
    return tuple(sorted(rows, key=lambda row: row.state == State.SATISFIED))


def _reported_terms(
    assessment: Assessment, rules: "RuleReporter", chosen: WorkloadFilter
) -> tuple[ReportedAntiAffinity, ...]:
    """Return the entries of the terms that concern the chosen workloads, violations first."""
    evaluated = (*assessment.anti_affinity, *assessment.preferred)
    rows = (rules.term(term) for term in evaluated if any(map(chosen, term.concerned)))
    return tuple(sorted(rows, key=lambda row: row.state == State.SATISFIED))


def reported_finding(finding: Finding) -> ReportedFinding:
    """Convert a finding to its entry."""
    return ReportedFinding(kind=finding.kind, object=finding.object, message=finding.message)


def _reported_waiting(assessment: Assessment, view: View, chosen: WorkloadFilter) -> Iterator[ReportedWaiting]:
    concerned = {workload for group in assessment.groups for workload in group.spread.workloads}
    concerned |= {workload for limit in assessment.limits for workload in limit_workloads(limit)}
    for waiting in find_waiting_pods(view, frozenset(filter(chosen, concerned))):
        yield ReportedWaiting(
            namespace=waiting.workload.namespace,
            workload=workload_name(waiting.workload),
            pods=waiting.pods,
            message=waiting.message,
            gated=waiting.gated,
        )


def _reported_sizes(sizes: WorkloadSizes) -> ReportedSizes:
    return ReportedSizes(
        namespace=sizes.workload.namespace,
        workload=workload_name(sizes.workload),
        autoscaler=sizes.autoscaler or None,
        first=sizes.first,
        last=sizes.last,
        impossible=list_ranges(sizes.verdict.impossible),
        unreachable=list_ranges(sizes.verdict.unreachable),
        constraints=sizes.forbidding,
        change=sizes.change,
    )


def _reported_failures(lost: ResilienceDocument) -> Iterator[ReportedFailure]:
    """Sum up the phases of each loss. The pods that are Ready at once are equal in both phases."""
    by_domain: dict[tuple[str, str], list[DomainLoss]] = {}
    for loss in lost.domains:
        by_domain.setdefault((loss.key, loss.value), []).append(loss)
    for (key, value), phases in by_domain.items():
        rows = {(row.namespace, row.workload): row for loss in phases for row in loss.workloads}
        yield ReportedFailure(
            topology_key=key,
            domain=value,
            groups=tuple(map(_lost_group, rows.values())),
            unplaceable=max(sum(max(0, row.wanted - row.guaranteed) for row in loss.workloads) for loss in phases),
        )


def _lost_group(row: RemainingWorkload) -> LostGroup:
    lost = max(0, row.wanted - row.now)
    return LostGroup(
        group="workloads",
        namespace=row.namespace,
        key={"workload": f"{row.workload.kind}/{row.workload.name}"},
        lost=lost,
        share=lost / max(1, row.wanted),
        holds=row.keeps_majority,
    )


class _Budgets(NamedTuple):
    """The PodDisruptionBudget of each workload that never allows a disruption, or could not be computed."""

    zero: Mapping[Reference, str]
    failed: Mapping[Reference, str]


def _find_budgets(findings: Sequence[Finding]) -> _Budgets:
    zero, failed = (
        {workload: finding.object for finding in findings if finding.kind is kind for workload in finding.workloads}
        for kind in (FindingKind.BUDGET_ALWAYS_ZERO, FindingKind.BUDGET_NOT_COMPUTED)
    )
    return _Budgets(zero, failed)


class RuleReporter:
    """Makes the entries of constraints, limits and terms by one plan, `causes` and `findings`.

    `seen` is when each violation was first seen, by the token of a group, limit or term (`find_since`).
    """

    def __init__(
        self, states: StateReasons, causes: Causes, findings: Sequence[Finding], seen: Mapping[str, datetime]
    ) -> None:
        self._states = states
        self._seen = seen
        self._causes = causes
        self._budgets = _find_budgets(findings)

    def constraints(self, group: EvaluatedGroup) -> Iterator[ReportedConstraint]:
        """Yield the entries of a group, hard constraints first."""
        zero, failed = (_budgets_of(group.spread.workloads, known) for known in self._budgets)
        since = self._seen.get(make_token(group.spread.name)) if self._seen else None
        for evaluated in (*group.hard, *group.soft):
            cause = self._causes.get(constraint_token(group, evaluated))
            standing = self._states.for_constraint(group, evaluated)
            yield _reported_constraint(group, evaluated, standing, cause, zero, failed, since)

    def term(self, term: EvaluatedTerm) -> ReportedAntiAffinity:
        """Return the entry of a term of podAntiAffinity."""
        standing, cause = self._states.for_term(term), self._causes.get(term_token(term))
        zero, failed = (_budgets_of(term.concerned, known) for known in self._budgets)
        violation = Violation(
            reason=standing.reason,
            cause=cause,
            topology_key=term.term.topology_key,
            counts={},
            evictions=standing.evictions,
            zero_budgets=zero,
            failed_budgets=failed,
            revision_label=find_revision_label(term.concerned),
        )
        return report_term(term, standing, self._seen, cause, term_remedy(violation))

    def limit(self, limit: EvaluatedLimit) -> ReportedLimit:
        """Return the entry of a limit."""
        return _reported_limit(limit, self._states.for_limit(limit), self._causes, self._budgets, self._seen)


def _reported_limit(
    limit: EvaluatedLimit,
    standing: StateReason,
    causes: Causes,
    budgets: _Budgets,
    seen: Mapping[str, datetime],
) -> ReportedLimit:
    cause = causes.get(limit_token(limit))
    largest = limit.largest
    listed = list_counts(limit.counts)
    return ReportedLimit(
        group=limit.group,
        limit=limit.limit,
        namespace=limit.namespace,
        key=dict(limit.key),
        topology_key=limit.topology_key,
        bound=limit.rule.bound,
        total=limit.total,
        cap=limit.cap,
        counts=listed.before,
        empty_domains=listed.empty,
        bounds=dict.fromkeys(listed.before, limit_bounds(limit)),
        largest=LargestShare(domain=largest.domain, count=largest.count, share=float(largest.share))
        if largest is not None
        else None,
        headroom=limit.headroom,
        state=standing.state,
        reason=standing.reason,
        message=limit.message,
        obstacle=standing.message,
        since=seen.get(make_token(limit.name)) if seen and limit.state is not State.SATISFIED else None,
        cause=cause,
        remedy=limit_remedy(limit, _limit_violation(limit, standing, cause, budgets)),
        guaranteed=limit.guaranteed,
        severity=limit.severity,
    )


def _limit_violation(
    limit: EvaluatedLimit, standing: StateReason, cause: ViolationCause | None, budgets: _Budgets
) -> Violation:
    workloads = limit_workloads(limit)
    return Violation(
        reason=standing.reason,
        cause=cause,
        topology_key=limit.topology_key,
        counts=limit.counts,
        evictions=standing.evictions,
        zero_budgets=_budgets_of(workloads, budgets.zero),
        failed_budgets=_budgets_of(workloads, budgets.failed),
        revision_label=find_revision_label(workloads),
    )


def _budgets_of(
    workloads: Sequence[Reference] | frozenset[Reference], budgets: Mapping[Reference, str]
) -> tuple[str, ...]:
    return tuple(sorted({budgets[workload] for workload in workloads if workload in budgets}))


def _reported_constraint(
    group: EvaluatedGroup,
    evaluated: EvaluatedConstraint,
    standing: StateReason,
    cause: ViolationCause | None,
    zero_budgets: tuple[str, ...],
    failed_budgets: tuple[str, ...],
    since: datetime | None,
) -> ReportedConstraint:
    constraint, counts = evaluated.constraint, evaluated.counts
    listed = list_counts(counts.by_domain)
    violation = Violation(
        reason=standing.reason,
        cause=cause,
        topology_key=constraint.key,
        counts=counts.by_domain,
        evictions=standing.evictions,
        zero_budgets=zero_budgets,
        failed_budgets=failed_budgets,
        revision_label=find_revision_label(group.spread.workloads),
    )
    return ReportedConstraint(
        namespace=group.spread.namespace,
        workloads=tuple(workload_name(workload) for workload in group.spread.workloads),
        topology_key=constraint.key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        when_unsatisfiable=constraint.when_unsatisfiable,
        origin=constraint.origin,
        counts=listed.before,
        empty_domains=listed.empty,
        bounds=dict.fromkeys(listed.before, constraint_bounds(counts)),
        skew=counts.skew,
        state=standing.state,
        reason=standing.reason,
        message=standing.message,
        since=since if counts.violated else None,
        cause=cause,
        remedy=remedy(violation),
    )
