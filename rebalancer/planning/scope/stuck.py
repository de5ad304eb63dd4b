"""Pods that wait and that no node admits: the only ones for which others may have to make way."""

from datetime import timedelta

from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View

_TRIED = timedelta(seconds=10)
"""The longest back-off of the scheduler's queue: after it, a pod is tried whenever something changes."""


def stuck_pods(view: View) -> frozenset[str]:
    """Return the UIDs of pods that have waited beyond the scheduler's back-off and that no node admits."""
    now = view.snapshot.taken_at
    return frozenset(
        pod.uid
        for pod in view.snapshot.unplaced
        if now - pod.created > _TRIED and unpredictable(pod, view) is None and not feasible(pod, view)
    )
