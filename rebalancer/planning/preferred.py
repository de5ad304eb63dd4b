"""Moves for preferred podAntiAffinity: one pod at a time, if the scheduler itself places its replacement better.

Problem: nothing forces the scheduler to honour a preferred term: it is one score among others, so an evicted pod may
come back to the same place forever. Idea: take the nodes that all scores together rank first. A move is made only if on
each of them the pairs in one domain weigh less than now, and no constraint, limit or required term is exceeded by more.
So each move lowers the weight, no move is repeated for the same gain, and at the least weight nothing moves.

    nodes a: 2, b: 1, c: 0 pods that select each other     2 pairs now; with one of a on c none

Example: a PreferNoSchedule taint on c outweighs the term. The replacement would be placed on a again: nothing is moved.

Cost: as for a prediction (`steps.lookahead`), from a budget that all such moves of a plan share.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import cast

from msgspec import structs

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.words import plural, short_key
from rebalancer.planning.anti_affinity.exclusions import Counts, Exclusion
from rebalancer.planning.case import Decision
from rebalancer.planning.multi_class.classes import Cell, PodClasses
from rebalancer.planning.plan import Proof
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.protocol import Step
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.planning.steps.lookahead import lookahead_step
from rebalancer.planning.steps.lookahead_models import MultiClassModel
from rebalancer.scheduling.place import top_scoring
from rebalancer.scheduling.view import View


class NoBetterPlace(Refusal):
    """No replacement of the component's pods would be placed where preferred terms are honoured more."""

    reason = Reason.NOT_FORCED

    def __str__(self) -> str:
        return (
            "preferred podAntiAffinity could be satisfied better, but by its scores kube-scheduler would not place the "
            "replacements that way"
        )


class EvenSpread(Fact):
    """Pods that prefer to be apart weigh least if each goes where the fewest others are and capacity is left."""

    key: str
    pods: int
    domains: int
    above: int

    def __str__(self) -> str:
        over = f"{plural(self.pods, 'pod')} over {plural(self.domains, 'domain')} of {short_key(self.key)}"
        return f"moving {plural(self.above, 'pod')} spreads {over} as far apart as capacity allows"


class _Weighing(MultiClassModel):
    """The lookahead model, with the weight of pairs in one domain in place of the bounds' requirements."""

    def __init__(self, problem: MultiClassProblem, budget: SearchBudget, limits: SearchLimits) -> None:
        super().__init__(problem.model, None, budget, limits)
        self._preferences = problem.classes.preferences
        self.may_wait = False

    def sum_of_minima(self, deltas: Mapping[Hashable, int]) -> int:
        """Return the weight of all pairs in a state."""
        return sum(one.cost(held) for one, held in self._weigh(deltas))

    def candidates(self, deltas: Mapping[Hashable, int], gone: frozenset[str]) -> Sequence[Victim]:
        """Return the cheapest pod of each cell whose pairs weigh anything, the heaviest first."""
        assert not gone, "one move at a time"
        weighed = self._weigh(deltas)
        ranked = []
        for number, pod_class in enumerate(self.classes.classes):
            for node, victims in pod_class.movable.items():
                saved = sum(_save(one, held, number, node) for one, held in weighed)
                if saved > 0:
                    ranked.append((-saved, victims[0].cost, node, victims[0]))
        return [victim for _, _, _, victim in sorted(ranked, key=lambda one: one[:3])]

    def distinct_nodes(self, deltas: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each class of nodes that are equal for every bound and weigh the same."""
        weighed = self._weigh(deltas)
        by_weight: dict[Hashable, list[str]] = {}
        for node in nodes:
            held = tuple((node in one.domain, counts.get(one.domain.get(node, ""))) for one, counts in weighed)
            by_weight.setdefault(held, []).append(node)
        for alike in by_weight.values():
            yield from super().distinct_nodes(deltas, alike)

    def _weigh(self, deltas: Mapping[Hashable, int]) -> Sequence[tuple[Exclusion, Mapping[str, Counts]]]:
        pods = self.hold(cast("Mapping[Cell, int]", deltas))
        return [(one, one.count(pods)) for one in self._preferences]


def _save(preference: Exclusion, held: Mapping[str, Counts], number: int, node: str) -> int:
    """Return how much less weight the pairs would have without one pod of a class on a node."""
    part = preference.parts.get(number)
    if part is None or node not in preference.domain:
        return 0
    domain = preference.domain[node]
    fewer = list(held[domain])
    fewer[part] -= 1
    return preference.cost_in(domain, held[domain]) - preference.cost_in(domain, (fewer[0], fewer[1], fewer[2]))


def find_better_place(problem: MultiClassProblem, view: View, budget: SearchBudget, limits: SearchLimits) -> Decision:
    """Decide about a component whose only purpose is to honour preferred terms more."""
    model = _Weighing(problem, budget, limits)
    part = budget.part(limits.lookahead_nodes)
    found, attempt = lookahead_step(view, model, StepGoal.PARTIAL, part, limits, choose=top_scoring, quick=True)
    if found is None:
        return Decision(refusal=NoBetterPlace(), attempts=(attempt,))
    even = find_even_spread(problem.classes)
    decision = Decision(
        step=Step(victims=(found.victim,), concurrent=found.concurrent, nodes=found.nodes),
        forced=False,
        method=attempt.method,
        attempts=(attempt,),
        ranked=problem.pods.ranked,
    )
    if even is None:
        return decision
    proof = Proof(partial(structs.replace, even))
    return structs.replace(decision, evictions=even.above, lower_bound=even.above, proved=proof)


def find_even_spread(classes: PodClasses) -> EvenSpread | None:
    """Return the least number of pods to move if one class prefers to be apart over one key; else None."""
    if len(classes.classes) != 1 or len(classes.preferences) != 1 or classes.pending or classes.requirements:
        return None
    (preference,), (pod_class,) = classes.preferences, classes.classes
    if preference.staying or preference.parts != {0: Part.BOTH} or not preference.domain.keys() >= pod_class.cap.keys():
        return None
    held, places = Counter[str](), Counter[str]()
    for node, most in pod_class.cap.items():
        held[preference.domain[node]] += pod_class.counts.get(node, 0)
        places[preference.domain[node]] += most
    even = Counter[str](dict.fromkeys(places, 0))
    # Each pod in turn goes to the domain with the fewest pods and a free place, which gives the least weight. Among
    # equal domains it goes where a pod already is, so that the fewest move.
    open_domains = [(0, held[domain] == 0, domain) for domain in places if places[domain]]
    heapify(open_domains)
    for _ in range(pod_class.total):
        number, _, domain = heappop(open_domains)
        even[domain] = number + 1
        if number + 1 < places[domain]:
            heappush(open_domains, (number + 1, held[domain] <= number + 1, domain))
    above = sum(max(0, held[domain] - even[domain]) for domain in places)
    return EvenSpread(preference.key, pod_class.total, len(places), above) if above else None
