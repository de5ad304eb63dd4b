"""The Resilience document: what is left of each workload when a domain is lost."""

from collections.abc import Iterable, Sequence
from typing import Final

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.model.loss_phase import Phase
from rebalancer.resilience.rows import LostDomain, Remaining, Verdict

_QUORUM: Final = 3
"""The smallest number of pods that must keep a majority."""


class RemainingWorkload(CamelCaseStruct, frozen=True, kw_only=True):
    """A workload in a loss: of `wanted` pods `now` are Ready on other nodes at once.

    Once nothing moves any more, at least `guaranteed` run, whatever order and nodes kube-scheduler chooses, and at most
    `possible`. `verdict` is `yes` where all come back for certain, `no` where not all can, `order` between. `reason`
    says why not all do for certain, "" where they do.
    """

    namespace: Text
    workload: WorkloadName
    wanted: Number
    now: Number
    guaranteed: Number
    possible: Number
    verdict: Verdict
    reason: str

    @property
    def keeps_majority(self) -> bool:
        """Whether more than half of the pods are Ready at once; nobody asks that of fewer than three."""
        return self.wanted < _QUORUM or 2 * self.now > self.wanted


class DomainLoss(CamelCaseStruct, frozen=True, kw_only=True):
    """The loss of one domain in one phase: the workloads that lose pods by it, or are not whole after it.

    While its nodes are `silent`, they are tainted, and StatefulSets do not replace their pods; once they are `gone`,
    their Node objects are deleted.
    """

    key: Text
    value: str
    phase: Phase
    nodes: Number
    workloads: tuple[RemainingWorkload, ...]


class ResilienceDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """What is left of each workload when a domain of `topologyKeys` is lost: one entry for each domain and phase.

    `workloads` is how many were looked at. Of a key with many domains those that hold most pods are lost, and
    `notComputed` is how many are left out. No new nodes, no evictions of ours, and pods on a node become Ready.
    """

    api_version: str = API_VERSION
    kind: str = "Resilience"
    topology_keys: tuple[Text, ...]
    workloads: Number
    not_computed: Number
    domains: tuple[DomainLoss, ...]


def resilience_document(
    keys: Sequence[str], workloads: int, losses: Iterable[LostDomain], existing: int
) -> ResilienceDocument:
    """Convert what was found; `existing` is how many domains the keys have."""
    domains = tuple(_domain_loss(loss) for loss in losses)
    return ResilienceDocument(
        topology_keys=tuple(keys),
        workloads=workloads,
        not_computed=existing - len({(one.key, one.value) for one in domains}),
        domains=domains,
    )


def _domain_loss(loss: LostDomain) -> DomainLoss:
    return DomainLoss(
        key=loss.key,
        value=loss.value,
        phase=loss.phase,
        nodes=loss.nodes,
        workloads=tuple(_remaining_workload(row) for row in loss.rows),
    )


def _remaining_workload(row: Remaining) -> RemainingWorkload:
    return RemainingWorkload(
        namespace=row.workload.namespace,
        workload=workload_name(row.workload),
        wanted=row.wanted,
        now=row.now,
        guaranteed=row.guaranteed,
        possible=row.possible,
        verdict=row.verdict,
        reason=str(row.reason) if row.reason is not None else "",
    )
