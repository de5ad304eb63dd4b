"""Surges in `status` and on the page: one row each, why none goes on, and how many surplus pods remain."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.documents.phrases import ago
from rebalancer.documents.status import StatusDocument
from rebalancer.documents.surges import pods_go
from rebalancer.model.words import plural

SURGE_COLUMNS: Final = ("WORKLOAD", "ADDS", "THEN", "PHASE", "READY", "SINCE", "WAITS")


def surge_rows(status: StatusDocument, now: datetime) -> Sequence[Sequence[str]]:
    """Return the cells of the surges that are under way."""
    return [
        (
            f"{one.namespace}/{one.workload.name} ({one.workload.kind})",
            plural(one.added, "pod"),
            pods_go(one.victims),
            one.phase,
            f"{one.ready} of {one.count + one.added}",
            ago(one.begun, now),
            "" if status.surges_stopped else one.waits,
        )
        for one in status.surges
    ]


def surge_sentences(status: StatusDocument) -> Iterator[str]:
    """Yield which workloads get no added pods, why no surge goes on, and how many surplus pods remain."""
    for refused in status.surges_refused:
        yield f"No pods are added to {refused.namespace}/{refused.workload.name}: {refused.why}."
    if not status.surges_stopped:
        return
    yield f"No surge begins or goes on: {status.surges_stopped}."
    surplus = sum(one.surplus for one in status.surges)
    if surplus:
        end = "until the pause ends" if status.paused is not None else "until surges go on"
        yield f"{plural(surplus, 'pod')} more than wanted {'stays' if surplus == 1 else 'stay'} {end}."
