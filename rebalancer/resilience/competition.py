"""What the services of a loss compete for: nodes, what these have left, and the rules on their pods, each made once.

Resources are whole numbers in the greatest common unit of all requests: solvers have tolerances. Services whose pods
may be placed on the same nodes share one set of these.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import Final

from rebalancer.model.facts import Fact
from rebalancer.model.labels import LabelSelector, Operator
from rebalancer.model.pods import Resources
from rebalancer.resilience.creation import find_stranded, find_uncreated
from rebalancer.resilience.exclusions import DependsOnPods, Exclusion, PortsInUse, find_exclusions
from rebalancer.resilience.left_there import NotDeleted
from rebalancer.resilience.loss import Loss, Service
from rebalancer.resilience.rules import Rule, find_rules, is_spread_on
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import admissible, is_on
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_ports import NodePorts, ports_conflict
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit, drop_ignored_resources
from rebalancer.scheduling.pod_topology_spread import constraints_of

_NOWHERE: Final = frozenset[str]()


class Competition:
    """The services of a loss, by number: `active` services have pods to place.

    `requests` are in the order of `resources`, and so are the free amounts of each node in `free`. Without the
    scheduler's filter there are no resources. `places` holds the nodes where each service's pods may be placed at any
    moment, and perhaps others. `creatable` counts the pods that a node could take. `unknown` says which pods of a
    service no bound from below counts.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss: Final = loss
        self.services: Final = loss.services
        self.active: Final = [number for number, service in enumerate(loss.services) if service.pending]
        self.index: Final = _Index(loss, self.active)
        self.nodes: Final = [node for node in loss.after.nodes.by_name if node not in loss.nodes]
        self._spread = is_spread_on(loss)
        self._everywhere = frozenset(self.nodes)
        self._sets: dict[object, frozenset[str]] = {self._everywhere: self._everywhere}
        self.places: Final = {number: self._find_places(self.services[number]) for number in self.active}
        self.rules: Final[dict[int, list[Rule]]] = {
            number: [*find_rules(self.services[number], loss)]
            if self._spread and self.services[number].unknown is None
            else []
            for number in self.active
        }
        self._counting_left = self._drop_rules_that_count_left()
        self.exclusions: Final[dict[int, Sequence[Exclusion]]] = {}
        self.unknown: Final[dict[int, Fact | None]] = {}
        self.creatable: Final[dict[int, int]] = {}
        self._find_exclusions()
        amounts = {number: _find_amounts(self.services[number], loss) for number in self.active}
        named = (
            {name for one in amounts.values() for name in one} if is_on(NodeResourcesFit, loss.after) else set[str]()
        )
        self.resources: Final = sorted(named)
        units = [gcd(*[one.get(name, 0) for one in amounts.values()]) for name in self.resources]
        self.requests: Final = {
            number: tuple(one.get(name, 0) // unit for name, unit in zip(self.resources, units, strict=True))
            for number, one in amounts.items()
        }
        self.free: Final = {
            node: tuple(have // unit for have, unit in zip(self._left_on(node), units, strict=True))
            for node in self.nodes
        }

    def _find_places(self, service: Service) -> frozenset[str]:
        after = self.loss.after
        if service.unknown is not None:
            return self._everywhere
        nodes = admissible(service.sample, after)
        keys = {one.key for one in constraints_of(service.sample, after).hard} if self._spread else set[str]()
        known = id(nodes), *sorted(keys)  # the view keeps the set
        if known not in self._sets:
            made = nodes - self.loss.nodes
            for key in keys:
                made = made.intersection(after.nodes.values(key))
            self._sets[known] = self._sets.setdefault(made, made)
        return self._sets[known]

    def _drop_rules_that_count_left(self) -> Mapping[int, Fact]:
        """Leave out the rules that count pods which may or may not stay: no bound holds in both cases."""
        # One pod of each kind that rules can tell apart: a DaemonSet has a pod on every node.
        there = {(pod.namespace, pod.labels): pod for pod in self.loss.left_there}.values()
        found: dict[int, Fact] = {}
        for number in self.active if there else ():
            if any(rule.counts(pod) for rule in self.rules[number] for pod in there):
                found[number] = NotDeleted()
                self.rules[number] = []
        return found

    def _find_exclusions(self) -> None:
        ports = PortsInUse(self.loss)
        repelling, uncreated = _find_repelling(self), find_uncreated(self.loss)
        for number in self.active:
            service = self.services[number]
            known = service.unknown is None
            self.exclusions[number] = [*find_exclusions(service.sample, self.loss, ports)] if known else []
            stranded = find_stranded(service, self.loss)
            available = len(service.lost) + service.waiting - (stranded.pods if stranded is not None else 0)
            self.creatable[number] = max(0, min(service.pending, available))
            self.unknown[number] = (
                service.unknown
                or self._counting_left.get(number)
                or stranded
                or uncreated.get(number)
                or self._find_dependence(number, repelling)
            )

    def _find_dependence(self, number: int, repelling: Mapping[int, Fact]) -> Fact | None:
        """Return which pods of a service have no lower bound."""
        sample = self.services[number].sample
        if sample.claims or sample.drivers:
            return DependsOnPods("volumes of their own")
        if sample.spec.pod_affinity.required and is_on(InterPodAffinity, self.loss.after):
            return DependsOnPods("required affinity to pods")
        if sample.nominated_node:
            return DependsOnPods("a place that they have preempted")
        return repelling.get(number)

    def _left_on(self, node: str) -> Iterable[int]:
        after = self.loss.after
        taker, used = after.nodes.by_name[node], after.used(node)
        have = _amounts(taker.allocatable) | {"pods": taker.pods}
        taken = {
            "pods": used.pods,
            "cpu": used.cpu,
            "memory": used.memory,
            "ephemeral-storage": used.ephemeral_storage,
            **used.extended,
        }
        return [max(0, have.get(name, 0) - taken.get(name, 0)) for name in self.resources]

    def counted(self, rule: Rule) -> Iterable[int]:
        """Yield the services whose replacements a rule counts."""
        for number in self.index.find(rule.selector, rule.namespace):
            if rule.counts(self.services[number].sample):
                yield number

    def is_alone(self, number: int) -> bool:
        """Return whether a service's rules count only its own replacements."""
        return all(other == number for rule in self.rules[number] for other in self.counted(rule))


def _find_repelling(competition: Competition) -> Mapping[int, Fact]:
    """Return why services have no lower bound: their places depend on where the replacements of others are."""
    found: dict[int, Fact] = {}
    after = competition.loss.after
    services = competition.services
    if is_on(InterPodAffinity, after):
        for number in competition.active:
            sample = services[number].sample
            for term in sample.spec.pod_affinity.anti_required:
                own = not term.namespaces and term.namespace_selector is None
                for other in competition.index.find(term.selector, sample.namespace if own else None):
                    if other != number and selects(term, sample.namespace, services[other].sample, after):
                        found[number] = found[other] = DependsOnPods("anti-affinity to pods of others that wait")
    with_ports = [number for number in competition.active if services[number].sample.spec.host_ports]
    by_port: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number in with_ports if is_on(NodePorts, after) else ():
        for port in services[number].sample.spec.host_ports:
            for other in by_port[port.protocol, port.port]:
                taken = services[other].sample.spec.host_ports
                if other != number and any(ports_conflict(port, one) for one in taken):
                    found[number] = found[other] = DependsOnPods("host ports that pods of others wait for, too")
            by_port[port.protocol, port.port].append(number)
    return found


class _Index:
    """Services by the labels of their next pods."""

    def __init__(self, loss: Loss, active: Sequence[int]) -> None:
        self._active = active
        self._inside: defaultdict[str, list[int]] = defaultdict(list)
        self._having: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for number in active:
            sample = loss.services[number].sample
            self._inside[sample.namespace].append(number)
            for key, value in sample.labels.items():
                self._having[sample.namespace, key, value].append(number)

    def find(self, selector: LabelSelector | None, namespace: str | None) -> Iterable[int]:
        """Return the services that a selector may match, in a namespace or in all."""
        if selector is None:
            return ()
        if namespace is None:
            return self._active
        for requirement in selector.requirements:
            if requirement.operator is Operator.IN:
                return {
                    number
                    for value in requirement.values
                    for number in self._having.get((namespace, requirement.key, value), ())
                }
        return self._inside[namespace]


def _find_amounts(service: Service, loss: Loss) -> dict[str, int]:
    return _amounts(drop_ignored_resources(service.sample.requests, loss.after.profile))


def _amounts(resources: Resources) -> dict[str, int]:
    named = {
        "cpu": resources.cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        **dict(resources.extended),
    }
    return {"pods": 1} | {name: amount for name, amount in named.items() if amount}
