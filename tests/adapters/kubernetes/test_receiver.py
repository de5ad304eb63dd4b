"""Long lists are received by a second process: every page once, errors where they always are, and nothing left over."""

import os
import resource
import signal
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from rebalancer.adapters.kubernetes import receiver
from rebalancer.adapters.kubernetes.pages import read_pages, request_pages
from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport
from rebalancer.adapters.processes import has_second_processor
from rebalancer.decoding import wire
from rebalancer.decoding.kinds import KIND_NAMED
from tests.adapters.kubernetes.fake_server import answer, served

pytestmark = pytest.mark.skipif(not has_second_processor(), reason="needs Linux and two processors")

NAMESPACES = KIND_NAMED["Namespace"]
PATH = NAMESPACES.path
PAGES = 9


class LongList:
    """Nine pages of one namespace each, of a list that says it has 12,000; `refused` is the token that is refused."""

    def __init__(self, *, refused: str = "", remaining: int = 12_000) -> None:
        self.clients: list[tuple[str, int]] = []
        """The token and the client's port of each request."""
        self.refused = refused
        self._remaining = remaining

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        number = int(parse_qs(urlsplit(request.path).query).get("continue", ["0"])[0])
        self.clients.append((str(number), request.client_address[1]))
        if str(number) == self.refused:
            answer(request, 410, {"message": "the token has expired"})
            return
        metadata: dict[str, object] = {"resourceVersion": "7"}
        if number < PAGES - 1:
            metadata |= {"continue": str(number + 1), "remainingItemCount": self._remaining}
        items = [{"metadata": {"name": f"team-{number}", "annotations": {"note": "x" * 100_000}}}]
        answer(request, 200, {"kind": "NamespaceList", "metadata": metadata, "items": items})


def read_names(transport: Transport) -> list[str]:
    return [item.name for page in read_pages(transport, NAMESPACES, PATH, apart=True) for item in page.objects]


def read_names_and_send(transport: Transport, number: signal.Signals) -> list[str]:
    """Read the list, and send the other process a signal after the third page."""
    names: list[str] = []
    for page in read_pages(transport, NAMESPACES, PATH, apart=True):
        names += [item.name for item in page.objects]
        if len(names) == 3:
            for child in list_children():
                os.kill(child, number)
    return names


def list_children() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(child) for child in children.split()]


ALL = [f"team-{number}" for number in range(PAGES)]


def count_open() -> tuple[int, int]:
    """Count the open pipes of this process, and its children; the server's sockets are closed when it notices."""
    targets = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself, open while it is listed
            targets.append(file.readlink().name)
    return sum(target.startswith("pipe:") for target in targets), len(list_children())


def test_every_page_comes_once_and_in_order_over_two_connections() -> None:
    pages = LongList()
    with served(pages) as transport:
        assert read_names(transport) == ALL
        before = count_open()
        assert read_names(transport) == ALL
        assert count_open() == before
    first, again = pages.clients[:PAGES], pages.clients[PAGES:]
    for requests in (first, again):
        assert [token for token, _ in requests] == [str(number) for number in range(PAGES)]
        assert len({port for _, port in requests[1:]}) == 1
        assert requests[0][1] != requests[1][1]
    assert first[0][1] == again[0][1], "the connection of this process is its own, and lasts"


def test_a_short_list_is_received_by_this_process() -> None:
    pages = LongList(remaining=9_999)
    with served(pages) as transport:
        assert read_names(transport) == ALL
    assert len({port for _, port in pages.clients}) <= 2


@pytest.mark.parametrize("refused", ["1", "5", "8"])
def test_a_page_that_is_refused_raises_what_it_always_does(refused: str) -> None:
    pages = LongList(refused=refused)
    read: list[str] = []
    with served(pages) as transport:
        before = count_open()
        names = (page.objects[0].name for page in read_pages(transport, NAMESPACES, PATH, apart=True))
        with pytest.raises(RequestRefused, match="expired") as caught:
            read.extend(names)
        assert caught.value.status == 410
        assert count_open()[1] == before[1]
    assert read == ALL[: int(refused)]


def test_the_list_goes_on_where_the_other_process_was_killed() -> None:
    with served(LongList()) as transport:
        assert read_names_and_send(transport, signal.SIGKILL) == ALL


def test_the_list_goes_on_where_the_other_process_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "_SILENT_SECONDS", 0.5)
    with served(LongList()) as transport:
        assert read_names_and_send(transport, signal.SIGSTOP) == ALL


def test_the_list_goes_on_where_the_other_process_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, say: it is no error of whoever reads what the command prints."""

    def end(*_: object) -> None:
        os._exit(1)

    monkeypatch.setattr(receiver, "_serve", end)
    with served(LongList()) as transport:
        for _ in range(30):
            assert read_names(transport) == ALL


def test_a_program_that_ignores_the_end_of_its_children_reads_lists_too() -> None:
    """Whoever ignores SIGCHLD hands that on to the programs that it starts."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with served(LongList()) as transport:
            assert read_names(transport) == ALL
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_without_another_process_this_one_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with served(LongList()) as transport:
        before = count_open()
        assert read_names(transport) == ALL
        assert count_open()[1] == before[1]


def test_a_page_larger_than_the_shared_memory_comes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "_SLOT_LENGTH", resource.getpagesize())
    with served(LongList()) as transport:
        assert read_names(transport) == ALL


def test_a_list_that_is_left_leaves_no_process() -> None:
    with served(LongList()) as transport:
        before = count_open()
        pages = read_pages(transport, NAMESPACES, PATH, apart=True)
        next(pages)
        next(pages)
        assert count_open()[1] == before[1] + 1
        pages.close()  # type: ignore[attr-defined]
        assert count_open()[1] == before[1]


def test_whoever_holds_a_part_of_a_page_is_noticed() -> None:
    """The memory is written again; a reader that holds a part of it would see another page there."""
    held: list[msgspec.Raw] = []

    def read(data: bytes | memoryview) -> tuple[int, str]:
        held.extend(msgspec.json.decode(data, type=wire.ListOf[msgspec.Raw]).items)
        return len(held), str(len(held)) if len(held) < PAGES else ""

    with served(LongList()) as transport, pytest.raises(BufferError):
        list(request_pages(transport, PATH, read, apart=True))


def test_other_threads_do_not_hinder_it() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with served(LongList()) as transport:
            assert read_names(transport) == ALL
    finally:
        end.set()
        thread.join()
