"""An HTTP server with scripted responses: for faults that a real API server does not produce on demand."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes.client import Configuration

from rebalancer.adapters.kubernetes.transport import Transport

Handler = Callable[[BaseHTTPRequestHandler], None]


def answer(request: BaseHTTPRequestHandler, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
    """Answer with JSON, or with bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.send_response(code)
    request.send_header("Content-Length", str(len(data)))
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(data)


def chunk(request: BaseHTTPRequestHandler, data: bytes) -> None:
    """Send one chunk of a stream."""
    request.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    request.wfile.flush()


def begin_stream(request: BaseHTTPRequestHandler) -> None:
    """Begin an answer that is sent chunk by chunk."""
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()


@contextmanager
def served(handle: Handler) -> Iterator[Transport]:
    """Serve with this handler on a free port of 127.0.0.1, and give a transport that talks to it."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer takes 40 ms

        def do_GET(self) -> None:
            handle(self)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # a client that hangs up is what some tests are about

    server = Server(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}", retries=False)
    transport = Transport(configuration, read_timeout=2.0)
    try:
        yield transport
    finally:
        transport.close()
        server.shutdown()
        thread.join()
        server.server_close()
