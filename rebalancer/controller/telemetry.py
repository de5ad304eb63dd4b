"""The process's telemetry: metrics, health, readiness, and the log of missing objects."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Thread
from typing import Final, Protocol

import structlog

from rebalancer.account.happened import (
    CapacityEnded,
    Granted,
    GuardFailed,
    MoveEnded,
    Occurrence,
    RequestAnswered,
    SurgeEnded,
)
from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.configmaps import STATUS
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.adapters.prometheus import Metrics, parse_request
from rebalancer.adapters.web import WebServer, probe_routes
from rebalancer.assessment.findings import Finding, find_findings
from rebalancer.assessment.unmatched import Unmatched, find_unmatched
from rebalancer.controller.counters import (
    API_REQUESTS,
    CAPACITY_REQUESTS,
    COUNTERS,
    CYCLE_DURATION,
    EVICTIONS,
    GUARD_ERRORS,
    MOVES,
    PREVENTION_PATCHES,
    SURGES,
    WORKLOAD_EVICTIONS,
    Phase,
    outcome_of,
)
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.gauge_view import NEVER, GaugeView, WatchReading
from rebalancer.controller.gauges import GAUGES
from rebalancer.controller.request_window import RequestWindow
from rebalancer.controller.state import InForce, LoopState
from rebalancer.controller.workload_evictions import WorkloadEvictions
from rebalancer.decoding.kinds import OPTIONAL_KINDS
from rebalancer.history.trend import TREND_MAP
from rebalancer.locations import Address
from rebalancer.policy import default_policy
from rebalancer.policy.team_maps import POLICY_MAP, VALID_POLICY_MAP
from rebalancer.ports import PatchResult
from rebalancer.tracking.motion import Look

METRICS: Final = (*GAUGES, *COUNTERS)
"""Every metric of the controller's own."""

MISSED_INTERVALS = 3
"""Intervals without a cycle after which the process counts as stuck."""

GRACE_SECONDS = 180.0
"""Added to them: a cycle on a large cluster takes its time, and the first one waits two minutes for the caches."""

_TEAM_POLICY = f"/configmaps/{POLICY_MAP}"
"""How the path of a request for a team policy ends."""

_EVENTS = "/apis/events.k8s.io/"
"""How the path of a request for an event begins."""

_WRITTEN_ASIDE = (f"/configmaps/{TREND_MAP}", f"/configmaps/{VALID_POLICY_MAP}")
"""Parts of the request paths of the ConfigMaps that no decision depends on."""

_STATUS = ("/configmaps", f"/configmaps/{STATUS}")
"""How the paths of requests end that create or change the status."""

_NOT_THERE = frozenset({403, 404})
"""The answers if the status does not exist and this account may not create it."""

_RIGHTS = "/apis/authorization.k8s.io/"
"""How the path of a question about rights begins."""

_OPTIONAL = tuple(f"/{kind.plural}" for kind in OPTIONAL_KINDS)
"""How the path of a list or a watch of an optional kind ends."""

_CONFLICT = 409
"""A code that counts as an ordinary answer."""

_log = structlog.get_logger("rebalancer")


class HasThread(Protocol):
    """A part of the process that works in a thread of its own."""

    thread: Thread


class Viewer(Protocol):
    """Shows states of the loop: the status page, or a command's progress."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def show(self, state: LoopState, findings: Sequence[Finding]) -> None:
        """Take a new state, with the findings of its cycle; from the loop's thread, must not block."""
        ...


class Telemetry:
    """The metrics and the web server of one process, fed by the runner; without an address nothing listens.

    A process is alive if it runs cycles or is ready to, and none of its threads has ended; it is ready if its caches
    are complete. Whether the policy is valid is a metric and an event, not a matter of readiness: the last valid policy
    stays in force. It is shown as the leader only while `leads` returns True.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        address: Address | None,
        transport: Transport,
        *,
        interval: float,
        viewer: Viewer | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cluster = cluster
        self._leads = leads
        # Until the loop has begun: a process that does not lead, with the mode that does nothing.
        first = GaugeView(state=LoopState(in_force=InForce(policy=default_policy(), policy_since=NEVER)))
        self._metrics = Metrics(GAUGES, COUNTERS, first=first, refresh=self._refresh)
        self._workload_evictions = WorkloadEvictions(self._metrics.counter(WORKLOAD_EVICTIONS))
        self.requests = RequestWindow()
        transport.on_answer = self._count_request
        self._web = self._make_server(address) if address is not None else None
        self._viewer = viewer
        self._findings: tuple[Finding, ...] = ()
        self._last_beat = time.monotonic()
        self._interval = interval
        self._shown: Cycle | None = None
        self._look: Look | None = None
        self._unmatched = UnmatchedLog()
        self._threads: list[Thread] = []

    def _make_server(self, address: Address) -> WebServer:
        live = {"cycles": self._check_cycles, "threads": self._check_threads}
        ready = {"caches": self._cluster.staleness, "cycles": self._check_cycles}
        routes = probe_routes(self._metrics.registry, live=live, ready=ready)
        return WebServer(address.host, address.port, routes)

    def start(self) -> None:
        if self._web is not None:
            self._web.start()
            host, port = self._web.address
            _log.info("listening", host=host, port=port)
        if self._viewer is not None:
            self._viewer.start()

    def stop(self) -> None:
        if self._web is not None:
            self._web.stop()
        if self._viewer is not None:
            self._viewer.stop()

    def beat(self) -> None:
        """Note that a cycle has ended, or that another process leads."""
        self._last_beat = time.monotonic()

    def _count_request(self, method: str, path: str, code: int, is_meant: bool, seconds: float) -> None:
        """Count a request. A refusal on purpose (`is_meant`) is no failure, whatever its code."""
        self._metrics.counter(API_REQUESTS).labels(*parse_request(method, path), str(code)).inc()
        # One team without a right must not open the breaker, nor many keep it shut. The same holds for events: nothing
        # depends on them, and a webhook or a quota of one namespace may refuse them all. Nor must a kind that is
        # optional: the roles of an earlier version have no right to it. Nor must what is written for people alone, or a
        # question about rights: where it has no answer, the next eviction has.
        no_matter = path.endswith((_TEAM_POLICY, *_OPTIONAL)) or path.startswith((_EVENTS, _RIGHTS))
        no_matter = no_matter or any(name in path for name in _WRITTEN_ASIDE)
        # Where the status does not exist, nothing is evicted anyway, and it goes on at once when somebody has made it.
        no_matter = no_matter or (code in _NOT_THERE and path.endswith(_STATUS))
        if not no_matter:
            self.requests.count(_CONFLICT if is_meant else code, seconds)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        return self._metrics.histogram(CYCLE_DURATION).labels(Phase(name)).time()

    def changed(self, state: LoopState) -> None:
        """Show a new state of the loop; findings are computed here, once per cycle."""
        self._interval = state.in_force.policy.interval.total_seconds()
        for occurrence in state.happened:
            if isinstance(occurrence, RequestAnswered):
                self._metrics.counter(EVICTIONS).labels(occurrence.result).inc()
        if state.leadership.leads:  # another leader counts answers that come after a lost Lease
            self._count(state.happened)
        if state.cycle is not self._shown:
            self._shown, self._findings = state.cycle, ()
            if state.cycle is not None:
                self._take_cycle(state.cycle)
        if state.look is not None and state.look is not self._look:
            self._look = state.look
            self._workload_evictions.end(state.look.at)
        if self._web is not None:
            self._metrics.publish(GaugeView(state=state, findings=self._findings))
        if self._viewer is not None:
            self._viewer.show(state, (*self._findings, *state.reported.prevention.findings))

    def _take_cycle(self, cycle: Cycle) -> None:
        """Begin the series of a cycle's planned evictions, and compute its findings."""
        self._workload_evictions.plan(cycle.plan, cycle.context.now)
        unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
        if self._web is not None:  # findings cost more than an assessment, and nothing would show them
            self._findings = find_findings(cycle.view, cycle.assessment, unmatched)
        self._unmatched.update(cycle.context.policy.cluster.hash, unmatched)

    def patched(self, result: PatchResult) -> None:
        """Count an answer to a patch of a deletion cost."""
        self._metrics.counter(PREVENTION_PATCHES).labels(result).inc()

    def _count(self, happened: Iterable[Occurrence]) -> None:
        for occurrence in happened:
            match occurrence:
                case Granted(move):
                    self._workload_evictions.count(move)
                case MoveEnded(move, is_late):
                    outcome = outcome_of(move)
                    if outcome is not None and not is_late:
                        self._metrics.counter(MOVES).labels(outcome).inc()
                case CapacityEnded(change):
                    if change.result is not None:
                        self._metrics.counter(CAPACITY_REQUESTS).labels(change.result).inc()
                case SurgeEnded(_, ending):
                    self._metrics.counter(SURGES).labels(ending).inc()
                case GuardFailed(answer):
                    self._metrics.counter(GUARD_ERRORS).labels(answer.name).inc()
                case _:
                    pass

    def _check_cycles(self) -> str:
        """Return why the process counts as stuck, "" if it does not."""
        silent = time.monotonic() - self._last_beat
        limit = MISSED_INTERVALS * self._interval + GRACE_SECONDS
        return f"no cycle for {silent:.0f}s, expected within {limit:.0f}s" if silent > limit else ""

    def watch_threads(self, *parts: HasThread | None) -> None:
        """Let the liveness check fail if a thread of these parts ends; None is a part that this process lacks."""
        self._threads.extend(part.thread for part in parts if part is not None)

    def _check_threads(self) -> str:
        """Name the threads that have ended, whose changes would go unnoticed; "" if none has."""
        ended = [
            thread.name
            for thread in (*self._cluster.threads, *self._threads)
            if thread.ident is not None and not thread.is_alive()
        ]
        return f"ended: {', '.join(ended)}" if ended else ""

    def _refresh(self, view: GaugeView) -> GaugeView:
        """Add values that change without the loop."""
        return replace(view, leads=view.state.leadership.leads and self._leads(), watches=self._read_watches())

    def _read_watches(self) -> Sequence[WatchReading]:
        ages: dict[str, float] = {}
        objects: Counter[str] = Counter()
        for reflector in self._cluster.watches:  # with a scope, several are of one kind
            kind = reflector.kind.name
            ages[kind] = max(reflector.age, ages.get(kind, 0.0))
            objects[kind] += len(reflector)
        return [WatchReading(kind, age, objects[kind]) for kind, age in ages.items()]


class UnmatchedLog:
    """Logs the policy's references to missing objects: once per policy, and again when they are missing again.

    Changed numbers in a message do not make it a new message. Because many teams edit often, an edit of a team policy
    logs only new references.
    """

    def __init__(self) -> None:
        self._logged: frozenset[tuple[str, ...]] = frozenset()

    def update(self, policy: str, unmatched: Iterable[Unmatched]) -> None:
        """Log references that were not missing in the last cycle; `policy` is the cluster policy's hash."""
        references = {(policy, entry.group, entry.limit, entry.field, entry.value): entry for entry in unmatched}
        for reference, entry in references.items():
            if reference not in self._logged:
                _log.warning("policy references objects that do not exist", what=entry.message)
        self._logged = frozenset(references)
