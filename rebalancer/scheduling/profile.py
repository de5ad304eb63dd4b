"""A scheduler profile: the configurable part of the default scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

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
        "VolumeBinding": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
)
"""Weights of the score plugins that are on by default (1.23 and newer; VolumeBinding scores from 1.37 on)."""

Strategy: TypeAlias = tuple[tuple[str, int], ...]
"""Resources with their weights, as a score takes them into account."""

CPU_AND_MEMORY: Final[Strategy] = (("cpu", 1), ("memory", 1))


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One profile of a KubeSchedulerConfiguration, with the scheduler's defaults where nothing is set.

    `default_constraints` None means the system's own (`defaultingType: System`); an empty tuple switches defaults off.
    A score plugin that is not in `weights` is off; `filters_off` names the filter plugins that are off. `percentage` is
    `percentageOfNodesToScore`, 0 for the scheduler's own choice; `parallelism` is the number of its workers.
    `post_filters` are the plugins that are called for a pod that no node admits. `preemption_candidates` are
    `minCandidateNodesPercentage` and `minCandidateNodesAbsolute`. `unmodelled` names parts of the configuration that
    this package does not model (extenders, third-party plugins); with any, nothing is predicted.
    """

    name: str = "default-scheduler"
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    filters_off: frozenset[str] = frozenset()
    default_constraints: tuple[SpreadConstraint, ...] | None = None
    added_affinity: NodeAffinity = NO_NODE_AFFINITY
    hard_pod_affinity_weight: int = 1
    ignore_preferred_of_existing: bool = False
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    most_allocated: bool = False
    strategy: Strategy = CPU_AND_MEMORY
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    percentage: int = 0
    parallelism: int = 16
    post_filters: tuple[str, ...] = ("DefaultPreemption",)
    preemption_candidates: tuple[int, int] = (10, 100)
    unmodelled: tuple[str, ...] = ()


DEFAULT_PROFILE: Final = Profile()
