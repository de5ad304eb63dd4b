"""Chooses the surges that begin: repairs of a cycle's plan that wait only for pods to be added."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.adding_first import AddedFirst
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates
from rebalancer.policy import RepairBy
from rebalancer.surge.record import MOST_SURGES, Marked, Phase, Surge

_GROWS: Final = timedelta(seconds=30)


def find_surges(
    fates: Fates,
    snapshot: Snapshot,
    rules: RepairBy,
    known: Collection[Surge],
    approved_by: Mapping[str, str],
    now: datetime,
) -> Iterator[Surge]:
    """Yield the surges that may begin, in the order of the plan; at most one for each workload.

    `approved_by` maps the UID of a pod to the plan whose approval lets it go.
    """
    busy = {one.uid for one in known}
    room = MOST_SURGES - len(busy)
    for evictions in _complete_steps(fates):
        if not room:
            return
        surge = _make(evictions, snapshot, rules, approved_by.get(evictions[0].pod.uid, ""), now)
        if surge is not None and surge.uid not in busy:
            busy.add(surge.uid)
            room -= 1
            yield surge


def is_growing(surge: Surge, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether a surge still creates pods, whose capacity no plan knows yet.

    If the API server refuses these pods, other surges wait for them for at most half a minute.
    """
    if surge.phase in {Phase.MARKING, Phase.ADDING}:
        return now - surge.begun < _GROWS
    living = sum(not pod.terminating and not pod.finished for pod in snapshot.pods_of.get(surge.owner, ()))
    return surge.phase is Phase.WAITING and living < surge.most and now - surge.begun < _GROWS


def _complete_steps(fates: Fates) -> Iterator[tuple[Eviction, ...]]:
    """Yield the victims of each repair that adds pods first, if all victims may go."""
    waiting: dict[str, list[Eviction]] = {}
    for fate in fates.waiting:
        if isinstance(fate.refusal, AddedFirst):
            waiting.setdefault(fate.eviction.group, []).append(fate.eviction)
    for evictions in waiting.values():
        if len(evictions) == evictions[0].repair.added:
            yield tuple(evictions)


def _make(
    evictions: tuple[Eviction, ...], snapshot: Snapshot, rules: RepairBy, approval: str, now: datetime
) -> Surge | None:
    first = evictions[0]
    owner = snapshot.owner_of(first.pod)
    if owner is None:
        return None
    top = snapshot.top_of(owner)
    return Surge(
        namespace=top.namespace,
        kind=top.kind,
        name=top.name,
        uid=top.uid,
        owner=owner.uid,
        group=first.group,
        count=top.replicas,
        added=first.repair.added,
        victims=tuple(Marked(one.pod.uid, one.pod.name, one.pod.node or "") for one in evictions),
        begun=now,
        until=now + rules.timeout,
        approval=approval,
    )
