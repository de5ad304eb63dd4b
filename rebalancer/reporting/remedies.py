"""Remedies: what to do about a violation, by the reason why it is not repaired, else by what caused it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from rebalancer.advice import constraints
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.reasons import Reason, State, ViolationCause
from rebalancer.model.words import name_list
from rebalancer.reporting.phrases import domain_name

_BY_CAUSE: Final[Mapping[ViolationCause, str]] = {
    ViolationCause.SCALE_DOWN: "Kubernetes ignores domains when it scales down; evictions repair the spread.",
    ViolationCause.NODE_LOST: "Bring back or uncordon the nodes of the emptiest domain.",
    ViolationCause.ROLLOUT: (
        "Wait for the rollout to finish; matchLabelKeys: [pod-template-hash] keeps pods of the old revision out of "
        "the count."
    ),
    ViolationCause.LABELS_CHANGED: "Restore the labels of pods and nodes that the constraint selects.",
    ViolationCause.SOFT_CONSTRAINT: (
        "A soft constraint is only a preference; whenUnsatisfiable: DoNotSchedule enforces it whenever a pod is placed."
    ),
    ViolationCause.UNKNOWN: "",
}


class Violation(NamedTuple):
    """What a remedy depends on.

    `counts` are pods by domain of `topology_key`; `evictions` repair the violation, 0 where that number is not known;
    `zero_budgets` are PodDisruptionBudgets of the pods that never allow a disruption.
    """

    reason: Reason | None
    cause: ViolationCause | None
    topology_key: str
    counts: Mapping[str, int]
    evictions: int = 0
    zero_budgets: tuple[str, ...] = ()


def remedy(violation: Violation) -> str:
    """Say what to do about a violation; "" where nothing is known."""
    reason = violation.reason
    if reason is Reason.STEP_EXCEEDS_BUDGET and violation.zero_budgets:
        return f"Allow at least one disruption in {name_list(violation.zero_budgets)}."
    return (reason.remedy if reason is not None else "") or _cause_remedy(violation)


def _cause_remedy(violation: Violation) -> str:
    if violation.cause is None:
        return ""
    if violation.cause is ViolationCause.DOMAIN_RETURNED:
        return _returned_remedy(violation)
    return _BY_CAUSE[violation.cause]


def _returned_remedy(violation: Violation) -> str:
    least = min(violation.counts.values(), default=0)
    emptiest = [domain for domain, count in violation.counts.items() if count == least]
    came = (
        f"{domain_name(violation.topology_key, emptiest[0])} came" if len(emptiest) == 1 else "The emptier domains came"
    )
    return f"{came} back after these pods were placed. Kubernetes does not move running pods; evictions do."


def limit_remedy(limit: EvaluatedLimit, violation: Violation) -> str:
    """Say what to do about a violated limit; where nothing enforces it, name the constraint that would."""
    reason = violation.reason
    settled = reason is not None and reason is not Reason.NOT_FORCED and reason.remedy
    if limit.state is not State.VIOLATED or limit.guaranteed or settled:
        return remedy(violation)
    suggested = constraints.constraint_for_limit(limit)
    if suggested is None:
        return remedy(violation)
    key, effect = suggested.topology_key, suggested.effect.replace(f" of {suggested.topology_key}", "")
    enforced = (
        f"A DoNotSchedule constraint with maxSkew {suggested.max_skew} on {key} enforces the limit: {effect}; "
        f"rebalancer explain prints it."
    )
    return " ".join(filter(None, (_cause_remedy(violation), enforced)))
