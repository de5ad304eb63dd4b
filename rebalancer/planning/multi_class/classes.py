"""A component of several pod classes: the requirements that count each class, its capacity, and exclusions."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from msgspec import structs

from rebalancer.assessment.anti_affinity.result import DeclaredBy
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.planning.anti_affinity.exclusions import Exclusion, find_exclusions, find_part, find_terms
from rebalancer.planning.scope.capacity import CapacityIndex, NodeCapacity, ReservedCapacity
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.movable import PodPartition, PodPartitioner
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Allowed, Victim
from rebalancer.planning.search.shares import CellShares
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints, is_on
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

Cell = tuple[int, str]
"""A pod class by its number, and a node."""


class WorkloadUnpredictable(Refusal):
    """The next pod of one of the component's workloads cannot be predicted."""

    workload: Reference
    cause: Unpredictable

    @property
    def reason(self) -> Reason:
        """The reason why the pod is not predictable."""
        return self.cause.reason

    def __str__(self) -> str:
        return f"{self.workload}: {self.cause}"


class NothingRecreates(Refusal):
    """No known owner would create the component's pods again."""

    reason = Reason.UNKNOWN_OWNER

    def __str__(self) -> str:
        return "no known owner would create its pods again"


class HostPortsOfSeveralClasses(Refusal):
    """Pods of several classes have host ports; which pods exclude each other is not modelled."""

    reason = Reason.NOT_PREDICTABLE

    def __str__(self) -> str:
        return "its pods differ and some have host ports, which is not modelled"


class PodAffinityRequired(Refusal):
    """Required affinity to pods changes the feasible nodes with every placement."""

    reason = Reason.NOT_PREDICTABLE

    def __str__(self) -> str:
        return "its required affinity to pods changes the feasible nodes with every placement"


@dataclass(frozen=True, kw_only=True)
class PodClass:
    """Pods that are alike for the scheduler and for every requirement.

    By node: `counts` are the class's pods, `fixed` those that cannot move, and `cap` is how many the node can hold.
    `now` are its pods in the view, even in a supposed state. `movable` are the pods that may move, cheapest first.
    `pending` is the number of pods without a node. `requirements` are the numbers of the requirements that count these
    pods. `only` are the UIDs of its pods if the same owners also have pods of other classes; else None.
    """

    sample: Pod
    members: tuple[PodController, ...]
    capacity: NodeCapacity
    counts: Mapping[str, int]
    fixed: Mapping[str, int]
    cap: Mapping[str, int]
    now: Mapping[str, int]
    movable: Mapping[str, Sequence[Victim]]
    pending: int
    requirements: frozenset[int]
    only: frozenset[str] | None = None

    @property
    def total(self) -> int:
        """How many pods there are, including pending pods."""
        return sum(self.counts.values()) + self.pending

    def has(self, pod: Pod) -> bool:
        """Return whether a pod, which one of the class's owners has, is of this class."""
        return self.only is None or pod.uid in self.only

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "PodClass":
        """Return the class with only those pods movable whose eviction is allowed by `latest`."""
        movable: dict[str, Sequence[Victim]] = {}
        for node, victims in self.movable.items():
            able = [structs.replace(one, allowed=allowed[one.pod.uid]) for one in victims]
            able = [victim for victim in able if victim.allowed <= latest]
            if able:
                movable[node] = sorted(able, key=lambda victim: victim.allowed)
        fixed = {node: count - len(movable.get(node, ())) for node, count in self.counts.items()}
        return replace(self, movable=movable, fixed=fixed)


@dataclass(frozen=True, kw_only=True)
class PodClasses:
    """Pods of several classes under their requirements. `others` are counted pods of no class."""

    component: Component
    requirements: tuple[Requirement, ...]
    classes: tuple[PodClass, ...]
    exclusions: tuple[Exclusion, ...]
    preferences: tuple[Exclusion, ...] = ()
    """Preferred terms; each pair of conflicting pods in one domain costs the term's weight."""
    others: tuple[Mapping[str, int], ...]
    """For each requirement: counted pods of no class, by node."""
    view: View | None
    """The view with the nodes' capacity; None: every node has capacity for all pods."""
    pods: PodPartition

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return sum(pod_class.pending for pod_class in self.classes)

    @property
    def total(self) -> int:
        """How many pods there are, including pending pods."""
        return sum(pod_class.total for pod_class in self.classes)

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "PodClasses":
        """Return the component with only those pods movable whose eviction is `allowed`, by UID, by `latest`."""
        return replace(self, classes=tuple([one.within(allowed, latest) for one in self.classes]))

    def with_cap(self, number: int, cap: Mapping[str, int]) -> "PodClasses":
        """Return the component in which the nodes can hold this many pods of a class."""
        classes = [replace(one, cap=cap) if at == number else one for at, one in enumerate(self.classes)]
        return replace(self, classes=tuple(classes))

    def freed(self, pods: Iterable[Pod]) -> "PodClasses":
        """Return the component in which these pods may move, too."""
        moving = [Counter[str]() for _ in self.classes]
        for pod in pods:
            moving[self.class_of(pod)][pod.node or ""] += 1
        classes = [
            replace(one, fixed={node: number - more[node] for node, number in one.fixed.items()})
            for one, more in zip(self.classes, moving, strict=True)
        ]
        return replace(self, classes=tuple(classes))

    def class_of(self, pod: Pod) -> int:
        """Return the class of a pod, placed or to come."""
        assert pod.owner is not None, "a pod without an owner belongs to no class"
        number = self._class_of_owner.get(pod.owner.uid)
        return self._class_of_name[pod.owner.uid, pod.name] if number is None else number

    @cached_property
    def _class_of_name(self) -> Mapping[tuple[str, str], int]:
        """The classes of pods whose replacements keep their names, by the UID of the owner and the name."""
        return {
            (member.owner.uid, pod.name): number
            for number, pod_class in enumerate(self.classes)
            for member in pod_class.members
            if member.owner is not None and pod_class.only is not None
            for pod in member.pods
            if pod.uid in pod_class.only
        }

    @cached_property
    def _class_of_owner(self) -> Mapping[str, int]:
        """The classes of owners whose pods are all of one class, by the owner's UID."""
        return {
            member.owner.uid: number
            for number, pod_class in enumerate(self.classes)
            for member in pod_class.members
            if member.owner is not None
            and (pod_class.only is None or pod_class.only.issuperset([pod.uid for pod in member.pods]))
        }

    def supposed(self, deltas: Mapping[Cell, int], pending: Mapping[int, int]) -> "PodClasses":
        """Return the component in a supposed state.

        `deltas` are the pods added (negative: removed) by cell; `pending` are the pods without a node by class.
        """
        classes = []
        for number, pod_class in enumerate(self.classes):
            counts = Counter(pod_class.counts)
            counts.update({node: change for (of, node), change in deltas.items() if of == number})
            fixed = {node: min(count, pod_class.fixed.get(node, 0)) for node, count in counts.items()}
            cap = {node: max(pod_class.cap.get(node, count), count) for node, count in counts.items()}
            classes.append(
                replace(
                    pod_class,
                    counts=counts,
                    fixed=fixed,
                    cap={**pod_class.cap, **cap},
                    pending=pending.get(number, 0),
                )
            )
        return replace(self, classes=tuple(classes))


class _Counting:
    """Which requirements, by number, count a pod; constraints with equal selectors are evaluated once."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self.requirements = requirements
        self._alike: dict[Hashable, tuple[Requirement, list[int]]] = {}
        for number, requirement in enumerate(requirements):
            source = requirement.source
            question = number if isinstance(source, EvaluatedLimit) else source.constraint.selector
            self._alike.setdefault(question, (requirement, []))[1].append(number)
        self._known: dict[tuple[Labels, Reference], frozenset[int]] = {}

    def numbers(self, labels: Labels, workload: Reference) -> frozenset[int]:
        """Return the numbers of the requirements that count a pod of a workload with these labels."""
        known = self._known.get((labels, workload))
        if known is None:
            counted = [numbers for first, numbers in self._alike.values() if first.counts(labels, workload)]
            known = self._known[labels, workload] = frozenset().union(*counted)
        return known


@dataclass
class _Draft:
    """A pod class while its members are collected; `reach` are the nodes that its volumes reach, None: all nodes."""

    sample: Pod
    reach: frozenset[str] | None
    members: list[PodController] = field(default_factory=list)
    refusals: list[Refusal | None] = field(default_factory=list)
    only: set[str] = field(default_factory=set)
    whole: bool = True
    """Whether the draft has all pods of its members."""


class PodClassesBuilder:
    """Divides components into pod classes over one view."""

    def __init__(self, view: View, capacities: CapacityIndex, partitioner: PodPartitioner, shares: CellShares) -> None:
        """`shares` has the rest of each namespace's share in the plan."""
        self._shares = shares
        self._view = view
        self._capacities = capacities
        self._partitioner = partitioner

    def build(
        self, component: Component, refusals: Sequence[Refusal | None], requirements: tuple[Requirement, ...]
    ) -> PodClasses | Refusal:
        """Divide a component's pods into classes, or return why their requirements are not modelled."""
        counting = _Counting(requirements)
        terms = find_terms(component.terms, [one.next_pod for one in component.members]) if self._keeps_apart else ()
        preferred = [term.declared for term in component.preferred]
        drafts = self._draft(component, refusals, counting, (*terms, *preferred))
        if isinstance(drafts, Refusal):
            return drafts
        cells = sum(len(self._admitting(draft.sample)) for draft in drafts)
        costly = self._shares.take(component.namespace, component.name, cells)
        if costly is not None:
            return costly
        everything, counted = PodPartition(), dict[str, int]()
        classes = []
        for number, draft in enumerate(drafts):
            kept = len(everything.refused)
            pod_class = self._pod_class(component, draft, counting, everything)
            if isinstance(pod_class, Refusal):
                return pod_class
            classes.append(pod_class)
            counted.update((pod.uid, number) for pod, _, _ in everything.refused[kept:])
            counted.update((one.pod.uid, number) for victims in pod_class.movable.values() for one in victims)
        samples = [one.sample for one in classes]
        return PodClasses(
            component=component,
            requirements=requirements,
            classes=tuple(classes),
            # The capacities of the classes already include anti-affinity to other pods.
            exclusions=find_exclusions(terms, component.terms, samples, counted, self._view),
            preferences=find_exclusions(preferred, component.preferred, samples, counted, self._view),
            others=tuple(_others(number, requirement, classes) for number, requirement in enumerate(requirements)),
            view=self._view,
            pods=everything,
        )

    def _draft(
        self,
        component: Component,
        refusals: Sequence[Refusal | None],
        counting: _Counting,
        terms: Sequence[DeclaredBy],
    ) -> Sequence[_Draft] | Refusal:
        """Join the owners whose next pods are alike for the scheduler, for every requirement and every term."""
        drafts: dict[Hashable, _Draft] = {}
        for member, refusal in zip(component.members, refusals, strict=True):
            if member.owner is None:
                continue
            pod = member.next_pod
            if isinstance(pod, Unpredictable):
                return WorkloadUnpredictable(member.reference, pod)
            parts = tuple(find_part(term, pod, self._view) for term in terms)
            apart = component.terms or component.preferred
            where = pod.namespace if apart else ""  # other pods' terms may select by these labels
            key = scheduling_terms(pod), counting.numbers(pod.labels, member.reference), parts, where
            by_reach = self._divide(member, component, counting.requirements)
            for reach, pods in by_reach.items():
                draft = drafts.setdefault((*key, reach), _Draft(pod, reach))
                draft.members.append(member)
                draft.refusals.append(refusal)
                draft.only.update(pods)
                draft.whole = draft.whole and len(by_reach) == 1
        return list(drafts.values()) or NothingRecreates()

    @property
    def _keeps_apart(self) -> bool:
        """Whether the scheduler reads anti-affinity."""
        return is_on(InterPodAffinity, self._view)

    def _admitting(self, sample: Pod) -> frozenset[str]:
        """Return the nodes whose labels and taints admit a pod."""
        spec, view = sample.spec, self._view
        return admitted_by_labels(spec.node_affinity, view) & admitted_by_taints(spec.tolerations, view)

    def _find_flaw(self, spec: PodSpec) -> Refusal | None:
        """Return why these pods cannot be one of several classes, None if they can."""
        if spec.host_ports and is_on(NodePorts, self._view):
            return HostPortsOfSeveralClasses()
        if spec.pod_affinity.required and is_on(InterPodAffinity, self._view):
            return PodAffinityRequired()
        return None

    def _find_cap(self, draft: _Draft, sample: Pod, own: Sequence[Pod], reserved: ReservedCapacity) -> dict[str, int]:
        """Return how many pods of the class each node in reach can hold, without the component's pods.

        Pods of other classes may leave a node, so the program counts the capacity that they use.
        """
        return {
            node: places - reserved.of(node)
            for node, places in self._capacities.emptied(sample, own).items()
            if draft.reach is None or node in draft.reach
        }

    def _pod_class(
        self, component: Component, draft: _Draft, counting: _Counting, everything: PodPartition
    ) -> PodClass | Refusal:
        sample = structs.replace(draft.sample, claims=()) if draft.sample.claims else draft.sample
        own = [pod for member in component.members for pod in member.pods]
        flaw = self._find_flaw(sample.spec)
        if flaw is not None:
            return flaw
        capacity = self._capacities.without_own(sample, own)
        workload = draft.members[0].reference
        mine = counting.numbers(sample.labels, workload)
        if draft.reach is not None:
            within = draft.reach
            capacity = NodeCapacity({node: free for node, free in capacity.places.items() if node in within})
        only = None if draft.whole else frozenset(draft.only)
        plays_part = self._parts_of(sample, component)
        pods = self._partitioner.partition(
            draft.members,
            draft.refusals,
            capacity.nodes,
            lambda labels: counting.numbers(labels, workload) == mine and plays_part(labels),
            only,
        )
        if isinstance(pods, Refusal):
            return pods
        everything.add(pods)
        owners = [member.owner.uid for member in component.members if member.owner is not None]
        counts = Counter(node for node, victims in pods.movable.items() for _ in victims)
        counts.update(pod.node for pod, _, _ in pods.refused if pod.node is not None)
        reserved = self._capacities.reserved(capacity, sample, owners)
        cap = self._find_cap(draft, sample, own, reserved)
        return PodClass(
            sample=sample,
            members=tuple(draft.members),
            capacity=capacity,
            counts=counts,
            fixed={node: count - len(pods.movable.get(node, ())) for node, count in counts.items()},
            cap={node: max(counts[node], cap.get(node, 0)) for node in sorted({*counts, *cap})},
            now=counts,
            movable=pods.movable,
            pending=pods.missing,
            requirements=mine,
            only=only,
        )

    def _parts_of(self, sample: Pod, component: Component) -> Callable[[Labels], bool]:
        """Return a function that says whether a pod with other labels has the sample's part in every term.

        A pod with another part stays; the rest of its class is not affected.
        """
        terms = [term.declared for term in component.apart]
        parts = [find_part(term, sample, self._view) for term in terms]

        def plays_part(labels: Labels) -> bool:
            if not terms or labels == sample.labels:
                return True
            other = structs.replace(sample, labels=labels)
            return parts == [find_part(term, other, self._view) for term in terms]

        return plays_part

    def _divide(
        self, member: PodController, component: Component, requirements: Sequence[Requirement]
    ) -> Mapping[frozenset[str] | None, Sequence[str]]:
        """Divide the UIDs of an owner's pods by the nodes that their volumes reach; None: all nodes, or one domain.

        A pod whose volumes reach one domain of each requirement and term stays.
        """
        pods, next_pod = member.pods, member.next_pod
        assert not isinstance(next_pod, Unpredictable)
        if not any(pod.claims for pod in pods):
            return {None: [pod.uid for pod in pods]}
        bare = structs.replace(next_pod, claims=())
        nodes = self._capacities.without_own(bare, component.pods).nodes
        apart = [self._view.nodes.values(term.term.topology_key) for term in component.apart]
        # Pods of other owners share the volumes that the template names, and their replacements have new names.
        alike = self._partitioner.reach(pods[0]) if not keeps_names(member) else None
        divided: dict[frozenset[str] | None, list[str]] = {}
        for pod in pods:
            reach = self._partitioner.reach(pod) if alike is None else alike
            partly = not nodes <= reach and spans_domains(reach, requirements, apart)
            divided.setdefault(reach if partly else None, []).append(pod.uid)
        return divided


def keeps_names(member: PodController) -> bool:
    """Return whether an owner gives a replacement the name and the claims of the pod that it replaces."""
    owner = member.owner
    return owner is not None and (owner.kind == "StatefulSet" or owner.keeps_pods)


def spans_domains(
    reach: frozenset[str], requirements: Sequence[Requirement], domains: Iterable[Mapping[str, str]] = ()
) -> bool:
    """Return whether these nodes are in several domains of a requirement, or of `domains`, each given by node."""
    spans = (len({requirement.domain[node] for node in requirement.nodes & reach}) > 1 for requirement in requirements)
    return any(spans) or any(len({domain[node] for node in reach if node in domain}) > 1 for domain in domains)


def scheduling_terms(pod: Pod) -> Hashable:
    """Return what the scheduler reads of a pod's spec, and its OS: pods with equal terms form one class."""
    spec = pod.spec
    return (
        spec.requests,
        spec.scored,
        spec.node_affinity,
        spec.pod_affinity,
        spec.tolerations,
        spec.host_ports,
        spec.scheduler,
        spec.priority,
        spec.os,
        spec.spread,
    )


def _others(number: int, requirement: Requirement, classes: Sequence[PodClass]) -> Mapping[str, int]:
    """Return by node the counted pods of a requirement that belong to no class."""
    left = Counter(requirement.counted)
    for pod_class in classes:
        if number in pod_class.requirements:
            for node, count in pod_class.counts.items():
                if node in requirement.nodes:
                    left[node] -= count
    return {node: count for node, count in left.items() if count > 0}
