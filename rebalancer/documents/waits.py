"""Waits: why each repair does not go on, when that ends, and what follows then.

A wait ends at a moment (`until`) or with an event (`endsWith`, "when pod web-1 is Ready"). With neither, it does not
end by itself. No time is invented for an event; `usual` says how long the workload's last moves took.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from statistics import median_low
from typing import Final, NamedTuple

from rebalancer.account.account import Account, Repair, Wait
from rebalancer.admission.admit import (
    AdmissionContext,
    BreakerOpen,
    ModeObserves,
    find_common_obstacles,
)
from rebalancer.admission.misplaced import misplaced_replacement
from rebalancer.admission.rights import RightMissing, Rights
from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.document import CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.documents.phrases import counts_change
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moments import seconds_between
from rebalancer.model.moves import Memory, Move, MoveState, Reference, Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.model.words import format_rest, limit_name, short_key
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.scope.components import current_counts, is_violated
from rebalancer.tracking.misplaced import find_misplaced

MOST_WAITS: Final = 20
"""Up to this many waits are listed."""

WHOLE_CLUSTER: Final = "the cluster"
"""The scope of a reason that keeps every eviction back."""

MOST_LIKELY: Final = 4
"""Up to this many domains that may receive a replacement are listed; the rest are counted."""


class Usual(CamelCaseStruct, frozen=True, kw_only=True):
    """How many seconds the last `of` moves of a workload took, from the eviction until the replacement was Ready."""

    low: Number
    median: Number
    high: Number
    of: Number


class LikelyDomains(CamelCaseStruct, frozen=True, kw_only=True):
    """The first four domains that may receive a replacement, and how many `more` there are."""

    values: tuple[str, ...]
    more: Number = 0


class NextMove(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod that is evicted, its node, and the domains where its replacement may be placed, by topology key.

    `orAnother`: another pod may be chosen, because pods that may not go yet may go by then.
    """

    namespace: Text
    pod: Text
    node: str
    domains: Mapping[str, LikelyDomains]
    or_another: bool = False


class RepairWait(CamelCaseStruct, frozen=True, kw_only=True):
    """A repair that does not go on: `reason` and `message` say why, and `until` or `endsWith` until when.

    `violated` names the violated rules. `evictions` is how many the whole repair takes, 0 if not known; `blocked` of
    these cannot be made, even after a wait. `stuck`: as things are, evictions leave the rules violated; even so, a
    limit that no placement satisfies may be repaired in part. `withoutNode`: no rule is violated, but pods wait for a
    node.

    With `until` null and `endsWith` "", the wait does not end by itself. `then` is what follows, null if no eviction is
    decided yet.
    """

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    violated: tuple[str, ...] = ()
    evictions: Number = 0
    blocked: Number = 0
    stuck: bool = False
    without_node: bool = False
    reason: Text
    message: str
    until: datetime | None
    ends_with: str
    usual: Usual | None
    then: NextMove | None

    @property
    def refusal(self) -> "StoredWait":
        """Why the repair's evictions wait, from the stored words."""
        return StoredWait(Reason(self.reason), self.message, self.until, self.ends_with, self.usual is not None)


class StoredWait(Refusal):
    """A wait that the leader has stored, with its words and its end; `of_move`: the end of a move ends it."""

    named: Reason
    message: str
    until: datetime | None
    ends_with: str
    of_move: bool

    @property
    def reason(self) -> Reason:
        """The reason that was stored."""
        return self.named

    def _end(self) -> End:
        return End(at=self.until, event=self.ends_with, of_move=self.of_move)

    def __str__(self) -> str:
        return self.message


class HoldStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """What keeps evictions back in the whole cluster, in a namespace, or into a domain: `scope` says where."""

    scope: Text
    reason: Text
    message: str
    since: datetime | None
    until: datetime | None
    ends_with: str


def describe_end(refusal: Refusal | None, said: datetime) -> tuple[datetime | None, str]:
    """Return when a wait, stated at `said`, ends: a moment, or an event; (None, "") if not by itself.

    If `said` is not known, a span is an event: "in 5m".
    """
    if refusal is None:
        return None, ""
    end, known = refusal.end, get_known_time(said)
    event = f"in {format_rest(end.after)}" if known is None and end.after is not None else end.event
    return end.until(known), event


def next_move(pod: Pod, domains: Mapping[str, LikelyDomains], or_another: bool) -> NextMove:
    """Convert the eviction of a pod to what follows a wait; `domains` may receive its replacement."""
    return NextMove(namespace=pod.namespace, pod=pod.name, node=pod.node or "", domains=domains, or_another=or_another)


def likely_domains(targets: Iterable[Target]) -> Mapping[str, LikelyDomains]:
    """Shorten the domains that a plan predicts, because a status with hundreds of moves must fit into a ConfigMap."""
    return shorten({target.topology_key: target.values for target in targets})


def shorten(domains: Mapping[str, Sequence[str]], most: int | None = MOST_LIKELY) -> Mapping[str, LikelyDomains]:
    """Return the first `most` domains of each key; None returns all."""
    return {
        key: LikelyDomains(values=tuple(values[:most]), more=len(values) - len(values[:most]))
        for key, values in domains.items()
    }


def find_waits(account: Account) -> tuple[RepairWait, ...]:
    """Return why the first twenty repairs that do not go on wait; waits that end first come first."""
    waits = ((repair, repair.wait) for repair in account.waits if repair.wait is not None)
    first = nsmallest(MOST_WAITS, waits, key=lambda one: one[1].rank)
    return tuple(repair_wait(repair, wait, account) for repair, wait in first)


def limit_waits(limits: Iterable[EvaluatedLimit], most: int) -> Iterator[RepairWait]:
    """Yield up to `most` limits that no placement satisfies, as waits: evictions leave them violated."""
    for limit in islice((one for one in limits if one.reason is not None), most):
        workloads = sorted({part.member.reference for part in limit.parts})
        yield RepairWait(
            namespace=limit.namespace,
            workloads=tuple(map(workload_name, workloads)),
            violated=(limit_name(f"{limit.group}/{limit.limit}", limit.rule.bound, limit.topology_key),),
            stuck=True,
            reason=limit.reason or "",
            message=limit.message,
            until=None,
            ends_with="",
            usual=None,
            then=None,
        )


def repair_wait(repair: Repair, wait: Wait, account: Account) -> RepairWait:
    """Convert a repair that does not go on."""
    (refusal, first, until), group, moves = wait, repair.component, account.moves
    then = None
    if first is not None:
        then = next_move(first.pod, likely_domains(first.targets), first.workload in account.undecided)
    return RepairWait(
        namespace=group.component.namespace,
        workloads=tuple(map(workload_name, group.workloads)),
        violated=tuple(_violations(group)),
        evictions=group.evictions,
        blocked=repair.numbers.blocked,
        stuck=group.state is not State.VIOLATED and not repair.needed and not _moves(group, moves),
        without_node=not is_violated(group.component),
        reason=refusal.reason,
        message=refusal.timeless,
        until=until,
        ends_with=refusal.end.event,
        usual=find_usual(moves, group.workloads) if refusal.end.of_move else None,
        then=then,
    )


def _moves(group: ComponentPlan, moves: Iterable[Move]) -> bool:
    """Return whether a pod of a component moves, with an outcome that is not known yet."""
    moving = {move.workload for move in moves if move.in_flight}
    return bool(moving) and not moving.isdisjoint(group.workloads)


def _violations(group: ComponentPlan) -> Iterator[str]:
    """Yield the violated hard constraints with their counts, and the limits that are not satisfied."""
    before = current_counts(group.component)
    bounds = {
        (one.constraint.key, one.constraint.max_skew): None
        for evaluated in group.groups
        for one in evaluated.hard
        if one.counts.violated
    }
    for key, max_skew in bounds:
        yield f"{short_key(key)} {counts_change(before.get(key, {}), {})} (maxSkew {max_skew})"
    for limit in group.limits:
        if limit.state is not State.SATISFIED:
            name = limit_name(f"{limit.group}/{limit.limit}", limit.rule.bound, limit.topology_key)
            in_part = limit.state is State.INFEASIBLE and group.state is State.VIOLATED
            yield f"{name}, only in part" if in_part else name


def find_next_end(refusals: Iterable[Refusal], said: datetime | None) -> datetime | None:
    """Return the first moment at which one of these waits ends."""
    return min((until for refusal in refusals if (until := refusal.end.until(said)) is not None), default=None)


def find_usual(moves: Iterable[Move], workloads: Sequence[Reference]) -> Usual | None:
    """Return how long the last moves of some workloads took, None if none has succeeded."""
    took = [
        seconds_between(move.requested_at, move.ready_at or move.changed_at)
        for move in moves
        if move.state is MoveState.VERIFIED and move.workload in workloads
    ]
    if not took:
        return None
    return Usual(low=min(took), median=median_low(took), high=max(took), of=len(took))


class NamespaceHold(NamedTuple):
    """Why nothing is evicted in a namespace, and since when."""

    namespace: str
    since: datetime
    refusal: Refusal


def find_holds(
    context: AdmissionContext, unsettled: Iterable[UnsettledDomain], of_namespaces: Iterable[NamespaceHold]
) -> tuple[HoldStatus, ...]:
    """Return what keeps evictions back beyond single repairs; within a namespace, holds that end last come first."""
    said, holds = context.now, []
    for common in find_common_obstacles(context):
        if not isinstance(common, ModeObserves):
            opened = [known.since for known in context.breaker.causes] if isinstance(common, BreakerOpen) else []
            holds.append(_hold(WHOLE_CLUSTER, common, min(opened, default=None), said))
    last_first = sorted(of_namespaces, key=lambda one: Wait.of(one.refusal, said).rank, reverse=True)
    holds += [
        _hold(f"namespace {one.namespace}", one.refusal, one.since, said)
        for one in sorted(last_first, key=attrgetter("namespace"))
    ]
    holds += [
        _hold(f"{domain.motion.key}={domain.motion.value}", domain, domain.motion.since, said)
        for domain in islice(unsettled, MOST_WAITS)
    ]
    return tuple(holds)


def find_missing_rights(rights: Rights) -> list[NamespaceHold]:
    """Return the first namespaces in which this account may not evict, and since when that is known."""
    missing = islice(sorted(rights.missing.items()), MOST_WAITS)
    return [NamespaceHold(namespace, since, RightMissing(namespace, True)) for namespace, since in missing]


def find_misplaced_holds(memory: Memory, snapshot: Snapshot, now: datetime) -> list[NamespaceHold]:
    """Return the first namespaces that wait because a replacement landed elsewhere."""
    held = islice(find_misplaced(memory.moves, now).items(), MOST_WAITS)
    return [
        NamespaceHold(namespace, move.changed_at, misplaced_replacement(move, snapshot, memory))
        for namespace, move in held
    ]


def _hold(scope: str, refusal: Refusal, since: datetime | None, said: datetime) -> HoldStatus:
    return HoldStatus(
        scope=scope,
        reason=refusal.reason,
        message=refusal.timeless,
        since=since,
        until=refusal.end.until(said),
        ends_with=refusal.end.event,
    )
