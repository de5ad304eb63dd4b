"""Reports, findings and metrics with everything that they need, as the commands and the controller make them."""

from collections.abc import Mapping

from rebalancer.adapters.prometheus import Metrics
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import find_causes
from rebalancer.assessment.findings import Finding, find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.controller.account import find_account
from rebalancer.controller.counters import COUNTERS
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.gauge_view import GaugeView
from rebalancer.controller.gauges import GAUGES
from rebalancer.controller.state import InForce, Leadership, LoopState
from rebalancer.controller.status import status_document
from rebalancer.documents.overview import EVERYTHING, Selection
from rebalancer.documents.page import PageDocument, PageSource, page_document
from rebalancer.documents.report import ReportDocument, WorkloadFilter, every_workload, report_document
from rebalancer.documents.resilience import ResilienceDocument
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


def all_findings(view: View, assessment: Assessment, policy: Policy) -> tuple[Finding, ...]:
    """Return the findings of every kind."""
    return find_findings(view, assessment, find_unmatched(view, assessment, policy))


def full_report(  # as many values as a report is made from
    view: View,
    assessment: Assessment,
    plan: Plan,
    policy: Policy,
    chosen: WorkloadFilter = every_workload,
    lost: ResilienceDocument | None = None,
    memory: Memory = NO_MEMORY,
) -> ReportDocument:
    """Return the report with causes and findings."""
    causes = find_causes(assessment, view, memory)
    return report_document(assessment, plan, causes, all_findings(view, assessment, policy), chosen, lost)


def cycle_report(cycle: Cycle) -> ReportDocument:
    """Return the report of a cycle of the controller."""
    findings = all_findings(cycle.view, cycle.assessment, cycle.context.policy)
    return report_document(
        cycle.assessment,
        cycle.plan,
        cycle.causes,
        findings,
        relaxations=cycle.relaxations,
        memory=cycle.memory,
    )


def page_of(state: LoopState, *, selection: Selection = EVERYTHING) -> PageDocument:
    """Return the page of a leader in this state, with the report of everything."""
    cycle = state.cycle
    assert cycle is not None
    source = PageSource(
        evaluation=cycle.evaluation,
        account=find_account(state, cycle),
        overview=cycle.overview,
        memory=state.memory,
        findings=all_findings(cycle.view, cycle.assessment, cycle.context.policy),
        relaxations=cycle.relaxations,
    )
    status = status_document(state, "one", "policy.yaml")
    acting = "mode Evict: the controller evicts"
    return page_document(acting=acting, leads=True, status=status, source=source, selection=selection)


def state_of(cycle: Cycle) -> LoopState:
    """Return the state of a leader after the cycle."""
    policy = cycle.context.policy
    return LoopState(
        leadership=Leadership(leads=True),
        in_force=InForce(policy=policy, policy_since=cycle.context.now),
        cycle=cycle,
        memory=cycle.memory,
    )


def view_of(state: LoopState) -> GaugeView:
    """Return what gauges are made from in a state of the loop, with the findings of its cycle."""
    cycle = state.cycle
    findings = () if cycle is None else all_findings(cycle.view, cycle.assessment, cycle.context.policy)
    return GaugeView(state=state, findings=findings, leads=state.leadership.leads)


def export(view: GaugeView) -> Metrics[GaugeView]:
    """Return the metrics of a process that has published this view, and had no event."""
    metrics = Metrics(GAUGES, COUNTERS, first=view, refresh=lambda last: last)
    metrics.publish(view)
    return metrics


def rows_of(state: LoopState, name: str) -> Mapping[tuple[str, ...], float]:
    """Return the rows of a gauge in a state of the loop, without those that are 0 because no other value applies."""
    (gauge,) = (gauge for gauge in GAUGES if gauge.name == name)
    return dict(gauge.rows(view_of(state)))
