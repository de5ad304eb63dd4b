"""Domains that take at most one pod of a service, or none: required anti-affinity, and host ports.

Pods that are there in the end close their domains for good. While nodes are silent, their terminating pods are still
there for anti-affinity; once the nodes are gone they are not.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from rebalancer.model.facts import Fact
from rebalancer.model.pods import HostPort, Pod
from rebalancer.resilience.loss import Loss
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_ports import NodePorts, ports_conflict


class DependsOnPods(Fact):
    """The places of its pods depend on single nodes or other pods in ways that no bound covers."""

    what: str

    def __str__(self) -> str:
        return f"its pods have {self.what}, so none of them is certain to find a node again"


class Exclusion(NamedTuple):
    """Domains of a key, by node, that take one pod of a service at most; the remaining pods have closed some of them.

    `itself`: each pod of the service closes its domain. The key is "" where each node is a domain.
    """

    key: str
    domain: Mapping[str, str]
    closed: frozenset[str]
    itself: bool


class PortsInUse:
    """The host ports in use by node, looked up when first needed."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    @cached_property
    def domain(self) -> Mapping[str, str]:
        """Each node, as a domain."""
        return {node: node for node in self._loss.after.nodes.by_name}

    @cached_property
    def _by_port(self) -> Mapping[tuple[str, int], Mapping[str, set[HostPort]]]:
        found: defaultdict[tuple[str, int], defaultdict[str, set[HostPort]]] = defaultdict(lambda: defaultdict(set))
        for placed in self._loss.after.placed_pods():
            for port in placed.pod.spec.host_ports:
                if placed.node is not None:
                    found[port.protocol, port.port][placed.node].add(port)
        return found

    def find_taken(self, pod: Pod) -> frozenset[str]:
        """Return the nodes on which a port that a pod wants is in use."""
        return frozenset(
            node
            for wanted in pod.spec.host_ports
            for node, ports in self._by_port.get((wanted.protocol, wanted.port), {}).items()
            if any(ports_conflict(wanted, taken) for taken in ports)
        )


def find_exclusions(sample: Pod, loss: Loss, ports: PortsInUse) -> Iterator[Exclusion]:
    """Yield what keeps the next pod of a service out of whole domains."""
    after = loss.after
    if sample.spec.host_ports and is_on(NodePorts, after):
        yield Exclusion("", ports.domain, ports.find_taken(sample), itself=True)
    if not is_on(InterPodAffinity, after):
        return
    present = loss.before if loss.lasts else after
    terms = sample.spec.pod_affinity.anti_required
    if not terms and not any(True for _ in present.repelling(sample)):
        return
    affinity, values = InterPodAffinity(sample, present), present.nodes.values
    for term, (key, closed) in zip(terms, affinity.avoided, strict=True):
        yield Exclusion(key, values(key), closed, selects(term, sample.namespace, sample, present))
    for key, closed in affinity.blocked.items():
        yield Exclusion(key, values(key), closed, itself=False)
