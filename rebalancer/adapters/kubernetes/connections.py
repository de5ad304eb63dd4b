"""Connections whose requests end by a deadline, and that can all be interrupted at once.

A socket's timeout bounds the time of one receive. A server that sends its answer in drops never exceeds it, and holds
its caller for as long as it likes. So what is sent and received here is timed against one deadline for the request.
Name resolution is the system's, and has a limit of its own.
"""

import http.client
import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final
from weakref import WeakSet

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

_PIECE: Final = 16 * 1024
"""Bytes that are sent at once: TLS times each of its records, which are not larger, by itself."""


class _Present(threading.local):
    """The deadline of the request of this thread, by the monotonic clock; None for a stream."""

    deadline: float | None = None


_present = _Present()


class Connections:
    """The connections of one pool manager."""

    def __init__(self, manager: urllib3.PoolManager) -> None:
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._interrupted = False
        pools: dict[str, type[HTTPConnectionPool]] = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {scheme: self._derive(pool) for scheme, pool in pools.items()}

    def _derive(self, pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
        """Return a class of pools with connections of this class."""
        plain: type[Any] = pool.ConnectionCls
        bases = (plain,) if issubclass(plain, _Connection) else (_Connection, plain)
        connection = type(plain.__name__, bases, {"connections": self})
        return type(pool.__name__, (pool,), {"ConnectionCls": connection})

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Bound the time of what this thread sends and receives in the block."""
        _present.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            _present.deadline = None

    def add(self, connected: socket.socket) -> None:
        """Note a connected socket."""
        with self._lock:
            if not self._interrupted:
                self._sockets.add(connected)
                return
        _shut_down(connected)

    def interrupt(self) -> None:
        """End every request that is under way, whatever it waits for; no further one is answered."""
        with self._lock:
            self._interrupted = True
            connected = list(self._sockets)
        for one in connected:
            _shut_down(one)


def _shut_down(connected: socket.socket) -> None:
    """End both directions below TLS, which would change its own state under the thread that reads."""
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Timed(io.RawIOBase):
    """What a server sends, up to a deadline."""

    def __init__(self, received: io.RawIOBase, connected: socket.socket, deadline: float) -> None:
        self._received, self._connected, self._deadline = received, connected, deadline

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Receive what has come, or wait for it."""
        _allow_until(self._deadline, self._connected)
        count: int | None = self._received.readinto(buffer)
        return count

    def close(self) -> None:
        """Close what is read from too."""
        self._received.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response of which header and body come by the deadline of the request."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        if _present.deadline is not None:
            self.fp: Any = io.BufferedReader(_Timed(self.fp.detach(), sock, _present.deadline))


class _Connection(HTTPConnection):
    """Mixed into the classes of connections."""

    connections: ClassVar[Connections]
    response_class = _Response

    def connect(self) -> None:
        """Connect, and note the socket."""
        super().connect()
        self.connections.add(self.sock)

    def send(self, data: Any) -> None:
        """Send in pieces, so that a server that reads slowly holds nobody beyond the deadline either."""
        deadline = _present.deadline
        if deadline is None or not isinstance(data, bytes):
            super().send(data)
            return
        for start in range(0, len(data), _PIECE):
            if self.sock is not None:
                _allow_until(deadline, self.sock)
            super().send(data[start : start + _PIECE])


def _allow_until(deadline: float, connected: socket.socket) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    connected.settimeout(left)
