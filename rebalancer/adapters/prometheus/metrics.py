"""All metrics of a process behind one registry of their own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from rebalancer.adapters.prometheus import catalog
from rebalancer.adapters.prometheus.catalog import Metric, MoveOutcome, Phase
from rebalancer.adapters.prometheus.collector import CycleCollector, Watches
from rebalancer.adapters.prometheus.samples import CycleSamples
from rebalancer.capacity.requests import Result
from rebalancer.ports import EvictionResult, PatchResult

_ON_ONE: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_ON_ALL: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


class Metrics:
    """Counts events, and publishes the samples of each cycle.

    `watches` is called at every scrape, and so is `leads`: while it returns False, the cluster's series are not shown.
    `revision` is that of the source, "" if the build does not know it. Every
    method may be called from any thread.
    """

    def __init__(
        self, *, watches: Watches = tuple, leads: Callable[[], bool] = lambda: True, revision: str = ""
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._collector = CycleCollector(watches, leads, revision)
        self.registry.register(self._collector)
        self._evictions = self._counter(catalog.EVICTIONS)
        self._patches = self._counter(catalog.PREVENTION_PATCHES)
        self._moves = self._counter(catalog.MOVES)
        self._capacity = self._counter(catalog.CAPACITY_REQUESTS)
        self._requests = self._counter(catalog.API_REQUESTS)
        duration = catalog.CYCLE_DURATION
        self._duration = Histogram(
            duration.name, duration.help, duration.labels, buckets=duration.buckets, registry=self.registry
        )
        for phase in duration.values:
            self._duration.labels(phase)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def _counter(self, metric: Metric) -> Counter:
        made = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        for value in metric.values:
            made.labels(value)
        return made

    def publish(self, samples: CycleSamples) -> None:
        """Export these samples from now on."""
        self._collector.samples = samples

    def time_phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        return self._duration.labels(phase).time()

    def count_eviction(self, result: EvictionResult) -> None:
        """Count an eviction request by its result."""
        self._evictions.labels(result).inc()

    def count_patch(self, result: PatchResult) -> None:
        """Count a patch of a pod's deletion cost by its result."""
        self._patches.labels(result).inc()

    def count_move(self, outcome: MoveOutcome) -> None:
        """Count a move that has ended."""
        self._moves.labels(outcome).inc()

    def count_capacity(self, result: Result) -> None:
        """Count a request for capacity that became ready or failed."""
        self._capacity.labels(result).inc()

    def count_request(self, method: str, path: str, code: int) -> None:
        """Count a request to the API server; code 0 means no response."""
        verb, resource = parse_request(method, path)
        self._requests.labels(verb, resource, str(code)).inc()


def parse_request(method: str, path: str) -> tuple[str, str]:
    """Return (verb, resource); the resource is "" for paths without one, such as `/version`.

    Names of objects and namespaces do not appear: the number of series must not grow with the cluster.
    Source: `apiserver/pkg/endpoints/request/requestinfo.go`; subresources are written `pods/eviction`, as RBAC does.
    """
    match path.strip("/").split("/"):
        case ["api", _, *rest] | ["apis", _, _, *rest] if rest:
            pass
        case _:
            return _ON_ONE.get(method, method.lower()), ""
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, *one = rest
    verbs = _ON_ONE if one else _ON_ALL
    subresource = f"/{one[1]}" if len(one) > 1 else ""
    return verbs.get(method, method.lower()), f"{resource}{subresource}"
