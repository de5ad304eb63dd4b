"""The gauges with series for each workload, limit or domain: made once for each cycle, and limited in number."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import astuple

from rebalancer.adapters.prometheus import Gauge, Row
from rebalancer.assessment.findings.domains import worst_rows
from rebalancer.controller.gauge_view import GaugeView, cycle_of
from rebalancer.controller.series import MOST_DOMAINS, Series, select_series, take_worst
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind, State
from rebalancer.prevention.report import PreventionReport

_WORKLOAD: Final = ("namespace", "workload_kind", "workload")
_CONSTRAINT: Final = (*_WORKLOAD, "topology_key", "when_unsatisfiable")
_LIMIT: Final = ("group", "limit", "namespace", "key", "topology_key")


def _report_of(view: GaugeView) -> PreventionReport:
    return view.state.reported.prevention


def _mark_workloads(workloads: Iterable[Reference], marked: frozenset[Reference]) -> Iterable[Row]:
    """Yield 1 for marked workloads and 0 for other ones; names of bare pods are no labels."""
    series = (
        Series(
            namespace=workload.namespace,
            labels=astuple(workload),
            subject=workload,
            headroom=-int(workload in marked),
            state=State.VIOLATED if workload in marked else State.SATISFIED,
            of=workload in marked,
        )
        for workload in workloads
        if workload.kind != "Pod"
    )
    for one in select_series(series):
        yield one.labels, one.of


def _mark_blocked(view: GaugeView) -> Iterable[Row]:
    """Mark the workloads with an irreplaceable pod, among all that have constraints or limits."""
    if view.cycle is None:
        return ()
    kind = FindingKind.REPLACEMENT_BLOCKED
    blocked = frozenset(workload for finding in view.findings if finding.kind is kind for workload in finding.workloads)
    assessment = view.cycle.assessment
    evaluated = {workload for group in assessment.groups for workload in group.workloads}
    evaluated.update(workload for group in assessment.pod_groups for workload in group.owners)
    return _mark_workloads(sorted(evaluated | blocked), blocked)


def _list_worst_domains(view: GaugeView) -> Iterable[Row]:
    violated = (series for series in view.limits if series.headroom < 0 and series.of.worst is not None)
    for series in take_worst(violated, MOST_DOMAINS):
        yield (*series.labels, series.of.worst or ""), 1


def _list_domains_without_nodes(view: GaugeView) -> Iterable[Row]:
    """Mark the domains without nodes whose skew would exceed maxSkew if they had one, the worst first."""
    rows = worst_rows(view.cycle.assessment.domains_without_nodes) if view.cycle is not None else ()
    series = (
        Series(
            namespace=workload.namespace,
            labels=(*astuple(workload), row.topology_key, row.domain.value),
            subject=workload,
            headroom=row.max_skew - row.skew,
            state=State.VIOLATED if row.skew > row.max_skew else State.SATISFIED,
            of=row.skew > row.max_skew,
        )
        for workload, row in rows
        if workload.kind != "Pod"
    )
    for one in take_worst(series, MOST_DOMAINS):
        yield one.labels, one.of


def _count_sizes(view: GaugeView) -> Iterable[Row]:
    """Count the sizes without a placement of each workload that a HorizontalPodAutoscaler scales."""
    sizes = view.cycle.assessment.sizes if view.cycle is not None else ()
    return _count_by_workload((one.workload, one.verdict.number) for one in sizes)


def _count_evicted_by_others(view: GaugeView) -> Iterable[Row]:
    """Count the pods of each workload that others have evicted, one soon after the other."""
    evicted = view.cycle.assessment.evicted_by_others if view.cycle is not None else ()
    return _count_by_workload((one.evictions.workload, one.evictions.number) for one in evicted)


def _count_excess(view: GaugeView) -> Iterable[Row]:
    """Count the pods in excess of each workload and key, by the worst of the terms that the workload declares."""
    evaluated = view.cycle.assessment.anti_affinity if view.cycle is not None else ()
    series = (
        Series(
            namespace=workload.namespace,
            labels=(*astuple(workload), one.term.topology_key),
            subject=workload,
            headroom=-one.excess,
            state=one.state,
            of=one.excess,
        )
        for one in evaluated
        if not one.unknown
        for workload in one.workloads
        if workload.kind != "Pod"
    )
    for row in select_series(series):
        yield row.labels, row.of


def _count_by_workload(numbers: Iterable[tuple[Reference, int]]) -> Iterable[Row]:
    """Yield the number of each workload; a number above 0 is a violation, and larger is worse."""
    series = (
        Series(
            namespace=workload.namespace,
            labels=astuple(workload),
            subject=workload,
            headroom=-number,
            state=State.VIOLATED if number else State.SATISFIED,
            of=number,
        )
        for workload, number in numbers
    )
    for one in select_series(series):
        yield one.labels, one.of


WORKLOAD_GAUGES: Final[tuple[Gauge[GaugeView], ...]] = (
    Gauge(
        name="rebalancer_constraint_skew",
        help="Pods in the fullest domain less pods in the emptiest, as kube-scheduler counts them.",
        labels=_CONSTRAINT,
        rows=lambda view: ((series.labels, series.of.skew) for series in view.constraints),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_constraint_max_skew",
        help="The skew that the constraint allows.",
        labels=_CONSTRAINT,
        rows=lambda view: ((series.labels, series.of.max_skew) for series in view.constraints),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_constraint_state",
        help="1 for the state that the constraint is in, 0 for the others.",
        labels=(*_CONSTRAINT, "state"),
        values=tuple(State),
        rows=lambda view: (((*series.labels, series.state), 1) for series in view.constraints),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_anti_affinity_violations",
        help="Pods that would have to move at least, so that no two share a domain against a required podAntiAffinity "
        "term of the workload: by the worst of its terms over the key.",
        labels=(*_WORKLOAD, "topology_key"),
        rows=_count_excess,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_limit_share_ratio",
        help="Share of the pods in the fullest domain; key has the values of the group's groupBy keys, joined by /.",
        labels=_LIMIT,
        rows=lambda view: (
            (series.labels, float(series.of.largest.share)) for series in view.limits if series.of.largest is not None
        ),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_limit_headroom",
        help="Pods by which the worst domain is within the limit; below 0 the limit is violated.",
        labels=_LIMIT,
        rows=lambda view: ((series.labels, series.headroom) for series in view.limits),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_limit_state",
        help="1 for the state that the limit is in, 0 for the others.",
        labels=(*_LIMIT, "severity", "state"),
        values=tuple(State),
        rows=lambda view: (((*series.labels, series.of.severity, series.state), 1) for series in view.limits),
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_limit_worst_domain",
        help="1 for the domain that violates the limit most; only the worst 1,000 series.",
        labels=(*_LIMIT, "domain"),
        rows=_list_worst_domains,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_replacement_blocked",
        help="1 if a lost pod of the workload could not be replaced now: no node is feasible for the new pod.",
        labels=_WORKLOAD,
        rows=_mark_blocked,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_domain_without_nodes",
        help="1 if a node in this domain without nodes would make a constraint of the workload violated, else 0; at "
        "most 1,000 series.",
        labels=(*_WORKLOAD, "topology_key", "domain"),
        rows=_list_domains_without_nodes,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_sizes_without_placement",
        help="How many of the numbers of replicas that a HorizontalPodAutoscaler may choose the hard constraints leave "
        "without a placement that pods reach one by one.",
        labels=_WORKLOAD,
        rows=_count_sizes,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_evicted_by_others",
        help="Pods of the workload that others have evicted one soon after the other; no series ten minutes after the "
        "last one.",
        labels=_WORKLOAD,
        rows=_count_evicted_by_others,
        once_for=cycle_of,
    ),
    Gauge(
        name="rebalancer_scale_down_unsafe",
        help="1 if a scale-down of the workload is likely to leave its pods skewed, and need not.",
        labels=_WORKLOAD,
        rows=lambda view: _mark_workloads(_report_of(view).evaluated, _report_of(view).risky),
        once_for=_report_of,
    ),
)
