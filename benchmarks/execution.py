"""How long a large repair takes on a real control plane, beside the peer: until all pods are Ready and balanced.

    python -m benchmarks.execution [--nodes 300] [--workloads 200] [--stateful]

A zone has come back empty: of Deployments of 30 pods a third has to move, ten of each. Every Deployment has a
PodDisruptionBudget that lets six of its pods be unavailable, and nothing else limits either program: the rebalancer's
own budgets are raised beyond it, the peer runs one cycle right after the other until one evicts nothing. The rebalancer
runs with slow start, as it is shipped, and without. With `--stateful` the workloads are StatefulSets whose pods take 30
seconds to end, so that each replacement begins that much later; the peer does not run then. The states are laid out
anew for each, on servers of their own.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from benchmarks import peer
from tests.closed_loop.ours import ALL_AT_ONCE
from tests.cluster.controller import USER, Controller, environment, install, policy
from tests.control_plane.layout import deployment, lay_out_owned, nodes, pdb, spread, stateful_set
from tests.control_plane.layout import lay_out as lay_out_adopted
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import condition
from tests.control_plane.stages import GONE_AFTER

REPLICAS: Final = 30
UNAVAILABLE: Final = 6
NAMESPACES: Final = 10
GRACE: Final = "30s"
"""How long the pods of StatefulSets take to end."""
LONGEST: Final = 1800.0
"""Seconds after which a repair has failed."""

Start = Callable[[ControlPlane, Path], AbstractContextManager[None]]


def lay_out(plane: ControlPlane, count: int, workloads: int, *, stateful: bool) -> None:
    """Lay out the nodes of three zones, the third of them empty, and a budget for each workload."""
    by_zone = nodes(dict.fromkeys("abc", count // 3))
    filled = [f"{zone}-{number}" for number in range(count // 3) for zone in "ab"]
    make = stateful_set if stateful else deployment
    parts = [
        make(
            f"web-{number}",
            [filled[(number * 7 + index) % len(filled)] for index in range(REPLICAS)],
            namespace=f"shop-{number % NAMESPACES}",
            annotations={GONE_AFTER: GRACE} if stateful else None,
            topologySpreadConstraints=[spread(ZONE, labels={"app": f"web-{number}"})],
        )
        for number in range(workloads)
    ]
    if stateful:
        lay_out_adopted(plane, [*by_zone, *parts], timeout=900)
    else:
        lay_out_owned(plane, by_zone, parts, timeout=900)
    names = [(f"web-{number}", f"shop-{number % NAMESPACES}") for number in range(workloads)]
    plane.api.create_all(
        pdb(name, {"app": name}, namespace=namespace, max_unavailable=UNAVAILABLE) for name, namespace in names
    )
    time.sleep(10)  # the disruption controller counts


def is_repaired(plane: ControlPlane, workloads: int) -> bool:
    """Say whether all pods are Ready, and a third of each Deployment in each zone."""
    held: Counter[tuple[str, str]] = Counter()
    for pod in plane.api.list("/api/v1/pods"):
        if condition(pod, "Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            held[pod["metadata"]["labels"]["app"], pod["spec"]["nodeName"].partition("-")[0]] += 1
    return len(held) == 3 * workloads and set(held.values()) == {REPLICAS // 3}


def measure(
    count: int, workloads: int, start: Start, user: str, *, stateful: bool = False
) -> tuple[float, float, int, int]:
    """Return the seconds of one repair and until its last eviction, the evictions granted, and those refused."""
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        lay_out(plane, count, workloads, stateful=stateful)
        assert not is_repaired(plane, workloads)
        mark = plane.audit.mark()
        began, began_at = time.monotonic(), datetime.now(UTC)
        with start(plane, Path(folder)):
            while not is_repaired(plane, workloads):
                assert time.monotonic() - began < LONGEST, "not repaired"
                time.sleep(2)
            taken = time.monotonic() - began
        requests = plane.audit.evictions(user=user, since=mark)
    granted = [request.received for request in requests if request.code == 201]
    refused = sum(request.code == 429 for request in requests)
    return taken, (max(granted) - began_at).total_seconds(), len(granted), refused


@contextmanager
def ours(plane: ControlPlane, folder: Path, *, slow_start: bool = True) -> Iterator[None]:
    """Run the rebalancer, with no budgets of its own that matter but slow start."""
    install(plane, "base", "evict")
    budgets = {**ALL_AT_ONCE, "parallel": 32, "slowStart": slow_start}
    with Controller(plane, folder, policy("Evict", interval="10s", budgets=budgets)):
        yield


@contextmanager
def theirs(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Run the peer's cycles in a process of the shell, until the block ends."""
    program = peer.binary()
    plane.api.apply([peer.admin()])
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(peer.policy()))
    flags = [f"--policy-config-file={file}", f"--kubeconfig={plane.kubeconfig(peer.ACCOUNT)}"]
    command = [str(program), *flags, "--disable-metrics", "--secure-port=0"]
    shell = ["sh", "-c", 'while true; do "$@"; done', "peer", *command]
    with (folder / "peer.log").open("wb") as log:
        process = subprocess.Popen(shell, stdout=log, stderr=log, env=environment(), start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each program, and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.execution", description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--stateful", action="store_true")
    options = parser.parse_args(arguments)
    pods = options.workloads * REPLICAS
    print(f"{options.nodes} nodes, {pods:,} pods, {pods // 3:,} to move, {UNAVAILABLE} of {REPLICAS} at once\n")
    print("| process | until all are Ready and balanced | last eviction | evictions | refused |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    seconds = []
    programs: list[tuple[str, Start, str]] = [
        ("rebalancer run", ours, USER),
        ("rebalancer run, slowStart: false", partial(ours, slow_start=False), USER),
    ]
    if not options.stateful:
        programs.append(("descheduler", theirs, peer.USER))
    for name, start, user in programs:
        taken, last, granted, refused = measure(
            options.nodes, options.workloads, start, user, stateful=options.stateful
        )
        seconds.append(taken)
        print(f"| {name} | {taken:.0f} s | {last:.0f} s | {granted} | {refused} |", flush=True)
    if not options.stateful:
        print(f"\nthe rebalancer takes {seconds[0] / seconds[2]:.2f} of the peer's time")
    print(f"with slow start it takes {seconds[0] / seconds[1]:.2f} times as long as without")


if __name__ == "__main__":
    main()
