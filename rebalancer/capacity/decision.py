"""One cycle's decision about capacity: which requests continue, which begin, and why repairs wait for it or lack it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec import Struct, structs

from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.capacity.needs import Candidate, Need, find_candidates, find_need
from rebalancer.capacity.requests import Observation, RequestChange, advance_requests, find_wait
from rebalancer.engine import Evaluation
from rebalancer.model.facts import NOT_BY_ITSELF, End, Fact, Refusal
from rebalancer.model.moves import (
    CapacityAttempt,
    CapacityRequest,
    CapacityState,
    DomainName,
    Memory,
    Reference,
    name_domains,
)
from rebalancer.model.placeholders import Placeholder, placeholder_name
from rebalancer.model.pods import Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_duration, format_rest, plural
from rebalancer.planning.plan import PlanRefusal
from rebalancer.policy import CapacityMode, Policy
from rebalancer.scheduling.view import View

MOST_REHEARSALS: Final = 5
"""Repairs that are rehearsed in a cycle, the worst first."""

_MOST_WANTED: Final = 200
"""Up to this many repairs that lack capacity are stored, with the time since when they lack it."""


FindNeed = Callable[[Candidate], Need | None]
"""Rehearses a repair; None if it lacks anything besides capacity."""


class CapacityNeeded(Refusal):
    """A repair of several evictions lacks only capacity for `pods` pods; `obstacle` is why it is not requested."""

    reason = Reason.AWAITING_CAPACITY
    domains: tuple[DomainName, ...]
    evictions: int
    pods: int
    requests: Resources
    obstacle: Fact | None

    def _end(self) -> End:
        if isinstance(self.obstacle, NotYetLasting):
            return End(after=self.obstacle.required - self.obstacle.lasted)
        if isinstance(self.obstacle, OthersRequested):
            return End(event="when other requests for capacity have ended")
        return NOT_BY_ITSELF

    def __str__(self) -> str:
        requests = self.requests
        amount = [f"{requests.cpu / 1000:.2g} cores"] if requests.cpu else []
        amount += [f"{requests.memory / 2**30:.2g} GiB"] if requests.memory else []
        needs = f"needs about {' and '.join(amount)} there for some minutes" if amount else "its pods request nothing"
        text = (
            f"{plural(self.evictions, 'eviction')} would repair it with capacity for {plural(self.pods, 'pod')} in "
            f"{name_domains(self.domains)}; {needs}"
        )
        return text if self.obstacle is None else f"{text}; not requested: {self.obstacle}"


class CapacityObserves(Fact):
    """The policy's capacity.mode is Observe."""

    def __str__(self) -> str:
        return "capacity.mode is Observe"


class PlaceholdersUnread(Fact):
    """The Jobs of placeholders could not be read; the message says why."""

    message: str

    def __str__(self) -> str:
        return f"placeholders cannot be read: {self.message}"


class NotInModeEvict(Fact):
    """The mode in force is not Evict."""

    def __str__(self) -> str:
        return "the mode is not Evict"


class NotYetLasting(Fact):
    """The repair has lacked capacity for less than spread.for."""

    lasted: timedelta
    required: timedelta

    def __str__(self) -> str:
        return (
            f"capacity has been missing for {format_duration(self.lasted)}; spread.for is "
            f"{format_duration(self.required)}"
        )


class OthersRequested(Fact):
    """With the placeholders of other requests there would be more than capacity.maxPods."""

    present: int
    most: int

    def __str__(self) -> str:
        return f"{plural(self.present, 'placeholder')} of other requests exist; capacity.maxPods is {self.most}"


class TooManyPlaceholders(Refusal):
    """The repair needs more placeholders than capacity.maxPods."""

    reason = Reason.NO_CAPACITY
    domains: tuple[DomainName, ...]
    pods: int
    most: int

    def __str__(self) -> str:
        return (
            f"needs capacity for {plural(self.pods, 'pod')} in {name_domains(self.domains)}; capacity.maxPods is "
            f"{self.most}"
        )


class CapacityBackingOff(Refusal):
    """Capacity in the domain was requested before: it did not come, or it was taken away again (`failure` is "")."""

    reason = Reason.NO_CAPACITY
    ends_after = "left"
    domain: DomainName
    failure: str
    times: int
    left: timedelta

    def __str__(self) -> str:
        return f"{self.timeless}; requested again in {format_rest(self.left)} at the earliest"

    @property
    def timeless(self) -> str:
        what = f"did not come ({self.failure})" if self.failure else "was used and is gone again"
        return f"capacity requested in {name_domains([self.domain])} {what}"


class DomainJustLost(Refusal):
    """The domain had nodes a short time ago, so no capacity is requested there for a while."""

    reason = Reason.NO_CAPACITY
    ends_after = "left"
    domain: DomainName
    ago: timedelta
    left: timedelta

    def __str__(self) -> str:
        return (
            f"{name_domains([self.domain])} lost its nodes {format_duration(self.ago)} ago; capacity is requested "
            f"there in {format_rest(self.left)} at the earliest"
        )

    @property
    def timeless(self) -> str:
        return f"{name_domains([self.domain])} has just lost its nodes"


class DomainMoving(Refusal):
    """The domain loses nodes, or did a moment ago, so no pods are moved there and new nodes would be useless."""

    reason = Reason.NO_CAPACITY
    domain: UnsettledDomain

    def _end(self) -> End:
        return self.domain.end

    def __str__(self) -> str:
        motion = self.domain.motion
        where = f"{motion.key}={motion.value}"
        return f"no capacity is requested in {where}, because {motion.cause}. Nothing is moved there yet"


class CapacityRequested(Refusal):
    """Capacity was requested. Some placeholders run already; all must run for a while."""

    reason = Reason.AWAITING_CAPACITY
    domains: tuple[DomainName, ...]
    running: int
    placeholders: int
    ago: timedelta

    def _end(self) -> End:
        return End(
            event=f"when {plural(self.placeholders, 'placeholder')} {'runs' if self.placeholders == 1 else 'run'}"
        )

    def __str__(self) -> str:
        requested = f"requested {format_duration(self.ago)} ago"
        return f"waiting for capacity in {name_domains(self.domains)}, {requested}: {self._run}"

    @property
    def timeless(self) -> str:
        return f"waiting for requested capacity in {name_domains(self.domains)}: {self._run}"

    @property
    def _run(self) -> str:
        return f"{self.running} of {plural(self.placeholders, 'placeholder')} run"


OF_CAPACITY: Final = (CapacityNeeded, TooManyPlaceholders, CapacityBackingOff, DomainJustLost, CapacityRequested)
"""Why the repair of a workload lacks capacity."""


class CapacityDecision(Struct, frozen=True, kw_only=True):
    """What a cycle decides: the memory's new parts, why repairs wait, what begins, and what became of requests.

    Every Job that is named by no request of `requests` must be deleted.
    """

    requests: tuple[CapacityRequest, ...] = ()
    attempts: tuple[CapacityAttempt, ...] = ()
    wanted: tuple[tuple[str, datetime], ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()
    created: tuple[Placeholder, ...] = ()
    begun: tuple[CapacityRequest, ...] = ()
    changes: tuple[RequestChange, ...] = ()


def decide_capacity(
    evaluation: Evaluation,
    memory: Memory,
    seen: Observation,
    find: FindNeed | None = None,
    *,
    obstacle: Fact | None = None,
    lasting: timedelta | None = None,
) -> CapacityDecision:
    """Decide about every request, and about repairs that lack capacity.

    `find` rehearses a repair; None rehearses anew each time. `obstacle` is why no request may begin now. `lasting` is
    how long a repair must have lacked capacity, None: `spread.for`. Commands call this, too, with an observation
    without placeholders in which no request may begin.
    """
    view, policy = evaluation.view, evaluation.inputs.policy
    progress = advance_requests(memory, seen, policy.capacity)
    if policy.capacity.mode is CapacityMode.OFF:
        return CapacityDecision(requests=progress.requests, attempts=progress.attempts, changes=progress.changes)
    memory = structs.replace(memory, capacity_attempts=progress.attempts)
    if find is None:
        find = partial(_find_need, view=view, policy=policy, memory=memory)
    busy = {workload for request in progress.requests for workload in request.workloads}
    busy |= {move.workload for move in memory.in_flight}
    lasting = policy.spread.for_ if lasting is None else lasting
    wishes = _Wishes(evaluation, memory, find, obstacle, lasting)
    for candidate in find_candidates(view, evaluation.assessment, seen.plan, policy, memory):
        if busy.isdisjoint(candidate.workloads):
            wishes.consider(candidate)
    begun = wishes.begin(progress.requests, seen)
    requests = (*progress.requests, *(request for request, _ in begun))
    return CapacityDecision(
        requests=requests,
        attempts=progress.attempts,
        wanted=tuple(wishes.wanted[:_MOST_WANTED]),
        refusals=(*wishes.refusals, *_describe_requests(requests, seen)),
        created=tuple(placeholder for _, placeholders in begun for placeholder in placeholders),
        begun=tuple(request for request, _ in begun),
        changes=progress.changes,
    )


def _find_need(candidate: Candidate, view: View, policy: Policy, memory: Memory) -> Need | None:
    return find_need(candidate, view, policy, memory).need


def _describe_requests(requests: Iterable[CapacityRequest], seen: Observation) -> Iterator[PlanRefusal]:
    """Yield why workloads with a request wait, if their capacity has not come yet."""
    running = {placeholder_name(pod) for pod in seen.held if pod.ready}
    for request in requests:
        if request.state is CapacityState.REQUESTED:
            present = len(running.intersection(request.placeholders))
            ago = max(timedelta(0), seen.now - request.since)
            cause = CapacityRequested(request.domains, present, len(request.placeholders), ago)
            yield from _refuse(request.workloads, cause)


def _refuse(workloads: Iterable[Reference], refusal: Refusal) -> Iterator[PlanRefusal]:
    yield from (PlanRefusal(workload=workload, pod=None, refusal=refusal) for workload in workloads)


class _Wishes:
    """Collects the repairs that lack capacity, and those that may request it."""

    def __init__(
        self, evaluation: Evaluation, memory: Memory, find: FindNeed, obstacle: Fact | None, lasting: timedelta
    ) -> None:
        view, policy = evaluation.view, evaluation.inputs.policy
        self._view = view
        self._unsettled = evaluation.assessment.unsettled_domains
        self._find_need = find
        self._policy = policy
        self._memory = memory
        self._now = view.snapshot.taken_at
        self._obstacle = CapacityObserves() if policy.capacity.mode is CapacityMode.OBSERVE else obstacle
        self._lasting = lasting
        self._since = dict(memory.capacity_wanted)
        self._rehearsed = 0
        self._granted: list[Need] = []
        self.refusals: list[PlanRefusal] = []
        self.wanted: list[tuple[str, datetime]] = []

    def consider(self, candidate: Candidate) -> None:
        """Refuse a candidate, or rehearse its repair and note that it lacks capacity."""
        waits = {name: self._find_wait(candidate.token, name) for name in candidate.names}
        left = tuple(
            domain for domain, name in zip(candidate.domains, candidate.names, strict=True) if waits[name] is None
        )
        if not left:
            wait = next(iter(waits.values()))
            assert wait is not None
            self._refuse(candidate, wait)
            return
        if self._rehearsed == MOST_REHEARSALS:
            return
        self._rehearsed += 1
        candidate = structs.replace(candidate, domains=left)
        need = self._find_need(candidate)
        if need is None:
            return
        number, most = len(need.placeholders), self._policy.capacity.max_pods
        if number > most:
            self._refuse(candidate, TooManyPlaceholders(candidate.names, number, most))
            return
        since = self._since.get(candidate.token, self._now)
        self.wanted.append((candidate.token, since))
        self._granted.append(need)

    def _find_wait(self, token: str, domain: DomainName) -> Refusal | None:
        """Return why no capacity is requested in a domain: the last request's outcome, or lost nodes."""
        timeout = self._policy.capacity.timeout
        waiting = find_wait(self._memory, token, domain, self._now, timeout)
        if waiting is not None:
            attempt, left = waiting
            return CapacityBackingOff(domain, attempt.failure, attempt.times, left)
        if domain.value in self._view.nodes.values(domain.topology_key).values():
            return self._find_motion(domain)
        for zone in self._memory.zones:
            if (zone.key, zone.zone) == (domain.topology_key, domain.value):
                ago = max(timedelta(0), self._now - zone.last)
                return DomainJustLost(domain, ago, timeout - ago) if ago < timeout else None
        return None

    def _find_motion(self, domain: DomainName) -> DomainMoving | None:
        """Return a refusal if a domain with nodes loses other nodes, because no pods are moved there."""
        for one in self._unsettled:
            if (one.motion.key, one.motion.value) == (domain.topology_key, domain.value):
                return DomainMoving(one)
        return None

    def begin(
        self, requests: Sequence[CapacityRequest], seen: Observation
    ) -> list[tuple[CapacityRequest, tuple[Placeholder, ...]]]:
        """Return the requests that begin now with their placeholders; the other needs are refused."""
        names = {name for request in requests for name in request.placeholders} | set(map(placeholder_name, seen.held))
        begun = []
        for need in self._granted:
            obstacle = self._find_obstacle(need, len(names))
            if obstacle is not None or not seen.may_begin:
                self._await(need, obstacle)
                continue
            request, placeholders = _make_request(need, self._now)
            names.update(request.placeholders)
            begun.append((request, placeholders))
        return begun

    def _find_obstacle(self, need: Need, present: int) -> Fact | None:
        """Return why capacity for a need is not requested now; `present` is the number of placeholders that exist."""
        if self._obstacle is not None:
            return self._obstacle
        lasted = self._now - dict(self.wanted)[need.candidate.token]
        if lasted < self._lasting:
            return NotYetLasting(lasted, self._lasting)
        most = self._policy.capacity.max_pods
        return OthersRequested(present, most) if present + len(need.placeholders) > most else None

    def _await(self, need: Need, obstacle: Fact | None) -> None:
        number = len(need.placeholders)
        cause = CapacityNeeded(need.candidate.names, need.evictions, number, need.requests, obstacle)
        self._refuse(need.candidate, cause)

    def _refuse(self, candidate: Candidate, cause: Refusal) -> None:
        self.refusals += _refuse(candidate.workloads, cause)


def _make_request(need: Need, now: datetime) -> tuple[CapacityRequest, tuple[Placeholder, ...]]:
    """Return the request for a need; its Jobs have new names, so that Jobs of an earlier request are left to end."""
    placeholders = tuple(
        structs.replace(placeholder, name=f"placeholder-{need.candidate.token}-{int(now.timestamp()):x}-{number}")
        for number, placeholder in enumerate(need.placeholders, start=1)
    )
    request = CapacityRequest(
        token=need.candidate.token,
        workloads=need.candidate.workloads,
        domains=need.candidate.names,
        placeholders=tuple(placeholder.name for placeholder in placeholders),
        since=now,
    )
    return request, placeholders
