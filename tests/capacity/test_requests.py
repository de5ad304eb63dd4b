"""The life of a request for capacity: when it is ready, when it ends, and what that is held against."""

from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.capacity.requests import Observation, Progress, Result, advance_requests, find_wait
from rebalancer.model.labels import Labels
from rebalancer.model.moves import CapacityRequest, CapacityState, DomainName, Memory, Reference
from rebalancer.model.placeholders import PLACEHOLDER_LABEL, REQUEST_LABEL
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.planning.plan import Plan
from rebalancer.policy import Capacity
from rebalancer.simulator import START, ZONE

RULES = Capacity(timeout=timedelta(minutes=10), settle=timedelta(seconds=30))
IN_C = DomainName(ZONE, "c")
NAMES = ("placeholder-1", "placeholder-2")
REQUEST = CapacityRequest(
    token="t", workloads=(Reference("shop", "Deployment", "web"),), domains=(IN_C,), placeholders=NAMES, since=START
)
READY = structs.replace(REQUEST, state=CapacityState.READY, nodes=("c-1",))
EMPTY = Plan(made_at=START, expires_at=START, policy_hash="")


def placeholder(name: str, *, running_since: timedelta | None) -> Pod:
    running = running_since is not None
    return Pod(
        namespace=RULES.namespace,
        name=f"{name}-x",
        uid=name,
        labels=Labels({REQUEST_LABEL: "t", PLACEHOLDER_LABEL: name}),
        node="c-1" if running else None,
        phase=PodPhase.RUNNING if running else PodPhase.PENDING,
        ready=running,
        ready_since=START + running_since if running_since is not None else None,
        created=START,
    )


def advance(request: CapacityRequest, after: timedelta, *running_since: timedelta | None, **fields: object) -> Progress:
    """Advance a request by what is seen of its placeholders: since when each has run, None if it waits."""
    held = [placeholder(name, running_since=since) for name, since in zip(NAMES, running_since, strict=False)]
    seen = Observation(now=START + after, held=held, jobs=frozenset(NAMES), plan=EMPTY)
    return advance_requests(Memory(capacity=(request,)), structs.replace(seen, **fields), RULES)


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.mark.parametrize(
    ("after", "since", "is_ready"),
    [
        (40 * SECOND, (SECOND, 10 * SECOND), True),
        (39 * SECOND, (SECOND, 10 * SECOND), False),
        (MINUTE, (SECOND, None), False),
    ],
)
def test_a_request_is_ready_once_all_placeholders_have_run_long_enough(
    after: timedelta, since: tuple[timedelta | None, ...], is_ready: bool
) -> None:
    progress = advance(REQUEST, after, *since)
    assert [request.state is CapacityState.READY for request in progress.requests] == [is_ready]
    assert [change.result for change in progress.changes] == ([Result.READY] if is_ready else [])
    if is_ready:
        assert progress.requests[0].nodes == ("c-1",)


@pytest.mark.parametrize(
    ("request_", "after", "since", "fields", "result", "message"),
    [
        (
            REQUEST,
            10 * MINUTE,
            (None, None),
            {"reported": {"t": "karpenter: limit"}},
            Result.TIMEOUT,
            "karpenter: limit",
        ),
        (REQUEST, MINUTE, (None, None), {"refused": {"t": "exceeded quota"}}, Result.REFUSED, "exceeded quota"),
        (REQUEST, MINUTE, (None, None), {"jobs": frozenset(NAMES[:1])}, Result.REFUSED, "Job placeholder-2 is gone"),
        (READY, MINUTE, (SECOND, None), {}, Result.REFUSED, "placeholder-2 lost its node"),
        (READY, 30 * MINUTE, (SECOND, SECOND), {}, Result.TIMEOUT, "took more than 30m"),
        (READY, MINUTE, (SECOND, SECOND), {}, None, "the repair is done"),
        (REQUEST, MINUTE, (None, None), {"ending": "paused"}, None, "paused"),
    ],
)
def test_a_request_ends(
    request_: CapacityRequest,
    after: timedelta,
    since: tuple[timedelta | None, ...],
    fields: dict[str, object],
    result: Result | None,
    message: str,
) -> None:
    """With its result and message; what people decide is not held against the domain."""
    progress = advance(request_, after, *since, **fields)
    (change,) = progress.changes
    assert not progress.requests
    assert change.result is result
    assert message in change.message
    assert len(progress.attempts) == (0 if "ending" in fields else 1)


def test_each_attempt_doubles_the_wait_and_a_day_forgets_it() -> None:
    memory = Memory()
    for times, wait in ((1, 10), (2, 20), (3, 40)):
        progress = advance_requests(
            structs.replace(memory, capacity=(READY,)),
            Observation(now=START + MINUTE, held=(), jobs=frozenset(), plan=EMPTY),
            RULES,
        )
        memory = Memory(capacity_attempts=progress.attempts)
        (attempt,) = progress.attempts
        assert attempt.times == times
        waiting = find_wait(memory, "t", IN_C, START + MINUTE, RULES.timeout)
        assert waiting is not None
        assert waiting[1] == wait * MINUTE
    assert find_wait(memory, "t", IN_C, START + 41 * MINUTE, RULES.timeout) is None
    assert find_wait(memory, "other", IN_C, START + MINUTE, RULES.timeout) is None
    later = Observation(now=START + timedelta(days=2), held=(), jobs=frozenset(), plan=EMPTY)
    assert not advance_requests(memory, later, RULES).attempts
