"""The annotation by which a ReplicaSet chooses the pods that it deletes, and which values the rebalancer wrote.

The rebalancer's own value is a field of the pod and not among its annotations. So only the prevention of skew, and a
surge under way, can depend on it: plans are equal with and without it.

Source: `pkg/controller/controller_utils.go` (ActivePodsWithRanks), `pkg/apis/core/v1/helper`
(GetDeletionCostFromPodAnnotations).
"""

import re
from collections.abc import Mapping
from typing import Final

from rebalancer.model.pods import Pod

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""Among equally ready pods, the controller deletes those with the lowest cost first; without it the cost is 0."""

OWN_DELETION_COST: Final = "rebalancer.dev/deletion-cost"
"""Equals the cost if the rebalancer has written it, so that costs of others are recognized and never touched."""

HIGHEST_OWN_COST: Final = 1_000_000
"""The rebalancer writes 1 to this; larger values would steer Karpenter, which adds value / 2**27 to its own cost."""

SURGE_COST: Final = -1
"""The cost of the pods that go at the end of a surge: below every other cost of the rebalancer and below no cost."""

_INTEGER: Final = re.compile(r"(?:0|-?[1-9][0-9]{0,9})\Z")
_LEAST, _MOST = -(2**31), 2**31 - 1


def _parse(text: str) -> int:
    """Return a cost, 0 for an invalid value, which the API server refuses but an old object may carry."""
    cost = int(text) if _INTEGER.match(text) else 0
    return cost if _LEAST <= cost <= _MOST else 0


def read_own_cost(annotations: Mapping[str, str]) -> int:
    """Return the cost in a pod's annotations if the rebalancer has written it and nobody has changed it, else 0."""
    text = annotations.get(OWN_DELETION_COST)
    if text is None or text != annotations.get(DELETION_COST):
        return 0
    cost = _parse(text)
    return cost if cost == SURGE_COST or 1 <= cost <= HIGHEST_OWN_COST else 0


def deletion_cost(pod: Pod) -> int:
    """Return the cost by which its controller orders the pod."""
    return pod.own_deletion_cost or foreign_cost(pod)


def foreign_cost(pod: Pod) -> int:
    """Return the cost that people or other programs have set, 0 without one."""
    text = pod.annotations.get(DELETION_COST)
    return 0 if text is None else _parse(text)


def is_foreign(pod: Pod) -> bool:
    """Return whether people or other programs have set a cost, or have changed or removed a cost of the rebalancer."""
    return DELETION_COST in pod.annotations or OWN_DELETION_COST in pod.annotations


def is_overwritten(pod: Pod) -> bool:
    """Return whether people or other programs have changed or removed the cost that the rebalancer had written."""
    return OWN_DELETION_COST in pod.annotations
