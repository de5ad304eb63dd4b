"""An observer of one replica: it lets planning take time, and shows the monitor what the loop decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rebalancer.controller.state import LoopState
from rebalancer.model.moves import MoveState
from rebalancer.policy import Mode
from tests.world.monitor import CHECK_TO_SEND

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
        self._needed: dict[str, int] = {}
        """How many evictions the admitted step of each group requires."""
        self._torn: set[tuple[int, str]] = set()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Let time pass while it plans."""
        if name == "snapshot":
            self._replica.planned_at = self._world.hub.seconds
        yield
        if name == "plan" and self._world.planning_seconds:
            self._world.hub.sleep(self._world.planning_seconds)

    def changed(self, state: LoopState) -> None:
        """Let the monitor see what was admitted and requested, and how moves ended."""
        monitor, name = self._world.monitor, self._replica.name
        self._replica.note_requests(state)
        self._requested |= {request.group for request in state.queue.under_way}
        if state.turn != self._turn and state.cycle is not None:
            self._turn = state.turn
            admitted = {eviction.group for eviction in state.cycle.fates.going}
            monitor.admits(name, state.turn, admitted, self._requested)
            self._requested = set()
            self._needed = {eviction.group: eviction.needed for eviction in state.cycle.fates.going}
        self._check_steps(state)
        if state.memory.moves is self._moves:
            return
        self._moves = state.memory.moves
        for move in state.memory.moves:
            if move.state.over and move.uid not in self._ended:
                self._ended.add(move.uid)
                if state.turn > 1:  # a move that ended under another leader is its own
                    monitor.records.ends(name, move, self._replica.stale_for())

    def _check_steps(self, state: LoopState) -> None:
        """Check that what a begun step requires is requested, unless everything is held back or its group refused."""
        world, cycle = self._world, state.cycle
        if (
            cycle is None
            or not state.leadership.leads
            or state.in_force.pause is not None
            or state.mode is Mode.OBSERVE
        ):
            return
        if not self._replica.elector.leads():
            return  # the event of it is under way
        queued = {eviction.group for eviction in state.queue.evictions}
        under_way = {request.uid for request in state.queue.under_way}
        since = cycle.context.now
        for group, number in state.queue.sent.items():
            if not 0 < number < self._needed.get(group, 1) or group in queued or (state.turn, group) in self._torn:
                continue
            moves = [move for move in state.memory.moves if move.group == group and move.requested_at >= since]
            goes_on = all(move.state is MoveState.EVICTED or move.uid in under_way for move in moves)
            was_stopped = self._replica.resumed_for() < CHECK_TO_SEND  # what it read of the kill switch came too late
            if moves and goes_on and not was_stopped and not world.was_unreachable:
                self._torn.add((state.turn, group))
                world.monitor.breach(f"{self._replica.name} leaves a step of {group} after {number} evictions")
