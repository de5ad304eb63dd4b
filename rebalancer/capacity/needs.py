"""Which repairs lack nothing but capacity, and which placeholders would bring it.

Two kinds of domains come into question: those without nodes in which a constraint would be violated with one, and
those whose nodes are full. Nodes are supposed there, and the repair is rehearsed; if it succeeds, capacity is all it
lacks. With constraints on host names the fewest nodes that do are supposed, and no more pods are to share one.

The whole repair on supposed nodes: how many evictions it takes, and which pods end on the supposed nodes.

Problem: how much capacity does a repair need, and where, if nobody knows yet what the planner will do with it? Idea:
plan, carry the step out on paper, plan again, until nothing is left; whatever node the scheduler picks in truth, a
forced step leads to a state from which the repair goes on. Example: zones a:6 b:6 and one supposed node in c; the plan
evicts two of each, and all four end on the supposed node. Bound: a plan of one component for each step, at most
`_MOST_STEPS`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.controllers import members
from rebalancer.assessment.known_domains import DomainKnowledge, KnownDomain, NodeNeeds
from rebalancer.capacity.supposed import is_supposed, suppose_nodes
from rebalancer.engine import evaluate
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import DomainName, Memory, Reference, make_token
from rebalancer.model.nodes import HOSTNAME, Node
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import Pod, PodPhase, Resources
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.obstacles import NoCapacity
from rebalancer.planning.plan import ComponentPlan, Eviction, Plan
from rebalancer.planning.scope.capacity import repels_own_class
from rebalancer.planning.scope.requirements import is_acted_on
from rebalancer.policy import LimitAction, Policy
from rebalancer.scheduling.place import candidate_nodes, most_likely
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_MOST_STEPS: Final = 40


class Rehearsal(Struct, frozen=True, kw_only=True):
    """A repair that supposed nodes make possible: its evictions, and the pods that end on them, by the node's name.

    `first` are the evictions that the first plan decided, `component` the name of what it repairs.
    """

    component: str
    workloads: tuple[Reference, ...]
    evictions: int
    placed: tuple[tuple[str, Pod], ...]
    first: tuple[Eviction, ...]


# Many branches: each step may be the last, in several ways.
def rehearse(
    view: View,
    nodes: Collection[Node],
    workloads: Collection[Reference],
    policy: Policy,
    memory: Memory,
) -> tuple[Rehearsal | Refusal | None, datetime]:
    """Repair the component of some workloads with these nodes besides; None where nothing would be repaired.

    A refusal says what else than capacity the repair lacks. The time is until when another rehearsal gives the same.
    """
    snapshot = replace(view.snapshot, nodes=(*view.snapshot.nodes, *nodes))
    evictions = 0
    first: Plan | None = None
    component: ComponentPlan | None = None
    valid_until = ALWAYS
    for _ in range(_MOST_STEPS):
        evaluation = evaluate(snapshot, policy, profile=view.profile, memory=memory, only=workloads)
        valid_until = min(valid_until, evaluation.valid_until)
        made, state = evaluation.plan, evaluation.view
        group = made.components[0] if made.components else None
        if group is None:
            break
        if first is None:
            first, component = made, group
        victims = [*made.evictions, *(waiting.eviction for waiting in made.waiting)]
        if not victims:
            return group.refusal, valid_until
        following = _carry_out(state, victims)
        if following is None:
            return None, valid_until
        snapshot, evictions = following, evictions + len(victims)
    else:
        return None, valid_until
    if first is None or component is None:
        return None, valid_until
    owners = {eviction.owner_uid for eviction in first.evictions} | {
        waiting.eviction.owner_uid for waiting in first.waiting
    }
    rehearsal = Rehearsal(
        component=component.name,
        workloads=component.workloads,
        evictions=evictions,
        placed=tuple(
            (pod.node, pod)
            for pod in snapshot.pods
            if pod.node is not None and is_supposed(pod.node) and pod.owner is not None and pod.owner.uid in owners
        ),
        first=(*first.evictions, *(waiting.eviction for waiting in first.waiting)),
    )
    return rehearsal, valid_until


def _carry_out(view: View, evictions: Collection[Eviction]) -> Snapshot | None:
    """Return the snapshot after a step: the pods run where they are most likely placed; None where one is not."""
    uids = {eviction.pod.uid for eviction in evictions}
    state = view.without([eviction.pod for eviction in evictions])
    moved: dict[str, Pod] = {}
    for eviction in evictions:
        new = replacement(eviction.pod, view)
        if isinstance(new, Unpredictable):
            return None
        chosen = candidate_nodes(new, state, most_likely).chosen
        if not chosen:
            return None
        node = next(iter(chosen))
        state = state.with_placed(new, node)
        # It counts as settled: how long the repair takes is not the question.
        moved[eviction.pod.uid] = structs.replace(
            eviction.pod, labels=new.labels, spec=new.spec, requests=new.requests, node=node, phase=PodPhase.RUNNING
        )
    pods = tuple([moved[pod.uid] if pod.uid in uids else pod for pod in view.snapshot.pods])
    return replace(view.snapshot, pods=pods)


_NODES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
"""Numbers of nodes that are supposed in turn where constraints count by node."""


class Candidate(Struct, frozen=True, kw_only=True):
    """Workloads that are repaired together, and the domains of one key in which capacity might be all they lack."""

    token: str
    workloads: tuple[Reference, ...]
    key: str
    domains: tuple[KnownDomain, ...]
    sample: Pod
    keys: frozenset[str]
    by_node: bool

    @property
    def names(self) -> tuple[DomainName, ...]:
        """The domains by name."""
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
    """Return the workloads for which capacity in a domain may be all that a repair lacks, the worst first."""
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
    if not isinstance(cause, NoCapacity):
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
    """The result of a rehearsal, and until when another one gives the same."""

    need: Need | None
    holds_until: datetime


def find_need(candidate: Candidate, view: View, policy: Policy, memory: Memory) -> RehearsedNeed:
    """Rehearse a candidate's repair; the need is None where capacity is not all that it lacks."""
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
