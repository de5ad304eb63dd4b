"""An evicted pod's replacement is placed where the model predicts: real eviction, real owner, real scheduler."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rebalancer.creation.replacement import replacement
from rebalancer.model.cluster import Version
from rebalancer.model.pods import Pod
from rebalancer.scheduling.predict import predict
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, pod, replica_set, spread, stateful_set, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.fidelity.reading import read_view

WEB = {"app": "web"}
BUILDERS = {"ReplicaSet": replica_set, "Deployment": deployment, "StatefulSet": stateful_set}
ROUNDS = 4


def constraints(random: Random) -> list[dict[str, Any]]:
    keys = random.sample([ZONE, HOSTNAME], k=random.choice((1, 1, 2)))
    return [spread(key, labels=WEB, max_skew=random.choice((1, 2)), soft=random.random() < 0.5) for key in keys]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", list(BUILDERS))
def test_a_replacement_lands_on_one_of_the_candidates(cluster: ControlPlane, kind: str, seed: int) -> None:
    """A ReplicaSet's meets the old pod terminating, a StatefulSet's comes when that is gone."""
    random = Random(f"{kind} {seed}")
    machines = nodes({"a": 3, "b": 2, "c": 2}, cpu="8", memory="32Gi")
    names = [machine["metadata"]["name"] for machine in machines]
    load = [
        pod(f"load-{number}", on=random.choice(names), namespace="demo", cpu=random.choice(("500m", "1", "2")))
        for number in range(10)
    ]
    web = BUILDERS[kind](
        "web",
        [random.choice(names) for _ in range(6)],
        namespace="demo",
        cpu="1",
        memory="1Gi",
        topologySpreadConstraints=constraints(random),
    )
    lay_out(cluster, [*machines, *load, web])
    for _ in range(ROUNDS):
        view = read_view(cluster.api)
        members = sorted((pod for pod in view.snapshot.pods if pod.owner is not None), key=lambda pod: pod.name)
        victim = random.choice(members)
        new = replacement(victim, view)
        assert isinstance(new, Pod)
        state = view.without([victim]) if kind == "StatefulSet" else view.terminating([victim])
        prediction = predict(new, state)
        if not prediction.feasible:
            continue
        before = {member.uid for member in members}
        assert cluster.api.evict("demo", victim.name) == 201

        def landed(before: set[str] = before) -> list[Manifest]:
            pods = cluster.api.list("/api/v1/namespaces/demo/pods", labels="app=web")
            return [pod for pod in pods if pod["metadata"]["uid"] not in before and pod["spec"].get("nodeName")]

        arrived = wait_until(landed, what="the replacement to be placed")
        assert arrived[0]["spec"]["nodeName"] in prediction.candidates
        labels = dict(arrived[0]["metadata"]["labels"])
        # From 1.35 on the server adds the zone of the node that the pod was bound to.
        assert (labels.pop(ZONE, None) is not None) == (view.snapshot.version >= Version(1, 35))
        assert labels == new.labels
        wait_settled(cluster)
