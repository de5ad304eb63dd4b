"""Telling the outside how the process fares: metrics, health, readiness."""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

import structlog

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.adapters.prometheus import (
    ConstraintSamples,
    CycleSamples,
    LimitSamples,
    Metrics,
    MoveOutcome,
    Phase,
    ReplacementSamples,
    WatchSamples,
)
from rebalancer.adapters.web import WebServer
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import Loop
from rebalancer.controller.unmatched import UnmatchedLog
from rebalancer.model.moves import Move, MoveState
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.ports import EvictionResult
from rebalancer.reporting.documents.status import count_refusals
from rebalancer.reporting.state_reasons import StateReasons
from rebalancer.settings import Address

MISSED = 3
"""Intervals without a cycle after which the process counts as stuck."""

SLACK = 180.0
"""Seconds on top: a cycle over a large cluster takes its time, and the first waits two minutes for the caches."""

_log = structlog.get_logger("rebalancer")


class Telling:
    """The metrics and the web server of one process, fed by the runner.

    Alive is who runs cycles, or stands ready to; ready is who has full caches. The policy's validity is a metric and an
    event, not a matter of readiness: with an invalid new one the last good is in force.
    """

    def __init__(self, cluster: KubernetesCluster, address: Address, transport: Transport, *, interval: float) -> None:
        self._cluster = cluster
        self._metrics = Metrics(watches=self._watches)
        transport.on_answer = self._metrics.count_request
        self._web = WebServer(
            address.host,
            address.port,
            registry=self._metrics.registry,
            live={"cycles": self._alive},
            ready={"caches": cluster.staleness, "cycles": self._alive},
        )
        self._beaten = time.monotonic()
        self._interval = interval
        self._over: frozenset[str] = frozenset()
        self._led = False
        self._shown: Cycle | None = None
        self._of_cycle = CycleSamples()
        self._unmatched = UnmatchedLog()

    def start(self) -> None:
        """Begin to answer."""
        self._web.start()
        host, port = self._web.address
        _log.info("listening", host=host, port=port)

    def stop(self) -> None:
        """Stop answering."""
        self._web.stop()

    def beat(self) -> None:
        """Note that a cycle has ended, or was not ours to run."""
        self._beaten = time.monotonic()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the cycle."""
        return self._metrics.time_phase(Phase(name))

    def answered(self, result: EvictionResult) -> None:
        """Count an answer to an eviction request."""
        self._metrics.count_eviction(result)

    def changed(self, state: Loop) -> None:
        """Show a new state of the loop."""
        self._interval = state.policy.interval.total_seconds()
        self._count_ended(state)
        if state.cycle is not self._shown:
            self._shown, self._of_cycle = state.cycle, of_cycle(state.cycle)
            if state.cycle is not None:
                self._unmatched.take(state.cycle)
        self._metrics.publish(figures(state, self._of_cycle))

    def _count_ended(self, state: Loop) -> None:
        """Count the moves that have ended since the last state; those that another process saw end are not ours."""
        over = {move.uid: move for move in state.memory.moves if move.state.over}
        if state.leads and self._led:
            for uid in sorted(over.keys() - self._over):
                outcome = _outcome(over[uid])
                if outcome is not None:
                    self._metrics.count_move(outcome)
        self._over, self._led = frozenset(over), state.leads

    def _alive(self) -> str:
        silent = time.monotonic() - self._beaten
        limit = MISSED * self._interval + SLACK
        return f"no cycle for {silent:.0f}s, expected within {limit:.0f}s" if silent > limit else ""

    def _watches(self) -> Iterable[WatchSamples]:
        return [
            WatchSamples(kind=name, age=reflector.age, objects=len(reflector))
            for name, reflector in self._cluster.reflectors.items()
        ]


def _outcome(move: Move) -> MoveOutcome | None:
    match move.state:
        case MoveState.VERIFIED:
            return MoveOutcome.VERIFIED
        case MoveState.INEFFECTIVE:
            return MoveOutcome.INEFFECTIVE
        case MoveState.LOST:
            # A replacement that is there but did not become Ready, or none at all.
            return MoveOutcome.PENDING if move.replacement else MoveOutcome.LOST
        case _:
            return None


def figures(state: Loop, of_cycle: CycleSamples) -> CycleSamples:
    """Return what the metrics show of a state of the loop, given what they show of its cycle."""
    return replace(
        of_cycle,
        leader=state.leads,
        mode=state.mode,
        paused=state.pause is not None,
        policy_valid=not state.policy_error,
        policy_read_at=state.policy_since,
        in_flight=len(state.memory.in_flight),
    )


def of_cycle(cycle: Cycle | None) -> CycleSamples:
    """Return what the metrics show of a cycle; made once a cycle, since it has a row for every constraint."""
    if cycle is None:
        return CycleSamples()
    plan, verdicts = cycle.plan, StateReasons(cycle.plan)
    refused = count_refusals(plan, cycle.admission, len(cycle.assessment.deadlocks))
    return CycleSamples(
        cycle_ended_at=cycle.circumstances.now,
        constraints=tuple(_constraints(cycle, verdicts)),
        limits=tuple(_limits(cycle, verdicts)),
        replacements=tuple(_replacements(cycle)),
        findings=Counter(each.kind for each in cycle.assessment.findings),
        planned_evictions=len(plan.evictions) + len(plan.waiting),
        minimum_evictions=plan.lower_bound,
        refusals={Reason(reason): number for reason, number in refused.items()},
    )


def _constraints(cycle: Cycle, verdicts: StateReasons) -> Iterable[ConstraintSamples]:
    for judged in cycle.assessment.groups:
        for each in (*judged.hard, *judged.soft):
            state = verdicts.for_constraint(judged, each).state
            for workload in judged.group.workloads:
                if workload.kind == "Pod":
                    continue  # a bare pod is in the report; names of pods are no labels
                yield ConstraintSamples(
                    namespace=workload.namespace,
                    workload_kind=workload.kind,
                    workload=workload.name,
                    topology_key=each.constraint.key,
                    when_unsatisfiable=each.constraint.when_unsatisfiable,
                    skew=each.counts.skew,
                    max_skew=each.constraint.max_skew,
                    state=state,
                )


def _replacements(cycle: Cycle) -> Iterable[ReplacementSamples]:
    """Yield the workloads that have constraints or limits, and any other of which a pod could not be replaced."""
    kind = FindingKind.REPLACEMENT_BLOCKED
    blocked = {each for found in cycle.assessment.findings if found.kind is kind for each in found.workloads}
    known = {each for judged in cycle.assessment.groups for each in judged.group.workloads}
    known.update(each for group in cycle.assessment.pod_groups for each in group.owners)
    for each in sorted(known | blocked):
        if each.kind != "Pod":
            yield ReplacementSamples(
                namespace=each.namespace, workload_kind=each.kind, workload=each.name, blocked=each in blocked
            )


def _limits(cycle: Cycle, verdicts: StateReasons) -> Iterable[LimitSamples]:
    for each in cycle.assessment.limits:
        yield LimitSamples(
            group=each.group,
            limit=each.limit,
            namespace=each.namespace,
            key="/".join(each.key.values()),
            topology_key=each.topology_key,
            share=float(each.largest.share) if each.largest is not None else None,
            headroom=each.headroom,
            state=verdicts.for_limit(each).state,
            severity=each.severity,
            worst=each.worst,
        )
