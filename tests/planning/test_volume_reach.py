"""Pods whose volumes reach some of the zones: against every placement, and every choice of the scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.planning.plan import Plan
from rebalancer.planning.search.report import Method
from rebalancer.scheduling.place import Choose
from rebalancer.simulator import ZONE, SimulatedCluster, pick_most_crowded
from tests.build import a_cluster, change_specs
from tests.controller.simulated import Simulation, eager
from tests.planning.build import planned, together
from tests.planning.clusters import GENEROUS
from tests.planning.test_within_budgets import with_roles

ZONES = "abc"
WEB = "web-82b3ade9d0-1"


def snapshot_of(zones: str, reach: Sequence[str], skew: int, web: str = "") -> Snapshot:
    """Return a StatefulSet with a pod in each of these zones, whose volume reaches the zones named for it.

    Beside it is a Deployment with a pod in each zone of `web`.
    """
    blueprint = a_cluster(ZONES, 1)
    order = sorted(range(len(zones)), key=zones.__getitem__)
    on = {f"{zone}-1": zones.count(zone) for zone in sorted(set(zones))}
    blueprint.stateful_set("db", on=on, spread={ZONE: skew})
    if web:
        blueprint.deployment("web", on={f"{zone}-1": web.count(zone) for zone in web}, spread={ZONE: skew})
    plain = blueprint.snapshot()
    pods, volumes, claims = [], [], []
    for pod, number in zip(plain.pods, order, strict=False):
        assert pod.node == f"{zones[number]}-1"
        name = f"db-{number}"
        labels = {**pod.labels, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": f"{number}"}
        pods.append(structs.replace(pod, name=name, labels=Labels(labels), claims=(f"data-{name}",)))
        term = NodeSelectorTerm((SelectorRequirement(ZONE, Operator.IN, tuple(reach[number])),))
        volumes.append(PersistentVolume(name=f"v-{name}", node_affinity=(term,), claim=("default", f"data-{name}")))
        claims.append(PersistentVolumeClaim(namespace="default", name=f"data-{name}", volume=f"v-{name}", bound=True))
    owner, *others = plain.workloads
    assert owner.template is not None
    owner = structs.replace(owner, template=structs.replace(owner.template, claim_templates=("data",)))
    return replace(
        plain,
        pods=(*pods, *plain.pods[len(pods) :]),
        workloads=(owner, *others),
        volumes=tuple(volumes),
        claims=tuple(claims),
    )


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
    return [int(eviction.pod.name.removeprefix("db-")) for eviction in plan.fates.going]


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
        if least is None or not plan.fates.going:
            assert not plan.fates.going or component.refusal is not None, "a part of a repair"
            assert not least or not self._safe(zones, least)
            return 0
        if not plan.fates.going[0].repair.forced:
            return 0
        ends = {zones}
        for pod in numbers(plan):
            ends = {after for before in ends for after in self._outcomes(before, pod)}
        evicted = len(plan.fates.going) + max(map(self.evictions, ends))
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
        assert not planned(snapshot_of(after, reach, skew)).fates.going


def changed_pods(snapshot: Snapshot, **changes: Mapping[str, Any]) -> Snapshot:
    """Change fields of some pods by their names, with _ for -."""
    fields = {name.replace("_", "-"): change for name, change in changes.items()}
    pods = tuple(structs.replace(pod, **fields.get(pod.name, {})) for pod in snapshot.pods)
    return replace(snapshot, pods=pods)


def test_pods_that_every_zone_admits_go_at_once_where_they_are_enough() -> None:
    """By counting, in one step; pods with less reach stay then."""
    plan = planned(snapshot_of("aaaabb", ("abc", "abc", "ac", "ac", "b", "b"), 1))
    assert numbers(plan) == [0, 1]
    assert plan.components[0].method is Method.CERTIFICATE


def test_fewer_evictions_of_pods_with_less_reach_come_before_more_of_others() -> None:
    """One of the zone that is too full must go, and all of it have less reach."""
    plan = planned(snapshot_of("aab", ("ac", "ab", "abc"), 1))
    assert (numbers(plan), plan.components[0].evictions) == ([0], 1)


def test_a_pod_whose_replacement_is_not_predictable_stays_among_them() -> None:
    snapshot = snapshot_of("aab", ("ac", "ac", "abc"), 1)
    queued = Labels({**snapshot.pods[1].labels, "kueue.x-k8s.io/queue-name": "q"})
    plan = planned(changed_pods(snapshot, db_1={"labels": queued}))
    assert numbers(plan) == [0]
    assert Reason.NOT_PREDICTABLE in {refused.reason for refused in plan.refusals}


def test_budgets_choose_among_pods_with_less_reach() -> None:
    """The one that its budget keeps is not evicted."""
    snapshot = snapshot_of("aab", ("ac", "ac", "abc"), 1)
    (first,) = numbers(planned(snapshot))
    kept = with_roles(snapshot, {f"db-{first}": "leader"}, {"leader": (0, 0)})
    assert numbers(planned(kept)) == [1 - first]


def test_pods_of_a_deployment_beside_those_with_less_reach() -> None:
    """Replacements with new names are of the class of their owner; those of StatefulSets of that of their name."""
    snapshot = change_specs(snapshot_of("aa", ("abc", "ac"), 1, web="ab"), together, cluster="r")
    held = {"annotations": Labels({"karpenter.sh/do-not-disrupt": "true"})}
    for kept, goes in (({}, {"db-0", "db-1", WEB}), ({"db_0": held, "db_1": held}, {WEB})):
        (eviction,) = planned(changed_pods(snapshot, **kept)).fates.going
        assert eviction.repair.forced
        assert eviction.pod.name in goes
