"""How far the controller may go."""

from enum import StrEnum


class Mode(StrEnum):
    """Observe reports and evicts nothing; Approve carries out what a person approves, Evict all. The safest first."""

    OBSERVE = "Observe"
    APPROVE = "Approve"
    EVICT = "Evict"

    def at_most(self, limit: "Mode | None") -> "Mode":
        """Return the safer of the two, so that a process setting can only restrain what the policy allows."""
        if limit is None:
            return self
        ladder = list(Mode)
        return min(self, limit, key=ladder.index)
