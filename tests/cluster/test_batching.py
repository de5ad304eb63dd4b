"""Pods that the scheduler places in batches (1.35 and newer) land where the model says, one after the other.

Without spread constraints, equal pods that follow each other within half a second are placed by the scores of the
first: the next best node of its list. From 1.37 on the node that was chosen last is scored again and stays in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
import yaml

from rebalancer.decoding.interning import Interner
from rebalancer.model.cluster import Version
from rebalancer.scheduling.configuration import read_profiles
from rebalancer.scheduling.place import candidate_nodes, top_scoring
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from tests.control_plane.api import wait_until
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.layout import lay_out, nodes, pod
from tests.control_plane.plane import ControlPlane
from tests.control_plane.servers import Options
from tests.fidelity.reading import SCENE_KINDS, read_kinds, read_version, view_of

PROFILE: Final[dict[str, Any]] = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}}],
}
CONFIGURATION: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [PROFILE],
}
FIRST_WITH_BATCHES: Final = Version(1, 35)
HINT: Final = "OpportunisticBatch provided node hint"
ROUNDS: Final = 6
PODS: Final = 20


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[ControlPlane, Cleaner]]:
    """Return a control plane whose scheduler has no default constraints, and says when it goes by a hint."""
    with ControlPlane(Options(scheduler_modules="batch=3", scheduler_profiles=(PROFILE,))) as made:
        yield made, Cleaner(made.api)


def test_each_pod_of_a_batch_lands_on_a_candidate(started: tuple[ControlPlane, Cleaner]) -> None:
    """Nodes are unequal, some tainted PreferNoSchedule, and fill up: what is best changes with every pod."""
    plane, cleaner = started
    profile = read_profiles(yaml.safe_dump(CONFIGURATION).encode())["default-scheduler"]
    version = read_version(plane.api)
    for seed in range(ROUNDS):
        lay_out(plane, draw(Random(seed)))
        view = read(plane, profile)
        for number in range(PODS):
            plane.api.create(pod(f"web-{number:02}", namespace="demo", labels={"app": "web"}, cpu="500m"))
        for name, node in await_landings(plane):
            new = next(one for one in read(plane, profile).snapshot.pods if one.name == name)
            allowed = candidate_nodes(new, view, top_scoring).chosen
            assert node in allowed, f"seed {seed}, {name}: on {node}, expected one of {sorted(allowed)}"
            view = view.with_placed(new, node)
        cleaner.clean()
    hints = plane.log("kube-scheduler").read_text(encoding="utf-8").count(HINT)
    print(f"\npods: {ROUNDS * PODS}, placed by a hint: {hints}")
    assert (hints > 0) == (version >= FIRST_WITH_BATCHES)


def test_a_batch_may_outlive_the_sample_that_it_goes_by() -> None:
    """140 nodes, of which 100 are scored. Each pod fills one, and what the first sample lacked is still lacking."""
    profile = read_profiles(yaml.safe_dump(CONFIGURATION).encode())["default-scheduler"]
    random, pods = Random(3), 60
    machines = nodes({"a": 140}, cpu="2", memory="32Gi")
    for machine in machines:
        machine["status"]["allocatable"]["memory"] = f"{random.randint(11, 60)}00Mi"
    with ControlPlane(Options(scheduler_modules="batch=3", scheduler_profiles=(PROFILE,))) as plane:
        lay_out(plane, [*machines, pod("first", on=machines[0]["metadata"]["name"], namespace="demo", cpu="100m")])
        view = read(plane, profile)
        with plane.without("kube-scheduler"):
            for number in range(pods):
                plane.api.create(pod(f"web-{number:02}", namespace="demo", cpu="1500m", memory="1Gi"))
        for name, landed in await_landings(plane, pods):
            new = next(one for one in read(plane, profile).snapshot.pods if one.name == name)
            assert landed in candidate_nodes(new, view, top_scoring).chosen, name
            view = view.with_placed(new, landed)


def draw(random: Random) -> list[Any]:
    """Return nodes of several sizes, some of which pods are better kept from, and pods on them."""
    machines = nodes({"a": 4, "b": 3, "c": 3}, cpu="8", memory="32Gi")
    for machine in machines:
        machine["status"]["allocatable"]["cpu"] = random.choice(("2", "4", "8"))
        if random.random() < 0.4:
            machine["spec"]["taints"] = [{"key": "soft", "effect": "PreferNoSchedule"}]
    names = [machine["metadata"]["name"] for machine in machines]
    load = [pod(f"load-{number}", on=random.choice(names), namespace="demo", cpu="250m") for number in range(8)]
    return [*machines, *load]


def read(plane: ControlPlane, profile: Profile) -> View:
    return view_of(read_kinds(plane.api, SCENE_KINDS, Interner()), read_version(plane.api), profile)


def await_landings(plane: ControlPlane, pods: int = PODS) -> list[tuple[str, str]]:
    """Return the new pods and their nodes, in the order in which they were made, which is the order of the queue."""
    path = "/apis/events.k8s.io/v1/namespaces/demo/events"

    def find() -> list[dict[str, Any]]:
        events = [event for event in plane.api.list(path) if event["reason"] == "Scheduled"]
        found = [event for event in events if event["regarding"]["name"].startswith("web-")]
        return found if len(found) == pods else []

    events = sorted(wait_until(find, what="the pods to be placed"), key=lambda event: event["regarding"]["name"])
    return [(event["regarding"]["name"], event["note"].split()[-1]) for event in events]
