"""A small repair on the real API server while a schedule of faults goes on: twelve pods, a zone that came back empty.

Several run side by side. A lane has six nodes, a namespace for its workload and one for its controller's own objects,
and an account with the rights of deploy/; its pods are tied to its nodes, and its policy to its namespace.
"""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from tests.cluster.controller import manifests, policy
from tests.control_plane.accounts import ensure_namespace, user_name
from tests.control_plane.api import wait_until
from tests.control_plane.audit import Mark, Request
from tests.control_plane.layout import PATIENCE, lay_out, node, pdb
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import condition
from tests.control_plane.stages import NEVER_READY
from tests.faults.cases import NESTED, Case
from tests.faults.checker import Breach, check, granted
from tests.faults.choosing import Chooser
from tests.faults.evidence import describe
from tests.faults.history import Exchange, Frozen, History, Pause, Write
from tests.faults.history import Final as FinalState
from tests.faults.matrix import schedule_of
from tests.faults.process import Process
from tests.faults.proxy import Loop, Proxy
from tests.faults.recorder import PodRecorder
from tests.faults.schedule import LEASE_SECONDS, Clock, Schedule, Start

J = TypeVar("J")
R = TypeVar("R")
LANE: Final = "faults.test/lane"
ACCOUNT: Final = "rebalancer"
LEAD_SECONDS: Final = 30.0
PAUSED_AFTER_SECONDS: Final = 2.5
"""How long a pause goes on after the faults."""
BUSY_SECONDS: Final = 180.0
"""How long any repair may take after the faults, on a busy machine."""
QUIET_SECONDS: Final = 3.0
"""How long nothing may happen after the repair, before the run is over."""
_RIGHTS: Final = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of a schedule."""

    schedule: Schedule
    case: Case
    breaches: Sequence[Breach]
    evictions: int
    seconds: float
    history: History
    notes: Sequence[str] = ()
    log: str = ""
    """The controllers' logs."""

    @property
    def command(self) -> str:
        """The command that repeats it."""
        if self.schedule.kill_after:
            return f"python -m tests.faults --kill {self.schedule.kill_after} --case {self.case.name!r}"
        return f"python -m tests.faults {self.schedule.seed}"

    def save(self, folder: Path) -> None:
        """Write what explains it: the controllers' logs, and everything that happened."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.case.name}-{self.schedule.seed}-{self.schedule.kill_after}".replace(" ", "-")
        (folder / f"{name}.log").write_text(self.log, encoding="utf-8")
        (folder / f"{name}.history").write_text(describe(self.history), encoding="utf-8")

    def __str__(self) -> str:
        """Show it in a few lines."""
        what = f"{self.case.name}, {self.schedule}" if self.schedule.kill_after else str(self.schedule)
        lines = [f"{'FAILED' if self.breaches else 'ok'} {what} ({self.seconds:.0f} s)"]
        lines += [f"    {breach}" for breach in self.breaches]
        lines += [f"    note: {note}" for note in self.notes]
        if self.breaches:
            lines.append(f"    again: {self.command}")
        return "\n".join(lines)


class Lane:
    """A part of the cluster for one run at a time."""

    def __init__(self, plane: ControlPlane, loop: Loop, number: int) -> None:
        self.plane = plane
        self.loop = loop
        self.number = number
        self.namespace = f"faults-{number}"
        self.system = f"faults-{number}-system"
        self._runs = 0
        self.token = ""
        """Of the controller's account."""

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes, two in each zone."""
        return [f"{zone}-{self.number}-{index}" for zone in "abc" for index in range(2)]

    @property
    def selector(self) -> dict[str, str]:
        """The node selector that ties pods to its nodes."""
        return {LANE: str(self.number)}

    @property
    def user(self) -> str:
        """The controller's name in the audit log."""
        return user_name(f"{self.system}/{ACCOUNT}")

    def prepare(self) -> None:
        """Make what all runs use: nodes, namespaces, rights."""
        api = self.plane.api
        for name in (self.namespace, self.system):
            ensure_namespace(api, name)
        api.apply(self._rights())
        lay_out(self.plane, [node(name, zone=name[0], labels=self.selector) for name in self.nodes], settle=False)
        self.token = self.plane.token(f"{self.system}/{ACCOUNT}")

    def _rights(self) -> Iterator[Manifest]:
        """Yield the rights that deploy/ gives, for this lane's account."""
        for manifest in (*manifests("base"), *manifests("evict")):
            if manifest["kind"] not in _RIGHTS:
                continue
            metadata = manifest["metadata"]
            if "namespace" in metadata:
                metadata["namespace"] = self.system
            if manifest["kind"] == "ClusterRoleBinding":
                metadata["name"] += f"-{self.number}"
            for subject in manifest.get("subjects", ()):
                subject["namespace"] = self.system
            yield manifest

    def config_maps(self) -> Iterator[Manifest]:
        """Yield the objects that deploy/ ships because the controller has no right to create them."""
        for manifest in manifests("base"):
            if manifest["kind"] == "ConfigMap" and "data" not in manifest:
                manifest["metadata"]["namespace"] = self.system
                yield manifest

    def new_name(self) -> str:
        """Return a name for a workload that none had before: controllers take time to forget one."""
        self._runs += 1
        return f"web-{self.number}-{self._runs}"

    @property
    def control(self) -> str:
        """The path of the kill switch's object."""
        return f"/api/v1/namespaces/{self.system}/configmaps/rebalancer-control"

    def write_control(self, text: str, *, key: str) -> None:
        """Write a key of the kill switch's object."""
        metadata = {"name": "rebalancer-control", "namespace": self.system}
        self.plane.api.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}])

    def clear(self) -> None:
        """Delete the workloads and what the controllers have written."""
        api = self.plane.api
        for collection in (
            f"/apis/apps/v1/namespaces/{self.namespace}/deployments",
            f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets",
            f"/apis/apps/v1/namespaces/{self.namespace}/replicasets",
            f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets",
            f"/api/v1/namespaces/{self.namespace}/pods",
        ):
            api.request("DELETE", collection, {"gracePeriodSeconds": 0})
        for path in (
            f"/api/v1/namespaces/{self.system}/configmaps/rebalancer-status",
            self.control,
            f"/apis/coordination.k8s.io/v1/namespaces/{self.system}/leases/rebalancer",
        ):
            api.delete(path, missing_ok=True)

        def is_empty() -> bool:
            pods = f"/api/v1/namespaces/{self.namespace}/pods"
            if api.list(pods):
                api.request("DELETE", pods, {"gracePeriodSeconds": 0})
                return False
            return True

        wait_until(is_empty, what=f"the pods of {self.namespace} to go", timeout=PATIENCE, interval=0.1)

    def run(self, schedule: Schedule, case: Case | None = None) -> Outcome:
        """Carry out a schedule while a workload is repaired, the usual one if none is given."""
        case = case or replace(NESTED, max_unavailable=schedule.max_unavailable)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            run = _Run(self, schedule, case, self.new_name(), Path(folder))
            try:
                return run.carry_out(began)
            finally:
                run.clear()


class _Run:
    """One schedule in one lane."""

    def __init__(self, lane: Lane, schedule: Schedule, case: Case, app: str, folder: Path) -> None:
        self._lane = lane
        self._api = lane.plane.api
        self._schedule = schedule
        self._case = case
        self._app = app
        self._writes = 0
        context = ssl.create_default_context(cafile=str(lane.plane.ca_file))
        self._processes = []
        for number in range(schedule.controllers):
            chooser = Chooser(schedule, number)
            proxy = Proxy(
                lane.loop,
                chooser,
                server=lane.plane.url,
                context=context,
                seed=schedule.seed,
                on_write=self._count_write,
            )
            proxy.start()
            process = Process(
                f"controller-{number}",
                folder / str(number),
                proxy,
                token=lane.token,
                namespace=lane.system,
                policy=self._policy(),
                clock=schedule.clocks[number] if number < len(schedule.clocks) else Clock(),
            )
            self._processes.append(process)
        self._pauses: list[Pause] = []
        self._frozen: list[Frozen] = []

    def _policy(self) -> str:
        budgets = {"maxUnavailable": self._case.max_unavailable, "perWorkload": "100%", "perNode": 12}
        namespaces = {"include": [self._lane.namespace]}
        eligibility = {"minAge": "0s", "namespaces": namespaces}
        groups = self._case.groups(self._app)
        # Schedules last seconds: an outage that the breaker has seen must be over for it soon afterwards.
        breaker = {"window": "10s", "clearAfter": "5s"}
        return policy("Evict", interval="1s", budgets=budgets, eligibility=eligibility, groups=groups, breaker=breaker)

    def _count_write(self, _: Exchange) -> bool:
        """Kill the controller when it has written often enough; return whether that was done."""
        self._writes += 1
        kills = self._writes == self._schedule.kill_after
        if kills:
            self._processes[0].kill()
        return kills

    def carry_out(self, began: float) -> Outcome:
        """Do all of it, and check what happened."""
        self._api.apply(self._lane.config_maps())
        self._lay_out()
        mark = self._lane.plane.audit.mark()
        with PodRecorder(self._lane.plane, self._lane.namespace, f"app={self._app}") as recorder:
            try:
                self._start()
                self._suffer()
                self._recover()
            finally:
                for process in self._processes:
                    process.stop()
            final = self._final()
        assert not recorder.error, recorder.error
        history = self._history(mark, recorder, final)
        notes = [f"{process.name} ended with {process.exits}" for process in self._processes if process.exits]
        return Outcome(
            schedule=self._schedule,
            case=self._case,
            breaches=check(history),
            evictions=len({exchange.uid for exchange in granted(history)}),
            seconds=time.monotonic() - began,
            notes=notes,
            log="\n".join(process.log.read_text(encoding="utf-8", errors="replace") for process in self._processes),
            history=history,
        )

    def _lay_out(self) -> None:
        lane = self._lane
        workload = self._case.lay_out(self._app, lane.namespace, lane.nodes, lane.selector)
        budget = pdb(self._app, {"app": self._app}, namespace=lane.namespace, max_unavailable=self._case.budget)
        lay_out(lane.plane, [workload, budget], settle=False)
        wait_until(self._is_settled, what=f"{lane.namespace}/{self._app} to settle", timeout=PATIENCE)

    def _is_settled(self) -> bool:
        namespace = self._lane.namespace
        ready = [pod for pod in self._pods() if condition(pod, "Ready") == "True"]
        owner = self._api.get(f"/apis/apps/v1/namespaces/{namespace}/{self._case.kind}/{self._app}")
        budget = self._api.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{self._app}")
        return (
            len(ready) == self._case.replicas
            and owner.get("status", {}).get("readyReplicas") == self._case.replicas
            and owner["status"].get("observedGeneration") == owner["metadata"]["generation"]
            and budget.get("status", {}).get("currentHealthy") == self._case.replicas
        )

    def _start(self) -> None:
        first, *others = self._processes
        if self._schedule.start is Start.PROCESS:
            first.proxy.begin()
        first.start()
        if others or self._schedule.start is not Start.PROCESS:
            self._wait_for(_takes_lease)
        for other in others:
            if self._schedule.start is Start.PROCESS:
                other.proxy.begin()
            other.start()
        if self._schedule.start is Start.EVICTION:
            self._wait_for(lambda exchange: exchange.is_eviction)
        if self._schedule.start is not Start.PROCESS:
            for process in self._processes:
                process.proxy.begin()

    def _wait_for(self, wanted: Callable[[Exchange], bool]) -> None:
        """Wait until the first controller has sent such a request; a schedule in which it never does goes on too."""
        proxy = self._processes[0].proxy
        deadline = time.monotonic() + LEAD_SECONDS
        while not any(wanted(exchange) for exchange in list(proxy.exchanges)) and time.monotonic() < deadline:
            self._supervise()
            time.sleep(0.01)

    def _supervise(self) -> None:
        for process in self._processes:
            if process.starts:
                process.supervise()

    def _suffer(self) -> None:
        """Let the faults last, and do what else the schedule has for that time."""
        actions = [(self._schedule.pause_at, self._pause), (self._schedule.unready_at, self._make_unready)]
        due = [(at, action) for at, action in actions if at is not None]
        for stop in self._schedule.stops:
            due.append((stop.at, partial(self._freeze, stop.process)))
            due.append((stop.at + stop.seconds, partial(self._thaw, stop.process)))
        due.sort(key=lambda entry: entry[0])
        if self._schedule.touched and self._schedule.pause_at is not None:
            self._lane.write_control("note: nothing yet\n", key="note")
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self._schedule.seconds and not self._is_killed():
            while due and due[0][0] <= passed:
                due.pop(0)[1]()
            self._supervise()
            time.sleep(0.02)
        for _, action in due:
            action()
        for process in self._processes:
            process.proxy.heal()

    def _freeze(self, number: int) -> None:
        process = self._processes[number]
        self._frozen.append(Frozen(process=process.proxy.process, since=time.time(), until=float("inf")))
        process.freeze()

    def _thaw(self, number: int) -> None:
        process = self._processes[number]
        process.thaw()
        self._frozen = [
            replace(one, until=time.time()) if one.process == process.proxy.process else one for one in self._frozen
        ]

    def _is_killed(self) -> bool:
        return 0 < self._schedule.kill_after <= self._writes

    def _recover(self) -> None:
        """Undo what was done besides, and wait until the repair is over."""
        for pod in self._pods():
            if NEVER_READY in pod["metadata"]["labels"]:
                self._label(pod["metadata"]["name"], None)
        if self._pauses:
            self._sleep(PAUSED_AFTER_SECONDS)
            self._pauses[-1] = Pause(stored=self._pauses[-1].stored, lifted=time.time())
            self._api.delete(self._lane.control)
        # On a busy machine any run can lose its Lease, and then waits for what may have been sent.
        deadline = time.monotonic() + max(self._schedule.patience, BUSY_SECONDS)
        quiet_since = time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - quiet_since < QUIET_SECONDS:
            self._sleep(0.25)
            if not self._is_repaired():
                quiet_since = time.monotonic()

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._supervise()
            time.sleep(min(0.05, seconds))

    def _pause(self) -> None:
        self._lane.write_control("reason: a test\n", key="pause.yaml")
        self._pauses.append(Pause(stored=time.time(), lifted=float("inf")))

    def _make_unready(self) -> None:
        living = [pod for pod in self._pods() if "deletionTimestamp" not in pod["metadata"]]
        ready = [pod for pod in living if condition(pod, "Ready") == "True"]
        self._label(ready[self._schedule.seed % len(ready)]["metadata"]["name"], "")

    def _label(self, name: str, value: str | None) -> None:
        path = f"/api/v1/namespaces/{self._lane.namespace}/pods/{name}"
        if self._api.find(path) is not None:
            self._api.patch(path, {"metadata": {"labels": {NEVER_READY: value}}})

    def _pods(self) -> list[dict[str, Any]]:
        return self._api.list(f"/api/v1/namespaces/{self._lane.namespace}/pods", labels=f"app={self._app}")

    def _is_repaired(self) -> bool:
        final = self._final()
        return final.repaired and not final.pending

    def _final(self) -> FinalState:
        pods = self._pods()
        places = Counter(pod["spec"].get("nodeName", "") for pod in pods)
        pending = tuple(
            pod["metadata"]["name"]
            for pod in pods
            if condition(pod, "Ready") != "True" or "deletionTimestamp" in pod["metadata"]
        )
        return FinalState(
            pending=pending,
            repaired=self._case.is_repaired(places, self._lane.nodes),
            placement=dict(sorted(places.items())),
        )

    def _history(self, mark: Mark, recorder: PodRecorder, final: FinalState) -> History:
        requests = self._lane.plane.audit.requests(
            since=mark, user=self._lane.user, where=lambda request: request.verb in _WRITES
        )
        exchanges = [exchange for process in self._processes for exchange in process.proxy.exchanges]
        return History(
            workload=self._case.facts(),
            exchanges=tuple(sorted(exchanges, key=lambda exchange: exchange.begun)),
            writes=tuple(map(parse_write, requests)),
            changes=tuple(sorted(recorder.changes, key=lambda change: change.version)),
            pauses=tuple(self._pauses),
            frozen=tuple(self._frozen),
            lease_seconds=LEASE_SECONDS,
            final=final,
        )

    def clear(self) -> None:
        """Delete the workload and what the controllers have written."""
        for process in self._processes:
            process.stop()
            process.proxy.stop()
        self._lane.clear()


def _takes_lease(exchange: Exchange) -> bool:
    return exchange.target.resource == "leases" and exchange.target.writes and bool(exchange.delivered)


def parse_write(request: Request) -> Write:
    """Read what the checker needs of a request in the audit log."""
    options = (request.body or {}).get("deleteOptions") or {}
    return Write(
        id=request.id,
        verb=request.verb,
        resource=f"{request.resource}/{request.subresource}" if request.subresource else request.resource,
        name=request.name,
        code=request.code,
        uid=(options.get("preconditions") or {}).get("uid", ""),
    )


def in_lanes(plane: ControlPlane, jobs: Sequence[J], work: Callable[[Lane, J], R], *, lanes: int) -> list[R]:
    """Do some work for each job, so many side by side, each in a lane of its own; return the results in order."""
    loop = Loop()
    free: SimpleQueue[Lane] = SimpleQueue()
    count = min(lanes, len(jobs))

    def run(job: J) -> R:
        lane = free.get()
        try:
            return work(lane, job)
        finally:
            free.put(lane)

    with contextlib.closing(loop), ThreadPoolExecutor(max_workers=count) as threads:
        for lane in (Lane(plane, loop, number) for number in range(count)):
            lane.prepare()
            free.put(lane)
        return list(threads.map(run, jobs))


def run_all(
    plane: ControlPlane,
    jobs: Sequence[tuple[Schedule, Case | None]],
    *,
    lanes: int,
    report: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Carry out schedules and return their outcomes in order; `report` is called for each as soon as it is there."""

    def run(lane: Lane, job: tuple[Schedule, Case | None]) -> Outcome:
        outcome = lane.run(*job)
        report(outcome)
        return outcome

    return in_lanes(plane, jobs, run, lanes=lanes)


def run_schedules(
    plane: ControlPlane, seeds: Sequence[int], *, lanes: int, report: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Carry out the schedules of some seeds."""
    return run_all(plane, [(schedule_of(seed), None) for seed in seeds], lanes=lanes, report=report)


def summarize(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the figures of many schedules in a few lines."""
    failed = [outcome for outcome in outcomes if outcome.breaches]
    invariants = Counter(
        breach.invariant for outcome in failed for breach in {b.invariant: b for b in outcome.breaches}.values()
    )
    evictions = Counter(outcome.evictions for outcome in outcomes)
    lines = [
        f"{len(outcomes)} schedules in {seconds:.0f} s, {len(failed)} failed",
        f"  evictions: {', '.join(f'{count} in {number} runs' for count, number in sorted(evictions.items()))}",
        *(f"  {invariant}: {number} runs" for invariant, number in invariants.most_common()),
    ]
    return "\n".join(lines)
