"""What the scheduler's spread filter requires of the replacements of a loss, as numbers that hold at every moment."""

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
    """A hard constraint of a service."""

    key: str
    max_skew: int
    namespace: str
    selector: LabelSelector
    domain: Mapping[str, str]
    """The domain of each node with the constraint's key."""
    eligible: frozenset[str]
    """The nodes whose pods count."""
    base: Mapping[str, int]
    """The counted pods in each remaining domain, without any replacement."""
    filled: Mapping[str, int]
    """`base` without the domains that hold no pods."""
    least: int
    """The least count in the end, without replacements."""
    late: Mapping[str, int]
    """The pods on lost nodes in each remaining domain; they count until they are deleted."""
    itself: int
    """1 if the rule counts the service's own pods, else 0."""
    uncounted: int
    """Lost pods of the service that are not part of `late`."""
    always_floored: bool
    """The least count is 0 whenever a pod of the service is placed, because there are fewer domains than minDomains."""
    floored: bool
    """The least count is 0 in the end."""

    def counts(self, pod: Pod) -> bool:
        """Return whether the rule counts a pod that is on an eligible node."""
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
    """Return how many of a service's own lost pods are part of `late`."""
    matches = {labels: selector.matches(labels) for labels in {pod.labels for pod in service.lost}}
    nodes = [pod.node for pod in service.lost if matches[pod.labels]]
    return sum(node in before.eligible.nodes and domain[node] in late for node in nodes if node is not None)


def _is_instant(service: Service, loss: Loss) -> bool:
    """Return whether the final domains exist before any pod of a service is placed.

    Silent nodes are tainted minutes before their pods are deleted. If nodes are deleted one by one, the last domain is
    gone only with the last node.
    """
    return not service.waiting and (loss.phase is Phase.SILENT or len(loss.nodes) == 1)


def is_spread_on(loss: Loss) -> bool:
    """Return whether the scheduler has the filter."""
    return is_on(PodTopologySpread, loss.before)
