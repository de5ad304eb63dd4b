"""A repair takes as long as its pods take, whatever the interval of the cycles is."""

import itertools
from pathlib import Path

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stages import GONE_AFTER, READY_AFTER
from tests.faults.availability import follow_absences
from tests.faults.recorder import PodRecorder

EVICTIONS = 12
REPLICAS = 3 * EVICTIONS
"""Half of them in each of two zones; a third of them has to go to the third zone, which is empty."""
MOST = 1.5


def test_twelve_evictions_one_after_the_other(cluster: ControlPlane, tmp_path: Path) -> None:
    """At most half as long again as the pods are missing, of which never more than one is; a cycle is a minute."""
    install(cluster, "base", "evict")
    lay_out(
        cluster,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            deployment(
                "web",
                ["a-0", "a-1", "b-0", "b-1"] * (REPLICAS // 4),
                namespace="shop",
                annotations={READY_AFTER: "5s", GONE_AFTER: "1s"},
                topologySpreadConstraints=[spread(ZONE, labels={"app": "web"})],
            ),
        ],
    )
    text = policy("Evict", interval="60s", budgets={"maxUnavailable": 1, "perWorkload": "100%", "perNode": REPLICAS})
    with PodRecorder(cluster, "shop", "app=web") as recorder, Controller(cluster, tmp_path, text):

        def is_repaired() -> bool:
            left = {change.uid for change in list(recorder.changes) if change.terminating}
            ready = {change.uid for change in list(recorder.changes) if change.available} - left
            return len(left) >= EVICTIONS and len(ready) == REPLICAS

        wait_until(is_repaired, what="twelve moves", timeout=300)
    evictions = cluster.audit.evictions(user=USER)
    assert [eviction.code for eviction in evictions] == [201] * EVICTIONS
    evicted = {(eviction.body or {})["deleteOptions"]["preconditions"]["uid"] for eviction in evictions}
    changes = sorted(recorder.changes, key=lambda change: change.version)
    absences = follow_absences(changes, evicted, REPLICAS)
    assert max(absence.ours for absence in absences) == 1
    began = next(absence.at for absence in absences if absence.evicted)
    total = absences[-1].at - began
    missing = sum(
        later.at - absence.at for absence, later in itertools.pairwise(absences) if absence.ours
    )  # from the eviction until the replacement is Ready
    print(f"{total:.1f} s for {EVICTIONS} moves; a pod was missing for {missing:.1f} s of them: {total / missing:.2f}")
    assert total <= MOST * missing
