"""The victims that are selected are the cheapest of all minimal sets."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.certificate import certify
from rebalancer.planning.single_class.minimum import Windows, minimum_repair, summarize
from rebalancer.planning.single_class.selection import select_victims
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.controller.simulated import eager
from tests.planning.scenes import problems
from tests.planning.states import CACHE


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
    problems_ = problems(replace(snapshot, pods=pods), eager())
    return problems_[0] if problems_ and isinstance(problems_[0], SingleClassProblem) else None


def sets_within(problem: SingleClassProblem, windows: Windows, fewest: int) -> Iterator[list[Victim]]:
    """Yield every set of so many victims after which the others can stay, and all others find places beside them."""
    layout = problem.layout
    every = [(site, victim) for site in layout.sites.values() for victim in site.movable]
    total = problem.pending + sum(site.count for site in layout.sites.values())
    for chosen in combinations(every, fewest):
        deltas = Counter(site.node for site, _ in chosen)
        after = layout.shifted({node: -many for node, many in deltas.items()})
        result = summarize(after, ((total, total), *windows), CACHE)
        if result is not None and result[0] == 0:
            yield sorted((victim for _, victim in chosen), key=lambda victim: victim.cost)


def cheapest_against_every_set(seeds: range) -> Counter[str]:
    counted: Counter[str] = Counter()
    for seed in seeds:
        problem = of_unequal_worth(Random(seed))
        if problem is None:
            continue
        layout = problem.layout
        solved = minimum_repair(layout.root, layout.bounds, problem.pending, CACHE)
        if solved is None or not 0 < solved[0] <= 4 or not certify(layout.root, layout.bounds, problem.pending, CACHE):
            continue
        fewest, windows = solved
        costs = [victim.cost for victim in select_victims(layout, windows, fewest)]
        best = min([victim.cost for victim in victims] for victims in sets_within(problem, windows, fewest))
        assert costs == best, seed
        counted["compared"] += 1
    return counted


def test_the_cheapest_victims_are_the_cheapest_of_all_sets() -> None:
    """Of all sets of victims that the minimal placement can spare, the cheapest by every pod's cost is taken."""
    result = cheapest_against_every_set(range(400))
    print(f"victims against every set: {dict(result)}, 0 differences")
    assert result["compared"] > 50


@pytest.mark.thorough
def test_the_cheapest_victims_are_the_cheapest_of_all_sets_thorough() -> None:
    """The same for thousands of groups."""
    result = cheapest_against_every_set(range(10**6, 10**6 + 6_000))
    print(f"victims against every set: {dict(result)}, 0 differences")
