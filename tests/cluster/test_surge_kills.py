"""Killed by SIGKILL after each write of its surges, before it has the answer, the controller ends as it would have."""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, install
from tests.cluster.surges import Lot, draw_lots, watching
from tests.cluster.test_surge import MOST, find_faults, is_done, surging
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.faults.choosing import Chooser
from tests.faults.history import Exchange
from tests.faults.process import Process
from tests.faults.proxy import Loop, Proxy
from tests.faults.schedule import Schedule

SCALES: Final = "deployments/scale"


def writes_for_a_surge(exchange: Exchange) -> bool:
    """Return whether a request has changed something for a surge: the records, a mark, or the replicas."""
    target = exchange.target
    changed = target.resource in {SCALES, "pods"} or target.name == "rebalancer-surges"
    return changed and target.writes and exchange.code < 300


class Killed:
    """A controller that is killed when the server has carried out such a request, and started again."""

    def __init__(self, plane: ControlPlane, folder: Path, kills: Callable[[Exchange], bool]) -> None:
        self._kills = kills
        self.after: list[str] = []
        """The requests after which it was killed."""
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._loop = Loop()
        quiet = Chooser(Schedule(seed=0, rules=(), seconds=1.0))
        self._proxy = Proxy(self._loop, quiet, server=plane.url, context=context, on_write=self._written)
        self._proxy.start()
        self.process = Process(
            "controller",
            folder,
            self._proxy,
            token=plane.token(ACCOUNT),
            namespace=NAMESPACE,
            policy=surging(timeout="30m"),
        )

    def _written(self, exchange: Exchange) -> bool:
        if not writes_for_a_surge(exchange) or not self._kills(exchange):
            return False
        self.after.append(f"{exchange.target} {exchange.target.name}")
        self.process.kill()
        return True

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it for the time of a block, in which `supervise` is called."""
        self.process.start()
        try:
            yield
        finally:
            self.process.stop()
            self._proxy.stop()
            self._loop.close()


def suffer(
    plane: ControlPlane, folder: Path, lots: Sequence[Lot], kills: Callable[[Exchange], bool], timeout: float
) -> list[str]:
    """Repair lots while the controller is killed; return after which requests it was."""
    lay_out(plane, [part for lot in lots for part in lot.parts()], timeout=120)
    install(plane, "base", "evict", "surge")
    mark = plane.audit.mark()
    killed = Killed(plane, folder, kills)

    def done() -> bool:
        killed.process.supervise()
        return is_done(plane, lots)

    began = time.monotonic()
    with watching(plane, lots) as seen_of, killed.running():
        wait_until(done, what="what is promised to be repaired", timeout=timeout, interval=0.2)
        seen = {lot.name: seen_of(lot) for lot in lots}
    print(f"killed {len(killed.after)} times in {time.monotonic() - began:.0f} s")
    assert plane.audit.evictions(user=USER, since=mark) == []
    assert [fault for lot in lots for fault in find_faults(plane, lot, seen[lot.name])] == []
    assert any(lot.is_satisfied(lot.now(plane.api)) for lot in lots)
    return killed.after


def test_killed_at_each_change_of_the_replicas(cluster: ControlPlane, tmp_path: Path) -> None:
    """The next one knows from its record that the number is its own."""
    lots = draw_lots(1, seed=5, most=MOST, pods=6)
    after = suffer(cluster, tmp_path, lots, lambda exchange: exchange.target.resource == SCALES, timeout=150)
    assert len(after) >= 2


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_killed_after_every_write_of_three_repairs(cluster: ControlPlane, tmp_path: Path) -> None:
    """Each of the records, of the marks and of the replicas: no process lives for two of them."""
    after = suffer(cluster, tmp_path, draw_lots(3, seed=6, most=MOST, pods=10), lambda _: True, timeout=3000)
    # Of each surge: five records or more, one mark or more, and two changes of the replicas.
    assert len(after) >= 3 * 8
    assert {request.split()[1] for request in after} == {"configmaps", "pods", SCALES}
