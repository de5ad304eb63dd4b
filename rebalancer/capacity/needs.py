"""Finds repairs that lack only capacity, and the placeholders that would bring it.

Two kinds of domains are candidates: domains without nodes in which a node would make a constraint violated, and domains
whose nodes are full. Nodes are supposed there, and the repair is rehearsed. If it succeeds, it lacks only capacity.
With constraints on host names, only the fewest sufficient nodes are supposed, and no further pods may share a node.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.controllers import members
from rebalancer.assessment.known_domains import DomainKnowledge, KnownDomain, NodeNeeds
from rebalancer.capacity.rehearsal import Rehearsal, rehearse
from rebalancer.capacity.supposed import suppose_nodes
from rebalancer.model.labels import Labels
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import DomainName, Memory, Reference, make_token
from rebalancer.model.nodes import HOSTNAME, Node
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.reasons import State
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.planning.scope.capacity import repels_own_class
from rebalancer.planning.scope.requirements import is_acted_on
from rebalancer.policy import LimitAction, Policy
from rebalancer.scheduling.view import View

_NODES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
"""Numbers of nodes that are supposed in turn if constraints count by node."""


class Candidate(Struct, frozen=True, kw_only=True):
    """Workloads that are repaired together, and domains of one key that may lack only capacity."""

    token: str
    workloads: tuple[Reference, ...]
    key: str
    domains: tuple[KnownDomain, ...]
    sample: Pod
    keys: frozenset[str]
    by_node: bool

    @property
    def names(self) -> tuple[DomainName, ...]:
        return tuple(DomainName(self.key, domain.value) for domain in self.domains)


class Need(Struct, frozen=True, kw_only=True):
    """A repair that lacks nothing but capacity: its evictions, and the placeholders that would bring it."""

    candidate: Candidate
    evictions: int
    placeholders: tuple[Placeholder, ...]
    first: tuple[Eviction, ...]

    @property
    def requests(self) -> Resources:
        """What all placeholders together request of CPU and memory."""
        return Resources(
            cpu=sum(placeholder.requests.cpu for placeholder in self.placeholders),
            memory=sum(placeholder.requests.memory for placeholder in self.placeholders),
        )


def find_candidates(
    view: View, assessment: Assessment, made: Plan, policy: Policy, memory: Memory
) -> tuple[Candidate, ...]:
    """Return the workloads whose repair may lack only capacity in a domain, the worst first."""
    if "Node" in view.snapshot.unknown:
        return ()
    knowledge = DomainKnowledge.of(view, policy, memory)
    if not knowledge.knows_more:
        return ()
    finder = _Finder(view, assessment, knowledge)
    candidates: dict[str, Candidate] = {}
    rows = [row for row in assessment.domains_without_nodes if row.would_violate and row.domain.counts]
    for row in sorted(rows, key=lambda row: (row.max_skew - row.skew, row.workloads)):
        alike = [other for other in rows if other.workloads == row.workloads and other.topology_key == row.topology_key]
        values = {other.domain.value for other in alike}
        finder.add(candidates, row.workloads, row.topology_key, values)
    for group in made.components:
        for key, values in _full_domains(group):
            finder.add(candidates, group.workloads, key, values)
    for workloads, key in _limits_for_a_further_domain(assessment):
        finder.add(candidates, workloads, key, None)
    return tuple(candidates.values())


def _limits_for_a_further_domain(assessment: Assessment) -> Iterator[tuple[tuple[Reference, ...], str]]:
    """Yield workloads and key of the limits that only a domain without nodes can satisfy."""
    for limit in assessment.limits:
        if limit.action is LimitAction.EVICT and limit.state is State.UNFIXABLE and limit.possible > limit.existing:
            yield tuple(sorted({part.member.reference for part in limit.parts})), limit.topology_key


def _full_domains(group: ComponentPlan) -> Iterator[tuple[str, set[str]]]:
    """Yield the domains whose nodes lack capacity by key; where the plan names none, the emptiest of each key."""
    cause = group.refusal
    if not isinstance(cause, NodesTakeNoMore):
        return
    if cause.key:
        yield cause.key, set(cause.domains)
        return
    for evaluated in group.groups:
        for constraint in evaluated.hard:
            counts = constraint.counts.by_domain
            if constraint.counts.violated:
                least = min(counts.values())
                yield constraint.constraint.key, {value for value, count in counts.items() if count == least}


class _Finder:
    """Makes candidates from workloads and domains."""

    def __init__(self, view: View, assessment: Assessment, knowledge: DomainKnowledge) -> None:
        self._view = view
        self._assessment = assessment
        self._knowledge = knowledge
        self._samples = {member.reference: member.sample for member in members(view) if member.owner is not None}

    def add(
        self, candidates: dict[str, Candidate], workloads: tuple[Reference, ...], key: str, values: set[str] | None
    ) -> None:
        """Add a candidate, unless its workloads have one or no node may be requested for them.

        `values` are the domains that need capacity, None: those without nodes.
        """
        token = make_token("\n".join(map(str, workloads)))
        sample = next((self._samples[name] for name in workloads if self._samples.get(name) is not None), None)
        if token in candidates or sample is None:
            return
        carried = self._view.nodes.values(key).values()
        requestable = self._knowledge.requestable(key, NodeNeeds.of(sample), carried)
        wanted = requestable.keys() - set(carried) if values is None else values & requestable.keys()
        domains = tuple(requestable[value] for value in sorted(wanted))
        if not domains:
            return
        keys = frozenset(self._keys_of(workloads))
        by_node = HOSTNAME in keys or repels_own_class(sample, self._view)
        candidates[token] = Candidate(
            token=token,
            workloads=workloads,
            key=key,
            domains=domains,
            sample=sample,
            keys=keys | {key},
            by_node=by_node,
        )

    def _keys_of(self, workloads: tuple[Reference, ...]) -> Iterator[str]:
        """Yield the topology keys on which a node needs a value to be eligible."""
        for group in self._assessment.groups:
            if not set(group.spread.workloads).isdisjoint(workloads):
                yield from (evaluated.constraint.key for evaluated in group.hard)
        for limit in self._assessment.limits:
            if is_acted_on(limit) and any(part.member.reference in workloads for part in limit.parts):
                yield limit.topology_key


class RehearsedNeed(Struct, frozen=True):
    """The result of a rehearsal, and until when it is valid."""

    need: Need | None
    holds_until: datetime


def find_need(candidate: Candidate, view: View, policy: Policy, memory: Memory) -> RehearsedNeed:
    """Rehearse a candidate's repair; the need is None if the repair lacks anything besides capacity."""
    holds_until = ALWAYS
    for number in _NODES if candidate.by_node else _NODES[:1]:
        if number > policy.capacity.max_pods:
            break
        nodes: list[Node] = []
        for domain in candidate.domains:
            supposed = suppose_nodes(candidate.sample, candidate.keys, candidate.key, domain, view, number)
            if supposed is None:
                return RehearsedNeed(None, holds_until)
            nodes += supposed
        rehearsal, valid_until = rehearse(view, nodes, candidate.workloads, policy, memory)
        holds_until = min(holds_until, valid_until)
        if isinstance(rehearsal, Rehearsal) and rehearsal.placed:
            values = {node.name: node.labels[candidate.key] for node in nodes}
            return RehearsedNeed(_make_need(candidate, rehearsal, values), holds_until)
    return RehearsedNeed(None, holds_until)


def _make_need(candidate: Candidate, rehearsal: Rehearsal, values: Mapping[str, str]) -> Need:
    on_node = Counter(node for node, _ in rehearsal.placed)
    per_node = max(on_node.values()) if candidate.by_node else 0
    in_domain = Counter(values[node] for node, _ in rehearsal.placed)
    placeholders = tuple(
        _make_placeholder(candidate, number, pod, values[node], (per_node, in_domain[values[node]]))
        for number, (node, pod) in enumerate(rehearsal.placed, start=1)
    )
    return Need(candidate=candidate, evictions=rehearsal.evictions, placeholders=placeholders, first=rehearsal.first)


def _make_placeholder(candidate: Candidate, number: int, pod: Pod, value: str, spread: tuple[int, int]) -> Placeholder:
    """Make the placeholder of a pod; `spread` is how many may share a node, and how many are in the domain."""
    per_node, total = spread
    affinity = pod.spec.node_affinity
    selector = Labels({**affinity.selector, candidate.key: value})
    return Placeholder(
        name=f"{candidate.token}-{number}",
        token=candidate.token,
        requests=pod.spec.requests,
        node_affinity=structs.replace(affinity, selector=selector, preferred=()),
        tolerations=pod.spec.tolerations,
        scheduler=pod.spec.scheduler,
        per_node=per_node,
        nodes=-(-total // per_node) if per_node else 0,
    )
