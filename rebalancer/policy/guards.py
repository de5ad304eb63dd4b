"""Guards: queries that a Prometheus must answer as expected before anything is evicted.

Kubernetes objects do not show whether an application suffers. Its operators know a query that does.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.durations import Duration, PositiveDuration, at_most
from rebalancer.policy.groups import Name
from rebalancer.policy.names import PlainText

MOST_QUERIES: Final = 20
"""The most guards in a policy; each is queried several times for each step."""

LONGEST_QUERY: Final = 4000
"""The most characters of a query: it becomes part of an address, and servers limit the length of addresses."""

_URL: Final = r"^https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?$"
_API: Final = r"/api/v1(?:/query)?/?$"
_QUERY: Final = r"^\s*\S[\s\S]*$"


def _validate_url(value: object) -> str:
    expected = "the address of a Prometheus such as https://prometheus.monitoring:9090, without a query or a password"
    if not isinstance(value, str):
        raise unexpected(expected)
    if _is_url(value):
        return value
    bare = re.sub(_API, "", value)
    raise unexpected(expected, suggestion=next(filter(_is_url, (bare, f"http://{bare}")), None))


def _is_url(text: str) -> bool:
    if not re.match(_URL.removesuffix("$") + r"\Z", text) or re.search(_API, text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:  # the port is too large, or the address between brackets is none
        return False


def _validate_query(value: object) -> str:
    if isinstance(value, str) and value.strip() and len(value) <= LONGEST_QUERY:
        return value
    raise unexpected(f"a query in PromQL, at most {LONGEST_QUERY:,} characters")


Url = Annotated[
    str,
    PlainValidator(_validate_url),
    WithJsonSchema({"type": "string", "pattern": _URL, "not": {"pattern": _API}}),
]
"""A field for the address of a Prometheus, before `/api/v1/query`."""

Query = Annotated[
    str,
    PlainValidator(_validate_query),
    WithJsonSchema({"type": "string", "pattern": _QUERY, "maxLength": LONGEST_QUERY}),
]
"""A field for an expression in PromQL; only Prometheus can check its syntax."""


class Prometheus(Section):
    """Where the guards' queries are sent: a Prometheus, or a server with the same HTTP API (Thanos, Mimir)."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"tokenFile": {"type": "null"}, "caFile": {"type": "null"}}},
                {"required": ["url"], "properties": {"url": {"type": "string", "pattern": "^https://"}}},
            ]
        }
    )

    url: Url | None = None
    """The address of the server, before /api/v1/query. May be null only while there are no queries."""
    token_file: PlainText | None = None
    """A file with a bearer token, read for each request; null: no token. Only with https."""
    ca_file: PlainText | None = None
    """A file with the certificates that sign the server's certificate; null: the system's certificates.

    Only with https.
    """
    timeout: Annotated[PositiveDuration, at_most(timedelta(seconds=30))] = timedelta(seconds=5)
    """How long the answer to one query may take, at most 30s."""

    @model_validator(mode="after")
    def _needs_tls(self) -> Self:
        if not (self.url or "").startswith("https://"):
            if self.token_file is not None:
                raise unexpected("a url that begins with https:// beside tokenFile: http would send the token in clear")
            if self.ca_file is not None:
                raise unexpected("a url that begins with https:// beside caFile")
        return self


class Expect(StrEnum):
    """What the answer to a query must be."""

    EMPTY = "Empty"
    """The result has no series, as for the expression of an alert that does not fire."""
    NOT_EMPTY = "NotEmpty"


class Guard(Section):
    """A query, and what it must return before anything is evicted."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["expect"], "properties": {"expect": {"const": Expect.NOT_EMPTY.value}}},
            "then": {"properties": {"present": {"type": "null"}}},
            "else": {"required": ["present"], "properties": {"present": {"type": "string"}}},
        }
    )

    name: Name
    """Its name, in messages and metrics."""
    query: Query
    """An expression in PromQL whose result is a vector."""
    expect: Expect = Expect.EMPTY
    """Empty: the query must return nothing; NotEmpty: something."""
    present: Query | None = None
    """With Empty, a second query whose result must not be empty: if an exporter vanishes, both results are empty."""
    for_: Annotated[Duration, at_most(timedelta(hours=1))] = Field(default=timedelta(seconds=30), alias="for")
    """How long the answers must have been good before each step, counted from the end of the last step; at most 1h."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.expect is Expect.EMPTY and self.present is None:
            raise unexpected(
                "`present` beside expect: Empty, a query that returns something while the data is there, such as "
                "'up{job=\"web\"} == 1'"
            )
        if self.expect is Expect.NOT_EMPTY and self.present is not None:
            raise unexpected("no `present` beside expect: NotEmpty, whose query must return something itself")
        return self


def _validate_queries(queries: tuple[Guard, ...]) -> tuple[Guard, ...]:
    if len(queries) > MOST_QUERIES:
        raise unexpected(f"at most {MOST_QUERIES} queries, not {len(queries)}")
    names = [guard.name for guard in queries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise unexpected(f"names that differ, not {twice} twice")
    return queries


class Guards(Section):
    """Queries that a Prometheus must answer well, for some time, before each step of a repair."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"queries": {"maxItems": 0}}},
                {
                    "required": ["prometheus"],
                    "properties": {"prometheus": {"required": ["url"], "properties": {"url": {"type": "string"}}}},
                },
            ]
        }
    )

    prometheus: Prometheus = Prometheus()
    """Where they are asked."""
    queries: Annotated[tuple[Guard, ...], AfterValidator(_validate_queries)] = Field(
        default=(), json_schema_extra={"maxItems": MOST_QUERIES}
    )
    """The queries; []: none. While any query has no good answer, nothing is evicted."""

    @model_validator(mode="after")
    def _has_address(self) -> Self:
        if self.queries and self.prometheus.url is None:
            raise unexpected("prometheus.url, where the queries are asked, such as https://prometheus.monitoring:9090")
        return self
