"""Reports, findings and samples with everything that they need, as the commands and the controller make them."""

from rebalancer.adapters.prometheus import CycleSamples
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import find_causes
from rebalancer.assessment.domain_failures import DomainFailures
from rebalancer.assessment.findings import Finding, find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.telemetry import cycle_samples
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy
from rebalancer.reporting.documents.report import ReportDocument, WorkloadFilter, every_workload, report_document
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
    lost: DomainFailures | None = None,
    memory: Memory = NO_MEMORY,
) -> ReportDocument:
    """Return the report with causes and findings."""
    causes = find_causes(assessment, view, memory)
    return report_document(assessment, plan, causes, all_findings(view, assessment, policy), chosen, lost)


def cycle_report(cycle: Cycle) -> ReportDocument:
    """Return the report of a cycle of the controller."""
    findings = all_findings(cycle.view, cycle.assessment, cycle.context.policy)
    return report_document(cycle.assessment, cycle.plan, cycle.causes, findings)


def samples_of(cycle: Cycle | None) -> CycleSamples:
    """Return the samples of a cycle, of which there must have been one."""
    assert cycle is not None
    return cycle_samples(cycle, all_findings(cycle.view, cycle.assessment, cycle.context.policy))
