"""The breaker's state: why nothing is evicted while the cluster is in trouble. It outlives cycles and processes."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from rebalancer.model.moments import Moment


class BreakerCause(StrEnum):
    """What opens the breaker; the values are also those of the metric's label."""

    UNREADY_NODES = "unready_nodes"
    UNREADY_ZONE = "unready_zone"
    PENDING_PODS = "pending_pods"
    API_ERRORS = "api_errors"
    FAILED_MOVES = "failed_moves"
    REPLACEMENTS = "replacements"


_Count = Annotated[int, Meta(ge=0)]


class OpenCause(Struct, frozen=True, gc=False, kw_only=True):
    """A cause for which the breaker is open: at `last`, `part` of `total` exceeded `bound` percent.

    `since` is when it opened, `zone` the worst zone if the cause is a zone, else "". REPLACEMENTS has no bound: `part`
    of `total` moves in flight have an overdue replacement, and `note` names their workloads and the reason.
    """

    cause: BreakerCause
    part: _Count
    total: Annotated[int, Meta(ge=1)]
    bound: _Count
    since: Moment
    last: Moment
    zone: str = ""
    note: str = ""


class BreakerState(Struct, frozen=True, gc=False):
    """The causes for which the breaker is open, in the order of `BreakerCause`; without any it is closed."""

    causes: tuple[OpenCause, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open for any cause."""
        return bool(self.causes)

    def find(self, cause: BreakerCause) -> OpenCause | None:
        """Return the cause if the breaker is open for it."""
        return next((known for known in self.causes if known.cause is cause), None)


CLOSED: Final = BreakerState()
