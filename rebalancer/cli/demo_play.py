"""What `demo` plays: the real loop on a simulated cluster that loses a zone and gets it back.

Everything happens at its own simulated moment, whatever the pace at which somebody watches, so a seed gives one play.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rebalancer.adapters.simulator import HOSTNAME, START, ZONE, ClusterBuilder, SimulatedCluster, TraceEntry, TraceKind
from rebalancer.controller.runner import Runner
from rebalancer.controller.state import Leading, LoopState
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import load_policy
from rebalancer.ports import EvictionResult
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.phrases import plural

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
"""As somebody would write it who has little time; the defaults wait for minutes."""

ZONES: Final = ("a", "b", "c")
LOST: Final = "c"
_LOST_AFTER: Final = timedelta(seconds=20)
_BACK_AFTER: Final = timedelta(seconds=100)
_LOOK_ON: Final = timedelta(seconds=20)
"""How long the play goes on when everything is repaired, so that one sees that nothing more happens."""

LONGEST: Final = timedelta(minutes=30)

_TOLD: Final = frozenset({"Evicted", "MoveVerified", "MoveIneffective", "EvictionBlocked", "EvictionFailed"})
"""Events about a move: there is one on the pod and one on its workload, and the pod's is told."""


def first_state() -> Snapshot:
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
class Line:
    """One thing worth telling, at its simulated moment."""

    at: datetime
    text: str


@dataclass(frozen=True, kw_only=True)
class _Act:
    at: datetime
    text: str
    do: Callable[[], None]


class Counting:
    """The loop's observer: counts what was evicted."""

    def __init__(self) -> None:
        self.evicted = 0

    def phase(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002  # nobody asks how long it takes
        """Time nothing."""
        return nullcontext()

    def answered(self, result: EvictionResult) -> None:
        """Count what was granted."""
        self.evicted += result is EvictionResult.EVICTED

    def changed(self, state: LoopState) -> None:
        """Take no notice: the state is read where it is shown."""


class Play:
    """The play, as far as it has come."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimulatedCluster(first_state(), seed=seed)
        policy = load_policy(POLICY, source="the demo's policy")
        self._interval = policy.interval
        self._observer = Counting()
        self._runner = Runner(
            state=LoopState(policy=policy, policy_since=START),
            cluster=self.cluster,
            clock=lambda: self.cluster.now,
            observer=self._observer,
            may_act=lambda: True,
            identity="demo",
            policy_source="demo",
        )
        self._runner.tell(Leading(leads=True))
        self._acts = [
            _Act(
                at=START + _LOST_AFTER,
                text=f"Zone {LOST} is lost with its nodes",
                do=lambda: self.cluster.nodes.remove_domain(ZONE, LOST),
            ),
            _Act(
                at=START + _BACK_AFTER,
                text=f"Zone {LOST} is back, and empty: nothing in Kubernetes moves pods there",
                do=lambda: self.cluster.nodes.restore_domain(ZONE, LOST),
            ),
        ]
        self._next_cycle = START
        self._told = 0
        self._quiet_since: datetime | None = None
        self.scene = "Three zones, three workloads, evenly spread"
        self.minimum = 0
        """The proven least number of evictions, as it was when the zone was back."""

    @property
    def loop(self) -> LoopState:
        """The loop's state."""
        return self._runner.state

    @property
    def evicted(self) -> int:
        """How many evictions were granted."""
        return self._observer.evicted

    @property
    def repaired(self) -> bool:
        """Whether the zone is back and every constraint holds again, with nothing under way."""
        return self._quiet_since is not None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to see."""
        if self._quiet_since is not None and self.cluster.now - self._quiet_since >= _LOOK_ON:
            return True
        return self.cluster.now - START >= LONGEST

    def go_on(self, until: datetime) -> Iterator[Line]:
        """Play on to a simulated moment, or to the end if that comes sooner; yield what is worth telling."""
        while not self.over:
            following = min(until, self._next_cycle, *(act.at for act in self._acts))
            self.cluster.advance((following - self.cluster.now).total_seconds())
            yield from self._news()
            if self._acts and self._acts[0].at <= following:
                yield self._perform(self._acts.pop(0))
            if self._next_cycle <= following:
                yield from self._cycle()
                self._next_cycle += self._interval
            if following >= until:
                return

    def _perform(self, act: _Act) -> Line:
        act.do()
        self.scene = act.text
        return Line(at=self.cluster.now, text=act.text)

    def _cycle(self) -> Iterator[Line]:
        self._runner.tick()
        cycle = self.loop.cycle
        assert cycle is not None
        if not self._acts:
            if cycle.plan.lower_bound and not self.minimum:
                self.scene = f"The repair takes {plural(cycle.plan.lower_bound, 'eviction')}, proved to be the least"
                yield Line(at=self.cluster.now, text=self.scene)
            self.minimum = max(self.minimum, cycle.plan.lower_bound)
        yield from self._news()
        busy = bool(self._acts or cycle.assessment.violated or self.loop.memory.in_flight)
        if busy:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = self.cluster.now
            self.scene = "Everything is evenly spread again"
            yield Line(at=self.cluster.now, text=self.scene)

    def _news(self) -> Iterator[Line]:
        """Tell what has happened since the last time."""
        entries = self.cluster.trace[self._told :]
        self._told += len(entries)
        collected = sum(entry.kind is TraceKind.GONE for entry in entries)
        if collected and len(self._acts) == 1:  # while the zone is away nobody else deletes a pod
            yield Line(
                at=self.cluster.now, text=f"{plural(collected, 'pod')} went with the nodes; others are made elsewhere"
            )
        for entry in entries:
            text = _told(entry)
            if text:
                yield Line(at=entry.at, text=text)


def _told(entry: TraceEntry) -> str:
    """Say what an event says, "" for what is not told."""
    if entry.kind is not TraceKind.EVENT:
        return ""
    reason, _, note = entry.detail.partition(": ")
    kind, _, name = entry.object.partition(" ")
    if reason in _TOLD and kind != "Pod":
        return ""
    for key in (ZONE, HOSTNAME):
        note = note.replace(key, short_key(key))
    return f"{reason}: {kind} {name}: {note}"
