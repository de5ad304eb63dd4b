"""What the loop needs from the outside, as Protocols: a cluster, a Lease, a Prometheus.

The adapter for a real cluster and the simulator implement the same Protocols, so every run can be simulated.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from rebalancer.admission.guards import GuardAnswer
from rebalancer.admission.pause import Pause
from rebalancer.history.contents import Contents, Write
from rebalancer.model.events import Event
from rebalancer.model.moves import Move, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Capacity, Guards
from rebalancer.prevention.plan import PodPatch


class EvictionResult(StrEnum):
    """The result of an eviction request; also the label of `rebalancer_evictions_total`."""

    EVICTED = "evicted"
    BUDGET = "budget"
    """A PodDisruptionBudget does not allow the eviction now."""
    STALE = "stale"
    """A PodDisruptionBudget was changed a moment ago."""
    THROTTLED = "throttled"
    """The API server is overloaded and asks every client to slow down."""
    GONE = "gone"
    CONFLICT = "conflict"
    """Another pod has the name now."""
    FORBIDDEN = "forbidden"
    """The controller's account has no right to evict."""
    REFUSED = "refused"
    """An admission webhook, policy or plugin deliberately does not allow the eviction now."""
    FAILED = "failed"
    """The API server refused the request for a reason that does not go away by itself."""
    UNKNOWN = "unknown"
    """No answer, or one without a result: the pod may or may not be evicted."""


class Denial(Struct, frozen=True):
    """Who refused a request in admission control, and why."""

    refuser: str
    """The refuser, as the beginning of a sentence."""
    words: str
    """The refuser's own message."""
    is_temporary: bool = False
    """Whether the refuser answered 429 (Too Many Requests): it may remove the pod itself a little later."""


class EvictionAnswer(Struct, frozen=True):
    """The answer to an eviction request, with a message for people."""

    result: EvictionResult
    message: str = ""
    retry_after: float = 0.0
    """For how many seconds the server asked not to try again, 0 if it did not say."""
    denial: Denial | None = None
    """Who refused the request if `result` is REFUSED, else None."""


class SaveAnswer(Struct, frozen=True):
    """The answer to a request to store documents: `problem` says why the first was not stored, "" if it was.

    `conflict` is set if somebody else has written in between: their text must be read first.
    """

    problem: str = ""
    conflict: bool = False


class ReadFailedError(Exception):
    """Something could not be read; the message says what and why. No action that needs the missing facts is taken."""


class ReadForbiddenError(ReadFailedError):
    """This identity has no right to read something. That does not pass by itself."""


class PlacedPod(NamedTuple):
    """A pod's name and its node, "" if the pod is not bound yet."""

    name: str
    node: str


class ReplicaCount(Struct, frozen=True):
    """How many pods a workload wants, and how many of its pods are Ready.

    `pods` are its pods by UID, without ended and terminating pods; None if they are not known.
    """

    wanted: int
    ready: int
    pods: Mapping[str, PlacedPod] | None = None


def place_pods(pods: Iterable[Pod]) -> Mapping[str, PlacedPod]:
    """Return each pod's place by UID, as `ReplicaCount.pods` has them."""
    left = (pod for pod in pods if not pod.terminating and not pod.finished)
    return {pod.uid: PlacedPod(pod.name, pod.node or "") for pod in left}


def count_pods(wanted: int, pods: Iterable[Pod]) -> ReplicaCount:
    """Count the pods of a workload."""
    pods = tuple(pods)
    return ReplicaCount(wanted, sum(pod.ready and not pod.terminating for pod in pods), place_pods(pods))


STATUS_KEY, MEMORY_KEY, PLAN_KEY = "status.json", "memory.json", "plan.json"
"""The keys of the status ConfigMap."""


STATUS_BYTES: Final = 288 * 1024
"""Bytes that the documents in the status ConfigMap may have together."""


class Document(Struct, frozen=True):
    """A named text stored in the status ConfigMap."""

    key: str
    text: str


class Cluster(Protocol):
    """A cluster, real or simulated."""

    def snapshot(self, now: datetime) -> Snapshot:
        """Return everything known about the cluster."""
        ...

    def staleness(self) -> str:
        """Return why the snapshot may be stale, "" if it is not."""
        ...

    def evict(self, move: Move) -> EvictionAnswer:
        """Request an eviction, with the pod's UID as a precondition. Never raises."""
        ...

    def record(self, event: Event) -> None:
        """Publish an event; never blocks, never raises."""
        ...

    def read_pause(self) -> Pause | None:
        """Read the kill switch from the API server, within a second; raise ReadFailedError if that fails."""
        ...

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        """Read from the API server how many pods a workload wants and which it has; raise ReadFailedError."""
        ...

    def pod_remains(self, move: Move) -> bool:
        """Return whether a move's pod, identified by its UID, still exists and is not terminating.

        The API server answers within about a second; raise ReadFailedError where reading fails.
        """
        ...

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Store documents for the next process and for people. Never raises."""
        ...

    def load(self, key: str) -> str:
        """Return a stored document, "" if there is none."""
        ...


class HistoryError(Exception):
    """The history cannot be read or written now; the message names the object, and says why and what to do."""


class HistoryStore(Protocol):
    """The ConfigMaps of the history, read and written by the leader."""

    def read(self) -> Contents:
        """Return the texts of all ConfigMaps; raise HistoryError."""
        ...

    def write(self, write: Write) -> None:
        """Replace one text, if nobody has changed it since it was read; raise HistoryError."""
        ...


class Placeholders(Protocol):
    """The Jobs of placeholder pods in one namespace."""

    def list_placeholders(self, namespace: str) -> frozenset[str]:
        """Return the names of the Jobs; raise ReadFailedError where that fails."""
        ...

    def create_placeholder(self, placeholder: Placeholder, rules: Capacity) -> str:
        """Create a Job; return why it was not created, "" if it was. Never raises."""
        ...

    def delete_placeholder(self, namespace: str, name: str) -> None:
        """Delete a Job and its pod, at once; a missing Job is fine. Never raises."""
        ...

    def explain_placeholder(self, namespace: str, token: str) -> str:
        """Return what autoscaler and scheduler report of the pods of a request, "" if nothing. Never raises."""
        ...


class Monitoring(Protocol):
    """A monitoring system that knows whether applications suffer."""

    def ask(self, guards: Guards) -> tuple[GuardAnswer, ...]:
        """Run the queries of guards; return an answer for each, in order. An error is an answer, too. Never raises.

        Takes as long as the answers to all queries, each bounded by `prometheus.timeout`.
        """
        ...


class PatchResult(StrEnum):
    """The result of a patch of a pod's deletion cost; also the label of `rebalancer_prevention_patches_total`."""

    PATCHED = "patched"
    CONFLICT = "conflict"
    """The pod has changed since it was read, or is gone; nothing was written."""
    FAILED = "failed"
    """The API server refused the patch, or did not answer."""


class PatchAnswer(Struct, frozen=True):
    """The answer to a patch, with the pod's resourceVersion after it and a message for people.

    `retry_after` is for how many seconds the server asked not to try again, 0 if it did not say.
    """

    result: PatchResult
    resource_version: str = ""
    message: str = ""
    retry_after: float = 0.0


class PodAnnotator(Protocol):
    """Writes pods' deletion costs, and nothing else."""

    def patch_cost(self, patch: PodPatch) -> PatchAnswer:
        """Write or remove one pod's cost if the pod is unchanged since it was read. Never raises."""
        ...

    def find_missing_restriction(self, namespace: str, pod: str) -> str:
        """Return why this identity might change more of a pod than its deletion cost, "" if it cannot.

        A change of a label is sent as a dry run: the admission policy must make the API server refuse it. Never raises.
        """
        ...


class ScaleResult(StrEnum):
    """The result of a change of a workload's replicas."""

    SCALED = "scaled"
    CONFLICT = "conflict"
    """The workload has changed since it was read, or its name now belongs to another; nothing was written."""
    GONE = "gone"
    FORBIDDEN = "forbidden"
    """This account has no right to the change, or admission control does not allow it; the message says which."""
    FAILED = "failed"
    """The API server refused the change for another reason; nothing was written."""
    UNKNOWN = "unknown"
    """No answer, or an error of the server: the change may or may not be written."""


class ScaleAnswer(Struct, frozen=True):
    """The answer to a change of replicas, with a message for people.

    `resource_version` is the workload's after the change. `retry_after` is for how many seconds the server asked not to
    try again, 0 if it did not say.
    """

    result: ScaleResult
    resource_version: str = ""
    message: str = ""
    retry_after: float = 0.0


class ScaleReading(Struct, frozen=True, kw_only=True):
    """The replicas that a workload asks for, and who else sets that number."""

    uid: str
    replicas: int
    resource_version: str
    appliers: tuple[str, ...] = ()
    """The field managers that own `spec.replicas` by server-side apply."""
    marks: tuple[str, ...] = ()
    """The marks of GitOps tools, as people find them on the object: "annotation argocd.argoproj.io/tracking-id"."""
    owners: tuple[str, ...] = ()
    """All field managers that own `spec.replicas`, each with the time of its last write."""
    ours: bool = True
    """Whether only the rebalancer owns `spec.replicas`, or no owner is known."""


class Scaler(PodAnnotator, Protocol):
    """Changes the replicas of Deployments and ReplicaSets, and stores the records of surges."""

    def read_scale(self, workload: Reference) -> ScaleReading | None:
        """Read a workload's replicas, None if it is gone; raise ReadFailedError."""
        ...

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        """Change the replicas of a workload if it is unchanged since it was read. Never raises."""
        ...

    def load_surges(self) -> str:
        """Return the stored records, "" if there are none; raise ReadFailedError."""
        ...

    def save_surges(self, text: str) -> str:
        """Replace the records if nobody else has since they were read; return why not, "" if done. Never raises."""
        ...


LONGEST_LEASE: Final = timedelta(minutes=10)
"""No process may be configured for a longer Lease; a longer Lease was written by mistake."""


class LeaseRecord(Struct, frozen=True, kw_only=True):
    """The state of a Lease: its holder, and for how many seconds after a renewal, 0 if not stated.

    `version` is "" if the Lease is not yet created.
    """

    holder: str
    duration: int
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    version: str = ""

    def expires_after(self, usual: float) -> float:
        """Return for how many seconds after a renewal the holder may count on its Lease.

        That is the duration that the holder has written, because the holder acts by it, whatever this process is
        configured for. If it has written none, or more than LONGEST_LEASE, `usual` seconds are returned.
        """
        return self.duration if 0 < self.duration <= LONGEST_LEASE.total_seconds() else usual


class LeaseUnavailable(Exception):  # noqa: N818  # callers read it as a state
    """No process can hold the Lease until somebody changes the cluster; the message says what is missing."""


class Lease(Protocol):
    """The Lease whose holder leads."""

    def read(self) -> LeaseRecord | None:
        """Return the Lease, None if there is none; raise LeaseUnavailable or another error if it cannot be read."""
        ...

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write the Lease and return it; None if somebody else was quicker. Raise LeaseUnavailable or another error."""
        ...
