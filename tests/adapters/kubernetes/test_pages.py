"""Lists in pages: the next one is requested before this one is decoded, and nothing is lost or out of order."""

import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rebalancer.adapters.kubernetes import pages as pages_module
from rebalancer.adapters.kubernetes.pages import read_pages, request_pages
from rebalancer.adapters.kubernetes.transport import RequestRefused, Unreachable
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.lists import OpenedPage
from tests.adapters.kubernetes.fake_server import answer, served

NAMESPACES = KIND_NAMED["Namespace"]
PATH = NAMESPACES.path


class Pages:
    """Five pages of one namespace each; `refused` is the token whose page is refused, `tail` puts metadata last.

    `padding` is how many bytes larger the first `large` pages are.
    """

    def __init__(self, *, refused: str = "", tail: bool = False, padding: int = 0, large: int = 5) -> None:
        self.tokens: list[str] = []
        self.limits: list[int] = []
        self.requested = threading.Condition()
        self._refused, self._tail, self._padding, self._large = refused, tail, padding, large

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(request.path).query)
        token = query.get("continue", ["0"])[0]
        self.limits.append(int(query["limit"][0]))
        with self.requested:
            self.tokens.append(token)
            self.requested.notify_all()
        if token == self._refused:
            answer(request, 410, {"message": "the token has expired"})
            return
        number = int(token)
        metadata: dict[str, Any] = {"resourceVersion": "7", "continue": str(number + 1) if number < 4 else ""}
        annotations = {"note": "x" * (self._padding if number < self._large else 0)}
        items = {"items": [{"metadata": {"name": f"team-{number}", "annotations": annotations}}]}
        body = {"kind": "NamespaceList", **items, "metadata": metadata}
        if not self._tail:
            body = {"kind": "NamespaceList", "metadata": metadata, **items}
        answer(request, 200, body)

    def wait_for(self, token: str) -> bool:
        """Wait until a page has been requested."""
        with self.requested:
            return self.requested.wait_for(lambda: token in self.tokens, timeout=5)


@pytest.mark.parametrize("tail", [False, True])
def test_every_page_comes_once_and_in_order(*, tail: bool) -> None:
    """Also from a server that writes the token after the objects."""
    pages = Pages(tail=tail)
    with served(pages) as transport:
        names = [item.name for page in read_pages(transport, NAMESPACES, PATH) for item in page.objects]
    assert names == [f"team-{number}" for number in range(5)]
    assert pages.tokens == ["0", "1", "2", "3", "4"]


def test_the_next_page_is_requested_before_this_one_is_decoded() -> None:
    """So that the server works on it meanwhile."""
    pages = Pages()
    ahead: list[bool] = []

    def read(page: OpenedPage) -> str:
        ahead.append(not page.continue_token or pages.wait_for(page.continue_token))
        return page.continue_token

    with served(pages) as transport:
        assert list(request_pages(transport, PATH, read)) == ["1", "2", "3", "4", ""]
    assert ahead == [True] * 5


def test_the_pages_before_one_that_is_refused_are_read() -> None:
    """The refusal comes where its page would have come."""
    with served(Pages(refused="2")) as transport:
        pages = read_pages(transport, NAMESPACES, PATH)
        assert [next(pages).objects[0].name for _ in range(2)] == ["team-0", "team-1"]
        with pytest.raises(RequestRefused, match="the token has expired"):
            next(pages)


def test_a_page_may_be_used_for_longer_than_a_request_may_take() -> None:
    """The next one has been read before: its time does not run while this one is used."""
    pages = Pages(padding=100_000)
    with served(pages) as transport:
        for page in read_pages(transport, NAMESPACES, PATH, timeout=0.5):
            assert page.objects
            time.sleep(0.6 if page.objects[0].name == "team-0" else 0)
    assert len(pages.tokens) == 5


def test_a_list_that_is_left_holds_nobody() -> None:
    """A page that nobody waits for any more comes in a thread that does not keep the process alive."""
    pages = Pages()
    with served(pages) as transport:
        reading = read_pages(transport, NAMESPACES, PATH)
        next(reading)
        assert pages.wait_for("1")
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "next page")


@pytest.mark.parametrize(("padding", "limits"), [(0, [500] * 5), (2 * 2**20, [500, 62, 7, 1, 1, 1, 1, 1])])
def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects(
    monkeypatch: pytest.MonkeyPatch, padding: int, limits: list[int]
) -> None:
    """Until one object is a page, which is read whatever it has: nothing is lost, and the others stay small, too."""
    monkeypatch.setattr(pages_module, "_PAGE_BYTES", 2**20)
    pages = Pages(padding=padding)
    with served(pages) as transport:
        names = [one.name for page in read_pages(transport, NAMESPACES, PATH) for one in page.objects]
    assert names == [f"team-{number}" for number in range(5)]
    assert pages.limits == limits


def test_after_large_pages_more_objects_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant's objects do not make the list of all others one of thousands of requests."""
    monkeypatch.setattr(pages_module, "_PAGE_BYTES", 2**20)
    pages = Pages(padding=2 * 2**20, large=1)
    with served(pages) as transport:
        assert sum(len(page.objects) for page in read_pages(transport, NAMESPACES, PATH)) == 5
    assert pages.limits == [500, 62, 7, 1, 1, 2, 4, 8]


def test_a_page_that_ends_early_is_no_page() -> None:
    """Although what has come of it may be read: its server has said that there is more."""

    def cut_off(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b'{"metadata":{"resourceVersion":"7"},"items":[]}')
        request.close_connection = True

    with served(cut_off) as transport, pytest.raises(Unreachable, match="incomplete"):
        list(read_pages(transport, NAMESPACES, PATH))
