"""What problems of one shape share: the answers of functions that read counts alone, kept for the length of a plan."""

from rebalancer.planning.diagnosis.obstacles import relaxed
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.minimum import minimum_repair, sum_of_minima, summarize
from rebalancer.planning.single_class.placement import count_pods, count_range
from rebalancer.planning.steps.contingent import played
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.reachability import is_unreachable


def forget() -> None:
    """Empty the caches: states of one plan are of no use to the next, and their trees are large."""
    played.clear()
    for cached in (
        next_step,
        is_unreachable,
        relaxed,
        sum_of_minima,
        certify,
        minimum_repair,
        summarize,
        count_pods,
        count_range,
    ):
        cached.cache_clear()
