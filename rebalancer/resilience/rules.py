"""What the scheduler's spread filter asks of the replacements of a loss, as numbers that hold at every moment of it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from rebalancer.model.labels import LabelSelector
from rebalancer.model.loss_phase import Phase
from rebalancer.model.pods import Pod
from rebalancer.resilience.loss import Loss, Service
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread, constraints_of, counts, ineffective


class Rule(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A hard constraint of a service.

    `base` are the pods that it counts without any replacement, by each domain that remains, `filled` those of them with
    any, and `least` the least count in the end so far; `late` are those on lost
    nodes of such a domain, which count until they are deleted. `domain` maps the nodes with its key; `eligible` are
    those whose pods count. `itself` is 1 where its own pods count. `uncounted` are lost pods of the service that are
    not in `late`. `always_floored`: the least count is 0 whenever one of its pods is placed, as there are fewer
    domains than minDomains; `floored`: so it is in the end.
    """

    key: str
    max_skew: int
    namespace: str
    selector: LabelSelector
    domain: Mapping[str, str]
    eligible: frozenset[str]
    base: Mapping[str, int]
    filled: Mapping[str, int]
    least: int
    late: Mapping[str, int]
    itself: int
    uncounted: int
    always_floored: bool
    floored: bool

    def counts(self, pod: Pod) -> bool:
        """Return whether it counts a pod, where that is on an eligible node."""
        return pod.namespace == self.namespace and self.selector.matches(pod.labels)


def find_rules(service: Service, loss: Loss) -> Iterator[Rule]:
    """Yield the hard constraints of a service's next pod."""
    sample, values = service.sample, loss.before.nodes.values
    for constraint in constraints_of(sample, loss.before).hard:
        if constraint.selector is None or ineffective(constraint, loss.before):
            continue
        before, after = (counts(constraint, sample, view) for view in (loss.before, loss.after))
        domain, remaining = values(constraint.key), after.by_domain
        late: Counter[str] = Counter()
        for node, many in before.by_node.items():
            if node in loss.nodes and domain[node] in remaining.domains:
                late[domain[node]] += many
        uncounted = len(service.lost) - (_count_late(service, constraint.selector, domain, before, late) if late else 0)
        yield Rule(
            key=constraint.key,
            max_skew=constraint.max_skew,
            namespace=sample.namespace,
            selector=constraint.selector,
            domain=domain,
            eligible=after.eligible.nodes,
            base=remaining,
            filled=remaining.filled,
            least=after.minimum,
            late=late,
            itself=after.self_match,
            uncounted=uncounted,
            always_floored=before.floor_at_zero or (after.floor_at_zero and _is_instant(service, loss)),
            floored=after.floor_at_zero,
        )


def _count_late(
    service: Service, selector: LabelSelector, domain: Mapping[str, str], before: Counts, late: Collection[str]
) -> int:
    """Return how many of a service's own lost pods are late."""
    matches = {labels: selector.matches(labels) for labels in {pod.labels for pod in service.lost}}
    nodes = [pod.node for pod in service.lost if matches[pod.labels]]
    return sum(node in before.eligible.nodes and domain[node] in late for node in nodes if node is not None)


def _is_instant(service: Service, loss: Loss) -> bool:
    """Return whether no pod of a service is placed before the domains are those of the end.

    Silent nodes are tainted minutes before their pods are deleted; of nodes that are deleted one by one it is the last.
    """
    return not service.waiting and (loss.phase is Phase.SILENT or len(loss.nodes) == 1)


def is_spread_on(loss: Loss) -> bool:
    """Return whether the scheduler has the filter."""
    return is_on(PodTopologySpread, loss.before)
