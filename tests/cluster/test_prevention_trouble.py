"""Prevention while processes die, stop and are paused: no patch leaves an order worse than it was."""

import contextlib
import ssl
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.assessment.assess import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.policy import load_policy
from rebalancer.prevention.groups import PodGroup, find_pod_groups
from rebalancer.prevention.outcome import find_outcome, is_no_worse, price
from rebalancer.scheduling.view import View
from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install
from tests.cluster.prevention import living, status, wait_ordered, wait_restricted
from tests.cluster.test_prevention import CONTROL, COST, MARKER, WEB, check_patches, lay_out_web, patches, steering
from tests.control_plane.api import wait_until
from tests.control_plane.audit import Mark, Request
from tests.control_plane.plane import ControlPlane
from tests.faults.choosing import Chooser
from tests.faults.history import Exchange
from tests.faults.process import Process
from tests.faults.proxy import Loop, Proxy
from tests.faults.schedule import LEASE_SECONDS, Schedule

REPLICAS = 12
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
NO_FAULTS = Schedule(seed=0, rules=())


class Processes:
    """Controllers behind proxies, of which the one that has sent a given patch is killed or stopped at once."""

    def __init__(self, plane: ControlPlane, folder: Path, *, number: int, at: int, kills: bool) -> None:
        self._loop = Loop()
        self._at, self._kills = at, kills
        self.sent = 0
        """Patches that the server has answered, of all processes."""
        self.hit: Process | None = None
        """The process that was killed or stopped."""
        self.all: list[Process] = []
        for index in range(number):
            proxy = Proxy(
                self._loop,
                Chooser(NO_FAULTS, index),
                server=plane.url,
                context=ssl.create_default_context(cafile=str(plane.ca_file)),
                on_write=lambda exchange, index=index: self._count(exchange, index),  # type: ignore[misc]
            )
            proxy.start()
            self.all.append(
                Process(
                    f"controller-{index}",
                    folder / str(index),
                    proxy,
                    token=plane.token(ACCOUNT),
                    namespace=NAMESPACE,
                    policy=steering(),
                )
            )

    def _count(self, exchange: Exchange, index: int) -> bool:
        """Count a patch of a pod; at the one that is meant, the client is no more, or stands still."""
        if (exchange.target.verb, exchange.target.resource) != ("patch", "pods") or exchange.code != 200:
            return False
        self.sent += 1
        if self.sent != self._at:
            return False
        self.hit = self.all[index]
        if self._kills:
            self.hit.kill()
        else:
            self.hit.freeze()
        return self._kills

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start them all, one after the other, and end them."""
        try:
            for process in self.all:
                process.start()
            yield
        finally:
            for process in self.all:
                process.stop()
                process.proxy.stop()
            self._loop.close()


def read_group(plane: ControlPlane) -> PodGroup:
    """Return the pods of the workload and what is required of those that remain."""
    snapshot = read_once(connect(kubeconfig=str(plane.kubeconfig())), datetime.now(UTC))
    policy, view = load_policy(steering().encode(), source="policy.yaml"), View(snapshot)
    (group,) = find_pod_groups(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY)
    return group


def follow(group: PodGroup, sent: Sequence[Request]) -> None:
    """Apply patches in the order of the API server's answers: each leaves an order no worse for any number of pods."""
    ranks = {pod.name: 0 for pod in group.pods}
    outcomes = [find_outcome(group.problem, list(ranks.values()))]
    for request in sent:
        if request.code == 200:
            assert request.body is not None
            ranks[request.name] = int(request.body["metadata"]["annotations"][COST])
            outcomes.append(find_outcome(group.problem, list(ranks.values())))
    assert all(is_no_worse(after, before) for before, after in pairwise(outcomes)), (sent, outcomes)
    assert price(outcomes[-1]) == (0, 0)


def reset(plane: ControlPlane) -> None:
    """Remove all costs, and the Lease."""
    for pod in living(plane.api):
        path = f"/api/v1/namespaces/shop/pods/{pod['metadata']['name']}"
        plane.api.patch(path, {"metadata": {"annotations": {COST: None, MARKER: None}}})
    plane.api.delete(LEASE, missing_ok=True)


def disturb(plane: ControlPlane, folder: Path, group: PodGroup, *, number: int, at: int, kills: bool) -> int:
    """Let processes order the pods while one of them is killed or stopped at a patch; return how many were sent."""
    reset(plane)
    mark = plane.audit.mark()
    made = Processes(plane, folder, number=number, at=at, kills=kills)
    with made.running():
        wait_until(lambda: made.hit is not None or _is_ordered(plane, group), what=f"patch {at}", timeout=60)
        if made.hit is not None and not kills:
            wait_until(lambda: _is_taken_over(plane, made), what="another leader", timeout=60)
            time.sleep(1.5)  # it goes on with what the first one has left
            made.hit.thaw()

        def ordered() -> bool:
            for process in made.all:
                process.supervise()
            return _is_ordered(plane, group)

        wait_until(ordered, what=f"the order after patch {at}", timeout=60)
        time.sleep(1.0)  # what a stopped process had still to send
    sent = patches(plane, mark)
    check_patches(sent)
    follow(group, sent)
    assert made.hit is not None or at > made.sent
    return made.sent


def _is_taken_over(plane: ControlPlane, made: Processes) -> bool:
    """Return whether another process than the stopped one has renewed the Lease."""
    assert made.hit is not None
    holder = plane.api.get(LEASE)["spec"].get("holderIdentity", "")
    writers = [
        exchange.process
        for process in made.all
        for exchange in process.proxy.exchanges
        if exchange.target.resource == "leases" and exchange.holder == holder and exchange.code in {200, 201}
    ]
    return bool(writers) and not writers[-1].startswith(f"{made.hit.name}.")


def _is_ordered(plane: ControlPlane, group: PodGroup) -> bool:
    costs = {
        pod["metadata"]["name"]: int((pod["metadata"].get("annotations") or {}).get(COST, 0))
        for pod in living(plane.api)
    }
    return price(find_outcome(group.problem, [costs[pod.name] for pod in group.pods])) == (0, 0)


def prepare(plane: ControlPlane) -> PodGroup:
    """Lay out a workload that the controller has something to order for."""
    install(plane, "base", "prevention")
    lay_out_web(plane, REPLICAS)
    wait_restricted(plane)
    return read_group(plane)


def test_killed_or_stopped_at_a_patch_the_order_is_never_worse(cluster: ControlPlane, tmp_path: Path) -> None:
    """SIGKILL after the second patch, before the process knows; SIGSTOP beyond the Lease, with another process."""
    group = prepare(cluster)
    assert disturb(cluster, tmp_path / "kill", group, number=1, at=2, kills=True) > 2
    assert disturb(cluster, tmp_path / "stop", group, number=2, at=3, kills=False) > 3


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("number", "kills"), [(1, True), (2, True), (2, False), (3, False)])
def test_killed_or_stopped_at_every_patch_the_order_is_never_worse(
    cluster: ControlPlane, tmp_path: Path, number: int, kills: bool
) -> None:
    group = prepare(cluster)
    at = 1
    while disturb(cluster, tmp_path / str(at), group, number=number, at=at, kills=kills) >= at:
        at += 1
    print(
        f"\n{number} processes, {'killed' if kills else f'stopped for {LEASE_SECONDS} s and more'} at {at - 1} patches"
    )
    assert at > 5


def test_no_patch_is_sent_a_second_after_a_pause_was_stored(cluster: ControlPlane, tmp_path: Path) -> None:
    """Five patches a second are due for 30 pods; the pause comes when some of them were sent.

    From a second on none is begun; the API server may receive one a little later.
    """
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 30)
    wait_restricted(cluster)
    mark = cluster.audit.mark()
    with Controller(cluster, tmp_path, steering(perMinute=300)) as controller:
        wait_until(lambda: len(patches(cluster, mark)) >= 4, what="the first patches", interval=0.01)
        cluster.api.patch(CONTROL, {"data": {"pause.yaml": "reason: test\nby: me\n"}})
        stored = datetime.now(UTC)
        wait_until(lambda: "test" in status(cluster).get("stopped", ""), what="the status", timeout=30)
        time.sleep(3.0)
        late = [(request.received - stored).total_seconds() for request in patches(cluster, mark)]
        print(f"\n{len(late)} patches, the last {max(late):+.2f} s after the pause was stored")
        assert max(late) < 1.5
        cluster.api.patch(CONTROL, {"data": None})
        wait_ordered(cluster)
        assert len(patches(cluster, mark)) > len(late), "nothing was left to patch when the pause came"
        assert controller.log("prevention stopped")


@pytest.mark.thorough
@pytest.mark.timeout(2 * 3600)
def test_in_an_hour_of_churn_nothing_but_the_two_annotations_is_patched(cluster: ControlPlane, tmp_path: Path) -> None:
    """Pods are deleted, the Deployment is scaled as an autoscaler does, and rolled out; the audit log has it all."""
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 24)
    wait_restricted(cluster)
    mark, random = cluster.audit.mark(), Random("churn")
    with Controller(cluster, tmp_path, steering()) as controller:
        controller.wait_for("cycle", timeout=120)
        deadline, actions = time.monotonic() + 3600, 0
        while time.monotonic() < deadline:
            match random.randrange(6):
                case 0 | 1 | 2:
                    pods = living(cluster.api)
                    for pod in random.sample(pods, k=min(2, len(pods))):
                        path = f"/api/v1/namespaces/shop/pods/{pod['metadata']['name']}"
                        cluster.api.delete(path, missing_ok=True)
                case 3 | 4:
                    cluster.api.patch(WEB, {"spec": {"replicas": random.randint(3, 30)}})
                case _:
                    stamp = {"metadata": {"annotations": {"rollout": str(actions)}}}
                    cluster.api.patch(WEB, {"spec": {"template": stamp}})
            actions += 1
            time.sleep(4.0)
        assert controller.metrics()['rebalancer_prevention_patches_total{result="failed"}'] == 0
    _check_churn(cluster, mark, actions)


def _check_churn(plane: ControlPlane, mark: Mark, actions: int) -> None:
    """Of all that the controller has sent about pods, only patches of the two annotations changed anything."""
    sent = patches(plane, mark)
    check_patches(sent)
    changes = plane.audit.requests(
        since=mark,
        user=USER,
        verb=["create", "update", "patch", "delete", "deletecollection"],
        where=lambda request: request.resource == "pods" and not request.dry_run,
    )
    assert {request.id for request in changes} == {request.id for request in sent}
    starts = plane.audit.requests(since=mark, verb="create", resource="pods", subresource="binding")
    granted = sum(request.code == 200 for request in sent)
    print(f"\n{actions} actions, {len(starts)} pod starts, {granted} patches granted of {len(sent)}")
    assert granted
