"""A simulation as a story: what happens and what the controller makes of it, line by line, at simulated times.

A scene begins with each change, and with what the controller makes of it. Everything happens at its own simulated time,
whatever the pace of whoever watches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rebalancer.assessment.assess import Assessment
from rebalancer.controller.state import LoopState
from rebalancer.engine import evaluate
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import plural, short_key
from rebalancer.reporting.plan_numbers import plan_numbers
from rebalancer.simulator import HOSTNAME, ZONE, TraceEntry, TraceKind
from rebalancer.simulator.play import Play
from rebalancer.simulator.scenario import Scenario

_OF_PODS: Final = frozenset({"Evicted", "MoveVerified", "MoveIneffective", "EvictionBlocked", "EvictionFailed"})
"""Reasons whose events on pods are shown; of the others those on workloads are."""

_ALERTS: Final = frozenset({"ShareLimitViolated", "ShareLimitInfeasible", "PlacementDeadlock"})


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """One line, so long after the start. A scene begins with it, or it is an alert, which is shown in red."""

    at: timedelta
    text: str
    is_scene: bool = False
    is_alert: bool = False

    @property
    def ends_step(self) -> bool:
        """Whether `--step` stops at it."""
        return self.is_scene or self.is_alert


@dataclass(frozen=True, kw_only=True)
class Instant:
    """The cluster at one moment: its pods, and what follows from them."""

    snapshot: Snapshot
    assessment: Assessment

    @property
    def without_node(self) -> list[Pod]:
        """The pods that have no node, or one that does not exist any more."""
        return _find_without_node(self.snapshot)


class Story:
    """One play of a scenario, and what there is to tell of it so far."""

    def __init__(self, scenario: Scenario, play: Play) -> None:
        self.scenario = scenario
        self.play = play
        self.scene = scenario.begins
        self.pace = scenario.pace
        self.minimum = 0
        """The proved minimum of evictions when the repair began."""
        self.repaired = False
        """Whether everything has happened, every constraint is satisfied and no move is in flight."""
        self.most_without_node = 0
        self.alerts: list[StoryLine] = []
        first = play.cluster.snapshot(play.start)
        self.zones = frozenset(node.labels.get(ZONE, "") for node in first.nodes)
        """The zones at the start."""
        self.evicted_while_paused = 0
        self._left = len(play.left)
        self._cycles = self._evicted = self._shown_entries = 0

    @property
    def loop(self) -> LoopState:
        """The loop's state."""
        return self.play.state

    @property
    def elapsed(self) -> timedelta:
        """How much simulated time has passed."""
        return self.play.cluster.now - self.play.start

    @property
    def refused(self) -> int:
        """How many evictions the simulated API server refused."""
        return sum(entry.kind is TraceKind.REFUSED for entry in self.play.cluster.trace)

    def look(self) -> Instant:
        """Return the cluster at the present moment: the scheduler's view of it, not that of the last cycle."""
        snapshot = self.play.cluster.snapshot(self.play.cluster.now)
        made = evaluate(snapshot, self.play.policy, profile=self.loop.in_force.profile, memory=self.loop.memory)
        return Instant(snapshot=snapshot, assessment=made.assessment)

    def advance(self, until: datetime, *, to_scene: bool = False) -> Iterator[StoryLine]:
        """Play to a simulated time, or to the end if that comes sooner; yield the new lines.

        With `to_scene` it ends with the next scene or alert, too.
        """
        for _ in self.play.advance(until):
            lines = list(self._tell())
            yield from lines
            if to_scene and any(line.ends_step for line in lines):
                return

    def _tell(self) -> Iterator[StoryLine]:
        """Yield the lines about what has happened since the last call."""
        if self._left > len(self.play.left):
            self._left = len(self.play.left)
            change = self.play.change
            assert change is not None
            self.pace = change.pace or self.pace
            yield self._begin_scene(change.says or change.text)
        has_cycle = self.play.cycles > self._cycles
        self._cycles = self.play.cycles
        if has_cycle:
            yield from self._tell_repair()
        yield from self._tell_trace()
        if has_cycle and not self.repaired and self._is_repaired():
            self.repaired = True
            yield self._begin_scene(self.scenario.repaired)
        if self.play.over and not self.repaired:
            yield self._begin_scene("The simulation ends here")

    def _tell_repair(self) -> Iterator[StoryLine]:
        evicted = self.play.evicted - self._evicted
        if self.loop.in_force.pause is not None:
            self.evicted_while_paused += evicted
        snapshot = self.play.cluster.snapshot(self.play.cluster.now)
        self.most_without_node = max(self.most_without_node, len(_find_without_node(snapshot)))
        if evicted and not self._evicted:
            cycle = self.loop.cycle
            assert cycle is not None
            self.pace = self.scenario.repair_pace or self.pace
            self.minimum = plan_numbers(cycle.plan).lower_bound
            yield self._begin_scene(f"The repair needs {plural(self.minimum, 'eviction')} (proved minimum)")
        self._evicted += evicted

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
                line = StoryLine(at=entry.at - self.play.start, text=text, is_alert=reason in _ALERTS)
                if line.is_alert:
                    self.alerts.append(line)
                yield line

    def _begin_scene(self, text: str) -> StoryLine:
        self.scene = text
        return StoryLine(at=self.elapsed, text=text, is_scene=True)

    def _is_repaired(self) -> bool:
        cycle = self.loop.cycle
        assert cycle is not None
        remains = cycle.assessment.violated or cycle.assessment.deadlocks or self.loop.memory.in_flight
        return bool(self._evicted and not self.play.left and not remains)


def _find_without_node(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if not pod.terminating and pod.node not in snapshot.node]


def _event_text(entry: TraceEntry) -> tuple[str, str]:
    """Return the reason of an event and its text, "" for what is not shown."""
    if entry.kind is not TraceKind.EVENT:
        return "", ""
    reason, _, note = entry.detail.partition(": ")
    kind, _, name = entry.object.partition(" ")
    if (kind == "Pod") != (reason in _OF_PODS):
        return reason, ""
    for key in (ZONE, HOSTNAME):
        note = note.replace(key, short_key(key))
    return reason, f"{reason}: {kind} {name}: {note}"
