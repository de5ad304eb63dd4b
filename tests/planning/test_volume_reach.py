"""Pods whose volumes reach some of the zones: against every placement, and every choice of the scheduler."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.planning.plan import Plan
from rebalancer.scheduling.place import Choose
from rebalancer.simulator import ZONE, SimulatedCluster, pick_most_crowded
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.planning.build import planned
from tests.planning.clusters import GENEROUS

ZONES = "abc"


def snapshot_of(zones: str, reach: Sequence[str], skew: int) -> Snapshot:
    """Return a StatefulSet with a pod in each of these zones, whose volume reaches the zones named for it."""
    blueprint = a_cluster(ZONES, 1)
    order = sorted(range(len(zones)), key=zones.__getitem__)
    on = {f"{zone}-1": zones.count(zone) for zone in sorted(set(zones))}
    blueprint.stateful_set("db", on=on, spread={ZONE: skew})
    plain = blueprint.snapshot()
    pods, volumes, claims = [], [], []
    for pod, number in zip(plain.pods, order, strict=True):
        assert pod.node == f"{zones[number]}-1"
        name = f"db-{number}"
        labels = {**pod.labels, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": f"{number}"}
        pods.append(structs.replace(pod, name=name, labels=type(pod.labels)(labels), claims=(f"data-{name}",)))
        term = NodeSelectorTerm((SelectorRequirement(ZONE, Operator.IN, tuple(reach[number])),))
        volumes.append(PersistentVolume(name=f"v-{name}", node_affinity=(term,), claim=("default", f"data-{name}")))
        claims.append(PersistentVolumeClaim(namespace="default", name=f"data-{name}", volume=f"v-{name}", bound=True))
    (owner,) = plain.workloads
    assert owner.template is not None
    owner = structs.replace(owner, template=structs.replace(owner.template, claim_templates=("data",)))
    return replace(plain, pods=tuple(pods), workloads=(owner,), volumes=tuple(volumes), claims=tuple(claims))


def satisfied(zones: str, skew: int) -> bool:
    held = [zones.count(zone) for zone in ZONES]
    return max(held) - min(held) <= skew


def fewest(zones: str, reach: Sequence[str], skew: int) -> int | None:
    """Try every zone of every pod that its volume reaches."""
    placements = product(*[where if len(where) > 1 else zone for zone, where in zip(zones, reach, strict=True)])
    moved = [
        sum(before != after for before, after in zip(zones, placement, strict=True))
        for placement in placements
        if satisfied("".join(placement), skew)
    ]
    return min(moved, default=None)


def drawn(seed: int) -> tuple[str, tuple[str, ...], int] | None:
    """Draw a violated state."""
    random = Random(seed)
    skew = random.choice((1, 1, 2))
    zones = "".join(random.choice(random.choice(("abc", "ab", "a"))) for _ in range(random.randint(2, 6)))
    reach = tuple("".join(sorted({zone, *(other for other in ZONES if random.random() < 0.4)})) for zone in zones)
    return None if satisfied(zones, skew) else (zones, reach, skew)


def numbers(plan: Plan) -> list[int]:
    return [int(eviction.pod.name.removeprefix("db-")) for eviction in plan.evictions]


class Play:
    """A plan that is followed over every choice of the scheduler, while its steps are forced."""

    def __init__(self, reach: tuple[str, ...], skew: int) -> None:
        self.reach = reach
        self.skew = skew
        self._known: dict[str, int] = {}

    def evictions(self, zones: str) -> int:
        """Return the most evictions that it takes until all is satisfied, or nothing is forced any more."""
        if zones not in self._known:
            self._known[zones] = 10**6  # it must not come back
            self._known[zones] = 0 if satisfied(zones, self.skew) else self._follow(zones)
        return self._known[zones]

    def _follow(self, zones: str) -> int:
        plan = planned(snapshot_of(zones, self.reach, self.skew))
        (component,) = plan.components
        least = fewest(zones, self.reach, self.skew)
        assert component.evictions == (least or 0)
        assert component.optimal == (least is not None)
        if least is None or not plan.evictions:
            assert not plan.evictions or component.refusal is not None, "a part of a repair"
            assert not least or not self._safe(zones, least)
            return 0
        if not plan.evictions[0].repair.forced:
            return 0
        ends = {zones}
        for pod in numbers(plan):
            ends = {after for before in ends for after in self._outcomes(before, pod)}
        evicted = len(plan.evictions) + max(map(self.evictions, ends))
        assert evicted <= least + (component.detour is not None)
        return evicted

    def _outcomes(self, zones: str, pod: int) -> list[str]:
        """Return what comes of an eviction, by where the scheduler may place the replacement."""
        left = [zone for number, zone in enumerate(zones) if number != pod]
        low = min(left.count(zone) for zone in ZONES)
        placed = [zone for zone in self.reach[pod] if left.count(zone) + 1 - low <= self.skew]
        assert placed, "it would be pending"
        return [zones[:pod] + zone + zones[pod + 1 :] for zone in placed]

    def _safe(self, zones: str, least: int) -> bool:
        """Say whether some eviction surely brings a state nearer."""
        for pod, where in enumerate(self.reach):
            left = [zone for number, zone in enumerate(zones) if number != pod]
            low = min(left.count(zone) for zone in ZONES)
            placed = [zone for zone in where if left.count(zone) + 1 - low <= self.skew]
            ends = [zones[:pod] + zone + zones[pod + 1 :] for zone in placed]
            if len(where) > 1 and ends and all(fewest(end, self.reach, self.skew) == least - 1 for end in ends):
                return True
        return False


STATES = list(islice(filter(None, map(drawn, range(3000))), 300))


def check(zones: str, reach: tuple[str, ...], skew: int) -> None:
    Play(reach, skew).evictions(zones)


@pytest.mark.parametrize("number", range(20))
def test_replacements_land_where_their_volumes_reach_and_repair(number: int) -> None:
    """The minimum is that of every placement within reach, and a forced repair takes it, wherever pods are placed."""
    check(*STATES[number])


@pytest.mark.thorough
def test_replacements_land_where_their_volumes_reach_in_more_states() -> None:
    """So in all that are drawn."""
    assert len(STATES) == 300
    for state in STATES[20:]:
        check(*state)


@pytest.mark.parametrize("choose", [pick_most_crowded, None])
@pytest.mark.parametrize("number", range(8))
def test_in_a_simulated_cluster(number: int, choose: Choose | None) -> None:
    """The controller ends with every pod on a node that its volume reaches, and with nothing that it could repair."""
    zones, reach, skew = STATES[number]
    cluster = SimulatedCluster(snapshot_of(zones, reach, skew), choose=choose)
    simulation = Simulation(cluster, eager(budgets=GENEROUS))
    simulation.cycles(40, apart=30)
    snapshot = cluster.snapshot(cluster.now)
    placed = {pod.name: (pod.node or "-")[0] for pod in snapshot.pods}
    after = "".join(placed[f"db-{pod}"] for pod in range(len(zones)))
    assert all(zone in where for zone, where in zip(after, reach, strict=True))
    if satisfied(after, skew):
        assert simulation.evictions == fewest(zones, reach, skew)
    else:
        assert not planned(snapshot_of(after, reach, skew)).evictions
