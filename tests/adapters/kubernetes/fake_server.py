"""A small API server and an HTTP server: for faults that a real API server does not produce on demand."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.client import Configuration

from rebalancer.adapters.kubernetes.transport import Transport

Handler = Callable[[BaseHTTPRequestHandler], None]
Answer = int | tuple[int, Any]
"""A code, and the body that it comes with; an error's may be its message."""

Script = Callable[[Any], Answer | None]
"""What is answered to a request with a body; None: what the server itself answers."""


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
        request_queue_size = 128  # else a watch for each kind at once makes some wait a second to connect

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


class ApiServer:
    """Stores objects by path as an API server does; `answers` come first, by method and path.

    Lists know namespaces, pages and names, but no other selectors; a watch hears nothing and ends after a second.
    """

    def __init__(self, *, page: int | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.answers: dict[tuple[str, str], Answer | Script] = {}
        self.requests: list[tuple[str, str]] = []
        """Method and path; the method of a watch is WATCH."""

        self._page = page
        self._version = 0
        self._lock = threading.Lock()

    def put(self, path: str, **fields: Any) -> None:
        """Store an object as another client would: with a version that is new."""
        given: dict[str, Any] = fields.pop("metadata", {})
        self._version += 1
        named = {"name": path.rpartition("/")[2], **given, "resourceVersion": str(self._version)}
        self.objects[path] = {**fields, "metadata": named}

    def data(self, path: str) -> dict[str, str]:
        """Return the data of a ConfigMap."""
        return dict(self.objects[path]["data"])

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        body = json.loads(request.rfile.read(int(request.headers.get("Content-Length") or 0)) or b"null")
        path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
        method = "WATCH" if "watch" in query else request.command
        with self._lock:
            self.requests.append((method, path))
            scripted = self.answers.get((method, path))
            given = scripted(body) if callable(scripted) else scripted
            if given is None and method != "WATCH":
                patches = request.headers["Content-Type"] == "application/merge-patch+json"
                given = 415 if method == "PATCH" and not patches else self._answer(method, path, query, body)
        if given is None:
            begin_stream(request)
            time.sleep(1)
            request.wfile.write(b"0\r\n\r\n")
        else:
            code, content = given if isinstance(given, tuple) else (given, f"scripted answer {given}")
            answer(request, code, status(code, content) if isinstance(content, str) else content)

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if path == "/version":
            return 200, {"major": "1", "minor": "36"}
        if _is_collection(path):
            if method == "GET":
                return 200, self._list(path, query)
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return 409, f"{path} already exists"
            self.put(path, **body)
            return 201, self.objects[path]
        if path not in self.objects:
            return 404, f"{path} not found"
        stored = self.objects[path]
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if method in {"PATCH", "PUT"}:
            version = stored["metadata"]["resourceVersion"]
            if body.get("metadata", {}).get("resourceVersion", version) != version:
                return 409, "the object has been modified"
            self.put(path, **(merged(stored, body) if method == "PATCH" else body))
        return 200, self.objects[path]

    def _list(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        prefix, _, resource = path.rpartition("/")
        inside = re.compile(rf"{re.escape(prefix)}(/namespaces/[^/]+)?/{resource}/[^/]+")
        named = query.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
        items = [
            item
            for at, item in self.objects.items()
            if inside.fullmatch(at) and named in {"", item["metadata"]["name"]}
        ]
        first = int(query.get("continue", ["0"])[0])
        end = first + (self._page or len(items))
        metadata = {"resourceVersion": str(self._version), "continue": str(end) if end < len(items) else ""}
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[first:end]}


def _is_collection(path: str) -> bool:
    return re.fullmatch(r"/(api|apis/[^/]+)/[^/]+(/namespaces/[^/]+)?/[^/]+", path) is not None


def merged(stored: Any, patch: Any) -> Any:
    """Return an object after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(stored) if isinstance(stored, dict) else {}
    for key, value in patch.items():
        result[key] = merged(result.get(key), value)
    return {key: value for key, value in result.items() if patch.get(key, value) is not None}


def status(code: int, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


def in_turn(*answers: Answer) -> Script:
    """Give one answer after the other; the last one stays."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def write_kubeconfig(folder: Path, server: str = "http://127.0.0.1:1", **cluster: Any) -> Path:
    """Write a kubeconfig of one context, `c`; without a server nothing listens there."""
    file = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


@contextmanager
def reachable(
    handle: Handler, folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str = "KUBECONFIG"
) -> Iterator[None]:
    """Serve while the block lasts, with a kubeconfig that `variable` names; no namespace is set by the environment."""
    with served(handle) as transport:
        monkeypatch.setenv(variable, str(write_kubeconfig(folder, transport.host)))
        monkeypatch.delenv("REBALANCER_NAMESPACE", raising=False)
        yield
