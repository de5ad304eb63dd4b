"""The way out of what no arrangement of several kinds satisfies: the nearest that would do, held against trying all."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from msgspec import structs

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis import relaxation
from rebalancer.planning.diagnosis.obstacles import diagnose_multi_class
from rebalancer.planning.diagnosis.relaxation import find_relaxation
from rebalancer.planning.diagnosis.slack import farthest, rules
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.policy import Policy, load_policy
from rebalancer.reporting.documents.explanation import explain_workload
from rebalancer.reporting.text.explanation import explanation_text
from tests.planning.scenes import POLICY, Asked, Scene, Work, problems
from tests.reporting.test_plan_text import look

Numbers = tuple[int, ...]
"""Replicas by workload."""

Rule = tuple[str, int, frozenset[str]]
"""What workloads ask alike: a key, its maxSkew, and the workloads whose pods count."""

Placed = tuple[Mapping[str, int], ...]
"""By workload, how many pods stand on each node."""

_FARTHEST = 4
"""So many pods more or fewer the oracle looks at."""


def splits(pods: int, nodes: Sequence[str]) -> Iterator[Mapping[str, int]]:
    """Yield every way to put so many equal pods on nodes."""
    if len(nodes) == 1:
        yield {nodes[0]: pods}
        return
    for first in range(pods + 1):
        for rest in splits(pods - first, nodes[1:]):
            yield {nodes[0]: first, **rest}


def rule_of(scene: Scene, asked: Asked) -> Rule:
    return asked.key, asked.max_skew, frozenset(work.name for work in scene.works if asked.label in work.labels)


def holds(scene: Scene, placed: Placed, more: Mapping[Rule, int]) -> bool:
    """Say whether all constraints hold, some of them eased by so much."""
    for work in scene.works:
        for each in work.asked:
            found = counted(scene, placed, each.label, each.key)
            if max(found.values()) - min(found.values()) > each.max_skew + more.get(rule_of(scene, each), 0):
                return False
    return True


def apart(scene: Scene, work: Work, own: Mapping[str, int]) -> bool:
    """Say whether the pods of a workload keep as far apart as it asks."""
    found = Counter(scene.domain(node, work.apart_by) for node, many in own.items() for _ in range(many))
    return not work.apart or max(found.values()) == 1


def counted(scene: Scene, placed: Placed, label: str, key: str) -> Mapping[str, int]:
    found = {scene.domain(node, key): 0 for node in scene.nodes}
    for work, own in zip(scene.works, placed, strict=True):
        if label in work.labels:
            for node, many in own.items():
                found[scene.domain(node, key)] += many
    return found


def stands(scene: Scene, numbers: Numbers, more: Mapping[Rule, int] | None = None) -> bool:
    """Try every arrangement of so many pods."""
    ways = [
        [own for own in splits(many, list(scene.nodes)) if apart(scene, work, own)]
        for work, many in zip(scene.works, numbers, strict=True)
    ]
    return any(holds(scene, placed, more or {}) for placed in product(*ways))


def numbers_of(scene: Scene) -> Numbers:
    return tuple(sum(work.on.values()) + work.missing for work in scene.works)


def least_change(scene: Scene) -> tuple[int, bool] | None:
    """Return by how many pods the nearest numbers differ that would do, and whether of one workload alone."""
    now = numbers_of(scene)
    for size in range(1, _FARTHEST + 1):
        changes = [each for each in product(range(-size, size + 1), repeat=len(now)) if sum(map(abs, each)) == size]
        for change in sorted(changes, key=lambda each: sum(map(bool, each))):
            after = tuple(before + more for before, more in zip(now, change, strict=True))
            if min(after) > 0 and stands(scene, after):
                return size, sum(map(bool, change)) == 1
    return None


def rules_of(scene: Scene) -> list[Rule]:
    return list(dict.fromkeys(rule_of(scene, each) for work in scene.works for each in work.asked))


def least_easing(scene: Scene) -> int | None:
    """Return by how much one constraint must be eased at the least."""
    now = numbers_of(scene)
    for by in range(1, sum(now)):
        if any(stands(scene, now, {rule: by}) for rule in rules_of(scene)):
            return by
    return None


def drawn(choice: Random) -> Scene:
    """Draw small workloads on a few uneven nodes, under constraints that often exclude each other."""
    sizes = choice.choice([(1, 2), (1, 3), (1, 1, 1), (1, 1, 2)])
    nodes = {f"n{zone}{number}": (f"z{zone}", 16_000) for zone, many in enumerate(sizes) for number in range(many)}
    works = []
    for number in range(choice.randint(2, 3)):
        on = Counter(choice.choice(sorted(nodes)) for _ in range(choice.randint(1, 3)))
        apart = choice.choice(["", "", ZONE, HOSTNAME])
        labels = {"all", f"w{number}", *(["one"] if choice.random() < 0.5 else [])}
        asked = [
            Asked(key=key, max_skew=choice.choice([1, 1, 1, 2]), label=choice.choice(["all", "all", *sorted(labels)]))
            for key in (ZONE, HOSTNAME)
            if choice.random() < 0.8
        ]
        works.append(
            Work(
                name=f"w{number}",
                cpu=choice.choice([100, 200]),
                labels=frozenset(labels),
                on=on,
                asked=tuple(asked),
                apart=f"w{number}" if apart else "",
                apart_by=apart or ZONE,
            )
        )
    return Scene(nodes=nodes, works=tuple(works))


def infeasible(scene: Scene) -> MultiClassProblem | None:
    """Return the component of all workloads where no arrangement satisfies it."""
    for problem in problems(scene.snapshot(), scene.policy()):
        if isinstance(problem, MultiClassProblem) and len(problem.component.members) == len(scene.works):
            solved = solve(problem)
            if isinstance(solved, Unsolved) and diagnose_multi_class(problem, solved)[0] is State.INFEASIBLE:
                return problem
    return None


def named_numbers(text: str, scene: Scene) -> Numbers | None:
    """Read the numbers of replicas that a sentence names, those that it leaves out as they are."""
    found = {name: int(many) for many, name in re.findall(r"(\d+) replicas? of default/(\w+) \(StatefulSet\)", text)}
    now = dict(zip((work.name for work in scene.works), numbers_of(scene), strict=True))
    return tuple({**now, **found}.values()) if found else None


def named_easing(text: str) -> tuple[int, str] | None:
    found = re.search(r"maxSkew (\d+) over (\S+) in", text)
    return (int(found[1]), found[2]) if found else None


def compared(seeds: range) -> Counter[str]:
    """Hold what is named against every arrangement of every number; count the components by what was named."""
    found: Counter[str] = Counter()
    for seed in seeds:
        scene = drawn(Random(seed))
        problem = infeasible(scene)
        if problem is not None:
            numbers, bound = _numbers(problem, scene, seed), _bound(problem, scene, seed)
            found[f"{numbers}, {bound}"] += 1
    return found


def _numbers(problem: MultiClassProblem, scene: Scene, seed: int) -> str:
    after, best = named_numbers(find_relaxation(problem), scene), least_change(scene)
    if after is None or best is None:
        assert after is None, seed
        assert best is None, seed
        return "no numbers"
    assert stands(scene, after), seed
    changes = [then - before for then, before in zip(after, numbers_of(scene), strict=True)]
    assert (sum(map(abs, changes)), sum(map(bool, changes)) == 1) == best, seed
    return "one number" if best[1] else "several numbers"


def _bound(problem: MultiClassProblem, scene: Scene, seed: int) -> str:
    named, least = named_easing(find_relaxation(problem)), least_easing(scene)
    if named is None or least is None:
        assert named is None, seed
        assert least is None, seed
        return "no bound"
    skew, key = named
    would = [rule for rule in rules_of(scene) if stands(scene, numbers_of(scene), {rule: least})]
    assert (key, skew) in {(rule[0], rule[1] + least) for rule in would}, seed
    return f"maxSkew {least} higher"


def test_what_is_named_is_the_nearest_of_all() -> None:
    """Numbers and bound would do, by trying every arrangement, and nothing nearer would; one number rather than two."""
    found = compared(range(120))
    assert found.total() > 15
    assert len(found) > 2


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_what_is_named_is_the_nearest_of_all_thorough() -> None:
    """The same for 2,000 components, those that can be made right left out."""
    found = compared(range(10**6, 10**6 + 2_000))
    print(f"nearest against every arrangement: {dict(found)}, 0 differences")


def told(scene: Scene, policy: Policy | None = None) -> str:
    """Return what is named for the one component of a scene, which no arrangement satisfies."""
    (problem,) = [
        each for each in problems(scene.snapshot(), policy or scene.policy()) if isinstance(each, MultiClassProblem)
    ]
    solved = solve(problem)
    assert isinstance(solved, Unsolved)
    state, refusal = diagnose_multi_class(problem, solved)
    assert (state, refusal.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    return refusal.message.partition(" kinds satisfies all")[2].removeprefix("; ")


TWO_ZONES = {"a1": ("a", 16_000), "b1": ("b", 16_000)}
UNEVEN = {"a1": ("a", 16_000), **{f"b{number}": ("b", 16_000) for number in (1, 2, 3)}}


def shards(many: int, cpu: int = 100, extra: int = 0) -> Scene:
    """Return shards of three that keep apart over two zones, of one more pod where `extra` says so."""
    works = [
        Work(
            name=f"w{number}",
            cpu=cpu + number,
            labels=frozenset({"all", f"w{number}"}),
            on={"a1": 1, "b1": 2 + extra},
            asked=(Asked(key=ZONE, max_skew=1, label="all"),),
            apart=f"w{number}",
        )
        for number in range(many)
    ]
    return Scene(nodes=TWO_ZONES, works=tuple(works))


def test_all_workloads_that_must_change_are_named() -> None:
    """Shards of three or four over two zones: two of each would do; of more than three only the sum is told."""
    assert (
        told(shards(2)) == "2 replicas of default/w0 (StatefulSet) and 2 replicas of default/w1 (StatefulSet) would do"
    )
    assert told(shards(4)) == "4 fewer pods in 4 workloads would do"
    assert told(shards(4, extra=1)) == "8 fewer pods in 4 workloads would do"


def test_equal_workloads_share_a_change() -> None:
    """A change of one kind is taken from as few owners as will do, the largest first; one pod of each stays."""
    alike = frozenset({"all"})
    asked = (Asked(key=ZONE, max_skew=1, label="all"),)
    works = tuple(
        Work(name=name, cpu=100, labels=alike, on=on, asked=asked, apart="all")
        for name, on in (("w0", {"b1": 3}), ("w1", {"b1": 1}), ("w2", {"a1": 1}))
    )
    other = Work(name="w3", cpu=200, labels=alike, on={"a1": 1}, asked=asked, apart="all")
    scene = Scene(nodes={f"{zone}1": (zone, 16_000) for zone in "abcde"}, works=(*works, other))
    assert (
        told(replace(scene, nodes=dict(list(scene.nodes.items())[:4])))
        == "1 replica of default/w0 (StatefulSet) would do"
    )
    larger = replace(works[1], on={"b1": 2})
    few = replace(scene, works=(works[0], larger, works[2], other), nodes=dict(list(scene.nodes.items())[:4]))
    assert told(few) == "1 replica of default/w0 (StatefulSet) and 1 replica of default/w1 (StatefulSet) would do"


def limited(*limits: str) -> tuple[Scene, Policy]:
    """Return eight pods of two kinds on zones of one and three nodes, all of them on one, under limits of a policy."""
    works = tuple(
        Work(name=name, cpu=cpu, labels=frozenset({"all"}), on={"b1": 4}) for name, cpu in (("w0", 100), ("w1", 200))
    )
    rules = ", ".join(f"{{name: l{number}, {each}, action: Evict}}" for number, each in enumerate(limits))
    group = f"groups: [{{name: g, selector: {{}}, groupBy: [all], limits: [{rules}]}}]\n"
    return Scene(nodes=UNEVEN, works=works), load_policy((POLICY + group).encode(), source="test")


EVEN = f"topologyKey: {HOSTNAME}, minPods: 2"


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((f"topologyKey: {ZONE}, maxPods: 5", EVEN), "maxPods 6 in limit g/l0"),
        ((EVEN, f"topologyKey: {ZONE}, maxPods: 5"), "minPods 1 in limit g/l0"),
        ((f'topologyKey: {ZONE}, maxShare: "<2/3"', EVEN), "maxShare <=3/4 in limit g/l0"),
        ((f"topologyKey: {ZONE}, maxSkew: 3", EVEN), "maxSkew 4 in limit g/l0"),
    ],
)
def test_limits_are_eased_in_their_own_words(limits: tuple[str, ...], text: str) -> None:
    """Two on each node are six in a zone: the limit, its field and the value that would do are named."""
    assert text in told(*limited(*limits))


def one_less(text: str) -> str:
    """Of two workloads of equal size either may be named."""
    return re.sub(r"default/w[01] \(StatefulSet\)", "one", text)


def test_numbers_that_depend_on_a_share_are_not_named() -> None:
    """Of another number of pods a share is another number too; the share that would do is named, and no replicas."""
    scene, policy = limited(f'topologyKey: {ZONE}, maxShare: "<2/3"', f"topologyKey: {HOSTNAME}, maxSkew: 1")
    assert "replicas" not in told(scene, policy)
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    assert one_less(told(scene, policy)) == "3 replicas of one, or maxPods 6 in limit g/l0 would do"
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5, when: {{total: '>7'}}", EVEN)
    assert "replicas" not in told(scene, policy)


def test_a_share_within_a_larger_domain_is_not_eased() -> None:
    """What it allows follows from what the larger domain happens to hold: of that nothing is promised."""
    inside = f'topologyKey: {HOSTNAME}, within: {ZONE}, maxShare: "<=1/3"'
    scene, policy = limited(inside, f"topologyKey: {ZONE}, maxPods: 5", EVEN)
    assert told(scene, policy) == ""


def test_what_has_no_room_is_not_named() -> None:
    """Two shards of two would spread evenly, but the small node has room for one pod of them: nothing is named."""
    asked = (Asked(key=ZONE, max_skew=1, label="all"),)
    works = tuple(
        Work(name=name, cpu=cpu, labels=frozenset({"all", name}), on={"b1": many}, asked=asked, apart=name)
        for name, cpu, many in (("w0", 200, 3), ("w1", 210, 2))
    )
    nodes = {"a1": ("a", 16_000), "b1": ("b", 16_000)}
    assert told(Scene(nodes=nodes, works=works)) == "2 replicas of default/w0 (StatefulSet) would do"
    assert told(Scene(nodes={**nodes, "a1": ("a", 300)}, works=works)) == ""


def test_a_search_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by then is still shown by an arrangement; where nothing was, nothing is said."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    nodes = len(scene.nodes)
    monkeypatch.setattr(relaxation, "_CELLS", 7 * nodes)
    assert one_less(told(scene, policy)) == "3 replicas of one would do; the search for the nearest was cut short"
    monkeypatch.setattr(relaxation, "_CELLS", 2 * nodes)
    assert "replicas" not in told(scene, policy)
    monkeypatch.setattr(relaxation, "_CELLS", 1)
    assert told(scene, policy) == ""


def test_of_two_bounds_the_one_that_is_eased_by_less() -> None:
    """Two more in a zone, or two more between nodes; neither by one. The first is named, not the last."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 4", f"topologyKey: {HOSTNAME}, maxSkew: 1")
    assert "maxPods 6 in limit g/l0" in told(scene, policy)


def test_numbers_are_named_at_which_limits_hold_in_full() -> None:
    """One a node is out of reach of eight, so two are aimed at; of those that would do no node holds two."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxPods: 1")
    after = named_numbers(told(scene, policy), scene)
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
        (problem,) = [each for each in problems(snapshot, policy) if isinstance(each, MultiClassProblem)]
        named.append("replicas of" in find_relaxation(problem))
    assert named == [True, False]


def test_how_far_a_bound_can_be_eased() -> None:
    """To where it asks for nothing; a share of what stands in a larger domain cannot be told anew."""
    bounds = ["maxPods: 5", 'maxShare: "<2/3"', "maxSkew: 3", "minPods: 2"]
    own = "selector: {matchLabels: {app: w0}}"
    inside = f'topologyKey: {HOSTNAME}, within: {ZONE}, maxShare: "<=1/3"'
    limits = [f"topologyKey: {HOSTNAME}, {each}" for each in bounds]
    scene, policy = limited(inside, *limits, f'topologyKey: {ZONE}, maxShare: "<=1/4", {own}')
    (problem,) = [each for each in problems(scene.snapshot(), policy) if isinstance(each, MultiClassProblem)]
    assert [farthest(problem, rule) for rule in rules(problem)] == [2, 2, 5, 1, 1]


def test_a_search_that_gives_up_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was given up would be given up again, at the same price."""
    (problem,) = [
        each for each in problems(shards(2).snapshot(), shards(2).policy()) if isinstance(each, MultiClassProblem)
    ]
    asked = []

    def given_up(mixed: MultiClassProblem, *, effort: int) -> Unsolved:
        asked.append((mixed, effort))
        return Unsolved.GIVEN_UP

    monkeypatch.setattr(relaxation, "solve", given_up)
    assert find_relaxation(problem) == ""
    assert len(asked) == 1


def test_a_bound_that_was_not_proved_is_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the solver has an answer and no proof that there is none nearer, that is said."""
    scene, policy = limited(f"topologyKey: {ZONE}, maxPods: 5", f"topologyKey: {HOSTNAME}, maxSkew: 1")

    def unproved(mixed: MultiClassProblem, *, effort: int) -> Solution | Unsolved:
        found = solve(mixed, effort=effort)
        return found if isinstance(found, Unsolved) else replace(found, bound=0)

    monkeypatch.setattr(relaxation, "solve", unproved)
    assert told(scene, policy).endswith("; the search for the nearest was cut short")


def test_plan_and_explanation_name_the_way_out() -> None:
    """A person reads it where it says why nothing is planned."""
    scene = shards(2)
    seen = look(scene.snapshot(), scene.policy())
    would = "2 replicas of default/w0 (StatefulSet) and 2 replicas of default/w1 (StatefulSet) would do"
    reference = Reference("default", "StatefulSet", "w0")
    explained = explanation_text(explain_workload(reference, seen.assessment, seen.plan, seen.snapshot))
    for text in (seen.text(), explained):
        assert f"of 2 kinds satisfies all; {would}; the nearest arrangement leaves 2 without a place\n" in text


def half(when: str = "") -> Policy:
    rule = f'{{name: half, topologyKey: {ZONE}, maxShare: "<=1/2", action: Evict{when}}}'
    return load_policy((POLICY + f"groups: [{{name: g, selector: {{}}, limits: [{rule}]}}]\n").encode(), source="test")


def equal_pods(policy: Policy) -> str:
    """Return why eight equal pods, even over the nodes, cannot hold half in a zone of three of the four nodes."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 3)
    blueprint.zones("b", 1)
    blueprint.deployment("web", on={"a-1": 2, "a-2": 2, "a-3": 2, "b-1": 2}, spread={HOSTNAME: 1})
    (group,) = look(blueprint.snapshot(), policy).plan.groups
    assert group.state is State.INFEASIBLE
    return group.message


def test_a_share_is_counted_anew_for_every_number_of_equal_pods() -> None:
    """Half of eight is four, half of two is one: six would hold four in a zone, which is more than their half."""
    message = "no arrangement of 8 pods over these domains satisfies all"
    assert equal_pods(half()) == f"{message}; 2 would do"
    assert equal_pods(half(", when: {total: '>=8'}")) == message
