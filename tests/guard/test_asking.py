"""What is remembered before an eviction is asked for, and taken back where nothing came of it."""

from datetime import timedelta

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, Blueprint
from rebalancer.guard.asking import asked_for, not_granted, unasked
from rebalancer.guard.backoff import after_moves
from rebalancer.guard.moves import UNKNOWN_FOR, merged, observed
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState, Spare
from rebalancer.model.snapshot import Snapshot
from tests.guard.test_moves import MOVE, OLD, moved, seen
from tests.planning.test_mixed import changed, planned, together
from tests.scheduling.build import NOW

BEFORE = Memory(sent=(NOW,), spares=(Spare("other", 3, "another"),), moves=(moved(MoveState.VERIFIED, uid="another"),))


def one_to_spare() -> Snapshot:
    """Return two kinds of pods that are two evictions from right, of which the first may turn out one too many."""
    blueprint = Blueprint()
    blueprint.zones("a", 3)
    blueprint.zones("b", 1)
    both = {ZONE: 3, HOSTNAME: 1}
    blueprint.deployment("one", on={"a-3": 2, "b-1": 1}, spread=both, cpu=100)
    blueprint.deployment("two", on={"a-2": 2, "a-3": 2}, spread=both, cpu=200)
    return changed(blueprint.snapshot(), together, cluster="r")


@pytest.mark.parametrize("goal", [None, 1])
def test_what_was_never_sent_leaves_no_trace(goal: int | None) -> None:
    """Neither move, nor time, nor the eviction to spare; what was remembered before stays, of the same moment too."""
    asked = asked_for(BEFORE, MOVE, spare_goal=goal)
    assert asked.sent == (NOW, NOW)
    assert [move.uid for move in asked.in_flight] == ["old"]
    assert len(asked.spares) == (1 if goal is None else 2)
    assert unasked(asked, "old") == BEFORE
    assert unasked(BEFORE, "unknown") == BEFORE
    other = msgspec.structs.replace(MOVE, group="other")
    assert [spare.uid for spare in asked_for(BEFORE, other, spare_goal=1).spares] == ["old"], "one for each group"


def test_a_spare_that_was_not_granted_is_still_to_be_had() -> None:
    """Else one refusal would leave the repair to steps that need none, and where there are none, unrepaired."""
    snapshot = one_to_spare()
    first = planned(snapshot)
    (eviction,) = first.evictions
    assert eviction.repair.spare
    move = msgspec.structs.replace(MOVE, uid=eviction.pod.uid, group=eviction.group)
    asked = asked_for(NO_MEMORY, move, spare_goal=eviction.repair.goal)
    assert planned(snapshot, memory=msgspec.structs.replace(asked, moves=())).evictions == ()
    for taken_back in (unasked(asked, move.uid), msgspec.structs.replace(not_granted(asked, move.uid), moves=())):
        again = planned(snapshot, memory=taken_back)
        assert [each.pod.uid for each in again.evictions] == [move.uid]


def test_a_lost_answer_costs_the_spare_until_it_is_known() -> None:
    """It may have been granted; once the pod is seen to stay, it was not."""
    asked = asked_for(NO_MEMORY, MOVE, spare_goal=1)
    for later, left in ((timedelta(seconds=30), 1), (UNKNOWN_FOR, 0)):
        moves = observed(asked.moves, seen(OLD), NOW + later)
        after = after_moves(msgspec.structs.replace(asked, moves=moves), asked.moves, NOW + later)
        assert len(after.spares) == left


def test_who_takes_over_in_between_holds_it_for_sent() -> None:
    """What was saved before the eviction was held back is in flight for the next leader, until it is known."""
    asked = asked_for(NO_MEMORY, MOVE, spare_goal=1)
    taken = merged(unasked(asked, "old"), asked)
    assert (taken.in_flight, taken.sent, taken.spares) == (asked.in_flight, asked.sent, asked.spares)
    moves = observed(taken.moves, seen(OLD), NOW + UNKNOWN_FOR)
    assert [move.state for move in moves] == [MoveState.REFUSED]
