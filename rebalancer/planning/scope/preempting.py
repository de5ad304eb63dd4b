"""Pending pods that are about to preempt others: the nodes that they may take, and the pods that may go.

If no node admits a pod that has a high priority, the scheduler makes room at its next attempt by deleting pods of lower
priority on a node. Until it is bound, the free capacity of that node is not free, and the pods that may go are not
there to be moved.

Cost: nothing if no pod has a lower priority than a pending pod, as in most clusters. Otherwise one dry run for each
class of pending pods that no node admits, of at most `MOST_NODES` nodes in all. Beyond that, a node counts if it runs
pods of lower priority, passes the filters on which pods have no influence, and would be large enough if empty.
"""

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import admissible, feasible
from rebalancer.scheduling.node_resources_fit import drop_ignored_resources, fits
from rebalancer.scheduling.node_usage import NOTHING_USED
from rebalancer.scheduling.preemption import find_preemptions, has_lower_pods
from rebalancer.scheduling.rejections import map_verdicts, reject_nodes
from rebalancer.scheduling.view import View

MOST_NODES: Final = 500
"""The dry runs of a plan cover up to this many nodes; each takes about 1 ms."""


_HIGHEST: Final = 2**31
"""A number above every priority."""


class Preempting:
    """What the pending pods of a view would preempt."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._nodes_left = MOST_NODES
        self._known: dict[Hashable, frozenset[str]] = {}
        self.victims: Final[dict[str, Pod]] = {}
        """The pod that may preempt each pod, by the UID of the preempted pod."""

    def find_nodes(self, pod: Pod) -> frozenset[str]:
        """Return the nodes that a pending pod may take by preemption; none if it fits or does not preempt."""
        nominated = frozenset({pod.nominated_node} & self._view.nodes.names) if pod.nominated_node else frozenset()
        if not has_lower_pods(pod, self._view):
            return nominated
        key = pod.namespace, pod.labels, pod.spec, pod.claims, pod.nominated_node
        if key not in self._known:
            self._known[key] = self._find(pod)
        return nominated | self._known[key]

    def _find(self, pod: Pod) -> frozenset[str]:
        view = self._view
        if _is_unclear(pod, view) or feasible(pod, view):
            return frozenset()
        nodes, requests = view.nodes.by_name, drop_ignored_resources(pod.spec.requests, view.profile)
        possible = frozenset(
            name
            for name in admissible(pod, view)
            if self._lowest_priority[name] < pod.spec.priority and fits(requests, nodes[name], NOTHING_USED)
        )
        if len(possible) > self._nodes_left:
            return possible
        self._nodes_left -= len(possible)
        outcomes = find_preemptions(pod, map_verdicts(reject_nodes(pod, view)), view).outcomes if possible else ()
        for outcome in outcomes:
            for victim in outcome.victims:
                self.victims.setdefault(victim.uid, pod)
        return frozenset(outcome.node for outcome in outcomes)

    @cached_property
    def _lowest_priority(self) -> Mapping[str, int]:
        """The lowest priority of the pods on each node; `_HIGHEST` if no pod runs there."""
        view = self._view
        return {
            name: min((pod.spec.priority for pod in view.pods_on(name)), default=_HIGHEST) for name in view.nodes.names
        }


def _is_unclear(pod: Pod, view: View) -> bool:
    """Say whether a pod may be pending for other reasons than filters: it might then never preempt.

    Fields that affect only scores do not matter here.
    """
    spec = pod.spec
    placed_otherwise = spec.node_name is not None or spec.scheduler != view.profile.name
    return bool(placed_otherwise or spec.gated or spec.unpredictable or view.profile.unmodelled)
