"""Thirty repairs on 300 nodes, half of them of soft constraints: Rebalancer and the descheduler on the same states.

    python -m benchmarks.large_clusters        # some ten minutes; Go builds the peer once

kube-scheduler scores a sample of so many nodes. Both act on hard and soft constraints, on a real control plane; after
each the pods are where it has left them.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks import peer
from tests.cluster.test_sampled_nodes import even, lay_out_repairs, pods_by_zone, repair
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.plane import ControlPlane


def describe(plane: ControlPlane, who: str, least: Mapping[str, int], evictions: Mapping[str, int]) -> str:
    """Say what came of the states of a kind, soft ones apart."""
    lines = []
    for kind in ("hard", "soft"):
        names = [name for name in least if name.startswith(kind)]
        counts = {name: pods_by_zone(plane, name) for name in names}
        pending = sum(held[""] for held in counts.values())
        repaired = sum(not held[""] and even(held, "abc") for held in counts.values())
        more = sum(evictions.get(name, 0) != least[name] for name in names)
        lines.append(
            f"{who}, {kind}: {sum(evictions.get(name, 0) for name in names)} evictions, minimum "
            f"{sum(least[name] for name in names)}; {more} of {len(names)} states with another number; "
            f"{repaired} repaired; {pending} pods pending"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    with ControlPlane() as plane:
        cleaner = Cleaner(plane.api)
        least = lay_out_repairs(plane)
        with tempfile.TemporaryDirectory() as folder:
            ours = repair(plane, Path(folder))
        print(describe(plane, "Rebalancer", least, ours), flush=True)
        cleaner.clean()
        least = lay_out_repairs(plane)
        mark = plane.audit.mark()
        cycles, _ = peer.run(plane, {name: peer.policy(name, soft=True) for name in least})
        granted = (one for one in plane.audit.evictions(user=peer.USER, since=mark) if one.code == 201)
        theirs = Counter(one.namespace for one in granted)
        print(describe(plane, f"descheduler {peer.version()}, {len(cycles)} cycles", least, theirs))


if __name__ == "__main__":
    main()
