"""The methods that search for a step, in their order."""

from typing import Any

import pytest

from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.case import Case, ComponentContext
from rebalancer.planning.methods import PART_OF_REPAIR, WHOLE_REPAIR
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.search.limits import SearchBudget
from tests.planning.build import first_problem, policy
from tests.planning.states import LIMITS
from tests.planning.test_decision import team_of_six


def test_the_order_of_the_methods() -> None:
    """What is proved by arithmetic is tried before what is searched, forced before predicted, the whole before a part.

    A change here changes which step a plan takes, and what its searches cost.
    """
    assert [method.name for method in WHOLE_REPAIR] == [
        "certificate",
        "contingent plan",
        "forced step",
        "forced lookahead",
        "predicted lookahead",
    ]
    assert [method.name for method in PART_OF_REPAIR] == [
        "partial step",
        "partial forced lookahead",
        "partial predicted lookahead",
    ]


@pytest.mark.parametrize(
    ("known", "applying"),
    [
        ({}, ["predicted lookahead", "partial predicted lookahead"]),
        ({"moving": True}, ["predicted lookahead"]),
        ({"failed_predictions": 3}, []),
        ({"failed_predictions": 3, "moving": True}, []),
    ],
)
def test_when_predictions_apply(known: dict[str, Any], applying: list[str]) -> None:
    """Not after three failures; while a move is in flight the whole repair waits for it and no part is predicted."""
    view, problem = first_problem(*team_of_six(most=2))
    context = ComponentContext(lookahead=None, quick=SearchBudget(0), contingent=SearchBudget(0), **known)
    assert isinstance(problem, MultiClassProblem)
    case = Case(problem, view, context, BudgetLedger(view, policy(), NO_MEMORY), LIMITS)
    methods = [method for method in (*WHOLE_REPAIR, *PART_OF_REPAIR) if "predicted" in method.name]
    assert [method.name for method in methods if method.applies(case)] == applying
