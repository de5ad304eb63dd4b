"""From a component to a problem that can be solved, or the reason why it is left alone as a whole.

Where all pods are alike and all that is asked counts the same pods, over keys of which each divides the one before, a
problem is `Uniform`: counting is enough. Everything else is `Mixed`.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, structs

from rebalancer.assessment.controllers import members, stray_reference
from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.multi_class.classes import MultiClassBuilder, MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex, NodeCapacity, ReservedCapacity, has_countable_affinity
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.eligibility import EligibilityChecker, Refusal
from rebalancer.planning.scope.movable import PodPartition, PodPartitioner
from rebalancer.planning.scope.requirements import Requirement, requirement_of_limit, requirements_of_group
from rebalancer.planning.scope.topology import NODE_LEVEL, Topologies
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.placement import FREE, Bound
from rebalancer.policy import Policy, format_duration
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View


class SingleClassProblem(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Equal pods on their nodes. `sorted` are the pods; `sample` stands for all that will come.

    `lost` is how many places of each domain may be taken meanwhile by pods that are on their way and whose room the
    layout does not leave out.
    """

    component: Component
    requirements: tuple[Requirement, ...]
    layout: Layout
    sorted: PodPartition
    sample: Pod
    reception: NodeCapacity
    lost: int

    @property
    def pending(self) -> int:
        """How many pods have no place."""
        return self.sorted.missing

    @property
    def victims(self) -> Iterable[Victim]:
        """The pods that may move."""
        return (victim for victims in self.sorted.movable.values() for victim in victims)


class ProblemBuilder:
    """What problems are made by: one view, one policy, one ledger of budgets."""

    def __init__(self, view: View, policy: Policy, ledger: BudgetLedger, avoided: frozenset[str] = frozenset()) -> None:
        self.view = view
        self.policy = policy
        self.ledger = ledger
        self.eligibility = EligibilityChecker(view.snapshot, policy)
        self.rooms = CapacityIndex(view)
        self.grounds = Topologies(view)
        self.movers = PodPartitioner(view, self.eligibility, ledger, avoided)
        self._act_on = policy.spread.act_on
        self._mixtures = MultiClassBuilder(view, self.rooms, self.movers)
        self._leveled: dict[Hashable, tuple[tuple[str, ...], tuple[Bound, ...]] | None] = {}
        self._settled: dict[int, tuple[NodeCapacity, Refusal | None]] = {}

    def problem(self, component: Component) -> SingleClassProblem | MultiClassProblem | Refusal:
        """Make the component's problem, or say why it is left alone as a whole."""
        whole = [self.eligibility.of_member(member) for member in component.members]
        refusal = self._unread(component) or _in_motion(whole)
        if refusal is not None:
            return refusal
        demands = self._demands(component)
        refusal = _self_missing(component) or self._strangers(component, demands)
        if refusal is not None:
            return refusal
        sample = _only_kind(component.members)
        levels = self._levels(demands) if sample is not None and has_countable_affinity(sample, self.view) else None
        if sample is None or levels is None:
            return self._mixed(component, whole, demands)
        return self._uniform(component, whole, demands, sample, *levels)

    def _demands(self, component: Component) -> tuple[Requirement, ...]:
        found = [each for judged in component.groups for each in requirements_of_group(judged, self.view, self._act_on)]
        return (*found, *(requirement_of_limit(limit, self.view) for limit in component.limits))

    def _uniform(
        self,
        component: Component,
        whole: Sequence[Refusal | None],
        demands: tuple[Requirement, ...],
        sample: Pod,
        keys: tuple[str, ...],
        bounds: tuple[Bound, ...],
    ) -> SingleClassProblem | Refusal:
        # Volumes tie single pods, not the group: each pod's reach is looked at on its own.
        bare = structs.replace(sample, claims=()) if sample.claims else sample
        reception = self.rooms.of(bare, component.pods)
        refusal = self.settling(reception)
        if refusal is not None:
            return refusal
        # Where all that is asked counts the same pods, one asked of a workload alone counts no other's.
        first, workload = demands[0], component.workloads[0]

        def counts(labels: Labels) -> bool:
            return first.counts(labels, workload)

        found = self.movers.sorted_out(component.members, whole, reception.nodes, counts)
        if isinstance(found, Refusal):
            return found
        total = sum(first.counted.values())
        useful = _most_useful(demands, total + found.missing)
        owners = [member.owner.uid for member in component.members if member.owner is not None]
        taken, lost = _set_aside(reception, self.rooms.taken(reception, bare, owners), useful)
        ground = self.grounds.ground(first.nodes, keys)
        return SingleClassProblem(
            component=component,
            requirements=demands,
            layout=Layout(ground, bounds, first.counted, found.ranked, reception, taken, useful),
            sorted=found,
            sample=bare,
            reception=reception,
            lost=lost,
        )

    def _mixed(
        self, component: Component, whole: Sequence[Refusal | None], demands: tuple[Requirement, ...]
    ) -> MultiClassProblem | Refusal:
        found = self._mixtures.mixed(component, whole, demands)
        if isinstance(found, Refusal):
            return found
        for kind in found.classes:
            refusal = self.settling(kind.reception)
            if refusal is not None:
                return refusal
        return found

    def _unread(self, component: Component) -> Refusal | None:
        """Refuse where an object could not be read that may count, or forbid: a pod, a budget, an owner, any node."""
        for fault in self.view.snapshot.faults:
            if fault.kind == "Node" or fault.namespace in {"", component.namespace}:
                return Refusal(Reason.NOT_PREDICTABLE, f"an object that may matter could not be read: {fault}")
        return None

    @cached_property
    def _unplaced(self) -> Mapping[str, Sequence[Pod]]:
        """Pods that wait for a node, by namespace."""
        found: dict[str, list[Pod]] = {}
        for pod in self.view.snapshot.unplaced:
            found.setdefault(pod.namespace, []).append(pod)
        return found

    @cached_property
    def _creating(self) -> Mapping[str, Sequence[Workload]]:
        """Owners that have still to create pods, by namespace."""
        found: dict[str, list[Workload]] = {}
        living = {member.owner.uid: len(member.pods) for member in members(self.view) if member.owner is not None}
        for owner in self.view.snapshot.workloads:
            if owner.replicas > living.get(owner.uid, 0) and owner.kind != "Deployment" and owner.template is not None:
                found.setdefault(owner.namespace, []).append(owner)
        return found

    def _strangers(self, component: Component, demands: Sequence[Requirement]) -> Refusal | None:
        """Refuse while a pod of somebody else waits for a node that would change the counts."""
        namespace = component.namespace
        creating, waiting = self._creating.get(namespace, ()), self._unplaced.get(namespace, ())
        if not creating and not waiting:
            return None
        members = {member.owner.uid for member in component.members if member.owner is not None}
        for owner in creating:
            template = owner.template
            if owner.uid in members or template is None:
                continue
            workload = reference_of(self.view.snapshot.workload.get(owner.owner.uid, owner) if owner.owner else owner)
            if any(each.counts(template.labels, workload) for each in demands):
                return Refusal(Reason.GROUP_IN_FLIGHT, f"{owner} has pods to create that count too")
        own = {pod.uid for member in component.members for pod in member.pods}
        for pod in waiting:
            if pod.uid in own:
                continue
            top = self.view.snapshot.top_owner_of(pod)
            workload = reference_of(top) if top is not None else stray_reference(pod)
            if any(each.counts(pod.labels, workload) for each in demands):
                return Refusal(
                    Reason.GROUP_IN_FLIGHT, f"pod {pod.name} of another workload counts too and has no node yet"
                )
        return None

    def settling(self, reception: NodeCapacity) -> Refusal | None:
        """Refuse while a node that may take a replacement is coming or going; once for all who are received alike."""
        known = self._settled.get(id(reception))
        if known is None:
            # The reception is kept beside the answer: its identity is not given to another as long as it lives.
            known = self._settled[id(reception)] = reception, self._unsettled(reception.room)
        return known[1]

    def _unsettled(self, room: Iterable[str]) -> Refusal | None:
        settle, now = self.policy.nodes.settle, self.view.snapshot.taken_at
        for name in room:
            node = self.view.nodes.by_name[name]
            if node.deleted is not None:
                return Refusal(Reason.NODE_LEAVING, f"node {name} may take a replacement and is being deleted")
            if not node.ready:
                return Refusal(Reason.NODE_SETTLING, f"node {name} may take a replacement and is not Ready")
            since = node.ready_since
            if since is not None and now - since < settle:
                text = (
                    f"node {name} may take a replacement and has been Ready for {int((now - since).total_seconds())}s"
                )
                return Refusal(Reason.NODE_SETTLING, f"{text}, nodes.settle is {format_duration(settle)}")
        return None

    def _levels(self, demands: Sequence[Requirement]) -> tuple[tuple[str, ...], tuple[Bound, ...]] | None:
        """Order the keys from the coarsest on; return the levels' keys and bounds, down to the nodes.

        Where nodes share the domains of the last key, they make a level of their own, without a bound. None where the
        demands count different pods or nodes, or a key's domains reach across another's.
        """
        first = demands[0]
        for each in demands[1:]:
            if not self.grounds.equal(first.nodes, each.nodes) or not _same(each.counted, first.counted):
                return None
        # Thousands of workloads ask for the same.
        asked = first.nodes, tuple([each.asked for each in demands])
        if asked not in self._leveled:
            self._leveled[asked] = self._ordered(demands)
        return self._leveled[asked]

    def _ordered(self, demands: Sequence[Requirement]) -> tuple[tuple[str, ...], tuple[Bound, ...]] | None:
        first = demands[0]
        ordered = sorted(dict.fromkeys((each.many, each.key) for each in demands))
        keys = tuple(key for _, key in ordered)
        if len(set(keys)) < len(keys) or self.grounds.crossing(first.nodes, keys) is not None:
            return None
        bounds = tuple(_bound([each for each in demands if each.key == key]) for key in keys)
        if ordered[-1][0] == len(first.nodes):
            return keys, bounds
        return (*keys, NODE_LEVEL), (*bounds, FREE)


def _same(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return one is other or one == other


def _in_motion(whole: Sequence[Refusal | None]) -> Refusal | None:
    """Refuse components of which an owner is being scaled or rolled out."""
    for refusal in whole:
        if refusal is not None and refusal.reason is Reason.ROLLOUT_IN_PROGRESS:
            return refusal
    return None


def _self_missing(component: Component) -> Refusal | None:
    for judged in component.groups:
        if any(each.counts.self_match == 0 and each.counts.violated for each in judged.hard):
            return Refusal(Reason.NOT_PREDICTABLE, "a constraint's selector does not match the workload's own pods")
    return None


def _only_kind(found: Sequence[PodController]) -> Pod | None:
    """Return a pod that stands for the next pods of all members; None where they are not alike."""
    samples = [member.next_pod for member in found if member.owner is not None]
    known = [each for each in samples if not isinstance(each, Unpredictable)]
    if len(known) > 1 and len({asks(each) for each in known}) > 1:
        return None
    return known[0] if known else found[0].sample


def asks(pod: Pod) -> Hashable:
    """Return all that the scheduler's filters read of a pod, but for its spread and its own volumes."""
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
        bool(pod.claims),
    )


def _set_aside(reception: NodeCapacity, taken: ReservedCapacity, useful: int) -> tuple[ReservedCapacity, int]:
    """Decide how room that is spoken for is left out: on every node, or as places lost somewhere.

    Nobody knows where pods on their way will land. While every node has room for all of them, that is left out
    everywhere. Where they are too many for one node but few against all, nodes of less than half the usual room are
    left out, and the others can be filled only so many at a time.
    """
    many = taken.everywhere
    if not many:
        return taken, 0
    spare = reception.least(useful) - useful
    if many <= spare:
        # Every node that has room enough keeps it: nothing changes unless some have less than enough.
        return (taken if reception.slots(1) > reception.slots(useful) else ReservedCapacity(0, taken.on)), 0
    usual = reception.usual() // 2
    if usual <= useful:
        return taken, 0
    filled = many // (usual - useful + 1)
    return ReservedCapacity(usual - useful, taken.on), filled * useful


def _most_useful(demands: Sequence[Requirement], total: int) -> int:
    """Return how many pods the scheduler may ever put on a node: none grows beyond the highest minimum and skew."""
    most = total
    for each in demands:
        if each.enforced is not None:
            highest = 0 if each.floor_at_zero else total // max(1, each.many)
            most = min(most, highest + each.enforced)
    return most


def _bound(demands: Sequence[Requirement]) -> Bound:
    """Put together what is asked on one key: the strictest of each."""
    skews = [each.max_skew for each in demands if each.max_skew is not None]
    enforced = [each.enforced for each in demands if each.enforced is not None]
    caps = [each.cap for each in demands if each.cap is not None]
    return Bound(
        max_skew=min(skews, default=None),
        floor_at_zero=any(each.floor_at_zero for each in demands),
        cap=min(caps, default=None),
        least=max(each.least for each in demands),
        enforced=min(enforced, default=None),
    )
