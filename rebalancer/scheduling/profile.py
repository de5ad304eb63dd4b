"""A scheduler profile: what an administrator can change about the default scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.spread import SpreadConstraint

NO_NODE_AFFINITY: Final = NodeAffinity()

DEFAULT_WEIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
)
"""Weights of the score plugins that are on by default (1.23 and newer)."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One profile of a KubeSchedulerConfiguration, with the scheduler's defaults where nothing is set.

    `default_constraints` None means the system's own (`defaultingType: System`); an empty tuple switches defaults off.
    """

    name: str = "default-scheduler"
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    default_constraints: tuple[SpreadConstraint, ...] | None = None
    added_affinity: NodeAffinity = NO_NODE_AFFINITY
    hard_pod_affinity_weight: int = 1


DEFAULT_PROFILE: Final = Profile()
