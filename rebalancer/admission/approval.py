"""Mode Approve: which evictions are proposed to a person, and which of them a person has approved.

A proposal is stored and does not change from cycle to cycle, so that a person has time to read and approve it. It ends

* when it is carried out;
* when nothing was approved or done for `planTTL`;
* when planning no longer wants it;
* when it cannot proceed and others wait for it.

Each proposal has a new hash: an approval is valid once.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from typing import Final

import msgspec

from rebalancer.model.approvals import NO_COVERAGE, Coverage, Proposal
from rebalancer.model.moves import Memory
from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy

KEY: Final = "approved"
"""The key of the ConfigMap `rebalancer-approval` that holds the hash of the approved plan."""

HASH: Final = re.compile("[0-9a-f]{1,64}")
"""The form of a plan's hash; a bounded length keeps the stored approval small."""

MOST_WAIT: Final = timedelta(minutes=2)
"""How long others wait for an approved proposal that cannot proceed, counted from its last eviction."""

MOST_PROPOSED: Final = 200
"""The most evictions in a proposal, since a person reads them and the memory stores them."""


def plan_hash(evictions: Iterable[Eviction], policy_hash: str, proposed_at: datetime | None = None) -> str:
    """Hash the pods to evict, their order and steps, and the policy.

    The hash of a proposal includes when it was made. Pods that may be preempted for a replacement count as well.
    """
    order = [(eviction.step, eviction.pod.uid, eviction.pod.node, *eviction.preempted) for eviction in evictions]
    return hashlib.sha256(msgspec.json.encode((policy_hash, proposed_at, order))).hexdigest()[:16]


def expires_at(proposal: Proposal, policy: Policy) -> datetime:
    """Return when a proposal ends if nothing happens until then."""
    return proposal.since + policy.plan_ttl


def find_proposal(plan: Plan, memory: Memory, policy: Policy, approved: str, now: datetime) -> Proposal | None:
    """Return the stored proposal if it is still in force, with what a person has approved since.

    An unapproved proposal stays in force if the plan has all its evictions. An approved proposal lasts while any of its
    evictions is in flight, held back by planning, or possible now; a step that begins with another pod is another step.
    A changed team policy does not end a proposal, or any team could keep plans from being approved; the plan has no
    eviction that the team policy forbids.
    """
    proposal = memory.proposal
    if proposal is None or proposal.policy != policy.cluster.hash:
        return None
    # A time in the future, from another clock, must not delay its end.
    proposal = msgspec.structs.replace(proposal, since=min(proposal.since, now))
    if now >= expires_at(proposal, policy):
        return None
    held_back = {uid for waiting in plan.fates.kept for uid in waiting.eviction.concerned}
    if proposal.approved:
        lasts = _is_under_way(proposal, plan, memory) or not held_back.isdisjoint(proposal.uids)
        return proposal if lasts else None
    planned = {uid for eviction in plan.fates.evictions for uid in eviction.concerned}
    if not planned.issuperset(proposal.concerned):
        return None
    return msgspec.structs.replace(proposal, approved=True, since=now) if approved == proposal.hash else proposal


def holds_back_others(
    proposal: Proposal, plan: Plan, memory: Memory, possible: Collection[tuple[Eviction, ...]], now: datetime
) -> bool:
    """Return whether evictions that are not approved wait for an approved proposal that cannot proceed.

    They cannot be approved while that proposal lasts. `possible` are the steps that nothing else holds back. After a
    while every such step counts, because one workload that lacks a pod must not stop other repairs. A step counts at
    once if planning now takes other pods of the proposal's workloads first, because their evictions use up the budget.
    """
    if not proposal.approved or _is_under_way(proposal, plan, memory):
        return False
    if possible and now - proposal.since >= MOST_WAIT:
        return True
    blocked = [waiting for waiting in plan.fates.kept if waiting.eviction.pod.uid in proposal.uids]
    groups = {waiting.eviction.group for waiting in blocked if waiting.refusal.reason is Reason.BLOCKED_BY_BUDGET}
    return any(step[0].group in groups for step in possible)


def _is_under_way(proposal: Proposal, plan: Plan, memory: Memory) -> bool:
    """Return whether an eviction of an approved proposal is in flight, or possible according to the plan."""
    in_flight = {move.uid for move in memory.in_flight}
    possible = any(approved_part(step, proposal) for step in split_steps(plan.fates.going))
    return possible or not in_flight.isdisjoint(proposal.uids)


def propose(
    evictions: Sequence[Eviction], policy: Policy, now: datetime, coverage: Coverage = NO_COVERAGE
) -> Proposal | None:
    """Return the proposal of these evictions, up to the most whole steps that it may have; None without any.

    `coverage` is what its approval as a whole covers.
    """
    chosen: list[Eviction] = []
    for step in split_steps(evictions):
        part = step[: MOST_PROPOSED - len(chosen)]
        if len(part) >= (part[0].needed if part else 1):
            chosen += part
    if not chosen:
        return None
    return Proposal(
        hash=plan_hash(chosen, policy.cluster.hash, now),
        policy=policy.cluster.hash,
        since=now,
        uids=tuple(eviction.pod.uid for eviction in chosen),
        preempted=tuple(uid for eviction in chosen for uid in eviction.preempted),
        coverage=coverage,
    )


def split_steps(evictions: Iterable[Eviction]) -> list[tuple[Eviction, ...]]:
    """Return the evictions of each step of a plan, in the plan's order."""
    return [tuple(step) for _, step in groupby(evictions, key=lambda eviction: eviction.step)]


def approved_part(step: Sequence[Eviction], proposal: Proposal) -> tuple[Eviction, ...]:
    """Return the approved prefix of a step; empty if the prefix is no step without the rest.

    A pod is approved together with exactly those pods that may be preempted for its replacement.
    """
    uids = proposal.concerned
    part = tuple(takewhile(lambda eviction: uids.issuperset(eviction.concerned), step))
    return part if part and len(part) >= part[0].needed else ()
