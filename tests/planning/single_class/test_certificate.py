"""Where the certificate applies, every interleaving agrees: any minimal victims within its windows are a step."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from msgspec import structs

from rebalancer.engine import evaluate
from rebalancer.model.labels import Labels
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.minimum import Windows, min_evictions
from rebalancer.planning.single_class.placement import Bounds, Inner, Leaf, make_inner
from rebalancer.planning.single_class.selection import select_victims
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.tree_moves import TreeState
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.controller.simulated import eager
from tests.planning.interleavings import Required, Zones, fault
from tests.planning.scenes import limited_alone, problems
from tests.planning.states import CACHE, PLENTY, bounds, state

LARGEST = 6
"""More evictions at once would make the search of all interleavings too wide."""

Choice = random.Random
Leaves = list[list[tuple[int, int, int]]]
"""For each zone its nodes as (pods, immovable, most)."""
Draw = Callable[[Choice], tuple[Leaves, int | None, int | None]]
"""Returns pods on nodes, and the maxSkews of zones and of nodes; of nodes alone where there is none of zones."""


def node(choice: Choice, held: int) -> tuple[int, int, int]:
    """Return a node that holds so many: sometimes full or nearly so, sometimes with pods that must stay."""
    fixed = min(held, choice.choice([0, 0, 0, 0, 1, held]))
    return held, fixed, held + choice.choice([0, 1, *[PLENTY] * 8])


def few_pods(choice: Choice, skew: int) -> tuple[Leaves, int | None, int | None]:
    """Draw mostly fewer pods than nodes, some nodes over their bound, or none on nodes at all."""
    zones = [
        [node(choice, choice.choice([0, 0, 0, 0, 0, 1, 1, 2, 3])) for _ in range(choice.randint(2, 5))]
        for _ in range(choice.randint(2, 4))
    ]
    return zones, skew, choice.choice([None, 1, 1, 1, 2, 2, 3])


def at_max_skew_1(choice: Choice) -> tuple[Leaves, int | None, int | None]:
    return few_pods(choice, 1)


def at_larger_max_skews(choice: Choice) -> tuple[Leaves, int | None, int | None]:
    return few_pods(choice, choice.choice([2, 2, 3]))


def one_key(choice: Choice) -> tuple[Leaves, int | None, int | None]:
    most = choice.choice([2, 5])
    nodes = [node(choice, choice.randint(0, most)) for _ in range(choice.randint(2, 6))]
    return [nodes], None, choice.choice([1, 2, 2, 3])


def sizes(choice: Choice) -> list[int]:
    """Return how many nodes the zones have: mostly as many, else one fewer."""
    many = choice.randint(1, 3)
    return [max(1, many - (choice.random() < 0.1)) for _ in range(choice.randint(2, 4 if many < 3 else 3))]


def nodes_in_bounds(choice: Choice) -> tuple[Leaves, int | None, int | None]:
    """Draw as many pods as nodes or more, the nodes within their maxSkew of each other."""
    base, host = choice.randint(0, 2), choice.choice([1, 1, 2, 3])
    zones = []
    for size in sizes(choice):
        low, high = choice.choice([(0, host), (0, 0), (host, host)])
        zones.append([node(choice, base + choice.randint(low, high)) for _ in range(size)])
    return zones, choice.choice([1, 1, 1, 2, 3]), host


def zones_even_inside(choice: Choice) -> tuple[Leaves, int | None, int | None]:
    """Draw as many pods as nodes or more, the nodes of each zone equal or nearly so."""
    host = choice.choice([1, 1, 2, 3])
    zones = []
    for size in sizes(choice):
        base, wide = choice.choice([0, 0, 1, 2, 3, 4]), choice.choice([0, 1, 1, host])
        zones.append([node(choice, base + choice.randint(0, wide)) for _ in range(size)])
    return zones, choice.choice([1, 1, 1, 2, 3]), host


MANY: list[Draw] = [nodes_in_bounds, zones_even_inside]
"""Of these only states with as many pods as nodes or more are held against the search, of the others only the rest."""

DRAWS: list[Draw] = [at_max_skew_1, at_larger_max_skews, one_key, *MANY]


def limited(choice: Choice, skew: int | None, share: int) -> tuple[Bound, Required]:
    """Return a bound, sometimes with limits near what it implies, and the same for the search."""
    cap, lowest = None, 0
    if skew is not None and choice.random() < 0.2:
        cap, lowest = share + skew + choice.choice([-1, 0, 0, 1]), choice.choice([0, 0, 0, 1])
    return Bound(max_skew=skew, cap=cap, least=lowest), (skew, cap, lowest)


def checked(draw: Draw, seed: int) -> str | None:
    """Hold one state against every interleaving; return how far it is from satisfied, None where it does not apply."""
    choice = random.Random(seed)
    leaves, zone, host = draw(choice)
    pending, lost = choice.choice([0, 0, 0, 1, 2]), choice.choice([0, 0, 0, 0, 1])
    many = sum(map(len, leaves))
    total = pending + sum(held for zone in leaves for held, _, _ in zone)
    if zone is not None and (draw in MANY) == (host is None or total < many):
        return None
    of_zones, required_of_zones = limited(choice, zone, total // len(leaves))
    of_nodes, required_of_nodes = limited(choice, host, total // many)
    places = [make_inner((held, fixed, cap, 0) for held, fixed, cap in zone) for zone in leaves]
    root, limits = (places[0], (of_nodes,)) if zone is None else (make_inner(places), (of_zones, of_nodes))
    fewest = min_evictions(root, limits, pending, CACHE)
    if not fewest or fewest > LARGEST or fewest + pending > LARGEST + 1:
        return None
    windows = certify(root, limits, pending, CACHE, lost)
    if windows is None:
        return None
    going = victims(leaves, windows, fewest, choice)
    marked = tuple(
        tuple((held, cap, gone) for (held, _, cap), gone in zip(*zone_and_going, strict=True))
        for zone_and_going in zip(leaves, going, strict=True)
    )
    result = fault(
        others_came(marked, lost, choice, alone=zone is None), pending, (required_of_zones, required_of_nodes)
    )
    assert result is None, (seed, leaves, limits, pending, lost, going, result)
    return f"{fewest} evictions" if fewest > 1 else "1 eviction"


def victims(leaves: Leaves, windows: Windows, fewest: int, choice: Choice) -> list[list[int]]:
    """Choose any victims within the windows: by node, what must leave nodes and zones, and the rest anyhow."""
    going = [[0] * len(zone) for zone in leaves]
    rest: list[tuple[int, int]] = []
    low, high = windows[-1]
    for place, zone in enumerate(leaves):
        remaining, may = 0, []
        for number, (held, fixed, _) in enumerate(zone):
            must = 0 if high is None else max(0, held - high)
            going[place][number] = must
            remaining += held - must
            may += [(place, number)] * (min(held - fixed, held - low) - must)
        choice.shuffle(may)
        if len(windows) > 1:
            least, most = windows[0]
            must = 0 if most is None else max(0, remaining - most)
            assert must <= len(may), "there are victims enough"
            for _, number in may[:must]:
                going[place][number] += 1
            may = may[must : max(must, remaining - least)]
        rest += may
    choice.shuffle(rest)
    left = fewest - sum(map(sum, going))
    assert 0 <= left <= len(rest), "as many as are needed"
    for place, number in rest[:left]:
        going[place][number] += 1
    return going


def others_came(zones: Zones, lost: int, choice: Choice, *, alone: bool) -> Zones:
    """Let pods of others take so much capacity in every domain: on any node of a zone, or on every node `alone`."""
    results = []
    for zone in zones:
        nodes = list(zone)
        for _ in range(lost):
            free = [number for number, (held, cap, _) in enumerate(nodes) if cap > held]
            for number in free if alone else choice.sample(free, min(1, len(free))):
                held, cap, going = nodes[number]
                nodes[number] = held, min(cap, held + LARGEST) - 1, going
        results.append(tuple(nodes))
    return tuple(results)


@pytest.mark.parametrize("draw", DRAWS)
def test_every_interleaving(draw: Draw) -> None:
    """Thousands of drawn states: whatever it covers ends satisfied in every interleaving, as does each part of it."""
    counted = Counter(checked(draw, seed) for seed in range(12_000))
    print(f"{draw.__name__}: {dict(counted)}, 0 failures")
    assert counted.total() - counted[None] > 800


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("draw", DRAWS)
def test_every_interleaving_thorough(draw: Draw) -> None:
    """The same for 100,000 states that it covers, of each way to draw them."""
    counted: Counter[str | None] = Counter()
    seed = 10**6
    while counted.total() - counted[None] < 100_000:
        counted[checked(draw, seed)] += 1
        seed += 1
    sorts = ", ".join(
        f"{what}: {many}" for what, many in sorted((what, many) for what, many in counted.items() if what)
    )
    print(f"\n{draw.__name__}: 100000 of {counted.total()} drawn states, 0 failures\n  {sorts}")


@pytest.mark.parametrize(
    ("root", "limits"),
    [
        pytest.param(state([[1] * 10 + [0] * 3] * 2 + [[0] * 13] * 2), bounds(2, 1), id="one may be wasted"),
        pytest.param(state([[2, 1], [0, 1]]), bounds(2, 2), id="balanced"),
        pytest.param(state([[2], [3], [1, 3], [3, 3]]), bounds(1, 2), id="many pods, zones of different size"),
        pytest.param(state([[0], [2, 2]]), bounds(2, 1), id="many pods, a zone of few nodes"),
        pytest.param(state([[3, 0, 0], [3, 3, 1]]), bounds(1, 2), id="many pods, a zone uneven inside"),
        pytest.param(
            make_inner([make_inner([(3, 0, 3, 0)] * 2), make_inner([(0, 0, 0, 0)] * 9)]), bounds(1, 4), id="a full zone"
        ),
        pytest.param(
            make_inner([make_inner([(2, 0, 9, 0)] * 2), make_inner([(0, 0, 9, 0), (0, 0, 1, 0)])]),
            bounds(1, 2),
            id="a full node",
        ),
        pytest.param(make_inner([(3, 3, 9, 0), (2, 2, 9, 0), (0, 0, 9, 0)]), (Bound(max_skew=1),), id="all must stay"),
        pytest.param(state([[2], [0]]), (Bound(max_skew=1, floor_at_zero=True), Bound()), id="minDomains unmet"),
        pytest.param(state([[3], [0]]), (Bound(max_skew=2, cap=2), Bound()), id="a limit beside the constraint"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1), Bound(cap=2)), id="a limit alone"),
        pytest.param(make_inner([state([[1], [0]])]), (Bound(max_skew=1),) * 3, id="three levels"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1, enforced=None), Bound()), id="wished for only"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1, enforced=3), Bound()), id="enforced more loosely"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1), Bound(least=1)), id="a least number"),
        pytest.param(state([[3, 0], [0]]), (Bound(cap=2), Bound(max_skew=1)), id="nothing enforced on zones"),
        pytest.param(state([[4, 1, 1], [3, 2, 2], [3, 2, 0], [3, 1, 1]]), bounds(1, 3), id="a zone left too full"),
    ],
)
def test_where_it_does_not_apply(root: Inner, limits: Bounds) -> None:
    """Outside what is argued for it gives no windows, and the search decides."""
    assert not certify(root, limits, 0, CACHE)


def test_one_level() -> None:
    """One key alone at maxSkew 1 needs no search, and no immovable pod is chosen."""
    root = make_inner([(3, 1, PLENTY, 0), (0, 0, PLENTY, 0), (1, 1, PLENTY, 0)])
    limits = (Bound(max_skew=1),)
    assert certify(root, limits, 0, CACHE)
    step = next_step(TreeState(root), limits, 9, CACHE)
    assert len(step.victims) == 1
    assert all(cast("Leaf", path[-1])[0] == 3 for path in step.victims)


def test_capacity_that_others_may_take() -> None:
    """Where every node must take its share, it is not certain while others may fill some."""
    crowded = state([[2, 2], [2, 2], [0, 0]])
    assert certify(crowded, bounds(1, 1), 0, CACHE)
    assert not certify(crowded, bounds(1, 1), 0, CACHE, lost=1)


def test_limits_that_the_constraints_imply() -> None:
    """Limits that hold wherever the constraints hold take nothing from the certainty."""
    root = state([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    for zone in (1, 2):
        within = Bound(max_skew=zone, cap=1 + zone), Bound(max_skew=1, cap=1)
        assert certify(root, within, 0, CACHE) == certify(root, bounds(zone, 1), 0, CACHE) is not None


def test_the_fullest_zone_gives() -> None:
    """Windows: 15 and 15 pods with maxSkew 2 are levelled to 11 and 10, from any nodes."""
    full = [1] * 15 + [0] * 20
    assert certify(state([full, full, [0] * 35]), bounds(2, 1), 0, CACHE) == ((10, 11), (0, 1))


def of_unequal_worth(choice: Choice) -> SingleClassProblem | None:
    """Draw a small group of equal pods with deletion costs."""
    blueprint = ClusterBuilder()
    on = {}
    for zone in range(choice.randint(2, 4)):
        for number in range(choice.randint(1, 4)):
            blueprint.node(f"{zone}{number}", zone=f"z{zone}")
            on[f"{zone}{number}"] = choice.choice([0, 0, 0, 1, 1, 2])
    if not 2 <= sum(on.values()) <= 12:
        return None
    blueprint.deployment("web", on=on, spread={ZONE: choice.randint(1, 3), HOSTNAME: choice.randint(1, 3)})
    snapshot = blueprint.snapshot()
    key = "controller.kubernetes.io/pod-deletion-cost"
    pods = tuple(structs.replace(pod, annotations=Labels({key: str(choice.randint(-3, 3))})) for pod in snapshot.pods)
    problems_ = problems(replace(snapshot, pods=pods), eager())
    return problems_[0] if problems_ and isinstance(problems_[0], SingleClassProblem) else None


def test_the_victims_that_are_taken() -> None:
    """Victims as the plan takes them are a step, and each is the cheapest of its node."""
    covered = 0
    for seed in range(600):
        problem = of_unequal_worth(random.Random(seed))
        if problem is None:
            continue
        layout = problem.layout
        fewest = min_evictions(layout.root, layout.bounds, problem.pending, CACHE)
        windows = certify(layout.root, layout.bounds, problem.pending, CACHE)
        if not fewest or fewest > LARGEST or windows is None:
            continue
        result = select_victims(layout, windows, fewest)
        assert len(result) == fewest
        assert fault(*_named(problem, result)) is None, seed
        covered += 1
    assert covered > 100


def _named(problem: SingleClassProblem, going: list[Victim]) -> tuple[Zones, int, tuple[Required, Required]]:
    """Return the state with these victims as the search takes it."""
    sites, gone = problem.layout.sites, Counter(victim.pod.node for victim in going)
    for victim in going:
        site = sites[victim.pod.node or ""]
        assert victim in site.movable[: gone[site.node]]
    zones = tuple(
        tuple((sites[name].count if name in sites else 0, problem.layout.cap(name), gone[name]) for name in names)
        for names in problem.layout.topology.members.values()
    )
    first, second = (bound.max_skew for bound in problem.layout.bounds)
    return zones, problem.pending, ((first, None, 0), (second, None, 0))


def test_a_limit_alone_forces_nothing() -> None:
    """A limit's maxSkew 1 on the zones is the planner's wish: no eviction for it is called forced."""
    snapshot, policy = limited_alone()
    made = evaluate(snapshot, policy).plan
    assert [group.limits for group in made.components] != [()]
    assert not any(eviction.forced for eviction in made.fates.going)
