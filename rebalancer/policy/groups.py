"""Groups of pods that belong together across workloads, and the limits on their placement.

A topology spread constraint bounds a difference; what people need is often a bound on a share ("no node holds a third
of this database"). Limits are such bounds, and they are evaluated independently of the pods' own constraints.
"""

import re
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.policy.amounts import LARGEST
from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.conditions import Condition, ConditionField
from rebalancer.policy.durations import DAY, Duration, at_most
from rebalancer.policy.names import NamespaceFilter
from rebalancer.policy.resilience import GroupResilience
from rebalancer.policy.selectors import KEY_PATTERN, VALUE_PATTERN, LabelKey, LabelValue, Selector
from rebalancer.policy.shares import Share, ShareField

WORKLOAD: Final = "Workload"
"""The value of `groupBy` that means the pods of one top owner, instead of a label key."""

_NAME: Final = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_BOUNDS: Final = ("max_share", "max_pods", "max_skew", "min_pods")
_BOUND_TYPES: Final = {"maxShare": "string", "maxPods": "integer", "maxSkew": "integer", "minPods": "integer"}


class Basis(StrEnum):
    """How the total of a limit is counted."""

    DESIRED = "desired"
    LIVE = "live"


class LimitAction(StrEnum):
    """The consequence of a violated limit."""

    ALERT = "Alert"
    EVICT = "Evict"


class Severity(StrEnum):
    """The severity of a violated limit, a label of metrics and alerts."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def _validate_name(value: object) -> str:
    if isinstance(value, str) and re.match(_NAME.removesuffix("$") + r"\Z", value):
        return value
    quoted = f'"{value}"' if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
    expected = "a name such as node-third: at most 63 letters, digits, -, _ and ., a letter or digit at both ends"
    raise unexpected(expected, suggestion=quoted)


def _validate_group_by(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys:
        raise unexpected(f"[{WORKLOAD}] or label keys such as [app.kubernetes.io/instance]")
    if len(keys) > 1 and WORKLOAD in keys:
        raise unexpected(f"[{WORKLOAD}] alone, or label keys")
    if len(set(keys)) < len(keys):
        raise unexpected("label keys that differ")
    return keys


def _validate_domains(values: tuple[str, ...]) -> tuple[str, ...]:
    if values and len(set(values)) == len(values):
        return values
    raise unexpected("at least one domain, such as [zone-a, zone-b], without duplicates")


Name = Annotated[str, PlainValidator(_validate_name), WithJsonSchema({"type": "string", "pattern": _NAME})]
"""A field for the name of a group or limit: a metric's label, and a word of the annotation `ignore-limits`."""

GroupBy = Annotated[
    tuple[LabelKey, ...],
    AfterValidator(_validate_group_by),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": KEY_PATTERN},
            "minItems": 1,
            "uniqueItems": True,
            "anyOf": [{"maxItems": 1}, {"not": {"contains": {"const": WORKLOAD}}}],
        }
    ),
]
"""A field for the keys by which pods are divided into groups."""

Domains = Annotated[
    tuple[LabelValue, ...],
    AfterValidator(_validate_domains),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": VALUE_PATTERN},
            "minItems": 1,
            "uniqueItems": True,
        }
    ),
]
"""A field for values of a topology key."""

Count = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
"""A field for a number of pods."""


class When(Section):
    """The conditions under which a limit applies; both must hold, null means any."""

    zones: ConditionField | None = None
    """The number of zones that the pods' nodeSelector or required affinity names, else of zones in the last hour."""
    total: ConditionField | None = None
    """How many pods the group has, as `of` counts them."""

    def holds(self, *, zones: int, total: int) -> bool:
        """Return whether the limit applies to a group of `total` pods in a cluster of `zones` zones."""
        return (self.zones is None or self.zones.holds(zones)) and (self.total is None or self.total.holds(total))


class Limit(Section):
    """A bound on how many of a group's pods one domain may or must hold."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [name], "properties": {name: {"type": kind}}} for name, kind in _BOUND_TYPES.items()]
        }
    )

    name: Name
    """Its name, unique in its group."""
    when: When = When()
    """The conditions under which it applies."""
    topology_key: LabelKey
    """The node label whose values are the domains."""
    max_share: ShareField | None = None
    """The largest share of the total that a domain may hold: "<1/3", "<=1/2", "<34%"."""
    max_pods: Count | None = None
    """The largest number of pods that a domain may hold."""
    max_skew: Count | None = None
    """The largest difference between two domains."""
    min_pods: Count | None = None
    """The smallest number of pods that each domain must hold."""
    selector: Selector | None = None
    """The pods of the group that the limit counts, such as those with one role; null: all."""
    group_by: GroupBy | None = None
    """Label keys (or Workload) that divide the group further, such as into shards; null: no division."""
    within: LabelKey | None = None
    """The key of larger domains; the limit is evaluated in each of them separately. null: in the whole cluster."""
    domains: Domains | None = None
    """The domains to which the limit applies; null: those that the pods' required affinity names, or all eligible."""
    of: Basis = Basis.DESIRED
    """How the total is counted: the owners' replicas (desired), or the existing pods (live)."""
    action: LimitAction = LimitAction.ALERT
    """Alert reports; Evict also repairs, in mode Evict."""
    severity: Severity = Severity.WARNING
    """The severity of a violation; a label of the metrics and alerts."""
    for_: Annotated[Duration, at_most(DAY)] = Field(default=timedelta(0), alias="for")
    """How long a violation must last before pods are evicted to repair it."""

    @model_validator(mode="after")
    def _bound_once(self) -> Self:
        if sum(getattr(self, name) is not None for name in _BOUNDS) != 1:
            raise unexpected('exactly one of maxShare, maxPods, maxSkew and minPods, for example maxShare: "<1/3"')
        if self.within == self.topology_key:
            raise unexpected("within to be a key of larger domains than topologyKey, such as a zone's for nodes")
        return self

    @cached_property
    def bound(self) -> str:
        """The bound as documents and messages show it: `maxShare <1/3`, `minPods 1`."""
        field = next(name for name in _BOUNDS if getattr(self, name) is not None)
        return f"{type(self).model_fields[field].alias} {getattr(self, field)}"


class Disruption(Section):
    """How many pods of a group may be unavailable or moving at once, whatever the cause."""

    max_in_flight: Count | None = None
    """Pods of the group that may be unready or moving at once; null: no limit of its own."""
    settle: Annotated[Duration, at_most(DAY)] = timedelta(0)
    """How long a pod of the group must have been Ready before the next pod may be evicted."""


class PolicyGroup(Section):
    """Pods that belong together, across workloads, and their limits."""

    name: Name
    """Its name, unique in the policy."""
    selector: Selector
    """A label selector over pods; {}: all."""
    namespaces: NamespaceFilter = NamespaceFilter()
    """Namespaces whose pods belong to it."""
    group_by: GroupBy = (WORKLOAD,)
    """[Workload]: the pods of one owner; label keys: one group for each combination of values, in each namespace."""
    zone_key: LabelKey = ZONE
    """The node label that `when.zones` counts."""
    disruption: Disruption = Disruption()
    """How many pods of the group may be unavailable or moving at once."""
    avoid: Selector | None = None
    """Pods that are evicted last, such as the primary of a database; null: none."""
    resilience: GroupResilience = GroupResilience()
    """What must be left of its workloads when a domain is lost."""
    limits: tuple[Limit, ...] = ()
    """The limits."""


def make_default_groups() -> tuple[PolicyGroup, ...]:
    """Return the groups of the default policy: more than half of a workload on one node or in one zone is reported."""
    half, some = Share.of("<=1/2"), Condition.of(">=4")
    limits = (
        Limit(name="node-half", when=When(total=some), topology_key=HOSTNAME, max_share=half),
        Limit(name="zone-half", when=When(zones=Condition.of(">=2"), total=some), topology_key=ZONE, max_share=half),
    )
    return (PolicyGroup(name="workloads", selector=Selector(), limits=limits),)
