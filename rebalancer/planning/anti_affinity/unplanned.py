"""Why nothing is planned for a violated term of podAntiAffinity."""

from rebalancer.model.affinity import TermKind
from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason


class TermNotActedOn(Refusal):
    """The policy's antiAffinity.actOn does not list the kind of a violated term."""

    reason = Reason.EXCLUDED
    terms: TermKind

    def __str__(self) -> str:
        return f"antiAffinity.actOn does not list {self.terms}"


class NobodyRecreates(Refusal):
    """No owner that is known would create the pods again that a term keeps apart."""

    reason = Reason.UNKNOWN_OWNER

    def __str__(self) -> str:
        return "no known owner would create the pods again that required podAntiAffinity keeps apart"
