"""The API server is away for 40 seconds and the cluster is well: the repair goes on within a minute of the first view.

The breaker has the times of the shipped policy. An outage is one failed request, whatever number of watches and retries
there were in it: counted one by one, they open the breaker for ten minutes.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cluster.controller import ACCOUNT, USER, Controller, install, policy
from tests.cluster.test_observing import skewed
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

AWAY_SECONDS = 40.0


class Forwarder:
    """A port on the loopback interface that leads to the API server, until the network breaks."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._target)
                with self._lock:
                    self._connections |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        self._close(source, sink)

    def _close(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._connections.difference_update(sockets)
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self._close(self._listener, *self._connections)

    def restore(self) -> None:
        """Lead to the API server again."""
        self._listener = self._listen(self.port)


@contextmanager
def unreachable(forwarder: Forwarder) -> Iterator[None]:
    forwarder.cut()
    try:
        yield
    finally:
        forwarder.restore()


@contextmanager
def frozen(plane: ControlPlane) -> Iterator[None]:
    server = plane.running["kube-apiserver"]
    os.kill(server, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server, signal.SIGCONT)


@pytest.mark.timeout(280)
@pytest.mark.invariant("waits-and-outages")
@pytest.mark.parametrize("kind", [pytest.param("refused", marks=pytest.mark.thorough), "frozen"])
def test_a_repair_goes_on_within_a_minute_of_the_first_fresh_view(
    cluster: ControlPlane, tmp_path: Path, kind: str
) -> None:
    """Connections that are refused, and connections on which nothing comes."""
    install(cluster, "base", "evict")
    skewed(cluster)
    host, port = cluster.url.removeprefix("https://").split(":")
    forwarder = Forwarder((host, int(port)))
    access = tmp_path / "kubeconfig"
    access.write_text(
        cluster.kubeconfig(ACCOUNT).read_text().replace(cluster.url, f"https://127.0.0.1:{forwarder.port}")
    )
    text = policy("Evict", interval="1s", budgets={"perMinute": 3})
    with Controller(cluster, tmp_path, text, f"--kubeconfig={access}") as controller:
        wait_until(lambda: len(cluster.audit.evictions(user=USER)) == 3, what="the first evictions", timeout=60)
        time.sleep(5)
        with unreachable(forwarder) if kind == "refused" else frozen(cluster):
            time.sleep(AWAY_SECONDS)
        back = datetime.now(UTC)

        def fresh() -> list[datetime]:
            lines = [(datetime.fromisoformat(line["timestamp"]), line) for line in controller.log("cycle")]
            return [at for at, line in lines if at > back and not line["stale"]]

        wait_until(lambda: bool(fresh()), what="a fresh view", timeout=90)
        wait_until(lambda: len(cluster.audit.evictions(user=USER)) > 3, what="an eviction", timeout=60)
        evicted = sorted(eviction.received for eviction in cluster.audit.evictions(user=USER))[3]
        opened = {cause for line in controller.log("cycle") for cause in line["breaker"]}
    view = fresh()[0]
    print(
        f"{kind}: fresh view {(view - back).total_seconds():.1f} s after the outage, eviction "
        f"{(evicted - view).total_seconds():.1f} s after the view; the breaker opened for {sorted(opened)}"
    )
    assert (evicted - view).total_seconds() < 60
    assert opened == set()
