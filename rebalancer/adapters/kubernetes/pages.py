"""Lists in pages: the API server makes the next page while this one is decoded.

The head of a page gives the token of the next page. Decoding 500 pods takes about as long as the API server takes to
make a page, so a list takes hardly longer than the slower of the two. Meanwhile the received part of the next page
waits in the buffers of the connection. A thread that read it during the decoding would have to wait for the interpreter
after each 16 KiB, and both would be slower.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import Final, TypeVar

from rebalancer.adapters.kubernetes.transport import AnswerTooLargeError, Transport
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import ResourceKind
from rebalancer.decoding.lists import OpenedPage, Page, decode_items, open_page

T = TypeVar("T")

_LIMIT: Final = 500
_PAGE_BYTES: Final = 16 * 1024 * 1024
"""The size limit of a page. A larger page is requested again with fewer objects, each of up to 1.5 MiB."""
_FEWER: Final = 8


def read_pages(
    transport: Transport,
    kind: ResourceKind,
    path: str,
    *,
    query: Mapping[str, str] = MappingProxyType({}),
    timeout: float | None = None,
    intern: Interner | None = None,
) -> Iterator[Page]:
    """Yield the decoded pages of a list; `timeout` is for each page, None: the transport's own."""
    interner = intern if intern is not None else Interner()
    return request_pages(transport, path, lambda page: decode_items(kind, page, interner), query, timeout)


def request_pages(
    transport: Transport,
    path: str,
    read: Callable[[OpenedPage], T],
    query: Mapping[str, str] = MappingProxyType({}),
    timeout: float | None = None,
) -> Iterator[T]:
    """Yield the result of `read` for each page of a list."""

    def begin(token: str, limit: int) -> Callable[[], bytes]:
        part = {**query, "limit": str(limit), **({"continue": token} if token else {})}
        return transport.begin("GET", path, query=part, timeout=timeout, most=_PAGE_BYTES if limit > 1 else None)

    token, limit = "", _LIMIT
    body = begin(token, limit)
    while True:
        try:
            data = body()
        except AnswerTooLargeError:
            limit = max(1, limit // _FEWER)
            body = begin(token, limit)
            continue
        if len(data) * _FEWER < _PAGE_BYTES:  # the large objects are behind
            limit = min(_LIMIT, limit * 2)
        page = open_page(data)
        del data
        token = page.continue_token
        following = _start(partial(begin, token, limit)) if token else None
        made = read(page)
        if following is None:
            yield made
            return
        # Before the page is used, which may take longer than a request may.
        body = _finish(following)
        yield made


def _finish(begun: "Future[Callable[[], bytes]]") -> Callable[[], bytes]:
    """Read a body now; an error is raised when the body is used."""
    body: Future[bytes] = Future()
    try:
        body.set_result(begun.result()())
    except Exception as error:  # noqa: BLE001  # see above
        body.set_exception(error)
    return body.result


def _start(function: Callable[[], T]) -> "Future[T]":
    """Call a function in a daemon thread, which does not delay the end of the process, for example after Ctrl-C."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # raised where the result is used
            future.set_exception(error)

    Thread(target=call, name="next page", daemon=True).start()
    return future
