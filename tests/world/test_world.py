"""The controller in a seeded world: whatever is drawn, no promise is broken, and a lost safeguard is noticed."""

import pytest

from tests.world.safeguards import without
from tests.world.world import run

CHUNKS, SEEDS = 20, 200
"""In the ordinary run; `python -m tests.world FIRST LAST` runs any others."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken(chunk: int) -> None:
    """Faults of the network, crashes, lags, operators and other controllers, several at once, in any order."""
    size = SEEDS // CHUNKS
    results = [run(seed) for seed in range(chunk * size + 1, (chunk + 1) * size + 1)]
    broken = {result.seed: result.breaches for result in results if result.breaches}
    assert broken == {}, "python -m tests.world SEED shows what happened"
    assert sum(result.evictions for result in results) >= size * 5, "a world without evictions shows nothing"


def test_a_seed_gives_one_history() -> None:
    """Byte for byte: every request, every change of the cluster, every note."""
    assert run(7).digest == run(7).digest
    assert run(7).digest != run(8).digest


NOTICED = {
    "pause is read before a request": 7,
    "memory is saved before requests": 9,
    "memory is only written over what was read": 6,
    "lease is checked before a request": 5,
    "own moves overlay the snapshot": 2,
    "refused groups back off": 9,
    "one refusal holds one group": 6,
    "old plans are not begun": 10,
    "workloads keep enough pods": 6,
    "moves are stored": 1,
    "lost moves are not forgotten": 2,
}
"""A seed for each safeguard whose run breaks a promise without it. The other safeguards have unit tests only."""


@pytest.mark.parametrize("name", NOTICED)
def test_a_lost_safeguard_is_noticed(name: str) -> None:
    """The same seed breaks no promise with all safeguards, and breaks one without this one."""
    with without(name):
        assert run(NOTICED[name]).breaches
