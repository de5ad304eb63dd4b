"""What prevention reports of one pass: for the status, the metrics and the events."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.assessment.findings.finding import Finding
from rebalancer.model.moves import Reference
from rebalancer.policy import ScaleDownPrevention


@dataclass(frozen=True, kw_only=True)
class PreventionReport:
    """The state of prevention, small enough to be passed around."""

    mode: ScaleDownPrevention = ScaleDownPrevention.OFF
    workloads: int = 0
    """How many workloads have rules."""
    ordered: int = 0
    """How many of these workloads have the best order that was found."""
    unproved: int = 0
    """How many workloads have an order that is not proved to be the best."""
    waiting: int = 0
    """How many patches are still to be sent."""
    left: int = 0
    """How many of the rebalancer's own costs are still to be removed."""
    stopped: str = ""
    """Why nothing is written although something should be; "" if nothing prevents writing."""
    unsteered: Mapping[str, int] = field(default_factory=dict)
    """The number of workloads that are left alone, by reason."""
    evaluated: tuple[Reference, ...] = ()
    risky: frozenset[Reference] = frozenset()
    """The evaluated workloads with a scale-down that is likely to violate a rule."""
    findings: tuple[Finding, ...] = ()


NO_REPORT = PreventionReport()
