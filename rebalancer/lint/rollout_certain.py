"""Rollouts that are certain to end, as most are, found without a search.

If pods require nothing but capacity, each new pod takes capacity only from its own node. So one order shows how many
pods find a node in any order. Under a single hard constraint the emptiest domain always admits a pod, so capacity in
each domain is enough.
"""

from rebalancer.lint.alike import is_ample
from rebalancer.lint.rollout_search import Rollout
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import admissible, feasible
from rebalancer.scheduling.pod_topology_spread import constraints_of, counts
from rebalancer.scheduling.spread_constraints import EffectiveConstraint
from rebalancer.scheduling.view import View


def is_certain(rollout: Rollout) -> bool:
    """Return whether a quick check shows that no step can fail."""
    sample, view = rollout.new[0], rollout.view
    affinity, hard = sample.spec.pod_affinity, constraints_of(sample, view).hard
    ruled = affinity.required or affinity.anti_required or sample.claims or sample.drivers or sample.spec.host_ports
    if ruled or any(True for _ in view.repelling(sample)) or rollout.refuse(rollout.old, len(rollout.new) - 1):
        return False
    if not hard:
        return _has_room_for_all(rollout)
    return len(hard) == 1 and _has_room_in_each_domain(hard[0], sample, len(rollout.new), view)


def _has_room_for_all(rollout: Rollout) -> bool:
    """Return whether the nodes have capacity for all new pods beside all old pods."""
    view = rollout.view
    for pod in rollout.new:
        nodes = feasible(pod, view)
        if not nodes:
            return False
        view = view.with_placed(pod, min(nodes))
    return True


def _has_room_in_each_domain(constraint: EffectiveConstraint, sample: Pod, pods: int, view: View) -> bool:
    """Return whether each domain of a constraint has a node with capacity for all new pods beside all old pods."""
    counted, admitted = counts(constraint, sample, view), admissible(sample, view)
    return not counted.floor_at_zero and all(
        any(node in admitted and is_ample(view.nodes.by_name[node], view.used(node), sample, pods) for node in nodes)
        for nodes in counted.by_domain.domains.values()
    )
