"""The simulated cluster, with the control loop's ports, a Lease, and the actions of an operator.

The Lease is in memory and follows the API server's rule: a write must have the resourceVersion of the stored Lease.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from random import Random

from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST
from rebalancer.model.events import Event
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Move, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, reference_of
from rebalancer.policy import Capacity
from rebalancer.ports import (
    Document,
    EvictionAnswer,
    LeaseRecord,
    PatchAnswer,
    PatchResult,
    ReadFailedError,
    ReplicaCount,
    SaveAnswer,
    ScaleAnswer,
    ScaleReading,
    ScaleResult,
    count_pods,
)
from rebalancer.prevention.plan import PodPatch
from rebalancer.scheduling.place import Choose
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.simulator.autoscaler import Autoscaling, NodeAutoscaler
from rebalancer.simulator.disruption import Disruptions
from rebalancer.simulator.event_queue import EventQueue
from rebalancer.simulator.evictions import Evictions
from rebalancer.simulator.jobs import Jobs
from rebalancer.simulator.kubelets import Kubelets
from rebalancer.simulator.node_changes import NodeChanges
from rebalancer.simulator.owners import Deployments, PodSets, ReplicaSets, StatefulSets
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.simulator.rollouts import begin_rollout
from rebalancer.simulator.scheduler import SimulatedScheduler, pick_random_best
from rebalancer.simulator.state import ClusterState, RollingUpdate
from rebalancer.simulator.store import Store
from rebalancer.simulator.timings import Faults, Timings
from rebalancer.simulator.trace import TraceEntry, TraceKind
from rebalancer.simulator.watch import Watch

HEALTHY = Timings()
FAULTLESS = Faults()


class SimulatedLease:
    """A Lease for any number of simulated processes."""

    def __init__(self) -> None:
        self._record: LeaseRecord | None = None
        self._versions = count(1)

    def read(self) -> LeaseRecord | None:
        """Return the record, None if there is none."""
        return self._record

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write the record; return None if another process has written one since it was read."""
        if record.version != ("" if self._record is None else self._record.version):
            return None
        self._record = structs.replace(record, version=str(next(self._versions)))
        return self._record


class SimulatedCluster:
    """A cluster in memory whose time advances only with `advance`. Equal arguments give equal traces.

    `choose` picks one of the feasible nodes for a pod; the default is a random one of the top-scoring nodes.
    `autoscaling` is how the autoscaler behaves; None means that there is no autoscaler.
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
        autoscaling: Autoscaling | None = None,
    ) -> None:
        self.state = ClusterState(
            store=Store(first),
            event_queue=EventQueue(first.taken_at),
            random=Random(seed),  # noqa: S311  # reproducible on purpose
            timings=timings,
        )
        """The stored objects and the API server's ways to change them, for everything that acts on the cluster."""
        # Listeners are called in this order; the watch is first, so that it sees every change.
        self._watch = Watch(self.state, first, faults.watch_delay)
        pod_factory = PodFactory(self.state, first)
        SimulatedScheduler(self.state, profile, choose or pick_random_best(self.state.random))
        Kubelets(self.state)
        ReplicaSets(self.state, pod_factory)
        StatefulSets(self.state, pod_factory)
        PodSets(self.state)
        Deployments(self.state)
        Disruptions(self.state)
        self._evictions = Evictions(self.state, faults)
        self.documents: dict[str, str] = {}
        """The stored documents by key. A process that saves some documents replaces all of them."""
        self._read_documents = self.documents
        self.nodes = NodeChanges(self.state)
        self.jobs = Jobs(self.state)
        """Jobs of placeholder pods."""
        self.autoscaler = NodeAutoscaler(self.state, self.nodes, autoscaling) if autoscaling is not None else None
        self.pause: Pause | None = None
        """The kill switch, which an operator sets."""
        self.restricted = True
        """Whether the admission policy is installed that restricts patches of pods."""
        self.surges = ""
        """The stored records of surges."""
        self._scaled_by: dict[str, str] = {}  # who has written a workload's replicas last, and when
        self.patches: list[PodPatch] = []
        """The patches that were carried out, oldest first."""

    # Time

    @property
    def now(self) -> datetime:
        return self.state.event_queue.now

    def seconds(self) -> float:
        """Return the simulated time in seconds, as a monotonic clock does."""
        return self.now.timestamp()

    @property
    def next_due(self) -> datetime | None:
        """When the next queued action is due; None if there is none."""
        return self.state.event_queue.next_due

    @property
    def trace(self) -> list[TraceEntry]:
        """Everything that has happened, oldest first."""
        return self.state.trace

    def listen(self, listener: Callable[[object | None, object | None], None]) -> None:
        """Call a function with the old version (None if new) and the new version of each changed object.

        Objects are pods, nodes, workloads and budgets.
        """
        for table in (self.state.store.pods, self.state.store.nodes, self.state.store.workloads):
            table.listeners.append(listener)
        self.state.store.budgets.listeners.append(listener)

    def advance(self, seconds: float) -> None:
        """Advance the time, and run every action that falls due."""
        self.state.event_queue.run(self.now + timedelta(seconds=seconds))

    # The loop's port

    def snapshot(self, now: datetime) -> Snapshot:
        """Return a client's view of the cluster, which is behind the actual state by the watch's delay."""
        return self._watch.snapshot(now)

    def staleness(self) -> str:
        """Return why the snapshot is stale; here it never is."""
        return ""

    def evict(self, move: Move) -> EvictionAnswer:
        """Request an eviction at the current time."""
        return self._evictions.evict(move)

    def patch_cost(self, patch: PodPatch) -> PatchAnswer:
        """Write or remove a pod's deletion cost, if the pod is unchanged."""
        pods = self.state.store.pods
        pod = pods.named(patch.namespace, patch.name)
        if pod is None or (pod.uid, pod.resource_version) != (patch.uid, patch.resource_version):
            return PatchAnswer(PatchResult.CONFLICT, message="the pod has been changed since it was read")
        dropped = {OWN_DELETION_COST} if patch.marker_only else {OWN_DELETION_COST, DELETION_COST}
        annotations = Labels({key: text for key, text in pod.annotations.items() if key not in dropped})
        pods.put(structs.replace(pod, own_deletion_cost=patch.cost or 0, annotations=annotations))
        self.patches.append(patch)
        after = pods.get(patch.uid)
        assert after is not None
        return PatchAnswer(PatchResult.PATCHED, after.resource_version)

    def find_missing_restriction(self, namespace: str, pod: str) -> str:
        """Return why the admission policy that restricts patches is missing; "" if it is installed."""
        del namespace, pod
        return "" if self.restricted else "a change of a label was not refused"

    def record(self, event: Event) -> None:
        """Publish an event by recording it in the trace."""
        about = event.regarding
        name = f"{about.kind} {about.namespace}/{about.name}"
        self.state.note(TraceKind.EVENT, name, f"{event.reason}: {event.note}")

    def read_pause(self) -> Pause | None:
        """Return the pause that an operator has set."""
        return self.pause

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        """Return how many pods a workload has at the current time; ReadFailedError if the workload is gone."""
        store = self.state.store
        top = next((item for item in store.workloads if reference_of(item) == workload), None)
        if top is None:
            raise ReadFailedError(f"{workload}: not found")
        owned = [item.uid for item in store.workloads if item.owner is not None and item.owner.uid == top.uid]
        return count_pods(top.replicas, (pod for uid in (top.uid, *owned) for pod in store.pods.of(uid)))

    def pod_remains(self, move: Move) -> bool:
        """Return whether a move's pod exists at the current time and is not terminating."""
        pod = self.state.store.pods.get(move.uid)
        return pod is not None and not pod.terminating

    # Surges

    def read_scale(self, workload: Reference) -> ScaleReading | None:
        """Read the replicas of a workload at the current time."""
        for item in self.state.store.workloads:
            if reference_of(item) == workload and item.owner is None:
                owner = self._scaled_by.get(item.uid, "people")
                return ScaleReading(
                    uid=item.uid,
                    replicas=item.replicas,
                    resource_version=item.resource_version,
                    owners=(owner,),
                    ours=owner.startswith("rebalancer"),
                )
        return None

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        """Scale a workload if it has not changed since it was read."""
        if self.read_scale(workload) != read:
            return ScaleAnswer(ScaleResult.CONFLICT, message="the workload has been changed since it was read")
        self.scale(workload.namespace, workload.kind, workload.name, replicas)
        self._scaled_by[read.uid] = f"rebalancer {self.now}"
        return ScaleAnswer(ScaleResult.SCALED)

    def load_surges(self) -> str:
        """Return the stored records."""
        return self.surges

    def save_surges(self, text: str) -> str:
        """Replace the stored records."""
        self.surges = text
        return ""

    # Placeholders

    def list_placeholders(self, namespace: str) -> frozenset[str]:
        """Return the names of all Jobs of placeholders; all are in one namespace."""
        del namespace
        return self.jobs.names

    def create_placeholder(self, placeholder: Placeholder, rules: Capacity) -> str:
        """Create a Job."""
        return self.jobs.create(placeholder, rules)

    def delete_placeholder(self, namespace: str, name: str) -> None:
        """Delete a Job and its pod."""
        del namespace
        self.jobs.delete(name)

    def explain_placeholder(self, namespace: str, token: str) -> str:
        """Return the autoscaler's message about a request that waits."""
        del namespace, token
        return "no machine to be had" if self.autoscaler is not None else ""

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Replace the stored documents, unless another process has saved some since this one read them."""
        if self.documents is not self._read_documents:
            return SaveAnswer("the stored documents have been changed since they were read", conflict=True)
        self.documents = self._read_documents = {document.key: document.text for document in documents}
        return SaveAnswer()

    def load(self, key: str) -> str:
        """Return a stored document; "" if there is none."""
        self._read_documents = self.documents
        return self.documents.get(key, "")

    # An operator's action

    def scale(self, namespace: str, kind: str, name: str, replicas: int) -> None:
        """Set the number of replicas of a workload; ValueError if it does not exist or the number is negative."""
        if replicas < 0:
            raise ValueError(f"replicas is {replicas}; expected 0 or more")
        for workload in self.state.store.workloads:
            if (workload.namespace, workload.kind, workload.name) == (namespace, kind, name):
                self.state.note(TraceKind.SCALED, str(workload), f"{workload.replicas} to {replicas}")
                if workload.replicas != replicas:
                    self._scaled_by[workload.uid] = f"people {self.now}"
                self.state.store.workloads.put(structs.replace(workload, replicas=replicas, observed=False))
                return
        raise ValueError(f"{kind} {namespace}/{name} not found")

    def roll_out(self, workload: Reference, template: PodTemplate, update: RollingUpdate) -> None:
        """Give a Deployment or a StatefulSet another template; ValueError if it does not exist.

        A StatefulSet is always updated pod by pod; `update` concerns only Deployments.
        """
        for known in self.state.store.workloads:
            if reference_of(known) == workload:
                self.state.note(TraceKind.ROLLED_OUT, str(known))
                begin_rollout(self.state, known, template, update)
                return
        raise ValueError(f"{workload} not found")
