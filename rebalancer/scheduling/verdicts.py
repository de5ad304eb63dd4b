"""The result of a filter for a node."""

from enum import StrEnum

from msgspec import Struct


class Code(StrEnum):
    """The status of a node after a filter (kube-scheduler's `framework.Code`)."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    """Rejected; evicting pods from the node could help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Rejected; no eviction from the node would help."""


class Verdict(Struct, frozen=True, gc=False):
    """A filter's result for one node. `reasons` are the scheduler's own messages, none on success."""

    code: Code
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)


SUCCESS = Verdict(Code.SUCCESS)


def unschedulable(*reasons: str) -> Verdict:
    """Reject a node in a way that evicting its pods might change."""
    return Verdict(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Verdict:
    """Reject a node in a way that no eviction changes."""
    return Verdict(Code.UNRESOLVABLE, reasons)
