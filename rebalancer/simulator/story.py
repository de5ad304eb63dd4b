"""A simulation as a story: the changes and the controller's reactions, line by line, at simulated times.

A scene begins with each change, and another scene with the controller's reaction to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from rebalancer.account.numbers import plan_numbers
from rebalancer.controller.state import LoopState
from rebalancer.engine import Evaluation
from rebalancer.model.words import plural, shorten_keys
from rebalancer.simulator import ZONE, TraceEntry, TraceKind
from rebalancer.simulator.play import Play
from rebalancer.simulator.scenario import Scenario

_OF_PODS: Final = frozenset({"Evicted", "MoveVerified", "MoveIneffective", "EvictionBlocked", "EvictionFailed"})
"""Reasons of events that are shown on pods; all other events are shown on workloads."""

_ALERTS: Final = frozenset({"ShareLimitViolated", "ShareLimitInfeasible", "PlacementDeadlock"})


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """A line of the story, and when it was told, counted from the start.

    It may begin a scene, or be an alert, which is shown in red.
    """

    at: timedelta
    text: str
    is_scene: bool = False
    is_alert: bool = False

    @property
    def ends_step(self) -> bool:
        """Whether `--step` stops at this line."""
        return self.is_scene or self.is_alert


class Story:
    """One play of a scenario, and its lines so far."""

    def __init__(self, scenario: Scenario, play: Play) -> None:
        self.scenario = scenario
        self.play = play
        self.scene = scenario.begins
        self.minimum = 0
        """The proved minimum of evictions when the repair began."""
        first = play.cluster.snapshot(play.start)
        self.zones = frozenset(node.labels.get(ZONE, "") for node in first.nodes)
        """The zones at the start."""
        self._left = len(play.left)
        self._repaired = False
        """Whether every change has been made, every constraint is satisfied and no move is in flight."""
        self._began = False
        """Whether the repair has begun."""
        self._cycles = self._shown_entries = 0

    @property
    def loop(self) -> LoopState:
        return self.play.state

    @property
    def evaluation(self) -> Evaluation:
        """What the controller found in its last cycle."""
        cycle = self.loop.cycle
        assert cycle is not None
        return cycle.evaluation

    @property
    def elapsed(self) -> timedelta:
        """How much simulated time has passed since the start."""
        return self.play.cluster.now - self.play.start

    def advance(self) -> Iterator[list[StoryLine]]:
        """Play to the end; after each cycle, and at the end, yield the new lines if there are any."""
        lines: list[StoryLine] = []
        for _ in self.play.advance():
            has_cycle = self.play.cycles > self._cycles
            self._cycles = self.play.cycles
            lines += self._tell(has_cycle=has_cycle)
            if has_cycle or self.play.over:
                yield lines
                lines = []

    def _tell(self, *, has_cycle: bool) -> Iterator[StoryLine]:
        """Yield the lines about what has happened since the last call."""
        if self._left > len(self.play.left):
            self._left = len(self.play.left)
            change = self.play.change
            assert change is not None
            yield self._begin_scene(change.says or change.text)
        if has_cycle:
            yield from self._tell_repair()
        yield from self._tell_trace()
        if has_cycle and not self._repaired and self._is_repaired():
            self._repaired = True
            yield self._begin_scene(self.scenario.repaired)
        if self.play.over and not self._repaired:
            yield self._begin_scene("The simulation ends here")

    def _tell_repair(self) -> Iterator[StoryLine]:
        began = self.play.repair_began is not None
        if began and not self._began:
            self.minimum = plan_numbers(self.evaluation.plan).lower_bound
            yield self._begin_scene(f"The repair needs {plural(self.minimum, 'eviction')} (proved minimum)")
        self._began = began

    def _tell_trace(self) -> Iterator[StoryLine]:
        entries = self.play.cluster.trace[self._shown_entries :]
        self._shown_entries += len(entries)
        lost = sum(entry.kind is TraceKind.DELETED and bool(entry.detail) for entry in entries)
        if lost:
            text = f"{plural(lost, 'pod')} deleted with the lost nodes; their replacements start elsewhere"
            yield StoryLine(at=self.elapsed, text=text)
        for entry in entries:
            reason, text = _event_text(entry)
            if text:
                yield StoryLine(at=entry.at - self.play.start, text=text, is_alert=reason in _ALERTS)

    def _begin_scene(self, text: str) -> StoryLine:
        self.scene = text
        return StoryLine(at=self.elapsed, text=text, is_scene=True)

    def _is_repaired(self) -> bool:
        assessment = self.evaluation.assessment
        is_moving = self.loop.memory.in_flight or self.loop.reported.surges.under_way
        remains = assessment.violated or assessment.deadlocks or is_moving
        return bool(self.play.moved and not self.play.left and not remains)


def _event_text(entry: TraceEntry) -> tuple[str, str]:
    """Return the reason and the text of an event; "" if the event is not shown."""
    if entry.kind is not TraceKind.EVENT:
        return "", ""
    reason, _, note = entry.detail.partition(": ")
    kind, _, name = entry.object.partition(" ")
    if (kind == "Pod") != (reason in _OF_PODS):
        return reason, ""
    return reason, f"{reason}: {kind} {name}: {shorten_keys(note)}"
