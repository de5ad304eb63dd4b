"""NodeResourcesBalancedAllocation: prefer nodes whose CPU and memory stay used in equal measure.

Source: `noderesources/balanced_allocation.go`. Real requests, without the defaults of NodeResourcesFit's score for
containers without requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.view import View


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100; None for a pod that requests none of the scored resources."""
    names = view.profile.balanced_resources
    requested = {name: _get_amount(pod.spec.requests, name) for name in names}
    if view.rules.balance_skips_idle and not any(requested.values()):
        return None
    improvement = view.rules.balance_by_improvement
    result = {}
    for name in nodes:
        shares = list(_compute_shares(requested, view.nodes.by_name[name], view.used(name)))
        after = _score_balance([after for _, after in shares])
        before = _score_balance([before for before, _ in shares])
        # Go's division truncates towards zero; since the sum is never negative, Python's gives the same result.
        result[name] = 50 + (50 + after - before) // 2 if improvement else after
    return result


def _compute_shares(requested: Mapping[str, int], node: Node, used: Usage) -> Iterable[tuple[float, float]]:
    """Yield each resource's share of the node in use, without the pod and with it, at most 1."""
    for name, amount in requested.items():
        capacity = _get_amount(node.allocatable, name)
        if capacity == 0 or (amount == 0 and name not in {"cpu", "memory", "ephemeral-storage"}):
            continue
        taken = _get_used_amount(used, name)
        yield min(taken / capacity, 1.0), min((taken + amount) / capacity, 1.0)


def _score_balance(shares: Sequence[float]) -> int:
    """Return 100 less the standard deviation of the shares, in per cent, truncated."""
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    return int((1 - deviation) * 100)


def _get_amount(resources: Resources, name: str) -> int:
    match name:
        case "cpu":
            return resources.cpu
        case "memory":
            return resources.memory
        case "ephemeral-storage":
            return resources.ephemeral_storage
        case _:
            return dict(resources.extended).get(name, 0)


def _get_used_amount(used: Usage, name: str) -> int:
    match name:
        case "cpu":
            return used.cpu
        case "memory":
            return used.memory
        case "ephemeral-storage":
            return used.ephemeral_storage
        case _:
            return used.extended.get(name, 0)
