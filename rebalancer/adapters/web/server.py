"""The server: a thread and a time limit for each request; clients that disconnect are not logged as errors.

prometheus_client's own server is not used: it returns metrics for every path. Plain HTTP: TLS would need the handshake
outside the accept loop and renewal of certificates, and a cluster has other means for that.
"""

import errno
import socket
import threading
from collections.abc import Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from rebalancer.adapters.web.checks import Checks, run_checks

REQUEST_SECONDS: Final = 5.0
"""Seconds that a client may take to send its request; then its thread is freed."""

_POLL: Final = 0.1
"""Seconds until the server reacts to `stop`."""

_log = structlog.get_logger("rebalancer.web")


class CannotListen(Exception):  # noqa: N818  # it names the state, as callers read it
    """The server cannot listen on the address; the message says why."""


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Log nothing: probes and scrapes come every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, family: socket.AddressFamily) -> None:
        self.address_family = family
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without a look-up of the host's own name: that can take seconds if DNS does not respond."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the base class's
        """Log on debug level only: a client disconnected, or was too slow."""
        _log.debug("request aborted", client=str(client_address), exc_info=True)


class WebServer:
    """Serves until it is stopped. Port 0 takes a free one; host "" is all addresses, of both families.

    The constructor raises CannotListen, so that a port in use is reported before anything else starts.
    """

    def __init__(self, host: str, port: int, *, registry: CollectorRegistry, live: Checks, ready: Checks) -> None:
        self._metrics = make_wsgi_app(registry)
        self._checks = {"/healthz": live, "/readyz": ready}
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
        """Start to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the port; it need not have been started."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return self._route(environ, start_response)
        except Exception:  # noqa: BLE001  # a failing request must not stop the server
            _log.exception("request failed", path=environ.get("PATH_INFO", ""))
            return _respond(start_response, "500 Internal Server Error", "internal error; see the controller's log\n")

    def _route(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path not in {"/metrics", *self._checks}:
            known = ", ".join(("/metrics", *self._checks))
            return _respond(start_response, "404 Not Found", f"not found; the paths are {known}\n")
        if environ["REQUEST_METHOD"] != "GET":
            return _respond(start_response, "405 Method Not Allowed", "method not allowed; use GET\n", ("Allow", "GET"))
        if path == "/metrics":
            metrics: Iterable[bytes] = self._metrics(environ, start_response)
            return metrics
        verbose = "verbose" in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        passed, text = run_checks(self._checks[path], path.removeprefix("/"), verbose=verbose)
        return _respond(start_response, "200 OK" if passed else "503 Service Unavailable", text)


def _respond(start_response: StartResponse, status: str, text: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    body = text.encode()
    described = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, [*described, ("X-Content-Type-Options", "nosniff"), *headers])
    return [body]


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
