"""A validating webhook on evictions, served on loopback with the API server's own certificate."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

NAME: Final = "zone-budget.example.com"
_PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/evictions"

Status = dict[str, Any]
Decide = Callable[[str], Status | None]


class EvictionWebhook:
    """Decides about the evictions in one namespace: `decide` gives the Status of a refusal by the pod, None to allow.

    `requests` are the pods of the requests that the API server passed on, in order. It does when the block begins.
    """

    def __init__(self, plane: ControlPlane, namespace: str, decide: Decide) -> None:
        self._plane = plane
        self._namespace = namespace
        self.decide = decide
        self.requests: list[str] = []
        self._known = threading.Event()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(webhook.answer(review)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plane.ca_file, plane.ca_file.with_suffix(".key"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        """Answer an AdmissionReview."""
        request = review["request"]
        if request["object"].get("deleteOptions", {}).get("dryRun"):
            self._known.set()
            return self._wrap(request, {"code": 403, "message": "only whether this webhook is in force"})
        self.requests.append(request["name"])
        return self._wrap(request, self.decide(request["name"]))

    def _wrap(self, request: dict[str, Any], status: Status | None) -> dict[str, Any]:
        response = {"uid": request["uid"], "allowed": status is None} | ({} if status is None else {"status": status})
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        certificate = b64encode(self._plane.ca_file.read_bytes()).decode()
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"], "operations": ["CREATE"]}
        webhook: dict[str, Any] = {
            "name": NAME,
            "clientConfig": {"url": url, "caBundle": certificate},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self._plane.api.create({**kind, "metadata": {"name": "evictions"}, "webhooks": [webhook]})
        wait_until(self._is_known, what="the API server to ask the webhook")
        return self

    def _is_known(self) -> bool:
        pod = self._plane.api.list(f"/api/v1/namespaces/{self._namespace}/pods")[0]["metadata"]["name"]
        self._plane.api.evict(self._namespace, pod, dryRun=["All"])
        return self._known.is_set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._plane.api.delete(_PATH)
        self.end()

    def end(self) -> None:
        """Stop to serve; the configuration remains until the block ends."""
        self._server.shutdown()
        self._server.server_close()
