"""Why a repair may take more evictions than the minimum."""

from collections import Counter
from random import Random

from rebalancer.planning.case import Detour
from rebalancer.planning.search.report import Method
from tests.planning.clusters import laid_out, planned
from tests.planning.contingent_oracle import Game


def test_a_detour_is_reported_where_the_game_against_the_scheduler_needs_it() -> None:
    """Played in full, with four evictions at once: one more than the minimum wins, and the minimum does not.

    Where a contingent plan says nothing of it, the minimum wins.
    """
    choice, counted = Random(7), Counter[str]()
    for _ in range(300):
        counts = [[choice.choice([0, 0, 1, 2, 3, 4]) for _ in range(choice.randint(1, 3))] for _ in "abc"]
        zone, host = choice.choice([1, 2]), choice.choice([1, 2])
        for group in planned(laid_out(dict(zip("abc", counts, strict=True)), 0, zone, host)).components:
            if group.method is Method.CONTINGENT:
                detour = group.detour
                wins = Game(zone, host, out=4, no_worse=True).forced(counts, spare=1)
                enough = group.evictions + (detour is not None)
                assert wins == enough, counts
                assert detour in {None, Detour(minimum=group.evictions, enough=enough, at_once=4)}
                counted["minimum" if detour is None else "detour"] += 1
    assert min(counted["minimum"], counted["detour"]) > 10


def test_a_prediction_with_an_extra_eviction_proves_nothing() -> None:
    """No order was found; the repair may take the one eviction that it is allowed above the minimum."""
    plan = planned(laid_out({"a": [4, 1], "b": [4, 1]}, 1, 1, 2))
    (group,), (eviction, *_) = plan.components, plan.fates.going
    assert eviction.repair.extra
    assert group.detour == Detour(minimum=1, enough=2, at_once=None)
