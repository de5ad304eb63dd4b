"""The proof that nothing repairs a small group."""

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.steps.reachability import is_unreachable
from rebalancer.planning.steps.tree_moves import TreeState
from tests.planning.states import CACHE, bounds, state


def test_a_proof_that_reaches_its_limit_is_none() -> None:
    """Where not every state was visited, nothing is called unreachable."""
    start = TreeState(state([[2, 1], [4, 1, 3]]))
    assert is_unreachable(start, bounds(1, 1), CACHE)
    assert not is_unreachable(start, bounds(1, 1), SearchCache(SearchLimits(unreachable_states=10)))
