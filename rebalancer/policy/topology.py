"""Domains that exist although no node carries them now."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from rebalancer.model.nodes import HOSTNAME
from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.durations import MONTH, Duration, at_most
from rebalancer.policy.selectors import KEY_PATTERN, VALUE_PATTERN, LabelKey, LabelValue


def _refuse_hostname(domains: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    if HOSTNAME in domains:
        raise unexpected(f"keys whose domains have several nodes, not {HOSTNAME}")
    return domains


_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "propertyNames": {"pattern": KEY_PATTERN, "not": {"const": HOSTNAME}},
    "additionalProperties": {"type": "array", "items": {"type": "string", "pattern": VALUE_PATTERN}},
}

DomainsByKey = Annotated[
    dict[LabelKey, tuple[LabelValue, ...]], AfterValidator(_refuse_hostname), WithJsonSchema(dict(_SCHEMA))
]
"""A field for domains by their topology key."""


class Topology(Section):
    """Domains that exist although no node carries them now; kube-scheduler knows only the domains of existing nodes.

    Limits count these domains. Karpenter's NodePools are read where the API serves them. Domains that have lost their
    nodes are reported.
    """

    domains: DomainsByKey = Field(default_factory=dict)
    """Domains that exist, by topology key, for example topology.kubernetes.io/zone: [a, b, c]."""
    ignore: DomainsByKey = Field(default_factory=dict)
    """Domains that count as gone while no node carries them, by topology key, whatever NodePools say."""
    remember: Annotated[Duration, at_most(MONTH)] = timedelta(days=7)
    """For how long a domain without nodes is still reported; 0s: not at all."""
