"""What a search reports is one result for each method."""

from rebalancer.planning.search.driver import Flaw
from rebalancer.planning.search.report import Attempt, Method, merge_attempts


def test_a_method_that_was_tried_for_several_goals_is_reported_once() -> None:
    """Its rejected candidates are added up; it answered, or reached its limit, if it did for any goal."""
    contingent = Attempt(method=Method.CONTINGENT)
    first = Attempt(method=Method.LOOKAHEAD, rejected=((Flaw.PENDING, 2),), limit_reached=True)
    second = Attempt(method=Method.LOOKAHEAD, rejected=((Flaw.PENDING, 1), (Flaw.WORSE, 4)), answered=True)
    assert merge_attempts([first, contingent, second]) == (
        Attempt(
            method=Method.LOOKAHEAD,
            answered=True,
            rejected=tuple(sorted({Flaw.PENDING: 3, Flaw.WORSE: 4}.items())),
            limit_reached=True,
        ),
        contingent,
    )
