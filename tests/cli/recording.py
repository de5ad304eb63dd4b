"""What each documented command shows in a terminal: recorded in a real tmux pane, 80 and 120 columns wide.

`make recordings` writes the files of docs/recordings anew. Commands that need a cluster reach a small API server. What
differs from run to run is hidden: times, and the port of a simulation's status page; so are hashes of policies.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from tests.cli.printing import hide_hashes, hide_times, reached
from tests.cli.test_golden import COMMANDS, SERVERS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "recordings"
WIDTHS: Final = (80, 120)
RECORDED: Final = (
    "report",
    "report-limits",
    "report-failures",
    "report-map",
    "report-map-workload",
    "plan",
    "plan-verbose",
    "explain-pod",
    "explain-workload",
    "explain-blocked",
    "predict",
    "simulate",
    "simulate-each",
    "resilience",
    "lint",
    "lint-cluster",
    "suggest",
    "policy-validate",
    "apply-nothing",
    "pause-for",
    "resume",
    "approve",
    "status",
    "history",
    "cleanup",
    "demo",
)
_HEIGHT: Final = 50
_PATIENCE: Final = 240.0
_POLL: Final = 0.1


_INDEX: Final = """\
# Recordings

What each command shows in a terminal of 80 and of 120 columns, recorded in a tmux pane by `make recordings`. Times, the
port of a simulation's status page, and hashes of policies are hidden. `tests/cli/test_recordings.py` compares them
with what is shown today.

| command | 80 columns | 120 columns |
| --- | --- | --- |
"""


def write_index() -> str:
    """Return the page that lists the recordings."""
    rows = (
        f"| `rebalancer {shlex.join(COMMANDS[name])}` | "
        f"{' | '.join(f'[{width}]({file_of(name, width).name})' for width in WIDTHS)} |\n"
        for name in RECORDED
    )
    return f"{_INDEX}{''.join(rows)}"


def file_of(name: str, width: int) -> Path:
    """Return the file of a recording."""
    return FOLDER / f"{name}-{width}.txt"


def record(name: str, width: int) -> str:
    """Run a command in a pane of a width, and return the command and all that the pane has shown."""
    server = SERVERS.get(name)
    with nullcontext() if server is None else reached(server), tempfile.TemporaryDirectory() as folder:
        shown = _run_in_pane(COMMANDS[name], width, Path(folder))
    shown = hide_hashes(hide_times(shown) if server is not None else shown)
    shown = re.sub(r"localhost:\d+", "localhost:PORT", shown)
    return f"$ rebalancer {shlex.join(COMMANDS[name])}\n{shown}"


def _run_in_pane(command: tuple[str, ...], width: int, folder: Path) -> str:
    """Start a tmux server of its own, wait until the command has ended, and read the pane with its history.

    Nobody presses Enter there, so that nothing of standard input is a terminal.
    """
    tmux = [shutil.which("tmux") or "tmux", "-u", "-S", str(folder / "socket"), "-f", "/dev/null"]
    ended = folder / "ended"
    program = shlex.join([sys.executable, "-m", "rebalancer.cli.main", *command])
    line = f"{program} < /dev/null; touch {ended}; sleep {_PATIENCE:.0f}"
    size = ["-x", str(width), "-y", str(_HEIGHT)]
    subprocess.run([*tmux, "new-session", "-d", *size, line], check=True, cwd=ROOT, env=_environment(), timeout=30)
    try:
        _await(ended)
        return _read_pane(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True, timeout=30)


def _environment() -> dict[str, str]:
    """Return what a user's terminal would have, and the cluster that is reached."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "KUBECONFIG") if name in os.environ}
    return {**own, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}


def _await(ended: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not ended.exists():
        assert time.monotonic() < deadline, "the command has not ended"
        time.sleep(_POLL)


def _read_pane(tmux: list[str]) -> str:
    """Read the pane until it has stayed the same: tmux draws what it has read a moment later."""
    last = None
    while True:
        capture = [*tmux, "capture-pane", "-p", "-S", "-"]
        shown = subprocess.run(capture, check=True, capture_output=True, text=True, timeout=30).stdout.rstrip() + "\n"
        if shown == last:
            return shown
        last = shown
        time.sleep(_POLL)


if __name__ == "__main__":
    sys.argv = ["rebalancer"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for recorded in RECORDED:
        for columns in WIDTHS:
            file_of(recorded, columns).write_text(record(recorded, columns), encoding="utf-8")
    (FOLDER / "README.md").write_text(write_index(), encoding="utf-8")
    sys.stdout.write(f"{len(RECORDED) * len(WIDTHS)} files written to {FOLDER}\n")
