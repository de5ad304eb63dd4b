"""What the process shows of itself: metrics, health, readiness, and the log of missing objects."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Thread
from typing import Protocol

import structlog

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.adapters.prometheus import (
    ConstraintSamples,
    CycleSamples,
    DomainSamples,
    LimitSamples,
    Metrics,
    MoveOutcome,
    Phase,
    PlanParts,
    WatchSamples,
    WorkloadSamples,
)
from rebalancer.adapters.web import WebServer, probe_routes
from rebalancer.assessment.findings import Finding, find_findings
from rebalancer.assessment.findings.domains import worst_rows
from rebalancer.assessment.unmatched import Unmatched, find_unmatched
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.request_window import RequestWindow
from rebalancer.controller.state import LoopState, find_windows
from rebalancer.locations import Address
from rebalancer.model.moves import Move, MoveState
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import NO_TEAM_POLICY
from rebalancer.policy.merging import MOST_TEAMS
from rebalancer.ports import EvictionResult, PatchResult
from rebalancer.prevention.report import NO_REPORT, PreventionReport
from rebalancer.reporting.documents.status import count_refusals
from rebalancer.reporting.events import TEAM_CONFIG_MAP
from rebalancer.reporting.plan_numbers import plan_numbers
from rebalancer.reporting.state_reasons import StateReasons

MISSED_INTERVALS = 3
"""Intervals without a cycle after which the process counts as stuck."""

GRACE_SECONDS = 180.0
"""Added to them: a cycle on a large cluster takes its time, and the first one waits two minutes for the caches."""

_TEAM_POLICY = f"/configmaps/{TEAM_CONFIG_MAP}"
"""How the path of a request for a team policy ends."""

_EVENTS = "/apis/events.k8s.io/"
"""How the path of a request for an event begins."""

_CONFLICT = 409
"""A code that counts as an answer like any other."""

_log = structlog.get_logger("rebalancer")


class HasThread(Protocol):
    """A part of the process that works in a thread of its own."""

    thread: Thread


class Viewer(Protocol):
    """Shows states of the loop: the status page, or a command's progress."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End."""
        ...

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
        self._metrics = Metrics(watches=self._watch_samples, leads=leads)
        self.requests = RequestWindow()
        transport.on_answer = self._count_request
        self._web = self._make_server(address) if address is not None else None
        self._viewer = viewer
        self._findings: tuple[Finding, ...] = ()
        self._last_beat = time.monotonic()
        self._interval = interval
        self._ended: frozenset[str] = frozenset()
        self._led = False
        self._shown: Cycle | None = None
        self._cycle_samples = CycleSamples()
        self._reported = NO_REPORT
        self._scale_downs: tuple[WorkloadSamples, ...] = ()
        self._unmatched = UnmatchedLog()
        self._threads: list[Thread] = []

    def _make_server(self, address: Address) -> WebServer:
        live = {"cycles": self._check_cycles, "threads": self._check_threads}
        ready = {"caches": self._cluster.staleness, "cycles": self._check_cycles}
        routes = probe_routes(self._metrics.registry, live=live, ready=ready)
        return WebServer(address.host, address.port, routes)

    def start(self) -> None:
        """Begin to listen."""
        if self._web is not None:
            self._web.start()
            host, port = self._web.address
            _log.info("listening", host=host, port=port)
        if self._viewer is not None:
            self._viewer.start()

    def stop(self) -> None:
        """Stop listening."""
        if self._web is not None:
            self._web.stop()
        if self._viewer is not None:
            self._viewer.stop()

    def beat(self) -> None:
        """Note that a cycle has ended, or that another process leads."""
        self._last_beat = time.monotonic()

    def _count_request(self, method: str, path: str, code: int, is_meant: bool, seconds: float) -> None:
        """Count a request; one that is refused on purpose (`is_meant`) has not failed, whatever its code."""
        self._metrics.count_request(method, path, code)
        # One team without a right must not open the breaker, nor many hold it shut. No more must events: nothing
        # depends on them, and a webhook or a quota of one namespace may refuse them all.
        if not path.endswith(_TEAM_POLICY) and not path.startswith(_EVENTS):
            self.requests.count(_CONFLICT if is_meant else code, seconds)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        return self._metrics.time_phase(Phase(name))

    def answered(self, result: EvictionResult) -> None:
        """Count an answer to an eviction request."""
        self._metrics.count_eviction(result)

    def changed(self, state: LoopState) -> None:
        """Show a new state of the loop; findings are computed here, once per cycle."""
        self._interval = state.in_force.policy.interval.total_seconds()
        self._count_ended(state)
        if state.cycle is not self._shown:
            self._shown, self._cycle_samples = state.cycle, CycleSamples()
            if state.cycle is not None:
                cycle = state.cycle
                for change in cycle.capacity.decision.changes if cycle.capacity is not None else ():
                    if change.result is not None:
                        self._metrics.count_capacity(change.result)
                unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
                if self._web is not None:  # findings cost more than an assessment, and nobody would read them
                    self._findings = find_findings(cycle.view, cycle.assessment, unmatched)
                    self._cycle_samples = cycle_samples(cycle, self._findings)
                self._unmatched.update(cycle.context.policy.cluster.hash, unmatched)
        if state.reported.prevention is not self._reported:
            self._reported, self._scale_downs = (
                state.reported.prevention,
                tuple(_scale_down_samples(state.reported.prevention)),
            )
        samples = replace(loop_samples(state, self._cycle_samples), scale_downs=self._scale_downs)
        self._metrics.publish(samples)
        if self._viewer is not None:
            self._viewer.show(state, (*self._findings, *state.reported.prevention.findings))

    def patched(self, result: PatchResult) -> None:
        """Count an answer to a patch of a deletion cost."""
        self._metrics.count_patch(result)

    def _count_ended(self, state: LoopState) -> None:
        """Count the moves that have ended since the last state; those that ended under another leader are its own."""
        # A refused one has no outcome, and may go on: its pod may be removed by whoever refused it.
        ended = {
            move.uid: move for move in state.memory.moves if move.state.over and move.state is not MoveState.REFUSED
        }
        if state.leadership.leads and self._led:
            for uid in sorted(ended.keys() - self._ended):
                outcome = _outcome(ended[uid])
                if outcome is not None:
                    self._metrics.count_move(outcome)
        self._ended, self._led = frozenset(ended), state.leadership.leads

    def _check_cycles(self) -> str:
        """Return why the process counts as stuck, "" if it does not."""
        silent = time.monotonic() - self._last_beat
        limit = MISSED_INTERVALS * self._interval + GRACE_SECONDS
        return f"no cycle for {silent:.0f}s, expected within {limit:.0f}s" if silent > limit else ""

    def watch_threads(self, *parts: HasThread | None) -> None:
        """Make the end of their threads a failure of the liveness check; None is a part that this process lacks."""
        self._threads.extend(part.thread for part in parts if part is not None)

    def _check_threads(self) -> str:
        """Name the threads that have ended, "" if none has: without them changes would go unnoticed."""
        ended = [
            thread.name
            for thread in (*self._cluster.threads, *self._threads)
            if thread.ident is not None and not thread.is_alive()
        ]
        return f"ended: {', '.join(ended)}" if ended else ""

    def _watch_samples(self) -> Iterable[WatchSamples]:
        ages: dict[str, float] = {}
        objects: Counter[str] = Counter()
        for reflector in self._cluster.watches:  # with a scope, several are of one kind
            kind = reflector.kind.name
            ages[kind] = max(reflector.age, ages.get(kind, 0.0))
            objects[kind] += len(reflector)
        return [WatchSamples(kind=kind, age=age, objects=objects[kind]) for kind, age in ages.items()]


class UnmatchedLog:
    """Logs what the policy references and the cluster lacks: once per policy, and again when it comes back.

    The numbers in a message change with the cluster; they do not make it a new one. Nor does an edit of a team policy,
    whose references are logged when they are new: many teams edit often.
    """

    def __init__(self) -> None:
        self._logged: frozenset[tuple[str, ...]] = frozenset()

    def update(self, policy: str, unmatched: Iterable[Unmatched]) -> None:
        """Log what was not there in the last cycle; `policy` is the cluster policy's hash."""
        references = {(policy, entry.group, entry.limit, entry.field, entry.value): entry for entry in unmatched}
        for reference, entry in references.items():
            if reference not in self._logged:
                _log.warning("policy references objects that do not exist", what=entry.message)
        self._logged = frozenset(references)


def _outcome(move: Move) -> MoveOutcome | None:
    match move.state:
        case MoveState.VERIFIED:
            return MoveOutcome.VERIFIED
        case MoveState.INEFFECTIVE:
            return MoveOutcome.INEFFECTIVE
        case MoveState.LOST:
            # The replacement exists and did not become Ready, or there is none at all.
            return MoveOutcome.PENDING if move.replacement else MoveOutcome.LOST
        case MoveState.OVERTAKEN:
            return MoveOutcome.OVERTAKEN
        case _:
            return None


def loop_samples(state: LoopState, samples: CycleSamples) -> CycleSamples:
    """Return the samples of a state of the loop, given those of its cycle."""
    uses = find_windows(state)
    unsafe = Counter({FindingKind.SCALE_DOWN_UNSAFE: len(state.reported.prevention.findings)})
    return replace(
        samples,
        prevention_left=state.reported.prevention.left,
        prevention_stopped=bool(state.reported.prevention.stopped),
        findings=Counter(samples.findings) + unsafe,
        leader=state.leadership.leads,
        mode=state.mode,
        paused=state.in_force.pause is not None,
        memory_saved=not state.queue.unsaved,
        policy_valid=not state.in_force.policy_error,
        policy_read_at=state.in_force.policy_since,
        team_policies={name: name not in state.in_force.team_problems for name in _list_teams(state)},
        in_flight=len(state.memory.in_flight),
        slow_start_window=uses.cluster.at_once if uses is not None else 0,
        under_way=uses.cluster.under_way if uses is not None else 0,
        overdue=sum(move.overdue for move in state.memory.moves),
    )


def _scale_down_samples(report: PreventionReport) -> Iterable[WorkloadSamples]:
    """Yield a row for each workload; made once per report, because most events of the loop change none of them."""
    for workload in report.evaluated:
        yield WorkloadSamples(
            namespace=workload.namespace,
            workload_kind=workload.kind,
            workload=workload.name,
            wrong=workload in report.risky,
        )


def _list_teams(state: LoopState) -> Iterable[str]:
    """Return the namespaces with a team policy, or with a problem of one: not all that may have one."""
    written = {name for name, reading in state.in_force.teams.items() if reading.policy != NO_TEAM_POLICY}
    allowed = {name for name in written if state.in_force.policy.cluster.team_policies.allows(name)}
    return sorted(allowed | state.in_force.team_problems.keys())[:MOST_TEAMS]


def cycle_samples(cycle: Cycle, findings: Sequence[Finding]) -> CycleSamples:
    """Return the samples of a cycle; made once per cycle, because there is a row for every constraint."""
    plan, states, numbers = cycle.plan, StateReasons(cycle.plan), plan_numbers(cycle.plan)
    proposal = cycle.memory.proposal
    refused = count_refusals(plan, cycle.admission, len(cycle.assessment.deadlocks))
    return CycleSamples(
        cycle_ended_at=cycle.context.now,
        breaker_causes=frozenset(known.cause for known in cycle.context.breaker.causes),
        constraints=tuple(_constraint_samples(cycle, states)),
        limits=tuple(_limit_samples(cycle, states)),
        replacements=tuple(_replacement_samples(cycle, findings)),
        domains_without_nodes=tuple(_domain_samples(cycle)),
        findings=Counter(finding.kind for finding in findings),
        plan_parts=PlanParts(now=numbers.now, waiting=numbers.waiting, later=numbers.later, blocked=numbers.blocked),
        minimum_evictions=numbers.lower_bound,
        placeholders=cycle.capacity.held if cycle.capacity is not None else 0,
        plan_pending=len(proposal.uids) if proposal is not None and not proposal.approved else 0,
        refusals={Reason(reason): number for reason, number in refused.items()},
    )


def _constraint_samples(cycle: Cycle, states: StateReasons) -> Iterable[ConstraintSamples]:
    for group in cycle.assessment.groups:
        for evaluated in (*group.hard, *group.soft):
            state = states.for_constraint(group, evaluated).state
            for workload in group.spread.workloads:
                if workload.kind == "Pod":
                    continue  # a bare pod is in the report; names of pods are no labels
                yield ConstraintSamples(
                    namespace=workload.namespace,
                    workload_kind=workload.kind,
                    workload=workload.name,
                    topology_key=evaluated.constraint.key,
                    when_unsatisfiable=evaluated.constraint.when_unsatisfiable,
                    skew=evaluated.counts.skew,
                    max_skew=evaluated.constraint.max_skew,
                    state=state,
                )


def _replacement_samples(cycle: Cycle, findings: Iterable[Finding]) -> Iterable[WorkloadSamples]:
    """Yield the workloads that have constraints or limits, and any other with a pod that cannot be replaced."""
    kind = FindingKind.REPLACEMENT_BLOCKED
    blocked = {workload for finding in findings if finding.kind is kind for workload in finding.workloads}
    evaluated = {workload for group in cycle.assessment.groups for workload in group.spread.workloads}
    evaluated.update(workload for group in cycle.assessment.pod_groups for workload in group.owners)
    for workload in sorted(evaluated | blocked):
        if workload.kind != "Pod":
            yield WorkloadSamples(
                namespace=workload.namespace,
                workload_kind=workload.kind,
                workload=workload.name,
                wrong=workload in blocked,
            )


def _domain_samples(cycle: Cycle) -> Iterable[DomainSamples]:
    for workload, row in worst_rows(cycle.assessment.domains_without_nodes):
        if workload.kind != "Pod":
            yield DomainSamples(
                namespace=workload.namespace,
                workload_kind=workload.kind,
                workload=workload.name,
                topology_key=row.topology_key,
                domain=row.domain.value,
                headroom=row.max_skew - row.skew,
            )


def _limit_samples(cycle: Cycle, states: StateReasons) -> Iterable[LimitSamples]:
    for limit in cycle.assessment.limits:
        yield LimitSamples(
            group=limit.group,
            limit=limit.limit,
            namespace=limit.namespace,
            key="/".join(limit.key.values()),
            topology_key=limit.topology_key,
            share=float(limit.largest.share) if limit.largest is not None else None,
            headroom=limit.headroom,
            state=states.for_limit(limit).state,
            severity=limit.severity,
            worst=limit.worst,
        )
