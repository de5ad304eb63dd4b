"""Requests to the API server, through the official client's connection pool, authentication and TLS.

The client's own models are not used: they need forty times the time and seventeen times the memory of typed decoding,
and the response of an eviction is not of their type. The client's retries are off; every caller decides itself.
"""

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config.config_exception import ConfigException
from urllib3.response import BaseHTTPResponse

from rebalancer import __version__
from rebalancer.adapters.kubernetes.connections import Connections
from rebalancer.adapters.kubernetes.denials import NAMESPACE_TERMINATING, find_denial, list_causes
from rebalancer.ports import Denial

_CONNECTIONS = 32
"""Watches of every kind at once, and requests besides."""

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0

_FORBIDDEN: Final = 403

_AUTHENTICATION = ["BearerToken"]

OnAnswer = Callable[[str, str, int, bool, float], None]

MERGE_PATCH: Final = "application/merge-patch+json"
"""The content type of a patch that says which fields to set or remove."""

_WRAPPER: Final = re.compile(r"^(?:\w+Error\n|(?:<[^>]*>|\w+\(.*?\)): )")
"""The error's class, connection or pool that the client and urllib3 name before the message."""


class ClusterError(Exception):
    """A request failed; the message has method, path and result."""


class Unreachable(ClusterError):  # noqa: N818  # it names the state, as callers read it
    """No response: whether the request arrived is not known."""


class RequestRefused(ClusterError):  # noqa: N818
    """A response with an error. `status` is the HTTP code, `details` the Status body, empty if there was none.

    `retry_after` is for how many seconds the server asked not to try again, 0 if it did not say.
    """

    def __init__(self, message: str, status: int, details: Mapping[str, Any], retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.details = details
        self.retry_after = retry_after

    @property
    def namespace_terminating(self) -> bool:
        """Whether its namespace is being deleted: what it was about is as good as gone, and nothing is wrong."""
        return self.status == _FORBIDDEN and NAMESPACE_TERMINATING in list_causes(self.details)

    @property
    def denial(self) -> Denial | None:
        """Who in admission control refused it on purpose, and why; None if nobody did."""
        return find_denial(self.status, self.details)

    @property
    def is_meant(self) -> bool:
        """Whether its namespace is being deleted or admission control refused it: the API server works as it should."""
        return self.namespace_terminating or self.denial is not None


class Transport:
    """One API server, one identity."""

    def __init__(
        self, client: ApiClient, *, read_timeout: float = READ_TIMEOUT, on_answer: OnAnswer = lambda *_: None
    ) -> None:
        self._client = client
        self._connections = Connections(client.rest_client.pool_manager)
        self._read_timeout = read_timeout
        self.on_answer = on_answer
        """Called for every request with its verb, path and HTTP code (0 without a response).

        The last arguments are whether it was refused on purpose (its namespace is being deleted, or by admission
        control), and for how many seconds there was no response; 0.0 where there was one.
        """

    @property
    def host(self) -> str:
        """The server's address."""
        return str(self._client.configuration.host)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is unsafe about the connection, for the caller to show once."""
        if self._client.configuration.verify_ssl:
            return ()
        why = "insecure-skip-tls-verify is set in the kubeconfig"
        return (f"the certificate of {self.host} is not verified: {why}. Set certificate-authority instead",)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        """Send a request and return the body; raise RequestRefused or Unreachable.

        `timeout` is how many seconds it may take in all, however slowly the response comes; None: the transport's own.
        """
        return self.begin(method, path, query=query, body=body, content_type=content_type, timeout=timeout)()

    def begin(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> Callable[[], bytes]:
        """Send a request and await the header of its response; call the result, in any thread, for the body.

        See `request`. Until the body is read, its connection serves no other request.
        """
        seconds = timeout or self._read_timeout
        with self._connections.limit(seconds):
            timeouts = (min(CONNECT_TIMEOUT, seconds), seconds)
            response = self._send(method, path, query or {}, body, content_type, timeouts)

        def read() -> bytes:
            try:
                data = response.read()
            except (urllib3.exceptions.HTTPError, OSError) as error:
                self.on_answer(method, path, response.status, False, 0.0)
                raise Unreachable(f"{method} {path}: the response of {self.host} is incomplete: {error}") from error
            finally:
                response.release_conn()
            self._check(method, path, response, data)
            return data

        return read

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout: float) -> BaseHTTPResponse:
        """Start a request whose response is streamed; raise RequestRefused or Unreachable.

        The caller closes the response. `read_timeout` is the longest time between two chunks, in seconds.
        """
        response = self._send("GET", path, query, None, "application/json", (CONNECT_TIMEOUT, read_timeout))
        if response.status >= 400:
            data = response.read()
            response.close()
            self._check("GET", path, response, data)
        self.on_answer("GET", path, response.status, False, 0.0)
        return response

    def _check(self, method: str, path: str, response: BaseHTTPResponse, data: bytes) -> None:
        """Count a response, and raise what its server refuses; only the body says whether that is an error."""
        if response.status < 400:
            self.on_answer(method, path, response.status, False, 0.0)
            return
        refusal = _make_refusal(method, path, response.status, data, response.headers.get("Retry-After", ""))
        self.on_answer(method, path, response.status, refusal.is_meant, 0.0)
        raise refusal

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        content_type: str,
        timeouts: tuple[float, float],
    ) -> BaseHTTPResponse:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        began = time.monotonic()
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=_AUTHENTICATION,
            )
            answer = self._client.call_api(*request, _request_timeout=timeouts)
        except (urllib3.exceptions.HTTPError, OSError, ApiException) as error:
            self.on_answer(method, path, 0, False, time.monotonic() - began)
            raise Unreachable(f"{method} {path}: no response from {self.host}: {_find_cause(error)}") from error
        response: BaseHTTPResponse = answer.response
        return response

    def interrupt(self) -> None:
        """End every request and stream that is under way; later ones fail."""
        self._connections.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()  # type: ignore[no-untyped-call]


def _find_cause(error: BaseException) -> str:
    """Return the cause of an error without urllib3's chain of wrappers."""
    return _WRAPPER.sub("", str(getattr(error, "reason", None) or error))


def _make_refusal(method: str, path: str, status: int, data: bytes, retry_after: str = "") -> RequestRefused:
    try:
        details = json.loads(data)
    except (ValueError, RecursionError):
        details = {}
    if not isinstance(details, dict):
        details = {}
    message = details.get("message") or data[:200].decode(errors="replace") or "no explanation"
    # The header may have a date too; Kubernetes sends seconds.
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    return RequestRefused(f"{method} {path}: HTTP {status}: {message}", status, details, seconds)


def connect(
    *, kubeconfig: str | None = None, context: str | None = None, read_timeout: float = READ_TIMEOUT
) -> Transport:
    """Find the API server as kubectl does: the given kubeconfig, $KUBECONFIG, ~/.kube/config, or the service account.

    Raises ClusterError that names what was tried.
    """
    configuration = Configuration()
    try:
        # The client reads the variable only once, when it is imported.
        kubeconfig = kubeconfig or os.environ.get("KUBECONFIG")
        if not kubeconfig and context is None and _use_service_account(configuration):
            pass
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, context=context, client_configuration=configuration
            )
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
        # The client checks little of what it reads: a file of another form ends in any of these.
        where = kubeconfig or "~/.kube/config"
        there = os.pathsep in where or Path(where).expanduser().exists()
        why = " ".join(str(error).split()).rstrip(".") if there else "no such file"
        raise ClusterError(f"no cluster configured: {where}: {why}; pass --kubeconfig and --context") from error
    configuration.retries = False
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = _CONNECTIONS
    if not configuration.verify_ssl:
        # urllib3 warns at every request; `Transport.warnings` says it once.
        warnings.filterwarnings("ignore", category=urllib3.exceptions.InsecureRequestWarning)
    return Transport(_make_client(configuration), read_timeout=read_timeout)


def _make_client(configuration: Configuration) -> ApiClient:
    client = ApiClient(configuration)
    client.user_agent = f"rebalancer/{__version__}"
    return client


def _use_service_account(configuration: Configuration) -> bool:
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException:
        return False
    return True
