"""The breaker in a policy: percentages only, and a window that the controller can count over."""

import pytest

from rebalancer.policy import Percentage
from tests.build import HEAD
from tests.policy.test_loader import load, refused


def test_bounds_are_percentages() -> None:
    """The others keep their defaults."""
    breaker = load(f"{HEAD}breaker: {{unreadyNodes: 30%, pendingPods: 100%, window: 1h, clearAfter: 0s}}\n").breaker
    assert (breaker.unready_nodes, breaker.pending_pods, breaker.api_errors) == tuple(map(Percentage, (30, 100, 20)))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("unreadyNodes: 20", "unreadyNodes: found 20; expected a percentage such as 20%; did you mean 20%?"),
        ('apiErrors: "20"', 'apiErrors: found "20"; expected a percentage such as 20%; did you mean 20%?'),
        ("pendingPods: 101%", 'pendingPods: found "101%"; expected at most 100%'),
        ("failedMoves: 2.5%", 'failedMoves: found "2.5%"; expected a percentage such as 20%'),
        ("unreadyInZone: true", "unreadyInZone: found true; expected a percentage such as 20%"),
        ("window: 0s", 'window: found "0s"; expected more than 0s'),
        ("window: 61m", 'window: found "61m"; expected at most 1h'),
        ("pendingFor: 61m", 'pendingFor: found "61m"; expected at most 1h'),
        ("unreadyNode: 20%", "unreadyNode: unknown field; did you mean unreadyNodes?"),
    ],
)
def test_mistakes_are_named_with_line_and_field(fields: str, problem: str) -> None:
    assert refused(f"{HEAD}breaker: {{{fields}}}\n")[0].startswith(f"policy.yaml:3: breaker.{problem}")


@pytest.mark.parametrize(
    ("part", "total", "is_exceeded"), [(1, 5, False), (2, 9, True), (201, 1000, True), (0, 0, False), (5, 5, True)]
)
def test_a_bound_is_exceeded_above_it_never_at_it(part: int, total: int, *, is_exceeded: bool) -> None:
    assert Percentage(20).is_exceeded(part, total) is is_exceeded
    assert not Percentage(100).is_exceeded(part, total)
