"""Ten thousand evictions in a cluster of 150,000 pods, and the time from a node's loss to a reported violation.

    python -m benchmarks.large_execution [--size 5k] [--evictions 10000] [--per-minute 600]

The whole process `rebalancer run` against a recorded API server that grants every eviction and has a Ready replacement
at once. First a zone has come back empty and a third of all pods has to move: evictions a second, while nothing but the
client and its budgets limits them, and with `--per-minute` the policy's rate. Then, in a balanced cluster in mode
Observe with cycles a minute apart, a node is lost, and its pods come back in other zones: seconds until the first event
about a violation. Both processes share the machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml

from benchmarks.recorded.live import FIGURES, LOST
from benchmarks.recorded.pages import recorded
from benchmarks.recorded.server import NAMESPACE, served
from benchmarks.recorded.states import SIZES
from rebalancer.model.events import EventReason
from tests.cluster.controller import environment, policy

LONGEST: Final = 600.0
PER_MINUTE: Final = 100_000
VIOLATED: Final = frozenset({EventReason.SKEW_VIOLATED, EventReason.SHARE_LIMIT_VIOLATED})

_BUDGETS: Final = {
    "maxUnavailable": "100%",
    "perWorkload": "100%",
    "perCycle": 10_000,
    "perNode": 1_000,
    "perNamespace": 1_000,
    "parallel": 32,
}


class Server:
    """What the recorded server says of what has happened."""

    def __init__(self, kubeconfig: Path) -> None:
        self._url = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        self._pool = urllib3.PoolManager(ca_certs=str(kubeconfig.parent / "tls.crt"))

    def figures(self) -> dict[str, Any]:
        """Return when evictions were granted, and when events were written."""
        made: dict[str, Any] = self._pool.request("GET", f"{self._url}{FIGURES}", timeout=30).json()
        return made

    def lose(self, node: int) -> None:
        """Take a node away."""
        assert self._pool.request("POST", f"{self._url}{LOST}", body=str(node), timeout=30).status == 200


@contextmanager
def running(scenario: str, size: str, work: Path, text: str) -> Iterator[tuple[Server, Path]]:
    """Run the controller against a live recorded server as long as the block runs; gives the server and the log."""
    folder, log_file, policy_file = recorded(scenario, size, work), work / "controller.log", work / "policy.yaml"
    policy_file.write_text(text, encoding="utf-8")
    with served(folder, work, live=(scenario, size)) as kubeconfig, log_file.open("wb") as log:
        flags = [f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", f"--policy={policy_file}"]
        flags += ["--metrics-address=127.0.0.1:0", "--page-address=127.0.0.1:0", "--log-format=json"]
        command = [sys.executable, "-m", "rebalancer.cli.main", "run", *flags]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
        try:
            yield Server(kubeconfig), log_file
        finally:
            process.terminate()
            process.wait(30)


def measure_evictions(size: str, work: Path, wanted: int, per_minute: int) -> None:
    """Print how fast so many evictions are made."""
    text = policy("Evict", interval="1s", budgets={**_BUDGETS, "perMinute": per_minute})
    with running("zone-returned", size, work, text) as (server, log_file):
        began = time.monotonic()
        while len(made := server.figures()["evictions"]) < wanted:
            if time.monotonic() - began > LONGEST:
                raise SystemExit(f"{len(made)} evictions only; the log ends:\n{log_file.read_text()[-3000:]}")
            time.sleep(0.5)
    seconds = made[wanted - 1] - made[0]
    rate = wanted / seconds
    print(f"{wanted:,} evictions in {seconds:.0f} s: {rate:.0f} a second, {60 * rate:.0f} a minute")


def measure_loss(size: str, work: Path) -> None:
    """Print how long it takes until the loss of a node is reported."""
    with running("balanced", size, work, policy("Observe", interval="60s")) as (server, log_file):
        while '"cycle"' not in log_file.read_text(encoding="utf-8"):
            time.sleep(0.5)
        time.sleep(5)
        known = len(server.figures()["events"])
        lost = time.monotonic()
        server.lose(0)
        while not (reported := [at for at, reason in server.figures()["events"][known:] if reason in VIOLATED]):
            if time.monotonic() - lost > LONGEST:
                raise SystemExit(f"nothing reported; the log ends:\n{log_file.read_text()[-3000:]}")
            time.sleep(0.1)
    print(f"a node of {SIZES[size][0]:,} is lost: the first violation is reported after {reported[0] - lost:.1f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_execution", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="5k")
    parser.add_argument("--evictions", type=int, default=10_000)
    parser.add_argument("--per-minute", type=int, default=PER_MINUTE, help="the policy's rate (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        nodes, pods = SIZES[options.size]
        print(f"{nodes:,} nodes, {pods:,} pods, load {os.getloadavg()[0]:.1f}")
        measure_evictions(options.size, work, options.evictions, options.per_minute)
        measure_loss(options.size, work)


if __name__ == "__main__":
    main()
