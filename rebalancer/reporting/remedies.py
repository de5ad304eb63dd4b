"""What helps: a sentence for each reason why a violation is not repaired, else for what led to it."""

from collections.abc import Mapping
from typing import Final

from rebalancer.advice import constraints
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.reasons import Reason, State, ViolationCause

_OF_REASONS: Final[Mapping[Reason, str]] = {
    Reason.NO_ARRANGEMENT: "Change the number of pods, or loosen the bound.",
    Reason.TOO_FEW_DOMAINS: "Add domains, or loosen the bound.",
    Reason.VOLUME_PINNED: "Its volumes tie it: move the data to a volume elsewhere, or let storage reach further.",
    Reason.AFFINITY_PINNED: "Widen its node affinity, or bring back the nodes that it names.",
    Reason.NO_CAPACITY: "Make room in the emptier domains, or add nodes there.",
    Reason.STEP_EXCEEDS_BUDGET: "Let the budget spare more pods at once.",
    Reason.SEVERAL_BUDGETS: "Leave one PodDisruptionBudget on each pod.",
    Reason.ZONE_IN_MAINTENANCE: "Uncordon the nodes of the domain when the work there is done.",
    Reason.TEMPLATE_REFUSED: "Mend the template: its pods are refused.",
    Reason.NOT_FORCED: "Tighten the spread constraint (rebalancer suggest names one), so that it forces the placement.",
}
_NODES_DOWN: Final = "Bring back the nodes of the emptiest domain, or add nodes there; pods can go there then."
"""Where there is no room since nodes are down, room elsewhere would not help."""

_OF_CAUSES: Final[Mapping[ViolationCause, str]] = {
    ViolationCause.SCALE_DOWN: "A scaling down chooses its pods without regard to domains; an eviction repairs it.",
    ViolationCause.NODE_LOST: "Bring back, or uncordon, the nodes of the emptiest domain; pods can go there then.",
    ViolationCause.DOMAIN_RETURNED: "Nothing in Kubernetes moves pods to a domain that came later; evictions do.",
    ViolationCause.ROLLOUT: "Let the rollout end; matchLabelKeys: [pod-template-hash] keeps old pods out of the count.",
    ViolationCause.LABELS_CHANGED: "Give pods and nodes the labels back that the constraint selects by.",
    ViolationCause.SOFT_CONSTRAINT: "A soft constraint is a wish; DoNotSchedule holds it whenever a pod is placed.",
    ViolationCause.UNKNOWN: "",
}


def remedy(reason: Reason | None, cause: ViolationCause | None) -> str:
    """Say what helps against a violation, "" where nothing more is known."""
    if reason is Reason.NO_CAPACITY and cause is ViolationCause.NODE_LOST:
        return _NODES_DOWN
    of_reason = _OF_REASONS.get(reason, "") if reason is not None else ""
    return of_reason or (_OF_CAUSES[cause] if cause is not None else "")


def limit_remedy(limit: EvaluatedLimit, reason: Reason | None, cause: ViolationCause | None) -> str:
    """Say the same of a limit; where nothing forces it, also the constraint that would."""
    if limit.state is not State.VIOLATED or limit.guaranteed or reason in _OF_REASONS.keys() - {Reason.NOT_FORCED}:
        return remedy(reason, cause)
    found = constraints.of_limit(limit)
    if found is None:
        return remedy(reason, cause)
    key, gives = found.topology_key, found.gives.replace(f" of {found.topology_key}", "")
    forced = f"DoNotSchedule with maxSkew {found.max_skew} on {key} forces it: {gives} (rebalancer explain prints it)."
    return " ".join(filter(None, (remedy(None, cause), forced)))
