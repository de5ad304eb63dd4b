"""Child processes that never outlive the test run.

Each child is stopped by its own process id, and is on a leash (see `leash.py`) in case this process gets no chance to
do so. The leash is tied to the *thread* that started the child, not to the process, so all children are started by
one thread that lives as long as the process.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEASH: Final = Path(__file__).with_name("leash.py")
STOP_SECONDS: Final = 0.5
TAIL_LINES: Final = 15


@dataclass(frozen=True, kw_only=True)
class Child:
    """A running program, and the file that has its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def alive(self) -> bool:
        """Whether the program still runs."""
        return self.process.poll() is None

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the log's last lines."""
        return tail(self.log, lines)


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a file, shortened, indented for a message."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:])


def start(name: str, command: Sequence[str | Path], *, log: Path, cwd: Path) -> Child:
    """Start a program on a leash. Its output goes to the log file."""
    return _Keeper.here().run(lambda: _start(name, command, log=log, cwd=cwd))


def _start(name: str, command: Sequence[str | Path], *, log: Path, cwd: Path) -> Child:
    leashed = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *map(str, command)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            leashed,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal is for the test run, which then stops its children in order.
            start_new_session=True,
        )
    return Child(name=name, process=process, log=log)


def stop(children: Iterable[Child]) -> None:
    """Stop all, each by its own process id: ask, wait, then kill. Returns when none is left."""
    children = list(children)
    for child in children:
        if child.alive():
            child.process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=max(0.0, deadline - time.monotonic()))
    for child in children:
        if child.alive():
            child.process.kill()
        child.process.wait()


class _Keeper:
    """The one thread that starts children, for as long as this process lives."""

    _instance: _Keeper | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Child], Callable[[], Child]]] = queue.SimpleQueue()
        self._pid = os.getpid()
        threading.Thread(target=self._work, name="children", daemon=True).start()

    @classmethod
    def here(cls) -> _Keeper:
        """Return this process's keeper: a forked process has none of its parent's threads."""
        with cls._lock:
            if cls._instance is None or cls._instance._pid != os.getpid():
                cls._instance = cls()
            return cls._instance

    def run(self, job: Callable[[], Child]) -> Child:
        """Run a job in the keeper's thread and return its result."""
        done: Future[Child] = Future()
        self._jobs.put((done, job))
        return done.result()

    def _work(self) -> None:
        while True:
            done, job = self._jobs.get()
            try:
                done.set_result(job())
            except BaseException as error:  # noqa: BLE001 (handed to the caller)
                done.set_exception(error)
