"""A process that computes the worst losses of one snapshot and ends: `python -m rebalancer.resilience`.

Standard input holds the question, standard output gets the answer; `controller.resilience` is at the other end. The
process takes processor time only where nothing else wants it. It fails rather than take the memory that its parent may
need: where a container is out of memory, the kernel ends all of its processes.
"""

import gc
import os
import pickle
import resource
import sys
from contextlib import suppress
from pathlib import Path
from traceback import format_exception_only
from typing import IO, Final

from rebalancer.resilience.transport import Answer, Question, receive_question
from rebalancer.resilience.worst import find_worst
from rebalancer.scheduling.view import View

_NICE: Final = 19
_LEFT_TO_OTHERS: Final = 128 * 2**20
"""Bytes of the container's memory that this process leaves free for others."""

_CGROUP: Final = Path("/sys/fs/cgroup")


def main() -> None:
    """Answer one question."""
    os.nice(_NICE)
    _limit_memory(_CGROUP)
    gc.set_threshold(100_000, 20, 100)
    pickle.dump(_answer(sys.stdin.buffer), sys.stdout.buffer)


def _answer(file: IO[bytes]) -> Answer:
    try:
        return compute(receive_question(file))
    except MemoryError:
        return Answer(problem="there is too little memory beside that of the controller; give the container more")
    except Exception as error:  # noqa: BLE001  # the other end logs it
        return Answer(problem="".join(format_exception_only(error)).strip())


def compute(question: Question) -> Answer:
    """Return the worst losses of a snapshot."""
    return Answer(worst=find_worst(View(question.snapshot, question.profile), question.demands))


def _limit_memory(cgroup: Path) -> None:
    """Limit the memory of this process to what its container has left; without a container limit, set none."""
    with suppress(OSError, ValueError):  # no cgroups of version 2, or "max"
        most, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = _read_cached((cgroup / "memory.stat").read_text())
        left = max(0, most - (used - cached) - _LEFT_TO_OTHERS)
        resource.setrlimit(resource.RLIMIT_DATA, (left, left))


def _read_cached(stat: str) -> int:
    """Return how many bytes of files the kernel has cached; it drops them when memory runs short."""
    fields = dict(line.split() for line in stat.splitlines())
    return int(fields["inactive_file"]) + int(fields["active_file"])


if __name__ == "__main__":
    main()
