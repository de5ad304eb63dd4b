"""Whether the controller's memory is at rest after pods have come and gone: `python -m benchmarks.churn`.

The recorded API server sends new pods, each with a name, labels and an owner of its own, as those of Jobs, and deletes
them again. Printed is what the process has of memory while that lasts, and for some time after it.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.recorded.pages import recorded
from benchmarks.recorded.server import NAMESPACE, served
from tests.cluster.controller import environment, policy


def resident(process: int) -> float:
    """Return the memory of a process in MiB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=__doc__)
    parser.add_argument("--pods", type=int, default=60_000, help="pods that come and go (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=600, help="for how long they do (default: %(default)s)")
    parser.add_argument("--rest", type=int, default=120, help="seconds after that (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        state = recorded("balanced", "1k", work)
        (work / "policy.yaml").write_text(policy("Observe", interval="5s"))
        with (
            served(state, work, events=2 * options.pods / options.seconds, churn=options.pods) as kubeconfig,
            (work / "log").open("wb") as log,
        ):
            command = [
                *(sys.executable, "-m", "rebalancer.cli.main", "run", f"--policy={work / 'policy.yaml'}"),
                *(f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}"),
                *("--metrics-address=127.0.0.1:0", "--page-address=127.0.0.1:0", "--log-format=json"),
            ]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
            try:
                watch(process, options.seconds, options.rest)
            finally:
                process.terminate()
                process.wait(20)


def watch(process: "subprocess.Popen[bytes]", seconds: int, rest: int) -> None:
    """Print the memory twenty times while pods come and go, and six times afterwards."""
    began = time.monotonic()
    moments = [*(seconds * part / 20 for part in range(1, 21)), *(seconds + rest * part / 6 for part in range(1, 7))]
    for moment in moments:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if process.poll() is not None:
            sys.exit("the controller has ended")
        print(f"{moment:5.0f} s {resident(process.pid):7.1f} MiB{' at rest' if moment > seconds else ''}", flush=True)


if __name__ == "__main__":
    main()
