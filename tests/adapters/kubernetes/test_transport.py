"""Connections to the API server: TLS, deadlines, the end."""

import gc
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
from kubernetes import client
from kubernetes.client import Configuration

from rebalancer.adapters.kubernetes import connections
from rebalancer.adapters.kubernetes import transport as module
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport, Unreachable, connect
from tests.adapters.kubernetes.fake_server import answer, served

OPENSSL = shutil.which("openssl")
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def run_openssl(*arguments: str) -> None:
    subprocess.run([str(OPENSSL), *arguments], check=True, capture_output=True, timeout=30)


def issue_certificate(folder: Path, authority: str) -> None:
    """Make an authority and a certificate of it for 127.0.0.1: `authority`.crt, server-`authority`.crt and .key."""
    ca, server = folder / authority, folder / f"server-{authority}"
    subject = ("-subj", f"/CN={authority}")
    run_openssl("req", "-x509", *EC, "-days", "2", "-keyout", f"{ca}.key", "-out", f"{ca}.crt", *subject)
    run_openssl("req", *EC, "-keyout", f"{server}.key", "-out", f"{server}.csr", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    issuer = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2")
    names = ("-extfile", str(folder / "names"))
    run_openssl("x509", "-req", "-in", f"{server}.csr", *issuer, *names, "-out", f"{server}.crt")


class Secure:
    """An API server with TLS; each request is a connection of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

        class Requests(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/drops":
                    drip(self, header=True)
                else:
                    answer(self, 200, {})

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # a client that does not trust the certificate hangs up

        self.server = Server(("127.0.0.1", 0), Requests)

    def present(self, authority: str) -> None:
        """Use the certificate of this authority for the next connections."""
        server = self._folder / f"server-{authority}"
        self._context.load_cert_chain(f"{server}.crt", f"{server}.key")

    def start(self) -> None:
        self.server.socket = self._context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    for authority in ("one", "two"):
        issue_certificate(tmp_path, authority)
    made = Secure(tmp_path)
    made.present("one")
    made.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.skipif(OPENSSL is None, reason="certificates are made with openssl")
def test_a_new_certificate_authority_is_read_from_its_file(secure: Secure, tmp_path: Path) -> None:
    """The kubelet exchanges ca.crt in a running pod; the next connection verifies against the new content."""
    trusted = tmp_path / "ca.crt"
    shutil.copy(tmp_path / "one.crt", trusted)
    configuration = Configuration(host=f"https://127.0.0.1:{secure.server.server_port}", retries=False)
    configuration.ssl_ca_cert = str(trusted)
    transport = Transport(configuration, read_timeout=5.0)
    assert transport.request("GET", "/version") == b"{}"
    secure.present("two")
    with pytest.raises(Unreachable, match="certificate verify failed"):
        transport.request("GET", "/version")
    shutil.copy(tmp_path / "two.crt", trusted)
    assert transport.request("GET", "/version") == b"{}"
    secure.present("one")
    with pytest.raises(Unreachable, match=r": \[SSL: CERTIFICATE_VERIFY_FAILED\] certificate verify failed"):
        transport.request("GET", "/version")
    transport.close()


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "[SSL: CERTIFICATE_VERIFY_FAILED] certificate"),
        ("SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED] certificate", "[SSL: CERTIFICATE_VERIFY_FAILED] certificate"),
        ("<urllib3.connection.HTTPSConnection object at 0x7f>: Failed to resolve", "Failed to resolve"),
        (
            "HTTPSConnection(host='h', port=6443): Failed to establish: [Errno 111] refused",
            "Failed to establish: [Errno",
        ),
        ("EOF occurred in violation of protocol (_ssl.c:1006)", "EOF occurred"),
    ],
)
def test_a_cause_is_named_without_what_urllib3_puts_before_it(error: str, cause: str) -> None:
    """And with everything else: the bracket of an error of TLS, the colon in a message."""
    assert module._find_cause(OSError(error)).startswith(cause)


def drip(request: BaseHTTPRequestHandler, *, header: bool) -> None:
    """Send an answer of 40 bytes or more, one every 0.1 s: no receive takes long."""
    body = b'{"status": "Success"}' + b" " * 20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    if not header:
        request.wfile.write(head)
    for byte in head + body if header else body:
        request.wfile.write(bytes([byte]))
        time.sleep(0.1)


@pytest.mark.parametrize("header", [True, False])
def test_an_answer_in_drops_is_cut_off(*, header: bool) -> None:
    """The timeout bounds the whole request, not the time of one receive, whether header or body comes slowly."""
    with served(partial(drip, header=header)) as transport:
        began = time.monotonic()
        with pytest.raises(Unreachable, match="timed out"):
            transport.request("GET", "/version", timeout=0.5)
        assert 0.4 < time.monotonic() - began < 1.0


def test_authentication_that_fails_is_a_request_that_was_not_sent() -> None:
    """Whether a list, a watch or a write: a token that cannot be read costs this request, and is counted."""
    counted = []
    with served(lambda request: answer(request, 200, {})) as transport:

        def fail(_: object) -> None:
            raise OSError(24, "Too many open files")

        transport.configuration.api_key["BearerToken"] = "token"
        transport.configuration.refresh_api_key_hook = fail
        transport.on_answer = lambda *seen: counted.append(seen[:3])
        evict = client.CoreV1Api(transport).create_namespaced_pod_eviction
        sends: list[Callable[[], object]] = [
            lambda: transport.request("GET", "/version"),
            lambda: transport.stream("/watch", query={}, read_timeout=1.0),
            lambda: transport.call(evict, "web-1", "shop", {"metadata": {"name": "web-1"}}),
        ]
        for send in sends:
            with pytest.raises(Unreachable, match="Too many open files"):
                send()
    path = "/api/v1/namespaces/shop/pods/web-1/eviction"
    assert counted == [("GET", "/version", 0), ("GET", "/watch", 0), ("POST", path, 0)]


def test_a_redirection_is_refused() -> None:
    """As by a proxy whose session has ended: nothing was done, and nothing follows it."""
    with served(lambda request: answer(request, 302, {}, {"Location": "/login"})) as transport:
        delete = client.CoreV1Api(transport).delete_namespaced_config_map
        with pytest.raises(RequestRefused, match="HTTP 302"):
            transport.call(delete, "a", "b")
        with pytest.raises(RequestRefused, match="HTTP 302"):
            transport.request("GET", "/version")


def test_the_deadline_holds_for_the_answer_of_a_proxy_too() -> None:
    """It sends its answer to CONNECT in drops: no receive takes long."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip_forever() -> None:
            with suppress(OSError):
                connected, _ = listening.accept()
                with connected:
                    for _ in range(50):
                        connected.sendall(b"H")
                        time.sleep(0.1)

        threading.Thread(target=drip_forever, daemon=True).start()
        configuration = Configuration(host="https://127.0.0.1:1", retries=False)
        configuration.proxy = f"http://127.0.0.1:{listening.getsockname()[1]}"
        transport = Transport(configuration, read_timeout=0.5)
        began = time.monotonic()
        with pytest.raises(Unreachable):
            transport.request("GET", "/version")
        assert time.monotonic() - began < 1.5
        transport.close()


def test_a_connection_below_the_tls_of_a_proxy_is_shut_too() -> None:
    """There urllib3 holds no socket but one that wraps it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connections._shut_down(cast("Any", SimpleNamespace(sock=SimpleNamespace(socket=ours))))
        assert theirs.recv(1) == b""


def test_a_server_that_reads_nothing_holds_nobody() -> None:
    """A large document, such as the memory, is not sent for longer than the timeout either."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        time.sleep(1.5)
        request.close_connection = True

    with served(handle) as transport:
        create, body = client.CoreV1Api(transport).create_namespaced_config_map, {"data": {"memory": "x" * 16_000_000}}
        began = time.monotonic()
        with pytest.raises(Unreachable):
            transport.call(create, "ns", body, timeout=0.5)
        assert time.monotonic() - began < 1.0


def test_a_connection_is_used_again_after_a_request_with_a_deadline() -> None:
    """What is left of one request's time does not bound the next one's, nor a stream's."""
    ports = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        ports.append(request.client_address)
        if "watch" in request.path:
            time.sleep(0.7)
        answer(request, 200, {})

    with served(handle) as transport:
        assert transport.request("GET", "/version", timeout=0.5) == b"{}"
        response = transport.stream("/watch", query={}, read_timeout=5.0)
        assert response.read() == b"{}"
        response.release_conn()
        assert transport.request("GET", "/watch") == b"{}"
    assert len(set(ports)) == 1


def test_an_answer_that_nobody_reads_is_forgotten() -> None:
    """As the next page of a list in which one is malformed; the watchdog has nothing more to do with it."""
    with served(lambda request: answer(request, 200, b" " * 1_000_000)) as transport:
        body = transport.begin("GET", "/api/v1/pods", timeout=0.1)
        assert len(transport._connections._limited) == 1
        del body
        gc.collect()
        assert len(transport._connections._limited) == 0
        assert transport.request("GET", "/version", timeout=5) == b" " * 1_000_000


def test_a_refusal_is_freed_once_it_was_handled() -> None:
    """Its answer too, without the garbage collector: a watch waits for minutes with the refusal of an absent kind."""
    refusals: list[ref[RequestRefused]] = []
    gc.disable()
    try:
        with served(lambda request: answer(request, 404, {})) as transport:
            refusals = []
            try:
                transport.request("GET", "/apis/absent")
            except RequestRefused as error:
                refusals.append(ref(error))
            assert [refusal() for refusal in refusals] == [None]
    finally:
        gc.enable()


def test_interrupting_ends_what_waits_for_an_answer() -> None:
    """Requests and streams alike; later ones fail at once instead of waiting for the same silent server."""
    silent = threading.Event()
    arrived = threading.Semaphore(0)

    def handle(request: BaseHTTPRequestHandler) -> None:
        arrived.release()
        silent.wait(5)
        request.close_connection = True

    failures: list[type[BaseException]] = []

    def fail(send: Callable[[], object]) -> None:
        try:
            send()
        except ClusterError as error:
            failures.append(type(error))

    with served(handle) as transport:
        sends: list[Callable[[], object]] = [
            lambda: transport.request("GET", "/version", timeout=5),
            lambda: transport.stream("/pods", query={}, read_timeout=5),
        ]
        threads = [threading.Thread(target=fail, args=(send,)) for send in sends]
        for thread in threads:
            thread.start()
            assert arrived.acquire(timeout=5)
        began = time.monotonic()
        transport.interrupt()
        for thread in threads:
            thread.join(5)
        fail(sends[0])
        assert time.monotonic() - began < 1.0
        silent.set()
    assert failures == [Unreachable] * 3


@pytest.mark.skipif(OPENSSL is None, reason="certificates are made with openssl")
def test_the_deadline_holds_over_tls(secure: Secure, tmp_path: Path) -> None:
    """There the socket is another one, which wraps that of the connection."""
    configuration = Configuration(host=f"https://127.0.0.1:{secure.server.server_port}", retries=False)
    configuration.ssl_ca_cert = str(tmp_path / "one.crt")
    transport = Transport(configuration, read_timeout=5.0)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        transport.request("GET", "/drops", timeout=0.5)
    assert time.monotonic() - began < 1.5
    transport.close()


@pytest.mark.parametrize("text", ["hello", "[]", "a: [", "apiVersion: v1\nclusters: 3\n", "users: {a: b}", "\x00"])
def test_a_kubeconfig_of_another_form_is_an_error_in_one_line(tmp_path: Path, text: str) -> None:
    """It names the file and the flag."""
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(ClusterError) as caught:
        connect(kubeconfig=str(file))
    message = str(caught.value)
    assert message.startswith(f"no cluster configured: {file}: ")
    assert message.endswith("; pass --kubeconfig and --context")
    assert "\n" not in message
