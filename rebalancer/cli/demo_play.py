"""The run that `demo` shows: the real loop on a simulated cluster that loses a zone and gets it back.

Everything happens at its own simulated time, whatever the speed of the display, so that a seed gives one run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rebalancer.adapters.simulator import HOSTNAME, START, ZONE, ClusterBuilder, SimulatedCluster, TraceEntry, TraceKind
from rebalancer.controller.state import LoopState
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import load_policy
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.phrases import plural
from rebalancer.reporting.plan_numbers import plan_numbers
from rebalancer.simulation.controller import SimulatedController

POLICY: Final = b"""\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
interval: 10s
spread: {for: 20s}
eligibility: {minAge: 30s}
budgets: {maxUnavailable: 2, perWorkload: 20%}
nodes: {settle: 20s}
"""
"""A policy with short waiting times; the defaults wait for minutes."""

ZONES: Final = ("a", "b", "c")
LOST: Final = "c"
_LOST_AFTER: Final = timedelta(seconds=20)
_BACK_AFTER: Final = timedelta(seconds=100)
_QUIET_END: Final = timedelta(seconds=20)
"""How long the demo continues after the repair, to show that nothing more is evicted."""

LONGEST: Final = timedelta(minutes=30)

_MOVE_EVENTS: Final = frozenset({"Evicted", "MoveVerified", "MoveIneffective", "EvictionBlocked", "EvictionFailed"})
"""Reasons with one event on the pod and one on its workload; only the pod's is shown."""


def initial_snapshot() -> Snapshot:
    """Three zones of three nodes and three workloads, evenly spread."""
    blueprint = ClusterBuilder(START)
    blueprint.zones(ZONES, nodes=3)
    nodes = [f"{zone}-{number}" for number in (1, 2, 3) for zone in ZONES]
    blueprint.deployment("web", namespace="shop", on=dict.fromkeys(nodes, 2), spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("web", namespace="shop", max_unavailable=2)
    blueprint.deployment("cart", namespace="shop", on=dict.fromkeys(nodes, 1), spread={ZONE: 1})
    blueprint.budget("cart", namespace="shop", min_available="75%")
    blueprint.stateful_set("db", namespace="shop", on=dict.fromkeys(nodes[:6], 1), spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("db", namespace="shop", max_unavailable=1)
    return blueprint.snapshot()


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """One line of the demo, at its simulated time."""

    at: datetime
    text: str


@dataclass(frozen=True, kw_only=True)
class _ScheduledEvent:
    at: datetime
    text: str
    do: Callable[[], None]


class DemoRun:
    """One run of the demo and its state so far."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimulatedCluster(initial_snapshot(), seed=seed)
        policy = load_policy(POLICY, source="the demo's policy")
        self._interval = policy.interval
        self._controller = SimulatedController(self.cluster, policy, name="demo")
        self._events = [
            _ScheduledEvent(
                at=START + _LOST_AFTER,
                text=f"Zone {LOST} is lost with its nodes",
                do=lambda: self.cluster.nodes.remove_domain(ZONE, LOST),
            ),
            _ScheduledEvent(
                at=START + _BACK_AFTER,
                text=f"Zone {LOST} is back and empty: Kubernetes does not move running pods there",
                do=lambda: self.cluster.nodes.restore_domain(ZONE, LOST),
            ),
        ]
        self._next_cycle = START
        self._shown_entries = 0
        self._quiet_since: datetime | None = None
        self.scene = "Three zones, three workloads, evenly spread"
        self.minimum = 0
        """The proved minimum of evictions when the zone was back."""

    @property
    def loop(self) -> LoopState:
        """The loop's state."""
        return self._controller.state

    @property
    def evicted(self) -> int:
        """How many evictions were granted."""
        return self._controller.evicted

    @property
    def repaired(self) -> bool:
        """Whether the zone is back, every constraint is satisfied and no move is in flight."""
        return self._quiet_since is not None

    @property
    def over(self) -> bool:
        """Whether the demo has ended."""
        if self._quiet_since is not None and self.cluster.now - self._quiet_since >= _QUIET_END:
            return True
        return self.cluster.now - START >= LONGEST

    def advance(self, until: datetime) -> Iterator[StoryLine]:
        """Run to a simulated time, or to the end if that comes sooner; yield the new lines."""
        while not self.over:
            following = min(until, self._next_cycle, *(act.at for act in self._events))
            self.cluster.advance((following - self.cluster.now).total_seconds())
            yield from self._new_lines()
            if self._events and self._events[0].at <= following:
                yield self._perform(self._events.pop(0))
            if self._next_cycle <= following:
                yield from self._cycle()
                self._next_cycle += self._interval
            if following >= until:
                return

    def _perform(self, act: _ScheduledEvent) -> StoryLine:
        act.do()
        self.scene = act.text
        return StoryLine(at=self.cluster.now, text=act.text)

    def _cycle(self) -> Iterator[StoryLine]:
        self._controller.run_cycle()
        cycle = self.loop.cycle
        assert cycle is not None
        if not self._events:
            minimum = plan_numbers(cycle.plan).lower_bound
            if minimum and not self.minimum:
                self.scene = f"The repair needs {plural(minimum, 'eviction')} (proved minimum)"
                yield StoryLine(at=self.cluster.now, text=self.scene)
            self.minimum = max(self.minimum, minimum)
        yield from self._new_lines()
        busy = bool(self._events or cycle.assessment.violated or self.loop.memory.in_flight)
        if busy:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = self.cluster.now
            self.scene = "Everything is evenly spread again"
            yield StoryLine(at=self.cluster.now, text=self.scene)

    def _new_lines(self) -> Iterator[StoryLine]:
        """Yield the lines about what has happened since the last call."""
        entries = self.cluster.trace[self._shown_entries :]
        self._shown_entries += len(entries)
        collected = sum(entry.kind is TraceKind.GONE for entry in entries)
        if collected and len(self._events) == 1:  # while the zone is away nobody else deletes a pod
            yield StoryLine(
                at=self.cluster.now,
                text=f"{plural(collected, 'pod')} lost with the nodes; their replacements start elsewhere",
            )
        for entry in entries:
            text = _event_text(entry)
            if text:
                yield StoryLine(at=entry.at, text=text)


def _event_text(entry: TraceEntry) -> str:
    """Return an event as text, "" for what is not shown."""
    if entry.kind is not TraceKind.EVENT:
        return ""
    reason, _, note = entry.detail.partition(": ")
    kind, _, name = entry.object.partition(" ")
    if reason in _MOVE_EVENTS and kind != "Pod":
        return ""
    for key in (ZONE, HOSTNAME):
        note = note.replace(key, short_key(key))
    return f"{reason}: {kind} {name}: {note}"
