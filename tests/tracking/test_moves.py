"""The life of a move: every transition, and nothing but those."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.model.moves import Memory, Move, MoveState, Reference, Target
from rebalancer.model.pods import OwnerReference, Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.tracking.moves import (
    ANSWER_TIMEOUT,
    DEFERRED_MOVES_STORED,
    ENDED_MOVES_STORED,
    REPLACEMENT_TIMEOUT,
    TRANSITIONS,
    MoveEvent,
    advance_move,
    find_undecided,
    note_remaining,
    observe_moves,
    overlay_moves,
)
from tests.scheduling.build import HOSTNAME, NOW, node
from tests.tracking.build import move

OWNER = OwnerReference(group="apps", kind="ReplicaSet", name="web", uid="owner")
LATER = NOW + timedelta(seconds=30)
TO_N2 = (Target(HOSTNAME, ("n2",)),)
MOVE = move("old", NOW, namespace="shop", pod="web-0", node="n1", owner_uid="owner", replicas=2, targets=TO_N2)
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
    return structs.replace(OLD, uid=uid, **fields)


SIBLING = structs.replace(OLD, uid="sibling", name="web-sibling", node="n2")
WEB = Workload(group="apps", kind="ReplicaSet", namespace="shop", name="web", uid="owner", replicas=2, created=NOW)


def seen(*pods: Pod, owner: Workload | None = WEB) -> Snapshot:
    """Return a snapshot with one pod that nobody evicts, and with these."""
    workloads = () if owner is None else (owner,)
    return Snapshot(taken_at=LATER, nodes=(node("n1"), node("n2")), pods=(SIBLING, *pods), workloads=workloads)


BEFORE = seen(OLD)


def moved(state: MoveState, **fields: object) -> Move:
    return structs.replace(MOVE, state=state, **fields)


@pytest.mark.parametrize("state", MoveState)
@pytest.mark.parametrize("what", MoveEvent)
def test_the_table_is_all(state: MoveState, what: MoveEvent) -> None:
    """What the table does not name changes nothing, and what is over stays over, but for a deferred eviction."""
    after = advance_move(moved(state, deferred_until=LATER), what, LATER)
    assert after.state == TRANSITIONS.get((state, what), state)
    if state.over:
        assert advance_move(moved(state), what, LATER).state is state


def deferred(until: datetime, **fields: object) -> Move:
    """Return a move that admission control refused with code 429 and a wait until then."""
    return moved(MoveState.REFUSED, deferred_until=until, **fields)


@pytest.mark.parametrize(
    ("move", "pods", "expected"),
    [
        pytest.param(deferred(LATER), [OLD], MoveState.REFUSED, id="the pod is there"),
        pytest.param(deferred(LATER), [structs.replace(OLD, deleted=NOW)], MoveState.EVICTED, id="it is going"),
        pytest.param(deferred(LATER), [], MoveState.EVICTED, id="it is gone"),
        pytest.param(deferred(LATER), [new()], MoveState.VERIFIED, id="its replacement is Ready where predicted"),
        pytest.param(deferred(LATER), [new(node="n1")], MoveState.INEFFECTIVE, id="its replacement is Ready elsewhere"),
        pytest.param(moved(MoveState.REFUSED), [new()], MoveState.REFUSED, id="refused for good, deleted by another"),
    ],
)
def test_an_eviction_that_is_refused_for_the_moment_may_be_carried_out(
    move: Move, pods: list[Pod], expected: MoveState
) -> None:
    """By whoever refused it, as KubeVirt does: the pod goes before the next request, and is followed to its end."""
    (after,) = observe_moves((move,), BEFORE, seen(*pods), LATER)
    assert after.state is expected


def test_a_pod_that_outlasts_the_deferral_is_not_waited_for() -> None:
    """Deleted by somebody after that time, it is no move of ours; the first snapshot after that time counts."""
    move = deferred(LATER)
    (late,) = observe_moves((move,), BEFORE, seen(), LATER + timedelta(minutes=1))
    assert late.state is MoveState.EVICTED
    (still_there,) = observe_moves((move,), BEFORE, seen(OLD), LATER)
    assert (still_there.state, still_there.deferred_until) == (MoveState.REFUSED, None)
    (after,) = observe_moves((still_there,), seen(OLD), seen(), LATER)
    assert after.state is MoveState.REFUSED


def test_deferred_evictions_are_stored_however_many_moves_ended_since() -> None:
    """They are followed once their pods go; those that are refused for good are forgotten."""
    older = (deferred(LATER), moved(MoveState.REFUSED, uid="plain"))
    moves = (*older, *(moved(MoveState.VERIFIED, uid=f"{number}") for number in range(ENDED_MOVES_STORED)))
    after = observe_moves(moves, BEFORE, seen(OLD), NOW)
    assert {move.uid for move in after} == {"old", *(f"{number}" for number in range(ENDED_MOVES_STORED))}
    many = tuple(deferred(LATER, uid=f"deferred-{number}") for number in range(DEFERRED_MOVES_STORED + 1))
    there = tuple(structs.replace(OLD, uid=move.uid, name=move.uid) for move in many)
    stored = {move.uid for move in observe_moves((*many, *moves[2:]), BEFORE, seen(*there), NOW)}
    assert stored == {move.uid for move in (*many[1:], *moves[2:])}, "the oldest of too many is forgotten"


@pytest.mark.parametrize(
    ("move", "pods", "expected"),
    [
        pytest.param(MOVE, [OLD], MoveState.PLANNED, id="no answer yet, the pod is there"),
        pytest.param(MOVE, [structs.replace(OLD, deleted=LATER)], MoveState.EVICTED, id="the pod is going"),
        pytest.param(MOVE, [], MoveState.EVICTED, id="the pod is gone"),
        pytest.param(
            moved(MoveState.EVICTED), [new(ready=False, node=None)], MoveState.PENDING, id="a replacement waits"
        ),
        pytest.param(moved(MoveState.EVICTED), [new()], MoveState.VERIFIED, id="Ready where it was predicted"),
        pytest.param(moved(MoveState.EVICTED), [new(node="n1")], MoveState.INEFFECTIVE, id="Ready elsewhere"),
        pytest.param(moved(MoveState.EVICTED), [new(node="gone")], MoveState.INEFFECTIVE, id="Ready on a lost node"),
        pytest.param(
            moved(MoveState.EVICTED),
            [new(created=NOW - timedelta(hours=1))],
            MoveState.VERIFIED,
            id="Ready, created by a server whose clock is an hour behind",
        ),
        pytest.param(
            moved(MoveState.EVICTED),
            [new(created=NOW + timedelta(hours=1))],
            MoveState.VERIFIED,
            id="Ready, created by a server whose clock is an hour ahead",
        ),
        pytest.param(
            moved(MoveState.EVICTED), [new(deleted=LATER)], MoveState.EVICTED, id="a replacement that goes again"
        ),
        pytest.param(MOVE, [new()], MoveState.VERIFIED, id="several transitions at once"),
    ],
)
def test_what_a_snapshot_shows(move: Move, pods: list[Pod], expected: MoveState) -> None:
    """A snapshot tells how far each move is."""
    (after,) = observe_moves((move,), BEFORE, seen(*pods), LATER)
    assert after.state is expected


def test_a_lost_answer_ends() -> None:
    """A pod that stays unchanged long after the request was not evicted: the move is over, and was none."""
    (after,) = observe_moves((MOVE,), BEFORE, seen(OLD), NOW + ANSWER_TIMEOUT - timedelta(seconds=1))
    assert after.state is MoveState.PLANNED
    (after,) = observe_moves((MOVE,), BEFORE, seen(OLD), NOW + ANSWER_TIMEOUT)
    assert after.state is MoveState.REFUSED


@pytest.mark.parametrize("state", [MoveState.EVICTED, MoveState.PENDING])
def test_what_never_comes_is_lost(state: MoveState) -> None:
    """A move whose replacement does not become Ready in time is lost."""
    pods = [new(ready=False)] if state is MoveState.PENDING else []
    move = moved(state, replacement="new" if pods else "")
    (after,) = observe_moves((move,), BEFORE, seen(*pods), NOW + REPLACEMENT_TIMEOUT)
    assert after.state is MoveState.LOST


def test_one_replacement_serves_one_move() -> None:
    """Two moves of one owner wait for two replacements."""
    moves = (moved(MoveState.EVICTED), moved(MoveState.EVICTED, uid="old2", pod="web-9"))
    after = observe_moves(moves, BEFORE, seen(new(), owner=structs.replace(WEB, replicas=3)), LATER)
    assert sorted(move.state for move in after) == [MoveState.EVICTED, MoveState.VERIFIED]


def test_a_stateful_replacement_keeps_its_name() -> None:
    """Only a pod of the victim's name is its replacement, whatever else is new and whoever has begun to lead."""
    other = new("a", name="web-5", created=LATER)
    own = new("b", name="web-0", created=LATER + timedelta(seconds=5), node="n2")
    evicted = moved(MoveState.EVICTED, workload=Reference("shop", "StatefulSet", "web"))
    three = structs.replace(WEB, kind="StatefulSet", replicas=3)
    for before in (BEFORE, None):
        (after,) = observe_moves((evicted,), before, seen(other, owner=three), LATER)
        assert after.state is MoveState.EVICTED
        (after,) = observe_moves((evicted,), before, seen(other, own, owner=three), LATER)
        assert (after.state, after.replacement) == (MoveState.VERIFIED, "b")


def test_the_last_few_ended_moves_are_stored() -> None:
    """Ended moves are forgotten, all but the last."""
    moves = tuple(moved(MoveState.VERIFIED, uid=str(number)) for number in range(ENDED_MOVES_STORED + 5))
    remaining = observe_moves((*moves, MOVE), BEFORE, seen(OLD), LATER)
    assert [move.uid for move in remaining] == [str(number) for number in range(5, ENDED_MOVES_STORED + 5)] + ["old"]


@pytest.mark.parametrize("state", sorted(state for state in MoveState if state.over))
def test_an_ended_move_is_stored_as_long_as_the_watch_shows_its_pod(state: MoveState) -> None:
    """Else the pod would be a candidate again; but for one that was refused, and not for ever.

    One that is ineffective is stored besides for its namespace, which waits.
    """
    later = tuple(moved(MoveState.VERIFIED, uid=str(number)) for number in range(ENDED_MOVES_STORED))

    def is_stored(snapshot: Snapshot, **fields: object) -> bool:
        return MOVE.uid in {
            move.uid for move in observe_moves((moved(state, **fields), *later), BEFORE, snapshot, LATER)
        }

    assert is_stored(seen(OLD)) is (state is not MoveState.REFUSED)
    limit = ANSWER_TIMEOUT if state is MoveState.GONE else REPLACEMENT_TIMEOUT
    assert not is_stored(seen(OLD), changed_at=LATER - limit)
    assert is_stored(seen(OLD), changed_at=LATER - limit + timedelta(seconds=1)) is (state is not MoveState.REFUSED)
    assert is_stored(seen()) is (state is MoveState.INEFFECTIVE)


def test_what_we_evicted_is_terminating() -> None:
    """A view that lags does not bring a pod back that we have evicted, nor one whose answer was lost.

    Neither does the view of a new leader for whose moves another one has seen the end.
    """
    for state in set(MoveState) - {MoveState.REFUSED}:
        assert overlay_moves(seen(OLD), [moved(state)]).pod["old"].terminating
    snapshot = seen(OLD)
    assert overlay_moves(snapshot, [moved(MoveState.REFUSED)]) is snapshot
    long_ago = LATER - REPLACEMENT_TIMEOUT
    assert overlay_moves(snapshot, [moved(MoveState.VERIFIED, changed_at=long_ago)]) is snapshot, "etcd was restored"
    assert overlay_moves(snapshot, [moved(MoveState.PENDING, changed_at=long_ago)]).pod["old"].terminating
    assert overlay_moves(snapshot, []) is snapshot


def test_a_pod_that_was_lost_after_the_eviction_has_another_replacement() -> None:
    """Of several new pods the oldest replaces the evicted one."""
    later = new("b", created=LATER + timedelta(seconds=20), name="web-2", node="n1")
    (after,) = observe_moves((moved(MoveState.EVICTED),), BEFORE, seen(new("a"), later), LATER)
    assert (after.state, after.replacement) == (MoveState.VERIFIED, "a")


@pytest.mark.parametrize("hours", [-1, 0, 1], ids=["created before the sibling", "at the same time", "after it"])
def test_the_first_snapshot_of_a_new_leader(hours: int) -> None:
    """Without a snapshot before it, the owner's counts say how many replacements exist: the youngest pods."""
    move = moved(MoveState.EVICTED)
    (after,) = observe_moves((move,), None, seen(), LATER)
    assert after.state is MoveState.EVICTED, "one pod is missing still"
    replacement = new(created=SIBLING.created + timedelta(hours=hours))
    (after,) = observe_moves((move,), None, seen(replacement), LATER)
    assert after.state.over
    if hours > 0:
        assert (after.state, after.replacement) == (MoveState.VERIFIED, "new")


def test_a_new_leader_and_an_owner_that_was_scaled() -> None:
    """The counts say nothing then: no pod is taken for a replacement, and the move has no verdict."""
    smaller = structs.replace(WEB, replicas=1)
    (after,) = observe_moves((moved(MoveState.EVICTED),), None, seen(owner=smaller), LATER)
    assert after.state is MoveState.OVERTAKEN
    larger = structs.replace(WEB, replicas=3)
    (after,) = observe_moves((moved(MoveState.EVICTED),), None, seen(new(), owner=larger), LATER)
    assert after.state is MoveState.EVICTED


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(None, id="gone"),
        pytest.param(structs.replace(WEB, deleted=LATER), id="being deleted"),
        pytest.param(structs.replace(WEB, replicas=1), id="scaled down, or replaced by a rollout"),
    ],
)
@pytest.mark.parametrize("state", [MoveState.EVICTED, MoveState.PENDING])
def test_an_owner_that_wants_no_replacement(owner: Workload | None, state: MoveState) -> None:
    """The move ends at once, and says nothing about the prediction."""
    move = moved(state, replacement="was deleted" if state is MoveState.PENDING else "")
    (after,) = observe_moves((move,), BEFORE, seen(owner=owner), LATER)
    assert after.state is MoveState.OVERTAKEN


def test_a_victim_that_the_watch_still_shows() -> None:
    """In a view that lags the owner has neither the victim nor a replacement: what is new came before the eviction."""
    for before in (BEFORE, None):
        for pods in ((OLD,), (OLD, new())):
            (after,) = observe_moves((moved(MoveState.EVICTED),), before, seen(*pods), LATER)
            assert after.state is MoveState.EVICTED


def test_a_watch_that_lags_overtakes_nothing() -> None:
    """A smaller owner ends the move only when its victim is seen going: until then it overlays the victim."""
    smaller = structs.replace(WEB, replicas=1)
    (after,) = observe_moves((moved(MoveState.EVICTED),), BEFORE, seen(OLD, owner=smaller), LATER)
    assert after.state is MoveState.EVICTED
    going = structs.replace(OLD, deleted=LATER)
    (after,) = observe_moves((moved(MoveState.EVICTED),), BEFORE, seen(going, owner=smaller), LATER)
    assert after.state is MoveState.OVERTAKEN


@pytest.mark.parametrize("first", ["a", "z"])
def test_a_new_leader_sees_every_replacement_of_an_owner(first: str) -> None:
    """The youngest pods are the replacements of all its moves, however pods of the same second are sorted."""
    moves = tuple(moved(MoveState.EVICTED, uid=uid, replicas=3) for uid in ("old", "old2"))
    pods = (new(first, name="web-x"), new("m", name="web-y"))
    after = observe_moves(moves, None, seen(*pods, owner=structs.replace(WEB, replicas=3)), LATER)
    assert [move.state for move in after] == [MoveState.VERIFIED] * 2
    assert {move.replacement for move in after} == {first, "m"}


@pytest.mark.parametrize("gone", [[], [new(deleted=LATER)]], ids=["gone", "going"])
def test_a_replacement_that_is_deleted_before_it_is_ready(gone: list[Pod]) -> None:
    """The next one is followed, and its time began with the eviction."""
    move = moved(MoveState.PENDING, replacement="new")
    (after,) = observe_moves((move,), BEFORE, seen(*gone), LATER)
    assert (after.state, after.replacement, after.changed_at) == (MoveState.EVICTED, "", NOW)
    (after,) = observe_moves((move,), BEFORE, seen(*gone, new("next", name="web-2")), LATER)
    assert (after.state, after.replacement) == (MoveState.VERIFIED, "next")


def test_a_clock_that_was_set_back() -> None:
    """Times in the future count as now, so that a move does not stay in flight for the difference."""
    ahead = NOW + timedelta(hours=1)
    move = moved(MoveState.EVICTED, requested_at=ahead, changed_at=ahead)
    (after,) = observe_moves((move,), BEFORE, seen(), LATER)
    assert (after.requested_at, after.changed_at) == (LATER, LATER)
    (after,) = observe_moves((after,), BEFORE, seen(), LATER + REPLACEMENT_TIMEOUT)
    assert after.state is MoveState.LOST


def test_a_planned_move_whose_pod_a_new_leader_has_found_counts_as_not_carried_out() -> None:
    """Its pod is there and nothing is in flight; a move of another pod, or of another state, stays as it is."""
    other = moved(MoveState.PLANNED, uid="other", unexecuted=True)
    evicted = moved(MoveState.EVICTED, uid="evicted")
    memory = note_remaining(Memory(moves=(MOVE, other, evicted)), {"old", "evicted"})
    assert memory.moves == (moved(MoveState.PLANNED, unexecuted=True), structs.replace(MOVE, uid="other"), evicted)
    assert memory.unexecuted == memory.moves[:1]
    assert memory.in_flight == memory.moves[1:]
    assert overlay_moves(seen(OLD), memory.moves) == seen(OLD)
    assert note_remaining(memory, {"old"}).moves == memory.moves


@pytest.mark.parametrize(
    ("pods", "seconds", "state"),
    [
        pytest.param([OLD], 119, MoveState.PLANNED, id="the pod is there"),
        pytest.param([OLD], 120, MoveState.REFUSED, id="no request can arrive any more"),
        pytest.param([structs.replace(OLD, deleted=LATER)], 30, MoveState.EVICTED, id="carried out late"),
        pytest.param([], 30, MoveState.EVICTED, id="carried out late, the pod is gone"),
    ],
)
def test_an_unexecuted_move_is_followed_like_one_without_an_answer(
    pods: list[Pod], seconds: int, state: MoveState
) -> None:
    unexecuted = moved(MoveState.PLANNED, unexecuted=True)
    (after,) = observe_moves((unexecuted,), BEFORE, seen(*pods), NOW + timedelta(seconds=seconds))
    assert (after.state, after.unexecuted) == (state, state is MoveState.PLANNED)
    assert after.in_flight is (state is MoveState.EVICTED)


def test_an_unexecuted_move_holds_the_other_pods_of_its_workload_and_group() -> None:
    """Not its own pod, which two requests evict once, nor that of another such move, nor unrelated ones."""
    web, other = MOVE.workload, Reference("shop", "Deployment", "other")
    unexecuted = moved(MoveState.PLANNED, group="group", unexecuted=True)
    memory = Memory(moves=(unexecuted, structs.replace(unexecuted, uid="second")))
    assert find_undecided(memory, "old", web, "group") is None
    assert find_undecided(memory, "second", web, "group") is None
    assert find_undecided(memory, "new", web, "another group") is unexecuted
    assert find_undecided(memory, "new", other, "group") is unexecuted
    assert find_undecided(memory, "new", other, "another group") is None


@pytest.mark.parametrize(
    ("ready", "known"),
    [
        (NOW + timedelta(seconds=4), True),
        (LATER, True),
        (None, False),
        (NOW - timedelta(seconds=1), False),
        (LATER + timedelta(seconds=1), False),
    ],
)
@pytest.mark.parametrize("there", ["n2", "n1"])
def test_a_replacement_says_itself_when_it_was_ready(ready: datetime | None, known: bool, there: str) -> None:
    """A leader may see it long after. A time before the request, or to come, is of another clock."""
    evicted = structs.replace(MOVE, state=MoveState.EVICTED)
    (after,) = observe_moves((evicted,), BEFORE, seen(new(ready_since=ready, node=there)), LATER)
    assert after.state in {MoveState.VERIFIED, MoveState.INEFFECTIVE}
    assert (after.ready_at or None) == (ready if known else None)
    assert after.changed_at == LATER
