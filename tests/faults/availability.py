"""How many pods of a workload were missing at each moment, and on whose account.

A pod that goes leaves a vacancy: by our eviction, or by another cause. The next new pod that becomes available fills
the oldest vacancy. What is missing besides is on others' account: pods that are there but not Ready.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.faults.history import PodChange


@dataclass(frozen=True, kw_only=True)
class Absence:
    """How many pods were missing from a moment on."""

    at: float
    version: int
    ours: int
    others: int
    evicted: str = ""
    """The UID of the pod that our eviction has just made unavailable, else empty."""


def follow_absences(changes: Iterable[PodChange], evicted: Collection[str], replicas: int) -> list[Absence]:
    """Return the number of missing pods after each change; `evicted` are the UIDs that we evicted."""
    pods: dict[str, PodChange] = {}
    filled: set[str] = set()
    vacancies: list[bool] = []
    absences: list[Absence] = []
    first = True
    for change in changes:
        before = pods.get(change.uid)
        left = change.terminating or change.gone
        newly_left = left and (before is None or not (before.terminating or before.gone))
        pods[change.uid] = change
        if newly_left:
            vacancies.append(change.uid in evicted)
        if change.available and change.uid not in filled:
            filled.add(change.uid)
            if vacancies:
                vacancies.pop(0)
        missing = replicas - sum(pod.available for pod in pods.values())
        ours = sum(vacancies)
        # The first changes are the pods that exist already, one after the other.
        first = first and len(pods) < replicas
        if not first:
            by_us = change.uid if newly_left and change.uid in evicted else ""
            absence = Absence(
                at=change.at, version=change.version, ours=ours, others=max(0, missing - ours), evicted=by_us
            )
            absences.append(absence)
    return absences


def least_others(absences: Sequence[Absence], since: float, version: int) -> int:
    """Return the least number that was missing on others' account in a time that ends with a change."""
    past = [absence for absence in absences if absence.version < version]
    least = [absence.others for absence in past if absence.at >= since]
    at_start = next((absence.others for absence in reversed(past) if absence.at < since), 0)
    return min([at_start, *least])
