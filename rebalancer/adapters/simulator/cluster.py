"""The simulated cluster as its users see it: the loop's port on one side, an operator's hands on the other."""

from collections.abc import Collection
from datetime import datetime, timedelta
from random import Random

from msgspec import structs

from rebalancer.adapters.simulator.deployments import Deployments
from rebalancer.adapters.simulator.disruption import Disruptions
from rebalancer.adapters.simulator.event_queue import EventQueue
from rebalancer.adapters.simulator.evictions import Evictions
from rebalancer.adapters.simulator.kubelets import Kubelets
from rebalancer.adapters.simulator.node_changes import NodeChanges
from rebalancer.adapters.simulator.pod_factory import PodFactory
from rebalancer.adapters.simulator.replica_sets import ReplicaSets
from rebalancer.adapters.simulator.scheduler import Scheduler, drawn_from_best
from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.adapters.simulator.stateful_sets import StatefulSets
from rebalancer.adapters.simulator.store import Store
from rebalancer.adapters.simulator.timings import Faults, Timings
from rebalancer.adapters.simulator.trace import TraceEntry, What
from rebalancer.adapters.simulator.watch import Watch
from rebalancer.model.events import Event
from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot
from rebalancer.ports import Document, EvictionAnswer
from rebalancer.scheduling.place import Choose
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile

HEALTHY = Timings()
FAULTLESS = Faults()


class SimulatedCluster:
    """A cluster that lives in memory and goes on only when `advance` says so. Same arguments, same history.

    `choose` says which of the feasible nodes a pod gets: any of the best by default, or what a test wants of it.
    `parallel` are the UIDs of the StatefulSets with `podManagementPolicy: Parallel`.
    """

    def __init__(
        self,
        first: Snapshot,
        *,
        seed: int = 0,
        timings: Timings = HEALTHY,
        faults: Faults = FAULTLESS,
        profile: Profile = DEFAULT_PROFILE,
        choose: Choose | None = None,
        parallel: Collection[str] = (),
    ) -> None:
        self._world = ClusterState(
            store=Store(first),
            agenda=EventQueue(first.taken_at),
            random=Random(seed),  # noqa: S311  # to be foreseen is its purpose
            timings=timings,
        )
        # The order in which they are told of changes; the watch is first, so that it misses nothing.
        self._watch = Watch(self._world, first, faults.watch_delay)
        molds = PodFactory(self._world, first)
        Scheduler(self._world, profile, choose or drawn_from_best(self._world.random))
        Kubelets(self._world)
        ReplicaSets(self._world, molds)
        StatefulSets(self._world, molds, parallel)
        Deployments(self._world)
        Disruptions(self._world)
        self._evictions = Evictions(self._world, faults)
        self._documents: dict[str, str] = {}
        self.nodes = NodeChanges(self._world)

    # Time

    @property
    def now(self) -> datetime:
        """The moment up to which everything has happened."""
        return self._world.agenda.now

    @property
    def next_due(self) -> datetime | None:
        """When something happens next of itself, None if nothing will."""
        return self._world.agenda.next_due

    @property
    def history(self) -> list[TraceEntry]:
        """Everything that has happened, oldest first."""
        return self._world.history

    def advance(self, seconds: float) -> None:
        """Let time go on."""
        self._world.agenda.play(self.now + timedelta(seconds=seconds))

    # The loop's port

    def snapshot(self, now: datetime) -> Snapshot:
        """Return what a client knows of the cluster; later by the watch's delay than what is."""
        return self._watch.snapshot(now)

    def staleness(self) -> str:
        """Say why the snapshot cannot be trusted: it always can be, within the watch's delay."""
        return ""

    def evict(self, move: Move) -> EvictionAnswer:
        """Ask for an eviction, as of now."""
        return self._evictions.evict(move)

    def record(self, event: Event) -> None:
        """Publish an event: it is put down in the history."""
        about = event.regarding
        name = f"{about.kind} {about.namespace}/{about.name}"
        self._world.note(What.EVENT, name, f"{event.reason}: {event.note}")

    def save(self, documents: tuple[Document, ...]) -> bool:
        """Keep documents."""
        self._documents.update((each.key, each.text) for each in documents)
        return True

    def load(self, key: str) -> str:
        """Return a kept document, "" if there is none."""
        return self._documents.get(key, "")

    # An operator's hands

    def scale(self, namespace: str, kind: str, name: str, replicas: int) -> None:
        """Set the number of replicas of a workload; ValueError if there is none of that name, or the number is none."""
        if replicas < 0:
            raise ValueError(f"{replicas} is no number of replicas")
        for workload in self._world.store.workloads:
            if (workload.namespace, workload.kind, workload.name) == (namespace, kind, name):
                self._world.note(What.SCALED, str(workload), f"{workload.replicas} to {replicas}")
                self._world.store.workloads.put(structs.replace(workload, replicas=replicas, observed=False))
                return
        raise ValueError(f"there is no {kind} {namespace}/{name}")
