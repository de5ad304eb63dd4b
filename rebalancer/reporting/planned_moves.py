"""The decided evictions of a plan: which go now, which wait and for what, and which no budget ever allows."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Never, Waits
from rebalancer.reporting.documents.map import MoveKind


class PlannedMove(NamedTuple):
    """A decided eviction; `reason` is what it waits for, None of one that may go."""

    eviction: Eviction
    kind: MoveKind
    reason: Reason | None


def find_planned_moves(fates: Fates) -> Iterator[PlannedMove]:
    """Yield the decided evictions in the order in which they go."""
    for fate in fates.rows:
        match fate:
            case Never():
                yield PlannedMove(fate.eviction, MoveKind.BLOCKED, fate.reason)
            case Waits():
                yield PlannedMove(fate.eviction, MoveKind.WAITING, fate.reason)
            case _:
                yield PlannedMove(fate.eviction, MoveKind.MOVING, None)
