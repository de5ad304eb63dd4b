"""Where the certificate speaks, the full search agrees: any minimal set of victims is a step."""

import random
from typing import cast

import pytest

from rebalancer.adapters.simulator import ZONE
from rebalancer.assessment.judgement import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.arrangement import Bound, Bounds, Inner, Leaf, Same, inner
from rebalancer.planning.certificate import certain
from rebalancer.planning.distance import distance
from rebalancer.planning.planner import plan
from rebalancer.planning.reach import State, candidates, next_step, settles
from rebalancer.policy import load_policy
from rebalancer.scheduling.view import View
from tests.planning.scenes import POLICY, Scene, Work
from tests.planning.states import PLENTY, bounds, state

BATCH = 6
"""Larger steps would make the search too wide to be an oracle."""


def drawn(choice: random.Random) -> tuple[Inner, Bounds, int]:
    """Draw a small state with some full nodes, some immovable pods, and sometimes no bound on nodes."""
    zones = []
    for _ in range(choice.randint(2, 4)):
        nodes = []
        for _ in range(choice.randint(1, 4)):
            held = choice.choice([0, 0, 0, 1, 1, 2, 3])
            fixed = choice.choice([0, 0, 0, held])
            nodes.append((held, fixed, held + choice.choice([0, 1, PLENTY, PLENTY]), 0))
        zones.append(inner(nodes))
    host = choice.choice([None, 1, 1, 2])
    zone = Bound(max_skew=1, enforced=choice.choice([Same.SAME, Same.SAME, Same.SAME, None, 2]))
    node = Bound(max_skew=host, least=choice.choice([0, 0, 0, 0, 1]))
    return inner(zones), (zone, node), choice.choice([0, 0, 1])


def checked(seed: int) -> bool:
    """Hold one state against the search; False where the certificate does not speak."""
    choice = random.Random(seed)
    root, limits, pending = drawn(choice)
    fewest = distance(root, limits, pending)
    if not fewest or fewest > BATCH or not certain(root, limits, pending):
        return False
    now = State(root, pending)
    for _ in range(fewest):
        found = candidates(now, limits)
        assert found, (seed, root, limits)
        now = choice.choice(found)[1]
    assert settles(now, limits), (seed, root, limits)
    return True


def test_any_minimal_victims_will_do() -> None:
    """Thousands of drawn states: every one that the certificate speaks for settles in every interleaving."""
    spoken = sum(checked(seed) for seed in range(8000))
    print(f"certificate: {spoken} of 8000 drawn states, 0 failures")
    assert spoken > 500


@pytest.mark.thorough
def test_any_minimal_victims_will_do_thorough() -> None:
    """The same for more than 100,000 states that it speaks for."""
    spoken, seed = 0, 10**6
    while spoken < 100_000:
        spoken += checked(seed)
        seed += 1
    print(f"certificate: {spoken} of {seed - 10**6} drawn states, 0 failures")


@pytest.mark.parametrize(
    ("root", "limits"),
    [
        pytest.param(state([[2, 1], [0, 0]]), bounds(2, 1), id="maxSkew 2"),
        pytest.param(state([[2, 1], [0, 1]]), bounds(1, 1), id="as many pods as nodes"),
        pytest.param(inner([inner([(3, 0, 3, 0)] * 2), inner([(0, 0, 0, 0)] * 9)]), bounds(1, 4), id="a full zone"),
        pytest.param(state([[2], [0]]), (Bound(max_skew=1, floor_at_zero=True), Bound()), id="minDomains unmet"),
        pytest.param(state([[2], [0]]), (Bound(max_skew=1, cap=1), Bound()), id="a share cap"),
        pytest.param(inner([state([[1], [0]])]), (Bound(max_skew=1),) * 3, id="three levels"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1, enforced=None), Bound()), id="wished for only"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1, enforced=3), Bound()), id="enforced more loosely"),
        pytest.param(state([[3, 0], [0]]), (Bound(max_skew=1), Bound(least=1)), id="a least number"),
    ],
)
def test_where_it_does_not_speak(root: Inner, limits: Bounds) -> None:
    """Outside what was tried it says nothing, and the search decides."""
    assert not certain(root, limits, 0)


def test_one_level() -> None:
    """One key alone at maxSkew 1 needs no search, and no immovable pod is chosen."""
    root = inner([(3, 1, PLENTY, 0), (0, 0, PLENTY, 0), (1, 1, PLENTY, 0)])
    limits = (Bound(max_skew=1),)
    assert certain(root, limits, 0)
    step = next_step(State(root), limits, 9)
    assert len(step.victims) == 1
    assert all(cast("Leaf", path[-1])[0] == 3 for path in step.victims)


def test_a_limit_alone_forces_nothing() -> None:
    """A limit's maxSkew 1 on the zones is the planner's wish: no eviction for it is called forced."""
    scene = Scene(
        nodes={"a1": ("a", 4000), "a2": ("a", 4000), "b1": ("b", 4000)},
        works=(Work(name="web", cpu=100, labels=frozenset({"all"}), on={"a1": 2, "a2": 2}),),
    )
    limit = f"{{name: l, topologyKey: {ZONE}, maxSkew: 1, action: Evict}}"
    text = f"{POLICY}groups: [{{name: g, selector: {{}}, limits: [{limit}]}}]"
    policy = load_policy(text.encode(), source="test")
    view = View(scene.snapshot())
    found = plan(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY)
    assert [each.limits for each in found.groups] != [()]
    assert not any(each.forced for each in found.evictions)
