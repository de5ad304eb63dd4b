"""How long the peer plans, and how long we do: the same recorded state, in one run, each from what it has listed.

    python -m benchmarks.peer_planning --size 5k [--scenario balanced] [--work FOLDER]

The peer's seconds are those between two lines of its own log: the begin of its loop, when its lists are complete, and
its first request for an eviction, or the end of the loop where it makes none: it plans for all namespaces before it
evicts. Ours are assess and plan of the listed snapshot, without anything that was computed before. Wall time, and time
of all processors: the peer uses several, we use one.
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
from typing import Any, Final, NamedTuple

from benchmarks.cycles import from_nothing
from benchmarks.recorded.pages import POLICY, recorded
from benchmarks.recorded.server import served
from benchmarks.recorded.states import SCENARIOS, SIZES
from benchmarks.whole import peer_command
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.cli.main import collect_rarely
from rebalancer.policy import default_policy, load_policy

BEGINS: Final = "Resetting pod evictor counters"
ENDS: Final = frozenset({"Evicted pod", "eviction failed", "Error evicting pod", "Number of evictions/requests"})
ROUNDS: Final = 5


class Taken(NamedTuple):
    """Seconds that planning takes: by the clock, and of all processors."""

    wall: float
    cpu: float


def measure_peer(kubeconfig: Path, work: Path) -> Taken:
    """Return what the peer's planning takes; the server refuses what it asks for then, and it is stopped."""
    # No dry run: that plans while its copy of the cluster is still being filled. At 3 it says when the loop begins.
    command = [part for part in peer_command(kubeconfig, work) if part != "--dry-run"]
    with subprocess.Popen([*command, "--v=3"], stderr=subprocess.PIPE, text=True) as process:
        begun: tuple[float, float] | None = None
        try:
            for line in process.stderr or ():
                entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {"msg": ""}
                if entry["msg"] == BEGINS:
                    begun = entry["ts"], _read_cpu(process.pid)  # in milliseconds
                elif begun is not None and entry["msg"] in ENDS:
                    return Taken(float(entry["ts"] - begun[0]) / 1000, _read_cpu(process.pid) - begun[1])
        finally:
            process.kill()
    raise RuntimeError("the peer has ended before it planned")


def _read_cpu(process: int) -> float:
    """Return the processors' seconds that a process has taken."""
    user, system = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure_ours(kubeconfig: Path, folder: Path) -> Taken:
    """Return the medians of what assess and plan take."""
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
        began, cpu = time.monotonic(), time.process_time()
        from_nothing(snapshot, policy)
        taken.append(Taken(time.monotonic() - began, time.process_time() - cpu))
    gc.unfreeze()
    return Taken(*map(median, zip(*taken, strict=True)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both and their ratio, a row for each scenario."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_planning", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="1k")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    collect_rarely()
    nodes, pods = SIZES[options.size]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        print(f"{nodes:,} nodes, {pods:,} pods; load {' '.join(f'{value:.1f}' for value in os.getloadavg())}\n")
        print("| state | the peer plans | processors | we assess and plan | processor | ratio | of processors |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for scenario in options.scenario or ["balanced", "zone-returned", "full-zone"]:
            folder = recorded(scenario, options.size, work)
            with served(folder, work) as kubeconfig:
                ours = measure_ours(kubeconfig, folder)
                theirs = measure_peer(kubeconfig, work)
            row = f"| {scenario} | {theirs.wall:.1f} s | {theirs.cpu:.1f} s | {ours.wall:.2f} s | {ours.cpu:.2f} s "
            print(f"{row}| {theirs.wall / ours.wall:.0f} x | {theirs.cpu / ours.cpu:.0f} x |", flush=True)


if __name__ == "__main__":
    main()
