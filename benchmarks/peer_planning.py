"""How long the peer plans, and how long we do: the same recorded state, in one run, each from what it has listed.

    python -m benchmarks.peer_planning --size 5k [--scenario balanced] [--work FOLDER]

The peer's seconds are those between two lines of its own log: the begin of its loop, when its lists are complete, and
its first request for an eviction, or the end of the loop where it makes none: it plans for all namespaces before it
evicts. Ours are assess and plan of the listed snapshot, without anything that was computed before. Both are by the
clock: the peer uses all cores, we use one.
"""

import argparse
import gc
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.cycles import from_nothing
from benchmarks.recorded.pages import POLICY, recorded
from benchmarks.recorded.server import served
from benchmarks.recorded.states import SCENARIOS, SIZES
from benchmarks.whole import peer_command
from rebalancer.adapters.kubernetes.cluster import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.policy import default_policy, load_policy

BEGINS: Final = "Resetting pod evictor counters"
ENDS: Final = frozenset({"Evicted pod", "eviction failed", "Error evicting pod", "Number of evictions/requests"})
ROUNDS: Final = 5


def measure_peer(kubeconfig: Path, work: Path) -> float:
    """Return the seconds that the peer plans; the server refuses what it asks for then, and it is stopped."""
    # No dry run: that plans while its copy of the cluster is still being filled. At 3 it says when the loop begins.
    command = [part for part in peer_command(kubeconfig, work) if part != "--dry-run"]
    with subprocess.Popen([*command, "--v=3"], stderr=subprocess.PIPE, text=True) as process:
        begun: float | None = None
        try:
            for line in process.stderr or ():
                entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {"msg": ""}
                if entry["msg"] == BEGINS:
                    begun = entry["ts"]  # in milliseconds
                elif begun is not None and entry["msg"] in ENDS:
                    return float(entry["ts"] - begun) / 1000
        finally:
            process.kill()
    raise RuntimeError("the peer has ended before it planned")


def measure_ours(kubeconfig: Path, folder: Path) -> float:
    """Return the median of the seconds that assess and plan take."""
    file = folder / POLICY
    policy = load_policy(file.read_bytes(), source=file.name) if file.exists() else default_policy()
    transport = connect(kubeconfig=str(kubeconfig))
    try:
        snapshot = read_once(transport, datetime.now(UTC))
    finally:
        transport.close()
    gc.collect()
    gc.freeze()
    taken = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        from_nothing(snapshot, policy)
        taken.append(time.monotonic() - began)
    gc.unfreeze()
    return median(taken)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both and their ratio, a row for each scenario."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_planning", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="1k")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    gc.set_threshold(1_000_000, 20, 100)  # as `cli.main`
    nodes, pods = SIZES[options.size]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        print(f"{nodes:,} nodes, {pods:,} pods; load {' '.join(f'{value:.1f}' for value in os.getloadavg())}\n")
        print("| state | the peer plans | we assess and plan | ratio |\n| --- | ---: | ---: | ---: |")
        for scenario in options.scenario or ["balanced", "zone-returned"]:
            folder = recorded(scenario, options.size, work)
            with served(folder, work) as kubeconfig:
                ours = measure_ours(kubeconfig, folder)
                theirs = measure_peer(kubeconfig, work)
            print(f"| {scenario} | {theirs:.1f} s | {ours:.2f} s | {theirs / ours:.0f} x |", flush=True)


if __name__ == "__main__":
    main()
