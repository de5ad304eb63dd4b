"""`rebalancer run` behind a proxy, started again when it ends, as the kubelet would."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.cluster.controller import COMMAND, ROOT, environment
from tests.control_plane.children import LEASH
from tests.faults.proxy import Proxy
from tests.faults.schedule import LEASE_SECONDS, Clock

FLAGS: Final = (
    f"--lease-duration={LEASE_SECONDS}s",
    f"--renew-deadline={LEASE_SECONDS * 2 // 3}s",
    "--retry-period=1s",
    "--request-timeout=3s",
    "--metrics-address=127.0.0.1:0",
    "--page-address=127.0.0.1:0",
    "--log-format=json",
)
"""Times that let a fault of seconds matter: a lease that is lost, a request that is abandoned.

The deadline is as far from the end of the lease as in the defaults: another clock may run 1.5 times as fast.
"""
RESTART_SECONDS: Final = 0.5


class Process:
    """One controller, with its proxy, its log and all the processes that it was in the course of time."""

    def __init__(  # all that a process is made of
        self,
        name: str,
        folder: Path,
        proxy: Proxy,
        *,
        token: str,
        namespace: str,
        policy: str,
        clock: Clock = Clock(),  # noqa: B008  # immutable
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.proxy = proxy
        self.log = folder / "controller.log"
        self._namespace = namespace
        self._command: tuple[str, ...] = (*COMMAND, "run")
        if clock != Clock():
            self._command = (
                sys.executable,
                "-m",
                "tests.cluster.launch",
                f"--rate={clock.rate}",
                f"--ahead={clock.ahead}",
            )
        self._policy = folder / "policy.yaml"
        self.write_policy(policy)
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(_kubeconfig(proxy.url, token), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at: float | None = None
        self.starts = 0
        self.exits: list[int] = []
        """The exit codes of processes that ended by themselves, or were killed."""

    def start(self) -> None:
        """Start a process; the proxy knows its requests by a name of its own."""
        self.starts += 1
        self.proxy.process = f"{self.name}.{self.starts}"
        self._ended_at = None
        # A test run that is killed leaves no controller behind.
        leash = (sys.executable, "-I", "-S", str(LEASH), str(os.getpid()))
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *leash,
                    *self._command,
                    f"--policy={self._policy}",
                    f"--kubeconfig={self._kubeconfig}",
                    f"--namespace={self._namespace}",
                    *FLAGS,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
                cwd=ROOT,
            )

    def supervise(self) -> None:
        """Start it again if it has ended some time ago. To be called often."""
        if self._process is None or self._process.poll() is None:
            return
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
            self.exits.append(self._process.returncode)
        elif now - self._ended_at >= RESTART_SECONDS:
            self.start()

    def write_policy(self, policy: str) -> None:
        """Change its policy; a running process reads it within a second."""
        self._policy.write_text(policy, encoding="utf-8")

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def freeze(self) -> None:
        """Stop it where it is, by SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it by SIGKILL, at once."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End it in order; one that does not end is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            self.exits.append(-1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _kubeconfig(server: str, token: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "faults", "cluster": {"server": server}}],
            "contexts": [{"name": "faults", "context": {"cluster": "faults", "user": "rebalancer"}}],
            "users": [{"name": "rebalancer", "user": {"token": token}}],
            "current-context": "faults",
        }
    )
