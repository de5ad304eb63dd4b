"""The state of a constraint, a limit or a term with the planner's reason: planning knows more than the counts show."""

from collections.abc import Collection
from typing import NamedTuple

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.phrases import component_text
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.anti_affinity.unplanned import NobodyRecreates, NotModelledApart, TermNotActedOn
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.plan import ComponentPlan, Plan


class StateReason(NamedTuple):
    """The state; if there is no repair, the reason and a sentence on it; the evictions that the repair takes."""

    state: State
    reason: Reason | None = None
    message: str = ""
    evictions: int = 0


class StateReasons:
    """States and reasons by one plan; Unknown if no domain was counted, because an empty count proves nothing.

    Planning handles neither soft constraints that `spread.actOn` does not list nor limits with `action: Alert`: their
    state follows from the counts. So does the state of a limit that is Infeasible by itself. While pods of a workload
    are `moving`, what evictions cannot repair now counts as violated.
    """

    def __init__(
        self, plan: Plan, relaxations: Relaxations = NO_RELAXATIONS, moving: Collection[Reference] = ()
    ) -> None:
        self._relaxations = relaxations
        self._moving = frozenset(moving)
        going = {eviction.group for eviction in plan.fates.let_go}
        self._held: dict[str, Refusal] = {}
        """Why all decided evictions of a repair wait, by the name of its component."""
        for kept in plan.fates.kept:
            if kept.eviction.group not in going:
                self._held.setdefault(kept.eviction.group, kept.refusal)
        self._groups = {group.spread.name: planned for planned in plan.components for group in planned.groups}
        self._limits = {limit.name: planned for planned in plan.components for limit in planned.limits}
        self._terms = {term.name: planned for planned in plan.components for term in planned.component.apart}
        self._left = {
            row.workload: row.refusal
            for row in plan.refusals
            if isinstance(row.refusal, TermNotActedOn | NobodyRecreates | NotModelledApart)
        }

    def for_constraint(self, group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> StateReason:
        """Return the state and reason of one constraint of a group."""
        if is_constraint_unknown(evaluated):
            return _nothing_counted(evaluated.constraint.key)
        if not (evaluated.counts.violated and evaluated.constraint.hard):
            return StateReason(evaluated.state)
        return self._state_reason(self._groups.get(group.spread.name), evaluated.state)

    def for_limit(self, limit: EvaluatedLimit) -> StateReason:
        """Return the state and reason of a limit."""
        if is_limit_unknown(limit):
            return _nothing_counted(limit.topology_key)
        if limit.state is not State.VIOLATED:
            return StateReason(limit.state, limit.reason)
        return self._state_reason(self._limits.get(limit.name) if self._limits else None, limit.state)

    def for_term(self, term: EvaluatedTerm) -> StateReason:
        """Return the state and reason of a term of podAntiAffinity."""
        if not term.violated:
            return StateReason(term.state)
        planned = self._terms.get(term.name)
        if planned is not None:
            return self._state_reason(planned, term.state)
        left = next((self._left[workload] for workload in term.workloads if workload in self._left), None)
        return StateReason(term.state) if left is None else StateReason(term.state, left.reason, str(left))

    def _state_reason(self, planned: ComponentPlan | None, otherwise: State) -> StateReason:
        if planned is None:
            return StateReason(otherwise)
        held = self._held.get(planned.name)
        if planned.refusal is None and held is not None:
            return StateReason(planned.state, held.reason, held.timeless, planned.evictions)
        message = component_text(planned, self._relaxations)
        # What can be repaired is known once the moving pods have arrived.
        state = planned.state if self._moving.isdisjoint(planned.workloads) else State.VIOLATED
        return StateReason(state, planned.reason, message, planned.evictions)


def is_constraint_unknown(evaluated: EvaluatedConstraint) -> bool:
    """Return whether no domain of a constraint was counted."""
    return not evaluated.counts.by_domain


def is_limit_unknown(limit: EvaluatedLimit) -> bool:
    """Return whether a limit has pods, and no domain of them was counted."""
    return not limit.counts and limit.total > 0


def _nothing_counted(key: str) -> StateReason:
    return StateReason(State.UNKNOWN, message=f"no node that was read takes such pods and has the label {key}")


def limit_workloads(limit: EvaluatedLimit) -> frozenset[Reference]:
    """Return the workloads whose pods a limit counts."""
    return frozenset(part.member.reference for part in limit.parts)
