"""Requests to the API server, through the official client.

Writes go through the methods of the client's API classes (`Transport.call`), which check a body before it is sent. So
do reads of the Lease and of placeholders' objects. Lists and watches of the cluster are raw, and decoded by this
project, because the client's models need forty times the time and seventeen times the memory. Reads of a ConfigMap or a
workload are raw too, because read-only commands need them and loading the core API's class takes 0.3 s and 15 MiB. The
client's retries are off; every caller decides itself.
"""

import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.client.rest import RESTResponse
from kubernetes.config.config_exception import ConfigException
from urllib3.response import BaseHTTPResponse

from rebalancer import __version__
from rebalancer.adapters.kubernetes.connections import Connections, Exchange
from rebalancer.adapters.kubernetes.denials import NAMESPACE_TERMINATING, find_denial, list_causes
from rebalancer.model.words import name_list
from rebalancer.ports import Denial

_CONNECTIONS = 48
"""Watches of every kind at once, and requests besides."""

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0

_SOON: Final = 1.0
"""An answer within this many seconds shows the server's clock."""

LIKE_CLOCKS: Final = timedelta(seconds=5)
"""Clocks that differ by at most this may be equal, because a header has whole seconds and takes time to arrive."""

_FORBIDDEN: Final = 403
_TOO_MANY: Final = 429

_AUTHENTICATION = ["BearerToken"]

_Request = tuple[str, str, Any, Any, Any]
"""Method, URL, header, body and form, as the client makes them."""

OnAnswer = Callable[[str, str, int, bool, float], None]

MERGE_PATCH: Final = "application/merge-patch+json"
"""The content type of a patch that says which fields to set or remove."""

_WRAPPER: Final = re.compile(r"^(?:\w+Error\n|(?:<[^>]*>|\w+\(.*?\)): )")
"""The error's class, connection or pool that the client and urllib3 name before the message."""


class ClusterError(Exception):
    """A request failed; the message has method, path and result."""

    passes = False
    """Whether the request may succeed a little later without any change by people."""

    retry_after = 0.0
    """How many seconds the server asked to wait before the next try, 0 if it did not."""


class AnswerTooLargeError(ClusterError):
    """The answer has more bytes than the caller wanted to read."""


class Unreachable(ClusterError):  # noqa: N818  # it names the state, as callers read it
    """No response: whether the request arrived is not known."""

    passes = True


class NotConnected(Unreachable):
    """The request was not sent, because credentials are missing or TLS has refused the connection."""

    passes = False


class RequestRefused(ClusterError):  # noqa: N818
    """A response with an error. `status` is the HTTP code, `details` the Status body, empty if there was none."""

    def __init__(self, message: str, status: int, details: Mapping[str, Any], retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.passes = status == _TOO_MANY or status >= 500
        self.status = status
        self.details = details
        self.retry_after = retry_after

    @property
    def namespace_terminating(self) -> bool:
        """Whether the request failed because its namespace is being deleted, which is no error."""
        return self.status == _FORBIDDEN and NAMESPACE_TERMINATING in list_causes(self.details)

    @property
    def denial(self) -> Denial | None:
        """Who in admission control refused the request on purpose, and why; None if nobody did."""
        return find_denial(self.status, self.details)

    @property
    def is_meant(self) -> bool:
        """Whether the API server works as it should: the namespace is being deleted, or admission control refused."""
        return self.namespace_terminating or self.denial is not None


class Transport(ApiClient):
    """One API server, one identity: the official client, whose answers come by a deadline or not at all.

    Its API classes are made with it: `client.CoreV1Api(transport)`.
    """

    def __init__(
        self, configuration: Configuration, *, read_timeout: float = READ_TIMEOUT, on_answer: OnAnswer = lambda *_: None
    ) -> None:
        super().__init__(configuration)
        self.user_agent = f"rebalancer/{__version__}"
        self._connections = Connections(self.rest_client.pool_manager)
        self.thread = self._connections.thread
        """The thread that ends requests at their deadlines."""

        self._read_timeout = read_timeout
        self._dated: tuple[str, float] | None = None
        """The header Date of the last answer, and when that came, in seconds since the epoch."""

        self.on_answer = on_answer
        """Called for every request with its verb, path and HTTP code (0 without a response).

        The last two arguments are whether the request was refused on purpose (by admission control, or because its
        namespace is being deleted), and for how many seconds there was no response, 0.0 if there was one.
        """

    @property
    def host(self) -> str:
        """The server's address."""
        return str(self.configuration.host)

    def now(self) -> datetime:
        """Return the time by the API server's clock if answers have shown it, else by this machine's."""
        return datetime.now(UTC) + self.clock_ahead

    @property
    def clock_ahead(self) -> timedelta:
        """By how much the API server's clock is ahead of this machine's; 0 if both may be equal."""
        if self._dated is None:
            return timedelta(0)
        text, came = self._dated
        try:
            ahead = parsedate_to_datetime(text) - datetime.fromtimestamp(came, UTC)
        except ValueError:
            return timedelta(0)
        return ahead if abs(ahead) > LIKE_CLOCKS else timedelta(0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about an unsafe connection, for the caller to show once."""
        if self.configuration.verify_ssl:
            return ()
        why = "insecure-skip-tls-verify is set in the kubeconfig"
        return (f"the certificate of {self.host} is not verified: {why}. Set certificate-authority instead",)

    def call(
        self, operation: Callable[..., Any], /, *arguments: Any, timeout: float | None = None, **options: Any
    ) -> bytes:
        """Call a method of one of the client's API classes and return the body of the answer.

        Raises RequestRefused or Unreachable. `timeout` is how many seconds it may take in all; None: the transport's
        own. The answer is not converted to a model: models refuse unknown fields, and an eviction's answer has none.
        """
        answer = operation(*arguments, _preload_content=False, _request_timeout=timeout, **options)
        data: bytes = answer.data
        return data

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> bytes:
        """Send a request without a body and return the answer's; see `call`."""
        return self.begin(method, path, query=query, timeout=timeout)()

    def begin(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float | None = None,
        most: int | None = None,
    ) -> Callable[[], bytes]:
        """Send a request and await the header of its response; call the result, in any thread, for the body.

        See `request`. Until the body is read, its connection serves no other request. A body of more than `most` bytes
        is not read to its end: AnswerTooLargeError.
        """
        seconds = timeout or self._read_timeout
        response, exchange = self._send(self._make(method, path, query or {}), seconds, limit=seconds)
        return lambda: self._read(method, path, response, exchange, most)

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout: float) -> BaseHTTPResponse:
        """Start a request whose response is streamed; raise RequestRefused or Unreachable.

        The caller closes the response. `read_timeout` is the longest time between two chunks, in seconds.
        """
        response, exchange = self._send(self._make("GET", path, query), read_timeout, limit=math.inf)
        if response.status >= 300:
            self._read("GET", path, response, exchange)
        self.on_answer("GET", path, response.status, False, 0.0)
        return response

    def param_serialize(self, method: str, resource_path: str, *args: Any, **fields: Any) -> _Request:
        """Make a request; raise NotConnected if its authentication fails, for example with an unreadable token."""
        try:
            return super().param_serialize(method, resource_path, *args, **fields)
        except (OSError, ConfigException) as error:
            path = resource_path.format_map(fields.get("path_params") or {})
            self.on_answer(method, path, 0, False, 0.0)
            raise NotConnected(f"{method} {path}: not sent to {self.host}: {error}") from error

    def call_api(  # the client's signature
        self,
        method: str,
        url: str,
        header_params: Any = None,
        body: Any = None,
        post_params: Any = None,
        _request_timeout: Any = None,
    ) -> RESTResponse:
        """Send a request of an API class and read its answer, by the deadline; raise RequestRefused or Unreachable."""
        seconds = _request_timeout or self._read_timeout
        response, exchange = self._send((method, url, header_params, body, post_params), seconds, limit=seconds)
        self._read(method, self._path(url), response, exchange)
        return RESTResponse(response)

    def _make(self, method: str, path: str, query: Mapping[str, str]) -> _Request:
        return self.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=_AUTHENTICATION,
        )

    def _path(self, url: str) -> str:
        return url.removeprefix(self.host).partition("?")[0]

    def _send(self, request: _Request, seconds: float, *, limit: float) -> tuple[BaseHTTPResponse, Exchange]:
        """Send a request and await the header of its response; `seconds` bounds one receive, `limit` the whole."""
        method, path = request[0], self._path(request[1])
        began = time.monotonic()
        try:
            with self._connections.exchange(limit) as exchange:
                answer = super().call_api(*request, _request_timeout=(min(CONNECT_TIMEOUT, seconds), seconds))
        except (urllib3.exceptions.HTTPError, OSError, ApiException) as error:
            waited = time.monotonic() - began
            self.on_answer(method, path, 0, False, waited)
            why = f"timed out after {limit:g}s" if waited >= limit else _find_cause(error)
            # TLS is the only cause of the client's own errors here.
            is_tls = isinstance(error, ApiException) or isinstance(
                getattr(error, "reason", error), urllib3.exceptions.SSLError
            )
            refusal = NotConnected if is_tls else Unreachable
            raise refusal(f"{method} {path}: no response from {self.host}: {why}") from error
        response: BaseHTTPResponse = answer.response
        # The server writes the date when it begins to answer: after a long transfer it does not show the clock.
        if (date := response.headers.get("Date")) and time.monotonic() - began < _SOON:
            self._dated = date, time.time()
        return response, exchange

    def _read(
        self, method: str, path: str, response: BaseHTTPResponse, exchange: Exchange, most: int | None = None
    ) -> bytes:
        """Read an answer to its end, count it, and raise an error if the server refuses."""
        data, why = b"", ""
        try:
            data = response.data if most is None else _read_most(response, most)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            why = _find_cause(error)
        finally:
            exchange.end()
            is_cut = most is not None and len(data) > most
            if is_cut:
                response.close()  # what is left of the body is of no use
            response.release_conn()
        if exchange.is_late:  # an answer without a length that was shut at the deadline seems complete
            why = "timed out"
        if why:
            self.on_answer(method, path, response.status, False, 0.0)
            raise Unreachable(f"{method} {path}: the response of {self.host} is incomplete: {why}")
        if 200 <= response.status < 300:
            self.on_answer(method, path, response.status, False, 0.0)
            if is_cut:
                raise AnswerTooLargeError(f"{method} {path}: the response of {self.host} has more than {most} bytes")
            return data
        refusal = _make_refusal(method, path, response.status, data, response.headers.get("Retry-After", ""))
        self.on_answer(method, path, response.status, refusal.is_meant, 0.0)
        try:
            raise refusal
        finally:
            del refusal  # otherwise this frame and the traceback refer to each other, and keep the answer in memory

    def interrupt(self) -> None:
        """End every request and stream that is under way; later ones fail."""
        self._connections.interrupt()

    def close(self) -> None:
        self._connections.close()
        super().close()  # type: ignore[no-untyped-call]


def _find_cause(error: BaseException) -> str:
    """Return the cause of an error without urllib3's chain of wrappers."""
    return _WRAPPER.sub("", str(getattr(error, "reason", None) or error))


def _read_most(response: BaseHTTPResponse, most: int) -> bytes:
    """Return a body; of a body larger than `most` bytes, one byte more than `most`.

    A body is decoded only if its header says that it is encoded. Otherwise urllib3 copies it to decode it, and reading
    the pages of a list takes 2.1 times as long.
    """
    is_encoded = "Content-Encoding" in response.headers
    chunks: list[bytes] = []
    left = most + 1
    while left and (chunk := response.read(left, decode_content=is_encoded)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _make_refusal(method: str, path: str, status: int, data: bytes, retry_after: str = "") -> RequestRefused:
    try:
        details = json.loads(data)
    except (ValueError, RecursionError):
        details = {}
    if not isinstance(details, dict):
        details = {}
    message = details.get("message") or data[:200].decode(errors="replace") or "no explanation"
    # By HTTP the header may have a date, too; Kubernetes sends seconds.
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
        # The client checks little of the file: a file of another form raises any of these.
        where = kubeconfig or "~/.kube/config"
        there = os.pathsep in where or Path(where).expanduser().exists()
        contexts = _list_contexts(kubeconfig) if there and context is not None else []
        if contexts and context not in contexts:
            near = get_close_matches(str(context), contexts, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ClusterError(f"{where} has no context {context}; it has {name_list(contexts)}{hint}") from error
        why = " ".join(str(error).split()).rstrip(".") if there else "no such file"
        raise ClusterError(f"no cluster configured: {where}: {why}; pass --kubeconfig and --context") from error
    configuration.retries = False
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = _CONNECTIONS
    if not configuration.verify_ssl:
        # urllib3 warns at every request; `Transport.warnings` says it once.
        warnings.filterwarnings("ignore", category=urllib3.exceptions.InsecureRequestWarning)
    return Transport(configuration, read_timeout=read_timeout)


def _list_contexts(kubeconfig: str | None) -> list[str]:
    """Return the contexts of a kubeconfig; empty if it cannot be read or has no current context."""
    try:
        contexts, _ = config.list_kube_config_contexts(config_file=kubeconfig)  # type: ignore[no-untyped-call]
        return [str(context["name"]) for context in contexts]
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError):
        return []


def _use_service_account(configuration: Configuration) -> bool:
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException:
        return False
    return True
