"""The Resilience document: what is left of each workload when a domain is lost."""

from collections.abc import Iterable, Sequence
from typing import Final

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.model.loss_phase import Phase
from rebalancer.resilience.comparison import ChangedLoss, Effect
from rebalancer.resilience.rows import LostDomain, Remaining, Verdict

_QUORUM: Final = 3
"""The smallest number of pods that must keep a majority."""

_MOST_CHANGES: Final = 60
"""Changed losses that are listed: a proposal is stored with others in one ConfigMap."""


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


class ChangedLossEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """The loss of a domain for one workload, before and after evictions: of `wanted` pods, how many run in the end."""

    namespace: Text
    workload: WorkloadName
    key: Text
    domain: str
    phase: Phase
    wanted: Number
    guaranteed_before: Number
    guaranteed_after: Number
    possible_before: Number
    possible_after: Number


class LossesChanged(CamelCaseStruct, frozen=True, kw_only=True):
    """What evictions change in what is left of the workloads that they move, when a zone is lost.

    Of each workload the worst loss before and the worst one after, mostly the same, where they change or leave pods
    out; `more` counts those that are not listed. `notComputed` says why it was not computed of all, "" where it was.
    """

    rows: tuple[ChangedLossEntry, ...] = ()
    more: Number = 0
    not_computed: str = ""


def losses_changed(effect: Effect) -> LossesChanged:
    """Convert an effect, the worst first where it is too long to be stored."""
    worst = sorted(effect.rows, key=lambda row: row.after.guaranteed / max(1, row.wanted))[:_MOST_CHANGES]
    listed = set(worst)
    return LossesChanged(
        rows=tuple(_changed_loss(row) for row in effect.rows if row in listed),
        more=len(effect.rows) - len(worst),
        not_computed="" if effect.unknown is None else str(effect.unknown),
    )


def _changed_loss(row: ChangedLoss) -> ChangedLossEntry:
    return ChangedLossEntry(
        namespace=row.workload.namespace,
        workload=workload_name(row.workload),
        key=row.key,
        domain=row.value,
        phase=row.phase,
        wanted=row.wanted,
        guaranteed_before=row.before.guaranteed,
        guaranteed_after=row.after.guaranteed,
        possible_before=row.before.possible,
        possible_after=row.after.possible,
    )
