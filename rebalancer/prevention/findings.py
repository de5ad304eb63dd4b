"""ScaleDownUnsafe: what a scale-down is likely to leave, where an order of deletion exists that leaves less skew.

The prediction uses the controller's present choice: pods that are not Ready go first, then the lowest deletion costs,
the most crowded nodes, the youngest pods. The prediction changes with time, since ages count by powers of two. It says
what may well happen, not what will.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, ScaleDownPrevention
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.prevention.plan import GroupResult, Unsteered, evaluate_groups, is_selected
from rebalancer.scheduling.view import View

_FEW: Final = 3
"""The number of replicas at which a scale-down at night is assumed to end if no autoscaler says otherwise."""


class ScaleDownRisk(NamedTuple):
    """A scale-down that is likely to leave `held` of `after` pods in one domain, which violates a rule."""

    workload: Reference
    before: int
    after: int
    topology_key: str
    domain: str
    held: int
    unsteered: Unsteered | None

    @property
    def share(self) -> float:
        """The share of the remaining pods that is in that domain."""
        return self.held / self.after


def find_risks(results: Iterable[GroupResult], view: View, policy: Policy) -> Iterator[ScaleDownRisk]:
    """Yield for each workload the scale-downs that are likely to violate a rule, although another order would not."""
    snapshot = view.snapshot
    autoscalers = {
        (autoscaler.namespace, autoscaler.target_kind, autoscaler.target_name): autoscaler
        for autoscaler in snapshot.autoscalers
    }
    for result in results:
        if result.steering.present != result.steering.order.excess and is_selected(
            result.group.owner.namespace, result.group.member.pods, policy
        ):
            yield from _find_group_risks(result, view, autoscalers)


# Many branches: each number of replicas is tried, and left out where nothing can be said or done about it.
def _find_group_risks(
    result: GroupResult, view: View, autoscalers: Mapping[tuple[str, str, str], Autoscaler]
) -> Iterator[ScaleDownRisk]:
    group, snapshot = result.group, view.snapshot
    workload = group.member.reference
    numbers = {pod.uid: number for number, pod in enumerate(group.pods)}
    doomed = sort_for_deletion(group.member.pods, _count_crowds(result, snapshot), snapshot.taken_at)
    before = len(doomed)
    autoscaler = autoscalers.get((workload.namespace, workload.kind, workload.name))
    for after in _targets(before, autoscaler):
        remaining = doomed[before - after :]
        if after >= group.problem.size or any(pod.uid not in numbers for pod in remaining):
            continue
        excess = group.problem.excess_of([numbers[pod.uid] for pod in remaining])
        if excess <= result.steering.order.excess[after]:
            continue
        held: list[tuple[int, str, str]] = []
        for rule in group.problem.rules:
            values = view.nodes.values(rule.topology_key)
            counts = Counter([values[pod.node] for pod in remaining if pod.node is not None and pod.node in values])
            if counts and rule.bounds[after] is not None:
                count = max(counts.values())
                held.append((count, rule.topology_key, min(value for value in counts if counts[value] == count)))
        if held:
            count, key, domain = max(held, key=lambda row: row[0])
            yield ScaleDownRisk(workload, before, after, key, domain, count, result.unsteered)


def _targets(replicas: int, autoscaler: Autoscaler | None) -> list[int]:
    """Return the numbers of replicas to try: one fewer, half, and the smallest number to be expected."""
    least = _FEW if autoscaler is None else autoscaler.min_replicas
    return sorted({number for number in (replicas - 1, replicas // 2, least) if 0 < number < replicas}, reverse=True)


def _count_crowds(result: GroupResult, snapshot: Snapshot) -> Counter[str | None]:
    """Count the pods of the Deployment by node; a ReplicaSet without a Deployment has no counts."""
    owner = result.group.owner
    if owner.owner is None:
        return Counter()
    return Counter(
        pod.node
        for sibling in snapshot.owned_by.get(owner.owner.uid, ())
        if sibling.kind == owner.kind
        for pod in snapshot.pods_of.get(sibling.uid, ())
        if not pod.terminating and not pod.finished
    )


def find_scale_down_findings(view: View, assessment: Assessment, policy: Policy, now: datetime) -> tuple[Finding, ...]:
    """Return the findings for read-only callers; none where `prevention.scaleDown` is Off."""
    results = evaluate_groups(view, assessment, policy, NO_MEMORY, now)
    return scale_down_findings(find_risks(results, view, policy), policy)


def scale_down_findings(risks: Iterable[ScaleDownRisk], policy: Policy) -> tuple[Finding, ...]:
    """Return a finding for each workload, about its worst scale-down."""
    worst: dict[Reference, ScaleDownRisk] = {}
    for risk in risks:
        known = worst.get(risk.workload)
        if known is None or (risk.share, risk.before - risk.after) > (known.share, known.before - known.after):
            worst[risk.workload] = risk
    return tuple(
        workload_finding(FindingKind.SCALE_DOWN_UNSAFE, workload, describe_risk(risk, policy))
        for workload, risk in sorted(worst.items())
    )


def describe_risk(risk: ScaleDownRisk, policy: Policy) -> str:
    """Say what is likely to remain where, and what to do about it."""
    return (
        f"scaled down from {risk.before} to {risk.after} replicas, {risk.held} of {risk.after} pods "
        f"({round(100 * risk.share)}%) are likely to remain in {risk.topology_key} {risk.domain}; deleted in another "
        f"order, they stay spread. {_describe_remedy(risk, policy)}"
    )


def _describe_remedy(risk: ScaleDownRisk, policy: Policy) -> str:
    if policy.prevention.scale_down is not ScaleDownPrevention.STEER:
        return "Set prevention.scaleDown to Steer"
    match risk.unsteered:
        case Unsteered.FOREIGN:
            return "Remove the pod-deletion-cost that somebody else has set on its pods, so that they can be ordered"
        case Unsteered.OVERWRITTEN:
            return "Somebody has changed a deletion cost of the rebalancer's; remove both annotations from the pods"
        case Unsteered.SURGING:
            return "Their order is kept again when the surge has ended"
        case Unsteered.BLOCKED:
            return "No single change of the order is free of harm; the next pods that start may allow one"
        case _:
            return "Their deletion costs are about to be written"
