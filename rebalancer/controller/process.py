"""The controller as a process: connects all parts, from the start to an orderly end."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

import structlog
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger
from msgspec import UNSET, DecodeError, structs

from rebalancer.account.people import Acts
from rebalancer.adapters.kubernetes.access import may_evict
from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.configmaps import APPROVAL, CONTROL, STATUS, read_config_map
from rebalancer.adapters.kubernetes.history import HistoryMaps
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.placeholders import PlaceholderStore
from rebalancer.adapters.kubernetes.standstill import elapsed
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.adapters.prometheus import PrometheusQueries
from rebalancer.adapters.web import CannotListen
from rebalancer.admission.rights import Rights
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.follower import Follower
from rebalancer.controller.history_writer import HistoryWriter
from rebalancer.controller.page import StatusPage
from rebalancer.controller.policy_source import OpenedPolicy, PolicyWatcher, open_policy
from rebalancer.controller.polling import LATEST
from rebalancer.controller.prevention import PreventionWorker
from rebalancer.controller.resilience import ResilienceWorker, compute_elsewhere
from rebalancer.controller.rights import RightsReader
from rebalancer.controller.run_once import RunOnce, time_to_next_cycle
from rebalancer.controller.runner import Identity, Runner, spawn_thread
from rebalancer.controller.state import Clocks, InForce, LoopEvent, LoopState, ProcessFacts, Queue, Stopping
from rebalancer.controller.status import read_memory
from rebalancer.controller.surge import SurgeWorker
from rebalancer.controller.switches import watch_approvals, watch_pauses
from rebalancer.controller.takeover import find_remaining
from rebalancer.controller.team_policies import TeamPolicyReader
from rebalancer.controller.telemetry import Telemetry, Viewer
from rebalancer.controller.valid_policy import ValidPolicyKeeper
from rebalancer.documents.plan import PlanDocument
from rebalancer.model.approvals import Proposal
from rebalancer.model.cluster import ConfigMap, describe_unmodelled
from rebalancer.model.events import Regarding
from rebalancer.model.moves import Memory
from rebalancer.policy import Mode, select_team_namespaces
from rebalancer.policy.team_maps import POLICY_MAP
from rebalancer.ports import MEMORY_KEY, ReadFailedError
from rebalancer.settings import Settings, flag_of, variable_of

SYNC_SECONDS = 120.0
"""How long the version and the first lists may take before the process exits and Kubernetes starts it again."""

ONCE_SECONDS = 10.0
"""How long the version may take with `once`, when somebody waits for the end."""

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0
"""Seconds between two requests for the version, at first and at most."""

STOP_SECONDS = 8.0
"""How long the process may take from a signal to the release of the Lease; then the watches end, in two seconds."""

LOOP_STOP_SECONDS = 4.0
"""The part of `STOP_SECONDS` for which the loop may finish a request or its planning."""

_LEASE_RELEASE_SECONDS = 2.0
"""The part of `STOP_SECONDS` that writing the history leaves for the release of the Lease."""

_SHORTEST_STOP = 1.0
"""Least seconds to wait for a thread, because a busy machine may not run it sooner."""

_TEAM_POLICY_SECONDS = 5.0
"""How long reading one team policy may take."""

_STATUS_SECONDS = 2.0
"""How long reading the status may take for a reader of the page."""

_CYCLE = "cycle"

_log = structlog.get_logger("rebalancer")


def _now() -> datetime:
    return datetime.now(UTC)


SYSTEM_CLOCKS = Clocks(now=_now, monotonic=elapsed)
"""A Lease runs out while the machine is suspended, too."""


class StartError(Exception):
    """The controller cannot start; the message says what is missing."""


def _make_trigger(seconds: float) -> IntervalTrigger:
    return IntervalTrigger(seconds=seconds, timezone=UTC)


def run(
    settings: Settings,
    clocks: Clocks = SYSTEM_CLOCKS,
    *,
    interval: timedelta | None = None,
    approved: PlanDocument | None = None,
    viewer: Viewer | None = None,
) -> bool:
    """Run until SIGTERM or Ctrl-C, or with `once` until nothing is left to do; return whether no signal ended it.

    Decisions are made by `clocks`; waits are the system's. `interval` replaces that of the policy. With an `approved`
    plan the mode is Approve, the policy stays as it is read first, and nothing else is evicted. `viewer` is shown the
    loop's states in the place of the status page. Raises StartError, ClusterError, CannotListen, UnreadablePolicy,
    UnreadableProfile or PolicyError where it cannot start.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _interrupt(stopping))
    try:
        _run(settings, clocks, stopping, interval, approved, viewer)
    except _Interrupted:
        _log.info("ended before the first cycle")
    return not stopping.is_set()


class _Interrupted(BaseException):
    """A signal came while the process was still starting; its present wait is abandoned."""


def _interrupt(stopping: threading.Event) -> None:
    stopping.set()
    raise _Interrupted


def _run(
    settings: Settings,
    clocks: Clocks,
    stopping: threading.Event,
    interval: timedelta | None,
    approved: PlanDocument | None,
    viewer: Viewer | None,
) -> None:
    transport = connect(
        kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None,
        context=settings.context,
        read_timeout=settings.request_timeout.total_seconds(),
    )
    for warning in transport.warnings:
        _log.warning(warning)
    policy = open_policy(settings, transport)
    if approved is not None:
        fixed = policy.policy.model_copy(update={"mode": Mode.APPROVE})
        policy = replace(policy, policy=fixed, read=None)
    _log.info("starting", settings=settings.describe(), policy=policy.policy.to_dict(), policy_hash=policy.policy.hash)
    controller = _Controller(settings, clocks, transport, policy, interval, approved, viewer)
    try:
        controller.listen()
        for number in (signal.SIGTERM, signal.SIGINT):  # from here on a signal ends the process in order
            signal.signal(number, lambda *_: stopping.set())
        controller.start(stopping)
        controller.wait(stopping)
    finally:
        controller.stop()
    _log.info("ended")


@contextmanager
def _naming_flag(setting: str) -> Iterator[None]:
    """Name the flag and the variable that choose the address on which a server cannot listen."""
    try:
        yield
    except CannotListen as error:
        way = f"choose another address with {flag_of(setting)} or {variable_of(setting)}"
        raise CannotListen(f"{error}; {way}") from None


def _make_scheduler() -> BackgroundScheduler:
    """Make a scheduler whose jobs only signal; loop and readers do the work in their own threads."""
    return BackgroundScheduler(
        timezone=UTC,
        executors={"default": DebugExecutor()},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


class _Controller:
    """The parts of the process, and the order in which they start and end."""

    def __init__(
        self,
        settings: Settings,
        clocks: Clocks,
        transport: Transport,
        policy: OpenedPolicy,
        interval: timedelta | None,
        approved: PlanDocument | None = None,
        viewer: Viewer | None = None,
    ) -> None:
        self._settings = settings
        self._approved = approved
        self._clocks = clocks
        self._transport = transport
        self._policy = policy
        self._identity = f"{socket.gethostname()}_{uuid4().hex[:8]}"
        self._fixed_interval = interval
        self._interval = interval or policy.policy.interval
        self._approvals = watch_approvals(transport, settings.namespace, self._tell)
        self._cluster = self._make_cluster()
        self._notice_stops()
        identity = Identity(name=self._identity, policy_source=policy.name)
        self._elector = self._make_elector()
        self._history = HistoryWriter(
            HistoryMaps(transport, settings.namespace), leads=self._elector.leads, tell=self._tell_quietly
        )
        self._telemetry = self._make_telemetry(viewer or self._make_page(identity))
        self._runner = self._make_runner(identity)
        self._prevention = self._make_prevention()
        self._surges = self._make_surges()
        self._resilience = self._make_resilience()
        self._rights = self._make_rights()
        self._valid_policy = self._make_valid_policy()
        self._watcher = self._make_watcher()
        self._team_policies = TeamPolicyReader(
            list_namespaces=self._list_team_namespaces, read=self._read_team_policy, tell=self._tell
        )
        self._scheduler = _make_scheduler()
        self._run_once = RunOnce() if settings.once else None
        self._synced_by = time.monotonic() + SYNC_SECONDS
        self._done = threading.Event()
        self._ending = False

    def _make_cluster(self) -> KubernetesCluster:
        cluster = KubernetesCluster(
            self._transport,
            namespace=self._settings.namespace,
            instance=self._identity,
            control=watch_pauses(self._transport, self._settings.namespace, self._tell),
            scope=frozenset(self._settings.workload_namespaces) or None,
            beside=(self._approvals,),
        )
        cluster.follow_owners(self._policy.policy.eligibility.foreign_owners)
        return cluster

    def _make_page(self, identity: Identity) -> StatusPage | None:
        address = self._settings.page_listen_address
        if address is None:
            return None
        with _naming_flag("page_address"):
            return StatusPage(
                address,
                identity,
                read_lease=self._elector.describe_lease,
                read_past=self._history.read_past,
                follower=self._make_follower(),
                namespace=self._settings.namespace,
            )

    def _make_follower(self) -> Follower:
        return Follower(
            read_stored=self._read_stored,
            read_cluster=self._cluster.snapshot,
            find_staleness=self._cluster.staleness,
            clocks=self._clocks,
        )

    def _read_stored(self) -> Mapping[str, str]:
        """Read the documents that the leader has stored, without changing what this process knows as a leader."""
        try:
            stored = read_config_map(self._transport, self._settings.namespace, STATUS, timeout=_STATUS_SECONDS)
        except (ClusterError, DecodeError) as error:
            raise ReadFailedError(str(error)) from error
        return stored.data if stored is not None else {}

    def _make_telemetry(self, viewer: Viewer | None) -> Telemetry:
        try:
            with _naming_flag("metrics_address"):
                return Telemetry(
                    self._cluster,
                    self._settings.listen_address,
                    self._transport,
                    interval=self._interval.total_seconds(),
                    viewer=viewer,
                    leads=self._leads,
                )
        except CannotListen:
            if viewer is not None:
                viewer.stop()  # the page has its port already
            raise

    def _make_prevention(self) -> PreventionWorker:
        return PreventionWorker(
            cluster=self._cluster,
            clocks=self._clocks,
            get_state=lambda: self._runner.state,
            may_act=self._may_act,
            tell=self._runner.tell,
            count=self._telemetry.patched,
        )

    def _make_surges(self) -> SurgeWorker:
        return SurgeWorker(
            cluster=self._cluster,
            clocks=self._clocks,
            get_state=lambda: self._runner.state,
            may_act=self._may_act,
            tell=self._tell_quietly,
        )

    def _make_resilience(self) -> ResilienceWorker:
        return ResilienceWorker(
            get_state=lambda: self._runner.state,
            tell=self._tell_quietly,
            clocks=self._clocks,
            compute=compute_elsewhere,
        )

    def _make_rights(self) -> RightsReader:
        return RightsReader(
            ask=partial(may_evict, self._transport),
            get_state=lambda: self._runner.state,
            tell=self._tell,
            clocks=self._clocks,
        )

    def _make_runner(self, identity: Identity) -> Runner:
        settings = self._settings
        state = LoopState(
            in_force=InForce(policy=self._policy.policy, profile=self._policy.profile, policy_since=self._clocks.now()),
            process=ProcessFacts(
                furthest_mode=settings.mode,
                at_once=settings.once,
                policy_object=self._policy.regarding,
                pause_object=Regarding(kind="ConfigMap", namespace=settings.namespace, name=CONTROL),
                approval_object=Regarding(kind="ConfigMap", namespace=settings.namespace, name=APPROVAL),
                history_name=self._identity,
                cluster_name=settings.cluster_name,
                page_port=settings.page_listen_address.port if settings.page_listen_address is not None else None,
            ),
            acts=Acts(policy_author=self._policy.read_author(self._policy.first)),
            queue=Queue(rights=Rights(everywhere=False)),  # unknown before the first request
        )
        return Runner(
            state=state,
            cluster=self._cluster,
            clocks=self._clocks,
            observer=self._telemetry,
            may_act=self._may_act,
            identity=identity,
            spawn=spawn_thread,
            cycle_ended=self._cycle_ended,
            placeholders=PlaceholderStore(self._transport),
            monitoring=PrometheusQueries(folder=self._policy.folder),
            count_requests=self._telemetry.requests.read,
            memory_saved=self._history.take,
            holds_lease=self._elector.confirms,
            knows_approval=lambda: not self._cluster.staleness_of("approval", self._approvals),
        )

    def _notice_stops(self) -> None:
        """Renew the view after a stop of the process that is long enough to lose the Lease.

        With short intervals, after a stop of two cycles.
        """
        longest = min(2 * self._interval, self._settings.renew_deadline)
        self._cluster.notice_stops(max(_SHORTEST_STOP, longest.total_seconds()))

    def _load_memory(self) -> Memory:
        policy, now = self._runner.state.in_force.policy, self._clocks.now()
        memory = read_memory(self._cluster.load(MEMORY_KEY), policy, now)
        if self._approved is None:
            return memory
        plan = self._approved
        proposal = Proposal(
            hash=plan.plan_hash,
            policy=policy.cluster.hash,
            since=now,
            uids=tuple(eviction.uid for eviction in plan.evictions),
            approved=True,
        )
        return structs.replace(memory, proposal=proposal, standing=UNSET)

    def _make_elector(self) -> Elector:
        settings = self._settings
        timeout = settings.lease_request_timeout.total_seconds()
        return Elector(
            lease=KubernetesLease(self._transport, namespace=settings.namespace, timeout=max(1.0, timeout)),
            election=Election(
                identity=self._identity,
                duration=settings.lease_duration.total_seconds(),
                deadline=settings.renew_deadline.total_seconds(),
            ),
            retry=settings.retry_period.total_seconds(),
            clocks=self._clocks,
            load_memory=self._load_memory,
            tell=self._tell,
            find_remaining=lambda memory: find_remaining(self._cluster, memory, self._clocks.monotonic),
        )

    def _make_valid_policy(self) -> ValidPolicyKeeper | None:
        """Make the store of the policy in force, if people can change the policy while this process runs."""
        if self._policy.read is None:
            return None
        namespace = self._settings.namespace
        return ValidPolicyKeeper(self._transport, namespace, first=self._policy.first, leads=self._leads)

    def _make_watcher(self) -> PolicyWatcher | None:
        policy = self._policy
        if policy.read is None or self._valid_policy is None:
            return None
        return PolicyWatcher(
            read=policy.read,
            source=policy.name,
            tell=self._tell,
            first=policy.first,
            folders=policy.folders,
            read_author=policy.read_author,
            keep=self._valid_policy.take,
        )

    def _list_team_namespaces(self) -> list[str]:
        namespaces = self._cluster.reflectors["Namespace"].contents().objects
        scope = self._settings.workload_namespaces
        names = (namespace.name for namespace in namespaces if not scope or namespace.name in scope)
        return select_team_namespaces(self._runner.state.in_force.policy.cluster, names, self._settings.namespace)

    def _read_team_policy(self, namespace: str) -> ConfigMap | None:
        return read_config_map(self._transport, namespace, POLICY_MAP, timeout=_TEAM_POLICY_SECONDS)

    def listen(self) -> None:
        """Serve the probes, and wait for the API server's version, even if the server fails for a moment.

        Raises ClusterError if waiting does not help or has taken too long.
        """
        self._telemetry.start()
        wait = _FIRST_WAIT
        until = min(self._synced_by, time.monotonic() + ONCE_SECONDS) if self._settings.once else self._synced_by
        while (error := self._read_version()) is not None:
            left = until - time.monotonic()
            if not error.passes or left <= 0:
                raise error
            seconds = min(max(wait, error.retry_after), _LONGEST_WAIT, left)
            _log.warning("waiting for the API server", error=str(error), next_in=round(seconds, 1))
            time.sleep(seconds)
            wait *= 2

    def _read_version(self) -> ClusterError | None:
        """Read the API server's version; warn if its scheduler is not modelled. Return the error, if any."""
        try:
            version = self._cluster.read_version()
        except ClusterError as error:
            return error
        if unmodelled := describe_unmodelled(version):
            _log.warning(unmodelled)
        return None

    def start(self, stopping: threading.Event) -> None:
        """Fill the caches, then take part in the election and begin the cycles."""
        self._telemetry.watch_threads(
            self._transport,
            self._runner,
            self._elector,
            self._watcher,
            self._valid_policy,
            self._rights,
            self._policy.reflector,
            self._approvals,
            self._team_policies,
            self._prevention,
            self._surges,
            self._resilience,
            self._history,
        )
        self._cluster.start(self._runner.observe)
        self._approvals.start()
        self._await_sync(stopping)
        if self._watcher is not None and self._valid_policy is not None:
            self._watcher.start()
            self._valid_policy.start()
        # Before the first cycle, because missing rights must be known before anything is proposed.
        self._rights.poll()
        self._rights.start()
        # Team policies hold from the beginning.
        self._team_policies.poll(ended=stopping.is_set)
        if stopping.is_set():
            return
        self._team_policies.start()
        self._runner.thread.start()
        self._history.start()
        if self._run_once is None:  # the order of deletion stays: a process that ends leaves it to the next
            self._prevention.thread.start()
            self._surges.thread.start()
            self._resilience.thread.start()
        self._elector.start()
        if self._run_once is None:
            self._add_job(_CYCLE, self._runner.ask_cycle, self._interval.total_seconds(), next_run_time=_now())
        readers = (self._watcher, self._valid_policy, self._rights, self._team_policies, self._history)
        for reader in filter(None, readers):
            self._add_job(reader.name, reader.signal, reader.seconds)
        self._scheduler.start()

    def _add_job(self, name: str, signal: Callable[[], None], seconds: float, **options: datetime) -> None:
        self._scheduler.add_job(signal, _make_trigger(seconds), id=name, **options)

    def _await_sync(self, stopping: threading.Event) -> None:
        while not self._cluster.synced and not stopping.wait(0.05):
            forbidden = self._cluster.forbidden()
            if forbidden:
                raise StartError(f"{forbidden}; deploy/ has the ClusterRole and the Role that it needs")
            if time.monotonic() > self._synced_by:
                raise StartError(f"the cluster could not be listed: {self._cluster.staleness()}")

    def _leads(self) -> bool:
        return not self._ending and self._elector.leads()

    def _may_act(self, term: int) -> bool:
        """Return whether a request may be sent; not once the process ends, even if the loop still plans."""
        return not self._ending and self._elector.leads_in(term)

    def _tell(self, event: LoopEvent) -> None:
        """Pass an event to the loop, and ask for a cycle at once, because a change of leader or policy must not wait.

        Called by the threads of the lease, the policy and the watches, which must never wait for the loop.
        """
        self._runner.tell(event)
        self._runner.ask_cycle()

    def _tell_quietly(self, event: LoopEvent) -> None:
        """Pass an event to the loop on which no decision depends."""
        self._runner.tell(event)

    def _cycle_ended(self) -> None:
        self._telemetry.beat()
        self._prevention.cycle_ended()
        self._rights.signal()
        state = self._runner.state
        self._cluster.follow_owners(state.in_force.policy.eligibility.foreign_owners)
        if self._run_once is not None:
            if self._run_once.is_done(state):
                self._done.set()
            self._runner.ask_cycle_within(time_to_next_cycle(state).total_seconds())
            return
        # The scheduler follows the time of day; if that is set back by an hour, no cycle would run for an hour.
        self._runner.ask_cycle_within(LATEST * self._interval.total_seconds())
        if (interval := self._fixed_interval or state.in_force.policy.interval) != self._interval:
            self._interval = interval
            self._notice_stops()
            self._scheduler.reschedule_job(_CYCLE, trigger=_make_trigger(interval.total_seconds()))

    def wait(self, stopping: threading.Event) -> None:
        """Wait for a signal, or with `once` for the end of the work; StartError if the work cannot begin."""
        deadline = time.monotonic() + 2 * self._settings.lease_duration.total_seconds()
        while not stopping.wait(0.1) and not self._done.is_set():
            if self._settings.once and not self._elector.leads():
                self._check_lease(overdue=time.monotonic() > deadline)

    def _check_lease(self, *, overdue: bool) -> None:
        """Raise StartError if the Lease cannot be held, or `overdue` if this process still does not lead."""
        if self._elector.obstacle:
            raise StartError(self._elector.obstacle)
        if overdue and self._elector.problem:
            raise StartError(f"this process cannot lead: {self._elector.problem}")
        if overdue:
            holder = self._elector.holder or "another process"
            raise StartError(f"{holder} holds the Lease; stop it first, or run without --once to wait for the Lease")

    def stop(self) -> None:
        """End without losing anything: stop evictions, save the status, release the lease, publish the events."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        deadline = time.monotonic() + STOP_SECONDS
        self._prevention.stop()
        self._surges.stop()
        self._resilience.stop()
        self._runner.tell(Stopping())
        if self._runner.thread.is_alive():
            self._runner.thread.join(LOOP_STOP_SECONDS)
        self._ending = True  # the loop may go on planning, but from here on it sends nothing
        abandoned = self._runner.thread.is_alive() and bool(self._runner.state.queue.under_way)
        if abandoned:
            _log.warning("abandoned an in-flight request at shutdown", seconds=LOOP_STOP_SECONDS)
        if self._watcher is not None and self._valid_policy is not None:
            self._watcher.stop()
            self._valid_policy.stop()
        self._rights.stop()
        self._team_policies.stop()
        self._history.finish(deadline - time.monotonic() - _LEASE_RELEASE_SECONDS)
        # With a request under way, the lease must run out by itself: the next leader must not act meanwhile.
        self._elector.stop(timeout=deadline - time.monotonic(), release=not abandoned)
        if self._policy.reflector is not None:
            self._policy.reflector.stop()
        self._approvals.stop()
        self._cluster.stop()
        self._telemetry.stop()
