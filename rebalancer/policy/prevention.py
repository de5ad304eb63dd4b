"""How the skew that scale-downs leave is prevented."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from rebalancer.policy.amounts import LARGEST
from rebalancer.policy.base import Section, read_off
from rebalancer.policy.names import NamespaceFilter
from rebalancer.policy.selectors import Selector


class ScaleDownPrevention(StrEnum):
    """Off: nothing is read or written, except that Rebalancer's own costs are removed.

    Observe: report. Steer: write costs.
    """

    OFF = "Off"
    OBSERVE = "Observe"
    STEER = "Steer"


class Prevention(Section):
    """Keeps the pods' deletion costs in an order that leaves every smaller number of replicas spread."""

    scale_down: Annotated[ScaleDownPrevention, BeforeValidator(read_off)] = ScaleDownPrevention.OFF
    """Observe reports what scale-downs would leave; Steer also writes `controller.kubernetes.io/pod-deletion-cost`."""
    namespaces: NamespaceFilter = NamespaceFilter()
    """Namespaces whose workloads are steered."""
    selector: Selector | None = None
    """The pods that are steered; a workload is steered if all its pods match. null or {}: all pods."""
    per_minute: Annotated[int, Field(strict=True, ge=1, le=LARGEST)] = 600
    """How many pods are patched in a minute."""
