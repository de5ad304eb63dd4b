"""Nodes that join a real cluster all the time: a repair waits for `nodes.settle` once, not for each of them."""

import time
from pathlib import Path

from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.test_repair import constraints
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, node, nodes
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import have_been_ready

SETTLE = 20.0
EVERY = 10.0


def test_nodes_that_join_the_zone_that_is_filled_delay_a_repair_once(cluster: ControlPlane, tmp_path: Path) -> None:
    """With a new node every 10 seconds the first eviction follows within 40; nodes.settle is 20 seconds."""
    install(cluster, "base", "evict")
    lay_out(
        cluster,
        [
            *nodes({"a": 1, "b": 1, "c": 3}),
            deployment("web", {"a-0": 4, "b-0": 4}, namespace="shop", topologySpreadConstraints=constraints("web")[:1]),
        ],
    )
    wait_until(lambda: have_been_ready(cluster.api, SETTLE), what="the nodes to settle", timeout=60)
    cluster.api.apply([node("c-new-0", zone="c")])
    with Controller(cluster, tmp_path, policy("Evict", nodes={"settle": f"{SETTLE:.0f}s"})) as controller:
        controller.wait_for("cycle")
        began = time.monotonic()
        joined = 1
        while not cluster.audit.evictions(user=USER):
            elapsed = time.monotonic() - began
            assert elapsed < 40
            if elapsed >= joined * EVERY:
                cluster.api.apply([node(f"c-new-{joined}", zone="c")])
                joined += 1
            time.sleep(0.2)
        assert joined > 1, "it waited for the first node, and for no other"
        assert controller.stop() == 0
