"""How skew by scale-downs is prevented."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from rebalancer.policy.amounts import LARGEST
from rebalancer.policy.base import Section, read_off
from rebalancer.policy.names import NamespaceFilter
from rebalancer.policy.selectors import Selector


class ScaleDownPrevention(StrEnum):
    """Off: nothing is read or written for it, but costs of its own are removed. Observe: report. Steer: write costs."""

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
    """Pods that are steered; a workload is, if it matches all of its pods; null or {}: all."""
    per_minute: Annotated[int, Field(strict=True, ge=1, le=LARGEST)] = 600
    """Patches of pods sent in a minute."""
