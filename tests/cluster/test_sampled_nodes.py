"""Clusters of which kube-scheduler scores a sample of nodes: landings and repairs as foretold, on the real one."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.scheduling.configuration import API_GROUP, KIND, read_profiles
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from tests.closed_loop.ours import ALL_AT_ONCE
from tests.closed_loop.trial import wait_at_rest
from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, node, nodes, pod, spread, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.servers import Options
from tests.fidelity.reading import read_view

BOTH_KINDS = {"actOn": ["DoNotSchedule", "ScheduleAnyway"]}


def repair(plane: ControlPlane, folder: Path, **changes: Any) -> Counter[str]:
    """Run the controller until nothing is left to do; return the evictions by namespace."""
    install(plane, "base", "evict")
    before = plane.audit.mark()
    text = policy("Evict", interval="1s", budgets=ALL_AT_ONCE, spread=BOTH_KINDS, **changes)
    with Controller(plane, folder, text, "--once") as controller:
        assert controller.wait(600) == 0, controller.log_file.read_text()[-4000:]
    wait_at_rest(plane)
    return Counter(request.namespace for request in plane.audit.evictions(user=USER, since=before))


def pods_by_zone(plane: ControlPlane, namespace: str) -> Counter[str]:
    """Count the pods of a namespace by zone, which is the first part of a node's name; "" are pending."""
    pods = plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return Counter(pod["spec"].get("nodeName", "").split("-")[0] for pod in pods)


def even(counts: Mapping[str, int], zones: Sequence[str]) -> bool:
    held = [counts.get(zone, 0) for zone in zones]
    return max(held) - min(held) <= 1


def on_two_zones(pods: int) -> list[str]:
    return [f"{'ab'[number % 2]}-{number // 2}" for number in range(pods)]


def soft(name: str, on: Sequence[str], **spec: Any) -> Workload:
    """Return a Deployment in a namespace of its own whose soft constraint prefers zones with few of its pods."""
    constraint = spread(ZONE, labels={"app": name}, soft=True)
    return deployment(name, list(on), namespace=name, topologySpreadConstraints=[constraint], **spec)


def test_a_returned_zone_of_50_nodes_is_repaired(cluster: ControlPlane, tmp_path: Path) -> None:
    """A soft constraint, and a limit that is stricter than one: the fewest evictions, each where it was foretold."""
    loose = deployment(
        "limited",
        on_two_zones(12),
        namespace="limited",
        topologySpreadConstraints=[spread(ZONE, labels={"app": "limited"}, max_skew=5, soft=True)],
    )
    lay_out(cluster, [*nodes({"a": 50, "b": 50, "c": 50}), soft("web", on_two_zones(12)), loose], timeout=180)
    limit = {"name": "even", "topologyKey": ZONE, "maxSkew": 1, "action": "Evict"}
    group = {"name": "limited", "selector": {"matchLabels": {"app": "limited"}}, "limits": [limit]}
    assert repair(cluster, tmp_path, groups=[group]) == {"web": 4, "limited": 4}
    for namespace in ("web", "limited"):
        assert pods_by_zone(cluster, namespace) == {"a": 4, "b": 4, "c": 4}


def test_where_few_nodes_of_the_best_zone_are_open_the_sample_decides(cluster: ControlPlane, tmp_path: Path) -> None:
    """Four of 70: nothing is evicted, and of pods that prefer the zone some do land elsewhere."""
    machines = [
        node(f"{zone}-{number}", zone=zone, unschedulable=zone == "c" and number < 66)
        for zone in "abc"
        for number in range(70)
    ]
    lay_out(cluster, [*machines, soft("web", on_two_zones(12))], timeout=180)
    assert not repair(cluster, tmp_path)
    constraint = spread(ZONE, labels={"app": "web"}, soft=True)
    cluster.api.create_all(
        pod(f"new-{number}", namespace="web", topologySpreadConstraints=[constraint]) for number in range(30)
    )
    wait_settled(cluster)
    landed = pods_by_zone(cluster, "web") - Counter({"a": 6, "b": 6})
    print(dict(landed))
    assert landed["c"]
    assert landed["a"] + landed["b"]


def shapes(random: Random, count: int) -> list[Manifest]:
    """Return nodes of several shapes in three zones; some are cordoned, some carry a PreferNoSchedule taint."""
    avoided = {"key": "avoid", "value": "", "effect": "PreferNoSchedule"}
    return [
        node(
            f"{zone}-{number}",
            zone=zone,
            cpu=random.choice(("16", "32")),
            unschedulable=random.random() < 0.05,
            taints=[avoided] if random.random() < 0.1 else [],
        )
        for number in range(count)
        for zone in [random.choices("abc", (3, 3, 2))[0]]
    ]


def drawn_constraints(random: Random) -> list[dict[str, Any]]:
    keys = random.choice(([ZONE], [ZONE], [HOSTNAME], [ZONE, HOSTNAME]))
    return [spread(key, labels={"app": "web"}, max_skew=random.choice((1, 1, 2)), soft=True) for key in keys]


def land(
    plane: ControlPlane, random: Random, rounds: int, profiles: Sequence[Profile] = (DEFAULT_PROFILE,)
) -> Counter[str]:
    """Create pods one by one, each for one of the scheduler's profiles.

    Returns the number of `pods`, of those with `few` candidates or a certain `zone`, and of the `misses`.
    """
    tally: Counter[str] = Counter()
    for number in range(rounds):
        constraints = drawn_constraints(random)
        name, profile = f"new-{number}", random.choice(profiles)
        plane.api.create(
            pod(
                name,
                namespace="demo",
                labels={"app": random.choice(("web", "web", "other"))},
                cpu=random.choice(("100m", "2")),
                topologySpreadConstraints=constraints,
                schedulerName=profile.name,
            )
        )

        def placed(path: str = f"/api/v1/namespaces/demo/pods/{name}") -> str:
            node: str = plane.api.get(path)["spec"].get("nodeName", "")
            return node

        wait_until(placed, what=f"{name} to be placed")
        view = View(read_view(plane.api).snapshot, profile)
        landed = next(made for made in view.snapshot.pods if made.name == name)
        new = structs.replace(landed, node=None, labels=Labels({"app": landed.labels["app"]}))
        prediction = predict(new, view.without([landed]))
        assert prediction.sampled == (profile.percentage < 100)
        zone = prediction.certain.get(ZONE)
        tally["pods"] += 1
        tally["few"] += prediction.candidates < prediction.feasible
        tally["zone"] += zone is not None
        tally["misses"] += landed.node not in prediction.candidates
    return tally


def lay_out_shapes(plane: ControlPlane, random: Random, count: int) -> None:
    machines = shapes(random, count)
    names = [machine["metadata"]["name"] for machine in machines]
    full = random.choice("abc")
    some = [name for name in names if not name.startswith(full)]
    load = [
        pod(
            f"load-{number}",
            on=random.choice(some if random.random() < 0.9 else names),
            namespace="demo",
            labels={"app": random.choice(("web", "other"))},
            cpu=random.choice(("500m", "2", "4")),
        )
        for number in range(count // 3)
    ]
    lay_out(plane, [*machines, *load], timeout=180)


@pytest.mark.parametrize("count", [150, 220])
def test_drawn_pods_land_on_candidates(cluster: ControlPlane, count: int) -> None:
    """Nodes of mixed shapes and soft constraints: no pod lands elsewhere, and most have fewer candidates than nodes."""
    random = Random(count)
    lay_out_shapes(cluster, random, count)
    tally = land(cluster, random, 20)
    print(f"{count} nodes: {dict(tally)}")
    assert tally["misses"] == 0
    assert tally["few"] > 10


@pytest.mark.thorough
@pytest.mark.parametrize(("count", "rounds"), [(150, 120), (300, 120), (1000, 60)])
def test_many_drawn_pods_land_on_candidates(cluster: ControlPlane, count: int, rounds: int) -> None:
    """The same more often, and on 1,000 nodes."""
    random = Random(f"many {count}")
    lay_out_shapes(cluster, random, count)
    tally = land(cluster, random, rounds)
    print(f"{count} nodes: {dict(tally)}")
    assert tally["misses"] == 0


@pytest.mark.thorough
def test_pods_land_on_candidates_with_other_percentages() -> None:
    """One scheduler whose profiles score 105 of 300 nodes, and all of them."""
    written = [
        {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 35},
        {"schedulerName": "whole", "percentageOfNodesToScore": 100},
    ]
    configuration = {"apiVersion": f"{API_GROUP}v1", "kind": KIND, "profiles": written}
    profiles = read_profiles(yaml.safe_dump(configuration).encode())
    random = Random(35)
    with ControlPlane(Options(scheduler_profiles=tuple(written))) as plane:
        lay_out_shapes(plane, random, 300)
        tally = land(plane, random, 80, tuple(profiles.values()))
    print(dict(tally))
    assert tally["misses"] == 0


@pytest.mark.thorough
def test_30_repairs_on_300_nodes(cluster: ControlPlane, tmp_path: Path) -> None:
    """Half of them soft, side by side: as many evictions as counting needs, nothing pending, every zone within skew."""
    least = lay_out_repairs(cluster)
    evictions = repair(cluster, tmp_path)
    missed = {name: evictions[name] - number for name, number in least.items() if evictions[name] != number}
    print(f"{sum(evictions.values())} evictions, minimum {sum(least.values())}; more or fewer: {missed}")
    assert not missed
    for name in least:
        counts = pods_by_zone(cluster, name)
        assert not counts[""]
        assert even(counts, "abc")


def lay_out_repairs(plane: ControlPlane, number: int = 30) -> Mapping[str, int]:
    """Lay out so many workloads on two of three zones of 100 nodes; return the least evictions, by namespace."""
    random = Random(300)
    workloads, least = [], {}
    for place in range(number):
        name = f"{'soft' if place % 2 else 'hard'}-{place}"
        on = [f"{random.choice('ab')}-{random.randrange(100)}" for _ in range(random.randint(6, 15))]
        constraint = spread(ZONE, labels={"app": name}, soft=bool(place % 2))
        workloads.append(deployment(name, on, namespace=name, topologySpreadConstraints=[constraint]))
        least[name] = fewest(Counter(node[0] for node in on), len(on))
    lay_out(plane, [*nodes({"a": 100, "b": 100, "c": 100}), *workloads], timeout=300)
    return least


def fewest(held: Mapping[str, int], pods: int) -> int:
    """Return how many pods must leave their zone until three zones differ by at most one."""
    targets = sorted((pods // 3 + (place < pods % 3) for place in range(3)), reverse=True)
    counts = sorted((held.get(zone, 0) for zone in "abc"), reverse=True)
    return sum(max(0, count - target) for count, target in zip(counts, targets, strict=True))


def test_zones_that_are_set_later_are_not_those_of_the_list_until_a_node_comes(cluster: ControlPlane) -> None:
    """As by a cloud controller manager: all nodes are listed as of one zone, one zone's machines after the other's."""
    names = [f"{zone}-{number}" for zone in "abc" for number in range(50)]
    for zone in "abc":
        machines = [node(name, zone=zone) for name in names if name.startswith(zone)]
        for machine in machines:
            del machine["metadata"]["labels"][ZONE]
        lay_out(cluster, machines, timeout=180)
    # The scheduler lists the nodes as it places a pod. Their zones are of another second than they.
    lay_out(cluster, [pod("first", namespace="demo", cpu="100m")])
    time.sleep(1.1)
    for name in names:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: name[0]}}})
    held = [pod(f"w-{n}", on=f"{'ab'[n % 2]}-{n // 2}", namespace="demo", labels={"app": "web"}) for n in range(80)]
    lay_out(cluster, held)
    zones = [place_preferring_c(cluster, f"before-{number}") for number in range(5)]
    assert {certain for _, certain in zones} == {None}, zones
    print(f"\nlanded before the list was made anew: {zones}")
    time.sleep(1.1)
    lay_out(cluster, [node("c-50", zone="c")])
    zones = [place_preferring_c(cluster, f"after-{number}") for number in range(5)]
    assert zones == [("c", "c")] * 5


def place_preferring_c(plane: ControlPlane, name: str) -> tuple[str, str | None]:
    """Create a pod whose soft constraint prefers zone c; return the zone it is placed in, and the one foretold."""
    constraint = spread(ZONE, labels={"app": "web"}, soft=True)
    labels = {"app": "web"}
    plane.api.create(pod(name, namespace="demo", labels=labels, cpu="100m", topologySpreadConstraints=[constraint]))
    path = f"/api/v1/namespaces/demo/pods/{name}"
    wait_until(lambda: plane.api.get(path)["spec"].get("nodeName", ""), what=f"{name} to be placed")
    view = read_view(plane.api)
    landed = next(made for made in view.snapshot.pods if made.name == name)
    foretold = predict(structs.replace(landed, node=None, labels=Labels(labels)), view.without([landed])).certain.get(
        ZONE
    )
    return (landed.node or "")[0], foretold
