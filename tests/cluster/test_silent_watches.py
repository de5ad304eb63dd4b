"""A server that sends no bookmarks: evictions go on where a kind is quiet, and stop where its watch is broken.

`STALE_AFTER` is shortened to six seconds, so that a kind is compared with a list every three; the thorough test has the
real times.
"""

import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import ACCOUNT, USER, Controller, install, policy
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import MINIMUM, balanced
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane
from tests.faults.choosing import Chooser
from tests.faults.proxy import Loop, Proxy
from tests.faults.schedule import Schedule

STALE_AFTER = 6.0
REAL_STALE_AFTER = 150.0


class Bookmarkless(Proxy):
    """A way to the API server on which no bookmark comes, and nothing of the kinds that are silent."""

    silent: frozenset[str] = frozenset()

    async def _send_event(self, writer: Any, watch: Any, line: bytes) -> None:
        if not line.startswith(b'{"type":"BOOKMARK"') and watch.target.resource not in self.silent:
            await super()._send_event(writer, watch, line)

    def count_lists(self, resource: str) -> int:
        """Return how many lists of a kind there were."""
        targets = [exchange.target for exchange in self.exchanges]
        return sum((target.verb, target.resource) == ("list", resource) for target in targets)


@contextmanager
def behind_proxy(plane: ControlPlane, folder: Path) -> Iterator[tuple[Bookmarkless, str]]:
    """Run such a proxy; yield it, and the flag that leads a controller to it."""
    loop = Loop()
    with closing(loop), ExitStack() as stack:
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        proxy = Bookmarkless(loop, Chooser(Schedule(seed=0, rules=())), server=plane.url, context=context)
        proxy.start()
        stack.callback(proxy.stop)
        access = folder / "kubeconfig"
        access.write_text(plane.kubeconfig(ACCOUNT).read_text().replace(plane.url, proxy.url))
        yield proxy, f"--kubeconfig={access}"


@contextmanager
def observing(plane: ControlPlane, folder: Path, stale_after: float) -> Iterator[tuple[Controller, Bookmarkless]]:
    """Run a controller in mode Observe behind such a proxy, in a cluster that is skewed and busy."""
    install(plane, "base", "evict")
    skewed(plane)
    with behind_proxy(plane, folder) as (proxy, access), ExitStack() as stack:
        command = (sys.executable, "-m", "tests.cluster.launch", f"--stale-after={stale_after}")
        text = policy("Observe", interval="1s")
        stack.enter_context(repeated(lambda number: touch_pod(plane, number)))
        controller = Controller(plane, folder, text, access, command=command)
        stack.enter_context(controller)
        controller.wait_for("cycle", count=2)
        yield controller, proxy


def touch_pod(plane: ControlPlane, number: int) -> None:
    pod = plane.api.list("/api/v1/namespaces/shop/pods")[0]["metadata"]["name"]
    plane.api.patch(f"/api/v1/namespaces/shop/pods/{pod}", {"metadata": {"annotations": {"turn": str(number)}}})


def relabel_node(plane: ControlPlane, number: int) -> None:
    plane.api.patch("/api/v1/nodes/a-0", {"metadata": {"labels": {"turn": str(number)}}})


@contextmanager
def repeated(change: Any, seconds: float = 0.5) -> Iterator[None]:
    """Change something all the time."""
    ended = threading.Event()

    def go_on() -> None:
        number = 0
        while not ended.wait(seconds):
            number += 1
            change(number)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def begin_to_evict(controller: Controller) -> None:
    controller.policy_file.write_text(policy("Evict", interval="1s"))


def wait_for_evictions_in_quiet(plane: ControlPlane, folder: Path, stale_after: float, seconds: float) -> None:
    """Wait for so long, in which no view may be stale, and then for the whole repair.

    A change between the end of a silent watch and the list that follows it counts as one that it did not deliver. So
    the repair, whose changes begin when watches have been silent for long, may be held for a comparison.
    """
    with observing(plane, folder, stale_after) as (controller, proxy):
        before = [proxy.count_lists(resource) for resource in ("namespaces", "pods")]
        time.sleep(seconds)
        compared = proxy.count_lists("namespaces") - before[0]
        pods = proxy.count_lists("pods") - before[1]
        stale = {line["stale"] for line in controller.log("cycle")}
        undelivered = controller.log("watch did not deliver")
        begin_to_evict(controller)
        wait_until(lambda: balanced(plane.api), what="the repair", timeout=60)
    print(f"{seconds:g} s without bookmarks: namespaces listed {compared} times, views {stale}")
    assert stale == {""}
    assert undelivered == []
    assert abs(compared - 2 * seconds / stale_after) <= 1 + 0.1 * seconds / stale_after, "once in half of the time"
    assert len(plane.audit.evictions(user=USER)) == MINIMUM
    assert pods == 0, "a kind that changes is not listed"


@pytest.mark.invariant("fresh-views")
@pytest.mark.timeout(180)
def test_a_quiet_kind_in_a_busy_cluster_without_bookmarks(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nothing is heard of namespaces, budgets and the like for four times the time: the repair goes on."""
    wait_for_evictions_in_quiet(cluster, tmp_path, STALE_AFTER, 4 * STALE_AFTER)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_ten_minutes_without_bookmarks(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same by the real times."""
    wait_for_evictions_in_quiet(cluster, tmp_path, REAL_STALE_AFTER, 600.0)


@pytest.mark.invariant("fresh-views")
@pytest.mark.timeout(180)
def test_a_watch_that_is_broken_while_objects_change(cluster: ControlPlane, tmp_path: Path) -> None:
    """Lists show what the watch of nodes does not: nothing is evicted, however young they are, until it speaks."""
    with observing(cluster, tmp_path, STALE_AFTER) as (controller, proxy):
        proxy.silent = frozenset({"nodes"})
        with repeated(lambda number: relabel_node(cluster, number)):
            wait_until(lambda: is_broken(controller), what="a comparison that shows it", timeout=30)
            begin_to_evict(controller)
            time.sleep(4 * STALE_AFTER)
            assert is_broken(controller)
            assert cluster.audit.evictions(user=USER) == []
            assert proxy.count_lists("nodes") >= 5
            proxy.silent = frozenset()
            wait_until(lambda: balanced(cluster.api), what="the repair", timeout=60)
    assert len(cluster.audit.evictions(user=USER)) == MINIMUM


def is_broken(controller: Controller) -> bool:
    return "Node: the watch did not deliver" in controller.log("cycle")[-1]["stale"]
