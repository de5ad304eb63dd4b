"""Remedies: what to do about a violation, by the reason why it is not repaired, else by its cause."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from rebalancer.advice import constraints
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.phrases import domain_name
from rebalancer.model.moves import Reference
from rebalancer.model.pods import REVISION_LABELS
from rebalancer.model.reasons import Reason, State, ViolationCause
from rebalancer.model.words import name_list

_BY_CAUSE: Final[Mapping[ViolationCause, str]] = {
    ViolationCause.SCALE_DOWN: "Kubernetes ignores domains when it scales down; evictions repair the spread.",
    ViolationCause.NODE_LOST: "Bring back or uncordon the nodes of the emptiest domain.",
    ViolationCause.ZONE_LOST: "Bring back the nodes of the domain that was lost.",
    ViolationCause.LABELS_CHANGED: "Restore the labels of pods and nodes that the constraint selects.",
    ViolationCause.SOFT_CONSTRAINT: (
        "A soft constraint is only a preference; whenUnsatisfiable: DoNotSchedule enforces it whenever a pod is placed."
    ),
    ViolationCause.UNKNOWN: "",
}


_OF_TERMS: Final[Mapping[ViolationCause, str]] = {
    ViolationCause.LABELS_CHANGED: "Restore the labels of the pods that the term selects, or of their nodes.",
    ViolationCause.SOFT_CONSTRAINT: "",  # who declares a preferred term does not want it enforced
}
"""Remedies with a different wording for a term of podAntiAffinity."""

_REVISION_LABEL: Final[Mapping[str, str]] = dict(
    zip(("Deployment", "StatefulSet"), REVISION_LABELS, strict=True),
)
"""The label that tells pods of two revisions apart, by kind, for kinds that have such a label."""


class Violation(NamedTuple):
    """The facts on which a remedy depends."""

    reason: Reason | None
    cause: ViolationCause | None
    topology_key: str
    counts: Mapping[str, int]
    """Pods by domain of `topology_key`."""
    evictions: int = 0
    """How many evictions repair the violation, 0 if not known."""
    zero_budgets: tuple[str, ...] = ()
    """PodDisruptionBudgets of the pods that never allow a disruption."""
    failed_budgets: tuple[str, ...] = ()
    """PodDisruptionBudgets of the pods that could not be computed."""
    revision_label: str = ""
    """The label that tells the revisions of all the pods apart, "" if no single label does."""


def find_revision_label(workloads: Iterable[Reference]) -> str:
    """Return the label that tells the revisions of all the workloads apart; "" if no single label does."""
    labels = {_REVISION_LABEL.get(workload.kind, "") for workload in workloads}
    return labels.pop() if len(labels) == 1 else ""


def remedy(violation: Violation) -> str:
    """Say what to do about a violation; "" where nothing is known."""
    reason = violation.reason
    if reason is Reason.STEP_EXCEEDS_BUDGET and violation.zero_budgets:
        return f"Allow at least one disruption in {name_list(violation.zero_budgets)}."
    if reason in {Reason.STEP_EXCEEDS_BUDGET, Reason.BLOCKED_BY_BUDGET} and violation.failed_budgets:
        return f"Correct what keeps {name_list(violation.failed_budgets)} from being computed."
    return (reason.remedy if reason is not None else "") or _cause_remedy(violation)


def _cause_remedy(violation: Violation) -> str:
    if violation.cause is None:
        return ""
    if violation.cause is ViolationCause.DOMAIN_RETURNED:
        return _returned_remedy(violation)
    if violation.cause is ViolationCause.ROLLOUT:
        return _rollout_remedy(violation)
    return _BY_CAUSE[violation.cause]


def _rollout_remedy(violation: Violation) -> str:
    """Advise to wait only while planning sees the rollout, because the stored cause often outlasts it."""
    text = "Pods of the old revision counted when the rollout placed the new ones; evictions repair the spread"
    if violation.reason is Reason.ROLLOUT_IN_PROGRESS:
        text = "Wait for the rollout to finish; a paused one has to be resumed"
    label = violation.revision_label
    return (
        f"{text}; matchLabelKeys: [{label}] keeps pods of the old revision out of the count." if label else f"{text}."
    )


def _returned_remedy(violation: Violation) -> str:
    least = min(violation.counts.values(), default=0)
    emptiest = [domain for domain, count in violation.counts.items() if count == least]
    named = domain_name(violation.topology_key, emptiest[0]) if len(emptiest) == 1 else "The emptier domains"
    return (
        f"{named} began to take pods, or more of them, after these were placed. Kubernetes does not move running pods; "
        "evictions do."
    )


def term_remedy(violation: Violation) -> str:
    """Say what to do about a violated term of podAntiAffinity."""
    own = _OF_TERMS.get(violation.cause) if violation.cause is not None else None
    return remedy(violation) if own is None else remedy(violation._replace(cause=None)) or own


def limit_remedy(limit: EvaluatedLimit, violation: Violation) -> str:
    """Say what to do about a violated limit; if nothing enforces it, name a constraint that would."""
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
