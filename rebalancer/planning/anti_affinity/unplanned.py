"""Why nothing is planned for a violated term of podAntiAffinity."""

from rebalancer.model.affinity import TermKind
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason


class TermNotActedOn(Refusal):
    """The policy's antiAffinity.actOn does not list the kind of a violated term."""

    reason = Reason.EXCLUDED
    terms: TermKind

    def __str__(self) -> str:
        return f"antiAffinity.actOn does not list {self.terms}"


class NobodyRecreates(Refusal):
    """No known owner would create again the pods that a term keeps apart."""

    reason = Reason.UNKNOWN_OWNER

    def __str__(self) -> str:
        return (
            "the pods that required podAntiAffinity keeps apart here belong to DaemonSets or unknown owners, and such "
            "pods are not moved"
        )


class NotModelledApart(Refusal):
    """No pod that a term keeps apart can be planned: `workload` has pods with host ports or unknown fields."""

    reason = Reason.NOT_PREDICTABLE
    workload: Reference
    why: str

    def __str__(self) -> str:
        return f"{self.workload} is not moved for podAntiAffinity: {self.why}"


class OthersNeedNotMove(Refusal):
    """Only staying pods declare a term against pods of other namespaces, which then must not be evicted for it."""

    reason = Reason.NOT_EVICTABLE

    def __str__(self) -> str:
        return (
            "the pods that declare required podAntiAffinity cannot be moved, and no pods of other namespaces are "
            "evicted for them"
        )
