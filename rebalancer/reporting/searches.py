"""Sentences on the searches of the planner: which method found a step, and why others did not."""

from collections.abc import Iterator
from typing import Final

from rebalancer.model.words import plural
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.search.driver import Flaw
from rebalancer.planning.search.report import Attempt, Method

_METHODS: Final = {
    Method.CERTIFICATE: "a certificate (arithmetic on the counts)",
    Method.CONTINGENT: "a contingent plan for the whole repair",
    Method.FORCED: "a step that is forced by itself",
    Method.LOOKAHEAD: "lookahead on the real nodes",
    Method.PARTIAL: "a partial repair",
    Method.PREEMPTION: "a repair by preemption",
}
_FLAWS: Final = {
    Flaw.NOT_NEARER: "the minimum would not fall",
    Flaw.PENDING: "a pod would stay pending",
    Flaw.WORSE: "a constraint would be exceeded by more",
    Flaw.CLOSED: "no node would admit a further pod",
    Flaw.UNKNOWN: "the scheduler's choices could not be followed",
}


def flaw_name(flaw: Flaw) -> str:
    """Return the name of a flaw in documents."""
    return "".join(part.capitalize() for part in flaw.name.split("_"))


def method_lines(group: ComponentPlan) -> Iterator[str]:
    """Yield which method found the step of a component, and the result of each other method."""
    if group.method is not None:
        yield f"found by {_METHODS[group.method]}"
    for attempt in group.attempts:
        if not attempt.answered:
            yield f"not by {_METHODS[attempt.method]}: {_outcome(attempt)}"


def _outcome(attempt: Attempt) -> str:
    parts = [f"{plural(number, 'candidate')} rejected, {_FLAWS[flaw]}" for flaw, number in attempt.rejected]
    if attempt.limit_reached:
        parts.append("the search limit was reached")
    return "; ".join(parts) or "it does not apply"
