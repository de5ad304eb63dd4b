"""The kill switch, thrown while the controller is in a given state and has many evictions before it.

Each request for an eviction takes half a second, so that the queue lasts for long after the pause. When a request
reached the server, and when the pause, is read in the server's own log.
"""

from __future__ import annotations

import math
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tests.cluster.controller import policy
from tests.control_plane.api import wait_until
from tests.control_plane.audit import Mark
from tests.control_plane.layout import lay_out
from tests.control_plane.settling import condition
from tests.faults.cases import NESTED
from tests.faults.choosing import Chooser
from tests.faults.history import Exchange
from tests.faults.process import Process
from tests.faults.proxy import Proxy
from tests.faults.scenario import Lane
from tests.faults.schedule import Fault, Rule, Schedule

WORKLOADS: Final = 8
EVICTIONS: Final = NESTED.minimum * WORKLOADS
DENIED: Final = "denied"
"""How the name of one of them begins."""
DRIP_SECONDS: Final = 0.025
PAUSED_SECONDS: Final = 7.0
"""Longer than the controller waits for an overloaded server."""
MIDDLE: Final = 6
"""So many evictions have been requested when the queue is in its middle."""

_SLOW_EVICTIONS: Final = Rule(verb="create", resource="pods/eviction", fault=Fault.SLOW, probability=1.0)
_SILENT_WATCH: Final = Rule(verb="watch", resource="configmaps", fault=Fault.SILENT, probability=1.0)

Exchanges = Sequence[Exchange]


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A state of the controller, recognised by the requests that it has sent."""

    name: str
    reached: Callable[[Exchanges], bool]
    rules: tuple[Rule, ...] = ()
    act: Callable[[Thrown], None] = lambda _: None
    """What happens right before the pause."""
    later: float = 0.0
    """Seconds from that state to the pause."""
    goes_on: bool = True
    """Whether the controller evicts again once the pause has ended."""


@dataclass(frozen=True, kw_only=True)
class Throw:
    """What became of one throw of the switch."""

    name: str
    late: float
    """Seconds from the arrival of the pause at the server to that of the last eviction before it ended; -inf: none."""
    before: int
    """Evictions requested before the pause."""
    after: int
    """Evictions requested once it had ended."""
    log: str

    def __str__(self) -> str:
        """Show it in a line."""
        return f"{self.name}: {self.before} before, the last {self.late:+.2f} s after the pause, {self.after} resumed"


def _count(matches: Callable[[Exchange], bool], number: int = 1) -> Callable[[Exchanges], bool]:
    return lambda exchanges: sum(map(matches, exchanges)) >= number


def _is(verb: str, resource: str, name: str = "") -> Callable[[Exchange], bool]:
    def matches(exchange: Exchange) -> bool:
        target = exchange.target
        return target.verb == verb and target.resource == resource and name in {"", target.name}

    return matches


def _evicts(exchange: Exchange) -> bool:
    return exchange.is_eviction


def _writes_lease(exchange: Exchange) -> bool:
    return exchange.target.resource == "leases" and exchange.target.writes


def _is_idle(exchanges: Exchanges) -> bool:
    """Return whether every eviction is answered and the memory saved after the last one."""
    evictions = [exchange for exchange in exchanges if exchange.is_eviction]
    saves = [exchange for exchange in exchanges if _is("patch", "configmaps", "rebalancer-status")(exchange)]
    if len(evictions) < MIDDLE or not all(exchange.answered for exchange in evictions):
        return False
    return bool(saves[-1].answered) and saves[-1].begun > evictions[-1].begun


def _drawn_moments() -> tuple[Moment, ...]:
    dice = random.Random("moments")
    delays = [round(3 * dice.random(), 2) for _ in range(6)]
    return tuple(Moment(name=f"{delay} s later", reached=_count(_evicts), later=delay) for delay in delays)


def _slow(verb: str, resource: str, name: str = "") -> tuple[Rule, ...]:
    return (Rule(verb=verb, resource=resource, fault=Fault.SLOW, probability=1.0, name=name),)


def _refuse(fault: Fault, name: str = "") -> tuple[Rule, ...]:
    return (Rule(verb="create", resource="pods/eviction", fault=fault, count=4, name=name),)


MOMENTS: Final = (
    Moment(name="it lists the cluster", reached=_count(_is("list", "pods"))),
    Moment(name="it takes the Lease", reached=_count(_writes_lease)),
    Moment(name="it reads its memory", reached=_count(_is("get", "configmaps", "rebalancer-status"))),
    Moment(
        name="it saves what it will evict",
        reached=_count(_is("patch", "configmaps", "rebalancer-status")),
        rules=_slow("patch", "configmaps"),
    ),
    Moment(
        name="it reads the kill switch",
        reached=_count(_is("get", "configmaps", "rebalancer-control")),
        rules=_slow("get", "configmaps", "rebalancer-control"),
    ),
    Moment(name="it counts Ready pods", reached=_count(_is("get", "deployments")), rules=_slow("get", "deployments")),
    Moment(name="the first request is under way", reached=_count(_evicts)),
    Moment(name="the queue is in its middle", reached=_count(_evicts, MIDDLE)),
    Moment(name="the first answer has come", reached=_count(lambda item: item.is_eviction and bool(item.answered))),
    Moment(name="all evictions of a cycle are answered", reached=_is_idle),
    Moment(
        name="a webhook has denied one",
        reached=_count(lambda item: item.is_eviction and item.delivered == 429),
        rules=_refuse(Fault.WEBHOOK, DENIED),
    ),
    Moment(
        name="the server is overloaded",
        reached=_count(lambda item: item.is_eviction and item.delivered == 429),
        rules=_refuse(Fault.PLAIN_RETRY_AFTER),
    ),
    Moment(
        name="it renews the Lease",
        reached=lambda exchanges: _count(_evicts)(exchanges) and _writes_lease(exchanges[-1]),
        rules=_slow("patch", "leases"),
    ),
    Moment(name="its policy changes", reached=_count(_evicts, MIDDLE), act=lambda run: run.change_policy()),
    Moment(name="another replica takes over", reached=_count(_evicts, MIDDLE), act=lambda run: run.replace()),
    Moment(name="it ends", reached=_count(_evicts, MIDDLE), act=lambda run: run.terminate(), goes_on=False),
    *_drawn_moments(),
)
"""The states of the loop and of the threads around it."""


class Thrown:
    """One throw of the switch in one lane."""

    def __init__(self, lane: Lane, moment: Moment, *, silent: bool, touched: bool, folder: Path) -> None:
        self._lane, self._moment, self._touched = lane, moment, touched
        self._api = lane.plane.api
        rules = (*moment.rules, *((_SILENT_WATCH,) if silent else ()), _SLOW_EVICTIONS)
        self._rules, self._folder = rules, folder
        watch = "the watch is silent" if silent else "the watch works"
        self._name = f"{moment.name}, {watch}{', after a harmless change' * touched}"
        self._processes: list[Process] = []

    def carry_out(self) -> Throw:
        """Do all of it."""
        lane = self._lane
        self._api.apply(lane.config_maps())
        apps = [f"{DENIED}-{lane.new_name()}", *(lane.new_name() for _ in range(WORKLOADS - 1))]
        workloads = [NESTED.lay_out(app, lane.namespace, lane.nodes, lane.selector) for app in apps]
        lay_out(lane.plane, workloads, settle=False)
        wait_until(self._is_settled, what=f"{lane.namespace} to settle", timeout=120)
        mark = lane.plane.audit.mark()
        try:
            process = self._start_process()
            wait_until(
                lambda: self._moment.reached(list(process.proxy.exchanges)),
                what=self._moment.name,
                timeout=60,
                interval=0.001,
            )
            if self._touched:
                lane.write_control("note: nothing\n", key="note")
            self._moment.act(self)
            time.sleep(self._moment.later)
            lane.write_control("reason: a test\n", key="pause.yaml")
            time.sleep(PAUSED_SECONDS)
            for process in self._processes:
                process.proxy.heal()
            self._api.delete(lane.control)
            resumed = time.time()
            if self._moment.goes_on:
                wait_until(lambda: self._is_resumed(resumed), what="evictions after the pause", timeout=60)
        finally:
            self._clear()
        return self._evaluate(mark)

    def _is_resumed(self, since: float) -> bool:
        exchanges = [exchange for process in self._processes for exchange in process.proxy.exchanges]
        return any(exchange.is_eviction and exchange.begun > since for exchange in exchanges)

    def _evaluate(self, mark: Mark) -> Throw:
        requests = self._lane.plane.audit.requests(since=mark)
        control = [item for item in requests if item.name == "rebalancer-control" and item.namespace == self._system]
        pause = [item.received for item in control if item.verb in {"create", "update", "patch"}][-1]
        end = next(item.received for item in control if item.verb == "delete" and item.received > pause)
        evictions = [
            item.received for item in requests if item.subresource == "eviction" and item.user == self._lane.user
        ]
        late = [(moment - pause).total_seconds() for moment in evictions if moment < end]
        return Throw(
            name=self._name,
            late=max(late, default=-math.inf),
            before=_count_before(evictions, pause),
            after=len(evictions) - _count_before(evictions, end),
            log="\n".join(process.log.read_text(encoding="utf-8") for process in self._processes),
        )

    @property
    def _system(self) -> str:
        return self._lane.system

    def _is_settled(self) -> bool:
        pods = self._api.list(f"/api/v1/namespaces/{self._lane.namespace}/pods")
        owners = self._api.list(f"/apis/apps/v1/namespaces/{self._lane.namespace}/deployments")
        ready = sum(condition(pod, "Ready") == "True" for pod in pods)
        return len(pods) > 0 and ready == len(pods) == sum(
            int(owner.get("status", {}).get("readyReplicas", 0)) for owner in owners
        )

    def _start_process(self) -> Process:
        lane, number = self._lane, len(self._processes)
        proxy = Proxy(
            lane.loop,
            Chooser(Schedule(seed=number, rules=self._rules)),
            server=lane.plane.url,
            context=ssl.create_default_context(cafile=str(lane.plane.ca_file)),
            drip_seconds=DRIP_SECONDS,
        )
        proxy.start()
        proxy.begin()
        process = Process(
            f"controller-{number}",
            self._folder / str(number),
            proxy,
            token=lane.token,
            namespace=lane.system,
            policy=self._policy("1s"),
        )
        self._processes.append(process)
        process.start()
        return process

    def _policy(self, interval: str) -> str:
        return policy(
            "Evict",
            interval=interval,
            budgets={"maxUnavailable": 3, "perWorkload": "100%", "perNode": 100},
            eligibility={"minAge": "0s", "namespaces": {"include": [self._lane.namespace]}},
        )

    # What a moment may do

    def change_policy(self) -> None:
        """Write a policy that changes nothing about evictions."""
        self._processes[0].write_policy(self._policy("2s"))

    def replace(self) -> None:
        """Kill the controller and wait until another one leads."""
        self._processes[0].kill()
        other = self._start_process()
        wait_until(
            lambda: any(_writes_lease(exchange) for exchange in list(other.proxy.exchanges)),
            what="another leader",
            timeout=30,
            interval=0.001,
        )

    def terminate(self) -> None:
        """Ask the controller to end."""
        self._processes[0].terminate()

    def _clear(self) -> None:
        for process in self._processes:
            process.stop()
            process.proxy.stop()
        self._lane.clear()


def _count_before(moments: Sequence[datetime], end: datetime) -> int:
    return sum(moment < end for moment in moments)


def throw(lane: Lane, moment: Moment, *, silent: bool, touched: bool = False) -> Throw:
    """Throw the switch once; `silent` is whether the watch of its object delivers nothing."""
    with tempfile.TemporaryDirectory(prefix="kill-switch-") as folder:
        return Thrown(lane, moment, silent=silent, touched=touched, folder=Path(folder)).carry_out()
