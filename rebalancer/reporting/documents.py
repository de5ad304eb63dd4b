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


class LimitName(Written, frozen=True, kw_only=True):
    """A limit of the policy."""

    group: Text
    limit: Text


class Totals(Written, frozen=True, kw_only=True):
    """`evictions` is what goes now and what waits; `lowerBound` is the proven minimum of all violated groups.

    `outOfReach` is the part of it that no eviction now leads to. `optimal`: all of it can be reached, with so many.
    """

    evictions: Number
    now: Number
    lower_bound: Number
    out_of_reach: Number
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
    """What was found out about groups and limits that are repaired together."""

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    constraints: tuple[ConstraintName, ...]
    limits: tuple[LimitName, ...]
    evictions: Number
    lower_bound: Number
    optimal: bool
    before: Mapping[str, Counts]
    after: Mapping[str, Counts]
    state: Text
    reason: str | None
    message: str


class RefusalEntry(Written, frozen=True, kw_only=True):
    """Something that is not moved; without `pod` the whole workload."""

    namespace: Text
    workload: WorkloadName
    pod: str | None
    reason: Text
    message: str


class PlanDocument(Written, frozen=True, kw_only=True):
    """A plan. `generatedAt` is the snapshot's time; it and `expiresAt` are null where the snapshot has none."""

    api_version: str = API_VERSION
    kind: str = "Plan"
    generated_at: datetime | None
    expires_at: datetime | None
    snapshot_hash: Text
    policy_hash: Text
    totals: Totals
    evictions: tuple[PlannedEviction, ...]
    waiting: tuple[WaitingEviction, ...]
    groups: tuple[PlannedGroup, ...]
    refusals: tuple[RefusalEntry, ...]


class ReportedConstraint(Written, frozen=True, kw_only=True):
    """One constraint of one group of workloads, counted as the scheduler counts it.

    `cause` is what led to a violation, null where there is none.
    """

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
    cause: str | None
    remedy: str


class LargestShare(Written, frozen=True, kw_only=True):
    """The domain that holds most, and which part of the total that is."""

    domain: str
    count: Number
    share: Annotated[float, Meta(ge=0)]


class ReportedLimit(Written, frozen=True, kw_only=True):
    """One limit of the policy on one set of pods.

    `key` is the workload, or labels and their values. `cap` is null for maxSkew and minPods. `counts` leaves
    out empty domains where there are more than a hundred. `headroom` is in pods, below 0 where the limit is broken.
    `message` says how it stands, `obstacle` why planning does not repair it, empty where it does or was not asked to.
    """

    group: Text
    limit: Text
    namespace: Text
    key: Mapping[str, str]
    topology_key: Text
    bound: Text
    total: Number
    cap: Number | None
    counts: Counts
    largest: LargestShare | None
    headroom: int
    state: Text
    reason: str | None
    message: str
    obstacle: str
    cause: str | None
    remedy: str
    guaranteed: bool
    severity: Text


class ReportedDeadlock(Written, frozen=True, kw_only=True):
    """A waiting pod whose own rules exclude each other, and which."""

    namespace: Text
    pod: Text
    message: Text


class ReportedFinding(Written, frozen=True, kw_only=True):
    """Something that is wrong without being violated, on which object, and the remedy."""

    kind: Text
    object: Text
    message: Text


class LostGroup(Written, frozen=True, kw_only=True):
    """What one set of pods loses: a group's, or those of it that `limit` selects.

    `holds`: of `total` desired pods a majority is `left`, Ready and elsewhere, and no more is lost than the limits on
    exactly these pods allow.
    """

    group: Text
    limit: str | None
    namespace: Text
    key: Mapping[str, str]
    lost: Number
    total: Number
    left: Number
    share: Annotated[float, Meta(ge=0, le=1)]
    holds: bool


class ReportedFailure(Written, frozen=True, kw_only=True):
    """The loss of one domain with its nodes; `groups` the worst first, `omitted` how many more lose pods.

    `unplaceable` pods find no node afterwards, null where that was too much to try. `unknown`: what would be made in
    their place, or where, is not known.
    """

    topology_key: Text
    domain: str
    groups: tuple[LostGroup, ...]
    omitted: Number
    unplaceable: Number | None
    unknown: Number


class ReportDocument(Written, frozen=True, kw_only=True):
    """A report. `generatedAt` is the snapshot's time, null where it has none."""

    api_version: str = API_VERSION
    kind: str = "Report"
    generated_at: datetime | None
    constraints: tuple[ReportedConstraint, ...]
    limits: tuple[ReportedLimit, ...]
    deadlocks: tuple[ReportedDeadlock, ...]
    findings: tuple[ReportedFinding, ...]
    failures: tuple[ReportedFailure, ...] | None
    """One for each domain that holds pods of the policy's groups; null where they were not asked for."""
    failure_domains: Number | None
    """How many domains of their keys there are, with such pods or without; null likewise."""


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
