"""The numbers of a plan, defined once: text, JSON, metrics, status and explanations show these and count nothing else.

Each eviction that a repair needs is in exactly one of four parts:

now       it may be sent, by the fates of the plan
waiting   it is decided, but held back: by a budget, the order of the step, or what admission knows
later     it is needed, and will be decided once earlier decisions have taken effect
blocked   it is needed for a violation that no eviction can repair now, even after a wait

The first three add up to `evictions`. A violation that cannot be repaired as a whole may still be repaired in part. The
evictions for that are now or waiting, and counted in `partial`, too. No minimum is proved for them.

While a StatefulSet recreates an evicted pod, or waits until a pod is Ready, the rest of its repair is in none of these
parts: it is `uncounted`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.obstacles import PodsStay
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.planning.scope.owners import LowerOrdinalNotReady


class PlanNumbers(NamedTuple):
    """Numbers of evictions, of one group or of all."""

    now: int = 0
    waiting: int = 0
    later: int = 0
    blocked: int = 0
    partial: int = 0
    lower_bound: int = 0
    """The proved minimum of `evictions`."""
    blocked_lower_bound: int = 0
    """The proved minimum of `blocked`."""
    uncounted: int = 0
    """The number of repairs that go on once a pod has arrived; their evictions are not known before."""

    @property
    def evictions(self) -> int:
        """The number of evictions for everything that can be repaired: now, waiting and later."""
        return self.now + self.waiting + self.later

    @property
    def optimal(self) -> bool:
        """Whether `evictions` is proved to be the minimum, and no repair is left out."""
        return self.evictions == self.lower_bound and not self.uncounted


def group_numbers(plan: Plan) -> Mapping[str, PlanNumbers]:
    """Return the numbers of each group of a plan by its name."""
    now = Counter(eviction.group for eviction in plan.fates.going)
    waiting = Counter(wait.eviction.group for wait in plan.fates.waiting)
    return {group.name: _count(group, now[group.name], waiting[group.name]) for group in plan.components}


def plan_numbers(plan: Plan) -> PlanNumbers:
    """Return the numbers of a plan."""
    return add_numbers(group_numbers(plan).values())


def add_numbers(parts: Iterable[PlanNumbers]) -> PlanNumbers:
    """Add up the numbers of several groups."""
    return PlanNumbers(*map(sum, zip(*parts, strict=True)))


def _count(group: ComponentPlan, now: int, waiting: int) -> PlanNumbers:
    decided = now + waiting
    if group.state is State.VIOLATED and group.evictions:  # evictions repair it completely, now or later
        later = max(0, group.evictions - decided)
        return PlanNumbers(now=now, waiting=waiting, later=later, lower_bound=group.lower_bound)
    return PlanNumbers(
        now=now,
        waiting=waiting,
        partial=decided,
        blocked=max(0, group.evictions - decided),
        blocked_lower_bound=max(0, group.lower_bound - decided),
        uncounted=int(not group.evictions and _waits_for_pod(group.refusal)),
    )


def _waits_for_pod(refusal: Refusal | None) -> bool:
    """Return whether a repair goes on once a pod of its StatefulSet exists, or is Ready."""
    cause = refusal.cause if isinstance(refusal, PodsStay) else refusal
    return isinstance(cause, LowerOrdinalNotReady) or (cause is not None and cause.reason is Reason.ARRIVING)
