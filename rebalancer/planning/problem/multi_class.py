"""Problems of several pod classes, or whose requirements count different pods: integer program and lookahead."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial

from msgspec import Struct

from rebalancer.model.facts import Refusal
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.planning.anti_affinity.exclusions import find_part
from rebalancer.planning.diagnosis.closed_nodes import (
    ClosedDomains,
    ClosedNodes,
    ClosedReason,
    Explanations,
    NodesTakeNoMore,
)
from rebalancer.planning.diagnosis.obstacles import diagnose_multi_class
from rebalancer.planning.diagnosis.relaxation import Relaxable, find_relaxation
from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.proof import prove
from rebalancer.planning.multi_class.solve import Solution, Unsolved, prefer_cheap_victims, solve, solve_model
from rebalancer.planning.plan import Proof
from rebalancer.planning.problem.protocol import Infeasible, ProvedMinimum, Reservation, Step
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Allowed, Victim
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.steps.lookahead_models import MultiClassModel
from rebalancer.planning.steps.outlook import NodesOutlook
from rebalancer.scheduling.view import View


class MultiClassProblem(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Pods of several classes on their nodes."""

    classes: PodClasses
    view: View
    cache: SearchCache
    explanations: Explanations

    @cached_property
    def model(self) -> PlacementModel:
        """The integer program."""
        return PlacementModel(self.classes)

    @cached_property
    def solution(self) -> Solution | Unsolved:
        """The solution with the fewest evictions, or why there is none."""
        return solve_model(self.model, self.cache.limits)

    @cached_property
    def nearest(self) -> Solution | None:
        """The placement nearest to the requirements, where none satisfies all of them."""
        limits = self.cache.limits
        nearest = solve(self.classes, limits, relaxed=True, work=limits.nearest_work)
        return None if isinstance(nearest, Unsolved) else nearest

    @property
    def always_looks_ahead(self) -> bool:
        """True: where pods of several classes are placed follows only from the real nodes."""
        return True

    @property
    def component(self) -> Component:
        return self.classes.component

    @property
    def victims(self) -> Iterable[Victim]:
        """The pods that may move."""
        movable = [pod_class.movable for pod_class in self.classes.classes]
        return (victim for by_node in movable for on_node in by_node.values() for victim in on_node)

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> "MultiClassProblem":
        """Return the problem with only those pods movable whose eviction is allowed by `latest`."""
        classes = self.classes.within(allowed, latest)
        return MultiClassProblem(classes=classes, view=self.view, cache=self.cache, explanations=self.explanations)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What is required of its pods."""
        return self.classes.requirements

    @property
    def pods(self) -> PodPartition:
        return self.classes.pods

    def find_terminating(self) -> Pod | None:
        """Return the first terminating pod that a term keeps other pods away from, None without one."""
        view, terms = self.view, [term.declared for term in self.component.terms]
        ending = view.memo(
            "terminating",
            lambda: [pod for run in view.snapshot.runs if run.pods[0].terminating for pod in run.pods if pod.node],
        )
        return next((pod for pod in ending if any(find_part(term, pod, view) is not None for term in terms)), None)

    def minimum(self) -> ProvedMinimum | Infeasible:
        """Return the minimum number of evictions, or why no repair exists and how near the nearest placement is."""
        solution = self.solution
        if isinstance(solution, Solution):
            proof = Proof(partial(prove, self.classes, solution))
            return ProvedMinimum(solution.evictions, solution.bound, proof)
        state, refusal = diagnose_multi_class(self.classes, solution, self.cache.limits, self.nearest, self._explain)
        if state is not State.INFEASIBLE:
            return Infeasible(state, refusal)
        return Infeasible(state, refusal, Relaxable(partial(find_relaxation, self.classes, self.cache.limits)))

    def _explain(self) -> Refusal:
        """Return why nodes take no more pods of a class, preferably a class that no node takes at all."""
        explained = [self._explain_class(number) for number in range(len(self.classes.classes))]
        return min(explained, key=_vagueness)

    def _explain_class(self, number: int) -> ClosedReason:
        pod_class = self.classes.classes[number]

        def helps(places: Mapping[str, int]) -> bool:
            self.explanations.budget.spend(len(self.view.nodes.names))
            more = {node: pod_class.counts.get(node, 0) + free for node, free in places.items()}
            opened = self.classes.with_cap(number, {**pod_class.cap, **more})
            return isinstance(solve(opened, self.cache.limits), Solution)

        pods = [pod for member in pod_class.members for pod in member.pods if pod_class.has(pod)]
        waiting = [pod for pod in self.pods.waiting if self.classes.class_of(pod) == number]
        closed, capacity = self._closed_domains(pod_class), pod_class.capacity
        nodes = ClosedNodes(pod_class.sample, waiting, pods, closed, self.view, capacity, helps)
        return self.explanations.explain(f"{self.component.name} {number}", nodes)

    def _closed_domains(self, pod_class: PodClass) -> ClosedDomains:
        """Return the domains that take no more pods of a class, for the class's first key with such domains."""
        cap, counts, index = pod_class.cap, pod_class.counts, self.view.nodes
        rules = [self.requirements[number] for number in sorted(pod_class.requirements)]
        nodes = frozenset(node for rule in rules for node in rule.nodes)
        full = frozenset(node for node in nodes if cap.get(node, 0) <= counts.get(node, 0))
        for rule in rules:
            of_key = {value: members & rule.nodes for value, members in index.groups(rule.key).items()}
            closed = {value: members for value, members in of_key.items() if members and members <= full}
            if closed and rule.key != HOSTNAME:
                cordoned = {value: members for value, members in closed.items() if members <= index.cordoned}
                return ClosedDomains(rule.key, closed, cordoned=cordoned)
        return ClosedDomains(others=full)

    def lookahead_model(self, budget: SearchBudget) -> MultiClassModel:
        """Return the model for a search on the real nodes; its target is the cheapest or nearest placement."""
        limits = self.cache.limits
        if isinstance(self.solution, Solution):
            target: Solution | None = prefer_cheap_victims(self.classes, self.solution, limits)
        else:
            target = self.nearest
        return MultiClassModel(self.model, target, budget, limits)

    def reservations(self, victims: Sequence[Victim]) -> Iterable[Reservation]:
        """Return the capacity that each replacement may take, on every node that admits pods of its class."""
        for victim in victims:
            pod_class = self.classes.classes[self.classes.class_of(victim.pod)]
            yield Reservation(pod_class.capacity.nodes, pod_class.sample, 1)

    def landings(self, step: Step, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take a replacement; the search followed every such node."""
        return (step.nodes or frozenset()) & nodes

    def outlook(self, step: Step) -> NodesOutlook:
        """Return the outlook of a step: the nodes that the search followed."""
        nodes = step.nodes or frozenset()
        keys = [requirement.key for requirement in self.requirements]
        keys += [term.term.topology_key for term in self.component.apart]
        return NodesOutlook(keys, nodes, self.view, self.cache.limits.expected_domains)


def _vagueness(refusal: ClosedReason) -> tuple[bool, bool]:
    """Return a sort key with the most specific refusal first: zones in maintenance, pending pods, closed nodes."""
    return (not refusal.pending, not refusal.pod) if isinstance(refusal, NodesTakeNoMore) else (False, False)
