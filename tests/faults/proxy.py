"""A proxy of HTTP/1.1 between one controller and the API server, that makes the faults of a schedule.

Towards the controller it speaks plain HTTP on the loopback interface, towards the server TLS; the controller's token
passes through. It records every request, and gives it an Audit-ID that leads to the same request in the audit log.

Faults happen between `begin` and `heal`. Healing ends what the faults have left behind, as time would: connections that
hang are closed, and a client that got damaged events has to list again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tests.faults.answers import EXPIRED, refuse
from tests.faults.choosing import Chooser
from tests.faults.events import EventStream
from tests.faults.history import Exchange
from tests.faults.http import (
    BrokenMessageError,
    Head,
    make_answer,
    make_chunk,
    make_head,
    read_body,
    read_head,
    read_lines,
)
from tests.faults.requests import Target, parse_target
from tests.faults.schedule import DAMAGING, EVENT_FAULTS, STATUS_CODES, Fault, Rule

T = TypeVar("T")
_ADDRESSES: Final = itertools.count(1)
_DROPS: Final = 20
_STORED_ANSWERS: Final = 4
_PASSED_HEADERS: Final = ("content-type", "retry-after", "warning")
_ERRORS: Final = (OSError, BrokenMessageError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


class Loop:
    """One thread with an event loop, for any number of proxies."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(eq=False)
class _Watch:
    """A watch that is open: lines from the server, and orders of the proxy."""

    target: Target
    selector: str
    inbox: asyncio.Queue[bytes | Fault | None] = field(default_factory=asyncio.Queue)
    events: EventStream | None = None
    slow: bool = False
    cut: bool = False


class Proxy:
    """One controller's way to the API server. Its methods may be called from any thread but the loop's."""

    def __init__(
        self,
        loop: Loop,
        chooser: Chooser,
        *,
        server: str,
        context: ssl.SSLContext | None,
        seed: int = 0,
        on_write: Callable[[Exchange], bool] | None = None,
        drip_seconds: float = 0.25,
    ) -> None:
        """Connect nowhere yet.

        A slow answer comes in 20 drops, `drip_seconds` apart. `on_write` is called when the server has answered a
        write, before the client knows; if it returns True, the client is no more.
        """
        address = urlsplit(server)
        self._loop = loop
        self._chooser = chooser
        self._host, self._port = address.hostname or "", address.port or 443
        self._context = context
        self._dice = random.Random(f"events {seed}")
        self._on_write = on_write
        self._drip_seconds = drip_seconds
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: set[_Watch] = set()
        self._answers: dict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=_STORED_ANSWERS))
        self._faulty = False
        self._healed = asyncio.Event()
        self._must_list: set[tuple[str, str]] = set()
        self._name = f"faults-{next(_ADDRESSES)}"
        self._numbers = itertools.count(1)
        self.process = ""
        """Which process sends the requests now; for the record."""
        self.exchanges: list[Exchange] = []
        """The requests so far, in the order of their beginnings."""
        self.port = 0

    def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        self._loop.run(self._start())

    def begin(self) -> None:
        """Begin to make faults."""
        self._loop.run(self._begin())

    def heal(self) -> None:
        """Pass everything from now on."""
        self._loop.run(self._heal())

    def stop(self) -> None:
        """Close everything."""
        self._loop.run(self._stop())

    @property
    def url(self) -> str:
        """The address for the controller."""
        return f"http://127.0.0.1:{self.port}"

    async def _start(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**20)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _begin(self) -> None:
        self._faulty = True
        for watch in list(self._watches):
            how = self._chooser.interrupts(watch.target)
            if how is not None:
                watch.inbox.put_nowait(how)
            else:
                self._apply(watch, self._chooser.choose(watch.target))

    async def _heal(self) -> None:
        self._faulty = False
        self._healed.set()
        for watch in list(self._watches):
            self._note_damage(watch)
            if (watch.target.resource, watch.selector) in self._must_list:
                watch.inbox.put_nowait(Fault.GONE)
            elif watch.events is not None and watch.events.fault is Fault.SILENT:
                watch.inbox.put_nowait(Fault.RESET)
                continue  # silent to its end: what waits in the inbox came after events that the client never got
            watch.events, watch.slow, watch.cut = None, False, False

    async def _stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = _Connection(self._host, self._port, self._context)
        try:
            while await self._serve(reader, writer, connection):
                pass
        except _ERRORS:
            pass
        except asyncio.CancelledError:
            # Only `_stop` cancels, and it is the end of this connection.
            pass
        finally:
            self._tasks.discard(task)
            connection.close()
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> bool:
        """Answer a request; return whether the connection lives on."""
        head = await read_head(reader)
        if head is None:
            return False
        body = await read_body(reader, head)
        method, address, _ = head.line.split(" ")
        target = parse_target(method, address)
        rule = self._chooser.choose(target) if self._faulty else None
        exchange = self._record(target, body, rule)
        if rule is not None and rule.fault in {Fault.TIMEOUT, Fault.RESET}:
            if rule.fault is Fault.TIMEOUT:
                await self._hold(reader)
            _reset(writer)
            return False
        if rule is not None and rule.fault in STATUS_CODES:
            code, headers, text = refuse(rule.fault, target)
            return await _answer(writer, exchange, code, headers, text)
        if target.verb == "watch":
            await self._serve_watch(reader, writer, head, target, rule, exchange)
            return False
        answer = await connection.request(self._forwarded(head, exchange), body, retry=not target.writes)
        exchange.forwarded = True
        answer_head, text = answer
        exchange.code, exchange.answered = answer_head.code, time.time()
        if target.writes and self._on_write is not None and self._on_write(exchange):
            return False
        if target.verb == "list":
            self._must_list.discard((target.resource, _selector(address)))
        return await self._deliver(reader, writer, exchange, answer_head, self._aged(address, target, rule, text))

    def _aged(self, address: str, target: Target, rule: Rule | None, text: bytes) -> bytes:
        """Store what was read, and return an older answer in its place where a rule says so."""
        if target.verb not in {"get", "list"}:
            return text
        stored = self._answers[address]
        stored.append(text)
        return stored[0] if rule is not None and rule.fault is Fault.OLD else text

    async def _deliver(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange, head: Head, text: bytes
    ) -> bool:
        headers = {name: head.headers[name] for name in _PASSED_HEADERS if name in head.headers}
        match exchange.fault:
            case Fault.LOST:
                _reset(writer)
                return False
            case Fault.UNANSWERED:
                await self._hold(reader)
                _reset(writer)
                return False
            case Fault.TRUNCATED:
                return await _answer(writer, exchange, head.code, headers, text[: len(text) // 2])
            case Fault.CUT:
                writer.write(make_answer(head.code, headers, len(text)) + text[: len(text) // 2])
                await writer.drain()
                return False
            case Fault.SLOW:
                writer.write(make_answer(head.code, headers, len(text)))
                await self._drip(writer, text)
                return True
            case _:
                return await _answer(writer, exchange, head.code, headers, text)

    async def _serve_watch(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        head: Head,
        target: Target,
        rule: Rule | None,
        exchange: Exchange,
    ) -> None:
        selector = _selector(head.line.split(" ")[1])
        connection = _Connection(self._host, self._port, self._context)
        watch = _Watch(target, selector)
        self._apply(watch, rule)
        try:
            upstream = await connection.open(self._forwarded(head, exchange))
            answer = await read_head(upstream)
            if answer is None:
                return
            exchange.forwarded, exchange.code, exchange.answered = True, answer.code, time.time()
            headers = {name: answer.headers[name] for name in _PASSED_HEADERS if name in answer.headers}
            if not answer.chunked:
                await _answer(writer, exchange, answer.code, headers, await read_body(upstream, answer))
                return
            headers |= {"Transfer-Encoding": "chunked", "Connection": "close"}
            writer.write(make_head(f"HTTP/1.1 {answer.code} OK", headers))
            await writer.drain()
            self._watches.add(watch)
            if not self._faulty and (target.resource, selector) in self._must_list:
                watch.inbox.put_nowait(Fault.GONE)
            await self._relay(reader, upstream, writer, watch)
        finally:
            self._note_damage(watch)
            self._watches.discard(watch)
            connection.close()

    def _apply(self, watch: _Watch, rule: Rule | None) -> None:
        if rule is None:
            return
        if rule.fault in EVENT_FAULTS or rule.fault in DAMAGING:
            watch.events = EventStream(rule.fault, rule.probability, self._dice)
        watch.slow, watch.cut = rule.fault is Fault.SLOW, rule.fault is Fault.CUT

    def _note_damage(self, watch: _Watch) -> None:
        if watch.events is not None and watch.events.damaged:
            self._must_list.add((watch.target.resource, watch.selector))

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        upstream: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watch: _Watch,
    ) -> None:
        """Pass the events on until one side, or the proxy, ends the watch."""

        async def receive() -> None:
            with contextlib.suppress(*_ERRORS):
                async for line in read_lines(upstream):
                    watch.inbox.put_nowait(line)
            watch.inbox.put_nowait(None)

        async def await_end() -> None:
            with contextlib.suppress(*_ERRORS):
                await reader.read(1)
            watch.inbox.put_nowait(Fault.RESET)

        helpers = [asyncio.create_task(receive()), asyncio.create_task(await_end())]
        try:
            while True:
                item = await watch.inbox.get()
                if item is None:
                    writer.write(make_chunk(b""))
                    await writer.drain()
                    return
                if isinstance(item, Fault):
                    if item is Fault.GONE:
                        writer.write(make_chunk(EXPIRED) + make_chunk(b""))
                        await writer.drain()
                    else:
                        _reset(writer)
                    return
                await self._send_event(writer, watch, item)
                if watch.cut:
                    return
        finally:
            for helper in helpers:
                helper.cancel()

    async def _send_event(self, writer: asyncio.StreamWriter, watch: _Watch, line: bytes) -> None:
        if watch.cut:
            writer.write(make_chunk(line[: len(line) // 2]))
        elif watch.slow:
            writer.write(f"{len(line):x}\r\n".encode())
            await self._drip(writer, line)
            writer.write(b"\r\n")
        else:
            for passed in watch.events.pass_on(line) if watch.events is not None else [line]:
                writer.write(make_chunk(passed))
        await writer.drain()

    async def _drip(self, writer: asyncio.StreamWriter, text: bytes) -> None:
        size = len(text) // _DROPS + 1
        for start in range(0, len(text), size):
            writer.write(text[start : start + size])
            await writer.drain()
            if not self._healed.is_set():
                await asyncio.sleep(self._drip_seconds)

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        """Do nothing until the faults end, or the client has lost patience."""
        waits = [asyncio.create_task(self._healed.wait()), asyncio.create_task(reader.read(1))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _forwarded(self, head: Head, exchange: Exchange) -> bytes:
        dropped = {"host", "connection", "accept-encoding", "keep-alive"}
        headers = {name: value for name, value in head.headers.items() if name not in dropped}
        return make_head(head.line, {**headers, "host": f"{self._host}:{self._port}", "audit-id": exchange.id})

    def _record(self, target: Target, body: bytes, rule: Rule | None) -> Exchange:
        document = _parse(body) if target.resource in {"pods/eviction", "leases"} else {}
        exchange = Exchange(
            id=f"{self._name}-{next(self._numbers)}",
            process=self.process,
            target=target,
            begun=time.time(),
            fault=rule.fault if rule is not None else None,
            uid=((document.get("deleteOptions") or {}).get("preconditions") or {}).get("uid", ""),
            holder=(document.get("spec") or {}).get("holderIdentity") or "",
        )
        self.exchanges.append(exchange)
        return exchange


class _Connection:
    """A connection to the server, opened when it is needed and used again for the next request."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._host, self._port, self._context = host, port, context
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self, head: bytes, body: bytes = b"") -> asyncio.StreamReader:
        """Send a request and return where the answer comes."""
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._context, limit=2**20)
        reader, writer = self._streams
        writer.write(head + body)
        await writer.drain()
        return reader

    async def request(self, head: bytes, body: bytes, *, retry: bool) -> tuple[Head, bytes]:
        """Send a request and return the whole answer."""
        reader = await self.open(head, body)
        answer = await read_head(reader)
        if answer is None:
            self.close()
            if not retry:
                raise BrokenMessageError("the server closed the connection")
            return await self.request(head, body, retry=False)
        return answer, await read_body(reader, answer)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(
    writer: asyncio.StreamWriter, exchange: Exchange, code: int, headers: dict[str, str], text: bytes
) -> bool:
    # Before it is sent: whoever has the answer may read the record.
    exchange.delivered = code
    writer.write(make_answer(code, headers, len(text)) + text)
    await writer.drain()
    return True


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST instead of FIN."""
    underlying = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        underlying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _selector(address: str) -> str:
    """Return what tells two watches of the same resource apart: namespace and field selector."""
    parts = urlsplit(address)
    fields = [pair for pair in parts.query.split("&") if pair.startswith("fieldSelector=")]
    return "&".join([parts.path, *fields])


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
