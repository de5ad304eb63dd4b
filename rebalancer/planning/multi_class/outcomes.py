"""What the solver gave for hard integer programs, stored beyond one plan.

A component that is hard to plan comes again in every cycle until something of it changes. The solver is deterministic:
a program within given limits has one outcome, on every machine, so that a stored outcome changes no plan. It is found
by a digest of the whole program and of its limits. Cost: some 30 kB for each of `_STORED` usual programs.
"""

from collections.abc import Sequence
from enum import Enum
from threading import Lock
from typing import Final, NamedTuple

_HARD: Final = 50_000
"""Work from which on an outcome is stored: some 0.2 s."""
_STORED: Final = 32
"""Stored outcomes: the last used."""


class Unsolved(Enum):
    """Why there is no solution."""

    INFEASIBLE = "infeasible"
    LIMIT_REACHED = "search limit reached"


class Outcome(NamedTuple):
    """The columns' values and a lower bound of the cost, or why there are none."""

    answer: tuple[Sequence[float], float] | Unsolved
    work: int
    """The work that it took."""
    interrupted: bool = False
    """Whether the solver was interrupted; else it had gone equally far within any larger work."""


class Outcomes:
    """The outcomes of the last hard programs by their digests; several threads may use them."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int | None], Outcome] = {}
        self._lock = Lock()

    def find(self, digest: bytes, work: int) -> Outcome | None:
        """Return the outcome of a program that may take this much work, if it is stored."""
        with self._lock:
            for key in ((digest, None), (digest, work)):
                outcome = self._known.get(key)
                if outcome is not None and outcome.work <= work:
                    self._known[key] = self._known.pop(key)
                    return outcome
            return None

    def store(self, digest: bytes, work: int, outcome: Outcome) -> None:
        """Store the outcome of a hard program, in place of the outcome that was unused for the longest."""
        if outcome.work < _HARD:
            return
        with self._lock:
            self._known[digest, work if outcome.interrupted else None] = outcome
            if len(self._known) > _STORED:
                del self._known[next(iter(self._known))]
