"""What `rebalancer lint` says is what happens on real servers: refusals, pending pods, rollouts, drains, lost zones.

The clusters are drawn. An error is never wrong; what was not foretold is counted by its cause.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.lint.check import lint
from rebalancer.lint.finding import Rule
from rebalancer.lint.ground import Ground
from tests.cluster.linted import Linted
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out, nodes
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.lint.build import deployment, manifests, patched, text
from tests.lint.drawn_clusters import draw_cluster
from tests.lint.experiment import Claim, Step, find_claims, find_events, report


def do_all(plane: ControlPlane, seeds: Sequence[int], rollouts: int) -> list[Step]:
    """Do all steps with drawn clusters, with so many rollouts in each."""
    linted = Linted(plane, [draw_cluster(seed) for seed in seeds])
    steps = [*linted.deploy()]
    steps += [linted.roll_out(number) for number in range(rollouts)]
    return [*steps, linted.drain(), linted.lose_zones()]


def tell(steps: Sequence[Step]) -> Sequence[Claim]:
    """Print the tables of docs/results.md, and return the errors that were wrong."""
    return report([*find_claims(steps)], [*find_events(steps)])


def test_no_error_is_wrong(cluster: ControlPlane) -> None:
    """Six drawn clusters with one rollout each, in which errors of most rules are found before every step."""
    wrong = tell(do_all(cluster, (1, 5, 8, 12, 13, 23), rollouts=1))
    assert not wrong, "\n".join(map(str, wrong))


LIMITS: Manifest = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits", "namespace": "shop"},
    "spec": {
        "limits": [
            {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"cpu": "4"}},
            {"type": "Pod", "max": {"cpu": "1500m"}},
        ]
    },
}


def container(name: str, request: str, limit: str) -> Manifest:
    resources = {"requests": {"cpu": request}, "limits": {"cpu": limit}}
    return {"name": name, "image": name, "resources": resources}


@pytest.mark.parametrize(
    ("containers", "rule"),
    [
        ([container("web", "2", "2")], "max"),
        ([container("web", "50m", "100m")], "min"),
        ([container("web", "100m", "1")], "maxLimitRequestRatio"),
        ([container("web", "1", "1"), container("proxy", "1", "1")], "max"),
    ],
)
def test_a_limit_range_refuses_the_pods_that_lint_says(
    cluster: ControlPlane, containers: list[Manifest], rule: str
) -> None:
    """The Deployment is there without a pod; with the change, where there is one, its pods are created."""
    made = deployment(2, containers=containers)
    lay_out(cluster, nodes({"a": 1}))
    cluster.api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, LIMITS])
    read = manifests(text(made))
    ground = Ground(read_once(connect(kubeconfig=str(cluster.kubeconfig())), datetime.now(UTC)), read)
    (found,) = [one for one in lint(read, ground) if one.rule is Rule.REFUSED_BY_LIMIT_RANGE]
    assert found.severity.value == "error"
    assert f"refuses its pods: {rule} of cpu is" in found.message
    cluster.api.create(made)

    def see(kind: str, status: str) -> bool:
        conditions = cluster.api.get(object_path(made)).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == (kind, status) for one in conditions)

    wait_until(lambda: see("ReplicaFailure", "True"), what="the refusal of its pods")
    assert not cluster.api.list("/api/v1/namespaces/shop/pods")
    assert bool(found.patch) == (rule in {"max", "min"} and len(containers) == 1)
    if found.patch:
        template = patched(made, found)["spec"]["template"]
        cluster.api.patch(object_path(made), {"spec": {"template": template}})
        wait_until(lambda: len(cluster.api.list("/api/v1/namespaces/shop/pods")) == 2, what="its pods")


@pytest.mark.thorough
def test_no_error_is_wrong_in_sixty_clusters(cluster: ControlPlane) -> None:
    """Three rollouts in each."""
    wrong = tell(do_all(cluster, range(100, 160), rollouts=3))
    assert not wrong, "\n".join(map(str, wrong))
