"""A real controller says what a lost zone leaves, from a process of its own: metric, status, page and event agree."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import Controller, install, policy
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, node
from tests.control_plane.plane import ControlPlane

EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/shop/events"
STATUS: Final = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"
HELD: Final = 'rebalancer_resilience_holds{namespace="shop",phase="gone",topology_key="topology.kubernetes.io/zone",'
WEB: Final = f'{HELD}workload="web",workload_kind="Deployment"}}'


@pytest.mark.timeout(300)
def test_a_service_that_holds_no_longer_is_told_once_and_shown(cluster: ControlPlane, tmp_path: Path) -> None:
    """Six pods of one core in three zones of one node: with five cores in use of six, two have no place without a."""
    install(cluster, "base")
    lay_out(
        cluster,
        [
            *(node(f"{zone}-0", cpu="6", zone=zone) for zone in "abc"),
            deployment("web", {f"{zone}-0": 2 for zone in "abc"}, namespace="shop", cpu="1"),
        ],
    )
    with Controller(cluster, tmp_path, policy("Observe", interval="5s")) as one:
        wait_until(lambda: one.metrics().get(WEB) == 1, what="the first computation", timeout=90)
        lay_out(cluster, [deployment("other", {"b-0": 4, "c-0": 3}, namespace="shop", cpu="1")])
        wait_until(lambda: one.metrics().get(WEB) == 0, what="that web holds no longer", timeout=120)
        guaranteed = one.metrics()[WEB.replace("holds", "guaranteed")]
        wait_until(lambda: told(cluster), what="the event", timeout=30)
        wait_until(lambda: stored(cluster)["losses"], what="the stored status", timeout=30)
        (loss,) = [one for one in stored(cluster)["losses"] if one["workload"]["name"] == "web"]
    assert loss["guaranteed"] == guaranteed
    (note,) = told(cluster)
    assert note.startswith(f"if zone {loss['domain']} is lost ({loss['phase']}), {loss['guaranteed']} of 6 pods")


def stored(plane: ControlPlane) -> dict[str, Any]:
    """Return what the stored status says of it."""
    found: dict[str, Any] = json.loads(plane.api.get(STATUS)["data"]["status.json"])["resilience"]
    return found


def told(plane: ControlPlane) -> list[str]:
    """Return the notes of the events about web."""
    return [
        event["note"]
        for event in plane.api.list(EVENTS)
        if event["reason"] == "ResilienceLost" and event["regarding"]["name"] == "web"
    ]
