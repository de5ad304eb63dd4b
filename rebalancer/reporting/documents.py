"""The documents as they are written: field names and order that scripts and dashboards rely on.

JSON Schemas are generated from these declarations (`config/*.schema.json`), so shape and description cannot drift.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

API_VERSION = "rebalancer.dev/v1alpha1"

Text = Annotated[str, Meta(min_length=1)]
Number = Annotated[int, Meta(ge=0)]
Counts = Mapping[str, Number]


class Written(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base: camelCase, fields in the order of their declaration."""


class WorkloadName(Written, frozen=True, kw_only=True):
    """A workload within the namespace that stands beside it."""

    kind: Text
    name: Text


class ConstraintName(Written, frozen=True, kw_only=True):
    """A constraint of a group."""

    topology_key: Text
    max_skew: Annotated[int, Meta(ge=1)]
    when_unsatisfiable: Text


class Totals(Written, frozen=True, kw_only=True):
    """`evictions` is what goes now and what waits; `lowerBound` is the proven minimum of all violated groups."""

    evictions: Number
    now: Number
    lower_bound: Number
    optimal: bool


class Predicted(Written, frozen=True, kw_only=True):
    """Where the replacement may land. `forced`: the scheduler has no other choice."""

    forced: bool
    domains: Mapping[str, tuple[str, ...]]


class PlannedEviction(Written, frozen=True, kw_only=True):
    """An eviction that may go now."""

    step: Annotated[int, Meta(ge=1)]
    namespace: Text
    pod: Text
    uid: str
    node: Text
    workload: WorkloadName
    reason: Text
    message: str
    predicted: Predicted


class WaitingEviction(Written, frozen=True, kw_only=True):
    """An eviction that is decided and waits; `for` is a reason."""

    namespace: Text
    pod: Text
    uid: str
    for_: Text = msgspec.field(name="for")
    message: str


class PlannedGroup(Written, frozen=True, kw_only=True):
    """What was found out about one violated group."""

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    constraints: tuple[ConstraintName, ...]
    evictions: Number
    lower_bound: Number
    optimal: bool
    before: Mapping[str, Counts]
    after: Mapping[str, Counts]
    state: Text
    reason: str | None
    message: str


class Refusal(Written, frozen=True, kw_only=True):
    """Something that is not moved; without `pod` the whole workload."""

    namespace: Text
    workload: WorkloadName
    pod: str | None
    reason: Text
    message: str


class PlanDocument(Written, frozen=True, kw_only=True):
    """A plan."""

    api_version: str = API_VERSION
    kind: str = "Plan"
    generated_at: datetime
    expires_at: datetime
    snapshot_hash: Text
    policy_hash: Text
    totals: Totals
    evictions: tuple[PlannedEviction, ...]
    waiting: tuple[WaitingEviction, ...]
    groups: tuple[PlannedGroup, ...]
    refusals: tuple[Refusal, ...]


class ReportedConstraint(Written, frozen=True, kw_only=True):
    """One constraint of one group of workloads, counted as the scheduler counts it."""

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    topology_key: Text
    max_skew: Annotated[int, Meta(ge=1)]
    min_domains: Annotated[int, Meta(ge=1)]
    when_unsatisfiable: Text
    origin: Text
    counts: Counts
    skew: Number
    state: Text
    reason: str | None
    message: str


class ReportDocument(Written, frozen=True, kw_only=True):
    """A report."""

    api_version: str = API_VERSION
    kind: str = "Report"
    generated_at: datetime
    constraints: tuple[ReportedConstraint, ...]


def to_json(document: Struct) -> bytes:
    """Write a document as JSON; the same document always gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"


def to_yaml(document: Struct) -> str:
    """Write a document as YAML."""
    plain = msgspec.json.decode(msgspec.json.encode(document))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)


def schema(document: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(document)}
