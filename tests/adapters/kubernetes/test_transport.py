"""Connections to the API server over TLS."""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from rebalancer.adapters.kubernetes.transport import Transport, Unreachable
from tests.adapters.kubernetes.fake_server import answer

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
    transport = Transport(ApiClient(configuration), read_timeout=5.0)
    assert transport.request("GET", "/version") == b"{}"
    secure.present("two")
    with pytest.raises(Unreachable, match="certificate verify failed"):
        transport.request("GET", "/version")
    shutil.copy(tmp_path / "two.crt", trusted)
    assert transport.request("GET", "/version") == b"{}"
    secure.present("one")
    with pytest.raises(Unreachable, match="certificate verify failed"):
        transport.request("GET", "/version")
    transport.close()
