"""A small client of the API server, for tests: paths in, dictionaries out.

The official client is what the program under test uses; a test that shared it would share its mistakes. Certificates
and proxies that the machine's environment prescribes are ignored: the server is on this machine.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import urllib3
import yaml

from tests.control_plane.resources import Manifest, collection_path, object_path

A = TypeVar("A")
T = TypeVar("T")
Documents = list[dict[str, Any]]
CONNECTIONS: Final = 16
USER_AGENT: Final = "rebalancer-tests"
SERVER_SIDE_APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
NOT_FOUND: Final = 404
CONFLICT: Final = 409
FIRST_ERROR: Final = 400


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, *, method: str, path: str, code: int, body: dict[str, Any]) -> None:
        """Keep the HTTP status code and the server's `Status` document."""
        super().__init__(f"{method} {path}: {code} {body.get('message', '')}")
        self.code = code
        self.body = body


class TimedOutError(AssertionError):
    """What a test waited for didn't happen."""


class Api:
    """Requests to one server as one user. May be used by several threads."""

    def __init__(self, *, url: str, ca_file: Path, token: str = "") -> None:
        """Connect when the first request is made. Without a token the requests are anonymous."""
        self.url = url
        context = ssl.create_default_context(cafile=str(ca_file))
        self._pool = urllib3.PoolManager(ssl_context=context, maxsize=CONNECTIONS, block=True, retries=False)
        self._headers = {"User-Agent": USER_AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Make a request and return the answer's document. Raises ApiError for a code from 400 on."""
        response = self._pool.request(
            method,
            f"{self.url}{path}?{urlencode(parameters)}" if parameters else f"{self.url}{path}",
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._headers, "Content-Type": content_type, "Accept": accept},
            timeout=urllib3.Timeout(connect=5, read=60),
        )
        document = _document(response.data)
        if response.status >= FIRST_ERROR:
            raise ApiError(method=method, path=path, code=response.status, body=document)
        return document

    def stream(self, path: str, parameters: Mapping[str, str]) -> list[bytes]:
        """Read an answer of many documents, a watch, to its end; return its lines."""
        response = self._pool.request(
            "GET",
            f"{self.url}{path}?{urlencode(parameters)}",
            headers={**self._headers, "Accept": "application/json"},
            timeout=urllib3.Timeout(connect=5, read=60),
        )
        if response.status >= FIRST_ERROR:
            raise ApiError(method="GET", path=path, code=response.status, body=_document(response.data))
        return response.data.splitlines()

    def get(self, path: str) -> dict[str, Any]:
        """Read one object (or any other document)."""
        return self.request("GET", path)

    def find(self, path: str) -> dict[str, Any] | None:
        """Read one object, None if there is no such object."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Documents:
        """List a collection: `/api/v1/pods`, `/apis/apps/v1/namespaces/demo/replicasets`. Selectors as strings."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        parameters = {name: value for name, value in selectors.items() if value}
        items: Documents = self.request("GET", path, parameters=parameters)["items"]
        return items

    def create(self, manifest: Manifest, *, path: str = "") -> dict[str, Any]:
        """Create an object in the collection of its kind, or at the given path (a subresource)."""
        return self.request("POST", path or collection_path(manifest), manifest)

    def create_all(self, manifests: Iterable[Manifest]) -> Documents:
        """Create many objects, several at a time; returns them in the same order."""
        return in_parallel(self.create, manifests)

    def replace(self, manifest: Manifest, *, subresource: str = "") -> dict[str, Any]:
        """Replace an object, or one of its subresources (`status`, `scale`)."""
        path = object_path(manifest)
        return self.request("PUT", f"{path}/{subresource}" if subresource else path, manifest)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object with a JSON merge patch."""
        return self.request("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str, *, grace_seconds: int | None = None, missing_ok: bool = False) -> None:
        """Delete an object; its dependents go in the background."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if not (missing_ok and error.code == NOT_FOUND):
                raise

    def apply(
        self, manifests: str | Iterable[Manifest], *, field_manager: str = "tests", strict: bool = False
    ) -> Documents:
        """Server-side apply of manifests, or of a YAML text with many documents, in their order.

        With `strict` a field that the server does not know is an error.
        """
        documents = yaml.safe_load_all(manifests) if isinstance(manifests, str) else manifests
        parameters = {"fieldManager": field_manager, "force": "true"}
        if strict:
            parameters["fieldValidation"] = "Strict"
        return [
            self.request(
                "PATCH", object_path(document), document, content_type=SERVER_SIDE_APPLY, parameters=parameters
            )
            for document in documents
            if document
        ]

    def evict(self, namespace: str, name: str, **options: object) -> int:
        """Ask for an eviction; returns the answer's code, refused or not. Options are `deleteOptions`."""
        eviction: Manifest = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        if options:
            eviction["deleteOptions"] = options
        try:
            self.create(eviction, path=f"/api/v1/namespaces/{namespace}/pods/{name}/eviction")
        except ApiError as error:
            return error.code
        return 201


def in_parallel(function: Callable[[A], T], arguments: Iterable[A]) -> list[T]:
    """Call a function for each argument, several at a time, and return the results in order; raises the first error."""
    with ThreadPoolExecutor(max_workers=CONNECTIONS) as threads:
        return list(threads.map(function, arguments))


def wait_until(predicate: Callable[[], T], *, what: str, timeout: float = 30.0, interval: float = 0.05) -> T:
    """Call the predicate until it returns something true; return that. Else TimedOutError, naming what was awaited."""
    deadline = time.monotonic() + timeout
    while not (result := predicate()):
        if time.monotonic() > deadline:
            message = f"waited {timeout:g} s in vain for: {what}"
            raise TimedOutError(message)
        time.sleep(interval)
    return result


def _document(data: bytes) -> dict[str, Any]:
    """Parse an answer. A refusal may be plain text (`/readyz`, a missing path)."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"message": data.decode("utf-8", errors="replace")}
