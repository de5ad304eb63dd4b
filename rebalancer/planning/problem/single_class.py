"""Problems of equal pods whose requirements count the same pods, over keys that nest: counting is enough."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct, structs

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.words import plural
from rebalancer.planning.diagnosis.closed_nodes import ClosedDomains, ClosedNodes, Explanations
from rebalancer.planning.diagnosis.obstacles import diagnose_single_class
from rebalancer.planning.plan import Proof
from rebalancer.planning.problem.protocol import Infeasible, ProvedMinimum, Reservation, Step, StepSearch
from rebalancer.planning.scope.budgets import StepExceedsBudget
from rebalancer.planning.scope.capacity import NodeCapacity
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Allowed, Victim
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.search.report import Attempt, Method
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import min_evictions, minimum_repair
from rebalancer.planning.single_class.outlook import AdditionOutlook, SingleClassOutlook
from rebalancer.planning.single_class.proof import prove
from rebalancer.planning.single_class.selection import select_victims
from rebalancer.planning.steps.additions import addition_step
from rebalancer.planning.steps.contingent import contingent_step, forced_step
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.lookahead_models import SingleClassModel
from rebalancer.planning.steps.outlook import NodesOutlook
from rebalancer.planning.steps.reachability import is_unreachable
from rebalancer.planning.steps.tree_moves import TreeState, TreeStep
from rebalancer.scheduling.node_index import count_names
from rebalancer.scheduling.view import View


class CapacityReserved(Refusal):
    """Pods that are being placed may take the capacity that the repair needs."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when these pods have a node"

    def __str__(self) -> str:
        return (
            "pods that are being placed may take the capacity that the repair needs, so it is planned again afterwards"
        )


class NoSequence(Refusal):
    """A placement exists, but no sequence of evictions and placements leads there: proved."""

    reason = Reason.UNREACHABLE
    evictions: int

    def __str__(self) -> str:
        enough = f"{plural(self.evictions, 'eviction')} would be enough" if self.evictions else "all pods have a place"
        return f"{enough} by counting; no sequence of evictions and placements leads there (proved)"


class SingleClassProblem(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Equal pods on their nodes; `sample` represents every replacement.

    `lost` is how many places of each domain other pending pods may take, beyond what the layout reserves for them;
    `explanations` say why nodes take no more pods.
    """

    component: Component
    requirements: tuple[Requirement, ...]
    layout: Layout
    pods: PodPartition
    sample: Pod
    capacity: NodeCapacity
    lost: int
    view: View
    cache: SearchCache
    explanations: Explanations

    @property
    def always_looks_ahead(self) -> bool:
        """False: counting answers most questions."""
        return False

    @property
    def victims(self) -> Iterable[Victim]:
        """The pods that may move."""
        return (victim for on_node in self.pods.movable.values() for victim in on_node)

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "SingleClassProblem":
        """Return the problem with only those pods movable whose eviction is allowed by `latest`."""
        pods = self.pods.within(allowed, latest)
        return structs.replace(self, pods=pods, layout=self.layout.with_ranked(pods.ranked))

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return self.pods.missing

    @property
    def state(self) -> TreeState:
        """The placement in the form that the searches use."""
        return TreeState(self.layout.root, self.pending)

    def minimum(self) -> ProvedMinimum | Infeasible:
        """Return the minimum number of evictions, or why no repair exists."""
        repair = minimum_repair(self.layout.root, self.layout.bounds, self.pending, self.cache)
        if repair is not None:
            proof = Proof(partial(prove, self.layout, repair, self.pending))
            return ProvedMinimum(repair.evictions, repair.evictions, proof)
        free = self.layout.without_reservations()
        if free is not None and min_evictions(free.root, free.bounds, self.pending, self.cache) is not None:
            return Infeasible(State.VIOLATED, CapacityReserved())
        return Infeasible(*diagnose_single_class(self.layout, self.requirements, self.pods, self.cache, self._explain))

    def _explain(self, closed: ClosedDomains) -> Refusal:
        """Return why nodes take no more of the pods, and what would allow a placement of all."""

        def helps(places: Mapping[str, int]) -> bool:
            self.explanations.budget.spend(len(self.layout.topology.nodes))
            known = {name: number for name, number in places.items() if name in self.layout.topology.path}
            opened = self.layout.with_capacity(known)
            return min_evictions(opened.root, opened.bounds, self.pending, self.cache) is not None

        component, movable = self.component, {pod.uid for pod in self.layout.ranked.pods}
        placed = sorted(component.pods, key=lambda pod: pod.uid not in movable)
        nodes = ClosedNodes(self.sample, self.pods.waiting, placed, closed, self.view, self.capacity, helps)
        return self.explanations.explain(component.name, nodes)

    def _min_evictions(self) -> int | None:
        return min_evictions(self.layout.root, self.layout.bounds, self.pending, self.cache)

    def certified_step(self) -> StepSearch:
        """Return the cheapest victims within the windows of a certificate, if there is one."""
        layout = self.layout
        windows = certify(layout.root, layout.bounds, self.pending, self.cache, self.lost)
        if windows is None:
            return StepSearch(attempts=(Attempt(method=Method.CERTIFICATE),))
        victims = tuple(select_victims(layout, windows, self._min_evictions() or 0))
        attempt = Attempt(method=Method.CERTIFICATE, answered=True)
        return StepSearch(step=Step(victims=victims), attempts=(attempt,))

    def contingent_step(self, concurrent: int, budget: SearchBudget) -> StepSearch:
        """Search for a contingent plan."""
        if self.lost:
            return StepSearch(refusal=CapacityReserved(), final=True)
        step = contingent_step(self.state, self.layout.bounds, concurrent, self.cache, budget=budget)
        return StepSearch(step=self._name(step) if step.victims else None, attempts=step.attempts)

    def forced_step(self, concurrent: int, budget: SearchBudget) -> StepSearch:
        """Search for a step that is safe by itself."""
        allowed = min(self._min_evictions() or 0, self.cache.limits.step_evictions)
        step = forced_step(self.state, self.layout.bounds, allowed, self.cache, concurrent=concurrent, budget=budget)
        if step.victims:
            return StepSearch(step=self._name(step), attempts=step.attempts)
        if step.needed > concurrent:
            refusal = StepExceedsBudget(step.needed, concurrent)
            return StepSearch(attempts=step.attempts, refusal=refusal, state=State.UNFIXABLE)
        return StepSearch(attempts=step.attempts, complete=step.complete)

    def addition_step(self, most: int) -> StepSearch:
        """Search for at most this many pods to add, and an equal number of victims that go once these are Ready."""
        if self.lost:
            return StepSearch(refusal=CapacityReserved(), final=True)
        step = addition_step(self.state, self.layout.bounds, most, self.cache)
        if not step.victims:
            return StepSearch(attempts=step.attempts, complete=step.complete)
        number = len(step.victims)
        victims = tuple(self.layout.name_victims(step.victims))
        named = Step(victims=victims, needed=number, concurrent=number, added=number)
        return StepSearch(step=named, attempts=step.attempts)

    def partial_step(self, concurrent: int) -> StepSearch:
        """Search for evictions that reduce the sum of the evictions that each constraint alone needs."""
        step = next_step(self.state, self.layout.bounds, concurrent, self.cache, StepGoal.PARTIAL)
        return StepSearch(step=self._name(step) if step.victims else None, attempts=step.attempts)

    def proof_of_no_step(self) -> Refusal | None:
        """Return the proof that no sequence repairs it, for small groups."""
        if not is_unreachable(self.state, self.layout.bounds, self.cache):
            return None
        return NoSequence(self._min_evictions() or 0)

    def _name(self, step: TreeStep) -> Step:
        """Name the victims of a step, the cheapest of each class."""
        return Step(victims=tuple(self.layout.name_victims(step.victims)), needed=step.needed, extra=step.extra)

    def lookahead_model(self, _: SearchBudget) -> SingleClassModel:
        """Return the model for a search on the real nodes."""
        return SingleClassModel(self.layout, self.pods, self._min_evictions(), self.cache)

    def reservations(self, victims: Sequence[Victim]) -> Iterable[Reservation]:
        """Return the capacity that the replacements may take, on every node that admits the pods."""
        return [Reservation(self.capacity.nodes, self.sample, len(victims))]

    def landings(self, step: Step, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take a replacement: by counting, or the nodes that the search followed."""
        return step.nodes & nodes if step.nodes is not None else self._counted_outlook(step).landings(nodes)

    def outlook(self, step: Step) -> SingleClassOutlook | AdditionOutlook | NodesOutlook:
        """Return the outlook of a step: by counting, or the nodes that the search followed."""
        if step.nodes is not None:
            return NodesOutlook(
                [one.key for one in self.requirements], step.nodes, self.view, self.cache.limits.expected_domains
            )
        return self._counted_outlook(step)

    def _counted_outlook(self, step: Step) -> SingleClassOutlook | AdditionOutlook:
        most = self.cache.limits.expected_domains
        if step.added:
            return AdditionOutlook(self.layout, _by_node(step), step.added, most)
        arriving = self.pending + len(step.victims)
        return SingleClassOutlook(self.layout, _by_node(step), arriving, most)


def _by_node(step: Step) -> Mapping[str, int]:
    return count_names([victim.pod.node or "" for victim in step.victims])
