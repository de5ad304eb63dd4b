"""What is to be said of a constraint or a limit that is violated: planning may know more than its counts show."""

from typing import NamedTuple

from rebalancer.assessment.judged import Judged, JudgedGroup
from rebalancer.assessment.limits import JudgedLimit
from rebalancer.model.verdicts import Reason, State
from rebalancer.planning.plans import GroupPlan, Plan


class Standing(NamedTuple):
    """State and, where it is not repaired, why: the reason and a sentence on it."""

    state: State
    reason: Reason | None = None
    message: str = ""


class Verdicts:
    """The verdicts of one plan on what it repairs, or would.

    Soft constraints and limits that only alert are not planned for: of them the counts say everything. So they do of a
    limit that is Infeasible by itself.
    """

    def __init__(self, plan: Plan) -> None:
        self._groups = {judged.group.name: group for group in plan.groups for judged in group.groups}
        self._limits = {limit.name: group for group in plan.groups for limit in group.limits}

    def of_constraint(self, group: JudgedGroup, judged: Judged) -> Standing:
        """Say how a constraint of a group stands."""
        if not (judged.counts.violated and judged.constraint.hard):
            return Standing(judged.state)
        return _standing(self._groups.get(group.group.name), judged.state)

    def of_limit(self, limit: JudgedLimit) -> Standing:
        """Say how a limit stands."""
        if limit.state is not State.VIOLATED:
            return Standing(limit.state, limit.reason)
        return _standing(self._limits.get(limit.name) if self._limits else None, limit.state)


def _standing(planned: GroupPlan | None, otherwise: State) -> Standing:
    return Standing(otherwise) if planned is None else Standing(planned.state, planned.reason, planned.message)
