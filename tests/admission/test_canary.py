"""Canaries: the first moves of a workload are verified before its others go."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.admit import Admission
from rebalancer.admission.canary import CanaryUnverified, store_passed
from rebalancer.model.moves import NO_MEMORY, Memory, Move, MoveState, Reference, make_token
from rebalancer.model.reasons import Reason
from rebalancer.planning.plan import Plan
from rebalancer.policy import Budgets, Policy
from rebalancer.tracking.misplaced import MISPLACED_WAIT
from tests.admission.test_slow_start import NOW, PLAN, PLENTY, admitted, causes, needing, spaces
from tests.build import with_evictions
from tests.controller.simulated import eager
from tests.tracking.build import move

WEB = Reference("team-0", "Deployment", "web")
OWNER = next(one.owner_uid for one in PLAN.fates.going if one.pod.namespace == "team-0")
ALONE = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one.pod.namespace == "team-0"))


def ruled(canary: int) -> Policy:
    return eager(budgets=Budgets(**PLENTY, canary=canary))


def moved(uid: str, state: MoveState, *, at: int = 0, owner: str = OWNER) -> Move:
    """Return a move of the workload that changed so many seconds before, and for which its namespace has waited."""
    changed = NOW - MISPLACED_WAIT - timedelta(seconds=at)
    return structs.replace(move(uid, changed, namespace="team-0", state=state), owner_uid=owner)


def gone(canary: int, *moves: Move, plan: Plan = ALONE, passed: tuple[str, ...] = ()) -> Admission:
    return admitted(Memory(moves=moves, canaries=passed), made=plan, policy=ruled(canary))


@pytest.mark.parametrize("canary", [1, 2, 3])
def test_so_many_pods_of_each_workload_go_first(canary: int) -> None:
    admission = gone(canary, plan=PLAN)
    assert set(spaces(admission).values()) == {canary}
    assert {one.reason for one in admission.fates.kept} == {Reason.AWAITING_CANARY}
    assert CanaryUnverified(WEB, canary, 0) in causes(admission)


def test_without_canaries_all_go() -> None:
    assert len(gone(0).fates.going) == 4
    assert store_passed(Memory(moves=(moved("x", MoveState.VERIFIED),)), ALONE, 0) == ()


@pytest.mark.parametrize("state", [MoveState.PLANNED, MoveState.EVICTED, MoveState.PENDING])
def test_while_the_canary_moves_nothing_follows(state: MoveState) -> None:
    assert causes(gone(1, moved("x", state))) == {CanaryUnverified(WEB, 1, 0)}
    assert len(gone(2, moved("x", state)).fates.going) == 1


def test_after_the_verified_move_all_others_go() -> None:
    assert len(gone(1, moved("x", MoveState.VERIFIED)).fates.going) == 4
    assert len(gone(2, moved("x", MoveState.VERIFIED)).fates.going) == 1
    assert causes(gone(2, moved("x", MoveState.VERIFIED), moved("y", MoveState.PENDING))) == {
        CanaryUnverified(WEB, 2, 1)
    }


@pytest.mark.parametrize("state", [MoveState.LOST, MoveState.INEFFECTIVE])
def test_a_failed_move_asks_for_a_new_canary(state: MoveState) -> None:
    """Whether its predecessors were verified, or had passed long ago; one verified since has passed."""
    failed = moved("x", state, at=5)
    assert len(gone(1, failed).fates.going) == 1
    assert len(gone(1, moved("y", MoveState.VERIFIED, at=9), failed).fates.going) == 1
    assert len(gone(1, failed, passed=(make_token(OWNER),)).fates.going) == 1
    assert len(gone(1, failed, moved("y", MoveState.VERIFIED, at=1)).fates.going) == 4


def test_moves_of_another_owner_say_nothing() -> None:
    """A rollout makes a new ReplicaSet, whose pods may behave differently."""
    other = moved("x", MoveState.VERIFIED, owner="before")
    assert len(gone(1, other).fates.going) == 1


def test_that_a_canary_has_passed_outlives_its_move() -> None:
    """While the workload is under repair; afterwards it is forgotten."""
    token = (make_token(OWNER),)
    assert store_passed(Memory(moves=(moved("x", MoveState.VERIFIED),)), ALONE, 1) == token
    assert store_passed(Memory(canaries=token), ALONE, 1) == token
    assert len(gone(1, passed=token).fates.going) == 4
    nothing = with_evictions(ALONE, ())
    assert store_passed(Memory(canaries=token), nothing, 1) == ()
    assert store_passed(Memory(canaries=token, moves=(moved("x", MoveState.PENDING),)), nothing, 1) == token


def test_a_step_that_cannot_be_split_goes_whole_if_nothing_else_moves() -> None:
    """Then nothing of the workload follows before it is verified."""
    plan = with_evictions(needing(2, "team-0"), needing(2, "team-0").fates.going)
    plan = with_evictions(plan, tuple(one for one in plan.fates.going if one.pod.namespace == "team-0"))
    assert len(gone(1, plan=plan).fates.going) == 2
    assert not gone(1, moved("x", MoveState.PENDING), plan=plan).fates.going


def test_a_request_that_is_repeated_is_no_further_move() -> None:
    """The last leader had stored the eviction of the first pod; that one may go again, and nothing else."""
    first = ALONE.fates.going[0].pod
    stored = structs.replace(moved(first.uid, MoveState.PLANNED), unexecuted=True, group=ALONE.fates.going[0].group)
    assert [one.pod.uid for one in gone(1, stored).fates.going] == [first.uid]


@given(
    st.lists(st.sampled_from([state for state in MoveState if state is not MoveState.REFUSED]), max_size=6),
    st.integers(1, 3),
)
def test_fewer_than_the_canaries_are_out_until_they_are_verified(states: list[MoveState], canary: int) -> None:
    """By the definition, for a workload with any moves, of which the last changed last."""
    moves = [moved(str(index), state, at=len(states) - index) for index, state in enumerate(states)]
    since = states
    for index, state in enumerate(states):
        if state in {MoveState.LOST, MoveState.INEFFECTIVE}:
            since = states[index + 1 :]
    verified = since.count(MoveState.VERIFIED)
    out = sum(not state.over for state in states)
    expected = 4 if verified >= canary else max(0, canary - verified - out)
    assert len(gone(canary, *moves).fates.going) == expected


def test_the_default_stores_nothing() -> None:
    assert admitted(NO_MEMORY).fates.going
    assert Budgets().canary == 0
