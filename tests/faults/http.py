"""As much of HTTP/1.1 as the proxy needs: requests and answers of known length, and bodies in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

REASONS: Final = {
    200: "OK",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    410: "Gone",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class BrokenMessageError(Exception):
    """The other side ended in the middle of a message."""


@dataclass(frozen=True)
class Head:
    """The first line of a message and its headers, their names in lower case."""

    line: str
    headers: Mapping[str, str]

    @property
    def code(self) -> int:
        """The code of an answer."""
        return int(self.line.split(" ", 2)[1])

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None where the connection ended before it."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BrokenMessageError("the connection ended in a head") from error
        return None
    first, *lines = data.decode("latin-1").split("\r\n")[:-2]
    pairs = (line.partition(":") for line in lines)
    return Head(first, {name.strip().lower(): value.strip() for name, _, value in pairs})


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """Read a whole body."""
    if head.chunked:
        return b"".join([chunk async for chunk in read_chunks(reader)])
    try:
        return await reader.readexactly(int(head.headers.get("content-length", "0")))
    except asyncio.IncompleteReadError as error:
        raise BrokenMessageError("the connection ended in a body") from error


async def read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks of a body as they come."""
    try:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            chunk = (await reader.readexactly(size + 2))[:-2]
            if not size:
                return
            yield chunk
    except asyncio.IncompleteReadError as error:
        raise BrokenMessageError("the connection ended in a chunk") from error


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a body in chunks, with their ends."""
    rest = b""
    async for chunk in read_chunks(reader):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


def make_head(first: str, headers: Mapping[str, str]) -> bytes:
    """Return a head as it is sent."""
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def make_answer(code: int, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of an answer."""
    return make_head(f"HTTP/1.1 {code} {REASONS.get(code, 'Answer')}", {**headers, "Content-Length": str(length)})


def make_chunk(data: bytes) -> bytes:
    """Return a chunk as it is sent; an empty one ends the body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
