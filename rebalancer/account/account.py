"""What becomes of each repair: how many evictions it takes, how many are under way, and why it does not go on now.

A cycle decides; an account describes a later moment, with what has happened since: requests that were sent or refused,
a pause. Every number, reason and end that is shown comes from here, so that all views agree.

A hold on everything (a pause, the mode, the breaker, a window) and a wait of one repair may both apply. The last to
end, as far as known, says when the repair goes on. Another wait may follow that was not evaluated yet.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from rebalancer.account.numbers import PlanNumbers
from rebalancer.admission.lasting import outlast_component
from rebalancer.admission.rights import Rights
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Move, Reference
from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Waits
from rebalancer.planning.plan import ComponentPlan, Plan


class Wait(NamedTuple):
    """Why a repair does not go on, its first decided eviction, None if it has none, and until when.

    `until` is None if no time is known.
    """

    refusal: Refusal
    first: Eviction | None
    until: datetime | None

    @classmethod
    def of(cls, refusal: Refusal, said: datetime) -> "Wait":
        """Return the wait for a refusal without an eviction; `said` is when it was reported."""
        return cls(refusal, None, refusal.end.until(said))

    @property
    def rank(self) -> tuple[int, float]:
        """A sort key: waits that end first come first (at a time, with an event, not by themselves)."""
        if self.until is not None:
            return 0, self.until.timestamp()
        return (1 if self.refusal.end.event else 2), 0.0


def find_undecided(plan: Plan) -> frozenset[Reference]:
    """Return the workloads whose repairs may take other pods than the decided ones.

    Some of their pods may not go yet, for example because they are too young. Once these may go, the pods are chosen
    again.
    """
    if not plan.fates.kept:
        return frozenset()
    later = set[Reference]()
    for row in plan.refusals:
        # Most rows are of few workloads: the end, which may be a formatted text, is asked for once where it suffices.
        if row.pod is not None and row.workload not in later and not row.refusal.end.is_last:
            later.add(row.workload)
    undecided = (one.workloads for one in plan.components if not later.isdisjoint(one.workloads))
    return frozenset[Reference]().union(*undecided)


class Repair(NamedTuple):
    """The present state of the repair of one component."""

    component: ComponentPlan
    numbers: PlanNumbers
    under_way: int
    """How many of its evictions were requested since it was planned."""
    wait: Wait | None
    """Why the repair waits; None if an eviction goes or is under way, or if there is nothing to wait for."""

    @property
    def needed(self) -> int:
        """The number of evictions that are still to be made."""
        return self.numbers.evictions - self.under_way

    @property
    def lower_bound(self) -> int:
        """The proved lower bound of `needed`."""
        return max(0, self.numbers.lower_bound - self.under_way)


@dataclass(frozen=True, kw_only=True)
class Account:
    """What becomes of a plan."""

    plan: Plan
    numbers: Mapping[str, PlanNumbers]
    """The numbers of the plan by component, computed once for each plan."""
    fates: Fates
    moves: Sequence[Move]
    """The moves of the memory."""
    common: Refusal | None = None
    """What keeps every eviction back; None if nothing does."""
    approved: Collection[str] | None = None
    """The names of the components whose evictions go by an approval; None if no approval is needed."""
    rights: Rights = field(default_factory=Rights)
    """Where this account may evict."""

    @cached_property
    def repairs(self) -> Mapping[str, Repair]:
        """The repairs by the names of their components, in the order of the plan."""
        under_way = Counter(eviction.group for eviction in self.fates.under_way)
        active = {eviction.group for eviction in self.fates.let_go}
        first: dict[str, Waits] = {}
        for kept in self.fates.kept:
            first.setdefault(kept.eviction.group, kept)
        return {
            name: Repair(
                component,
                self.numbers[name],
                under_way[name],
                None if name in active else self._find_wait(component, first.get(name)),
            )
            for name, component in ((one.name, one) for one in self.plan.components)
        }

    def _find_wait(self, component: ComponentPlan, kept: Waits | None) -> Wait | None:
        said = self.plan.made_at
        if kept is not None:
            return Wait(kept.refusal, kept.eviction, kept.refusal.end.until(said))
        refusal = outlast_component(component, self.common, self.rights, self.approved, said)
        return None if refusal is None else Wait.of(refusal, said)

    @cached_property
    def waits(self) -> Sequence[Repair]:
        """The repairs that do not go on."""
        return [repair for repair in self.repairs.values() if repair.wait is not None]

    @cached_property
    def moving(self) -> Counter[Reference]:
        """How many pods of each workload are being moved."""
        return Counter(move.workload for move in self.moves if move.in_flight)

    @cached_property
    def undecided(self) -> frozenset[Reference]:
        """The workloads whose repairs may take other pods than the decided ones."""
        return find_undecided(self.plan)

    @property
    def waiting(self) -> int:
        """How many evictions are still to be made for everything that can be repaired."""
        return sum(repair.needed for repair in self.repairs.values())

    @property
    def later(self) -> int:
        """How many of `waiting` are not decided yet; the decided evictions go or wait by `fates`."""
        return sum(repair.numbers.later for repair in self.repairs.values())

    @property
    def lower_bound(self) -> int:
        """The proved lower bound of `waiting`."""
        return sum(repair.lower_bound for repair in self.repairs.values())

    @property
    def uncounted(self) -> int:
        """How many repairs these numbers leave out until a pod exists or is Ready."""
        return sum(numbers.uncounted for numbers in self.numbers.values())

    @property
    def next_at(self) -> datetime | None:
        """The first moment at which a repair that needs evictions goes on; None if it is not known."""
        ends = (repair.wait.until for repair in self.waits if repair.wait is not None and repair.needed)
        return min((end for end in ends if end is not None), default=None)

    @property
    def may_go_sooner(self) -> bool:
        """Whether a repair may go on before `next_at`: it goes on now, or waits for an event without a known time."""
        waits = (repair.wait for repair in self.repairs.values() if repair.needed)
        return any(wait is None or (wait.until is None and not wait.refusal.end.is_never) for wait in waits)

    @property
    def blocked(self) -> int:
        """How many evictions the violations need that cannot be repaired now."""
        return sum(repair.numbers.blocked for repair in self.repairs.values())

    @cached_property
    def refusals(self) -> Mapping[Reason, int]:
        """By reason, how many pods may not be evicted, or not yet; only pods of workloads that need a repair count.

        A workload without a counted pod counts itself.
        """
        lacking = {
            member.reference
            for component in self.plan.components
            if component.refusal is not None
            for member in component.component.members
        }
        refused = [row for row in self.plan.refusals if row.pod is not None and row.workload in lacking]
        pods = {(kept.reason, kept.eviction.workload, kept.eviction.pod.name) for kept in self.fates.kept}
        pods.update((row.reason, row.workload, row.pod or "") for row in refused)
        counted = {(reason, workload) for reason, workload, _ in pods}
        whole = {(row.reason, row.workload) for row in self.plan.refusals if row.pod is None}
        return Counter([*(reason for reason, _, _ in pods), *(reason for reason, _ in whole - counted)])
