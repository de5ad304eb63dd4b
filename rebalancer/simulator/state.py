"""What all controllers of a simulated cluster share: its objects, its time, its random numbers and its trace."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

from msgspec import structs

from rebalancer.model.pods import Pod
from rebalancer.simulator.event_queue import EventQueue
from rebalancer.simulator.store import Store
from rebalancer.simulator.timings import Timings
from rebalancer.simulator.trace import TraceEntry, TraceKind

GRACE = timedelta(seconds=30)
"""The API's default terminationGracePeriodSeconds; the deletionTimestamp is this much later than the deletion."""

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names (apimachinery `rand.SafeEncodeString`)."""


class RollingUpdate(NamedTuple):
    """How many pods of a Deployment may be surplus, and how many missing, during a rolling update."""

    surge: int
    unavailable: int


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """A cluster without its controllers."""

    store: Store
    event_queue: EventQueue
    random: Random
    timings: Timings
    trace: list[TraceEntry] = field(default_factory=list)
    refused_pods: dict[str, str] = field(default_factory=dict)
    """Why the API server refuses new pods, such as a quota, by namespace."""
    updates: dict[str, RollingUpdate] = field(default_factory=dict)
    """The update strategies of workloads whose rollouts have begun in the simulation, by their UID."""
    missing_images: set[str] = field(default_factory=set)
    """Images that no registry has: running pods keep running, but no new pod with such an image starts."""

    @property
    def stamp(self) -> datetime:
        """The current time as objects store it, in whole seconds."""
        return self.event_queue.now.replace(microsecond=0)

    def note(self, what: TraceKind, about: object, detail: str = "") -> None:
        """Add an entry to the trace."""
        self.trace.append(TraceEntry(self.event_queue.now, what, str(about), detail))

    def uid(self) -> str:
        """Return a new UID. It is random, not consecutive, because controllers sort equal pods by UID."""
        drawn = f"{self.random.getrandbits(128):032x}"
        return "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:]))

    def generate_pod_name(self, namespace: str, owner: str) -> str:
        """Return a name for a new pod of an owner. If a name is taken, draw another name, as the API server does.

        Source: apiserver `pkg/registry/rest/create.go` (RetryGenerateName).
        """
        name = ""
        while not name or self.store.pods.named(namespace, name) is not None:
            name = f"{owner}-{''.join(self.random.choices(_SAFE, k=5))}"
        return name

    def delete(self, pod: Pod) -> None:
        """Delete a pod as the API server does: at once if it does not run; otherwise the pod becomes terminating.

        `pod` may be a client's old copy; the stored pod decides. Source: `pkg/registry/core/pod/strategy.go`
        (CheckGracefulDelete).
        """
        stored = self.store.pods.get(pod.uid)
        if stored is None or stored.terminating:
            return
        self.note(TraceKind.DELETED, f"Pod {stored}")
        if stored.node is None or stored.finished:
            self.remove(stored)
        else:
            self.store.pods.put(structs.replace(stored, deleted=self.stamp + GRACE))

    def remove(self, pod: Pod) -> None:
        """Remove a pod from the store."""
        self.store.pods.drop(pod.uid)
        self.note(TraceKind.GONE, f"Pod {pod}")
