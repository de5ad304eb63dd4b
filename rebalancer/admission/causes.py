"""Why an eviction that planning decided has to wait: causes as data, which reporting puts into words."""

from datetime import datetime, timedelta

from rebalancer.model.breaker import OpenCause
from rebalancer.model.moves import Move, Reference
from rebalancer.model.reasons import Reason
from rebalancer.planning.causes import Fact, Refusal


class Paused(Fact, frozen=True, gc=False):
    """The controller is paused; the message says who, until when and why."""

    message: str


class ModeObserves(Fact, frozen=True, gc=False):
    """The mode is Observe."""


class AwaitsApproval(Fact, frozen=True, gc=False):
    """The proposed plan with this hash waits for the approval of a person, until it expires."""

    plan: str
    expires_at: datetime


class NotProposed(Fact, frozen=True, gc=False):
    """The eviction is not part of the plan with this hash, which is proposed or carried out first."""

    plan: str


class Stale(Fact, frozen=True, gc=False):
    """The snapshot is out of date; the message says why."""

    message: str


class OutsideWindow(Fact, frozen=True, gc=False):
    """No window of the policy is open; the one with this schedule opens next, `opens_at`."""

    opens_at: datetime
    schedule: str
    time_zone: str


class BreakerOpen(Fact, frozen=True, gc=False):
    """The breaker is open for these causes, each last exceeded at its `last`, as seen `at`."""

    causes: tuple[OpenCause, ...]
    at: datetime
    clear_after: timedelta


class NotLasting(Fact, frozen=True, gc=False):
    """The violation has not lasted as long as `field` requires."""

    lasted: timedelta
    field: str
    required: timedelta


class BackingOff(Fact, frozen=True, gc=False):
    """The last `times` predictions for the component failed; it is tried again in `left`, or not at all (None)."""

    times: int
    left: timedelta | None


class RequestsRefused(Fact, frozen=True, gc=False):
    """The last `times` requests for the component were not granted; it is tried again in `left`."""

    times: int
    left: timedelta


class RefusedByAdmission(Fact, frozen=True, gc=False):
    """Admission control refused the last eviction for the component; `refuser` says who, `words` are its own.

    It is tried again at `next_try`.
    """

    refuser: str
    words: str
    next_try: datetime


class NotAllowed(Fact, frozen=True, gc=False):
    """The account has no right to evict there; it is tried again in `left`."""

    message: str
    left: timedelta


class EvictionUndecided(Fact, frozen=True, gc=False):
    """The last leader may have requested the eviction of another pod, which may be carried out `until` then."""

    pod: str
    until: datetime


class ReplacementNotCreated(Fact, frozen=True, gc=False):
    """A workload of the namespace has no pod in place of an evicted one; `failure` says why, "" if nobody does."""

    workload: Reference
    pod: str
    failure: str


def not_created(move: Move) -> Refusal:
    """Return why nothing is evicted in the namespace of a move whose replacement is overdue."""
    return Refusal(Reason.CANNOT_CREATE, ReplacementNotCreated(move.workload, move.pod, move.uncreated or ""))


class ReplacementNotRunning(Fact, frozen=True, gc=False):
    """The replacement of an evicted pod was created and does not run; `why` is what its kubelet says.

    The pod's workload waits, and where `holds_namespace` the whole namespace: this is so in several of its workloads.
    """

    workload: Reference
    pod: str
    why: str
    holds_namespace: bool


class PodEnding(Fact, frozen=True, gc=False):
    """An evicted pod of the same workload takes long to end."""

    pod: str


class WindowFull(Fact, frozen=True, gc=False):
    """As many replacements as slow start allows have not arrived, in a namespace or in the cluster ("")."""

    namespace: str
    allowed: int
    under_way: int


class StepQueued(Fact, frozen=True, gc=False):
    """A step of another workload has waited for long to evict `needed` pods at once, and goes first."""

    workload: Reference
    needed: int


def overdue_replacement(move: Move, *, holds_namespace: bool) -> Refusal:
    """Return why evictions wait for a move whose replacement is overdue, or whose victim takes long to end."""
    if move.uncreated is not None:
        return not_created(move)
    if move.unstarted is None:
        return Refusal(Reason.SLOW_START, PodEnding(move.pod))
    return Refusal(Reason.SLOW_START, ReplacementNotRunning(move.workload, move.pod, move.unstarted, holds_namespace))


class ServerOverloaded(Fact, frozen=True, gc=False):
    """The API server is overloaded: it asked to send nothing for some time, of which `left` remains."""

    left: timedelta


class MemoryUnsaved(Fact, frozen=True, gc=False):
    """The memory could not be saved; the message says why."""

    message: str


class TooManyInFlight(Fact, frozen=True, gc=False):
    """As many evictions are in flight as the memory can hold."""

    allowed: int


class RateReached(Fact, frozen=True, gc=False):
    """A rate of the policy's budgets is used up."""

    budget: str
    allowed: int
