"""The smallest relaxation of an infeasible component: the nearest that is feasible, held against trying everything."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from msgspec import structs

from rebalancer.model.facts import Fact
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.diagnosis.obstacles import NoPlacement, diagnose_multi_class
from rebalancer.planning.diagnosis.relaxation import Relaxation, ReplicaChange, find_relaxation
from rebalancer.planning.diagnosis.slack import RelaxedBound, most_slack, shared_bounds
from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Policy
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, a_policy
from tests.planning.build import planned
from tests.planning.scenes import POLICY, Constraint, Scene, Work, multi_class_problems
from tests.planning.states import LIMITS

Numbers = tuple[int, ...]
"""Replicas by workload."""

Rule = tuple[str, int, frozenset[str]]
"""What workloads require alike: a key, its maxSkew, and the workloads whose pods count."""

Placed = tuple[Mapping[str, int], ...]
"""By workload, how many pods are on each node."""

_FARTHEST = 4
"""So many pods more or fewer the oracle tries."""


def splits(pods: int, nodes: Sequence[str]) -> Iterator[Mapping[str, int]]:
    """Yield every way to put so many equal pods on nodes."""
    if len(nodes) == 1:
        yield {nodes[0]: pods}
        return
    for first in range(pods + 1):
        for rest in splits(pods - first, nodes[1:]):
            yield {nodes[0]: first, **rest}


def rule_of(scene: Scene, constraint: Constraint) -> Rule:
    counted_works = frozenset(work.name for work in scene.works if constraint.label in work.labels)
    return constraint.key, constraint.max_skew, counted_works


def holds(scene: Scene, placed: Placed, more: Mapping[Rule, int]) -> bool:
    """Return whether all constraints hold, some of them relaxed by so much."""
    for work in scene.works:
        for constraint in work.constraints:
            counts = counted(scene, placed, constraint.label, constraint.key)
            skew = max(counts.values()) - min(counts.values())
            if skew > constraint.max_skew + more.get(rule_of(scene, constraint), 0):
                return False
    return True


def apart(scene: Scene, work: Work, own: Mapping[str, int]) -> bool:
    """Return whether the pods of a workload keep as far apart as it requires."""
    counts = Counter(scene.domain(node, work.apart_by) for node, pods in own.items() for _ in range(pods))
    return not work.apart or max(counts.values()) == 1


def counted(scene: Scene, placed: Placed, label: str, key: str) -> Mapping[str, int]:
    counts = {scene.domain(node, key): 0 for node in scene.nodes}
    for work, own in zip(scene.works, placed, strict=True):
        if label in work.labels:
            for node, pods in own.items():
                counts[scene.domain(node, key)] += pods
    return counts


def is_feasible(scene: Scene, numbers: Numbers, more: Mapping[Rule, int] | None = None) -> bool:
    """Try every placement of so many pods."""
    options = [
        [own for own in splits(replicas, list(scene.nodes)) if apart(scene, work, own)]
        for work, replicas in zip(scene.works, numbers, strict=True)
    ]
    return any(holds(scene, placed, more or {}) for placed in product(*options))


def numbers_of(scene: Scene) -> Numbers:
    return tuple(sum(work.on.values()) + work.missing for work in scene.works)


def least_change(scene: Scene) -> tuple[int, bool] | None:
    """Return by how many pods the nearest feasible numbers differ, and whether of one workload alone."""
    now = numbers_of(scene)
    for size in range(1, _FARTHEST + 1):
        changes = [more for more in product(range(-size, size + 1), repeat=len(now)) if sum(map(abs, more)) == size]
        for changed in sorted(changes, key=_count_changed):
            after = tuple(before + more for before, more in zip(now, changed, strict=True))
            if min(after) > 0 and is_feasible(scene, after):
                return size, _count_changed(changed) == 1
    return None


def _count_changed(changes: Numbers) -> int:
    return sum(map(bool, changes))


def rules_of(scene: Scene) -> list[Rule]:
    return list(dict.fromkeys(rule_of(scene, constraint) for work in scene.works for constraint in work.constraints))


def least_slack(scene: Scene) -> int | None:
    """Return by how much one constraint must be relaxed at least."""
    now = numbers_of(scene)
    for by in range(1, sum(now)):
        if any(is_feasible(scene, now, {rule: by}) for rule in rules_of(scene)):
            return by
    return None


def drawn(choice: Random) -> Scene:
    """Draw small workloads on a few uneven nodes, under constraints that often exclude each other."""
    sizes = choice.choice([(1, 2), (1, 3), (1, 1, 1), (1, 1, 2)])
    nodes = {f"n{zone}{number}": (f"z{zone}", 16_000) for zone, size in enumerate(sizes) for number in range(size)}
    works = []
    for number in range(choice.randint(2, 3)):
        on = Counter(choice.choice(sorted(nodes)) for _ in range(choice.randint(1, 3)))
        apart = choice.choice(["", "", ZONE, HOSTNAME])
        labels = {"all", f"w{number}", *(["one"] if choice.random() < 0.5 else [])}
        constraints = [
            Constraint(
                key=key, max_skew=choice.choice([1, 1, 1, 2]), label=choice.choice(["all", "all", *sorted(labels)])
            )
            for key in (ZONE, HOSTNAME)
            if choice.random() < 0.8
        ]
        works.append(
            Work(
                name=f"w{number}",
                cpu=choice.choice([100, 200]),
                labels=frozenset(labels),
                on=on,
                constraints=tuple(constraints),
                apart=f"w{number}" if apart else "",
                apart_by=apart or ZONE,
            )
        )
    return Scene(nodes=nodes, works=tuple(works))


def infeasible(scene: Scene) -> PodClasses | None:
    """Return the component of all workloads where no placement satisfies it."""
    for problem in multi_class_problems(scene.snapshot(), scene.policy()):
        if len(problem.component.members) == len(scene.works):
            classes = problem.classes
            solution = solve(classes, LIMITS)
            if (
                isinstance(solution, Unsolved)
                and diagnose_multi_class(classes, solution, LIMITS, None, NodesTakeNoMore)[0] is State.INFEASIBLE
            ):
                return classes
    return None


def named_numbers(relaxation: Relaxation, scene: Scene) -> Numbers | None:
    """Return the numbers of replicas that a relaxation names, those that it leaves out as they are."""
    named = {change.workload.name: change.replicas for change in relaxation.replicas}
    now = dict(zip((work.name for work in scene.works), numbers_of(scene), strict=True))
    return tuple({**now, **named}.values()) if named else None


def compared(seeds: range) -> Counter[str]:
    """Hold relaxations against every placement of every number; count the components by what was named."""
    counted: Counter[str] = Counter()
    for seed in seeds:
        scene = drawn(Random(seed))
        classes = infeasible(scene)
        if classes is not None:
            relaxation = find_relaxation(classes, LIMITS)
            numbers, bound = check_numbers(relaxation, scene, seed), check_bound(relaxation, scene, seed)
            counted[f"{numbers}, {bound}"] += 1
    return counted


def check_numbers(relaxation: Relaxation, scene: Scene, seed: int) -> str:
    """Fail unless the numbers of replicas are the nearest that are feasible; return what was named."""
    after, best = named_numbers(relaxation, scene), least_change(scene)
    if after is None or best is None:
        assert after is None, seed
        assert best is None, seed
        return "no numbers"
    assert is_feasible(scene, after), seed
    changes = [then - before for then, before in zip(after, numbers_of(scene), strict=True)]
    assert (sum(map(abs, changes)), sum(map(bool, changes)) == 1) == best, seed
    return "one number" if best[1] else "several numbers"


def check_bound(relaxation: Relaxation, scene: Scene, seed: int) -> str:
    """Fail unless the bound is the least relaxation of one constraint; return what was named."""
    named, least = relaxation.bound, least_slack(scene)
    if named is None or least is None:
        assert named is None, seed
        assert least is None, seed
        return "no bound"
    enough = [rule for rule in rules_of(scene) if is_feasible(scene, numbers_of(scene), {rule: least})]
    assert (named.key, named.max_skew) in {(rule[0], rule[1] + least) for rule in enough}, seed
    return f"maxSkew {least} higher"


def test_a_relaxation_is_the_nearest_of_all() -> None:
    """Numbers and bound are feasible, by trying every placement, and nothing nearer is; one number rather than two."""
    counted = compared(range(120))
    assert counted.total() > 15
    assert len(counted) > 2


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_a_relaxation_is_the_nearest_of_all_thorough() -> None:
    """The same for 2,000 components, feasible ones left out."""
    counted = compared(range(10**6, 10**6 + 2_000))
    print(f"nearest against every placement: {dict(counted)}, 0 differences")


def relaxed(scene: Scene, policy: Policy | None = None, limits: SearchLimits = LIMITS) -> Relaxation:
    """Return the relaxation of the one component of a scene, which no placement satisfies."""
    (problem,) = multi_class_problems(scene.snapshot(), policy or scene.policy())
    solution = solve(problem.classes, LIMITS)
    assert isinstance(solution, Unsolved)
    state, refusal = diagnose_multi_class(problem.classes, solution, LIMITS, problem.nearest, NodesTakeNoMore)
    assert (state, refusal.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    return find_relaxation(problem.classes, limits)


def replica_change(name: str, replicas: int, more: int) -> ReplicaChange:
    return ReplicaChange(Reference("default", "StatefulSet", name), replicas, more)


TWO_ZONES = {"a1": ("a", 16_000), "b1": ("b", 16_000)}
UNEVEN = {"a1": ("a", 16_000), **{f"b{number}": ("b", 16_000) for number in (1, 2, 3)}}


def shards(number: int, cpu: int = 100, extra: int = 0) -> Scene:
    """Return shards of three that keep apart over two zones, of one more pod where `extra` says so."""
    works = [
        Work(
            name=f"w{index}",
            cpu=cpu + index,
            labels=frozenset({"all", f"w{index}"}),
            on={"a1": 1, "b1": 2 + extra},
            constraints=(Constraint(key=ZONE, max_skew=1, label="all"),),
            apart=f"w{index}",
        )
        for index in range(number)
    ]
    return Scene(nodes=TWO_ZONES, works=tuple(works))


def test_all_workloads_that_must_change_are_named() -> None:
    """Shards of three or four over two zones: two replicas of each are feasible."""
    assert relaxed(shards(2)) == Relaxation((replica_change("w0", 2, -1), replica_change("w1", 2, -1)))
    assert relaxed(shards(4)) == Relaxation(tuple(replica_change(f"w{number}", 2, -1) for number in range(4)))
    assert relaxed(shards(4, extra=1)) == Relaxation(tuple(replica_change(f"w{number}", 2, -2) for number in range(4)))


def test_equal_workloads_share_a_change() -> None:
    """A change of one class is taken from as few owners as are enough, the largest first; one pod of each stays."""
    alike = frozenset({"all"})
    constraints = (Constraint(key=ZONE, max_skew=1, label="all"),)
    works = tuple(
        Work(name=name, cpu=100, labels=alike, on=on, constraints=constraints, apart="all")
        for name, on in (("w0", {"b1": 3}), ("w1", {"b1": 1}), ("w2", {"a1": 1}))
    )
    other = Work(name="w3", cpu=200, labels=alike, on={"a1": 1}, constraints=constraints, apart="all")
    scene = Scene(nodes={f"{zone}1": (zone, 16_000) for zone in "abcd"}, works=(*works, other))
    assert relaxed(scene) == Relaxation((replica_change("w0", 1, -2),))
    larger = replace(scene, works=(works[0], replace(works[1], on={"b1": 2}), works[2], other))
    assert relaxed(larger) == Relaxation((replica_change("w0", 1, -2), replica_change("w1", 1, -1)))


def limited(*limits: str) -> tuple[Scene, Policy]:
    """Return eight pods of two classes on zones of one and three nodes, all on one node, under limits of a policy."""
    works = tuple(
        Work(name=name, cpu=cpu, labels=frozenset({"all"}), on={"b1": 4}) for name, cpu in (("w0", 100), ("w1", 200))
    )
    rules = ", ".join(f"{{name: l{number}, {limit}, action: Evict}}" for number, limit in enumerate(limits))
    group = f"groups: [{{name: g, selector: {{}}, groupBy: [all], limits: [{rules}]}}]\n"
    return Scene(nodes=UNEVEN, works=works), a_policy(POLICY + group)


EVEN = f"topologyKey: {HOSTNAME}, minPods: 2"


@pytest.mark.parametrize(
    ("limits", "bound"),
    [
        ((f"topologyKey: {ZONE}, maxPods: 5", EVEN), RelaxedBound(limit="g/l0", max_pods=6)),
        ((EVEN, f"topologyKey: {ZONE}, maxPods: 5"), RelaxedBound(limit="g/l0", min_pods=1)),
        ((f'topologyKey: {ZONE}, maxShare: "<2/3"', EVEN), RelaxedBound(limit="g/l0", max_share=Fraction(3, 4))),
        ((f"topologyKey: {ZONE}, maxSkew: 3", EVEN), RelaxedBound(limit="g/l0", max_skew=4)),
    ],
)
def test_limits_are_relaxed_in_their_own_terms(limits: tuple[str, ...], bound: RelaxedBound) -> None:
    """Two on each node are six in a zone: the limit, its field and the feasible value are named."""
    assert relaxed(*limited(*limits)).bound == bound


def is_one_change_to(replicas: int, relaxation: Relaxation) -> bool:
    """Return whether one workload changes, to so many replicas: of two of equal size either may be named."""
    return [changed.replicas for changed in relaxation.replicas] == [replicas]


def test_numbers_that_depend_on_a_share_are_not_named() -> None:
    """Of another number of pods a share is another number too; the feasible share is named, and no replicas."""
    scene, policy = limited(f'topologyKey: {ZONE}, maxShare: "<2/3"', f"topologyKey: {HOSTNAME}, maxSkew: 1")
    assert not relaxed(scene, policy).replicas
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    both = relaxed(scene, policy)
    assert is_one_change_to(3, both)
    assert (both.bound, both.limit_reached) == (RelaxedBound(limit="g/l0", max_pods=6), False)
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5, when: {{total: '>7'}}", EVEN)
    assert not relaxed(scene, policy).replicas


def test_a_share_within_a_larger_domain_is_not_relaxed() -> None:
    """What it allows follows from what the larger domain happens to hold: of that nothing is promised."""
    inside = f'topologyKey: {HOSTNAME}, within: {ZONE}, maxShare: "<=1/3"'
    scene, policy = limited(inside, f"topologyKey: {ZONE}, maxPods: 5", EVEN)
    assert relaxed(scene, policy) == Relaxation()


def test_numbers_for_which_nodes_lack_capacity_are_not_named() -> None:
    """Two shards of two would spread evenly, but the small node can hold one pod of them: nothing is named."""
    constraints = (Constraint(key=ZONE, max_skew=1, label="all"),)
    works = tuple(
        Work(name=name, cpu=cpu, labels=frozenset({"all", name}), on={"b1": pods}, constraints=constraints, apart=name)
        for name, cpu, pods in (("w0", 200, 3), ("w1", 210, 2))
    )
    nodes = {"a1": ("a", 16_000), "b1": ("b", 16_000)}
    assert relaxed(Scene(nodes=nodes, works=works)) == Relaxation((replica_change("w0", 2, -1),))
    assert relaxed(Scene(nodes={**nodes, "a1": ("a", 300)}, works=works)) == Relaxation()


def test_a_search_that_reaches_its_limit_says_so() -> None:
    """What was found by then is still shown by a placement; where nothing was, nothing is named."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    nodes = len(scene.nodes)
    some = relaxed(scene, policy, SearchLimits(relaxation_columns=7 * nodes))
    assert is_one_change_to(3, some)
    assert (some.bound, some.limit_reached) == (None, True)
    assert not relaxed(scene, policy, SearchLimits(relaxation_columns=2 * nodes)).replicas
    assert relaxed(scene, policy, SearchLimits(relaxation_columns=1)) == Relaxation()


def test_of_two_bounds_the_one_that_needs_less_relaxation() -> None:
    """Two more in a zone, or two more between nodes; neither by one. The first is named, not the last."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 4", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    six = RelaxedBound(limit="g/l0", max_pods=6)
    assert relaxed(scene, policy).bound == six
    assert relaxed(scene, policy, SearchLimits(relaxation_pods=2)).bound == six, "the most that may be tried"
    assert relaxed(scene, policy, SearchLimits(relaxation_pods=1)).bound is None


def test_halving_finds_the_least_relaxation_of_many_pods() -> None:
    """Two on each of eight nodes are 14 in the larger zone, six more than the limit allows."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 8", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    nodes = {"a1": ("a", 16_000), **{f"b{number}": ("b", 16_000) for number in range(1, 8)}}
    larger = replace(scene, nodes=nodes, works=tuple(replace(work, on={"b1": 8}) for work in scene.works))
    assert relaxed(larger, policy).bound == RelaxedBound(limit="g/l0", max_pods=14)


def test_numbers_are_named_at_which_limits_hold_in_full() -> None:
    """One a node is out of reach of eight, so two are aimed at; with the feasible number no node holds two."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxPods: 1")
    after = named_numbers(relaxed(scene, policy), scene)
    assert after is not None
    assert sum(after) == 4


def test_a_workload_of_which_not_all_pods_count_is_not_scaled() -> None:
    """Of a pod that somebody took out of the group it is not known what another number of replicas changes."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    scene = replace(scene, works=(replace(scene.works[0], on={"b1": 5}), replace(scene.works[1], on={"b1": 5})))
    snapshot, named = scene.snapshot(), []
    for app in ("w0", "w1"):
        first = next(pod for pod in snapshot.pods if pod.labels["app"] == app)
        bare = structs.replace(first, labels=Labels({"app": app}))
        snapshot = replace(snapshot, pods=tuple(bare if pod is first else pod for pod in snapshot.pods))
        (problem,) = multi_class_problems(snapshot, policy)
        named.append(bool(find_relaxation(problem.classes, LIMITS).replicas))
    assert named == [True, False]


def test_a_bound_is_relaxed_at_most_to_where_it_requires_nothing() -> None:
    """A share of the pods in a larger domain cannot be stated anew, so it is none of the bounds."""
    bounds = ["maxPods: 5", 'maxShare: "<2/3"', "maxSkew: 3", "minPods: 2"]
    own = "selector: {matchLabels: {app: w0}}"
    inside = f'topologyKey: {HOSTNAME}, within: {ZONE}, maxShare: "<=1/3"'
    limits = [f"topologyKey: {HOSTNAME}, {bound}" for bound in bounds]
    scene, policy = limited(inside, *limits, f'topologyKey: {ZONE}, maxShare: "<=1/4", {own}')
    (problem,) = multi_class_problems(scene.snapshot(), policy)
    classes = problem.classes
    assert [most_slack(classes, shared) for shared in shared_bounds(classes)] == [2, 2, 5, 1, 1]


def test_a_search_that_reached_its_limit_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would reach it again, at the same price."""
    (problem,) = multi_class_problems(shards(2).snapshot(), shards(2).policy())
    calls = []

    def solve_nothing(classes: PodClasses, limits: SearchLimits, *, work: int) -> Unsolved:
        calls.append((classes, limits, work))
        return Unsolved.LIMIT_REACHED

    monkeypatch.setattr("rebalancer.planning.diagnosis.relaxation.solve", solve_nothing)
    assert find_relaxation(problem.classes, LIMITS) == Relaxation()
    assert len(calls) == 1


def test_a_change_that_was_not_proved_least_is_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the solver has an answer and no proof that there is none nearer, that is reported."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")

    def solve_without_proof(classes: PodClasses, limits: SearchLimits, *, work: int) -> Solution | Unsolved:
        solution = solve(classes, limits, work=work)
        return solution if isinstance(solution, Unsolved) else replace(solution, bound=0)

    monkeypatch.setattr("rebalancer.planning.diagnosis.relaxation.solve", solve_without_proof)
    assert relaxed(scene, policy).limit_reached


def half(when: str = "") -> Policy:
    rule = f'{{name: half, topologyKey: {ZONE}, maxShare: "<=1/2", action: Evict{when}}}'
    return a_policy(POLICY + f"groups: [{{name: g, selector: {{}}, limits: [{rule}]}}]\n")


def cause_of_equal_pods(policy: Policy) -> Fact:
    """Return why eight equal pods, even over the nodes, cannot hold half in a zone of three of the four nodes."""
    blueprint = a_cluster("a", 3)
    blueprint.zones("b", 1)
    blueprint.deployment("web", on={"a-1": 2, "a-2": 2, "a-3": 2, "b-1": 2}, spread={HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot(), policy).components
    assert group.state is State.INFEASIBLE
    assert group.refusal is not None
    return group.refusal


def test_a_share_is_computed_anew_for_every_number_of_equal_pods() -> None:
    """Half of eight is four, half of two is one: six would hold four in a zone, which is more than their half."""
    assert cause_of_equal_pods(half()) == NoPlacement(8, (2,))
    assert cause_of_equal_pods(half(", when: {total: '>=8'}")) == NoPlacement(8, ())
