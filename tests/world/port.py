"""A replica's connection to the simulated cluster: every request takes time, and may fail in the ways of a network."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.admission.written import NOTHING_WRITTEN, Written
from rebalancer.model.deletion_costs import SURGE_COST
from rebalancer.model.events import Event
from rebalancer.model.moves import Move, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Capacity
from rebalancer.ports import (
    Document,
    EvictionAnswer,
    EvictionResult,
    LeaseRecord,
    PatchAnswer,
    PatchResult,
    ReadFailedError,
    ReplicaCount,
    SaveAnswer,
    ScaleAnswer,
    ScaleReading,
    ScaleResult,
)
from rebalancer.prevention.plan import PodPatch
from rebalancer.simulator import SimulatedCluster, SimulatedLease
from tests.world.hub import Hub
from tests.world.monitor import Monitor, Sender
from tests.world.sent import Sent
from tests.world.surges import SurgeMonitor
from tests.world.view import View

LATENCY = (0.002, 0.05)


class NoAnswerError(Exception):
    """A request had no answer, or an error."""


@dataclass
class Faults:
    """What goes wrong now, as shares of the requests; `sick` are the namespaces whose webhook answers so."""

    lost: float = 0.0
    """No answer; half of these requests are carried out nevertheless."""
    refused: float = 0.0
    """An answer 500, of any request but an eviction."""
    throttled: float = 0.0
    slow: float = 0.0
    """Seconds that each request takes longer."""
    no_lease: set[str] = field(default_factory=set)
    """Replicas whose requests for the Lease have no answer."""
    sick: dict[str, EvictionResult] = field(default_factory=dict)


@dataclass
class Api:
    """What all replicas share at the API server beside the cluster's objects."""

    cluster: SimulatedCluster
    lease: SimulatedLease
    documents: dict[str, str] = field(default_factory=dict)
    version: int = 1
    pause: Pause | None = None
    approved: str = ""
    written: Written = NOTHING_WRITTEN
    """The approval of a whole plan."""
    largest_memory: int = 4_200
    """Bytes of a stored memory: as 1 MiB is to a cluster a hundred times as large."""
    faults: Faults = field(default_factory=Faults)
    unreachable_at: float = -1e9
    """When a request last met a fault."""
    triggers: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    """What begins with the next request of a kind."""
    sent: Sent = field(default_factory=Sent)
    surges: str = ""
    surges_version: int = 1
    surge_monitor: SurgeMonitor = field(init=False)
    """Of a world with surges."""
    has_surges: bool = False

    def begins(self, kind: str) -> None:
        """Begin what waits for a request of this kind."""
        for action in self.triggers.pop(kind, ()):
            action()


class Port:
    """The Cluster and the Lease of one replica."""

    def __init__(self, name: str, api: Api, hub: Hub, view: View, monitor: Monitor, random: Random) -> None:
        self.name, self._api, self._hub, self._view = name, api, hub, view
        self._monitor, self._random = monitor, random
        self._version = self._surges_version = 0
        self.sender: Sender
        """The process behind this connection, as the monitor sees it."""

    def _note(self, kind: str, *facts: object, words: str = "") -> None:
        """Note a request that is sent now."""
        self._api.sent.note(self._hub.seconds, self.name, kind, *facts, words=words)

    def _request(self, what: str, *, reads: bool) -> bool:
        """Let a request travel; return whether it is carried out although its answer is lost. Raise if it is not."""
        faults, random = self._api.faults, self._random
        self._api.begins(what)
        before = faults.refused or faults.lost or faults.slow
        self._hub.sleep(random.uniform(*LATENCY) + faults.slow)
        if before or faults.refused or faults.lost:
            self._api.unreachable_at = self._hub.seconds
        if faults.refused and random.random() < faults.refused:
            raise NoAnswerError(f"{what}: HTTP 500")
        if faults.lost and random.random() < faults.lost:
            self._hub.sleep(random.choice([0.1, 1.0]))
            if reads or random.random() < 0.5:
                raise NoAnswerError(f"{what}: no answer")
            return True
        return False

    # The cluster

    def snapshot(self, now: datetime) -> Snapshot:
        """Return what the watches have received."""
        return self._view.snapshot(now)

    def staleness(self) -> str:
        """Say why the view is stale, "" if it is not."""
        return self._view.staleness()

    def evict(self, move: Move) -> EvictionAnswer:
        """Request an eviction."""
        self._note("evict", move)
        self._monitor.begins(self.sender, move)
        self._api.begins("evict")
        faults, random = self._api.faults, self._random
        sick = faults.sick.get(move.namespace)
        self._hub.sleep(random.uniform(*LATENCY))
        if sick is not None:
            self._hub.sleep(random.choice([0.0, 1.0]))
            return EvictionAnswer(sick, "the webhook of the namespace says no")
        if faults.throttled and random.random() < faults.throttled:
            self._hub.sleep(random.uniform(*LATENCY))
            wait = random.choice([0.0, 1.0, 20.0])
            self._monitor.throttles(self.sender, wait)
            return EvictionAnswer(EvictionResult.THROTTLED, "too many requests", wait)
        lost = bool(faults.lost) and random.random() < faults.lost
        if lost and random.random() < 0.5:
            return EvictionAnswer(EvictionResult.UNKNOWN, "no answer")
        self._monitor.arrives(self.sender, move)
        pod = self._api.cluster.state.store.pods.get(move.uid)  # the truth
        before = pod is None or pod.terminating
        answer = self._api.cluster.evict(move)
        if answer.result is EvictionResult.EVICTED and not before:
            self._monitor.records.is_granted(move, self.sender.stale_for())
            self._api.begins("granted")
        self._hub.sleep(random.uniform(*LATENCY))
        return EvictionAnswer(EvictionResult.UNKNOWN, "no answer") if lost else answer

    def record(self, event: Event) -> None:
        """Publish an event; nobody reads them here."""
        self._note("event", event.reason, event.regarding, words=event.note)

    def read_pause(self) -> Pause | None:
        """Read the kill switch."""
        self._note("read pause")
        pause = self._api.pause  # as it is when the server answers; the answer may then be slow
        try:
            self._request("control", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        return pause

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        """Count the pods of a workload."""
        self._note("count", workload)
        try:
            self._request("workload", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        return self._api.cluster.count_replicas(workload)

    def pod_remains(self, move: Move) -> bool:
        """Read the pod of a move."""
        self._note("read pod", move)
        try:
            self._request("pod", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        return self._api.cluster.pod_remains(move)

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Store documents, if nobody else has since they were read."""
        memory, *others = documents
        self._note("save", memory.text, words="".join(document.text for document in others))
        try:
            lost = self._request("status", reads=False)
        except NoAnswerError as error:
            return SaveAnswer(str(error))
        if len(documents[0].text) > self._api.largest_memory:
            return SaveAnswer("HTTP 413: request entity too large")
        if self._version != self._api.version:
            return SaveAnswer("HTTP 409", conflict=True)
        self._api.version += 1
        self._api.documents = {document.key: document.text for document in documents}
        holds_lease = self.sender.deposed_for() is None
        self._monitor.records.saves(self.name, documents[0].text, self.sender.moves(), holds_lease=holds_lease)
        if lost:
            return SaveAnswer("no answer")
        self._version = self._api.version
        return SaveAnswer()

    def load(self, key: str) -> str:
        """Read a stored document."""
        self._note("load", key)
        self._request("status", reads=True)
        self._version = self._api.version
        return self._api.documents.get(key, "")

    # Placeholders

    def list_placeholders(self, namespace: str) -> frozenset[str]:
        """Return the names of the Jobs."""
        self._note("list placeholders", namespace)
        try:
            self._request("jobs", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        return self._api.cluster.list_placeholders(namespace)

    def create_placeholder(self, placeholder: Placeholder, rules: Capacity) -> str:
        """Create a Job."""
        self._note("create placeholder", placeholder)
        try:
            lost = self._request("job", reads=False)
        except NoAnswerError as error:
            return str(error)
        refused = self._api.cluster.create_placeholder(placeholder, rules)
        return "no answer" if lost else refused

    def delete_placeholder(self, namespace: str, name: str) -> None:
        """Delete a Job."""
        self._note("delete placeholder", name)
        with suppress(NoAnswerError):
            self._request("job", reads=False)
            self._api.cluster.delete_placeholder(namespace, name)

    def explain_placeholder(self, namespace: str, token: str) -> str:
        """Return what is said of the pods of a request."""
        self._note("explain placeholder", token)
        try:
            self._request("jobs", reads=True)
        except NoAnswerError:
            return ""
        return self._api.cluster.explain_placeholder(namespace, token)

    # Deletion costs

    def patch_cost(self, patch: PodPatch) -> PatchAnswer:
        """Write one pod's deletion cost."""
        self._note("patch", patch)
        if patch.cost == SURGE_COST:
            self._monitor.writes(self.sender, f"marks {patch.name}")
        try:
            lost = self._request("pod", reads=False)
        except NoAnswerError as error:
            return PatchAnswer(PatchResult.FAILED, message=str(error))
        answer = self._api.cluster.patch_cost(patch)
        if answer.result is PatchResult.PATCHED and self._api.has_surges:
            self._api.surge_monitor.patched(patch)
        return PatchAnswer(PatchResult.FAILED, message="no answer") if lost else answer

    def find_missing_restriction(self, namespace: str, pod: str) -> str:
        """Say why this identity might change more of pods than their costs: it cannot."""
        self._note("try a label", pod)
        try:
            self._request("pod", reads=True)
        except NoAnswerError as error:
            return str(error)
        return ""

    # Surges

    def read_scale(self, workload: Reference) -> ScaleReading | None:
        """Read the replicas of a workload."""
        self._note("read scale", workload)
        try:
            self._request("scale", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        return self._api.cluster.read_scale(workload)

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        """Scale a workload that is as it was read."""
        self._note("scale", workload)
        self._monitor.writes(self.sender, f"scales {workload}")
        answers: list[ScaleAnswer] = []

        def scale() -> bool:
            answers.append(self._api.cluster.set_replicas(workload, read, replicas))
            return answers[0].result is ScaleResult.SCALED

        def arrive() -> None:
            self._api.surge_monitor.scales(self.name, read, replicas, scale)

        try:
            lost = self._request("set scale", reads=False)
        except NoAnswerError as error:
            if self._random.random() < 0.5:  # it is on its way still
                self._hub.after(self._random.uniform(1, 100), arrive)
            return ScaleAnswer(ScaleResult.UNKNOWN, message=str(error))
        arrive()
        return ScaleAnswer(ScaleResult.UNKNOWN, message="no answer") if lost else answers[0]

    def load_surges(self) -> str:
        """Read the records of surges."""
        self._note("load surges")
        try:
            self._request("surges", reads=True)
        except NoAnswerError as error:
            raise ReadFailedError(str(error)) from error
        self._surges_version = self._api.surges_version
        return self._api.surges

    def save_surges(self, text: str) -> str:
        """Replace the records of surges, if nobody else has since they were read."""
        self._note("save surges", words=text)
        self._monitor.writes(self.sender, "stores records of surges")
        try:
            lost = self._request("surges", reads=False)
        except NoAnswerError as error:
            return str(error)
        if self._surges_version != self._api.surges_version:
            return "HTTP 409"
        self._api.surges_version += 1
        self._api.surges = text
        self._api.surge_monitor.stores(text)
        if lost:
            return "no answer"
        self._surges_version = self._api.surges_version
        return ""

    # The lease

    def read(self) -> LeaseRecord | None:
        """Read the lease."""
        self._note("read lease")
        self._request_lease(reads=True)
        return self._api.lease.read()

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write the lease, if nobody else has since it was read."""
        self._note("write lease", record)
        lost = self._request_lease(reads=False)
        written = self._api.lease.write(structs.replace(record))
        if lost:
            raise NoAnswerError("lease: no answer")
        return written

    def _request_lease(self, *, reads: bool) -> bool:
        if self.name in self._api.faults.no_lease:
            self._hub.sleep(1.0)
            raise NoAnswerError("lease: no answer")
        return self._request("lease", reads=reads)
