"""An observer of one replica: it lets planning take time, and shows the monitor what the loop decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rebalancer.controller.state import LoopState

if TYPE_CHECKING:
    from tests.world.replica import Replica
    from tests.world.world import World


class WorldObserver:
    """An observer in the place of the metrics."""

    def __init__(self, world: "World", replica: "Replica") -> None:
        self._world, self._replica = world, replica
        self._requested: set[str] = set()
        self._turn = 0
        self._ended: set[str] = set()
        self._moves: object = ()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Let time pass while it plans."""
        if name == "snapshot":
            self._replica.planned_at = self._world.hub.seconds
        yield
        if name == "plan" and self._world.planning_seconds:
            self._world.hub.sleep(self._world.planning_seconds)

    def answered(self, result: object) -> None:
        """Count nothing."""

    def changed(self, state: LoopState) -> None:
        """Let the monitor see what was admitted and requested, and how moves ended."""
        monitor, name = self._world.monitor, self._replica.name
        self._requested |= {request.group for request in state.under_way}
        if state.turn != self._turn and state.cycle is not None:
            self._turn = state.turn
            admitted = {eviction.group for eviction in state.cycle.admission.evictions}
            monitor.admits(name, state.turn, admitted, self._requested)
            self._requested = set()
        if state.memory.moves is self._moves:
            return
        self._moves = state.memory.moves
        for move in state.memory.moves:
            if move.state.over and move.uid not in self._ended:
                self._ended.add(move.uid)
                if state.turn > 1:  # a move that ended under another leader is its own
                    monitor.records.ends(name, move, self._replica.stale_for())
