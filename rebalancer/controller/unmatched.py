"""The log of what the policy names and the cluster lacks: once for each policy, and again when it comes back."""

import structlog

from rebalancer.controller.cycle import Cycle

_log = structlog.get_logger("rebalancer")


class UnmatchedLog:
    """Remembers what was told. Numbers in a message change with the cluster and make it no other."""

    def __init__(self) -> None:
        self._told: frozenset[tuple[str, ...]] = frozenset()

    def take(self, cycle: Cycle) -> None:
        """Tell what a cycle found that the one before had not."""
        policy = cycle.circumstances.policy.hash
        found = {(policy, each.group, each.limit, each.field, each.value): each for each in cycle.assessment.unmatched}
        for name, each in found.items():
            if name not in self._told:
                _log.warning("the policy names what there is not", what=each.message)
        self._told = frozenset(found)
