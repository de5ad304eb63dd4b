"""What problems of one shape share: the answers of functions that read counts alone, kept for the length of a plan."""

from rebalancer.planning.arrangement import count, spread_of
from rebalancer.planning.certificate import certain
from rebalancer.planning.distance import alone, least, summary
from rebalancer.planning.game import played
from rebalancer.planning.obstacles import relaxed
from rebalancer.planning.reach import next_step
from rebalancer.planning.unreachable import out_of_reach


def forget() -> None:
    """Empty the caches: states of one plan are of no use to the next, and their trees are large."""
    played.clear()
    for cached in (next_step, out_of_reach, relaxed, alone, certain, least, summary, count, spread_of):
        cached.cache_clear()
