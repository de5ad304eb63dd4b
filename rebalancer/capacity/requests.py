"""The life of a request for capacity: requested, ready, ended. A pure function of the memory and an observation.

    requested --all placeholders ran for capacity.settle--> ready --the repair is done--> ended
        |                                                     |
        +--timeout, a placeholder is gone, not allowed--------+--> ended: all placeholders are released

A request that failed by itself is repeated after a wait that doubles each time. A request that ended because of a pause
or a new policy does not count against the domain.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.moves import CapacityAttempt, CapacityRequest, CapacityState, DomainName, Memory
from rebalancer.model.placeholders import lifetime, placeholder_name
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_duration
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Capacity

_PASSING: Final = frozenset(
    {
        Reason.BLOCKED_BY_BUDGET,
        Reason.EVICTED_BY_OTHERS,
        Reason.GROUP_IN_FLIGHT,
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.NODE_SETTLING,
        Reason.NODE_LEAVING,
        Reason.TOO_YOUNG,
        Reason.ARRIVING,
        Reason.STARTING,
    }
)
"""Reasons for waits that often end by themselves."""

_MEMORY: Final = timedelta(hours=24)
"""How long an attempt counts."""

_MOST_DOUBLED: Final = 6
_MESSAGE: Final = 300


class Result(StrEnum):
    """How a request went; also the label of `rebalancer_capacity_requests_total`."""

    READY = "ready"
    TIMEOUT = "timeout"
    REFUSED = "refused"


class RequestChange(Struct, frozen=True, kw_only=True):
    """How a request changed in a cycle; `result` is None if it ended without its own success or failure."""

    request: CapacityRequest
    result: Result | None
    message: str = ""


class Progress(Struct, frozen=True, kw_only=True):
    """The requests that go on, the attempts to store, and what has changed."""

    requests: tuple[CapacityRequest, ...] = ()
    attempts: tuple[CapacityAttempt, ...] = ()
    changes: tuple[RequestChange, ...] = ()


class Observation(Struct, frozen=True, kw_only=True):
    """A cycle's view of the requests."""

    now: datetime
    plan: Plan
    held: Sequence[Pod] = ()
    """The placeholders' pods."""
    jobs: Collection[str] = ()
    """The names of the placeholders' Jobs."""
    may_begin: bool = True
    """False for a command, which only reads."""
    ending: str = ""
    """Why no request may go on, "" if they may."""
    refused: Mapping[str, str] = {}
    """Messages of the API server about Jobs that it did not create, by token."""
    reported: Mapping[str, str] = {}
    """What autoscaler and scheduler report about placeholders without a node."""


def advance_requests(memory: Memory, seen: Observation, rules: Capacity) -> Progress:
    """Return every request's next state."""
    requests: list[CapacityRequest] = []
    changes: list[RequestChange] = []
    attempts = [attempt for attempt in memory.capacity_attempts if seen.now - attempt.last < _MEMORY]
    moving = {move.workload for move in memory.in_flight}
    for request in memory.capacity:
        following = _Life(request, seen, rules, is_moving=not moving.isdisjoint(request.workloads)).advance()
        if isinstance(following, CapacityRequest):
            requests.append(following)
            if following.state is not request.state:
                changes.append(RequestChange(request=following, result=Result.READY))
            continue
        changes.append(following)
        if not seen.ending:
            failure = following.message if following.result is not None else ""
            attempts = _record(attempts, request, failure, seen.now)
    return Progress(requests=tuple(requests), attempts=tuple(attempts), changes=tuple(changes))


class _Life:
    """One request in one cycle."""

    def __init__(self, request: CapacityRequest, seen: Observation, rules: Capacity, *, is_moving: bool) -> None:
        self._request = request
        self._seen = seen
        self._rules = rules
        self._is_moving = is_moving
        self._pods = {placeholder_name(pod): pod for pod in seen.held}

    def advance(self) -> CapacityRequest | RequestChange:
        """Return the request as it goes on, or how it ended."""
        request, seen = self._request, self._seen
        if seen.ending:
            return self._end(None, seen.ending)
        if request.token in seen.refused:
            return self._end(Result.REFUSED, seen.refused[request.token])
        gone = [name for name in request.placeholders if name not in seen.jobs]
        if gone:
            return self._end(Result.REFUSED, f"Job {gone[0]} is gone")
        age = seen.now - request.since
        if request.state is CapacityState.READY:
            return self._go_on(age)
        if self._is_settled():
            nodes = {pod.node for name in request.placeholders if (pod := self._pods[name]).node}
            return structs.replace(request, state=CapacityState.READY, nodes=tuple(sorted(nodes)))
        if age >= self._rules.timeout:
            reported = seen.reported.get(request.token) or "no reason was reported"
            waited = format_duration(self._rules.timeout)
            return self._end(Result.TIMEOUT, f"no node within {waited} (capacity.timeout): {reported}")
        return request

    def _is_settled(self) -> bool:
        """Return whether every placeholder has run for `capacity.settle`."""
        since = [self._pods[name].ready_since for name in self._request.placeholders if self._runs(name)]
        if len(since) < len(self._request.placeholders):
            return False
        return all(moment is not None and self._seen.now - moment >= self._rules.settle for moment in since)

    def _runs(self, name: str) -> bool:
        pod = self._pods.get(name)
        return pod is not None and pod.ready and not pod.terminating

    def _go_on(self, age: timedelta) -> CapacityRequest | RequestChange:
        """Continue a repair whose capacity is ready, or end it because it is done or no longer works."""
        request = self._request
        lost = [name for name in request.placeholders if not self._runs(name)]
        if lost:
            return self._end(Result.REFUSED, f"placeholder {lost[0]} lost its node")
        if age >= lifetime(self._rules.timeout):
            longest = format_duration(lifetime(self._rules.timeout))
            return self._end(Result.TIMEOUT, f"the repair took more than {longest} (3 times capacity.timeout)")
        if self._is_moving:
            return request
        group = _find_group(self._seen.plan, request)
        if group is None:
            return self._end(None, "the repair is done")
        is_decided = any(eviction.group == group.name for eviction in self._seen.plan.fates.evictions)
        if is_decided or group.reason in _PASSING:
            return request
        return self._end(Result.REFUSED, f"the capacity does not make the repair possible: {group.reason}")

    def _end(self, result: Result | None, message: str) -> RequestChange:
        return RequestChange(request=self._request, result=result, message=message[:_MESSAGE])


def _find_group(plan: Plan, request: CapacityRequest) -> ComponentPlan | None:
    wanted = set(request.workloads)
    return next((group for group in plan.components if not wanted.isdisjoint(group.workloads)), None)


def _record(
    attempts: Sequence[CapacityAttempt], request: CapacityRequest, failure: str, now: datetime
) -> list[CapacityAttempt]:
    """Return the attempts after one more for each domain of a request."""
    mine = {attempt.domain: attempt.times for attempt in attempts if attempt.token == request.token}
    others = [
        attempt for attempt in attempts if attempt.token != request.token or attempt.domain not in request.domains
    ]
    for domain in request.domains:
        times = mine.get(domain, 0) + 1
        others.append(CapacityAttempt(token=request.token, domain=domain, times=times, last=now, failure=failure))
    return others


def find_wait(
    memory: Memory, token: str, domain: DomainName, now: datetime, timeout: timedelta
) -> tuple[CapacityAttempt, timedelta] | None:
    """Return the attempt after which a domain is left alone, and for how long still; None if it is not."""
    for attempt in memory.capacity_attempts:
        if attempt.token == token and attempt.domain == domain:
            waited = max(timedelta(0), now - attempt.last)  # a clock that was set back must not prolong the wait
            left = timeout * 2 ** min(attempt.times - 1, _MOST_DOUBLED) - waited
            return (attempt, left) if left > timedelta(0) else None
    return None
