"""Whole processes against a recorded API server, side by side with the peer: wall, processor time, peak memory.

    python -m benchmarks.whole --size 5k --scenario zone-returned [--peer] [--work FOLDER]

Prints a table. Each row is one process from its start to its end: it lists over TLS, decodes, plans, and writes its
output into a file. The server is a process of its own, with pages made before; both share the machine. Recorded states
stay in the folder of `--work` and are used again.
"""

import argparse
import compileall
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import yaml

from benchmarks import peer
from benchmarks.recorded.pages import POLICY, recorded
from benchmarks.recorded.server import served, write_kubeconfig
from benchmarks.recorded.states import SCENARIOS, SIZES
from rebalancer import __file__ as package

COMMANDS: Final = {
    "report": ("report",),
    "report -o json": ("report", "-o", "json"),
    "plan": ("plan",),
    "plan -o json": ("plan", "-o", "json"),
}
PEER: Final = "descheduler --dry-run"
PROGRAM: Final = (sys.executable, "-m", "rebalancer.cli.start")
_FIRST_SECONDS: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one process took: seconds, seconds of processor time, MiB."""

    wall: float
    cpu: float
    peak: float
    output: float
    code: int


def measure(command: Sequence[str], output: Path) -> Usage:
    """Run a process to its end; standard output and standard error go into files."""
    with output.open("wb") as out, output.with_suffix(".err").open("wb") as errors:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=errors, env={**os.environ, "COLUMNS": "120"})
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return Usage(
        wall=wall,
        cpu=used.ru_utime + used.ru_stime,
        peak=used.ru_maxrss / 1024,
        output=output.stat().st_size / 2**20,
        code=process.returncode,
    )


def measure_start(work: Path) -> float:
    """Return the seconds from the start of a `report` to its first connection to the API server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_FIRST_SECONDS)
        kubeconfig = work / "start.kubeconfig"
        certificate = work / "tls.crt"
        write_kubeconfig(kubeconfig, listener.getsockname()[1], certificate)
        began = time.monotonic()
        command = [*PROGRAM, "report", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            connection, _ = listener.accept()
            taken = time.monotonic() - began
            connection.close()
            process.wait()
    return taken


def peer_command(kubeconfig: Path, work: Path) -> list[str]:
    """Return the command line of the peer's dry run over all namespaces, with the plugin for hard constraints."""
    policy = work / "descheduler.yaml"
    policy.write_text(yaml.safe_dump(peer.policy()), encoding="utf-8")
    command = [str(peer.binary()), f"--policy-config-file={policy}", f"--kubeconfig={kubeconfig}"]
    # Without a rate limit of its own: here it lists in pages, many requests for what a cache answers in one.
    command += ["--client-connection-qps=10000", "--client-connection-burst=10000"]
    return [*command, "--disable-metrics", "--secure-port=0", "--logging-format=json", "--dry-run", "--v=1"]


def _row(name: str, runs: Sequence[Usage], extra: str = "") -> str:
    def middle(get: Callable[[Usage], float]) -> float:
        return median(get(run) for run in runs)

    code = "".join(f", exit code {run.code}" for run in runs[:1] if run.code)
    return (
        f"| {name} | {middle(lambda run: run.wall):.1f} | {middle(lambda run: run.cpu):.1f} "
        f"| {middle(lambda run: run.peak):.0f} | {middle(lambda run: run.output):.1f} | {extra}{code} |"
    )


def compare(folder: Path, work: Path, *, with_peer: bool, rounds: int, names: Sequence[str]) -> None:
    """Measure every command on one recorded state, in turn, and print the rows."""
    with served(folder, work) as kubeconfig:
        flags = ["--kubeconfig", str(kubeconfig)]
        if (folder / POLICY).exists():
            flags += ["--policy", str(folder / POLICY)]
        commands = {name: [*PROGRAM, *COMMANDS[name], *flags] for name in names}
        if with_peer:
            commands[PEER] = peer_command(kubeconfig, work)
        runs: dict[str, list[Usage]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                runs[name].append(measure(command, work / f"{name.replace(' ', '-')}.out"))
    print("| process | wall s | CPU s | peak MiB | output MiB | |\n| --- | ---: | ---: | ---: | ---: | --- |")
    for name, measured in runs.items():
        extra = ""
        if name == PEER:
            log = (work / f"{PEER.replace(' ', '-')}.err").read_text(encoding="utf-8")
            extra = f"{log.count(peer.EVICTED)} evictions"
        print(_row(name, measured, extra))
    if with_peer:
        for name in names:
            ratios = [
                median(getattr(run, field) for run in runs[PEER]) / median(getattr(run, field) for run in runs[name])
                for field in ("wall", "cpu", "peak")
            ]
            print(
                f"the peer takes {ratios[0]:.1f} x the time of {name}, {ratios[1]:.1f} x CPU, {ratios[2]:.1f} x memory"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="1k")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--peer", action="store_true", help="also the dry run of the descheduler")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, help="keeps what is recorded (default: a temporary folder)")
    options = parser.parse_args(arguments)
    compileall.compile_dir(Path(package).parent, quiet=1)  # as in the image
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        nodes, pods = SIZES[options.size]
        for scenario in options.scenario or ["zone-returned"]:
            folder = recorded(scenario, options.size, work)
            load = " ".join(f"{value:.1f}" for value in os.getloadavg())
            print(f"\n{scenario}, {nodes:,} nodes, {pods:,} pods; {datetime.now(UTC):%Y-%m-%d %H:%M}Z, load {load}\n")
            names = options.command or list(COMMANDS)
            compare(folder, work, with_peer=options.peer, rounds=options.rounds, names=names)
        starts = [measure_start(work) for _ in range(5)]
        print(
            f"\nfrom the start to the first connection: {median(starts):.2f} s (median of 5, least {min(starts):.2f} s)"
        )


if __name__ == "__main__":
    main()
