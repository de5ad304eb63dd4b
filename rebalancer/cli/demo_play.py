"""One run of a scenario of `demo`: the real loop on a simulated cluster.

Everything happens at its own simulated time, whatever the pace of the display, so that a seed gives one run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rebalancer.assessment.assess import Assessment
from rebalancer.cli.demo_scenarios import Scenario
from rebalancer.controller.state import LoopState
from rebalancer.engine import evaluate
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import load_policy
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.phrases import plural
from rebalancer.reporting.plan_numbers import plan_numbers
from rebalancer.simulator import HOSTNAME, START, ZONE, SimulatedCluster, TraceEntry, TraceKind
from rebalancer.simulator.controller import SimulatedController

_QUIET_END: Final = timedelta(seconds=10)
"""How long a run continues after the repair, to show that nothing more is evicted."""

LONGEST: Final = timedelta(minutes=30)

_OF_PODS: Final = frozenset({"Evicted", "MoveVerified", "MoveIneffective", "EvictionBlocked", "EvictionFailed"})
"""Reasons whose events on pods are shown; of the others those on workloads are."""

_ALERTS: Final = frozenset({"ShareLimitViolated", "ShareLimitInfeasible", "PlacementDeadlock"})


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """One line of the demo, at its simulated time. A scene begins with it, or it is an alert, which is shown in red."""

    at: datetime
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
        return [pod for pod in self.snapshot.pods if not pod.terminating and pod.node not in self.snapshot.node]


class DemoRun:
    """One run of a scenario and its state so far."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.cluster = SimulatedCluster(scenario.snapshot(), seed=seed)
        self._policy = load_policy(scenario.policy, source="the demo's policy")
        self._controller = SimulatedController(self.cluster, self._policy, name="demo")
        self._events = [(START + event.after, event) for event in scenario.events if not event.in_repair]
        self._next_cycle = START
        self._shown_entries = 0
        self._quiet_since: datetime | None = None
        self._repair_began: datetime | None = None
        self.scene = scenario.begins
        self.pace = scenario.pace
        self.minimum = 0
        """The proved minimum of evictions when the repair began."""
        self.most_without_node = 0
        self.alerts: list[StoryLine] = []
        self.evicted_while_paused = 0

    @property
    def loop(self) -> LoopState:
        """The loop's state."""
        return self._controller.state

    @property
    def evicted(self) -> int:
        """How many evictions were granted."""
        return self._controller.evicted

    @property
    def refused(self) -> int:
        """How many evictions the simulated API server refused."""
        return sum(entry.kind is TraceKind.REFUSED for entry in self.cluster.trace)

    @property
    def repaired(self) -> bool:
        """Whether everything has happened, every constraint is satisfied and no move is in flight."""
        return self._quiet_since is not None

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.cluster.now >= self._ends

    @property
    def _ends(self) -> datetime:
        return self._quiet_since + _QUIET_END if self._quiet_since is not None else START + LONGEST

    def look(self) -> Instant:
        """Return the cluster at the present moment: the scheduler's view of it, not that of the last cycle."""
        snapshot = self.cluster.snapshot(self.cluster.now)
        made = evaluate(snapshot, self._policy, profile=self.loop.in_force.profile, memory=self.loop.memory)
        return Instant(snapshot=snapshot, assessment=made.assessment)

    def advance(self, until: datetime, *, to_scene: bool = False) -> Iterator[StoryLine]:
        """Run to a simulated time, or to the end if that comes sooner; yield the new lines.

        With `to_scene` it ends with the next scene or alert, too.
        """
        while not self.over:
            following = min(until, self._ends, self._next_cycle, *(at for at, _ in self._events))
            self.cluster.advance((following - self.cluster.now).total_seconds())
            lines = list(self._new_lines())
            if self._events and self._events[0][0] <= following:
                lines += self._perform()
            if self._next_cycle <= following:
                lines += self._cycle()
                self._next_cycle += self._policy.interval
            yield from lines
            if following >= until or (to_scene and any(line.ends_step for line in lines)):
                return

    def _perform(self) -> list[StoryLine]:
        _, event = self._events.pop(0)
        event.do(self.cluster, self._controller)
        self.pace = event.pace
        return [self._begin_scene(event.text)]

    def _begin_scene(self, text: str) -> StoryLine:
        self.scene = text
        return StoryLine(at=self.cluster.now, text=text, is_scene=True)

    def _cycle(self) -> Iterator[StoryLine]:
        evicted = self.evicted
        self._controller.run_cycle()
        if self.loop.in_force.pause is not None:
            self.evicted_while_paused += self.evicted - evicted
        cycle = self.loop.cycle
        assert cycle is not None
        self.most_without_node = max(self.most_without_node, len(self.look().without_node))
        if self.evicted and self._repair_began is None:
            self._repair_began = self.cluster.now
            self.pace = self.scenario.repair_pace
            self.minimum = plan_numbers(cycle.plan).lower_bound
            later = [event for event in self.scenario.events if event.in_repair]
            self._events += [(self.cluster.now + event.after, event) for event in later]
            yield self._begin_scene(f"The repair needs {plural(self.minimum, 'eviction')} (proved minimum)")
        yield from self._new_lines()
        busy = bool(
            self._events
            or self._repair_began is None
            or cycle.assessment.violated
            or cycle.assessment.deadlocks
            or self.loop.memory.in_flight
        )
        if busy:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = self.cluster.now
            yield self._begin_scene(self.scenario.repaired)

    def _new_lines(self) -> Iterator[StoryLine]:
        """Yield the lines about what has happened since the last call."""
        entries = self.cluster.trace[self._shown_entries :]
        self._shown_entries += len(entries)
        collected = sum(entry.kind is TraceKind.GONE for entry in entries)
        if collected and self._repair_began is None:  # nobody else deletes a pod before it
            yield StoryLine(
                at=self.cluster.now,
                text=f"{plural(collected, 'pod')} deleted with the lost nodes; their replacements start elsewhere",
            )
        for entry in entries:
            reason, text = _event_text(entry)
            if text:
                line = StoryLine(at=entry.at, text=text, is_alert=reason in _ALERTS)
                if line.is_alert:
                    self.alerts.append(line)
                yield line


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
