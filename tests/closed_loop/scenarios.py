"""The states that are repaired on the real control plane, as data: for the tests and for the comparison."""

from collections.abc import Callable, Iterator
from random import Random

from tests.closed_loop.scenario import (
    APP,
    Scenario,
    cheap_and_dear,
    last_zone_with_files,
    one_workload,
    softly_spread,
    three_shards,
)
from tests.control_plane.layout import Workload
from tests.control_plane.manifests import HOSTNAME
from tests.planning.contingent_oracle import Game
from tests.planning.states import Counts

FALLS_SHORT = (
    Scenario(
        name="pinned",
        title="4/4/4 over three zones, those of one zone with an emptyDir",
        counts=[[2, 2], [2, 2], [2, 2]],
        zone=1,
        make=last_zone_with_files,
    ),
    Scenario(
        name="twenty",
        title="12 pods on 6 of 20 nodes, hostname maxSkew 1",
        counts=[[2] * 6 + [0] * 14],
        host=1,
        make=one_workload,
    ),
    Scenario(
        name="budget",
        title="a zone returned, PodDisruptionBudget maxUnavailable 1",
        counts=[[3, 3], [3, 3], [0, 0]],
        zone=1,
        budget=1,
        make=one_workload,
    ),
    Scenario(
        name="priorities",
        title="priorities 100 and 1000 under one selector",
        counts=[[4], [1], [1]],
        zone=1,
        dear="dear-",
        make=cheap_and_dear,
    ),
    Scenario(
        name="returned",
        title="30 pods, a zone of three returned",
        counts=[[4, 4, 4, 3], [4, 4, 4, 3], [0, 0, 0, 0]],
        zone=1,
        host=1,
        make=one_workload,
    ),
)
"""Where counting each constraint alone, and trying instead of planning, falls short."""

EXAMPLES = (
    Scenario(
        name="unreachable",
        title="2,1 | 4,1,3 zone and hostname maxSkew 1: no placement order gets there",
        counts=[[2, 1], [4, 1, 3]],
        zone=1,
        host=1,
        make=one_workload,
    ),
    Scenario(
        name="together",
        title="1 | 5,1 maxSkew 2 and 1: two at once",
        counts=[[1], [5, 1]],
        zone=2,
        host=1,
        make=one_workload,
    ),
    Scenario(
        name="four-out",
        title="5,3,6,4 | 0,0,2,2 | 6,0,0,6 maxSkew 1 and 1: forced in 13 with four out at once",
        counts=[[5, 3, 6, 4], [0, 0, 2, 2], [6, 0, 0, 6]],
        zone=1,
        host=1,
        make=one_workload,
    ),
    Scenario(
        name="not-forced",
        title="0,0,0,2 | 8,0,7,5 | 4,0,7,2 | 1,6,1,0 maxSkew 1 and 1: cannot be forced",
        counts=[[0, 0, 0, 2], [8, 0, 7, 5], [4, 0, 7, 2], [1, 6, 1, 0]],
        zone=1,
        host=1,
        make=one_workload,
    ),
)
"""Worked examples: what can be reached, and how."""

DEADLOCK = Scenario(
    name="deadlock",
    title="three shards of two, anti-affinity by zone, one pod Pending",
    counts=[[1, 1], [1, 1], [0, 1]],
    zone=2,
    host=1,
    least=1,
    late=("shard-2", 2),
    make=three_shards,
)
"""The one node that is not full is in the zone of the last pod's own shard: one eviction frees it."""


def _limited(name: str, counts: Counts, make: Callable[[Scenario], list[Workload]]) -> Scenario:
    pods, cap = sum(map(sum, counts)), _cap(counts)
    soft = ", softly 1" if make is softly_spread else ""
    return Scenario(
        name=name,
        title=f"{_shown(counts)} hostname maxSkew {cap}{soft}; under 1/3 of {pods} on a node",
        counts=counts,
        host=cap,
        least=over(counts),
        limit={
            "name": name,
            "selector": {"matchLabels": {APP: name}},
            "limits": [{"name": "node-third", "topologyKey": HOSTNAME, "maxShare": "<1/3", "action": "Evict"}],
        },
        make=make,
    )


def over(counts: Counts) -> int:
    """Return how many pods are too many on their nodes, where each is to hold less than a third of all."""
    return sum(max(0, held - _cap(counts)) for zone in counts for held in zone)


def _cap(counts: Counts) -> int:
    return (sum(map(sum, counts)) - 1) // 3


def _shown(counts: Counts) -> str:
    return " | ".join(",".join(map(str, zone)) for zone in counts)


LIMITS = (
    _limited("share", [[4, 2], [1, 1], [1, 1]], one_workload),
    _limited("share-soft", [[4, 2], [1, 1], [1, 1]], softly_spread),
)
"""A limit that is stricter than the pods' own constraints: nothing forces the scheduler, and a landing may miss."""


def random_limits(first: int, many: int) -> tuple[Scenario, ...]:
    """Return random states that satisfy the hard constraint but not the limit; odd ones with a soft constraint too."""
    return tuple(_random_limit(seed) for seed in range(first, first + many))


def _random_limit(seed: int) -> Scenario:
    random = Random(seed)
    while True:
        counts = [[random.choice([0, 1, 1, 2, 3, 4, 6, 8]) for _ in range(random.randint(2, 3))] for _ in range(3)]
        nodes = [held for zone in counts for held in zone]
        cap = _cap(counts)
        if 6 <= sum(nodes) <= 24 and over(counts) and max(nodes) - min(nodes) <= cap:
            return _limited(f"limit-{seed}", counts, softly_spread if seed % 2 else one_workload)


def random_clusters(first: int, many: int, *, budget: bool) -> tuple[Scenario, ...]:
    """Return random clusters that can be repaired; cluster n of seed n, the same on every machine."""
    return tuple(_random_cluster(seed, budget=budget) for seed in range(first, first + many))


def _random_cluster(seed: int, *, budget: bool) -> Scenario:
    random = Random(seed)
    for counts in _draws(random):
        zone, host = random.choice([1, 1, 1, 2]), random.choice([1, 1, 1, 2])
        least = Game(zone, host).distance(counts)
        if least is not None and 2 <= least <= 12:
            allowed = random.randint(1, 3) if budget else None
            kind = f", PodDisruptionBudget maxUnavailable {allowed}" if budget else ""
            return Scenario(
                name=f"random-{seed}",
                title=f"{_shown(counts)} maxSkew {zone} and {host}{kind}",
                counts=counts,
                zone=zone,
                host=host,
                budget=allowed,
                make=one_workload,
            )
    raise AssertionError(seed)


def _draws(random: Random) -> Iterator[Counts]:
    while True:
        even = random.randint(2, 4)
        sizes = [even if random.random() < 0.7 else random.randint(1, 4) for _ in range(random.randint(2, 4))]
        fill = [random.choice([0, 2, 4, 6]) for _ in sizes]
        yield [[random.randint(0, most) for _ in range(size)] for size, most in zip(sizes, fill, strict=True)]


RANDOM = random_clusters(100, 12, budget=False)
BUDGETED = random_clusters(200, 30, budget=True)
LIMITED = random_limits(300, 20)
