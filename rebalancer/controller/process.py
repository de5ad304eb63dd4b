"""The controller as a process: all wiring in one place, start to clean end."""

import signal
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

import structlog
from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster, server_version
from rebalancer.adapters.kubernetes.configmaps import CONTROL
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import Transport, connect
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.pauses import watch_pauses
from rebalancer.controller.policy_source import OpenedPolicy, PolicyWatcher, open_policy, read_profile
from rebalancer.controller.run_once import RunOnce
from rebalancer.controller.runner import Runner
from rebalancer.controller.state import LoopEvent, LoopState, Stopping
from rebalancer.controller.status import MEMORY
from rebalancer.controller.telemetry import Telemetry
from rebalancer.model.events import Regarding
from rebalancer.reporting.status_document import memory_of
from rebalancer.settings import Settings

SYNC_SECONDS = 120.0
"""How long the first lists may take before the process gives up and lets Kubernetes start it anew."""

STOP_SECONDS = 5.0
"""How long a request that is under way may still take once the process is to end."""

_CYCLE = "cycle"
_log = structlog.get_logger("rebalancer")


class StartError(Exception):
    """The controller cannot start; the message says what is missing."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C, or with `once` until nothing is left to do.

    Raises StartError, ClusterError, NoPolicy, NoProfile or PolicyError where it cannot start.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _interrupt(stopping))
    try:
        _run(settings, stopping)
    except _StopAsked:
        _log.info("ended before it began")


class _StopAsked(BaseException):
    """A signal came while the process was still starting: whatever it waits for is left."""


def _interrupt(stopping: threading.Event) -> None:
    stopping.set()
    raise _StopAsked


def _run(settings: Settings, stopping: threading.Event) -> None:
    transport = connect(
        kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None,
        context=settings.context,
        read_timeout=settings.request_timeout.total_seconds(),
    )
    source = open_policy(settings, transport)
    _log.info("starting", settings=settings.describe(), policy=source.policy.to_dict(), policy_hash=source.policy.hash)
    controller = _Controller(settings, transport, source)
    for number in (signal.SIGTERM, signal.SIGINT):  # from here on the end is an orderly one
        signal.signal(number, lambda *_: stopping.set())
    try:
        controller.start(stopping)
        controller.wait(stopping)
    finally:
        controller.stop()
    _log.info("ended")


class _Controller:
    """The parts of the process and their order of beginning and ending."""

    def __init__(self, settings: Settings, transport: Transport, source: OpenedPolicy) -> None:
        self._settings = settings
        self._source = source
        identity = f"{socket.gethostname()}_{uuid4().hex[:8]}"
        self._cluster = KubernetesCluster(
            transport,
            namespace=settings.namespace,
            instance=identity,
            version=server_version(transport),
            control=watch_pauses(transport, settings.namespace, self._tell),
        )
        self._telling = Telemetry(
            self._cluster, settings.metrics_address, transport, interval=source.policy.interval.total_seconds()
        )
        state = LoopState(
            policy=source.policy,
            profile=read_profile(source.policy),
            policy_since=_now(),
            limit=settings.mode,
            at_once=settings.once,
            policy_object=source.regarding,
            pause_object=Regarding(kind="ConfigMap", namespace=settings.namespace, name=CONTROL),
        )
        lease_timeout = (settings.renew_deadline - settings.retry_period).total_seconds()
        self._runner = Runner(
            state=state,
            cluster=self._cluster,
            clock=_now,
            observer=self._telling,
            may_act=self._leads,
            identity=identity,
            policy_source=source.name,
        )
        self._elector = Elector(
            lease=KubernetesLease(transport, namespace=settings.namespace, timeout=max(1.0, lease_timeout)),
            election=Election(
                identity=identity,
                duration=settings.lease_duration.total_seconds(),
                deadline=settings.renew_deadline.total_seconds(),
            ),
            retry=settings.retry_period.total_seconds(),
            clock=_now,
            remembered=lambda: memory_of(self._cluster.load(MEMORY)),
            tell=self._tell,
        )
        self._watcher = (
            PolicyWatcher(read=source.read, source=source.name, tell=self._tell, first=source.first)
            if source.read is not None
            else None
        )
        # The job runs in the scheduler's own (daemon) thread: cycles cannot overlap, and a request that hangs at the
        # end of the process cannot keep it alive.
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._interval = source.policy.interval
        self._until_done = RunOnce() if settings.once else None
        self._done = threading.Event()

    def start(self, stopping: threading.Event) -> None:
        """Fill the caches, then stand for election and begin the cycles."""
        self._telling.start()
        self._cluster.start()
        self._await_sync(stopping)
        if self._watcher is not None:
            self._watcher.start()
        self._elector.start()
        trigger = IntervalTrigger(seconds=self._interval.total_seconds(), timezone=UTC)
        self._scheduler.add_job(self._cycle, trigger, id=_CYCLE, next_run_time=_now())
        self._scheduler.start()

    def _await_sync(self, stopping: threading.Event) -> None:
        began = time.monotonic()
        while not self._cluster.synced and not stopping.wait(0.05):
            forbidden = self._cluster.forbidden()
            if forbidden:
                raise StartError(f"{forbidden}; deploy/ has the ClusterRole and the Role it needs")
            if time.monotonic() - began > SYNC_SECONDS:
                raise StartError(f"the cluster could not be listed: {self._cluster.staleness()}")

    def _leads(self) -> bool:
        return self._elector.leads()

    def _tell(self, event: LoopEvent) -> None:
        """Hand an event to the loop and wake it: a change of leader or policy is not to wait for the next cycle."""
        self._runner.tell(event)
        with suppress(JobLookupError):  # the scheduler has not begun, or has just ended
            self._scheduler.modify_job(_CYCLE, next_run_time=_now())

    def _cycle(self) -> None:
        try:
            self._runner.tick()
        except Exception:  # noqa: BLE001  # a defect is told in full, this cycle ends where it was, the next is tried
            _log.exception("cycle failed")
            return  # not a heartbeat: a process that fails cycle after cycle is to be started anew
        self._telling.beat()
        state = self._runner.state
        if state.policy.interval != self._interval:
            self._interval = state.policy.interval
            trigger = IntervalTrigger(seconds=self._interval.total_seconds(), timezone=UTC)
            self._scheduler.reschedule_job(_CYCLE, trigger=trigger)
        if self._until_done is not None and self._until_done.done(state):
            self._done.set()

    def wait(self, stopping: threading.Event) -> None:
        """Wait for a signal, or for the work to be done."""
        patience = time.monotonic() + 2 * self._settings.lease_duration.total_seconds()
        while not stopping.wait(0.1) and not self._done.is_set():
            if self._settings.once and not self._elector.leads() and time.monotonic() > patience:
                raise StartError(
                    f"{self._elector.holder or 'another process'} holds the lease; with --once nothing waits for it"
                )

    def stop(self) -> None:
        """End in the order that loses nothing: no new eviction, status saved, lease handed back, events published."""
        self._runner.tell(Stopping())
        ending = threading.Thread(target=self._end_cycles, daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)
        if ending.is_alive():
            _log.warning("a request is left without its answer", seconds=STOP_SECONDS)
        if self._watcher is not None:
            self._watcher.stop()
        # With a request under way the lease runs out by itself: the next leader must not act beside it.
        self._elector.stop(timeout=STOP_SECONDS, release=not ending.is_alive())
        if self._source.reflector is not None:
            self._source.reflector.stop()
        self._cluster.stop()
        self._telling.stop()

    def _end_cycles(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
            self._runner.drain()


def _now() -> datetime:
    return datetime.now(UTC)
