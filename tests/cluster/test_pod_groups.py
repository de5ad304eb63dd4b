"""Pods of PodGroups, of an API server that serves them: which it does only where somebody has switched them on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controller import ACCOUNT, USER, Controller, hide, install, policy, rebalancer
from tests.control_plane.build import kubernetes_release
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.servers import Options

API = "scheduling.k8s.io/v1beta1"
OWNERS = f"/apis/{API}/namespaces/shop/podgroups"

pytestmark = pytest.mark.skipif(
    tuple(map(int, kubernetes_release().split("."))) < (1, 37), reason="scheduling.k8s.io/v1beta1 came with 1.37"
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(Options(features=("GenericWorkload",), apis=(API,))) as made:
        yield made


def pod_group(name: str, mode: str) -> Manifest:
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {mode: {}}},
    }


def test_a_group_that_is_disrupted_as_a_whole_stays_and_is_named(plane: ControlPlane, tmp_path: Path) -> None:
    """Two skewed workloads: of the one any pod may go, of the other none alone. Without the right neither is known."""
    install(plane, "base", "evict")
    lay_out(
        plane,
        [
            *nodes({"a": 1, "b": 1}),
            *(
                deployment(
                    name,
                    ["a-0", "a-0", "a-0"],
                    namespace="shop",
                    schedulingGroup={"podGroupName": name},
                    topologySpreadConstraints=[spread(ZONE, labels={"app": name})],
                )
                for name in ("whole", "single", "free")
            ),
        ],
    )
    plane.api.create_all([pod_group("whole", "all"), pod_group("single", "single")])

    def plan() -> str:
        command = ["plan", "--kubeconfig", str(plane.kubeconfig(ACCOUNT)), "-n", "shop", "-o", "json"]
        ran = rebalancer(*command)
        return ran.stdout.decode() + ran.stderr.decode()

    said = plan()
    print(said)
    assert "disruptionMode of PodGroup shop/whole is All" in said
    assert "its placement depends on schedulingGroup" in said
    assert "PodGroup shop/free does not exist" in said
    with Controller(plane, tmp_path, policy("Evict")) as controller:
        controller.wait_for("cycle", count=5)
        assert plane.audit.requests(user=USER, verb="watch", resource="podgroups")
        assert plane.audit.evictions() == []
        assert controller.stop() == 0
    hide(plane, "podgroups")
    said = plan()
    assert "PodGroup shop/whole was not read" in said
    assert "PodGroup shop/single was not read" in said
    assert "not allowed to list PodGroup" in said
