"""What is wrong at the start, as processes: a message that names it, the exit code 1, and not one request."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.adapters.kubernetes.fake_server import ApiServer, served, write_kubeconfig
from tests.build import HEAD
from tests.cluster.controller import COMMAND, ROOT, environment, rebalancer

BAD = {
    "unknown field": (f"{HEAD}mode: Evict\nbudget: {{}}\n", "policy.yaml:4", "budget"),
    "duplicate key": (f"{HEAD}mode: Evict\nmode: Observe\n", "policy.yaml:4", "mode"),
    "empty file": ("", "policy.yaml:1", "empty"),
    "wrong unit": (f"{HEAD}interval: 5 parsecs\n", "policy.yaml:3", "interval"),
}
ANYWHERE = ("--metrics-address=127.0.0.1:0", "--page-address=127.0.0.1:0")


def refused(*command: str) -> str:
    """Run a command that ends with 1; return its message."""
    done = rebalancer(*command)
    message = done.stderr.decode()
    assert done.returncode == 1, message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("case", BAD)
def test_a_bad_policy_is_refused_with_file_and_line(tmp_path: Path, case: str) -> None:
    """By `run`, `plan` and `policy validate`; nothing is sent to the API server but the question for its version."""
    text, where, what = BAD[case]
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    server = ApiServer()
    with served(server) as transport:
        access = ("--kubeconfig", str(write_kubeconfig(tmp_path, transport.configuration.host)))
        for command in (("run", "--policy", str(file), *access), ("plan", "--policy", str(file), *access)):
            message = refused(*command)
            assert where in message
            assert what in message
    message = refused("policy", "validate", str(file))
    assert where in message
    assert what in message
    assert set(server.requests) <= {("GET", "/version")}


def test_a_missing_policy_file_is_named(tmp_path: Path) -> None:
    """The default policy does not take its place."""
    access = ("--kubeconfig", str(write_kubeconfig(tmp_path)))
    assert "no/such/policy.yaml" in refused("run", "--policy", "no/such/policy.yaml", *access)


@pytest.mark.parametrize(
    "verb", [("run", "--once", *ANYWHERE), ("report",), ("plan",), ("resume",), ("pause", "--reason", "a test")]
)
def test_a_server_that_does_not_answer_is_named_in_one_line(tmp_path: Path, verb: tuple[str, ...]) -> None:
    """Without `--once` a controller goes on to ask it (`tests/controller/test_process.py`)."""
    file = write_kubeconfig(tmp_path, "https://127.0.0.1:1")
    last = refused(*verb, "--kubeconfig", str(file)).strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "https://127.0.0.1:1" in last


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_waits_for_its_first_answer_ends_at_once(tmp_path: Path, sign: signal.Signals) -> None:
    """With 0, on either signal."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        file = write_kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = [*COMMAND, "run", "--kubeconfig", str(file), *ANYWHERE]
        with subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE) as process:
            silent.settimeout(30)
            connection, _ = silent.accept()
            with connection:
                process.send_signal(sign)
                _, output = process.communicate(timeout=10)
                assert process.returncode == 0
                assert b"Traceback" not in output
