"""How a supposed state differs from the indexes that it shares with the observed one."""

from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.model.pods import Pod
from rebalancer.scheduling.population import PlacedPods


class ViewDelta(NamedTuple):
    """One pod more (`sign` 1) or less (-1) on a node than the indexes know of."""

    pod: Pod
    node: str
    sign: int
    terminating: bool


def changes(before: PlacedPods | None, now: PlacedPods) -> Iterable[ViewDelta]:
    """Yield what moving a pod changes: one less where the indexes have it, one more where it is now."""
    if before is not None and before.node is not None:
        yield ViewDelta(before.pod, before.node, -1, before.terminating)
    if now.node is not None:
        yield ViewDelta(now.pod, now.node, 1, now.terminating)


def forget(
    pod: Pod,
    supposed: PlacedPods,
    before: PlacedPods | None,
    inside: dict[str, tuple[ViewDelta, ...]],
    on: dict[str, tuple[ViewDelta, ...]],
) -> None:
    """Take back what an earlier move of a pod changed."""
    for index, key in (
        (inside, pod.namespace),
        *((on, standing.node) for standing in (supposed, before) if standing is not None and standing.node is not None),
    ):
        if key in index:
            index[key] = tuple(change for change in index[key] if change.pod.uid != pod.uid)
            if not index[key]:
                del index[key]
