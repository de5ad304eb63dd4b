"""Replacements that are not created: from when on, until when, and whatever restarts in between."""

from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec import structs

from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.model.moves import Memory, Move, MoveState, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.tracking.moves import ENDED_MOVES_STORED, REPLACEMENT_TIMEOUT, observe_moves
from rebalancer.tracking.uncreated import find_uncreated
from tests.scheduling.build import NOW
from tests.tracking.test_moves import OLD, WEB, moved, new, seen

GOING = structs.replace(OLD, deleted=NOW + timedelta(minutes=1))
STATEFUL = Reference("shop", "StatefulSet", "web")
DB = structs.replace(WEB, kind="StatefulSet")
THREE = structs.replace(DB, replicas=3)
QUOTA = 'pods "web-x" is forbidden: exceeded quota: pods'
REFUSED = structs.replace(WEB, creation_failure=QUOTA)
EVICTED = moved(MoveState.EVICTED)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def observed(move: Move, *pods: Pod, seconds: float, owner: Workload | None = WEB) -> Move:
    """Return a move after a snapshot so many seconds after its eviction, stored and read as after a restart."""
    (after,) = observe_moves((move,), seen(OLD), seen(*pods, owner=owner), at(seconds))
    (read,) = parse_memory(memory_text(Memory(moves=(after,)))).moves
    return read


def overdue(move: Move) -> str | None:
    """Return what keeps the namespace of a move from evictions, None if nothing does."""
    overdue_there = find_uncreated([move]).get("shop")
    return overdue_there.uncreated if overdue_there is not None else None


@pytest.mark.parametrize("pods", [(GOING,), ()], ids=["the evicted pod is going", "it is gone"])
def test_a_replica_set_has_ten_seconds_from_the_eviction_on(pods: tuple[Pod, ...]) -> None:
    """It creates the replacement while the pod is still terminating, so that grace periods do not count."""
    assert overdue(observed(EVICTED, *pods, seconds=9)) is None
    assert overdue(observed(EVICTED, *pods, seconds=10)) == ""
    assert overdue(observed(observed(EVICTED, *pods, seconds=9), *pods, seconds=10)) == ""


def test_a_condition_that_says_why_counts_at_once() -> None:
    """It is quoted, also where it comes late."""
    assert overdue(observed(EVICTED, GOING, seconds=0, owner=REFUSED)) == QUOTA
    late = observed(EVICTED, GOING, seconds=10)
    assert overdue(observed(late, seconds=11, owner=REFUSED)) == QUOTA
    assert overdue(observed(observed(late, seconds=11, owner=REFUSED), seconds=12)) == "", "until a pod is created"


def test_a_stateful_set_has_thirty_seconds_from_when_the_pod_is_gone() -> None:
    """Its replacement has the same name: while the pod terminates, nothing is late. A restart does not begin anew."""
    move = structs.replace(EVICTED, workload=STATEFUL)
    for second in (0, 50):
        move = observed(move, GOING, seconds=second, owner=DB)
        assert overdue(move) is None
    for second in (60, 89):
        move = observed(move, seconds=second, owner=DB)
        assert overdue(move) is None
    assert overdue(observed(move, seconds=90, owner=DB)) == ""


def test_a_stateful_set_that_creates_its_pods_in_turn_is_not_late_before_it_is_a_pods_turn() -> None:
    """Two of its pods were evicted: the higher one comes after the lower one is Ready, however long that takes."""
    higher = structs.replace(EVICTED, workload=STATEFUL, pod="web-1")
    lower, ready = new(name="web-0", ready=False), new(name="web-0")
    for second in (0, 100, 200):
        higher = observed(higher, lower, seconds=second, owner=THREE)
        assert overdue(higher) is None
    higher = observed(higher, ready, seconds=300, owner=THREE)
    assert overdue(observed(higher, ready, seconds=329, owner=THREE)) is None
    late = observed(higher, ready, seconds=330, owner=THREE)
    assert overdue(late) == ""
    assert overdue(observed(late, lower, seconds=331, owner=THREE)) == "", "it was late before the other one failed"


def test_under_parallel_no_pod_waits_for_another() -> None:
    higher = structs.replace(EVICTED, workload=STATEFUL, pod="web-1")
    at_once = structs.replace(THREE, parallel=True)
    first = observed(higher, new(name="web-0", ready=False), seconds=0, owner=at_once)
    assert overdue(observed(first, new(name="web-0", ready=False), seconds=30, owner=at_once)) == ""


def test_a_watch_that_still_shows_the_pod_says_nothing() -> None:
    """It lags, and may just as well lack the replacement."""
    assert overdue(observed(EVICTED, OLD, seconds=60)) is None


@pytest.mark.parametrize(
    ("pods", "owner"),
    [
        ((new(ready=False, node=None),), WEB),
        ((), structs.replace(WEB, replicas=1)),
        ((), structs.replace(WEB, deleted=at(60))),
        ((), None),
    ],
    ids=["a pod is created", "the owner wants no more", "it is being deleted", "it is gone"],
)
@pytest.mark.parametrize("minutes", [0, 60], ids=["soon", "long after the move is lost"])
def test_it_ends_when_a_pod_is_created_or_none_is_wanted(
    pods: tuple[Pod, ...], owner: Workload | None, minutes: int
) -> None:
    """Not before: a move is lost after ten minutes, and its replacement still missing."""
    move = observed(EVICTED, seconds=10)
    if minutes:
        move = observed(move, seconds=REPLACEMENT_TIMEOUT.total_seconds())
        assert move.state is MoveState.LOST
        move = observed(move, seconds=60 * minutes)
    assert overdue(move) == ""
    move = observed(move, *pods, seconds=60 * minutes + 20, owner=owner)
    assert overdue(move) is None
    assert overdue(observed(move, seconds=60 * minutes + 21)) is None, "another pod that is missing is not ours"


def test_a_process_that_comes_back_after_the_move_is_lost_holds_the_namespace_all_the_same() -> None:
    """Where it ended before a replacement was overdue."""
    lost = observed(EVICTED, seconds=REPLACEMENT_TIMEOUT.total_seconds())
    assert (lost.state, overdue(lost)) == (MoveState.LOST, "")
    larger = structs.replace(WEB, replicas=3)
    late = observed(moved(MoveState.PENDING, replacement="new"), new(ready=False), seconds=700, owner=larger)
    assert (late.state, overdue(late)) == (MoveState.LOST, None), "a replacement that is not Ready was created"


def test_a_replacement_that_vanishes_is_awaited_from_then_on() -> None:
    """That it was created long ago does not make the next one late."""
    move = observed(moved(MoveState.PENDING, replacement="new"), seconds=300)
    assert (move.state, overdue(move)) == (MoveState.EVICTED, None)
    assert overdue(observed(move, seconds=309)) is None
    assert overdue(observed(move, seconds=310)) == ""


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    move = structs.replace(EVICTED, awaited_since=at(3600), requested_at=at(3600), changed_at=at(3600))
    assert overdue(observed(observed(move, seconds=0), seconds=10)) == ""


def test_a_lost_move_is_stored_until_its_replacement_is_created() -> None:
    """However many moves have ended since, and however large the memory is."""
    lost = observed(observed(EVICTED, seconds=10), seconds=600)
    later = tuple(moved(MoveState.VERIFIED, uid=str(number)) for number in range(ENDED_MOVES_STORED))
    stored = observe_moves((lost, *later), seen(), seen(), at(601))
    assert lost.uid in {move.uid for move in stored}
    many = tuple(
        structs.replace(EVICTED, uid=f"{number:036}", pod=f"{number * 7919:060}", group=f"{number * 104729:060}")
        for number in range(12_000)
    )
    read = parse_memory(memory_text(Memory(moves=(*many, *stored)))).moves
    assert overdue(next(move for move in read if move.uid == lost.uid)) == ""
    assert "0" not in {move.uid for move in read}


def test_the_message_names_the_oldest_whose_reason_is_known() -> None:
    """One for each namespace."""
    first = structs.replace(EVICTED, uncreated="")
    second = structs.replace(EVICTED, uid="b", pod="b", requested_at=at(1), uncreated=QUOTA)
    third = structs.replace(EVICTED, uid="c", pod="a", requested_at=at(2), uncreated=QUOTA)
    other = structs.replace(EVICTED, uid="d", namespace="cache", uncreated="")
    fine = structs.replace(EVICTED, uid="e", namespace="fine")
    moves = [third, first, second, other, fine]
    assert {space: move.uid for space, move in find_uncreated(moves).items()} == {"shop": "b", "cache": "d"}


def test_moves_that_another_release_has_stored_are_read() -> None:
    """Without these fields, and with others that are unknown: what runs before and after may store the memory."""
    data = msgspec.to_builtins(structs.replace(EVICTED, uncreated=QUOTA, awaited_since=NOW))
    for name in ("uncreated", "awaited_since"):
        del data[name]
    assert msgspec.convert({**data, "unknown": "x"}, Move) == EVICTED


def test_a_foreign_owner_is_not_late_before_a_stateful_set_would_be() -> None:
    """Whether its controller waits for the end of the old pod is not known."""
    move = structs.replace(EVICTED, workload=Reference("shop", "CloneSet", "web"))
    owner = structs.replace(WEB, kind="CloneSet", group="apps.kruise.io")
    move = observed(move, GOING, seconds=50, owner=owner)
    assert overdue(move) is None
    for second in (60, 89):
        move = observed(move, seconds=second, owner=owner)
        assert overdue(move) is None
    assert overdue(observed(move, seconds=90, owner=owner)) == ""
