"""The loop tells of limits once, whatever it does meanwhile, and shows them in the metrics only while it leads."""

from collections import Counter
from collections.abc import ItemsView
from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, InForce, Leading, LoopRequest, LoopState, Publish
from rebalancer.model.events import EventReason
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Memory, make_token
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import LimitAction, Policy
from tests.assessment.limits.test_evaluate import NETEASE
from tests.assessment.redis import machines, redis
from tests.reports import rows_of

NODES = machines("abc", 2)
SPREAD = redis(NODES, [("a1", "b1"), ("b2", "c1"), ("c2", "a2")], zones="abc")
CROWDED = redis(NODES, [("a1", "b1"), ("a1", "c1"), ("a1", "c2")], zones="abc")
SKEWED = redis(NODES, [("a1", "b1"), ("a1", "c1"), ("a1", "a1")], zones="abc")
EXCLUDED = Labels({"rebalancer.dev/exclude": "true"})
NOW = SPREAD.taken_at


def alerting(policy: Policy) -> Policy:
    """Return a policy that only tells of limits: planning a thousand times is another test's matter."""
    groups = [
        group.model_copy(
            update={"limits": tuple(limit.model_copy(update={"action": LimitAction.ALERT}) for limit in group.limits)}
        )
        for group in policy.groups
    ]
    return policy.model_copy(update={"groups": tuple(groups)})


ALERTING = alerting(NETEASE)


def leading(memory: Memory | None = None) -> LoopState:
    state = LoopState(in_force=InForce(policy=ALERTING, policy_since=NOW))
    return step(state, Leading(leads=True, memory=memory or Memory()), NOW)[0]


def cycle(state: LoopState, snapshot: Snapshot, number: int) -> tuple[LoopState, tuple[LoopRequest, ...]]:
    now = NOW + timedelta(minutes=number)
    return step(state, CycleDue(snapshot=replace(snapshot, taken_at=now)), now)


def reasons(requests: tuple[LoopRequest, ...]) -> Counter[str]:
    return Counter(request.event.reason for request in requests if isinstance(request, Publish))


def test_a_thousand_cycles_tell_a_violation_once() -> None:
    """Three owners and three pods, in the first cycle; nothing in the 999 after it; and once that it is over."""
    state, requests = cycle(leading(), CROWDED, 0)
    assert reasons(requests) == {EventReason.SHARE_LIMIT_VIOLATED: 6}
    later: Counter[str] = Counter()
    for number in range(1, 1_000):
        state, requests = cycle(state, CROWDED, number)
        later += reasons(requests)
    assert not later
    state, requests = cycle(state, SPREAD, 1_000)
    assert reasons(requests) == {EventReason.SHARE_LIMIT_RECOVERED: 3}


def test_the_next_leader_does_not_tell_again_what_it_knows() -> None:
    """Tokens of what is violated are in the memory that it takes over."""
    first, _ = cycle(leading(), CROWDED, 0)
    assert first.cycle is not None
    names = [limit.name for limit in first.cycle.assessment.limits if limit.state is not State.SATISFIED]
    seen = tuple((make_token(name), NOW) for name in names)
    _, requests = cycle(leading(Memory(seen=seen)), CROWDED, 1)
    assert not reasons(requests)


def test_a_cycle_leaves_figures_of_every_limit() -> None:
    """The share as a fraction of one, the domain that is worst, the key in one label."""
    state, _ = cycle(leading(), CROWDED, 0)
    assert state.cycle is not None
    shares = {limit: (group, *rest, share) for (group, limit, *rest), share in of_limits(state, "share_ratio")}
    assert shares.keys() - {"R3-R6"} == {"R2-three-shards", "R7-three-shards", "R8", "every-az"}
    assert shares["R2-three-shards"] == ("redis", "cache", "one", "kubernetes.io/hostname", 0.5)
    headrooms = {limit: headroom for (_, limit, *_), headroom in of_limits(state, "headroom")}
    assert headrooms["R2-three-shards"] == -1
    states = {limit: (severity, now) for (_, limit, *_, severity, now), _ in of_limits(state, "state")}
    assert states["R2-three-shards"][1] == State.VIOLATED
    assert states["R7-three-shards"][0] == "critical"
    assert {limit: worst for (_, limit, *_, worst), _ in of_limits(state, "worst_domain")}["R2-three-shards"] == "a1"


def of_limits(state: LoopState, name: str) -> ItemsView[tuple[str, ...], float]:
    return rows_of(state, f"rebalancer_limit_{name}").items()


Seen = tuple[str, str | None, Counter[str]]
"""What a cycle shows of a limit: its state, its worst domain, and the events about it."""


def test_turning_unfixable_and_back_publishes_no_event() -> None:
    """The limit is broken all the while: pods are excluded from moving, and no longer are."""
    state = step(
        LoopState(in_force=InForce(policy=NETEASE, policy_since=NOW)), Leading(leads=True, memory=Memory()), NOW
    )[0]
    limit = "R7-three-shards"
    seen: list[Seen] = []
    excluded = replace(SKEWED, pods=tuple(structs.replace(pod, annotations=EXCLUDED) for pod in SKEWED.pods))
    for number, snapshot in ((10, excluded), (20, SKEWED), (30, excluded), (40, SKEWED)):  # minutes
        state, requests = cycle(state, snapshot, number)
        assert state.cycle is not None
        (now,) = (labels[-1] for labels, _ in of_limits(state, "state") if labels[1] == limit)
        worst = next((labels[-1] for labels, _ in of_limits(state, "worst_domain") if labels[1] == limit), None)
        reported = [
            request.event for request in requests if isinstance(request, Publish) and f"/{limit}:" in request.event.note
        ]
        seen.append((now, worst, Counter(event.reason for event in reported)))
    held: Seen = (State.UNFIXABLE, "a", Counter())
    free: Seen = (State.VIOLATED, "a", Counter())
    assert seen == [(State.UNFIXABLE, "a", Counter({EventReason.SHARE_LIMIT_VIOLATED: 7})), free, held, free]
