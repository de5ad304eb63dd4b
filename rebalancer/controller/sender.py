"""The checks at the API server right before an eviction request is sent, and the request itself.

A watch may be silent for minutes before that is noticed, so two things are read afresh. Before each step, the workloads
concerned are read: the numbers of wanted and Ready pods must be those that the plan assumes. Before each request, the
kill switch is read (`kill_switch`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from rebalancer.admission.admit import Overload
from rebalancer.controller.kill_switch import KillSwitch
from rebalancer.controller.state import Answered, Clocks, Evict, Held, LoopEvent, NotSent, PauseRead
from rebalancer.ports import (
    Cluster,
    EvictionAnswer,
    EvictionResult,
    PlacedPod,
    ReadFailedError,
    ReadForbiddenError,
    ReplicaCount,
)

OVERLOAD_WAIT: Final = 5.0
"""Seconds without requests after an overloaded server's answer, unless the server asks for a longer time."""

PLAN_VALID_FOR: Final = timedelta(seconds=30)
"""How long after its snapshot a step may begin; the rest waits for a newer plan."""

_log = structlog.get_logger("rebalancer")


class Sender:
    """Sends eviction requests, from any number of threads.

    `find_objection` says why this process may not evict now, "" if it may. It receives the term in which the eviction
    was planned, and the approved plan, "" for none. `tell` passes an event to the loop.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        find_objection: Callable[[int, str], str],
        clocks: Clocks,
        tell: Callable[[LoopEvent], None],
    ) -> None:
        self._cluster = cluster
        self._find_objection = find_objection
        self._clocks = clocks
        self._tell = tell
        self._kill_switch = KillSwitch(cluster, clocks)
        self._overload: Overload | None = None

    def send(self, request: Evict, read_at: float) -> Answered | NotSent:
        """Make all checks, send the request and return its answer, or why it was not sent. Never raises.

        `read_at` is when the cluster was read for its plan, by the monotonic clock, because the wall clock may be set.
        """
        move = request.move
        held = self._check_overload(request) or self._check_pods(request) or self._check_permission(request, read_at)
        if isinstance(held, NotSent):
            _log.warning("eviction held back", namespace=move.namespace, pod=move.pod, why=held.why)
            return held
        answer = held.answer if held is not None else self._cluster.evict(move)
        overload = self._find_overload(answer)
        if overload is not None:  # at once, because the loop learns of it only after planning
            self._overload = overload
        _log.info(
            "eviction",
            namespace=move.namespace,
            pod=move.pod,
            uid=move.uid,
            node=move.node,
            workload=str(move.workload),
            result=answer.result,
            message=answer.message,
        )
        return Answered(uid=move.uid, answer=answer, overload=overload)

    def _find_overload(self, answer: EvictionAnswer) -> Overload | None:
        if answer.result is not EvictionResult.THROTTLED:
            return None
        return Overload(until=self._clocks.monotonic() + max(OVERLOAD_WAIT, answer.retry_after))

    def _check_overload(self, request: Evict) -> NotSent | None:
        """Return why a step may not begin: the server asked for patience a moment ago."""
        if not request.expected or self._overload is None:
            return None
        left = self._overload.left(self._clocks.monotonic()).total_seconds()
        why = f"the API server is overloaded; waiting for {left:.0f}s more"
        return _hold(request, why, Held.STEPS) if left else None

    def _check_pods(self, request: Evict) -> NotSent | Answered | None:
        """Return why a step may not begin: a stale watch, or a workload that is not as the plan assumes."""
        if not request.expected:
            return None
        stale = self._cluster.staleness()
        if stale:
            return _hold(request, stale, Held.STEPS)
        for workload, expected in request.expected:
            try:
                count = self._cluster.count_replicas(workload)
            except ReadForbiddenError as error:
                # This refusal answers the eviction, too, because the right to evict comes with the right to read.
                return Answered(uid=request.move.uid, answer=EvictionAnswer(EvictionResult.FORBIDDEN, str(error)))
            except ReadFailedError as error:
                return _hold(request, str(error))
            differs = ""
            if count.wanted != expected.wanted:
                differs = f"{workload} wants {count.wanted} pods, {expected.wanted}"
            elif count.ready < expected.ready:
                differs = f"{count.ready} pods of {workload} are Ready, {expected.ready}"
            if differs:
                return _hold(request, f"{differs} when it was planned; waiting for the next plan")
            if moved := _find_moved(expected, count, request.move.uid):
                held = _hold(request, f"{workload}: {moved} when it was planned; waiting for the next plan")
                return replace(held, plans_again=True)
        return None

    def _check_permission(self, request: Evict, read_at: float) -> NotSent | None:
        """Return why nothing may be sent: a pause, an unreadable kill switch, a lost lease, the mode, or the time."""
        try:
            pause = self._kill_switch.read()
        except ReadFailedError as error:
            return _hold(request, f"the kill switch cannot be read: {error}", Held.ALL)
        if pause is not None:
            self._tell(PauseRead(pause=pause))
            return _hold(request, pause.message, Held.ALL)
        objection = self._find_objection(request.term, request.move.approval or "")
        if objection:
            return _hold(request, objection, Held.ALL)
        age = self._clocks.monotonic() - read_at  # the reads before this one may have been slow
        if request.expected and age > PLAN_VALID_FOR.total_seconds():
            return _hold(request, "its plan is too old; waiting for the next one")
        return None


def _find_moved(planned: ReplicaCount, read: ReplicaCount, victim: str) -> str:
    """Say which pod is not on the node that the plan assumes, "" if none; the victim may be gone."""
    if planned.pods is None or read.pods is None:
        return ""
    left = planned.pods.keys() & read.pods.keys()
    for uid, pod in sorted(planned.pods.items()):
        if uid not in left and uid != victim:
            return f"pod {pod.name} is gone, it was on {_where(pod)}"
        if uid in left and pod.node and read.pods[uid].node != pod.node:
            return f"pod {pod.name} is on {_where(read.pods[uid])}, it was on {_where(pod)}"
    created = sorted(pod for uid, pod in read.pods.items() if uid not in left)
    if len(created) > max(0, read.wanted - len(left)):  # its owner recreates missing pods
        return f"pod {created[0].name} on {_where(created[0])} was not there"
    return ""


def _where(pod: PlacedPod) -> str:
    return f"node {pod.node}" if pod.node else "no node"


def _hold(request: Evict, why: str, held: Held = Held.GROUP) -> NotSent:
    return NotSent(uid=request.move.uid, why=why, term=request.term, held=held)
