"""The server: a thread and a time limit for each request; clients that disconnect are not logged as errors.

Everybody in the cluster may reach the port, and the process behind it evicts pods. So the number of connections, the
time of a request and the size of its header are bounded. If all connections are taken, a new connection replaces the
oldest one that waits for its client: first those that wait for a request, then those with an unread answer. Probes send
and read at once, so they get through even if idle clients hold all connections.

prometheus_client's own server is not used: it returns metrics for every path. Plain HTTP: TLS would need the handshake
outside the accept loop and renewal of certificates, and a cluster has other means for that.
"""

import errno
import io
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog

from rebalancer.adapters.web.routes import Request, Response, Route, text_response

REQUEST_SECONDS: Final = 5.0
"""Seconds that a client may take to send its whole request; then its thread is freed."""

ANSWERED_SECONDS: Final = 10.0
"""Seconds from the connection until the client must have read the answer; Prometheus waits no longer by default."""

LARGEST_HEADER: Final = 16 * 1024
"""Most bytes of a request with its header; a scrape has some 300."""

MOST_CONNECTIONS: Final = 32
"""Probes and scrapes need about four."""

_POLL: Final = 0.1
"""Seconds until the server reacts to `stop`."""

_log = structlog.get_logger("rebalancer.web")


class CannotListen(Exception):  # noqa: N818  # it names the state, as callers read it
    """The server cannot listen on the address; the message says why."""


class _TooLargeError(Exception):
    """The request is larger than LARGEST_HEADER."""


class _Incoming(io.RawIOBase):
    """The stream from a client, limited in time and size."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._left = LARGEST_HEADER

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive available bytes, or wait for some."""
        if not self._left:
            raise _TooLargeError
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        received = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= received
        return received


class _Outgoing(io.RawIOBase):
    """The stream to a client, limited in time; `begin` is called before the first write."""

    def __init__(self, connection: socket.socket, seconds: float, begin: Callable[[socket.socket], None]) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._begin = begin

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def write(self, data: Any) -> int:
        """Send all data; the socket's timeout is for all of it."""
        self._begin(self._connection)
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        self._connection.sendall(data)
        return len(data)


class _Handler(WSGIRequestHandler):
    server: "_Server"
    timeout = REQUEST_SECONDS
    whole = ANSWERED_SECONDS
    # For an unreadable request line: the base class assumes HTTP/0.9, whose answers have no status.
    default_request_version = "HTTP/1.0"
    error_content_type = "text/plain;charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        """Limit both streams of the client; the base class limits only the time of each receive."""
        super().setup()
        self.rfile = io.BufferedReader(_Incoming(self.connection, self.timeout))
        self.wfile: Any = _Outgoing(self.connection, self.whole, self.server.begin_writing)

    def handle(self) -> None:
        """Answer the request, or refuse it for its size."""
        try:
            super().handle()
        except _TooLargeError:
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
            self.send_error(431)

    def parse_request(self) -> bool:
        """Read the header; until the answer is ready, the connection cannot be replaced."""
        parsed = super().parse_request()
        self.server.finish_reading(self.connection)
        return parsed

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Log nothing: probes and scrapes come every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, family: socket.AddressFamily) -> None:
        self.address_family = family
        self._lock = threading.Lock()
        self._reading: dict[socket.socket, None] = {}
        self._answering: set[socket.socket] = set()
        self._writing: dict[socket.socket, None] = {}
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection if there is room, or if an idle connection can be closed."""
        with self._lock:
            if len(self._reading) + len(self._answering) + len(self._writing) >= MOST_CONNECTIONS:
                replaceable = self._reading or self._writing
                if not replaceable:
                    self._refuse(request)
                    return
                oldest = next(iter(replaceable))
                del replaceable[oldest]
                with suppress(OSError):  # its client has just hung up
                    oldest.shutdown(socket.SHUT_RDWR)  # ends its thread
            self._reading[request] = None
        super().process_request(request, client_address)

    def _refuse(self, request: socket.socket) -> None:
        request.setblocking(False)
        with suppress(OSError):
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def finish_reading(self, request: socket.socket) -> None:
        """Note that the connection has sent its request."""
        with self._lock:
            if request in self._reading:
                del self._reading[request]
                self._answering.add(request)

    def begin_writing(self, request: socket.socket) -> None:
        """Record that the connection is being sent its answer, unless it was replaced."""
        with self._lock:
            if request in self._answering:
                self._answering.discard(request)
                self._writing[request] = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in the thread of the connection, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._reading.pop(request, None)
                self._answering.discard(request)
                self._writing.pop(request, None)

    def server_bind(self) -> None:
        """Bind without a look-up of the host's own name, which can take seconds if DNS does not respond."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the base class's
        """Log on debug level only: a client disconnected, or was too slow."""
        _log.debug("request aborted", client=str(client_address), exc_info=True)


class WebServer:
    """Serves until it is stopped. Port 0 takes a free port; host "" is all addresses, of both families.

    The constructor raises CannotListen, so a port in use is reported before anything else starts.
    """

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._server = _bind(host, port)
        self._server.set_app(self._answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": _POLL}, name="web", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the port; it need not have been started."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = self._route(environ)
        except Exception:  # noqa: BLE001  # a failing request must not stop the server
            _log.exception("request failed", path=environ.get("PATH_INFO", ""))
            response = text_response("internal error; see the controller's log\n", "500 Internal Server Error")
        length = ("Content-Length", str(len(response.body)))
        start_response(response.status, [*response.headers, length, ("X-Content-Type-Options", "nosniff")])
        return [response.body]

    def _route(self, environ: WSGIEnvironment) -> Response:
        route = self._routes.get(environ.get("PATH_INFO", ""))
        if route is None:
            return text_response(f"not found; the paths are {', '.join(self._routes)}\n", "404 Not Found")
        if environ["REQUEST_METHOD"] != "GET":
            return text_response("method not allowed; use GET\n", "405 Method Not Allowed", ("Allow", "GET"))
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        return route(
            Request(
                query={name: values[-1] for name, values in query.items()},
                host=environ.get("HTTP_HOST", ""),
                accept=environ.get("HTTP_ACCEPT", ""),
                accept_encoding=environ.get("HTTP_ACCEPT_ENCODING", ""),
            )
        )


def _bind(host: str, port: int) -> _Server:
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        try:
            return _Server(host, port, family)
        except OSError as error:
            # A kernel may support IPv6 without having an IPv6 address.
            if not both or error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
            return _Server(host, port, socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotListen(f"cannot listen on {address}: {why}") from None
