"""Many schedules of faults on the real API server, and a fault that never ends."""

import contextlib
import ssl
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.controller import policy
from tests.cluster.test_faults import LANES, check
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.faults.cases import NESTED
from tests.faults.choosing import Chooser
from tests.faults.matrix import EVERY
from tests.faults.process import Process
from tests.faults.proxy import Loop, Proxy
from tests.faults.scenario import Lane, run_schedules
from tests.faults.schedule import Fault, Rule, Schedule


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_two_hundred_schedules_of_faults(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same for many seeds, also where the controller has to wait for minutes after a fault."""
    began = time.monotonic()
    outcomes = run_schedules(cluster, range(1, 221), lanes=LANES, report=lambda outcome: print(outcome, flush=True))
    check(outcomes, time.monotonic() - began, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_every_fault_of_every_kind_of_request(cluster: ControlPlane, tmp_path: Path) -> None:
    """Each combination happens, and breaks nothing."""
    began = time.monotonic()
    seeds = [schedule.seed for schedule in EVERY]
    outcomes = run_schedules(cluster, seeds, lanes=LANES, report=lambda outcome: print(outcome, flush=True))
    combinations, missed = 0, []
    for outcome in outcomes:
        exchanges = outcome.history.exchanges
        happened = {(one.target.verb, one.target.resource, one.fault) for one in exchanges if one.fault is not None}
        planned = {(rule.verb, rule.resource, rule.fault) for rule in outcome.schedule.rules}
        combinations += len(planned & happened)
        missed += [
            f"{outcome.schedule.seed}: {verb} {resource} {fault}" for verb, resource, fault in planned - happened
        ]
    print(f"\n{combinations} combinations happened; not: {missed}")
    check(outcomes, time.monotonic() - began, tmp_path)
    assert missed == []


@pytest.mark.parametrize(
    ("denied", "answer"), [("first", Fault.WEBHOOK), ("second", Fault.WEBHOOK), ("first", Fault.ERROR)]
)
def test_a_webhook_that_denies_one_workload_stops_no_other(
    cluster: ControlPlane, tmp_path: Path, denied: str, answer: Fault
) -> None:
    """It goes on with 429, as a busy server does, or with 500; the other workload is repaired all the same."""
    webhook = Rule(verb="create", resource="pods/eviction", name=denied, fault=answer, probability=1.0)
    loop = Loop()
    with contextlib.closing(loop), contextlib.ExitStack() as stack:
        lane = Lane(cluster, loop, 0)
        lane.prepare()
        cluster.api.apply(lane.config_maps())
        workloads = [NESTED.lay_out(app, lane.namespace, lane.nodes, lane.selector) for app in ("first", "second")]
        lay_out(cluster, workloads)
        context = ssl.create_default_context(cafile=str(cluster.ca_file))
        proxy = Proxy(loop, Chooser(Schedule(seed=1, rules=(webhook,))), server=cluster.url, context=context)
        proxy.start()
        stack.callback(proxy.stop)
        proxy.begin()
        process = Process(
            "controller",
            tmp_path,
            proxy,
            token=lane.token,
            namespace=lane.system,
            policy=policy("Evict", interval="1s", budgets={"perWorkload": "100%"}),
        )
        stack.callback(process.stop)
        process.start()

        def counts(app: str) -> Counter[str]:
            pods = cluster.api.list(f"/api/v1/namespaces/{lane.namespace}/pods", labels=f"app={app}")
            return Counter(pod["spec"].get("nodeName", "") for pod in pods)

        other = {"first": "second", "second": "first"}[denied]
        wait_until(lambda: NESTED.is_repaired(counts(other), lane.nodes), what=f"the repair of {other}", timeout=60)
        assert not NESTED.is_repaired(counts(denied), lane.nodes)
        evictions = [exchange for exchange in proxy.exchanges if exchange.is_eviction]
        assert {exchange.code for exchange in evictions if exchange.target.name.startswith(denied)} == {0}
