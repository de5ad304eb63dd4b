"""The life of a move: every transition, and nothing but those."""

from datetime import timedelta

import msgspec
import pytest

from rebalancer.model.moves import Move, MoveState, Target
from rebalancer.model.pods import OwnerReference, Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.moves import (
    ANSWER_TIMEOUT,
    ENDED_MOVES_STORED,
    REPLACEMENT_TIMEOUT,
    TRANSITIONS,
    MoveEvent,
    advance_move,
    observe_moves,
)
from rebalancer.tracking.overlay import overlay_moves
from tests.scheduling.build import HOSTNAME, NOW, node
from tests.tracking.build import move

OWNER = OwnerReference(group="apps", kind="ReplicaSet", name="web", uid="owner")
LATER = NOW + timedelta(seconds=30)
TO_N2 = (Target(HOSTNAME, ("n2",)),)
MOVE = move("old", NOW, namespace="shop", pod="web-0", node="n1", owner_uid="owner", targets=TO_N2)
OLD = Pod(
    namespace="shop",
    name="web-0",
    uid="old",
    node="n1",
    owner=OWNER,
    created=NOW - timedelta(days=1),
    phase=PodPhase.RUNNING,
    ready=True,
)


def new(uid: str = "new", **fields: object) -> Pod:
    fields = {"node": "n2", "ready": True, "created": LATER, "name": "web-1", **fields}
    return msgspec.structs.replace(OLD, uid=uid, **fields)


def seen(*pods: Pod) -> Snapshot:
    return Snapshot(taken_at=LATER, nodes=(node("n1"), node("n2")), pods=pods)


def moved(state: MoveState, **fields: object) -> Move:
    return msgspec.structs.replace(MOVE, state=state, **fields)


@pytest.mark.parametrize("state", MoveState)
@pytest.mark.parametrize("what", MoveEvent)
def test_the_table_is_all(state: MoveState, what: MoveEvent) -> None:
    """What the table does not name changes nothing, and what is over stays over."""
    after = advance_move(moved(state), what, LATER)
    assert after.state == TRANSITIONS.get((state, what), state)
    if state.over:
        assert after.state is state


@pytest.mark.parametrize(
    ("move", "pods", "expected"),
    [
        pytest.param(MOVE, [OLD], MoveState.PLANNED, id="no answer yet, the pod is there"),
        pytest.param(MOVE, [msgspec.structs.replace(OLD, deleted=LATER)], MoveState.EVICTED, id="the pod is going"),
        pytest.param(MOVE, [], MoveState.EVICTED, id="the pod is gone"),
        pytest.param(
            moved(MoveState.EVICTED), [new(ready=False, node=None)], MoveState.PENDING, id="a replacement waits"
        ),
        pytest.param(moved(MoveState.EVICTED), [new()], MoveState.VERIFIED, id="Ready where it was predicted"),
        pytest.param(moved(MoveState.EVICTED), [new(node="n1")], MoveState.INEFFECTIVE, id="Ready elsewhere"),
        pytest.param(moved(MoveState.EVICTED), [new(node="gone")], MoveState.INEFFECTIVE, id="Ready on a lost node"),
        pytest.param(
            moved(MoveState.EVICTED), [new(created=NOW - timedelta(hours=1))], MoveState.EVICTED, id="an older sibling"
        ),
        pytest.param(
            moved(MoveState.EVICTED), [new(deleted=LATER)], MoveState.EVICTED, id="a replacement that goes again"
        ),
        pytest.param(MOVE, [new()], MoveState.VERIFIED, id="several transitions at once"),
    ],
)
def test_what_a_snapshot_shows(move: Move, pods: list[Pod], expected: MoveState) -> None:
    """A snapshot tells how far each move is."""
    (after,) = observe_moves((move,), seen(*pods), LATER)
    assert after.state is expected


def test_a_lost_answer_ends() -> None:
    """A pod that stays unchanged long after the request was not evicted: the move is over, and was none."""
    (after,) = observe_moves((MOVE,), seen(OLD), NOW + ANSWER_TIMEOUT - timedelta(seconds=1))
    assert after.state is MoveState.PLANNED
    (after,) = observe_moves((MOVE,), seen(OLD), NOW + ANSWER_TIMEOUT)
    assert after.state is MoveState.REFUSED


@pytest.mark.parametrize("state", [MoveState.EVICTED, MoveState.PENDING])
def test_what_never_comes_is_lost(state: MoveState) -> None:
    """A move whose replacement does not become Ready in time is lost."""
    pods = [new(ready=False)] if state is MoveState.PENDING else []
    move = moved(state, replacement="new" if pods else "")
    (after,) = observe_moves((move,), seen(*pods), NOW + REPLACEMENT_TIMEOUT)
    assert after.state is MoveState.LOST


def test_one_replacement_serves_one_move() -> None:
    """Two moves of one owner wait for two replacements."""
    moves = (moved(MoveState.EVICTED), moved(MoveState.EVICTED, uid="old2", pod="web-9"))
    after = observe_moves(moves, seen(new()), LATER)
    assert sorted(move.state for move in after) == [MoveState.EVICTED, MoveState.VERIFIED]


def test_a_stateful_replacement_keeps_its_name() -> None:
    """Of several new pods the one of the victim's name is its replacement."""
    pods = [
        new("a", name="web-5", created=LATER),
        new("b", name="web-0", created=LATER + timedelta(seconds=5), node="n1"),
    ]
    (after,) = observe_moves((moved(MoveState.EVICTED),), seen(*pods), LATER)
    assert after.replacement == "b"


def test_the_last_few_ended_moves_are_stored() -> None:
    """Ended moves are forgotten, all but the last."""
    moves = tuple(moved(MoveState.VERIFIED, uid=str(number)) for number in range(ENDED_MOVES_STORED + 5))
    remaining = observe_moves((*moves, MOVE), seen(OLD), LATER)
    assert [move.uid for move in remaining] == [str(number) for number in range(5, ENDED_MOVES_STORED + 5)] + ["old"]


def test_what_we_evicted_is_terminating() -> None:
    """A view that lags does not bring a pod back that we have evicted, nor one whose answer was lost."""
    for state in (MoveState.PLANNED, MoveState.EVICTED, MoveState.PENDING):
        assert overlay_moves(seen(OLD), [moved(state)]).pods[0].terminating
    snapshot = seen(OLD)
    assert overlay_moves(snapshot, [moved(MoveState.REFUSED)]) is snapshot
    assert overlay_moves(snapshot, []) is snapshot
