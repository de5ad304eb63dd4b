"""Sizes without a placement, on the real scheduler: 20 uneven layouts side by side, each on nodes of its own.

A Deployment has the last size that all orders of pods reach, then one more, then 30. What the model says of sizes is
compared with the pods that the scheduler leaves pending, and with its reason.
"""

from collections import defaultdict
from itertools import islice
from typing import Any

import pytest

from tests.assessment.sizes.layouts import MOST, Layout, draw_layouts, empty, play_arrivals
from tests.assessment.sizes.test_layout import verdict_of
from tests.control_plane.api import in_parallel
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, spread, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

LAYOUTS = 20
PATIENCE = 60.0
REASON = "didn't match pod topology spread constraints"


def uneven() -> dict[str, Layout]:
    """Return the first layouts in which a size has no placement and the scheduler's choices make no difference."""
    drawn = (
        layout
        for layout in draw_layouts(3 * LAYOUTS)
        if len(set(play_arrivals(layout, empty(layout)))) == 1 and verdict_of(layout).number
    )
    return {f"w{number:02}": layout for number, layout in enumerate(islice(drawn, LAYOUTS))}


def count_pods(plane: ControlPlane) -> dict[str, tuple[int, list[str]]]:
    """Return for each Deployment the number of placed pods, and what the scheduler says of the others."""
    placed: defaultdict[str, int] = defaultdict(int)
    said: defaultdict[str, list[str]] = defaultdict(list)
    for pod in plane.api.list("/api/v1/namespaces/shop/pods"):
        app = pod["metadata"]["labels"]["app"]
        if pod["spec"].get("nodeName"):
            placed[app] += 1
        else:
            conditions: list[dict[str, Any]] = pod["status"]["conditions"]
            said[app] += [one["message"] for one in conditions if one.get("reason") == "Unschedulable"]
    return {app: (placed[app], said[app]) for app in placed}


def scale(plane: ControlPlane, sizes: dict[str, int], pending: int) -> None:
    path = "/apis/apps/v1/namespaces/shop/deployments"
    in_parallel(lambda app: plane.api.patch(f"{path}/{app}", {"spec": {"replicas": sizes[app]}}), list(sizes))
    wait_settled(plane, unschedulable=pending, timeout=PATIENCE)


@pytest.mark.invariant("sizes")
def test_the_scheduler_leaves_pods_pending_at_the_sizes_that_have_no_placement(cluster: ControlPlane) -> None:
    layouts = uneven()
    assert len(layouts) == LAYOUTS
    missing = {app: sorted(sum(verdict_of(layout), ())) for app, layout in layouts.items()}
    reached = {app: sizes[0] - 1 for app, sizes in missing.items()}
    assert all(sizes == list(range(reached[app] + 1, MOST + 1)) for app, sizes in missing.items())
    parts: list[Manifest | Workload] = []
    for app, layout in layouts.items():
        zones = {f"{app}-{place}": number for place, number in enumerate(layout.zones)}
        rules = [
            spread(HOSTNAME, labels={"app": app}, max_skew=layout.node_skew),
            spread(ZONE, labels={"app": app}, max_skew=layout.zone_skew),
        ]
        parts += nodes(zones, labels={"of": app})
        parts.append(
            deployment(
                app,
                {},
                namespace="shop",
                replicas=0,
                nodeSelector={"of": app},
                topologySpreadConstraints=rules,
            )
        )
    lay_out(cluster, parts)

    scale(cluster, reached, 0)
    assert {app: number for app, (number, _) in count_pods(cluster).items()} == reached

    scale(cluster, {app: size + 1 for app, size in reached.items()}, LAYOUTS)
    for app, (number, said) in count_pods(cluster).items():
        assert (app, number, len(said)) == (app, reached[app], 1)
        assert REASON in said[0]

    scale(cluster, dict.fromkeys(layouts, MOST), sum(map(len, missing.values())))
    assert {app: number for app, (number, _) in count_pods(cluster).items()} == reached
    print(f"\n{LAYOUTS} layouts, {sum(map(len, missing.values()))} of {LAYOUTS * MOST} sizes without a placement")
