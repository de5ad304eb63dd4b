"""What prevention reports of one pass: for the status, the metrics and the events."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.assessment.findings.finding import Finding
from rebalancer.model.moves import Reference
from rebalancer.policy import ScaleDownPrevention


@dataclass(frozen=True, kw_only=True)
class PreventionReport:
    """The state of prevention, small enough to be passed around.

    Of `workloads` that have rules, `ordered` have the best order that was found, `unproved` one of which it is not
    proved that it is the best. `waiting` patches are still to be sent; `left` costs of the rebalancer's own are to be
    removed. `stopped` says why nothing is written although something should be, "" if nothing stands in the way.
    `unsteered` counts the workloads that are left alone, by reason. `risky` are the workloads for which a scale-down is
    likely to violate a rule, of `evaluated` ones.
    """

    mode: ScaleDownPrevention = ScaleDownPrevention.OFF
    workloads: int = 0
    ordered: int = 0
    unproved: int = 0
    waiting: int = 0
    left: int = 0
    stopped: str = ""
    unsteered: Mapping[str, int] = field(default_factory=dict)
    evaluated: tuple[Reference, ...] = ()
    risky: frozenset[Reference] = frozenset()
    findings: tuple[Finding, ...] = ()


NO_REPORT = PreventionReport()
