"""Surges in a simulated cluster: violated workloads, a worker that looks each second, and what the watch sees."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from rebalancer.controller.state import Clocks
from rebalancer.controller.surge import ScaledCluster, SurgeWorker
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy, RepairBy, RepairMethod
from rebalancer.ports import PatchAnswer, ScaleAnswer, ScaleReading
from rebalancer.prevention.plan import PodPatch
from rebalancer.simulator import SimulatedCluster
from rebalancer.surge.record import Surge, decode_surges
from rebalancer.surge.report import Ended
from tests.controller.simulated import Simulation, eager

SECOND = timedelta(seconds=1)


class DiedError(Exception):
    """The process was killed right before, or right after, a write."""


def surging(
    most: int = 2, method: RepairMethod = RepairMethod.SURGE, timeout: int = 120, over_budget: tuple[str, ...] = ("*",)
) -> Policy:
    """Return a policy that adds pods first everywhere."""
    rules = RepairBy(
        method=method,
        namespaces=("*",),
        over_budget=over_budget,
        max_surge=most,
        settle=3 * SECOND,
        timeout=timeout * SECOND,
    )
    return eager(Mode.EVICT).model_copy(update={"repair": rules})


class Watched(SimulatedCluster):
    """A simulated cluster that counts writes, and in which the process dies at one of them."""

    autoscalers: tuple[Autoscaler, ...] = ()
    dies_at: int | None = None
    dies_after: bool = False
    writes: int = 0
    refuses_every: int = 0
    """Of how many stores of the records one is refused, 0: none."""
    stores: int = 0

    def snapshot(self, now: datetime) -> Snapshot:
        return replace(super().snapshot(now), autoscalers=self.autoscalers)

    def _write(self, write: Callable[[], object]) -> object:
        self.writes += 1
        if self.writes == self.dies_at and not self.dies_after:
            raise DiedError
        answer = write()
        if self.writes == self.dies_at:
            raise DiedError
        return answer

    def patch_cost(self, patch: PodPatch) -> PatchAnswer:
        return self._write(lambda: super(Watched, self).patch_cost(patch))  # type: ignore[return-value]

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        return self._write(lambda: super(Watched, self).set_replicas(workload, read, replicas))  # type: ignore[return-value]

    def save_surges(self, text: str) -> str:
        self.stores += 1
        if self.refuses_every and not self.stores % self.refuses_every:
            return "the ConfigMap has been changed since it was read"
        return self._write(lambda: super(Watched, self).save_surges(text))  # type: ignore[return-value]


class Connection:
    """One process's connection to the cluster: records are stored only over those that it has read or written."""

    def __init__(self, cluster: Watched) -> None:
        self._cluster = cluster
        self._known = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def load_surges(self) -> str:
        """Return the stored records."""
        self._known = self._cluster.load_surges()
        return self._known

    def save_surges(self, text: str) -> str:
        """Replace the records, unless another process has."""
        if self._cluster.surges != self._known:
            return "the ConfigMap has been changed since it was read"
        problem = self._cluster.save_surges(text)
        self._known = self._known if problem else text
        return problem


@dataclass
class Play:
    """A controller with surges over a cluster; `ended` are the surges that have ended."""

    cluster: Watched
    policy: Policy
    ended: list[Ended] = field(default_factory=list)
    least_ready: int = 10**6
    most_alive: int = 0

    def __post_init__(self) -> None:
        self.simulation = Simulation(self.cluster, self.policy)
        self.restart()

    def restart(self) -> None:
        runner = self.simulation.runner
        clocks = Clocks(now=lambda: self.cluster.now, monotonic=self.cluster.seconds)
        self.worker = SurgeWorker(
            cluster=cast("ScaledCluster", Connection(self.cluster)),
            clocks=clocks,
            get_state=lambda: runner.state,
            may_act=lambda _: True,
            tell=runner.tell,
        )

    @property
    def records(self) -> tuple[Surge, ...]:
        """What is stored."""
        return decode_surges(self.cluster.surges)

    def seconds(self, number: int, cycle: int = 10) -> None:
        """Let time pass; a cycle runs every so many seconds, and the worker looks each second."""
        for _ in range(number):
            self.cluster.advance(1)
            if not self.cluster.seconds() % cycle:
                self.simulation.runner.tick()
            try:
                self.worker.work()
            except DiedError:
                self.restart()
            self.simulation.runner.drain()
            self.ended += self.simulation.runner.state.reported.surges.ended
            self._watch()

    def _watch(self) -> None:
        living = list(pods(self.cluster.snapshot(self.cluster.now)))
        self.least_ready = min(self.least_ready, sum(pod.ready for pod in living))
        self.most_alive = max(self.most_alive, len(living))


def pods(snapshot: Snapshot) -> Iterator[Pod]:
    """Yield the living pods."""
    return (pod for pod in snapshot.pods if not pod.terminating and not pod.finished)
