"""Declares every counter and histogram once. The client library's instruments count."""

from enum import StrEnum
from typing import Final

from rebalancer.adapters.prometheus import Counter, Histogram
from rebalancer.capacity.requests import Result
from rebalancer.model.moves import Move, MoveState
from rebalancer.model.reasons import Cause
from rebalancer.ports import EvictionResult, PatchResult
from rebalancer.surge.record import Ending


class MoveOutcome(StrEnum):
    """The outcome of a move."""

    VERIFIED = "verified"
    INEFFECTIVE = "ineffective"
    PENDING = "pending"
    LOST = "lost"
    OVERTAKEN = "overtaken"


class Phase(StrEnum):
    """The phases of a cycle."""

    SNAPSHOT = "snapshot"
    ASSESS = "assess"
    PLAN = "plan"
    ADMIT = "admit"
    ACT = "act"


EVICTIONS: Final = Counter(
    name="rebalancer_evictions_total",
    help="Eviction requests, by result.",
    labels=("result",),
    values=tuple(EvictionResult),
)
WORKLOAD_EVICTIONS: Final = Counter(
    name="rebalancer_workload_evictions_total",
    help="Evicted pods, by workload and reason. Series begin at 0 when an eviction is planned, and end an hour after "
    "the last one; beyond 5,000 workloads the rest count as workload other, without namespace and kind.",
    labels=("namespace", "workload_kind", "workload", "reason"),
    values=tuple(Cause),
)
MOVES: Final = Counter(
    name="rebalancer_moves_total",
    help="Moves that ended, by the outcome of the replacement.",
    labels=("outcome",),
    values=tuple(MoveOutcome),
)
CAPACITY_REQUESTS: Final = Counter(
    name="rebalancer_capacity_requests_total",
    help="Requests for capacity that became ready or failed, by result.",
    labels=("result",),
    values=tuple(Result),
)
GUARD_ERRORS: Final = Counter(
    name="rebalancer_guard_errors_total",
    help="Questions about a guard that had no usable answer: Prometheus away, slow, or in error.",
    labels=("guard",),
)
PREVENTION_PATCHES: Final = Counter(
    name="rebalancer_prevention_patches_total",
    help="Patches of pods' deletion costs, by result.",
    labels=("result",),
    values=tuple(PatchResult),
)
SURGES: Final = Counter(
    name="rebalancer_surges_total",
    help="Surges that ended, by how.",
    labels=("ending",),
    values=tuple(Ending),
)
API_REQUESTS: Final = Counter(
    name="rebalancer_api_requests_total",
    help="Requests to the API server; code 0 without a response, verb list also for watches.",
    labels=("verb", "resource", "code"),
)
CYCLE_DURATION: Final = Histogram(
    name="rebalancer_cycle_duration_seconds",
    help="Duration of the phases of a cycle; act is the duration of one eviction request.",
    labels=("phase",),
    values=tuple(Phase),
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)

COUNTERS: Final = (
    EVICTIONS,
    WORKLOAD_EVICTIONS,
    MOVES,
    CAPACITY_REQUESTS,
    GUARD_ERRORS,
    PREVENTION_PATCHES,
    SURGES,
    API_REQUESTS,
    CYCLE_DURATION,
)


def outcome_of(move: Move) -> MoveOutcome | None:
    """Return the outcome of a move, None if it has none."""
    match move.state:
        case MoveState.VERIFIED:
            return MoveOutcome.VERIFIED
        case MoveState.INEFFECTIVE:
            return MoveOutcome.INEFFECTIVE
        case MoveState.LOST:
            # The replacement exists and did not become Ready, or does not exist.
            return MoveOutcome.PENDING if move.replacement else MoveOutcome.LOST
        case MoveState.OVERTAKEN:
            return MoveOutcome.OVERTAKEN
        case _:
            return None
