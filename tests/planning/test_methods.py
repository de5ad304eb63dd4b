"""The methods that search for a step, in their order."""

from typing import Any

import pytest

from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.case import Case, ComponentContext, Decision
from rebalancer.planning.decision import MULTI_CLASS, SINGLE_CLASS, Methods, PredictionUnverified
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.search.limits import SearchBudget
from tests.planning.build import first_problem, policy
from tests.planning.states import LIMITS
from tests.planning.test_decision import team_of_six


@pytest.mark.parametrize(
    ("methods", "whole", "part"),
    [
        (
            SINGLE_CLASS,
            ["certificate", "contingent_plan", "forced_step", "predicted_lookahead"],
            ["part_by_counting", "part_by_predicted_lookahead"],
        ),
        (
            MULTI_CLASS,
            ["forced_lookahead", "predicted_lookahead"],
            ["part_by_forced_lookahead", "part_by_predicted_lookahead"],
        ),
    ],
)
def test_the_order_of_the_methods(methods: Methods[Any], whole: list[str], part: list[str]) -> None:
    """What is proved by arithmetic is tried before what is searched, forced before predicted, the whole before a part.

    A change here changes which step a plan takes, and what its searches cost.
    """
    assert [method.__name__.lstrip("_") for method in methods.whole] == whole
    assert [method.__name__.lstrip("_") for method in methods.part] == part


@pytest.mark.parametrize(
    ("known", "whole", "part"),
    [
        ({}, True, True),
        ({"moving": True}, False, False),
        ({"failed_predictions": 3}, False, False),
        ({"failed_predictions": 3, "moving": True}, False, False),
    ],
)
def test_when_predictions_apply(known: dict[str, Any], whole: bool, part: bool) -> None:
    """Not after three failures; while a move is in flight the whole repair waits for it and no part is predicted."""
    view, problem = first_problem(*team_of_six(most=2))
    assert isinstance(problem, MultiClassProblem)
    context = ComponentContext(lookahead=None, quick=SearchBudget(0), contingent=SearchBudget(0), **known)
    for search, applies in ((MULTI_CLASS.whole[-1], whole), (MULTI_CLASS.part[-1], part)):
        case = Case(problem, view, context, BudgetLedger(view, policy(), NO_MEMORY), LIMITS)
        decision = search(case, Decision(evictions=1, lower_bound=1))
        assert case.deferred == applies, "a search without a budget is left for later"
        waits = search is MULTI_CLASS.whole[-1] and known == {"moving": True}
        assert (decision.refusal if decision is not None else None) == (PredictionUnverified() if waits else None)
