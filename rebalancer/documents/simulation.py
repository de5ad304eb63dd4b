"""The Simulation document: the events of the simulated cluster, its worst moments, and the report at the end."""

from collections.abc import Mapping
from datetime import datetime

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text, WorkloadName
from rebalancer.documents.report import ReportDocument
from rebalancer.documents.resilience import LossesChanged


class SimulatedEvent(CamelCaseStruct, frozen=True, kw_only=True):
    """Something that happened; `at` is in seconds since the start."""

    at: float
    what: Text
    object: Text
    detail: str


class SimulationStep(CamelCaseStruct, frozen=True, kw_only=True):
    """The consequences of one change; `change` is "" if nothing was changed.

    `lowerBound` is how many evictions were proved to be needed when the first was sent. `withoutNode` is how many pods
    had no node at the end of the step. `surged` pods went in scale-downs after an equal number was added.
    """

    change: str
    at: float
    evictions: Number
    lower_bound: Number
    without_node: Number
    surged: Number = 0


class LeastHeadroom(CamelCaseStruct, frozen=True, kw_only=True):
    """When a limit had the least headroom in pods, negative if it was violated; measured at each cycle."""

    group: Text
    limit: Text
    namespace: Text
    key: Mapping[str, str]
    headroom: int
    at: float


class FewestReady(CamelCaseStruct, frozen=True, kw_only=True):
    """When a workload lacked most of the pods that it wants."""

    namespace: Text
    workload: WorkloadName
    wanted: Number
    ready: Number
    at: float


class MostWithoutNode(CamelCaseStruct, frozen=True, kw_only=True):
    """When most pods had no node."""

    pods: Number
    at: float


class WorstMoments(CamelCaseStruct, frozen=True, kw_only=True):
    """The worst moments: of every limit, of the workloads that lacked a pod, and of pods without a node."""

    limits: tuple[LeastHeadroom, ...]
    workloads: tuple[FewestReady, ...]
    without_node: MostWithoutNode


class SimulationDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A simulation. `generatedAt` is the snapshot's time, null if it has none.

    `seconds` is when the last change happened, in simulated time, and `settled` whether nothing moves any more.
    `evictions`, `surged` and `lowerBound` are the sums of the steps. `resilience` is what a lost zone leaves of the
    repaired workloads, at the start and at the end.
    """

    api_version: str = API_VERSION
    kind: str = "Simulation"
    generated_at: datetime | None
    seed: int
    settled: bool
    seconds: float
    cycles: Number
    evictions: Number
    lower_bound: Number
    surged: Number = 0
    steps: tuple[SimulationStep, ...]
    worst: WorstMoments
    events: tuple[SimulatedEvent, ...]
    report: ReportDocument
    resilience: LossesChanged | None = None
