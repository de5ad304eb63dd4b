"""The planner's search: evictions with a good outcome whatever the scheduler does.

Problem: the planner chooses the eviction, the scheduler chooses what follows. Idea: an AND-OR search. It takes a
candidate (OR) if every one of its rest states (AND) is good; in a rest state the scheduler has nothing left to do.
States, the scheduler's rule and the goal are parameters: states of classes of equal nodes under any feasible choice
(`steps.tree_moves`), or of real nodes under any feasible or any top-scoring choice (`steps.lookahead`).

    evict a pod ──► pending ──► placed on a ──► rest: good
                        │  ╰──► placed on b ──► pending ──► … ──► rest: a pod is stuck: candidate rejected
                        ╰─────► placed on c ──► rest: good

Every state is visited once. The cost is bounded by a budget, which `Moves.successors` spends.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum, IntEnum
from typing import Protocol, TypeVar

State = TypeVar("State")
Candidate = TypeVar("Candidate")


class StepGoal(Enum):
    """What must hold after a step."""

    FULL = "every eviction lowers the minimum by one"
    ONE_EXTRA = "one eviction may turn out to have been for nothing"
    PARTIAL = (
        "the sum of what each constraint needs by itself falls, and the minimum with each eviction if there is one"
    )


class Moves(Protocol[State]):
    """What can happen in a state without a new eviction: evicted pods leave, the scheduler places pods."""

    def successors(self, state: State) -> Sequence[State]:
        """Return every possible next state; none where the scheduler is at rest."""

    def key(self, state: State) -> Hashable:
        """Return a value that is equal for equal states only."""


class Flaw(IntEnum):
    """What is wrong with a rest state. No value is positive."""

    NOT_NEARER = 0
    """The minimum number of evictions has not fallen by the evictions made."""
    PENDING = -1
    """A pod is left without a node."""
    WORSE = -2
    """A constraint or limit is exceeded by more than before."""
    CLOSED = -3
    """No node admits a further pod while a bound is violated, so the next replacement would be stuck."""
    UNKNOWN = -4
    """The possible next states are not known."""


class Reporter(Protocol):
    """Receives the result of each candidate of a search."""

    def taken(self) -> None:
        """Record that every rest state of a candidate is good."""

    def rejected(self, flaw: Flaw) -> None:
        """Record that a rest state of a candidate has a flaw."""

    def limit_reached(self) -> None:
        """Record that a state was not visited because the budget is spent."""


def rest_states(start: State, moves: Moves[State]) -> Iterator[State]:
    """Yield every state in which the scheduler can come to rest, each once, depth first."""
    seen = {moves.key(start)}
    open_ = [start]
    while open_:
        now = open_.pop()
        following = moves.successors(now)
        if not following:
            yield now
        for state in following:
            key = moves.key(state)
            if key not in seen:
                seen.add(key)
                open_.append(state)


def worst_rest(rests: Iterable[State], value: Callable[[State], int]) -> int:
    """Return the greatest value of the rest states, or the first `Flaw`, after which no other state is visited."""
    greatest = 1
    for state in rests:
        outcome = value(state)
        if outcome <= 0:
            return outcome
        greatest = max(greatest, outcome)
    return greatest


def first_good(
    candidates: Iterable[tuple[Candidate, State]], settle: Callable[[State], int], reporter: Reporter
) -> tuple[Candidate, State, int] | None:
    """Return the first candidate whose rest states are all good, the state after it, and their greatest value.

    `settle` returns `worst_rest` of the state after a candidate.
    """
    for candidate, after in candidates:
        worst = settle(after)
        if worst > 0:
            reporter.taken()
            return candidate, after, worst
        reporter.rejected(Flaw(worst))
    return None
