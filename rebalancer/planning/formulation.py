"""From a component to a problem that can be solved, or the reason why the whole component is refused.

A problem is single-class if all pods are of one class with equal hard constraints, and all requirements count the same
pods over topology keys that nest. Then counting is enough. Everything else is multi-class, including components that
repair a term of podAntiAffinity.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from msgspec import structs

from rebalancer.assessment.controllers import PodController, find_reference, members
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import BEING_REMOVED
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.quantities import format_amount
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import OPTIONAL
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import name_list
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.diagnosis.closed_nodes import Explanations
from rebalancer.planning.multi_class.classes import PodClassesBuilder, spans_domains
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.protocol import Infeasible, Problem
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.bounds import FREE, Bound
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import (
    CapacityIndex,
    NodeCapacity,
    ReservedCapacity,
    has_countable_affinity,
)
from rebalancer.planning.scope.components import Component, find_joined
from rebalancer.planning.scope.eligibility import EligibilityChecker, PodsReplaced
from rebalancer.planning.scope.forthcoming import Forthcoming, ForthcomingPod
from rebalancer.planning.scope.movable import PodPartitioner, VolumePinned
from rebalancer.planning.scope.owners import CreationFails, PodsTerminating
from rebalancer.planning.scope.requirements import Requirement, requirement_of_limit, requirements_of_group
from rebalancer.planning.scope.topology import NODE_LEVEL, Topologies
from rebalancer.planning.scope.victims import RankedPods
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.search.shares import CellShares
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds
from rebalancer.policy import Policy
from rebalancer.scheduling.affinity_terms import find_namespaces
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_Levels = tuple[tuple[str, ...], Bounds]
"""The keys from the coarsest on, and the bound of each."""


class ObjectUnreadable(Refusal):
    """An object that could count as a pod, or forbid an eviction, could not be read."""

    reason = Reason.NOT_PREDICTABLE
    fault: str

    def __str__(self) -> str:
        return f"an object that may matter could not be read: {self.fault}"


class OthersUncreated(Refusal):
    """Another owner has still to create pods that the constraints count."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when {self.owner} has created its pods"
    owner: str

    def __str__(self) -> str:
        return f"{self.owner} has yet to create pods that the constraints also count"


class OthersPending(Refusal):
    """A pod of another workload that the constraints also count has no node yet."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when pod {self.pod} has a node"
    pod: str

    def __str__(self) -> str:
        return f"pod {self.pod} of another workload, which the constraints also count, is pending"


class MayBePreempted(Refusal):
    """A pending pod of another workload, which no node admits, is about to preempt a pod of the component."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when {self.preemptor} has a node"
    pod: str
    node: str
    preemptor: str

    def __str__(self) -> str:
        waits = "which is pending and fits nowhere else"
        return f"pod {self.pod} may be preempted on {self.node} by {self.preemptor}, {waits}"


class PodsNodeBeingRemoved(Refusal):
    """An autoscaler is removing the node of a pod and will evict the pod."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} or its taint {self.taint} is gone"
    node: str
    pod: str
    taint: str

    def __str__(self) -> str:
        return (
            f"an autoscaler is removing node {self.node} of pod {self.pod} (taint {self.taint}); waiting until it is "
            "gone"
        )


class NotItsConstraint(Refusal):
    """Only constraints of other workloads count this workload's pods; it has no constraints itself."""

    reason = Reason.NOT_EVICTABLE

    def __str__(self) -> str:
        return (
            "only constraints of other workloads count its pods, and its pods are not moved for them. Give it the same "
            "constraint, or narrow the selectors of the others"
        )


class OwnPodsNotSelected(Refusal):
    """A constraint's selector does not match the workload's own pods."""

    reason = Reason.NOT_PREDICTABLE

    def __str__(self) -> str:
        return "a constraint's selector does not match the workload's own pods"


class RequestsUncertain(Refusal):
    """A replacement's requests are uncertain, and a node can hold more pods of one possible size than of another.

    `least` and `most` are the possible amounts, for the resources in which these differ.
    """

    reason = Reason.NOT_PREDICTABLE
    owner: str
    least: tuple[tuple[str, int], ...]
    most: tuple[tuple[str, int], ...]
    node: str

    def __str__(self) -> str:
        ranges = [
            f"between {format_amount(name, small)} and {format_amount(name, large)} of {name}"
            for (name, small), (_, large) in zip(self.least, self.most, strict=True)
        ]
        return (
            f"a new pod of {self.owner} will request {name_list(ranges)}: its template, its namespace and its newest "
            f"pod say different things. Whether node {self.node} has room depends on that"
        )


class ProblemBuilder:
    """Makes the problems of one view, under one policy, one budget ledger and one capacity index."""

    def __init__(
        self,
        view: View,
        policy: Policy,
        ledger: BudgetLedger,
        capacities: CapacityIndex,
        cache: SearchCache,
        avoided: frozenset[str] = frozenset(),
        arriving: frozenset[str] = frozenset(),
        namespaces: Collection[str] = (),
    ) -> None:
        """Take the UIDs of the pods that are victims of last resort as `avoided`.

        `arriving` are the UIDs of replacements that are not Ready yet, `namespaces` the namespaces with something to
        repair.
        """
        self.view = view
        self.policy = policy
        self._ledger = ledger
        self._capacities = capacities
        self._cache = cache
        self._eligibility = EligibilityChecker(view.snapshot, policy, view.clock, arriving)
        self._topologies = Topologies(view)
        self._partitioner = PodPartitioner(view, self._eligibility, ledger, avoided)
        shares = CellShares(cache.limits.cells_of_namespace)
        self._classes = PodClassesBuilder(view, capacities, self._partitioner, shares)
        self._namespaces = sorted(namespaces)
        self._work: dict[str, SearchBudget] = {}
        self._levels_of: dict[Hashable, _Levels | None] = {}
        self._explanations = Explanations(cache.limits.diagnosis_nodes_of_plan)

    def problem(self, component: Component) -> Problem | Refusal | None:
        """Make the component's problem, or return why the whole component is refused.

        None if there are no requirements, for example for a workload without constraints whose pod waits for capacity:
        no eviction repairs that.
        """
        requirements = self._requirements(component)
        if not requirements and not component.apart:
            return None
        refusals = [self._eligibility.refuse_controller(member) for member in component.members]
        if len(component.groups) + len(component.limits) + len(component.apart) > 1:
            concerned = {member.reference for member in self._find_concerned(component)}
            refusals = [
                refusal or (None if member.reference in concerned else NotItsConstraint())
                for member, refusal in zip(component.members, refusals, strict=True)
            ]
        refusal = self._refuse_unreadable(component) or _refuse_rollout(refusals) or self._refuse_drained(component)
        if refusal is not None:
            return refusal
        refusal = _refuse_self_missing(component) or self._refuse_others_pending(component, requirements)
        if refusal is not None:
            return refusal
        refusal = self._refuse_preempted(component) or self._refuse_uncertain(component)
        if refusal is not None:
            return refusal
        if component.apart:
            return self._multi_class(component, refusals, requirements)
        sample = only_class(component.members)
        levels = None
        if sample is not None and has_countable_affinity(sample, self.view):
            levels = self._levels(requirements)
        if sample is None or levels is None or _have_several_bounds(component.members, requirements[0]):
            return self._multi_class(component, refusals, requirements)
        return self._single_class(component, refusals, requirements, sample, levels)

    def _find_concerned(self, component: Component) -> Iterator[PodController]:
        """Yield the owners with requirements: by their own constraints, or by limits over their pods."""
        soft = WhenUnsatisfiable.SCHEDULE_ANYWAY in self.policy.spread.act_on
        for group in component.groups:
            if group.hard or (soft and group.soft):
                yield from group.spread.members
        for limit in component.limits:
            yield from (part.member for part in limit.parts)
        for term in component.apart:
            yield from find_joined(term)

    def refuse_eviction(self, pod: Pod, member: PodController) -> Refusal | None:
        """Return why a pod must not be evicted for any purpose; budgets are not asked here."""
        return (
            self._eligibility.refuse_controller(member)
            or self._eligibility.refuse_pod(pod)
            or self._ledger.refusal(pod)
        )

    def _requirements(self, component: Component) -> tuple[Requirement, ...]:
        act_on = self.policy.spread.act_on
        constraints = [
            requirement for group in component.groups for requirement in requirements_of_group(group, self.view, act_on)
        ]
        return (*constraints, *(requirement_of_limit(limit, self.view) for limit in component.limits))

    def _single_class(
        self,
        component: Component,
        refusals: Sequence[Refusal | None],
        requirements: tuple[Requirement, ...],
        sample: Pod,
        levels: _Levels,
    ) -> Problem | Refusal:
        # Volumes restrict single pods, not the group, so each pod's reachable nodes are examined separately.
        bare = structs.replace(sample, claims=()) if sample.claims else sample
        capacity = self._capacities.capacity_for(bare, component.pods)
        # All requirements count the same pods, so the first requirement tells which.
        first, workload = requirements[0], component.workloads[0]

        def counts(labels: Labels) -> bool:
            return first.counts(labels, workload)

        pods = self._partitioner.partition(component.members, refusals, capacity.nodes, counts)
        if isinstance(pods, Refusal):
            return pods
        useful = _most_useful(requirements, sum(first.counted.values()) + pods.missing)
        owners = [member.owner.uid for member in component.members if member.owner is not None]
        reserved, lost = set_aside(capacity, self._capacities.reserved(capacity, bare, owners), useful)
        keys, bounds = levels
        topology = self._topologies.topology(first.nodes, keys)
        problem = SingleClassProblem(
            component=component,
            requirements=requirements,
            layout=Layout(topology, bounds, first.counted, pods.ranked, capacity, reserved, useful, self._cache),
            pods=pods,
            sample=bare,
            capacity=capacity,
            lost=lost,
            view=self.view,
            cache=self._cache,
            explanations=self._explanations,
        )
        return self._move_within_reach(problem, refusals) or problem

    def _move_within_reach(
        self, problem: SingleClassProblem, refusals: Sequence[Refusal | None]
    ) -> MultiClassProblem | None:
        """Return the problem in which pods whose volumes reach only some domains move, too; None if that does not help.

        Pods whose volumes reach other nodes form classes of their own.
        """
        requirements, layout, pending = problem.requirements, problem.layout, problem.pods.missing
        tied = [
            (pod, member)
            for pod, member, refusal in problem.pods.refused
            if isinstance(refusal, VolumePinned) and spans_domains(self._partitioner.reach(pod), requirements)
        ]
        if not tied:
            return None
        ranked = problem.pods.ranked
        every = RankedPods([*ranked.pods, *[pod for pod, _ in tied]], tied[0][1])
        fewest = min_evictions(layout.with_ranked(every).root, layout.bounds, pending, self._cache)
        without = min_evictions(layout.root, layout.bounds, pending, self._cache)
        # If counting shows that equally few evictions of other pods certainly repair the component, no search is
        # needed.
        if fewest is None or (fewest == without and problem.certified_step().step is not None):
            return None
        divided = self._multi_class(problem.component, refusals, requirements)
        if isinstance(divided, Refusal) or isinstance(divided.minimum(), Infeasible):
            return None
        return divided

    def _multi_class(
        self, component: Component, refusals: Sequence[Refusal | None], requirements: tuple[Requirement, ...]
    ) -> MultiClassProblem | Refusal:
        classes = self._classes.build(component, refusals, requirements)
        if isinstance(classes, Refusal):
            return classes
        limits = replace(self._cache.limits, namespace_work=self._grant_work(component.namespace))
        cache = self._cache.within(limits)
        return MultiClassProblem(classes=classes, view=self.view, cache=cache, explanations=self._explanations)

    def _grant_work(self, namespace: str) -> SearchBudget:
        """Return the solver work left to a namespace: little while others have repairs, except in its turn."""
        if namespace not in self._work:
            limits, several = self._cache.limits, self._namespaces
            alone = len(several) < 2 or several[self.view.clock.minute() % len(several)] == namespace
            self._work[namespace] = SearchBudget(limits.work_of_namespace if alone else limits.work_among_others)
        return self._work[namespace]

    def _refuse_unreadable(self, component: Component) -> Refusal | None:
        """Refuse where an object could not be read: any node, or an object of the component's namespace."""
        for fault in self.view.snapshot.faults:
            if fault.kind in OPTIONAL:  # these kinds do not decide where pods may be placed
                continue
            if fault.kind == "Node" or fault.namespace in {"", *component.namespaces}:
                return ObjectUnreadable(str(fault))
        return None

    @cached_property
    def _being_removed(self) -> Mapping[str, str]:
        """The nodes that an autoscaler is removing, each with the taint that shows it."""
        return {
            node.name: taint.key
            for node in self.view.snapshot.nodes
            for taint in node.taints
            if taint.key in BEING_REMOVED
        }

    def _refuse_drained(self, component: Component) -> Refusal | None:
        """Refuse while an autoscaler removes a node of the component, because it evicts pods and changes the counts."""
        if not self._being_removed:
            return None
        for pod in component.pods:
            taint = self._being_removed.get(pod.node or "")
            if taint is not None:
                return PodsNodeBeingRemoved(pod.node or "", pod.name, taint)
        return None

    @cached_property
    def _forthcoming(self) -> Mapping[str, Forthcoming]:
        """Pods that owners have still to create, then pending pods, by namespace."""
        found: defaultdict[str, list[ForthcomingPod]] = defaultdict(list)
        snapshot = self.view.snapshot
        living = {member.owner.uid: len(member.pods) for member in members(self.view) if member.owner is not None}
        for owner in snapshot.workloads:
            template = owner.template
            missing = owner.replicas > living.get(owner.uid, 0)
            if missing and template is not None and not snapshot.creates_no_pods(owner):
                workload = reference_of(snapshot.top_of(owner))
                refusal = OthersUncreated(str(owner))
                terms = template.spec.pod_affinity.anti_required
                found[owner.namespace].append(ForthcomingPod(owner.uid, template.labels, workload, refusal, terms))
        for pod in snapshot.queued:
            workload = find_reference(pod, self.view)
            terms = pod.spec.pod_affinity.anti_required
            found[pod.namespace].append(ForthcomingPod(pod.uid, pod.labels, workload, OthersPending(pod.name), terms))
        return {namespace: Forthcoming(pods) for namespace, pods in found.items()}

    def _refuse_others_pending(self, component: Component, requirements: Sequence[Requirement]) -> Refusal | None:
        """Refuse while a pod of another workload that would change the counts is still to come."""
        if not self._forthcoming:
            return None
        owners = {member.owner.uid for member in component.members if member.owner is not None}
        own = owners.union(pod.uid for member in component.members for pod in member.pods)
        known = self._forthcoming.get(component.namespace)
        refusal = known.find_counted(requirements, own) if known is not None else None
        return refusal or self._refuse_conflicting(component, own)

    def _refuse_conflicting(self, component: Component, own: Collection[str]) -> Refusal | None:
        """Refuse while a pod is to come that a term of the component keeps out of a domain where it may be placed."""
        for term in component.apart:
            for namespace in find_namespaces(term.term, term.namespace, self.view) | {term.namespace}:
                known = self._forthcoming.get(namespace)
                if known is not None and (refusal := known.find_concerned(term, own, self.view)) is not None:
                    return refusal
        return None

    def _refuse_preempted(self, component: Component) -> Refusal | None:
        """Refuse while a pending pod of another workload is about to preempt a pod of the component.

        The component's own pending pods are part of its problem.
        """
        victims = self._capacities.preempting.victims
        if not victims:
            return None
        own = {pod.uid for member in component.members for pod in member.pods}
        for pod in component.pods:
            preemptor = victims.get(pod.uid)
            if preemptor is not None and preemptor.uid not in own:
                return MayBePreempted(pod.name, pod.node or "", str(preemptor))
        return None

    def _refuse_uncertain(self, component: Component) -> Refusal | None:
        """Refuse if a replacement's requests are uncertain and decide which nodes have capacity for it.

        There must be capacity for the largest size, and the scheduler may choose any node with capacity for the
        smallest.
        """
        pods = component.pods
        for member in component.members:
            largest = member.next_pod
            if isinstance(largest, Unpredictable) or largest.least is None:
                continue
            assert member.owner is not None
            large = structs.replace(largest, claims=())
            small = structs.replace(large, spec=structs.replace(large.spec, requests=largest.least))
            # The capacity that the component's own pods use may be free when a replacement comes.
            room, more_room = (self._capacities.emptied(pod, pods) for pod in (large, small))
            for node, places in more_room.items():
                if room.get(node, 0) < min(places, len(pods)):
                    return _describe_range(member.owner, largest.least, largest.spec.requests, node)
        return None

    def _levels(self, requirements: Sequence[Requirement]) -> _Levels | None:
        """Order the keys from the coarsest on; return the levels' keys and bounds, down to the nodes.

        If nodes share domains of the last key, the nodes are one more level, without a bound. None if the requirements
        count different pods or nodes, or the keys do not nest.
        """
        first = requirements[0]
        for other in requirements[1:]:
            if not self._topologies.equal(first.nodes, other.nodes) or not _are_same(other.counted, first.counted):
                return None
        # Thousands of workloads have equal requirements: the answer is stored.
        terms = first.nodes, tuple([requirement.terms for requirement in requirements])
        if terms not in self._levels_of:
            self._levels_of[terms] = self._order_levels(requirements)
        return self._levels_of[terms]

    def _order_levels(self, requirements: Sequence[Requirement]) -> _Levels | None:
        first = requirements[0]
        ordered = sorted(dict.fromkeys((requirement.domains, requirement.key) for requirement in requirements))
        keys = tuple(key for _, key in ordered)
        if len(set(keys)) < len(keys) or self._topologies.crossing(first.nodes, keys) is not None:
            return None
        bounds = tuple(
            Bound.strictest(requirement.bound for requirement in requirements if requirement.key == key) for key in keys
        )
        if ordered[-1][0] == len(first.nodes):
            return keys, bounds
        return (*keys, NODE_LEVEL), (*bounds, FREE)


def _describe_range(owner: Workload, least: Resources, most: Resources, node: str) -> RequestsUncertain:
    small, large = (
        {"cpu": one.cpu, "memory": one.memory, "ephemeral-storage": one.ephemeral_storage, **dict(one.extended)}
        for one in (least, most)
    )
    names = [name for name in large if small.get(name, 0) != large[name]]
    return RequestsUncertain(
        str(owner),
        tuple([(name, small.get(name, 0)) for name in names]),
        tuple([(name, large[name]) for name in names]),
        node,
    )


def _are_same(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return one is other or one == other


def _refuse_rollout(refusals: Sequence[Refusal | None]) -> Refusal | None:
    """Refuse components with an owner that is being scaled or rolled out, or that cannot replace its pods."""
    for refusal in refusals:
        changing = refusal is not None and refusal.reason is Reason.ROLLOUT_IN_PROGRESS
        if changing or isinstance(refusal, CreationFails | PodsReplaced | PodsTerminating):
            return refusal
    return None


def _refuse_self_missing(component: Component) -> Refusal | None:
    for group in component.groups:
        if any(hard.counts.self_match == 0 and hard.counts.violated for hard in group.hard):
            return OwnPodsNotSelected()
    return None


def only_class(controllers: Sequence[PodController]) -> Pod | None:
    """Return a pod that represents the next pods of all members; None if they are of several classes."""
    samples = [member.next_pod for member in controllers if member.owner is not None]
    known = [sample for sample in samples if not isinstance(sample, Unpredictable)]
    if len(known) > 1 and len({filter_terms(sample) for sample in known}) > 1:
        return None
    return known[0] if known else controllers[0].sample


def _have_several_bounds(controllers: Sequence[PodController], requirement: Requirement) -> bool:
    """Return whether the pods that a requirement counts have several sets of hard constraints.

    A pod with looser constraints may come back where an otherwise equal pod may not, because the scheduler applies each
    pod's own constraints.
    """
    if len(controllers) == 1:
        return False
    samples = [(member.next_pod, member.reference) for member in controllers if member.owner is not None]
    known = [(sample, workload) for sample, workload in samples if not isinstance(sample, Unpredictable)]
    counted = [sample for sample, workload in known if requirement.counts(sample.labels, workload)]
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    return len({frozenset(one for one in pod.spec.spread if one.when_unsatisfiable is hard) for pod in counted}) > 1


def filter_terms(pod: Pod) -> Hashable:
    """Return all pod fields that the scheduler's filters read, without spread and own volumes, and the pod's OS."""
    spec = pod.spec
    return (
        spec.requests,
        spec.node_affinity.selector,
        spec.node_affinity.required,
        spec.pod_affinity,
        spec.tolerations,
        spec.host_ports,
        spec.scheduler,
        spec.priority,
        spec.os,
        bool(pod.claims),
    )


def set_aside(capacity: NodeCapacity, reserved: ReservedCapacity, useful: int) -> tuple[ReservedCapacity, int]:
    """Decide how to subtract reserved capacity: on every node, or as a number of places lost in a domain.

    It is not known on which nodes the pending pods will be placed. While every node has capacity for all of them, their
    number is subtracted everywhere. If they are too many for one node but few for the cluster, nodes with less than
    half the median capacity are left out, and the pending pods can fill only a limited number of the others.
    """
    everywhere = reserved.everywhere
    if not everywhere:
        return reserved, 0
    spare = capacity.least_places(useful) - useful
    if everywhere <= spare:
        # Nodes with enough capacity have enough afterwards too; only nodes with less than enough change.
        some_have_less = capacity.count_nodes_with(1) > capacity.count_nodes_with(useful)
        return (reserved if some_have_less else ReservedCapacity(0, reserved.on)), 0
    half = capacity.median() // 2
    if half <= useful:
        return reserved, 0
    filled = everywhere // (half - useful + 1)
    return ReservedCapacity(half - useful, reserved.on), filled * useful


def _most_useful(requirements: Sequence[Requirement], total: int) -> int:
    """Return the most pods that the scheduler may ever place on a node: the highest possible minimum plus maxSkew."""
    most = total
    for requirement in requirements:
        enforced = requirement.bound.by_scheduler
        if enforced is not None:
            highest = 0 if requirement.bound.floor_at_zero else total // max(1, requirement.domains)
            most = min(most, highest + enforced)
    return most
