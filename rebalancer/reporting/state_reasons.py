"""What is to be said of a constraint or a limit that is violated: planning may know more than its counts show."""

from typing import NamedTuple

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.plan import ComponentPlan, Plan


class StateReason(NamedTuple):
    """State and, where it is not repaired, why: the reason and a sentence on it."""

    state: State
    reason: Reason | None = None
    message: str = ""


class StateReasons:
    """The verdicts of one plan on what it repairs, or would.

    Soft constraints and limits that only alert are not planned for: of them the counts say everything. So they do of a
    limit that is Infeasible by itself.
    """

    def __init__(self, plan: Plan) -> None:
        self._groups = {judged.group.name: group for group in plan.groups for judged in group.groups}
        self._limits = {limit.name: group for group in plan.groups for limit in group.limits}

    def of_constraint(self, group: EvaluatedGroup, judged: EvaluatedConstraint) -> StateReason:
        """Say how a constraint of a group stands."""
        if not (judged.counts.violated and judged.constraint.hard):
            return StateReason(judged.state)
        return _standing(self._groups.get(group.group.name), judged.state)

    def of_limit(self, limit: EvaluatedLimit) -> StateReason:
        """Say how a limit stands."""
        if limit.state is not State.VIOLATED:
            return StateReason(limit.state, limit.reason)
        return _standing(self._limits.get(limit.name) if self._limits else None, limit.state)


def _standing(planned: ComponentPlan | None, otherwise: State) -> StateReason:
    return StateReason(otherwise) if planned is None else StateReason(planned.state, planned.reason, planned.message)
