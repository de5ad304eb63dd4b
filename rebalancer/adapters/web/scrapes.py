"""Metrics as text: rendered once for all scrapes that come at the same time, since one rendering can take a second."""

import gzip
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted

MOST_SCRAPES: Final = 16
"""Scrapes that wait for a rendering at once; half of all connections stay for probes."""


class TooManyScrapes(Exception):  # noqa: N818  # it names the state, as callers read it
    """As many scrapes as may wait are waiting."""


class Rendered(NamedTuple):
    """The body of an answer, and its headers."""

    body: bytes
    headers: list[tuple[str, str]]


class Scrapes:
    """The texts of one registry.

    There is one rendering at a time, and one for all who want the same form of it: who comes while it is under way gets
    its result.
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
        except BaseException as error:  # noqa: BLE001  # whoever waits for it gets it
            future.set_exception(error)
        finally:
            with self._lock:
                del self._under_way[form]
