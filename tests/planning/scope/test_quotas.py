"""A quota is spent step by step: what replacements use more than what they replace adds up over a plan."""

from dataclasses import replace

from rebalancer.creation.quotas import QuotaExceeded
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.moves import Memory, MoveState
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import planned
from tests.planning.test_uncertain_requests import resized
from tests.tracking.build import move

WRITTEN, NOW_REQUESTED = 1000, 200
MORE = WRITTEN - NOW_REQUESTED


def two_lopsided(*, free: int, pods_too_many: int = 0) -> Snapshot:
    """Return two workloads, each one eviction from 2/1/1, whose pods were made smaller in place."""
    builder = a_cluster("abc")
    for name in ("one", "two"):
        builder.deployment(name, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1})
    snapshot = resized(builder.snapshot(), written=WRITTEN, now=NOW_REQUESTED, generation=2)
    used = 8 * NOW_REQUESTED
    quota = ResourceQuota(
        namespace="default",
        name="q",
        hard=(("pods", 8 - pods_too_many), ("requests.cpu", used + free)),
        used=(("pods", 8), ("requests.cpu", used)),
    )
    return replace(snapshot, quotas=(quota,))


def waits(plan: Plan) -> list[QuotaExceeded]:
    return [one.refusal for one in plan.fates.kept if isinstance(one.refusal, QuotaExceeded)]


def test_with_room_for_both_both_go() -> None:
    assert len(planned(two_lopsided(free=2 * MORE)).fates.going) == 2


def test_with_room_for_one_the_second_waits_and_the_quota_is_named() -> None:
    plan = planned(two_lopsided(free=2 * MORE - 1))
    assert len(plan.fates.going) == 1
    (refusal,) = waits(plan)
    assert refusal.reason is Reason.CANNOT_CREATE
    assert refusal.planned == MORE
    assert "and 800m planned" in str(refusal)


def test_with_room_for_none_nothing_goes() -> None:
    plan = planned(two_lopsided(free=MORE - 1))
    assert (plan.fates.going, plan.fates.kept) == ((), ())


def test_an_exceeded_quota_refuses_whatever_replacements_use() -> None:
    assert planned(two_lopsided(free=10 * MORE, pods_too_many=1)).fates.going == ()


def test_a_move_that_is_under_way_may_still_add_as_much() -> None:
    """While its replacement is not made, the quota's status says nothing of it."""
    snapshot = two_lopsided(free=2 * MORE)
    under_way = Memory(moves=(move("gone", snapshot.taken_at, state=MoveState.EVICTED),))
    plan = planned(snapshot, memory=under_way)
    assert len(plan.fates.going) == 1
    assert [refusal.planned for refusal in waits(plan)] == [2 * MORE]
