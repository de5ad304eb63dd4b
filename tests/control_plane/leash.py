"""Become another program that dies with the process that started it.

A test run that is killed has no `finally`; without a leash it would leave an API server behind that eats a core.
Linux can send a signal to a child when its parent dies (PR_SET_PDEATHSIG), and keeps that promise across `exec`.
This file is run as a script between fork and exec of a server, because a `preexec_fn` may deadlock in a process that
has threads:

    python -I -S leash.py <process id of the parent> <program> <arguments…>
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int, command: list[str]) -> None:
    """Tie this process to its parent, then become the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the leash was on.
    if os.getppid() != parent:
        raise SystemExit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
