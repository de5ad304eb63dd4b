"""Carries out surges: reads the records, looks at the cluster every second, and writes the next change.

It has a thread of its own, as surges wait for minutes. Its actions follow from the records and the cluster, so that any
new leader can continue them. It remembers only how long it has seen marks and Ready pods.

Each write requires that this process leads, that no pause is stored at the API server, that the mode is not Observe,
and that the view is not stale. Before a record changes its phase the replicas are read afresh, since the view may lag.
When in doubt, nothing is written.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

import msgspec
import structlog
from msgspec import structs

from rebalancer.controller.kill_switch import KillSwitch
from rebalancer.controller.restriction import Restriction
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, SurgesReported
from rebalancer.model.deletion_costs import SURGE_COST
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, RepairMethod
from rebalancer.ports import Cluster, PatchResult, ReadFailedError, Scaler, ScaleReading, ScaleResult
from rebalancer.prevention.plan import PodPatch
from rebalancer.surge.begin import find_surges, is_growing
from rebalancer.surge.follow import Act, Close, Mark, Scale, Stood, Store, Wait, follow
from rebalancer.surge.record import Ending, Phase, Surge, decode_surges, encode_surges
from rebalancer.surge.report import NO_SURGES, Ended, Refused, SurgeReport, UnderWay, count_pods

EVERY: Final = 1.0
"""Seconds between two passes."""

_READ_AGAIN: Final = 30.0
"""Seconds after which records that could not be read are read again."""

_log = structlog.get_logger("rebalancer")


class ScaledCluster(Cluster, Scaler, Protocol):
    """A cluster whose workloads can be scaled."""


class SurgeWorker:
    """The surges of one process. For the arguments, see `PreventionWorker`."""

    def __init__(
        self,
        *,
        cluster: ScaledCluster,
        clocks: Clocks,
        get_state: Callable[[], LoopState],
        may_act: Callable[[int], bool],
        tell: Callable[[LoopEvent], None],
    ) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._get_state = get_state
        self._may_act = may_act
        self._tell = tell
        self._kill_switch = KillSwitch(cluster, clocks)
        self._records: tuple[Surge, ...] | None = None
        self._term: int | None = None
        self._restriction = Restriction(cluster, clocks)
        self._report = NO_SURGES
        self._begun_of: object = None
        self._read_again_at = 0.0
        self._looked_at: object = None
        self._marked: tuple[Pod, ...] = ()
        """The pods that were marked in the last cycle's snapshot."""
        self._refused: dict[str, Refused] = {}
        self._lost: tuple[Surge, ...] = ()
        """The records that were known when the last ones could not be stored."""
        self._marked_since: dict[str, float] = {}
        """Since when no mark of a surge was to be changed, by the UID of its workload."""
        self._ready_since: dict[str, float] = {}
        """Since when all its pods are Ready."""
        self._ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name="surge", daemon=True)

    def stop(self) -> None:
        """End after the request that is under way."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(EVERY):
            try:
                self.work()
            except Exception:  # noqa: BLE001  # a defect is logged, the next look is tried
                _log.exception("surge failed")

    def work(self) -> None:
        """Make one pass, with the next action of each surge."""
        state = self._get_state()
        if not state.leadership.leads:
            self._records = None
            self._marked_since, self._ready_since = {}, {}
            return
        if not self._load(state):
            return
        assert self._records is not None
        self._unmark_orphans(state)
        begun = self._begin(state)
        if not self._records:
            self._publish((), (), "")
            return
        stopped = self._find_obstacle(state)
        if stopped:  # nobody has looked meanwhile
            self._marked_since, self._ready_since = {}, {}
        now = self._clocks.now()
        snapshot = self._cluster.snapshot(now)
        said = [
            UnderWay(surge, stopped) if stopped else self._go_on(surge, snapshot, state, now) for surge in self._records
        ]
        under_way = tuple(count_pods(one, snapshot) for one in said if isinstance(one, UnderWay))
        self._publish(under_way, tuple(one for one in said if isinstance(one, Ended)), stopped, begun)

    # Records

    def _load(self, state: LoopState) -> bool:
        """Read the records once in a term if surges are in use or have left a mark; return whether they are known.

        If surges are off, no request is sent. A failed read is repeated after a while.
        """
        may_have_records = self._may_have_records(state)
        if self._records is not None and self._term == state.leadership.term:
            return True
        now = self._clocks.monotonic()
        if now < self._read_again_at or not may_have_records:
            return False
        self._read_again_at = now + _READ_AGAIN
        lost = self._lost if self._term == state.leadership.term else ()
        try:
            records = decode_surges(self._cluster.load_surges())
        except (ReadFailedError, msgspec.DecodeError) as error:
            if not lost or isinstance(error, ReadFailedError):
                used = self._marked or state.in_force.policy.repair.method is not RepairMethod.EVICT
                self._publish((), (), f"the records of surges cannot be read: {error}" if used else "")
                return False
            records = ()
        # Only the leader writes, so missing records were removed by hand.
        there = {one.uid for one in records}
        missing = tuple(one for one in lost if one.uid not in there)
        if missing and self._store((*records, *missing)):
            self._lost = lost  # tried again
            return False
        self._lost = ()
        self._records = (*records, *missing)
        self._read_again_at = 0.0
        self._term = state.leadership.term
        self._report = NO_SURGES  # reports of an earlier term are forgotten
        return True

    def _may_have_records(self, state: LoopState) -> bool:
        """Return whether the policy adds pods, or a pod is marked: a surge began under another policy."""
        if state.cycle is not None and state.cycle is not self._looked_at:
            self._looked_at = state.cycle
            self._marked = tuple(
                pod for pod in state.cycle.snapshot.pods if pod.own_deletion_cost == SURGE_COST and not pod.terminating
            )
        return bool(self._marked) or state.in_force.policy.repair.method is not RepairMethod.EVICT

    def _store(self, records: tuple[Surge, ...]) -> str:
        """Store records; return why that failed, "" if it did not."""
        text = encode_surges(records)
        problem = self._find_last_obstacle()
        if problem:
            return problem
        problem = self._cluster.save_surges(text)
        if problem and not self._is_stored(text):
            self._read_again_at = 0.0  # somebody else may have written
            self._lost, self._records = self._records or (), None
            return problem
        self._records = records
        return ""

    def _is_stored(self, text: str) -> bool:
        """Return whether records are stored although the answer was lost."""
        try:
            return self._cluster.load_surges() == text
        except ReadFailedError:
            return False

    def _replace(self, surge: Surge, by: Surge | None) -> str:
        """Replace a record, or with None remove it, and store; return why that failed, "" if it did not."""
        if self._records is None:
            return "the records of surges are read again"
        others = tuple(one for one in self._records if one.uid != surge.uid)
        return self._store(others if by is None else (*others, by))

    def _unmark_orphans(self, state: LoopState) -> None:
        """Remove marks without a record, which a late view did not show when the record was closed."""
        assert self._records is not None
        owners = {one.owner for one in self._records}
        orphans = [pod for pod in self._marked if pod.owner is not None and pod.owner.uid not in owners]
        if orphans and not self._find_obstacle(state):
            self._marked = ()  # each once in a cycle
            for pod in orphans:
                self._patch(_patch_of(pod, None))

    # Begin

    def _begin(self, state: LoopState) -> tuple[Surge, ...]:
        """Store and return the records of the last cycle's surges; other writes wait for the next pass."""
        cycle = state.cycle
        if cycle is None or cycle is self._begun_of or self._find_obstacle(state):
            return ()
        if any(is_growing(one, cycle.snapshot, self._clocks.now()) for one in self._records or ()):
            return ()  # the next plan knows where its pods are
        assert self._records is not None
        self._refused = {}
        self._begun_of = cycle  # also where it fails: each candidate is read once for a plan
        rules, approved_by = state.in_force.policy.repair, cycle.admission.approved_by
        planned = find_surges(cycle.fates, cycle.snapshot, rules, self._records, approved_by, self._clocks.now())
        begun = tuple(filter(self._may_begin, planned))
        if begun and self._store((*self._records, *begun)):
            return ()
        for surge in begun:
            _log.info("surge begins", workload=str(surge.workload), namespace=surge.namespace, added=surge.added)
        return begun

    def _may_begin(self, surge: Surge) -> bool:
        """Return whether a workload is as the plan assumes and no other author declares its replicas."""
        try:
            read = self._cluster.read_scale(surge.workload)
        except ReadFailedError as error:
            _log.info("surge not begun", workload=str(surge.workload), why=str(error))
            return False
        if read is None or (read.uid, read.replicas) != (surge.uid, surge.count):
            return False
        rules = self._get_state().in_force.policy.repair
        declaring = (*read.appliers, *(() if surge.namespace in rules.namespaces else read.marks))
        if declaring:
            why = f"{', '.join(declaring)} declares its replicas"
            self._refused[surge.uid] = Refused(surge.workload, why)
            _log.info("surge not begun", workload=str(surge.workload), why=why)
        return not declaring

    # Go on

    def _go_on(self, surge: Surge, snapshot: Snapshot, state: LoopState, now: datetime) -> UnderWay | Ended:
        """Take the next action of a surge; return the report on it."""
        act = self._follow(surge, snapshot, state, now)
        match act:
            case Wait(why=why):
                return UnderWay(surge, f"until {why}")
            case Mark(pod, cost):
                problem = self._patch(_patch_of(pod, cost))
                if problem and surge.phase is Phase.TAKING_BACK and now >= surge.until:
                    # If no cost can be written for a while, pods are taken back anyway, even if other pods go then.
                    problem = self._scale(surge, surge.most, surge.count) or problem
                return UnderWay(surge, problem)
            case Scale(before, after):
                return UnderWay(surge, self._scale(surge, before, after))
            case Store(following):
                following, problem = self._confirm(surge, following, snapshot)
                problem = problem or self._replace(surge, following)
                return UnderWay(surge if problem else following, problem)
            case Close(ending):
                problem = self._replace(surge, None)
                return UnderWay(surge, problem) if problem else Ended(surge, ending)

    def _follow(self, surge: Surge, snapshot: Snapshot, state: LoopState, now: datetime) -> Act:
        looked = self._clocks.monotonic()
        stood = Stood(
            marks=looked - self._marked_since.setdefault(surge.uid, looked),
            ready=looked - self._ready_since.setdefault(surge.uid, looked),
        )
        act = follow(surge, snapshot, state.in_force.policy.repair, now, stood)
        if isinstance(act, Mark | Close):
            del self._marked_since[surge.uid]
        if not isinstance(act, Wait) or act.unready:
            del self._ready_since[surge.uid]
        return act

    def _patch(self, patch: PodPatch) -> str:
        """Change a pod's deletion cost; return why that was not done, "" if it was."""
        problem = self._restriction.check(patch) or self._find_last_obstacle()
        if problem:
            return problem
        answer = self._cluster.patch_cost(patch)
        return answer.message if answer.result is PatchResult.FAILED else ""

    def _scale(self, surge: Surge, before: int, after: int) -> str:
        """Change the replicas; return why that was not done, "" if it was."""
        try:
            read = self._cluster.read_scale(surge.workload)
        except ReadFailedError as error:
            return str(error)
        if read is None or (read.uid, read.replicas) != (surge.uid, before):
            return ""  # it is done already, or another author has scaled it: the next pass shows which
        if _is_of_others(surge, read):
            return self._replace(surge, surge.enter(Phase.UNMARKING, ending=Ending.SCALED))
        obstacle = (self._find_unready(surge) if surge.phase is Phase.REMOVING else "") or self._find_last_obstacle()
        if obstacle:
            return obstacle
        answer = self._cluster.set_replicas(surge.workload, read, after)
        _log.info("scaled", workload=str(surge.workload), namespace=surge.namespace, to=after, result=answer.result)
        return answer.message if answer.result not in {ScaleResult.SCALED, ScaleResult.CONFLICT} else ""

    def _find_unready(self, surge: Surge) -> str:
        """Return which pods are not Ready at the API server, "" if none; these would go in place of marked pods."""
        try:
            count = self._cluster.count_replicas(surge.workload)
        except ReadFailedError as error:
            return str(error)
        return "" if count.ready == surge.most else f"{count.ready} of {surge.most} pods are Ready"

    def _confirm(self, surge: Surge, following: Surge, snapshot: Snapshot) -> tuple[Surge, str]:
        """Return the next record by the API server's present state, and why there may be none, "" if there may."""
        known = snapshot.workload.get(surge.uid)
        try:
            read = self._cluster.read_scale(surge.workload)
        except ReadFailedError as error:
            return following, str(error)
        if read is not None and read.uid != surge.uid:
            read = None
        if (None if known is None else known.replicas) != (None if read is None else read.replicas):
            return following, "the view of the cluster catches up"
        if read is not None and following.phase is Phase.ADDING:
            return structs.replace(following, owners=read.owners), ""
        if read is not None and following.phase is not Phase.UNMARKING and _is_of_others(surge, read):
            return surge.enter(Phase.UNMARKING, ending=Ending.SCALED), ""
        return following, ""

    def _find_obstacle(self, state: LoopState) -> str:
        """Return why nothing may be written now, as far as that is known, "" if it may be."""
        if state.process.furthest_mode is Mode.OBSERVE:
            return "this process may only observe (--mode Observe)"
        if state.in_force.pause is not None:
            return state.in_force.pause.message
        if state.mode is Mode.OBSERVE:
            return "mode is Observe"
        if state.leadership.stopping or self._ending.is_set() or not self._may_act(state.leadership.term):
            return "this process ends, or does not lead any more"
        staleness = self._cluster.staleness()
        return f"the view of the cluster is out of date: {staleness}" if staleness else ""

    def _find_last_obstacle(self) -> str:
        """Return why nothing may be written right now; called last, so that no other request makes its answer old."""
        obstacle = self._find_obstacle(self._get_state())
        if obstacle:
            return obstacle
        try:
            pause = self._kill_switch.read()
        except ReadFailedError as error:
            return f"the kill switch cannot be read: {error}"
        return "" if pause is None else pause.message

    def _publish(
        self,
        under_way: tuple[UnderWay, ...],
        ended: tuple[Ended, ...],
        stopped: str,
        begun: tuple[Surge, ...] = (),
    ) -> None:
        report = SurgeReport(under_way, ended, tuple(self._refused.values()), stopped, begun)
        for surge, ending in ended:
            _log.info("surge ended", workload=str(surge.workload), namespace=surge.namespace, ending=ending)
        # The loop may have what was told before this worker began, or not yet what this one has told last.
        known = self._get_state().reported.surges
        if ended or begun or not report == self._report == known:
            self._report = report
            self._tell(SurgesReported(report=report))


def _is_of_others(surge: Surge, read: ScaleReading) -> bool:
    """Return whether somebody else has written a number that could be the surge's own."""
    if read.replicas == surge.most:
        return not read.ours
    return surge.phase is Phase.ADDING and read.owners != surge.owners


def _patch_of(pod: Pod, cost: int | None) -> PodPatch:
    return PodPatch(
        namespace=pod.namespace, name=pod.name, uid=pod.uid, resource_version=pod.resource_version, cost=cost
    )
