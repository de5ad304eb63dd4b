"""Plays recorded answers back over TLS, as an API server: lists in pages, watches with bookmarks, protobuf and JSON.

    python -m benchmarks.recorded.server FOLDER KUBECONFIG [--events N] [--live SCENARIO SIZE]

Writes the kubeconfig, then serves until it is ended. Nothing is computed for an answer: pages are slices of a file that
is mapped into memory. Writes are accepted and forgotten, except the controller's ConfigMaps and its Lease, which are
stored. `--events` sends so many changes of pods a second to a watch of pods; with `--churn` these are new pods, each of
which is deleted again, and it ends after so many. With `--live` pods can be evicted, and nodes lost: see
`benchmarks.recorded.live`.
"""

import argparse
import json
import mmap
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

import yaml

from benchmarks.recorded.live import FIGURES, LOST, LiveCluster, bookmark
from benchmarks.recorded.pages import INDEX, VERSION
from benchmarks.recorded.protobuf import CONTENT_TYPE
from benchmarks.recorded.states import SCENARIOS, SIZES
from rebalancer.history.ring import SEGMENT_MAPS
from rebalancer.history.trend import TREND_MAP

NAMESPACE: Final = "rebalancer-system"
STORED: Final = (
    *("rebalancer-status", "rebalancer-control", "rebalancer-policy", "rebalancer-approval", TREND_MAP),
    *SEGMENT_MAPS,
)
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
SENT: Final = "/recorded/sent"
"""Answers how many changes watches have been sent."""

_BOOKMARK_SECONDS: Final = 5.0
_AT_A_TIME: Final = 1_000
"""Pods of a churn that are there at a time."""
_JOB: Final = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
_JSON: Final = "application/json"
_EVICTIONS: Final = {
    "name": "pods/eviction",
    "namespaced": True,
    "kind": "Eviction",
    "group": "policy",
    "version": "v1",
    "verbs": ["create"],
}
_POLICY_GROUP: Final = {"groupVersion": "policy/v1", "version": "v1"}
_FIXED: Final[dict[str, Any]] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "policy", "versions": [_POLICY_GROUP], "preferredVersion": _POLICY_GROUP}],
    },
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [_EVICTIONS]},
    "/apis/policy/v1": {"kind": "APIResourceList", "groupVersion": "policy/v1", "resources": []},
}


class Recording:
    """The recorded pages, mapped into memory, and the few objects that are written."""

    def __init__(self, folder: Path) -> None:
        self._index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        self._maps: dict[str, mmap.mmap] = {}
        for name in ("json", "pb"):
            with (folder / f"pages.{name}").open("rb") as file:
                self._maps[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.stored: dict[str, dict[str, Any]] = {
            f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "resourceVersion": VERSION},
            }
            for name in STORED
        }
        self.stored[LEASE] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": NAMESPACE, "name": "rebalancer", "uid": "lease", "resourceVersion": VERSION},
            "spec": {},
        }
        self.writes: list[tuple[str, str, int]] = []
        """Method, path and size of every write."""
        self.sent = 0
        """Changes that watches have sent."""

    def page(self, path: str, encoding: str, number: int) -> memoryview | None:
        """Return a page of a list, None for a path that is not recorded."""
        pages = self._index.get(path, {}).get(encoding)
        if pages is None or number >= len(pages):
            return None
        start, length = pages[number]
        return memoryview(self._maps[encoding])[start : start + length]

    def changes(self, path: str) -> Iterator[bytes]:
        """Yield events of a watch without end: each object of the first pages again, as Ready and not Ready in turn."""
        version = int(VERSION)
        while True:
            for number in range(20):
                data = self.page(path, "json", number)
                if data is None:
                    break
                for item in json.loads(bytes(data))["items"]:
                    version += 1
                    item["metadata"]["resourceVersion"] = str(version)
                    ready = "True" if version // 10_000 % 2 else "False"
                    item["status"]["conditions"][2]["status"] = ready
                    yield json.dumps({"type": "MODIFIED", "object": item}, separators=(",", ":")).encode() + b"\n"

    def churn(self, path: str, number: int) -> Iterator[bytes]:
        """Yield events of pods that come and, `_AT_A_TIME` pods later, go again, as those of Jobs do."""
        page = self.page(path, "json", 0)
        assert page is not None
        version, made = int(VERSION), json.loads(bytes(page))["items"][0]
        for one in range(number + _AT_A_TIME):
            for what, pod in (("ADDED", one), ("DELETED", one - _AT_A_TIME)):
                if 0 <= pod < number:
                    version += 1
                    metadata = {
                        **made["metadata"],
                        "name": f"job-{pod}",
                        "uid": f"job-{pod}",
                        "labels": {
                            "job-name": f"job-{pod // 10}",
                            "batch.kubernetes.io/controller-uid": f"c-{pod // 10}",
                        },
                        "ownerReferences": [{**_JOB, "name": f"job-{pod // 10}", "uid": f"c-{pod // 10}"}],
                        "resourceVersion": str(version),
                    }
                    item = {**made, "metadata": metadata}
                    yield json.dumps({"type": what, "object": item}, separators=(",", ":")).encode() + b"\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    recording: ClassVar[Recording]
    events: ClassVar[float] = 0.0
    churn: ClassVar[int] = 0
    live: ClassVar[LiveCluster | None] = None

    def log_message(self, *_: Any) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if "sendInitialEvents" in query:
            self._refuse(400, "this server sends no initial events")
        elif query.get("watch") in {"true", "1"}:
            self._watch(parts.path, query)
        else:
            self._get(parts.path, query)

    def _get(self, path: str, query: dict[str, str]) -> None:
        encoding = "pb" if CONTENT_TYPE in self.headers.get("Accept", "") else "json"
        page = self.recording.page(path, encoding, int(query.get("continue", "0")))
        fixed = _FIXED.get(path) or self.recording.stored.get(path)
        if self.live is not None and (made := _read_live(self.live, path, query)) is not None:
            self._answer(200, made)
        elif path == SENT:
            self._answer(200, str(self.recording.sent).encode())
        elif page is not None:
            self._answer(200, page, CONTENT_TYPE if encoding == "pb" else _JSON)
        elif fixed is not None:
            self._answer(200, json.dumps(fixed).encode())
        elif path.endswith("/configmaps"):
            items = list(self.recording.stored.values())
            wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
            items = [item for item in items if wanted in {"", item["metadata"]["name"]}]
            listed = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": VERSION}}
            self._answer(200, json.dumps({**listed, "items": items}).encode())
        else:
            self._refuse(404, f"{path} is not recorded")

    def _watch(self, path: str, query: dict[str, str]) -> None:
        encoding = "pb" if CONTENT_TYPE in self.headers.get("Accept", "") else "json"
        self.send_response(200)
        self.send_header("Content-Type", _JSON if encoding == "json" else f"{CONTENT_TYPE};stream=watch")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        version = int(query.get("resourceVersion") or VERSION)
        if encoding == "json" and self.events and path.endswith("/pods"):
            version = self._send_changes(path, version)
        if encoding == "json" and self.live is not None and path.rpartition("/")[2] in {"pods", "nodes"}:
            for event in self.live.watch(path.rpartition("/")[2]):
                self._chunk(event)
        until = time.monotonic() + float(query.get("timeoutSeconds", "300"))
        while time.monotonic() < until:
            time.sleep(_BOOKMARK_SECONDS)
            if encoding == "json" and "allowWatchBookmarks" in query:
                self._chunk(bookmark(version))

    def _send_changes(self, path: str, version: int) -> int:
        """Send the changes after a version, and return the version of the last one."""
        began = time.monotonic()
        changes = self.recording.churn(path, self.churn) if self.churn else self.recording.changes(path)
        for sent, event in enumerate(islice(changes, version - int(VERSION), None)):  # each has the next version
            ahead = sent / self.events - (time.monotonic() - began)
            if ahead > 0.01:
                time.sleep(ahead)
            self._chunk(event)
            self.recording.sent += 1
            version += 1
        return version

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _write(self) -> None:
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.recording.writes.append((self.command, path, len(body)))
        if self.live is not None and self._write_live(self.live, path, body):
            return
        stored = self.recording.stored.get(path)
        if stored is None and not path.endswith("/events"):
            self._refuse(403, f"nothing is written to {path}")
            return
        sent = json.loads(body)
        if stored is not None:
            for key in sent.keys() & {"data", "metadata", "spec"}:
                stored[key] = {**stored.get(key, {}), **sent.get(key, {})}
        self._answer(200 if stored is not None else 201, json.dumps(stored or sent).encode())

    def _write_live(self, live: LiveCluster, path: str, body: bytes) -> bool:
        """Carry out what changes the cluster; return whether it was answered."""
        if path.endswith("/eviction"):
            _, _, _, _, namespace, _, name, _ = path.split("/")
            if live.evict(namespace, name, json.loads(body)["deleteOptions"]["preconditions"]["uid"]):
                self._answer(201, b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}')
            else:
                self._refuse(404, f'pods "{name}" not found', {"kind": "pods", "name": name})
            return True
        if path == LOST:
            live.lose(int(body))
            self._answer(200, b"{}")
            return True
        if path.endswith("/events"):
            live.note_event(body)
        return False

    do_POST = do_PUT = do_PATCH = _write  # noqa: N815  # the names that the standard library calls

    def _refuse(self, code: int, message: str, details: Mapping[str, str] = MappingProxyType({})) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
        status["details"] = dict(details)
        reason = {400: "BadRequest", 403: "Forbidden", 404: "NotFound"}[code]
        self._answer(code, json.dumps({**status, "reason": reason}).encode())

    def _answer(self, code: int, data: bytes | memoryview, content_type: str = _JSON) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.flush()
        self.connection.sendall(data)


def _read_live(live: LiveCluster, path: str, query: Mapping[str, str]) -> bytes | None:
    """Return what is read of the live cluster beside its recorded lists, None if it is something else."""
    if path == FIGURES:
        return live.figures()
    parts = path.split("/")
    if "namespaces" not in parts[:-2]:
        return None
    namespace, plural, *name = parts[parts.index("namespaces") + 1 :]
    if plural == "pods" and not name:
        return live.list_pods(namespace, query.get("labelSelector", ""))
    return live.read(namespace, plural, name[0]) if len(name) == 1 else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext, handler: type[_Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Make the connection safe in its own thread, so that a slow client delays no other one."""
        with suppress(OSError), self._context.wrap_socket(request, server_side=True) as safe:
            super().finish_request(safe, client_address)

    def handle_error(self, *_: Any) -> None:
        """Write nothing: clients that are done close their watches."""


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1, valid for a day; return it and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", "/CN=recorded", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def write_kubeconfig(path: Path, port: int, certificate: Path) -> None:
    """Write a kubeconfig for the server."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "recorded", "cluster": cluster}],
        "users": [{"name": "recorded", "user": {"token": "any"}}],
        "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "recorded"}}],
        "current-context": "recorded",
    }
    part = path.with_suffix(".part")
    part.write_text(yaml.safe_dump(document), encoding="utf-8")
    part.rename(path)


@contextmanager
def served(
    folder: Path, work: Path, *, events: float = 0.0, churn: int = 0, live: Sequence[str] = ()
) -> Iterator[Path]:
    """Serve a recorded folder from a process of its own as long as the block runs; gives the kubeconfig.

    `live` are the scenario and the size of a cluster in which pods can be evicted and nodes lost.
    """
    kubeconfig = work / f"{folder.name}.kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "benchmarks.recorded.server",
        str(folder),
        str(kubeconfig),
        "--events",
        str(events),
        "--churn",
        str(churn),
        *(("--live", *live) if live else ()),
    ]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 60
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the recorded server has ended, or does not begin")
            time.sleep(0.05)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(10)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the end of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded.server", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--events", type=float, default=0.0)
    parser.add_argument("--churn", type=int, default=0)
    parser.add_argument("--live", nargs=2, metavar=("SCENARIO", "SIZE"))
    options = parser.parse_args(arguments)
    certificate, key = make_certificate(options.kubeconfig.parent)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    live = None
    if options.live:
        scenario, size = options.live
        live = LiveCluster(SCENARIOS[scenario](*SIZES[size]))
    members = {"recording": Recording(options.folder), "events": options.events, "churn": options.churn, "live": live}
    server = _Server(context, type("_RecordedHandler", (_Handler,), members))
    write_kubeconfig(options.kubeconfig, server.server_address[1], certificate)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
