"""When a replacement has arrived, when it is overdue because it does not run, and what takes a place in a window."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from msgspec import structs

from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.model.moves import Memory, Move, MoveState, Reference
from rebalancer.model.pods import NO_SANDBOX, Pod, PodPhase
from rebalancer.tracking.arrivals import FAILED, UNSCHEDULABLE, find_next_change, is_ending, is_proof, is_under_way
from rebalancer.tracking.moves import observe_moves
from tests.scheduling.build import NOW
from tests.tracking.test_moves import OLD, WEB, moved, new, seen

EVICTED = moved(MoveState.EVICTED)
PULLING = "ImagePullBackOff"
STARTING = new(ready=False)
WAITING = new(ready=False, node=None)
WEEK = timedelta(days=7)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def failing(reason: str = PULLING) -> Pod:
    return new(ready=False, start_failure=reason)


def observed(move: Move, *pods: Pod, seconds: float) -> Move:
    """Return a move after a snapshot so many seconds after its eviction, stored and read as after a restart."""
    (after,) = observe_moves((move,), seen(OLD), seen(*pods), at(seconds), pending_for=timedelta(seconds=60))
    (read,) = parse_memory(memory_text(Memory(moves=(after,)))).moves
    assert read.state in {MoveState.LOST, MoveState.PENDING, MoveState.EVICTED} or not read.overdue
    return read


def under_way(move: Move, *pods: Pod, seconds: float) -> bool:
    return is_under_way(move, seen(*pods), at(seconds))


def test_a_replacement_that_is_ready_has_arrived() -> None:
    """Wherever it is."""
    for pod in (new(), new(node="n1")):
        move = observed(EVICTED, pod, seconds=1)
        assert (move.arrived, move.overdue) == (True, False)
        assert not under_way(move, pod, seconds=1)
        assert is_proof(move, at(1))


def test_a_replacement_that_is_bound_has_arrived_after_fifteen_seconds() -> None:
    """Many take minutes until they are Ready. It proves that the cluster replaces pods after two minutes."""
    move = observed(EVICTED, WAITING, seconds=1)
    assert under_way(move, WAITING, seconds=1)
    for second in (5, 19.9):
        move = observed(move, STARTING, seconds=second)
        assert under_way(move, STARTING, seconds=second)
    move = observed(move, STARTING, seconds=20)
    assert (move.state, move.arrived, move.overdue) == (MoveState.PENDING, True, False)
    assert not under_way(move, STARTING, seconds=20)
    for second, proves in ((124, False), (125, True)):
        move = observed(move, STARTING, seconds=second)
        assert is_proof(move, at(second)) is proves


@pytest.mark.parametrize("reason", [PULLING, "CrashLoopBackOff", "CreateContainerError"])
def test_a_replacement_whose_kubelet_says_why_it_does_not_run_is_overdue(reason: str) -> None:
    """At once, also where it seemed to have arrived; until it has run for two minutes without it, or is Ready."""
    move = observed(EVICTED, STARTING, seconds=0)
    assert observed(move, failing(reason), seconds=5).unstarted == reason
    late = observed(observed(move, STARTING, seconds=20), failing(reason), seconds=40)
    assert (late.unstarted, late.arrived) == (reason, False)
    assert not under_way(late, failing(reason), seconds=40)
    assert not is_proof(late, at(400))
    between = observed(late, STARTING, seconds=41)
    assert between.unstarted == reason, "a container that crashes runs for some seconds each time"
    assert observed(between, STARTING, seconds=160.9).unstarted == reason
    well = observed(between, STARTING, seconds=161)
    assert (well.unstarted, well.arrived) == (None, True)
    assert observed(late, new(), seconds=41).unstarted is None


def test_a_replacement_without_a_node_is_overdue_after_pending_for() -> None:
    """Until it runs."""
    move = observed(EVICTED, WAITING, seconds=2)
    assert observed(move, WAITING, seconds=61.9).unstarted is None
    late = observed(move, WAITING, seconds=62)
    assert late.unstarted == UNSCHEDULABLE
    assert observed(late, WAITING, seconds=63).unstarted == UNSCHEDULABLE
    bound = observed(late, STARTING, seconds=64)
    assert bound.unstarted == UNSCHEDULABLE
    assert observed(bound, STARTING, seconds=79).unstarted is None


def test_a_replacement_without_a_sandbox_is_overdue_after_two_minutes() -> None:
    """Every pod is without for some seconds; one that is for long does not run."""
    move = observed(EVICTED, failing(NO_SANDBOX), seconds=1)
    assert (move.unstarted, move.arrived) == (None, False)
    waiting = observed(move, failing(NO_SANDBOX), seconds=120.9)
    assert (waiting.unstarted, waiting.arrived) == (None, False)
    assert observed(waiting, STARTING, seconds=120.9).arrived, (
        "it has been bound for long, and nothing is wrong any more"
    )
    late = observed(waiting, failing(NO_SANDBOX), seconds=121)
    assert (late.unstarted, late.arrived) == (NO_SANDBOX, False)
    assert observed(late, failing(NO_SANDBOX), seconds=122).unstarted == NO_SANDBOX
    assert observed(late, STARTING, seconds=123).unstarted is None


def test_a_replacement_that_failed_is_overdue_until_another_one_runs() -> None:
    """The owner makes another one; the first one says what is to be expected of it."""
    failed = new(ready=False, phase=PodPhase.FAILED)
    move = observed(observed(EVICTED, STARTING, seconds=1), failed, seconds=2)
    assert (move.state, move.unstarted) == (MoveState.EVICTED, FAILED)
    again = new("another", ready=False, name="web-2")
    next_one = observed(move, failed, again, seconds=3)
    assert (next_one.state, next_one.replacement, next_one.unstarted) == (MoveState.PENDING, "another", FAILED)
    assert observed(move, failed, seconds=4).unstarted == FAILED, "also while there is none yet"
    assert observed(next_one, again, seconds=122.9).unstarted == FAILED
    assert observed(next_one, again, seconds=123).unstarted is None
    assert observed(observed(EVICTED, STARTING, seconds=1), seconds=2).unstarted is None, (
        "one that is deleted says nothing"
    )


def test_a_stream_of_replacements_that_fail_never_arrives() -> None:
    """Their owner makes the next one within the second: a snapshot shows both, and time begins anew with each."""
    pods = [new(f"r{number}", name=f"web-{number}", ready=False) for number in range(30)]
    move = observed(EVICTED, pods[0], seconds=0)
    for number, (failed, following) in enumerate(pairwise(pods), start=1):
        gone = structs.replace(failed, phase=PodPhase.FAILED)
        move = observed(move, gone, following, seconds=10 * number)
        assert (move.replacement, move.unstarted, move.arrived) == (following.uid, FAILED, False)
        assert not is_proof(move, at(10 * number))
    late = observed(observed(EVICTED, failing(), seconds=1), failing(), seconds=700)
    failed_late = structs.replace(failing(), phase=PodPhase.FAILED, start_failure="")
    assert observed(observed(late, failed_late, seconds=701), failed_late, seconds=900).unstarted == FAILED


def test_a_replacement_that_is_replaced_itself_has_to_arrive_anew() -> None:
    """Somebody deleted it."""
    arrived = observed(observed(EVICTED, STARTING, seconds=0), STARTING, seconds=15)
    assert arrived.arrived
    following = new("another", ready=False, name="web-2")
    move = observed(arrived, following, seconds=20)
    assert (move.replacement, move.arrived, move.unstarted) == ("another", False, None)


def test_a_lost_move_whose_replacement_does_not_run_is_overdue_until_it_does() -> None:
    """It is stored for that long; one that has merely started slowly is not."""
    slow = observed(observed(EVICTED, STARTING, seconds=1), STARTING, seconds=700)
    assert (slow.state, slow.overdue, slow.arrived) == (MoveState.LOST, False, True)
    assert observed(slow, failing(), seconds=701).unstarted is None, "what comes after is not ours"
    late = observed(observed(EVICTED, failing(), seconds=1), failing(), seconds=700)
    assert (late.state, late.unstarted) == (MoveState.LOST, PULLING)
    assert observed(late, failing(), seconds=5000).unstarted == PULLING
    for pods in ((new(),), ()):
        assert observed(late, *pods, seconds=5000).unstarted is None


def test_a_pod_that_takes_long_to_end_leaves_its_place() -> None:
    """Its StatefulSet waits for it; when it is gone the replacement is awaited again."""
    going = structs.replace(OLD, deleted=at(1200))
    move = structs.replace(EVICTED, workload=Reference("shop", "StatefulSet", "web"))
    for second, leaves in ((59, False), (60, True)):
        assert is_ending(move, seen(going), at(second)) is leaves
        assert under_way(move, going, seconds=second) is not leaves
    assert under_way(move, seconds=61)
    pending = observed(EVICTED, going, STARTING, seconds=1)
    assert not is_ending(pending, seen(going, STARTING), at(600)), "a ReplicaSet does not wait for it"


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_a_move_is_not_lost_while_its_pod_ends_within_its_grace_period(kind: str) -> None:
    """A week, say. From its end the replacement has as long as ever; what outlives its grace is lost as before."""
    db = structs.replace(WEB, kind=kind)
    move = structs.replace(EVICTED, workload=Reference("shop", kind, "web"))
    going = structs.replace(OLD, deleted=NOW + WEEK)

    def after(moment: datetime, *pods: Pod) -> Move:
        return observe_moves((move,), seen(OLD), seen(*pods, owner=db), moment)[0]

    for moment in (at(3600), NOW + WEEK / 2, NOW + WEEK - timedelta(minutes=1)):
        move = after(moment, going)
        assert move.state is MoveState.EVICTED
    assert after(NOW + WEEK + timedelta(minutes=8)).state is MoveState.EVICTED
    assert after(NOW + WEEK + timedelta(minutes=9)).state is MoveState.LOST
    assert after(NOW + WEEK + timedelta(minutes=9), going).state is MoveState.LOST


def test_requests_that_were_refused_or_are_over_take_no_place() -> None:
    """One without an answer does: it may have been granted."""
    for state in MoveState:
        assert under_way(moved(state), OLD, seconds=1) is (not state.over)
    assert not under_way(structs.replace(EVICTED, uncreated=""), seconds=11)


def test_the_next_change_by_time_alone() -> None:
    """Of those that are under way the first that may arrive or be overdue."""
    minute = timedelta(minutes=1)
    db = structs.replace(EVICTED, workload=Reference("shop", "StatefulSet", "web"), awaited_since=at(5))
    pending = moved(MoveState.PENDING, replacement="new")
    cases = [
        ((EVICTED,), 0, 10),
        ((EVICTED,), 10, 60),
        ((EVICTED,), 60, 120),
        ((EVICTED,), 120, None),
        ((db,), 0, 35),
        ((pending,), 0, 60),
        ((structs.replace(pending, bound_since=at(3)),), 4, 18),
        ((structs.replace(pending, bound_since=at(3)),), 18, 123),
        ((structs.replace(pending, bound_since=at(3), arrived=True),), 4, None),
        ((structs.replace(pending, unstarted=PULLING),), 4, None),
        ((pending, structs.replace(EVICTED, changed_at=at(4))), 5, 14),
        ((moved(MoveState.VERIFIED),), 0, None),
        ((), 0, None),
    ]
    for moves, second, expected in cases:
        due = find_next_change(moves, minute, at(second))
        assert due == (at(expected) if expected is not None else None)


def test_a_clock_that_was_set_back_delays_no_arrival() -> None:
    move = structs.replace(observed(EVICTED, STARTING, seconds=1), bound_since=at(3600), victim_seen=at(3600))
    move = observed(move, STARTING, seconds=2)
    assert move.victim_seen == at(2)
    assert observed(move, STARTING, seconds=17).arrived
