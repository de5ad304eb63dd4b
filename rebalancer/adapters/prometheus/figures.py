"""What a cycle leaves behind for the metrics: plain rows in one immutable value.

The collector shows the value that it was last given, whole. So a scrape never sees half a cycle, and a workload that is
gone leaves no stale series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rebalancer.model.verdicts import Reason, State
from rebalancer.policy import Mode


@dataclass(frozen=True, kw_only=True)
class ConstraintFigures:
    """One constraint of one workload."""

    namespace: str
    workload_kind: str
    workload: str
    topology_key: str
    when_unsatisfiable: str
    skew: int
    max_skew: int
    state: State


@dataclass(frozen=True, kw_only=True)
class CycleFigures:
    """The last cycle and the process around it.

    What follows from a cycle is shown only while `leader` is true. Times are None where there is none yet.
    """

    leader: bool = False
    mode: Mode = Mode.OBSERVE
    policy_valid: bool = True
    policy_read_at: datetime | None = None
    cycle_ended_at: datetime | None = None
    constraints: tuple[ConstraintFigures, ...] = ()
    planned_evictions: int = 0
    minimum_evictions: int = 0
    in_flight: int = 0
    refusals: Mapping[Reason, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WatchFigures:
    """One watch, as it is at the moment of the scrape. `age` is in seconds."""

    kind: str
    age: float
    objects: int
