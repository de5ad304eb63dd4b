"""Canaries: a few pods of a workload are moved first, and the others wait until these moves are verified.

If a move harms a workload (its start takes minutes, its peers do not find it, its node lacks something), then only one
of its pods suffers. Canaries belong to an owner, by UID: a rollout makes a new ReplicaSet, and its pods may behave
differently. A move that fails later, or whose replacement is Ready elsewhere, calls for new canaries.

A step that needs several concurrent evictions cannot be split: it may exceed the number if no other move of its
workload is under way.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Memory, Move, MoveState, Reference, make_token
from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import Plan

_FAILED: Final = frozenset({MoveState.INEFFECTIVE, MoveState.LOST})


class CanaryUnverified(Refusal):
    """The first pods of a workload that are moved, `number` of them, are not verified yet."""

    reason = Reason.AWAITING_CANARY
    workload: Reference
    number: int
    verified: int

    def _end(self) -> End:
        what, verb = ("the first move", "is") if self.number == 1 else (f"{self.number} moves", "are")
        return End(event=f"when {what} of {self.workload} {verb} verified", of_move=True)

    def __str__(self) -> str:
        first = "move" if self.number == 1 else f"{self.number} moves"
        so_far = f" ({self.verified} so far)" if self.verified else ""
        return (
            f"waiting until the first {first} of {self.workload} {'is' if self.number == 1 else 'are'} verified"
            f"{so_far}; budgets.canary is {self.number}"
        )


def store_passed(memory: Memory, plan: Plan, number: int) -> tuple[str, ...]:
    """Return the owners, by token, with verified canaries, as long as pods of theirs are planned or in flight."""
    if not number:
        return ()
    moves = _by_owner(memory.moves)
    planned = {one.owner_uid for one in plan.fates.evictions}
    planned |= {move.owner_uid for move in memory.in_flight}
    return tuple(sorted(token for uid in planned if _have_passed(moves[uid], token := make_token(uid), memory, number)))


def _by_owner(moves: Iterable[Move]) -> defaultdict[str, list[Move]]:
    """Return the moves of each owner, sorted by when they changed."""
    by_owner: defaultdict[str, list[Move]] = defaultdict(list)
    for move in sorted(moves, key=lambda move: move.changed_at):
        by_owner[move.owner_uid].append(move)
    return by_owner


def _have_passed(moves: Sequence[Move], token: str, memory: Memory, number: int) -> bool:
    verified, has_failed = _count_verified(moves)
    return verified >= number or (not has_failed and token in memory.canaries)


def _count_verified(moves: Sequence[Move]) -> tuple[int, bool]:
    """Return how many moves were verified since the last failed move, and whether a move failed."""
    verified = 0
    for move in reversed(moves):
        if move.state in _FAILED:
            return verified, True
        verified += move.state is MoveState.VERIFIED
    return verified, False


class Canaries:
    """Admits at most `number` moves of each owner until that many are verified; 0: no limit.

    `unplaceable` are moves, by UID, whose replacement waits for the next step of its repair to make its place.
    """

    def __init__(self, memory: Memory, number: int, unplaceable: Collection[str] = ()) -> None:
        self._memory, self._number = memory, number
        self._moves = _by_owner(memory.moves if number else ())
        self._under_way = Counter(
            move.owner_uid
            for moves in self._moves.values()
            for move in moves
            if not move.state.over and move.uid not in unplaceable
        )
        self._unexecuted = memory.unexecuted_pods

    def find_obstacle(self, step: Sequence[Eviction]) -> Refusal | None:
        """Return why evictions of one step have to wait, None if they need not."""
        if not self._number:
            return None
        wanted = self._count(step)
        for eviction in step:
            uid = eviction.owner_uid
            moves, under_way = self._moves[uid], self._under_way[uid]
            if not wanted[uid] or _have_passed(moves, make_token(uid), self._memory, self._number):
                continue
            verified, _ = _count_verified(moves)
            if verified + under_way + wanted[uid] > self._number and (len(step) == 1 or under_way):
                return CanaryUnverified(eviction.workload, self._number, verified)
        return None

    def count(self, step: Sequence[Eviction]) -> None:
        """Count evictions that were admitted as under way."""
        self._under_way.update(self._count(step))

    def _count(self, step: Sequence[Eviction]) -> Counter[str]:
        """Count evictions by owner; a new request for an unexecuted move's pod is no further move."""
        return Counter(one.owner_uid for one in step if one.pod.uid not in self._unexecuted)
