"""A replacement that landed elsewhere holds its namespace, and the refusal names the move."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from rebalancer.admission.misplaced import ReplacementMisplaced, misplaced_replacement
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import Rights
from rebalancer.model.losses import DomainLoss, LostNode
from rebalancer.model.moves import Memory, Move, MoveState, ObservedChange, Reference, StartWindow, Target
from rebalancer.model.reasons import Reason, ViolationCause
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.misplaced import MISPLACED_WAIT
from tests.admission.test_slow_start import NOW, SECOND, SNAPSHOT, admitted, causes, spaces, under_way, windows

WEB = Reference("team-0", "Deployment", "other")
TO_C = (Target(ZONE, ("c",)), Target(HOSTNAME, ("c-1", "c-2")))
LANDED = next(pod for pod in SNAPSHOT.pods if pod.node == "b-1")


def elsewhere(ago: timedelta = SECOND, **fields: object) -> Move:
    """Return a move of another workload of team-0 whose replacement became Ready so long ago, in zone b."""
    fields = {"state": MoveState.INEFFECTIVE, "workload": WEB, "targets": TO_C, "replacement": LANDED.uid, **fields}
    return under_way("x", "team-0", at=NOW - ago, **fields)


def test_it_stops_its_namespace_alone_for_ten_minutes() -> None:
    """All of its workloads wait; time alone ends it."""
    for ago, is_held in ((SECOND, True), (MISPLACED_WAIT - SECOND, True), (MISPLACED_WAIT, False)):
        admission = admitted(Memory(moves=(elsewhere(ago),)))
        assert bool(spaces(admission)["team-0"]) is not is_held
        assert spaces(admission)["team-1"] + spaces(admission)["team-2"]
        assert any(isinstance(cause, ReplacementMisplaced) for cause in causes(admission)) is is_held


def test_the_refusal_names_the_move_where_it_was_expected_where_it_is_and_when_it_ends() -> None:
    admission = admitted(Memory(moves=(elsewhere(),)))
    (refusal,) = (cause for cause in causes(admission) if isinstance(cause, ReplacementMisplaced))
    landed = (Target(ZONE, ("b",)), Target(HOSTNAME, ("b-1",)))
    until = NOW - SECOND + MISPLACED_WAIT
    assert refusal == ReplacementMisplaced(WEB, "x", TO_C, landed, until)
    assert (refusal.reason, refusal.end.at, refusal.passes) == (Reason.BACK_OFF, until, False)
    assert str(refusal) == (
        "the replacement of pod x of team-0/other (Deployment) was expected in zone c, node c-1, c-2 and became Ready "
        "in zone b, node b-1: a webhook or policy may change new pods of namespace team-0. Nothing is evicted in "
        f"namespace team-0 until {until:%H:%M:%SZ}"
    )


SINCE = elsewhere().requested_at


@pytest.mark.parametrize(
    ("cause", "subject", "at", "is_why"),
    [
        (ViolationCause.NODE_LOST, f"{ZONE}=c", SINCE, True),
        (ViolationCause.NODE_LOST, f"{ZONE}=c", NOW - SECOND, True),
        (ViolationCause.NODE_LOST, f"{ZONE}=a", NOW - SECOND, True),
        (ViolationCause.NODE_LOST, f"{ZONE}=c", SINCE - SECOND, False),
        (ViolationCause.NODE_LOST, f"{ZONE}=c", NOW, False),
        (ViolationCause.DOMAIN_RETURNED, f"{ZONE}=c", NOW - SECOND, False),
        (ViolationCause.NODE_LOST, "rack=c", NOW - SECOND, False),
    ],
)
def test_where_a_domain_has_lost_nodes_meanwhile_no_webhook_is_blamed(
    cause: ViolationCause, subject: str, at: datetime, is_why: bool
) -> None:
    """A loss before the request, or after the replacement was Ready, explains nothing."""
    memory = Memory(moves=(elsewhere(),), changes=(ObservedChange(cause, subject, at),))
    refusal = misplaced_replacement(elsewhere(), SNAPSHOT, memory)
    zone = subject.rpartition("=")[2]
    assert (f"zone b, node b-1: zone {zone} lost nodes meanwhile. Nothing is" in str(refusal)) is is_why
    assert ("webhook" in str(refusal)) is not is_why


def test_a_zone_that_is_still_lost_explains_it_also_where_it_loses_more() -> None:
    """Of a domain the last loss alone is among the changes; what is lost has the first one, too."""
    nodes = (LostNode("c-1", NOW - SECOND, 1), LostNode("c-2", NOW, 0))
    for since, is_why in ((0, True), (1, False)):
        loss = DomainLoss(key=ZONE, value="c", had=2, nodes=nodes[since:])
        assert bool(misplaced_replacement(elsewhere(), SNAPSHOT, Memory(lost=(loss,))).lost) is is_why


@pytest.mark.parametrize("gone", ["pod", "node", "label"])
def test_where_it_landed_may_not_be_known_any_more(gone: str) -> None:
    """The pod may be deleted since, its node too, or have no such label."""
    snapshot = SNAPSHOT
    if gone == "node":
        move = elsewhere()
        snapshot = replace(SNAPSHOT, nodes=tuple(node for node in SNAPSHOT.nodes if node.name != "b-1"))
    elif gone == "label":
        move = elsewhere(targets=(Target("rack", ("r1",)),))
    else:
        move = elsewhere(replacement="deleted")
    refusal = misplaced_replacement(move, snapshot, Memory())
    assert refusal.landed == ()
    assert "became Ready somewhere else: " in str(refusal)


def test_what_people_have_decided_is_said_first() -> None:
    """And a window of slow start begins anew there."""
    paused = admitted(Memory(moves=(elsewhere(),)), pause=Pause())
    assert {one.reason for one in paused.fates.kept} == {Reason.PAUSED}
    grown = (
        StartWindow(namespace="team-0", size=9, moved_at=NOW),
        StartWindow(namespace="team-1", size=9, moved_at=NOW),
    )
    after = windows(admitted(Memory(moves=(elsewhere(),), windows=grown)))
    assert "team-0" not in after or after["team-0"][0] < 9
    assert after["team-1"][0] == 9


def test_beneath_a_missing_right_it_ends_no_sooner() -> None:
    """In ten minutes nothing goes on where somebody has to grant a right first; before that is known, it may."""
    for missing, reason in (({"team-0": NOW}, Reason.FORBIDDEN), ({}, Reason.BACK_OFF)):
        rights = Rights(everywhere=False, granted=frozenset({"team-1", "team-2"}), missing=missing)
        admission = admitted(Memory(moves=(elsewhere(),)), rights=rights)
        kept = [fate for fate in admission.fates.kept if fate.eviction.pod.namespace == "team-0"]
        assert {fate.reason for fate in kept} == {reason}
