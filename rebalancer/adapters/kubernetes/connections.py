"""Connections whose requests end by a deadline, and that can all be interrupted at once.

A socket's timeout bounds the time of one receive. A server that sends its answer in small pieces never exceeds this
time, and holds its caller indefinitely. So a watchdog shuts the socket of every request whose time is over. Name
resolution is the system's, and has its own limit.
"""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakSet

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

_AGAIN: Final = 0.1
"""Seconds after which a late request's socket is shut again; while connecting, the request may have no socket."""


class Exchange:
    """A request and its answer; `deadline` is by the monotonic clock, infinite for a stream."""

    def __init__(self, connections: "Connections", seconds: float) -> None:
        self.connections = connections
        self.deadline = time.monotonic() + seconds
        self.is_late = False
        """Whether the deadline passed before the end, so that the answer is incomplete or no longer wanted."""

        self.connection: HTTPConnection | None = None

    def end(self) -> None:
        """Note that the answer is complete or no longer awaited; from now on its connection serves other requests."""
        self.connections.forget(self)


class _Present(threading.local):
    exchange: Exchange | None = None
    """The exchange whose request this thread sends."""


_present = _Present()


class Connections:
    """The connections of one pool manager, and the thread that ends late requests."""

    def __init__(self, manager: urllib3.PoolManager) -> None:
        self._changed = threading.Condition()
        self._limited: WeakSet[Exchange] = WeakSet()
        """The exchanges with a deadline, held weakly: an abandoned exchange disappears."""

        self._known: WeakSet[HTTPConnection] = WeakSet()
        self._interrupted = self._closed = False
        self.thread = threading.Thread(target=self._watch_deadlines, name="deadlines", daemon=True)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    @contextmanager
    def exchange(self, seconds: float) -> Iterator[Exchange]:
        """Send a request in the block and await the header of its answer; end the exchange once the body was read.

        An exception in the block ends the exchange.
        """
        made = Exchange(self, seconds)
        _present.exchange = made
        try:
            self._watch(made)
            yield made
        except BaseException:
            made.end()
            raise
        finally:
            _present.exchange = None

    def _watch(self, exchange: Exchange) -> None:
        with self._changed:
            if exchange.deadline == math.inf:
                return
            if self.thread.ident is None:
                self.thread.start()
            self._limited.add(exchange)
            self._changed.notify()

    def forget(self, exchange: Exchange) -> None:
        """Watch an exchange no longer."""
        with self._changed:
            self._limited.discard(exchange)

    def _watch_deadlines(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self._shut_late())

    def _shut_late(self) -> float | None:
        """Shut the sockets of late exchanges; return in how many seconds the next exchange is late, None if none."""
        now = time.monotonic()
        for exchange in self._limited:
            if exchange.deadline <= now:
                exchange.is_late, exchange.deadline = True, now + _AGAIN
                _shut_down(exchange.connection)
        return min((exchange.deadline - now for exchange in self._limited), default=None)

    def take(self, connection: HTTPConnection) -> None:
        """Note the connection on which this thread's request is sent."""
        with self._changed:
            self._known.add(connection)
            for earlier in self._limited:
                if earlier.connection is connection:  # its answer was read, and it is about to end
                    earlier.connection = None
            if _present.exchange is not None:
                _present.exchange.connection = connection
            if self._interrupted:
                _shut_down(connection)

    def interrupt(self) -> None:
        """End every request that is under way; later requests are not answered."""
        with self._changed:
            self._interrupted = True
            for connection in self._known:
                _shut_down(connection)

    def close(self) -> None:
        """End the watchdog."""
        with self._changed:
            self._closed = True
            self._changed.notify()


def _shut_down(connection: HTTPConnection | None) -> None:
    """End both directions below TLS, which would change its own state under the thread that reads."""
    connected: Any = getattr(connection, "sock", None)
    connected = getattr(connected, "socket", connected)  # below TLS in the TLS of a proxy
    if isinstance(connected, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Noted(HTTPConnection):
    """A mixin for connection classes: the connection notes which request it serves."""

    def connect(self) -> None:
        """Connect; a deadline or an interruption in the meantime ends the connection, too."""
        _note(self)
        super().connect()
        _note(self)

    def request(self, *args: Any, **kwargs: Any) -> None:
        _note(self)
        super().request(*args, **kwargs)


def _note(connection: HTTPConnection) -> None:
    if _present.exchange is not None:
        _present.exchange.connections.take(connection)


class _Connection(_Noted):
    pass


class _SecureConnection(_Noted, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
