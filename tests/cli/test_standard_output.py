"""Standard output has the document alone, whatever a library under the program prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.files import ready_nodes, replica_set, write_list
from tests.control_plane.manifests import HOSTNAME, ZONE, spread
from tests.control_plane.resources import Manifest

NODES = [f"{zone}-{number}" for zone in "abc" for number in (0, 1)]
SHOP = {"tier": "shop"}


def cluster(*apps: str) -> list[Manifest]:
    """Return the state after zone c came back: six pods of each app in zones a and b, under one pair of constraints.

    Pods of green may not leave those zones.
    """
    items = ready_nodes({"a": 2, "b": 2, "c": 2}, cpu="16", memory="64Gi")
    for app in apps:
        zones = [{"key": ZONE, "operator": "In", "values": list("ab" if app == "green" else "abc")}]
        required = {"nodeSelectorTerms": [{"matchExpressions": zones}]}
        items += replica_set(
            app,
            NODES[:4] + NODES[:2],
            namespace="shop",
            labels={**SHOP, "app": app},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            topologySpreadConstraints=[spread(key, labels=SHOP) for key in (ZONE, HOSTNAME)],
        )
    return items


@pytest.mark.parametrize(("apps", "solves"), [(("blue", "green"), True), (("blue",), False)])
def test_a_plan_that_needs_the_solver_is_json(apps: tuple[str, ...], solves: bool, tmp_path: Path) -> None:
    """As a process: the solver writes to the file descriptor. That it was loaded is what Python itself says."""
    file = write_list(tmp_path / "cluster.yaml", cluster(*apps))
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "rebalancer.cli.main"),
            *("plan", "--snapshot", file, "-o", "json", "--at", "2026-01-05T09:00:00Z"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    document = json.loads(done.stdout)
    assert document["kind"] == "Plan"
    assert document["groups"]
    assert document["evictions"]
    loaded = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines() if line.startswith(b"import time:")}
    assert (b"highspy" in loaded) is solves
