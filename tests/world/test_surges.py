"""Surges in a seeded world: whatever dies or interferes, the replicas come back to what people ask for."""

from collections import Counter
from collections.abc import Mapping

import pytest

from rebalancer.surge.record import TRANSITIONS, Ending, Phase
from tests.drawing import sampled, scaled
from tests.world.safeguards import SURGE_SAFEGUARDS, without
from tests.world.scenarios import SURGES
from tests.world.world import World, quiet


def run_surges(seeds: range) -> tuple[dict[int, list[str]], Counter[Ending], set[tuple[Phase, Phase]]]:
    """Run worlds with surges; return their breaches, how the surges have ended, and which transitions they took."""
    broken: dict[int, list[str]] = {}
    taken: set[tuple[Phase, Phase]] = set()
    endings: Counter[Ending] = Counter()
    for seed in seeds:
        world = World(seed, SURGES)
        with quiet():
            breaches = world.run().breaches
        if breaches:
            broken[seed] = breaches
        endings += world.api.surge_monitor.endings
        taken |= world.api.surge_monitor.taken
    return broken, endings, taken


def test_no_promise_about_surges_is_broken() -> None:
    """One to three replicas, killed, stopped, deposed and cut off, amid outages, scale-ups and pauses."""
    seeds = range(1, 1 + scaled(20))
    broken, endings, _ = run_surges(seeds)
    assert broken == {}, "python -m tests.world SEED --scenario surges shows what happened"
    assert endings[Ending.DONE] >= 2 * len(seeds)


@pytest.mark.thorough
def test_no_promise_about_surges_is_broken_by_a_hundred_seeds() -> None:
    broken, endings, taken = run_surges(range(1, 101))
    print(*(f"{ending}: {number}" for ending, number in endings.most_common()), sep=", ")
    assert broken == {}
    assert endings[Ending.DONE] >= 500
    assert endings.keys() >= {Ending.TIMED_OUT, Ending.SCALED, Ending.VICTIM_GONE}
    every = {(before, after) for before, follows in TRANSITIONS.items() for after in follows}
    # Removing lasts a second: what gives up right then has a test of its own.
    assert every - taken <= {(Phase.REMOVING, Phase.TAKING_BACK)}


NOTICED: Mapping[str, tuple[int, str]] = {
    "whose a number is is asked": (1, "are asked for"),
    "replicas are changed as they were read": (1, "are asked for"),
    "pods that go are marked first": (1, "was never marked"),
    "marks are given time": (13, "was written"),
    "all pods are ready before any goes": (1, "has not been Ready for"),
    "added pods are taken back": (13, "are asked for"),
    "numbers of others stand": (4, "are asked for"),
    "surges are stored before they begin": (1, "without a stored record"),
    "surges heed a pause": (23, "after a pause was stored"),
}
"""For each safeguard of surges a seed whose run without it breaks a promise, and which one."""


def test_every_safeguard_of_surges_has_a_seed() -> None:
    assert NOTICED.keys() == SURGE_SAFEGUARDS.keys()


@pytest.mark.parametrize("name", sampled(NOTICED))
def test_a_lost_safeguard_of_surges_is_noticed(name: str) -> None:
    """A seed breaks a promise without this one; with all of them it breaks none, as every seed."""
    seed, promise = NOTICED[name]
    with without(name), quiet():
        assert any(promise in breach for breach in World(seed, SURGES).run().breaches)
