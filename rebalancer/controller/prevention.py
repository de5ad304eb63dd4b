"""Maintains the deletion costs: evaluates the last cycle's cluster, then sends patches one by one.

It has a thread of its own because the loop must not wait for it: a first pass over a large cluster takes minutes, and
patches are sent at a limited rate. Its actions follow from the last cycle; it has no memory that must survive.

Each patch requires that this process leads, that no pause is stored at the API server, that the policy still says
Steer, and that the cycle is recent. Every ten minutes, the API server must also refuse to change a label. This proves
that the identity cannot change more than deletion costs. When in doubt, nothing is patched.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol

import structlog

from rebalancer.controller.cycle import Cycle
from rebalancer.controller.kill_switch import KillSwitch
from rebalancer.controller.restriction import Restriction
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, PreventionReported
from rebalancer.policy import Mode, Policy, ScaleDownPrevention
from rebalancer.ports import Cluster, PatchAnswer, PatchResult, PodAnnotator, ReadFailedError
from rebalancer.prevention.findings import find_risks, scale_down_findings
from rebalancer.prevention.plan import (
    NOTHING_CARRIED,
    Carried,
    GroupResult,
    PodPatch,
    Written,
    evaluate_groups,
    find_removals,
    is_older,
    is_selected,
)
from rebalancer.prevention.report import NO_REPORT, PreventionReport

VALID_FOR: Final = timedelta(minutes=1)
"""How long after its snapshot a patch may be sent; the rest waits for a newer cycle."""

_BACK_OFF: Final = 30.0
"""Seconds for which a workload is left alone after a failed patch. Each further failure doubles them."""

_LONGEST_BACK_OFF: Final = 1800.0

_LATE: Final = 300.0
"""Seconds after which the watch must have delivered a patch."""

_log = structlog.get_logger("rebalancer")


class PatchedCluster(Cluster, PodAnnotator, Protocol):
    """A cluster whose pods' deletion costs can be written."""


class PreventionWorker:
    """Maintains the order of deletion of every workload, in one process.

    `get_state` returns the loop's state. `may_act` says whether this process still leads in a term. `tell` passes an
    event to the loop, and `count` a result to the metrics. `burst` is how many seconds' worth of patches may be sent at
    once.
    """

    def __init__(
        self,
        *,
        cluster: PatchedCluster,
        clocks: Clocks,
        get_state: Callable[[], LoopState],
        may_act: Callable[[int], bool],
        tell: Callable[[LoopEvent], None],
        count: Callable[[PatchResult], None] = lambda _: None,
        burst: float = 1.0,
    ) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._get_state = get_state
        self._may_act = may_act
        self._tell = tell
        self._count = count
        self._burst = burst
        self._kill_switch = KillSwitch(cluster, clocks)
        self._carried = NOTHING_CARRIED
        self._written: dict[str, tuple[Written, float]] = {}
        self._backing_off: dict[str, tuple[float, float]] = {}
        self._allowance = 0.0
        self._allowed_at: float | None = None
        self._restriction = Restriction(cluster, clocks)
        self._report = NO_REPORT
        self._latest: Cycle | None = None
        self._wake = threading.Event()
        self._ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name="prevention", daemon=True)

    # From any thread

    def cycle_ended(self) -> None:
        """Take the loop's last cycle; from the loop's thread, never blocks."""
        state = self._get_state()
        cycle = state.cycle if state.leadership.leads else None
        if cycle is not self._latest:
            self._latest = cycle
            self._wake.set()

    def stop(self) -> None:
        """End after the request that is under way."""
        self._ending.set()
        self._wake.set()

    # In its own thread

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self.work(self._wait)
            except Exception:  # noqa: BLE001  # a defect is logged, the next cycle is tried
                _log.exception("prevention failed")

    def _wait(self, seconds: float) -> bool:
        """Wait for the next patch; return whether it may be sent, False if there is a newer cycle."""
        return not self._wake.wait(seconds)

    def work(self, wait: Callable[[float], bool] = lambda _: False) -> None:
        """Evaluate the last cycle and send its patches, as far as `wait` allows."""
        cycle = self._latest
        if cycle is None or self._ending.is_set():
            return
        policy = cycle.context.policy
        self._forget_delivered(cycle)
        results = list(self._evaluate(cycle, policy))
        groups = [result.patches for result in results if result.patches]
        steered = frozenset(result.uid for result in results)
        removals = find_removals(cycle.snapshot, policy, steered, self._carried.written)
        report = self._make_report(cycle, policy, results, sum(map(len, groups)), sum(map(len, removals)))
        self._publish(report)
        if self._latest is cycle:
            self._send_all(cycle, (*removals, *groups), wait)

    def _evaluate(self, cycle: Cycle, policy: Policy) -> Iterator[GroupResult]:
        """Yield the results, and store them for the next cycle."""
        carried = self._carried = Carried(
            unsettled=self._carried.unsettled,
            known=self._carried.known,
            written={uid: written for uid, (written, _) in self._written.items()},
        )
        unsettled, known = {}, {}
        for result in evaluate_groups(
            cycle.view, cycle.assessment, policy, cycle.memory, cycle.context.now, self._carried
        ):
            known[result.uid] = result.known
            if result.unsettled_since is not None:
                unsettled[result.uid] = result.unsettled_since
            yield result
        self._carried = Carried(unsettled=unsettled, known=known, written=carried.written)

    def _forget_delivered(self, cycle: Cycle) -> None:
        """Forget patches that the snapshot already shows, and patches of pods that no longer exist."""
        pods, now = cycle.snapshot.pod, self._clocks.monotonic()
        for uid, (written, at) in list(self._written.items()):
            pod = pods.get(uid)
            if pod is None or not is_older(pod.resource_version, written.resource_version) or now - at > _LATE:
                del self._written[uid]

    def _make_report(
        self, cycle: Cycle, policy: Policy, results: Sequence[GroupResult], waiting: int, left: int
    ) -> PreventionReport:
        selected = [
            result for result in results if is_selected(result.group.owner.namespace, result.group.member.pods, policy)
        ]
        risks = list(find_risks(selected, cycle.view, policy))
        unsteered = Counter(str(result.unsteered) for result in selected if result.unsteered is not None)
        return PreventionReport(
            mode=policy.prevention.scale_down,
            workloads=len(selected),
            ordered=sum(result.is_best for result in selected),
            unproved=sum(not result.steering.order.proved for result in selected),
            waiting=waiting,
            left=left,
            stopped=self._find_obstacle(cycle) if waiting or left else "",
            unsteered=dict(sorted(unsteered.items())),
            evaluated=tuple(sorted({result.group.member.reference for result in selected})),
            risky=frozenset(risk.workload for risk in risks),
            findings=scale_down_findings(risks, policy),
        )

    def _publish(self, report: PreventionReport) -> None:
        if report == self._report:
            return
        if report.stopped and report.stopped != self._report.stopped:
            _log.warning("prevention stopped", why=report.stopped)
        self._report = report
        self._tell(PreventionReported(report=report))

    # Patches

    def _send_all(self, cycle: Cycle, groups: Iterable[tuple[PodPatch, ...]], wait: Callable[[float], bool]) -> None:
        """Send the patches of one group after the other. After a failed patch its group waits."""
        stopped = ""
        for patches in groups:
            uid = self._group_of(cycle, patches[0])
            if self._is_backing_off(uid):
                continue
            for patch in patches:
                if not self._wait_for_turn(cycle, wait):
                    return
                stopped = self._find_obstacle(cycle, patch)
                if stopped:
                    break
                if self._is_outdated(cycle):  # the reads before it may have been slow
                    return
                answer = self._send(patch)
                if answer.result is not PatchResult.PATCHED:
                    self._back_off(uid, answer)
                    break
            else:
                self._backing_off.pop(uid, None)
            if stopped:
                break
        if stopped != self._report.stopped:
            self._publish(replace(self._report, stopped=stopped))

    def _wait_for_turn(self, cycle: Cycle, wait: Callable[[float], bool]) -> bool:
        """Wait until the rate allows one more patch; return whether this cycle may still send it."""
        delay = self._take_allowance(cycle.context.policy)
        if delay and not wait(delay):
            self._allowance += 1  # not sent; the next pass begins with the patches that are due then
            return False
        return not self._is_outdated(cycle)

    def _send(self, patch: PodPatch) -> PatchAnswer:
        answer = self._cluster.patch_cost(patch)
        self._count(answer.result)
        if answer.result is PatchResult.PATCHED:
            self._written[patch.uid] = Written(patch.cost, answer.resource_version), self._clocks.monotonic()
        else:
            _log.info(
                "deletion cost not written",
                namespace=patch.namespace,
                pod=patch.name,
                result=answer.result,
                message=answer.message,
            )
        return answer

    def _take_allowance(self, policy: Policy) -> float:
        """Return for how many seconds the next patch must wait for the rate."""
        rate = policy.prevention.per_minute / 60
        now = self._clocks.monotonic()
        most = max(1.0, rate * self._burst)
        if self._allowed_at is None:
            self._allowance = most
        else:
            self._allowance = min(most, self._allowance + (now - self._allowed_at) * rate)
        self._allowed_at = now
        self._allowance -= 1
        return max(0.0, -self._allowance / rate)

    def _is_outdated(self, cycle: Cycle) -> bool:
        """Return whether this process may no longer send a cycle's patches, or must plan them anew."""
        state = self._get_state()
        if (
            not state.leadership.leads
            or state.leadership.stopping
            or self._ending.is_set()
            or not self._may_act(state.leadership.term)
        ):
            return True
        # Another cycle may also belong to another term of leadership.
        if state.cycle is not cycle or self._clocks.monotonic() - state.read_at > VALID_FOR.total_seconds():
            return True
        return self._clocks.now() - cycle.context.now > VALID_FOR

    def _find_obstacle(self, cycle: Cycle, patch: PodPatch | None = None) -> str:
        """Return why nothing may be patched now, "" if this patch may be; without a patch, as far as it is known."""
        state = self._get_state()
        policy = state.in_force.policy.prevention
        if state.process.furthest_mode is Mode.OBSERVE:
            return "this process may only observe (--mode Observe)"
        if state.in_force.pause is not None:
            return state.in_force.pause.message
        if cycle.context.stale:
            return f"the view of the cluster is out of date: {cycle.context.stale}"
        if cycle.context.breaker.causes:
            return "the breaker is open: the cluster is in trouble"
        if patch is None:
            return self._restriction.missing
        if patch.cost is not None and policy.scale_down is not ScaleDownPrevention.STEER:
            return f"prevention.scaleDown is {policy.scale_down} now"
        if patch.cost is None and cycle.context.policy.prevention != policy:
            return "the policy has changed; waiting for the next cycle"
        unrestricted = self._restriction.check(patch)
        if unrestricted:
            return unrestricted
        try:  # last, so that no other request makes its answer old
            pause = self._kill_switch.read()
        except ReadFailedError as error:
            return f"the kill switch cannot be read: {error}"
        return "" if pause is None else pause.message

    # Workloads whose patches are refused

    def _group_of(self, cycle: Cycle, patch: PodPatch) -> str:
        pod = cycle.snapshot.pod.get(patch.uid)
        return pod.owner.uid if pod is not None and pod.owner is not None else patch.uid

    def _is_backing_off(self, uid: str) -> bool:
        until = self._backing_off.get(uid)
        return until is not None and self._clocks.monotonic() < until[0]

    def _back_off(self, uid: str, answer: PatchAnswer) -> None:
        """Skip a workload for a while, unless its pod has merely changed, which the next cycle reads again."""
        now = self._clocks.monotonic()
        if len(self._backing_off) > 1_000:
            self._backing_off = {one: entry for one, entry in self._backing_off.items() if now < entry[0] + _LATE}
        if answer.result is PatchResult.CONFLICT:
            return
        _, last = self._backing_off.get(uid, (0.0, _BACK_OFF / 2))
        wait = max(min(2 * last, _LONGEST_BACK_OFF), answer.retry_after)
        self._backing_off[uid] = now + wait, wait
