"""The requirements that a proof names bind: undoing some eviction violates each of them, and no other."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

from rebalancer.planning.multi_class.classes import Cell, PodClasses
from rebalancer.planning.multi_class.proof import MultiClassProof, prove
from rebalancer.planning.multi_class.solve import Solution
from rebalancer.planning.problem.protocol import Infeasible
from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.simulator import HOSTNAME, ZONE
from tests.planning.multi_class.test_agreement import of_one_class
from tests.planning.scenes import multi_class_problems, several_classes


def undone(classes: PodClasses, placed: Mapping[Cell, int]) -> Iterator[Mapping[Cell, int]]:
    """Yield the placement with each of its evictions undone: a pod is back on its node, and not on another one."""
    for index, pod_class in enumerate(classes.classes):
        nodes = pod_class.cap.keys() | pod_class.counts.keys()
        change = {node: placed.get((index, node), 0) - pod_class.counts.get(node, 0) for node in nodes}
        for left in (node for node in nodes if change[node] < 0):
            for taken in (node for node in nodes if change[node] > 0):
                yield Counter(placed) + Counter({(index, left): 1}) - Counter({(index, taken): 1})


Name = tuple[str, str, str, frozenset[str]]
"""Key, limit, bound, and the names of the workloads that a constraint counts, none where it counts all."""


def name_of(classes: PodClasses, number: int) -> Name:
    requirement, names, everyone = classes.requirements[number], set[str](), set[str]()
    for one in classes.classes:
        everyone |= {member.reference.name for member in one.members}
        names |= {member.reference.name for member in one.members if number in one.requirements}
    alone = frozenset(names) if names < everyone and not requirement.limit else frozenset[str]()
    return requirement.key, requirement.limit, requirement.stated_bound, alone


def violated(classes: PodClasses, placed: Mapping[Cell, int]) -> set[Name]:
    """Return the names of the requirements that a placement violates."""
    names = set()
    for number, requirement in enumerate(classes.requirements):
        counted = [index for index, one in enumerate(classes.classes) if number in one.requirements]
        held = dict.fromkeys({requirement.domain[node] for node in requirement.nodes}, 0)
        for node in requirement.nodes:
            pods = classes.others[number].get(node, 0) + sum(placed.get((index, node), 0) for index in counted)
            held[requirement.domain[node]] += pods
        bound, most, least = requirement.bound, max(held.values()), min(held.values())
        base = 0 if bound.floor_at_zero else least
        skewed = bound.max_skew is not None and most - base > bound.max_skew
        if skewed or (bound.cap is not None and most > bound.cap) or least < bound.least:
            names.add(name_of(classes, number))
    return names


def proofs(limits: SearchLimits, seeds: range) -> Iterator[tuple[int, PodClasses, Solution, MultiClassProof]]:
    for seed in seeds:
        scene = several_classes(Random(seed))
        for problem in (
            multi_class_problems(scene.snapshot(), scene.policy(), SearchCache(limits)) if scene.works else ()
        ):
            minimum, solution = problem.minimum(), problem.solution
            if not isinstance(minimum, Infeasible) and minimum.evictions:
                assert isinstance(solution, Solution)
                assert isinstance(minimum.proof.fact, MultiClassProof)
                yield seed, problem.classes, solution, minimum.proof.fact


def test_what_is_named_binds_and_nothing_else() -> None:
    """As undoing each single eviction of drawn components shows, counted anew for each."""
    sorts = Counter[str]()
    for seed, classes, solution, proof in proofs(SearchLimits(), range(200)):
        assert violated(classes, solution.placed) == set(), seed
        binding = set().union(*(violated(classes, placed) for placed in undone(classes, solution.placed)))
        named = [(one.key, one.limit, one.bound, frozenset(of.name for of in one.workloads)) for one in proof.binding]
        assert set(named) == binding, seed
        assert len(named) == len(binding), seed
        assert (proof.evictions, proof.lower_bound) == (solution.evictions, solution.bound)
        sorts["proofs"] += 1
        sorts["limits"] += any(one.limit for one in proof.binding)
        sorts["some of what is required"] += binding < {
            name_of(classes, number) for number in range(len(classes.requirements))
        }
        sorts["of some workloads"] += any(one.workloads for one in proof.binding)
    print(f"undone evictions: {dict(sorts)}, 0 differences")
    assert sorts["proofs"] > 40
    assert min(sorts.values()) > 0


def test_where_no_requirement_binds_something_else_does() -> None:
    """Two pods leave a zone of one node for two others, and the bounds of neither key are near.

    With a limit that is met it binds, also where pods of no class use up a part of it.
    """
    leaves = [[(4, 0, 9)], [(0, 0, 9), (0, 0, 9)]]
    placed = {(0, "z0n0"): 2, (0, "z1n0"): 1, (0, "z1n1"): 1}
    solution = Solution(placed=placed, evictions=2, bound=2)
    loose, limited = Bound(max_skew=4), Bound(cap=2)
    assert prove(of_one_class(leaves, (loose, loose), 0), solution) == MultiClassProof(2, 2, ())
    proof = prove(of_one_class(leaves, (loose, limited), 0), solution)
    assert [one.key for one in proof.binding] == [HOSTNAME]
    classes = of_one_class(leaves, (Bound(cap=3), loose), 0)
    assert prove(classes, solution).binding == ()
    with_another = replace(classes, others=({"z0n0": 1}, {}))
    assert [one.key for one in prove(with_another, solution).binding] == [ZONE]
