"""Requests and responses as the paths of the server see them, without HTTP's details."""

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Request(NamedTuple):
    """A GET request. `query` has the last value of each parameter, `host` is the name that the client used."""

    query: Mapping[str, str]
    host: str = ""
    accept: str = ""
    accept_encoding: str = ""


class Response(NamedTuple):
    """An answer. `headers` are those besides Content-Length and X-Content-Type-Options."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    status: str = "200 OK"


Route = Callable[[Request], Response]
"""Answers requests for one path; called by many threads."""


def text_response(text: str, status: str = "200 OK", *headers: tuple[str, str]) -> Response:
    """Answer with plain text."""
    return Response(text.encode(), (("Content-Type", "text/plain; charset=utf-8"), *headers), status)
