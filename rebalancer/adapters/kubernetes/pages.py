"""Lists in pages: the next page is requested as soon as the token for it has come, and made while this one is decoded.

The API server writes the token before the objects. Decoding a page of 500 pods takes about as long as the server takes
to make the next one, so that a list takes hardly longer than the slower of the two. What has come of that page waits in
the buffers of the connection: a thread that read it beside the decoding would have to wait for the interpreter after
each 16 KiB, and both would be slower. A process of its own may receive the pages of a long list.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import Final, TypeVar

from rebalancer.adapters.kubernetes.receiver import Request, receiving
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.adapters.processes import has_second_processor
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import ResourceKind
from rebalancer.decoding.lists import Page, decode_page
from rebalancer.decoding.page_text import read_head, without_managed_fields

T = TypeVar("T")

_LIMIT: Final = "500"
_LONG: Final = 10_000
"""Objects from which on a list is long: a process takes some hundredths of a second, and memory for three pages."""


def read_pages(
    transport: Transport,
    kind: ResourceKind,
    path: str,
    *,
    query: Mapping[str, str] = MappingProxyType({}),
    timeout: float | None = None,
    intern: Interner | None = None,
    apart: bool = False,
) -> Iterator[Page]:
    """Yield the pages of a list, each decoded; `timeout` is for each of them, None: the transport's own.

    `apart`: a long list may be received by a process of its own.
    """
    interner = intern if intern is not None else Interner()

    def read(data: bytes | memoryview) -> tuple[Page, str]:
        page = decode_page(kind, data, interner)
        return page, page.continue_token

    return request_pages(transport, path, read, query, timeout, apart=apart)


def request_pages(
    transport: Transport,
    path: str,
    read: Callable[[bytes | memoryview], tuple[T, str]],
    query: Mapping[str, str] = MappingProxyType({}),
    timeout: float | None = None,
    *,
    apart: bool = False,
) -> Iterator[T]:
    """Yield what `read` makes of each page of a list; it also returns the token of the next one, "" after the last.

    `apart`: see `read_pages`; `read` must keep no part of a page, then.
    """

    def begin(token: str, by: Transport = transport) -> Callable[[], bytes]:
        part = {**query, "limit": _LIMIT, **({"continue": token} if token else {})}
        return by.begin("GET", path, query=part, timeout=timeout)

    def connect() -> Request:
        return partial(begin, by=transport.renewed())

    data = begin("")()
    head = read_head(data)
    if apart and head.continue_ and (head.remaining_item_count or 0) >= _LONG and has_second_processor():
        with receiving(connect, _find_token, without_managed_fields, head.continue_) as received:
            made, token = read(data)
            yield made
            for body in received:
                made, token = read(body)
                yield made
        if not token:
            return
        data = begin(token)()
    while True:
        early = _find_token(data)
        following = _start(partial(begin, early)) if early else None
        made, token = read(data)
        # Before the page is used, which may take longer than a request may.
        rest = _finish(following) if following is not None else None
        yield made
        if not token:
            return
        data = rest.result() if rest is not None else begin(token)()


def _find_token(data: bytes) -> str:
    """Return the token of the next page, "" where there is none or it does not come before the objects."""
    return read_head(data).continue_


def _finish(begun: "Future[Callable[[], bytes]]") -> "Future[bytes]":
    """Read a body now; what goes wrong is raised where it is used."""
    body: Future[bytes] = Future()
    try:
        body.set_result(begun.result()())
    except Exception as error:  # noqa: BLE001  # see above
        body.set_exception(error)
    return body


def _start(function: Callable[[], T]) -> "Future[T]":
    """Call a function in a thread that nobody waits for at the end of the process, as after Ctrl-C."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # raised where the result is used
            future.set_exception(error)

    Thread(target=call, name="next page", daemon=True).start()
    return future
