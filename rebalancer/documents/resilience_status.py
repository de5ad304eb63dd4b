"""The resilience in the controller's status: how many workloads survive the loss of a domain, and the worst losses."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from rebalancer.documents.document import CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.words import plural, short_key
from rebalancer.resilience.worst import ResilienceReport, WorstLoss

_MOST: Final = 20
"""The status has this many of the worst losses; the metrics have all."""


class WorstLossEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """A loss of a domain that is certain to leave a workload fewer pods than `required`.

    Of `wanted` pods, `now` are left at once, and `guaranteed` to `possible` later; `reason` says why not more.
    """

    namespace: Text
    workload: WorkloadName
    key: Text
    domain: str
    phase: Phase
    wanted: Number
    now: Number
    guaranteed: Number
    possible: Number
    required: Number
    reason: str


class ResilienceStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """What is left of `workloads` after the loss of a domain of `keys`, computed from the cluster at the time `asOf`.

    `holding` of these workloads keep what the policy requires after any loss. `notComputed` counts workloads created
    since `asOf`, or all workloads before the first answer (`asOf` null). `domainsLeftOut` counts the domains that were
    not computed because their keys have too many.

    `problem` says why there is no newer answer, "" where nothing is wrong. `losses` are the first twenty losses that
    leave a workload less than required, the worst first, one for each workload.
    """

    keys: tuple[Text, ...]
    as_of: datetime | None
    workloads: Number
    holding: Number
    not_computed: Number
    domains_left_out: Number
    problem: str
    losses: tuple[WorstLossEntry, ...]


def resilience_status(
    report: ResilienceReport, keys: Iterable[str], workloads: Collection[Reference]
) -> ResilienceStatus:
    """Convert a report to its entry; `keys` are those of the policy, `workloads` those of the last cycle."""
    lacking = {workload: loss for workload, loss in report.by_workload.items() if not loss.holds}
    shown = sorted(lacking.values(), key=lambda loss: loss.badness)[:_MOST]
    known = report.worst.workloads
    return ResilienceStatus(
        keys=tuple(sorted(keys)),
        as_of=report.as_of,
        workloads=len(known),
        holding=len(known - lacking.keys()),
        not_computed=sum(workload not in known for workload in workloads),
        domains_left_out=report.worst.left_out,
        problem=report.problem,
        losses=tuple(map(_entry, shown)),
    )


def describe_worst(loss: WorstLoss) -> str:
    """Say in a sentence what a loss leaves, and whether that is enough."""
    left = f"{loss.guaranteed} of {plural(loss.wanted, 'pod')}"
    if loss.holds:
        return f"whichever {short_key(loss.key)} is lost, at least {left} are left for certain"
    why = f": {loss.reason}" if loss.reason else ""
    return (
        f"if {short_key(loss.key)} {loss.domain} is lost ({loss.phase}), {left} are left for certain, "
        f"{loss.required} are required{why}"
    )


def _entry(loss: WorstLoss) -> WorstLossEntry:
    return WorstLossEntry(
        namespace=loss.workload.namespace,
        workload=workload_name(loss.workload),
        key=loss.key,
        domain=loss.domain,
        phase=loss.phase,
        wanted=loss.wanted,
        now=loss.now,
        guaranteed=loss.guaranteed,
        possible=loss.possible,
        required=loss.required,
        reason=loss.reason,
    )
