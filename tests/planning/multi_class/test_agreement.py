"""What is proved in one way is proved in another: by counting, by programs over kinds and over pods, by every set."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from random import Random
from typing import Any

import highspy
import pytest
from msgspec import structs

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.model.labels import Labels
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.multi_class.classes import MultiClassProblem, PodClass
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.minimum import Windows, minimum_repair, summarize
from rebalancer.planning.single_class.placement import Bound, make_inner
from rebalancer.planning.single_class.selection import select_victims
from tests.controller.simulated import eager
from tests.planning.scenes import Asked, Scene, Work, problems, several_kinds

Leaves = list[list[tuple[int, int, int]]]
"""For each zone its nodes as (pods, immovable, most)."""


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


def of_one_kind(leaves: Leaves, bounds: tuple[Bound, Bound], pending: int) -> MultiClassProblem:
    """Return the same component as one kind under two demands."""
    nodes = {
        f"z{zone}n{number}": (f"z{zone}", leaf) for zone, each in enumerate(leaves) for number, leaf in enumerate(each)
    }
    counts = {name: held for name, (_, (held, _, _)) in nodes.items() if held}
    nothing: Any = None
    demands = tuple(
        Requirement(
            source=nothing,
            key=key,
            domain=domain,
            nodes=frozenset(nodes),
            counted=counts,
            many=len(set(domain.values())),
            max_skew=bound.max_skew,
            floor_at_zero=bound.floor_at_zero,
            cap=bound.cap,
            least=bound.least,
        )
        for key, domain, bound in (
            (ZONE, {name: zone for name, (zone, _) in nodes.items()}, bounds[0]),
            (HOSTNAME, {name: name for name in nodes}, bounds[1]),
        )
    )
    kind = PodClass(
        sample=nothing,
        members=(),
        reception=nothing,
        counts=counts,
        fixed={name: fixed for name, (_, (_, fixed, _)) in nodes.items()},
        cap={name: cap for name, (_, (_, _, cap)) in nodes.items()},
        now=counts,
        movable={},
        pending=pending,
        requirements=frozenset({0, 1}),
    )
    return MultiClassProblem(
        component=nothing,
        requirements=demands,
        classes=(kind,),
        exclusions=(),
        others=({}, {}),
        view=None,
        sorted=PodPartition(),
    )


def counted_against_the_program(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        leaves, bounds, pending = drawn(Random(seed))
        root = make_inner(make_inner((held, fixed, cap, 0) for held, fixed, cap in zone) for zone in leaves)
        exact, solved = minimum_repair(root, bounds, pending), solve(of_one_kind(leaves, bounds, pending))
        if exact is None:
            assert solved is Unsolved.INFEASIBLE, (seed, solved)
            found["infeasible"] += 1
        else:
            assert not isinstance(solved, Unsolved), (seed, exact, solved)
            assert (solved.evictions, solved.bound) == (exact[0], exact[0]), seed
            found["feasible" if exact[0] else "right already"] += 1
    return found


def test_counting_equals_the_program() -> None:
    """Sum and clamp finds the same minimum as the integer program, and none exactly where that is infeasible."""
    found = counted_against_the_program(range(600))
    print(f"counting against the program: {dict(found)}, 0 differences")
    assert found["feasible"] > 100
    assert found["infeasible"] > 100


@pytest.mark.thorough
def test_counting_equals_the_program_thorough() -> None:
    """The same for 30,000 components."""
    found = counted_against_the_program(range(10**6, 10**6 + 30_000))
    print(f"counting against the program: {dict(found)}, 0 differences")


class Plain:
    """A model with a column for each pod and node, written from the facts of a scene alone."""

    def __init__(self, scene: Scene, most: Sequence[tuple[frozenset[str], Mapping[str, int]]] = ()) -> None:
        """Take as `most` how many pods of some workloads together a node may hold, beside what fits."""
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
        for places in self._on:
            self._rows.append((1, 1, dict.fromkeys(places.values(), 1.0)))
        works = [work for work, _ in every]
        for node, (_, cpu) in scene.nodes.items():
            asked = {places[node]: float(work.cpu) for work, places in zip(works, self._on, strict=True)}
            self._rows.append((-inf, cpu, asked))
        self._ask(works)
        for names, caps in most:
            for node in scene.nodes:
                row = {at[node]: 1.0 for work, at in zip(works, self._on, strict=True) if work.name in names}
                self._rows.append((-inf, caps.get(node, 0), row))

    def _ask(self, works: Sequence[Work]) -> None:
        """Add what constraints, limits and anti-affinity ask; `works` says of each pod whose it is."""
        scene = self._scene
        for only, each in {(work.only, each) for work in scene.works for each in work.asked}:
            domains = self._domains(each.key, [each.label in work.labels for work in works], only)
            skew, least_domains = each.max_skew, each.min_domains
            low = self._column(99 if len(domains) >= least_domains else 0, 0)
            for row in domains.values():
                self._rows.append((-inf, skew, {**row, low: -1}))
                self._rows.append((0, inf, {**row, low: -1}))
        for label, key, most in scene.limits:
            for row in self._domains(key, [label in work.labels for work in works]).values():
                self._rows.append((-inf, most, row))
        for work in scene.works:
            if work.apart:
                for row in self._domains(work.apart_by, [work.apart in each.labels for each in works]).values():
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
        found: dict[str, dict[int, float]] = {domain: {} for domain in nodes.values()}
        for places, counts in zip(self._on, meant, strict=True):
            if counts:
                for node, domain in nodes.items():
                    found[domain][places[node]] = 1
        return found

    def evictions(self) -> int | None:
        """Return the fewest pods that leave their nodes, None where no arrangement does."""
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


def kinds_against_pods(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        scene = several_kinds(Random(seed))
        everyone = {work.name for work in scene.works}
        for problem in problems(scene.snapshot(), scene.policy()) if scene.works else ():
            names = set()
            if isinstance(problem, MultiClassProblem):
                names = {each.owner.name for each in problem.component.members if each.owner is not None}
            if not isinstance(problem, MultiClassProblem) or names != everyone:
                continue
            solved, plain = solve(problem), Plain(scene).evictions()
            if _answer(solved) == plain:
                found["infeasible" if plain is None else "feasible"] += 1
            else:
                # Room of a node that only the leaving of another kind makes is not counted, on the safe side.
                assert _answer(solved) == Plain(scene, _caps(problem)).evictions(), seed
                found["room that another kind frees"] += 1
    return found


def _answer(solved: Solution | Unsolved) -> int | None:
    """Return the evictions, None where there is no arrangement; what is not proved is no answer."""
    if isinstance(solved, Unsolved):
        assert solved is Unsolved.INFEASIBLE
        return None
    assert solved.evictions == solved.bound
    return solved.evictions


def _caps(mixed: MultiClassProblem) -> list[tuple[frozenset[str], Mapping[str, int]]]:
    return [
        (frozenset(each.owner.name for each in kind.members if each.owner is not None), kind.cap)
        for kind in mixed.classes
    ]


def test_kinds_equal_pods() -> None:
    """The program over kinds finds the minimum of a model of single pods, but for room that other kinds must free."""
    found = kinds_against_pods(range(100))
    print(f"kinds against pods: {dict(found)}, 0 other differences")
    assert found["feasible"] > 20
    assert found["infeasible"] > 5


@pytest.mark.thorough
def test_kinds_equal_pods_thorough() -> None:
    """The same for more than 1,000 components."""
    found = kinds_against_pods(range(10**6, 10**6 + 1_500))
    print(f"kinds against pods: {dict(found)}, 0 other differences")
    assert found.total() >= 1_000


def of_unequal_worth(choice: Random) -> SingleClassProblem | None:
    """Draw a small group of equal pods with deletion costs, most of them such that any minimal victims will do."""
    blueprint = ClusterBuilder()
    on = {}
    for zone in range(choice.randint(2, 4)):
        for number in range(choice.randint(1, 4)):
            blueprint.node(f"{zone}{number}", zone=f"z{zone}")
            on[f"{zone}{number}"] = choice.choice([0, 0, 0, 1, 1, 2, 3])
    if not 2 <= sum(on.values()) <= 12:
        return None
    spread = {ZONE: 1, **({HOSTNAME: choice.randint(1, 3)} if choice.random() < 0.7 else {})}
    blueprint.deployment("web", on=on, spread=spread)
    snapshot = blueprint.snapshot()
    key = "controller.kubernetes.io/pod-deletion-cost"
    pods = tuple(
        structs.replace(pod, annotations=Labels({key: str(choice.randint(-3, 3))}), ready=choice.random() < 0.8)
        for pod in snapshot.pods
    )
    found = problems(replace(snapshot, pods=pods), eager())
    return found[0] if found and isinstance(found[0], SingleClassProblem) else None


def sets_within(problem: SingleClassProblem, windows: Windows, fewest: int) -> Iterator[list[Victim]]:
    """Yield every set of so many victims after which the others can stay, and all others find places beside them."""
    layout = problem.layout
    every = [(site, victim) for site in layout.sites.values() for victim in site.movable]
    total = problem.pending + sum(site.count for site in layout.sites.values())
    for chosen in combinations(every, fewest):
        deltas = Counter(site.node for site, _ in chosen)
        after = layout.shifted({node: -many for node, many in deltas.items()})
        found = summarize(after, ((total, total), *windows))
        if found is not None and found[0] == 0:
            yield sorted((victim for _, victim in chosen), key=lambda each: each.cost)


def cheapest_against_every_set(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        problem = of_unequal_worth(Random(seed))
        if problem is None:
            continue
        layout = problem.layout
        solved = minimum_repair(layout.root, layout.bounds, problem.pending)
        if solved is None or not 0 < solved[0] <= 4 or not certify(layout.root, layout.bounds, problem.pending):
            continue
        fewest, windows = solved
        costs = [victim.cost for victim in select_victims(layout, windows, fewest)]
        best = min([each.cost for each in victims] for victims in sets_within(problem, windows, fewest))
        assert costs == best, seed
        found["compared"] += 1
    return found


def test_the_cheapest_victims_are_the_cheapest_of_all_sets() -> None:
    """Of all sets of victims that the minimal arrangement can spare, the cheapest by every pod's cost is taken."""
    found = cheapest_against_every_set(range(400))
    print(f"victims against every set: {dict(found)}, 0 differences")
    assert found["compared"] > 50


@pytest.mark.thorough
def test_the_cheapest_victims_are_the_cheapest_of_all_sets_thorough() -> None:
    """The same for thousands of groups."""
    found = cheapest_against_every_set(range(10**6, 10**6 + 6_000))
    print(f"victims against every set: {dict(found)}, 0 differences")


def test_room_that_another_kind_frees() -> None:
    """Three evictions would do, the first of which makes room on n10 for a pod of another kind."""
    everywhere = Asked(key=ZONE, max_skew=1, label="all")
    scene = Scene(
        nodes={"n00": ("z0", 2000), "n10": ("z1", 1000), "n11": ("z1", 2000)},
        works=(
            Work(
                name="w0",
                cpu=300,
                labels=frozenset({"all", "w0"}),
                on={"n00": 3, "n11": 1},
                asked=(Asked(key=HOSTNAME, max_skew=1, label="w0"),),
            ),
            Work(
                name="w1",
                cpu=100,
                labels=frozenset({"all", "w1"}),
                on={"n00": 1, "n10": 2},
                asked=(everywhere, Asked(key=HOSTNAME, max_skew=2, label="w1")),
            ),
            Work(
                name="w2",
                cpu=700,
                labels=frozenset({"all", "w2"}),
                on={"n00": 1, "n10": 1},
                missing=1,
                asked=(Asked(key=ZONE, max_skew=2, label="all"),),
            ),
        ),
    )
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    assert Plain(scene).evictions() == 3
    assert _answer(solve(problem)) == 3
