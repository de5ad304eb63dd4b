"""Topology spread constraints as a pod carries them."""

from enum import StrEnum

from msgspec import Struct

from rebalancer.model.labels import LabelSelector


class WhenUnsatisfiable(StrEnum):
    """What the scheduler does if the constraint does not hold."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class InclusionPolicy(StrEnum):
    """Whether node affinity or taints exclude nodes from the count."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class SpreadConstraint(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """One entry of `spec.topologySpreadConstraints`, with the API's defaults filled in if they matter.

    `selector` None is the null selector: it matches nothing. `min_domains` None acts as 1.
    """

    topology_key: str
    max_skew: int
    when_unsatisfiable: WhenUnsatisfiable
    selector: LabelSelector | None
    min_domains: int | None = None
    node_affinity_policy: InclusionPolicy = InclusionPolicy.HONOR
    node_taints_policy: InclusionPolicy = InclusionPolicy.IGNORE
    match_label_keys: tuple[str, ...] = ()
