"""What is proved in one way is proved in another: by counting, by programs over pod classes and over single pods."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import highspy
import pytest
from msgspec import structs

from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.bounds import Bound, Same
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.single_class.minimum import minimum_repair
from rebalancer.planning.single_class.placement import make_inner
from rebalancer.simulator import HOSTNAME, ZONE
from tests.planning.scenes import Constraint, Scene, Work, problems, several_classes
from tests.planning.states import CACHE, LIMITS

Leaves = list[list[tuple[int, int, int]]]


def drawn(choice: Random) -> tuple[Leaves, tuple[Bound, Bound], int]:
    """Draw equal pods: caps, immovable and pending ones, unmet minDomains, limits, soft constraints."""
    leaves = []
    for _ in range(choice.randint(1, 5)):
        zone = []
        for _ in range(choice.randint(1, 4)):
            held = choice.choice([0, 0, 1, 1, 2, 3, 5])
            zone.append((held, choice.choice([0, 0, 0, min(1, held), held]), held + choice.choice([0, 1, 3, 99, 99])))
        leaves.append(zone)
    total = sum(held for zone in leaves for held, _, _ in zone)
    pending = choice.choice([0, 0, 0, 1, 2, 3])

    def bound(many: int) -> Bound:
        share = -(-(total + pending) // many)
        return Bound(
            max_skew=choice.choice([None, 1, 1, 2, 3]),
            floor_at_zero=choice.random() < 0.1,
            cap=choice.choice([None, None, None, share, share + 1]),
            least=choice.choice([0, 0, 0, 0, 1]),
            enforced=choice.choice([None, 1, 3]),
        )

    return leaves, (bound(len(leaves)), bound(sum(map(len, leaves)))), pending


def of_one_class(leaves: Leaves, bounds: tuple[Bound, Bound], pending: int) -> PodClasses:
    """Return the same component as one pod class under two requirements."""
    nodes = {
        f"z{zone}n{number}": (f"z{zone}", leaf)
        for zone, nodes_of in enumerate(leaves)
        for number, leaf in enumerate(nodes_of)
    }
    counts = {name: held for name, (_, (held, _, _)) in nodes.items() if held}
    nothing: Any = None
    requirements = tuple(
        Requirement(
            source=nothing,
            key=key,
            domain=domain,
            nodes=frozenset(nodes),
            counted=counts,
            domains=len(set(domain.values())),
            bound=structs.replace(bound, enforced=Same.SAME),
        )
        for key, domain, bound in (
            (ZONE, {name: zone for name, (zone, _) in nodes.items()}, bounds[0]),
            (HOSTNAME, {name: name for name in nodes}, bounds[1]),
        )
    )
    pod_class = PodClass(
        sample=nothing,
        members=(),
        capacity=nothing,
        counts=counts,
        fixed={name: fixed for name, (_, (_, fixed, _)) in nodes.items()},
        cap={name: cap for name, (_, (_, _, cap)) in nodes.items()},
        now=counts,
        movable={},
        pending=pending,
        requirements=frozenset({0, 1}),
    )
    return PodClasses(
        component=nothing,
        requirements=requirements,
        classes=(pod_class,),
        exclusions=(),
        others=({}, {}),
        view=None,
        pods=PodPartition(),
    )


def counted_against_the_program(seeds: range) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in seeds:
        leaves, bounds, pending = drawn(Random(seed))
        root = make_inner(make_inner((held, fixed, cap, 0) for held, fixed, cap in zone) for zone in leaves)
        exact, solved = (
            minimum_repair(root, bounds, pending, CACHE),
            solve(of_one_class(leaves, bounds, pending), LIMITS),
        )
        if exact is None:
            assert solved is Unsolved.INFEASIBLE, (seed, solved)
            counted["infeasible"] += 1
        else:
            assert not isinstance(solved, Unsolved), (seed, exact, solved)
            assert (solved.evictions, solved.bound) == (exact[0], exact[0]), seed
            counted["feasible" if exact[0] else "satisfied already"] += 1
    return counted


def test_counting_equals_the_program() -> None:
    """Sum and clamp finds the same minimum as the integer program, and none exactly where that is infeasible."""
    result = counted_against_the_program(range(600))
    print(f"counting against the program: {dict(result)}, 0 differences")
    assert result["feasible"] > 100
    assert result["infeasible"] > 100


@pytest.mark.thorough
def test_counting_equals_the_program_thorough() -> None:
    """The same for 30,000 components."""
    result = counted_against_the_program(range(10**6, 10**6 + 30_000))
    print(f"counting against the program: {dict(result)}, 0 differences")


class Plain:
    """A model with a column for each pod and node, written from the facts of a scene alone."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[float, float, dict[int, float]]] = []
        pods = [(work, node) for work in scene.works for node, many in work.on.items() for _ in range(many)]
        every = [*pods, *((work, "") for work in scene.works for _ in range(work.missing))]
        self._on = [
            {
                node: self._column(float(not work.only or zone in work.only), float(bool(own) and node != own))
                for node, (zone, _) in scene.nodes.items()
            }
            for work, own in every
        ]
        for places, (work, own) in zip(self._on, every, strict=True):
            self._rows.append((1, 1, dict.fromkeys(places.values(), 1.0)))
            if own and not _has_requirements(work, scene):  # not moved for others
                self._rows.append((1, 1, {places[own]: 1.0}))
        works = [work for work, _ in every]
        for node, (_, cpu) in scene.nodes.items():
            used = {places[node]: float(work.cpu) for work, places in zip(works, self._on, strict=True)}
            self._rows.append((-inf, cpu, used))
        self._ask(works)

    def _ask(self, works: Sequence[Work]) -> None:
        """Add what constraints, limits and anti-affinity ask; `works` says of each pod whose it is."""
        scene = self._scene
        for only, stated in {(work.only, constraint) for work in scene.works for constraint in work.constraints}:
            domains = self._domains(stated.key, [stated.label in work.labels for work in works], only)
            skew, least_domains = stated.max_skew, stated.min_domains
            low = self._column(99 if len(domains) >= least_domains else 0, 0)
            for row in domains.values():
                self._rows.append((-inf, skew, {**row, low: -1}))
                self._rows.append((0, inf, {**row, low: -1}))
        for label, key, most in scene.limits:
            for row in self._domains(key, [label in work.labels for work in works]).values():
                self._rows.append((-inf, most, row))
        for work in scene.works:
            if work.apart:
                for row in self._domains(work.apart_by, [work.apart in other.labels for other in works]).values():
                    self._rows.append((-inf, 1, row))

    def _column(self, upper: float, cost: float) -> int:
        self._costs.append(cost)
        self._upper.append(upper)
        return len(self._costs) - 1

    def _domains(
        self, key: str, meant: Sequence[bool], only: frozenset[str] = frozenset()
    ) -> Mapping[str, dict[int, float]]:
        """Return a row for each domain of a key: the columns of the pods that are meant, on nodes of these zones."""
        nodes = {node: self._scene.domain(node, key) for node, (zone, _) in self._scene.nodes.items()}
        if only:
            nodes = {node: domain for node, domain in nodes.items() if self._scene.nodes[node][0] in only}
        result: dict[str, dict[int, float]] = {domain: {} for domain in nodes.values()}
        for places, counts in zip(self._on, meant, strict=True):
            if counts:
                for node, domain in nodes.items():
                    result[domain][places[node]] = 1
        return result

    def evictions(self) -> int | None:
        """Return the fewest pods that leave their nodes, None where no placement exists."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, setting in (("output_flag", False), ("presolve", "off"), ("threads", 1), ("mip_rel_gap", 0.0)):
            solver.setOptionValue(option, setting)
        for cost, upper in zip(self._costs, self._upper, strict=True):
            solver.addCol(cost, 0, upper, 0, [], [])
        many = len(self._costs)
        integer: Any = [highspy.HighsVarType.kInteger] * many
        solver.changeColsIntegrality(many, list(range(many)), integer)
        for low, high, row in self._rows:
            solver.addRow(low, high, len(row), list(row), list(row.values()))
        solver.run()
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return None
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return round(solver.getInfo().objective_function_value)


def _has_requirements(work: Work, scene: Scene) -> bool:
    return bool(work.constraints) or any(label in work.labels for label, _, _ in scene.limits)


def classes_against_pods(seeds: range) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in seeds:
        scene = several_classes(Random(seed))
        everyone = {work.name for work in scene.works}
        for problem in problems(scene.snapshot(), scene.policy()) if scene.works else ():
            names = set()
            if isinstance(problem, MultiClassProblem):
                names = {member.owner.name for member in problem.component.members if member.owner is not None}
            if not isinstance(problem, MultiClassProblem) or names != everyone:
                continue
            solved, plain = solve(problem.classes, LIMITS), Plain(scene).evictions()
            assert _answer(solved) == plain, seed
            counted["infeasible" if plain is None else "feasible"] += 1
    return counted


def _answer(solved: Solution | Unsolved) -> int | None:
    """Return the evictions, None where there is no placement; what is not proved is no answer."""
    if isinstance(solved, Unsolved):
        assert solved is Unsolved.INFEASIBLE
        return None
    assert solved.evictions == solved.bound
    return solved.evictions


def test_programs_over_classes_equal_those_over_pods() -> None:
    """The program over classes finds the minimum of a model of single pods."""
    result = classes_against_pods(range(100))
    print(f"classes against pods: {dict(result)}, 0 differences")
    assert result["feasible"] > 20
    assert result["infeasible"] > 5


@pytest.mark.thorough
def test_programs_over_classes_equal_those_over_pods_thorough() -> None:
    """The same for more than 1,000 components."""
    result = classes_against_pods(range(10**6, 10**6 + 1_500))
    print(f"classes against pods: {dict(result)}, 0 differences")
    assert result.total() >= 1_000


def test_pods_that_only_others_count_stay() -> None:
    """A third workload's two pods on n10 exceed the skew of the others, which the proof calls beyond repair."""
    both = tuple(Constraint(key=key, max_skew=skew, label="all") for key, skew in ((ZONE, 2), (HOSTNAME, 1)))
    scene = Scene(
        nodes={f"n{zone}{number}": (f"z{zone}", 2000) for zone in range(3) for number in range(3)},
        works=(
            Work(name="w0", cpu=700, labels=frozenset({"all"}), on={"n00": 1}, constraints=both),
            Work(name="w1", cpu=100, labels=frozenset({"all"}), on={"n10": 2}),
            Work(name="w2", cpu=100, labels=frozenset({"all"}), on={"n01": 1, "n10": 1, "n12": 1}, constraints=both),
        ),
    )
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    assert Plain(scene).evictions() is None
    assert _answer(solve(problem.classes, LIMITS)) is None
    their_own = replace(scene.works[1], constraints=both)
    scene = replace(scene, works=(scene.works[0], their_own, scene.works[2]))
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    assert Plain(scene).evictions() == 2
    assert _answer(solve(problem.classes, LIMITS)) == 2


def test_capacity_that_another_class_frees() -> None:
    """Three evictions would do, the first of which makes capacity on n10 for a pod of another class."""
    everywhere = Constraint(key=ZONE, max_skew=1, label="all")
    scene = Scene(
        nodes={"n00": ("z0", 2000), "n10": ("z1", 1000), "n11": ("z1", 2000)},
        works=(
            Work(
                name="w0",
                cpu=300,
                labels=frozenset({"all", "w0"}),
                on={"n00": 3, "n11": 1},
                constraints=(Constraint(key=HOSTNAME, max_skew=1, label="w0"),),
            ),
            Work(
                name="w1",
                cpu=100,
                labels=frozenset({"all", "w1"}),
                on={"n00": 1, "n10": 2},
                constraints=(everywhere, Constraint(key=HOSTNAME, max_skew=2, label="w1")),
            ),
            Work(
                name="w2",
                cpu=700,
                labels=frozenset({"all", "w2"}),
                on={"n00": 1, "n10": 1},
                missing=1,
                constraints=(Constraint(key=ZONE, max_skew=2, label="all"),),
            ),
        ),
    )
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    assert Plain(scene).evictions() == 3
    assert _answer(solve(problem.classes, LIMITS)) == 3
