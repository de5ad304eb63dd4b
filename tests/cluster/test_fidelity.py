"""The model says what the real kube-scheduler does: node by node, plugin by plugin, score by score.

Random clusters and pods (`tests/fidelity/scenes.py`), each from its seed. `make thorough` plays 3,000 of them, and 300
on each older release of Kubernetes; the figures are printed; docs/results.md has the last ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rebalancer.scheduling.configuration import read_profiles
from tests.control_plane.build import MissingPart, kubernetes_modules, kubernetes_release, programs
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.fidelity.arena import Arena, arena
from tests.fidelity.planted import FAULTS, find_first
from tests.fidelity.scenes import DISK, GPU, scene
from tests.fidelity.tally import FLOORS, Tally

ORDINARY = 150
CONFIGURED = 15
THOROUGH = 3000
THOROUGH_OLDER = 300
FIRST_THOROUGH_SEED = 10_000


PROFILES: tuple[dict[str, Any], ...] = (
    {
        "schedulerName": "listed",
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
                        {"topologyKey": HOSTNAME, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
                    ],
                },
            },
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": DISK, "operator": "NotIn", "values": ["hdd"]}]}
                            ]
                        }
                    }
                },
            },
        ],
    },
    {
        "schedulerName": "packing",
        "plugins": {
            "multiPoint": {"enabled": [{"name": "PodTopologySpread", "weight": 5}]},
            "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeResourcesFit", "weight": 3}]},
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
                    }
                },
            },
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 50}},
            {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}},
        ],
    },
    {
        "schedulerName": "careless",
        "plugins": {
            "filter": {"disabled": [{"name": "TaintToleration"}]},
            "score": {"disabled": [{"name": "TaintToleration"}, {"name": "InterPodAffinity"}]},
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]},
            }
        ],
    },
)


def ready() -> None:
    """Skip where the servers can't be built."""
    try:
        programs()
    except MissingPart as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no control plane: {missing}")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Arena]:
    """Return a control plane without running controllers, whose scheduler logs its decisions."""
    ready()
    with arena() as made:
        yield made


def played(scheduler: Arena, seeds: range, newcomers: int = 4) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.clusters += 1
        for trial in scheduler.play(scene(seed, newcomers=newcomers)):
            tally.add(trial)
            assert not trial.wrong, "\n".join(tally.wrong)
    print(f"\nseeds {seeds.start} to {seeds.stop - 1}\n{tally.report()}")
    return tally


@pytest.mark.invariant("scheduler-rules")
def test_every_verdict_score_message_and_landing_agrees(scheduler: Arena) -> None:
    """150 clusters: feasible nodes, each plugin's score on each, the message when nothing fits, the landing."""
    tally = played(scheduler, range(ORDINARY))
    assert tally.wrong == []
    assert min(tally.results.values()) > 0


def test_a_scheduler_configuration_changes_the_model_as_it_changes_the_scheduler() -> None:
    """Three profiles, read from the same file by both: default constraints, added affinity, weights, strategies."""
    ready()
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    known = read_profiles(yaml.safe_dump({**document, "profiles": list(PROFILES)}).encode())
    tally = Tally()
    with arena(profiles=PROFILES) as made:
        for seed in range(CONFIGURED):
            name = PROFILES[seed % len(PROFILES)]["schedulerName"]
            made.profile = known[name]
            set_up = scene(seed, family=("mixed", "wild")[seed % 2])
            for _, pod in set_up.newcomers:
                pod["spec"]["schedulerName"] = name
            tally.clusters += 1
            for trial in made.play(set_up):
                tally.add(trial)
                assert not trial.wrong, "\n".join(tally.wrong)
    print(f"\n{tally.report()}")


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_faults_of_the_rules_that_changed_last_are_found(scheduler: Arena) -> None:
    """Each would be seen in the clusters of the ordinary run, three faults or more of a rule."""
    if kubernetes_release() != list(kubernetes_modules())[-1]:
        pytest.skip("the rules are those of the newest release")
    scenes = (scene(seed, newcomers=4) for seed in range(ORDINARY))
    found = find_first(
        (number, trial, made) for number, made in enumerate(scenes, start=1) for trial in scheduler.play(made)
    )
    print("\nfound in cluster: " + "; ".join(f"{name}: {found.get(name)}" for name in FAULTS))
    assert set(found) == set(FAULTS)


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_many_clusters_agree_and_the_zone_is_mostly_certain(scheduler: Arena) -> None:
    """3,000 clusters without a difference, and the zone called certain as often as can be hoped for."""
    newest = list(kubernetes_modules())[-1]
    clusters = THOROUGH if kubernetes_release() == newest else THOROUGH_OLDER
    tally = played(scheduler, range(FIRST_THOROUGH_SEED, FIRST_THOROUGH_SEED + clusters), newcomers=3)
    assert tally.wrong == []
    assert {kind: tally.share(kind) for kind, floor in FLOORS.items() if tally.share(kind) < floor} == {}
