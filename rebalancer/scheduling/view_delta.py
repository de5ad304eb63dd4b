"""How a hypothetical state differs from the indexes that it shares with the observed one."""

from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.model.pods import Pod
from rebalancer.scheduling.population import PlacedPod


class ViewDelta(NamedTuple):
    """One pod more (`sign` 1) or less (-1) on a node than in the indexes."""

    pod: Pod
    node: str
    sign: int
    terminating: bool


def compute_deltas(before: PlacedPod | None, now: PlacedPod) -> Iterable[ViewDelta]:
    """Yield the deltas of moving a pod: one less where the indexes have it, one more on its new node."""
    if before is not None and before.node is not None:
        yield ViewDelta(before.pod, before.node, -1, before.terminating)
    if now.node is not None:
        yield ViewDelta(now.pod, now.node, 1, now.terminating)


def discard_deltas(
    pod: Pod,
    hypothetical: PlacedPod,
    before: PlacedPod | None,
    inside: dict[str, tuple[ViewDelta, ...]],
    on: dict[str, tuple[ViewDelta, ...]],
) -> None:
    """Remove the deltas of an earlier move of a pod."""
    for index, key in (
        (inside, pod.namespace),
        *((on, placed.node) for placed in (hypothetical, before) if placed is not None and placed.node is not None),
    ):
        if key in index:
            index[key] = tuple(change for change in index[key] if change.pod.uid != pod.uid)
            if not index[key]:
                del index[key]
