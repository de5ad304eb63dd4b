"""The solver's outcomes for hard integer programs, stored beyond one plan.

A component that is hard to plan is planned again in every cycle until it changes. The solver is deterministic: a
program within given limits has one outcome, on every machine, so that a stored outcome changes no plan. The outcome is
found by a digest of the whole program and its limits. Cost: some 30 kB for each of `_STORED` usual programs.
"""

from collections.abc import Sequence
from enum import Enum
from threading import Lock
from typing import Final, NamedTuple

_HARD: Final = 50_000
"""An outcome is stored from this much work on, some 0.2 s."""
_STORED: Final = 32
"""Up to this many outcomes are stored: those used last."""


class Unsolved(Enum):
    """Why there is no solution."""

    INFEASIBLE = "infeasible"
    LIMIT_REACHED = "search limit reached"


class Outcome(NamedTuple):
    """The columns' values and a lower bound of the cost, or why there is no solution."""

    answer: tuple[Sequence[float], float] | Unsolved
    work: int
    """The work that the solver spent."""
    interrupted: bool = False
    """Whether the work limit interrupted the solver; if not, more work gives the same outcome."""


class Outcomes:
    """The outcomes of the last hard programs by their digests; several threads may use them."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int | None], Outcome] = {}
        self._lock = Lock()

    def find(self, digest: bytes, work: int) -> Outcome | None:
        """Return the stored outcome of a program that may take this much work, None without one."""
        with self._lock:
            for key in ((digest, None), (digest, work)):
                outcome = self._known.get(key)
                if outcome is not None and outcome.work <= work:
                    self._known[key] = self._known.pop(key)
                    return outcome
            return None

    def store(self, digest: bytes, work: int, outcome: Outcome) -> None:
        """Store the outcome of a hard program in place of the least recently used outcome."""
        if outcome.work < _HARD:
            return
        with self._lock:
            self._known[digest, work if outcome.interrupted else None] = outcome
            if len(self._known) > _STORED:
                del self._known[next(iter(self._known))]
