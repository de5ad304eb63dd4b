"""Consequences of domains without nodes: workloads' skew if the domain had a node, and the pods lost with a domain.

kube-scheduler counts over domains with nodes only: 12 pods in zones a:6 b:6 satisfy maxSkew 1, although zone c exists.
With a node in c the skew is 6. Until then the constraint keeps the state that the scheduler sees, and this skew is
reported beside it.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rebalancer.assessment.known_domains import DomainKnowledge, KnownDomain, NodeNeeds, known_for
from rebalancer.assessment.spread_groups import SpreadGroup
from rebalancer.model.moves import Reference
from rebalancer.scheduling.pod_topology_spread import Counts, EligibleNodes
from rebalancer.scheduling.spread_constraints import Origin
from rebalancer.scheduling.view import View


class DomainWithoutNodes(Struct, frozen=True, kw_only=True, gc=False):
    """A domain without nodes that a constraint of some workloads would count.

    `skew` is the skew with a node there; `lost` of `total` counted pods are in the fullest domain.
    """

    workloads: tuple[Reference, ...]
    topology_key: str
    domain: KnownDomain
    max_skew: int
    skew: int
    lost: int
    total: int

    @property
    def would_violate(self) -> bool:
        """Whether the constraint would be violated if the domain had a node."""
        return self.skew > self.max_skew


def find_domains_without_nodes(
    constraints: Sequence[tuple[SpreadGroup, Counts]], view: View, knowledge: DomainKnowledge
) -> tuple[DomainWithoutNodes, ...]:
    """Return the domains that each constraint would count, in the constraints' order.

    The scheduler's default constraints are left out, because nobody has asked for them. Without knowledge of nodes the
    result is empty.
    """
    if "Node" in view.snapshot.unknown:
        return ()
    finder = _Finder(view, knowledge)
    return tuple(row for group, counts in constraints for row in finder.rows(group, counts))


class _Finder:
    """Finds the domains of one cluster; thousands of workloads have the same needs over the same nodes."""

    def __init__(self, view: View, knowledge: DomainKnowledge) -> None:
        self._view = view
        self._knowledge = knowledge
        self._known: dict[tuple[str, NodeNeeds, int], tuple[EligibleNodes, tuple[KnownDomain, ...]]] = {}

    def rows(self, group: SpreadGroup, counts: Counts) -> Iterator[DomainWithoutNodes]:
        """Yield the domains that one constraint would count."""
        constraint = counts.constraint
        if constraint.origin is Origin.DEFAULT or not counts.maximum:
            return
        for domain in self._find(constraint.key, NodeNeeds.of(group.sample), counts.eligible):
            yield DomainWithoutNodes(
                workloads=group.workloads,
                topology_key=constraint.key,
                domain=domain,
                max_skew=constraint.max_skew,
                skew=counts.maximum,
                lost=counts.maximum,
                total=sum(counts.by_node.values()),
            )

    def _find(self, key: str, needs: NodeNeeds, eligible: EligibleNodes) -> tuple[KnownDomain, ...]:
        place = key, needs, id(eligible)
        if place not in self._known:
            known = known_for(self._knowledge, key, frozenset({needs}), self._view, eligible.domains)
            self._known[place] = eligible, tuple(known.values())
        return self._known[place][1]
