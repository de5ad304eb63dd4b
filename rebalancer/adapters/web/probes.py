"""The paths of probes and scrapes: /metrics, /healthz, /readyz.

Health is reported check by check, in the format of Kubernetes' own components. Metrics are rendered once for all
simultaneous scrapes, because one rendering can take a second.
"""

import gzip
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted

from rebalancer.adapters.web.routes import Request, Response, Route, text_response
from rebalancer.model.visible import visible_lines

Check = Callable[[], str]
"""Returns why the check fails, "" if it passes."""

Checks = Mapping[str, Check]
"""Checks by their names."""

MOST_SCRAPES: Final = 16
"""Most scrapes that wait for a rendering at once; half of all connections are left for probes."""


def run_checks(checks: Checks, path: str, *, verbose: bool) -> tuple[bool, str]:
    """Run all checks; return whether all pass, and the text, which lists the checks if one fails or if `verbose`."""
    failures = {name: _run_check(check) for name, check in checks.items()}
    passed = not any(failures.values())
    if passed and not verbose:
        return True, "ok\n"
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in failures.items()]
    last = f"{path} check {'passed' if passed else 'failed'}"
    return passed, f"{visible_lines([*lines, last])}\n"


def _run_check(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a check that raises has failed
        return f"{type(error).__name__}: {error}"


class TooManyScrapes(Exception):  # noqa: N818  # it names the state, as callers read it
    """The most scrapes that may wait are waiting already."""


class Rendered(NamedTuple):
    """The body of an answer, and its headers."""

    body: bytes
    headers: list[tuple[str, str]]


class Scrapes:
    """The texts of one registry.

    One rendering runs at a time. All requests for its form that arrive meanwhile get its result.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._rendering = threading.Lock()
        self._under_way: dict[tuple[str, bool], Future[Rendered]] = {}
        self._waiting = 0

    def render(self, accept: str, accept_encoding: str) -> Rendered:
        """Return the metrics in the form that the two request headers name; raise TooManyScrapes."""
        encoder, content_type = choose_encoder(accept)
        compressed = gzip_accepted(accept_encoding)
        form = content_type, compressed
        with self._lock:
            if self._waiting >= MOST_SCRAPES:
                raise TooManyScrapes
            self._waiting += 1
            future = self._under_way.get(form)
            mine = future is None
            if future is None:
                future = self._under_way[form] = Future()
        try:
            if mine:
                self._complete(future, form, encoder)
            return future.result()
        finally:
            with self._lock:
                self._waiting -= 1

    def _complete(
        self, future: "Future[Rendered]", form: tuple[str, bool], encoder: Callable[[CollectorRegistry], bytes]
    ) -> None:
        content_type, compressed = form
        headers = [("Content-Type", content_type)]
        try:
            with self._rendering:
                body = encoder(self._registry)
            if compressed:
                body = gzip.compress(body)
                headers.append(("Content-Encoding", "gzip"))
            future.set_result(Rendered(body, headers))
        except BaseException as error:  # noqa: BLE001  # all waiting callers get it
            future.set_exception(error)
        finally:
            with self._lock:
                del self._under_way[form]


def probe_routes(registry: CollectorRegistry, *, live: Checks, ready: Checks) -> Mapping[str, Route]:
    """Return the routes of a registry's metrics and of two sets of checks."""
    return {
        "/metrics": partial(_send_metrics, Scrapes(registry)),
        "/healthz": partial(_run_checks, "healthz", live),
        "/readyz": partial(_run_checks, "readyz", ready),
    }


def _send_metrics(scrapes: Scrapes, request: Request) -> Response:
    try:
        rendered = scrapes.render(request.accept, request.accept_encoding)
    except TooManyScrapes:
        return text_response(
            f"{MOST_SCRAPES} scrapes are waiting already; scrape less often\n", "503 Service Unavailable"
        )
    return Response(rendered.body, tuple(rendered.headers))


def _run_checks(name: str, checks: Checks, request: Request) -> Response:
    passed, text = run_checks(checks, name, verbose="verbose" in request.query)
    return text_response(text, "200 OK" if passed else "503 Service Unavailable")
