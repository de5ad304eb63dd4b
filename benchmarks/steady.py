"""What the controller takes while it runs: processor and memory at rates of changes, on a recorded API server.

    python -m benchmarks.steady [--size 5k] [--seconds 120] [--events 0 20 1000]

The whole process, in mode Observe with the default interval, after its first cycle. An event is a pod that becomes
Ready or not, of 9 KB; they come in the order in which pods are listed, over TLS. 100 % are one core.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import urllib3
import yaml

from benchmarks.recorded.pages import recorded
from benchmarks.recorded.server import NAMESPACE, SENT, served
from benchmarks.recorded.states import SIZES
from tests.cluster.controller import environment

FIRST_CYCLE: Final = 300.0
"""Seconds within which the first cycle must end."""


class Usage(NamedTuple):
    """Of a process, so far."""

    cpu: float
    """Seconds."""
    resident: float
    """MiB."""
    events: int
    cycles: int


def measure(folder: Path, work: Path, events: float, seconds: float) -> tuple[Usage, Usage]:
    """Return what the controller had taken after its first cycle, and so many seconds later."""
    log_file = work / "controller.log"
    with served(folder, work, events=events) as kubeconfig, log_file.open("wb") as log:
        flags = [f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", "--mode=Observe", "--log-format=json"]
        flags += ["--metrics-address=127.0.0.1:0", "--page-address=127.0.0.1:0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "rebalancer.cli.main", "run", *flags], stdout=log, stderr=log, env=environment()
        )
        try:
            deadline = time.monotonic() + FIRST_CYCLE
            while not _lines(log_file, "cycle"):
                assert process.poll() is None, log_file.read_text(encoding="utf-8")[-2000:]
                assert time.monotonic() < deadline, "no cycle"
                time.sleep(0.5)
            server = _server_of(kubeconfig)
            before = read_usage(process.pid, log_file, server)
            time.sleep(seconds)
            return before, read_usage(process.pid, log_file, server)
        finally:
            process.terminate()
            process.wait(30)


def _server_of(kubeconfig: Path) -> str:
    """Return the address of the recorded server."""
    server: str = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
    return server


def read_usage(process: int, log_file: Path, server: str) -> Usage:
    """Read what a process has taken from the kernel, and what it was sent from the server."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    certificate = str(log_file.parent / "tls.crt")
    with urllib3.PoolManager(ca_certs=certificate) as pool:
        sent = int(pool.request("GET", f"{server}{SENT}", timeout=30).data)
    return Usage(
        cpu=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        resident=int(status["VmRSS"].split()[0]) / 1024,
        events=sent,
        cycles=len(_lines(log_file, "cycle")),
    )


def _lines(log_file: Path, event: str) -> list[dict[str, int]]:
    lines = log_file.read_text(encoding="utf-8").splitlines()
    return [line for line in (json.loads(text) for text in lines if text.startswith("{")) if line["event"] == event]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each rate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="5k")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--events", type=float, nargs="+", default=[0.0, 20.0, 1000.0])
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        folder = recorded("balanced", options.size, work)
        nodes, pods = SIZES[options.size]
        print(f"balanced, {nodes:,} nodes, {pods:,} pods, {options.seconds:.0f} s, load {os.getloadavg()[0]:.1f}\n")
        print("| events/s | sent/s | processor | resident MiB | cycles |\n| ---: | ---: | ---: | ---: | ---: |")
        for rate in options.events:
            before, after = measure(folder, work, rate, options.seconds)
            sent = (after.events - before.events) / options.seconds
            share = (after.cpu - before.cpu) / options.seconds
            cycles = after.cycles - before.cycles
            print(f"| {rate:.0f} | {sent:.0f} | {share:.1%} | {after.resident:.0f} | {cycles} |", flush=True)


if __name__ == "__main__":
    main()
