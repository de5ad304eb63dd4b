"""Whether capacity is requested from the cluster's autoscaler before evictions that need it."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, StringConstraints

from rebalancer.policy.base import Section, read_off
from rebalancer.policy.durations import DAY, Duration, PositiveDuration, at_most
from rebalancer.policy.names import PlainText

_NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

NamespaceName = Annotated[str, StringConstraints(strict=True, pattern=_NAMESPACE)]
"""A field for the name of one namespace."""


class CapacityMode(StrEnum):
    """Observe reports what it would request, Request requests it."""

    OFF = "Off"
    OBSERVE = "Observe"
    REQUEST = "Request"


class Capacity(Section):
    """Capacity for repairs that lack nothing else, requested before any eviction by Jobs whose pods do nothing.

    An autoscaler creates nodes for these placeholder pods. They are deleted step by step as evicted pods need their
    places.
    """

    mode: Annotated[CapacityMode, BeforeValidator(read_off)] = CapacityMode.OFF
    """Observe reports what it would request; Request requests it while the mode is Evict."""
    max_pods: Annotated[int, Field(strict=True, ge=1, le=100)] = 20
    """Placeholder pods that may exist at once; a repair that needs more is not begun."""
    timeout: Annotated[PositiveDuration, at_most(timedelta(hours=6))] = timedelta(minutes=10)
    """How long placeholders may wait for a node.

    After a timeout, no capacity is requested in that domain for as long.
    """
    settle: Annotated[Duration, at_most(DAY)] = timedelta(seconds=30)
    """How long placeholders must have run before their capacity is used."""
    image: PlainText = "registry.k8s.io/pause:3.10.1"
    """The image of the placeholder pods: a program that waits."""
    namespace: NamespaceName = "rebalancer-capacity"
    """The namespace of the placeholders, which contains nothing else."""
