"""What the cluster has lost, and the consequences: computed once in a cycle, for every report.

memory (nodes, pods as last seen) + snapshot + violations because of the loss ──► losses, whole zones first
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rebalancer.account.account import Account
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import Causes, constraint_token, limit_token
from rebalancer.model.losses import DomainLoss
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State, ViolationCause
from rebalancer.model.snapshot import Snapshot

_BY_LOSS: Final = frozenset({ViolationCause.ZONE_LOST, ViolationCause.NODE_LOST})
_NEVER: Final = frozenset({State.INFEASIBLE, State.UNFIXABLE})
_SETTLING: Final = frozenset({Reason.NODE_SETTLING, Reason.DOMAIN_UNSETTLED})


class Consequences(NamedTuple):
    """The violations because of a loss, over the domains of one key."""

    constraints: int
    """How many constraints are violated."""
    limits: int
    """How many limits are violated."""
    unsatisfiable: int
    """How many of these limits are within bounds now although no placement of all their pods satisfies them."""
    hopeless: bool
    """Whether no placement satisfies any of these constraints and limits before nodes are back."""
    workloads: frozenset[Reference]
    """The workloads concerned."""


class Begin(NamedTuple):
    """When the first repair goes on, and whether it waits for nodes or domains to settle."""

    at: datetime
    settling: bool


class Lack(NamedTuple):
    """A domain that lacks nodes."""

    lost: DomainLoss
    number: int
    """How many nodes are lost."""
    left: int
    """How many nodes still take pods."""
    whole: bool
    """Whether all nodes that took pods are lost."""
    empty: bool
    """Whether no node has the domain's value."""
    gone: Sequence[str]
    """The named lost nodes that no longer exist."""
    unnamed: int
    """How many other lost nodes no longer exist."""

    @property
    def at(self) -> datetime:
        """When the domain was lost, or since when it loses nodes."""
        return self.lost.until if self.whole else self.lost.since


class Loss(NamedTuple):
    """What a domain lacks, and the consequences."""

    lack: Lack
    elsewhere: Sequence[str]
    """The domains in which the lost nodes are now."""
    consequences: Consequences
    begin: Begin | None
    """None if a repair goes on, or none is known to begin."""


def lack_of(lost: DomainLoss, snapshot: Snapshot) -> Lack:
    """Return what a domain lacks in a snapshot."""
    there = [node for node in snapshot.nodes if node.labels.get(lost.key) == lost.value]
    whole = not any(node.ready for node in there)
    known = lost.find_told(snapshot.nodes)
    told = {node.name for node in known.values()}
    silent = sum(not node.ready and node.name not in told for node in there)
    return Lack(
        lost,
        number=lost.had if whole else lost.number,
        left=sum(node.takes_pods for node in there),
        whole=whole,
        empty=not there,
        gone=[node.name for node in lost.nodes if node.name not in known],
        unnamed=sum(node.name not in known for node in lost.others) + max(0, lost.more - silent),
    )


def find_losses(
    losses: Sequence[DomainLoss], snapshot: Snapshot, assessment: Assessment, causes: Causes, account: Account
) -> tuple[Loss, ...]:
    """Return the losses: whole domains first, then the domains that lost most pods."""
    found = list[Loss]()
    for lost in losses:
        consequences = _find_consequences(lost.key, assessment, causes)
        elsewhere = sorted(set(_find_elsewhere(lost, snapshot)))
        begin = _find_begin(consequences.workloads, account)
        found.append(Loss(lack_of(lost, snapshot), elsewhere, consequences, begin))
    return tuple(sorted(found, key=_rank))


def _rank(loss: Loss) -> tuple[bool, int, str, str]:
    lack = loss.lack
    return not lack.whole, -lack.lost.pods, lack.lost.key, lack.lost.value


def _find_elsewhere(lost: DomainLoss, snapshot: Snapshot) -> Iterator[str]:
    for node in lost.nodes:
        now = snapshot.node.get(node.name)
        if now is not None and now.labels.get(lost.key, lost.value) != lost.value:
            yield now.labels[lost.key]


def _find_consequences(key: str, assessment: Assessment, causes: Causes) -> Consequences:
    constraints = [
        (group, one)
        for group in assessment.groups
        for one in group.hard
        if one.topology_key == key and causes.get(constraint_token(group, one)) in _BY_LOSS
    ]
    limits = [one for one in assessment.limits if one.topology_key == key and causes.get(limit_token(one)) in _BY_LOSS]
    hopeless = bool(limits) and not constraints and all(one.state in _NEVER for one in limits)
    workloads = {part.member.reference for limit in limits for part in limit.parts}
    workloads.update(workload for group, _ in constraints for workload in group.workloads)
    unsatisfiable = sum(one.unsatisfiable for one in limits)
    return Consequences(len(constraints), len(limits), unsatisfiable, hopeless, frozenset(workloads))


def _find_begin(workloads: Collection[Reference], account: Account) -> Begin | None:
    if not account.moving.keys().isdisjoint(workloads):
        return None
    repairs = [one for one in account.repairs.values() if any(name in workloads for name in one.component.workloads)]
    if any(one.wait is None and one.numbers.evictions for one in repairs):
        return None
    waits = (one.wait for one in repairs if one.wait is not None)
    begins = [Begin(wait.until, wait.refusal.reason in _SETTLING) for wait in waits if wait.until is not None]
    return min(begins, default=None)
