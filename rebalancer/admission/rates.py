"""The rates of the policy, counted down as evictions are admitted: by cycle, minute, node and namespace."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rebalancer.admission.memory import MOST_IN_FLIGHT, RATE_WINDOW
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Memory, SentRequest, make_place
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import format_rest, plural
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.scope.budgets import OF_TEAM
from rebalancer.policy import Policy
from rebalancer.tracking.moves import is_deferred


class TooManyInFlight(Refusal):
    """As many evictions are in flight as the memory can hold."""

    reason = Reason.RATE_LIMITED
    ends = "when a move in flight has ended"
    allowed: int

    def __str__(self) -> str:
        return f"at most {plural(self.allowed, 'eviction')} may be in flight at once"


class RateReached(Refusal):
    """A rate of the policy's budgets is used up; `left` is how long it allows no more, None where it allows none."""

    reason = Reason.RATE_LIMITED
    ends_after = "left"
    budget: str
    allowed: int
    left: timedelta | None = None

    def __str__(self) -> str:
        return self.timeless if self.left is None else f"{self.timeless}: {format_rest(self.left)} left"

    @property
    def timeless(self) -> str:
        return f"budgets.{self.budget} allows {self.allowed}"


class Rates:
    """The rates of the policy, counted down as evictions are admitted.

    They hold for time, not for cycles: changes in the cluster start cycles at once. `perCycle`, `perNode` and
    `perNamespace` bound what is sent in any window of `interval`, at most a minute.
    """

    def __init__(self, policy: Policy, snapshot: Snapshot, memory: Memory, now: datetime) -> None:
        self._budgets = policy.budgets
        self._rules_of_team = policy.rules_of
        self._snapshot = snapshot
        self._now = now
        # What admission control has deferred may be in flight the next moment, without a request.
        self._in_flight = len(memory.in_flight) + len(memory.unexecuted) + sum(map(is_deferred, memory.moves))
        self._window = _Sent(now, min(policy.interval, RATE_WINDOW), memory.sent)
        self._minute = _Sent(now, RATE_WINDOW, memory.sent)
        self._unexecuted = {move.uid: move.requested_at for move in memory.unexecuted}
        """When evictions that may be requested again were first admitted: the new request takes that one's place."""
        self.frees_at: datetime | None = None
        """When the first rate that has refused an eviction allows one more, None if none has or none ever does."""

    def _rates_of(self, eviction: Eviction) -> Iterable[tuple[Sequence[datetime], "_Sent", int, str]]:
        """Yield (times of those sent, window, evictions allowed, field of `budgets`) for each rate of an eviction."""
        budgets, snapshot, window, minute = self._budgets, self._snapshot, self._window, self._minute
        node, namespace = eviction.pod.node or "", eviction.pod.namespace
        everything = len(snapshot.covered_pods)
        yield window.all, window, budgets.per_cycle.resolve(everything), "perCycle"
        yield minute.all, minute, budgets.per_minute.resolve(everything), "perMinute"
        on_node = budgets.per_node.resolve(len(snapshot.pods_on.get(node, ())))
        yield window.from_node[make_place(node)], window, on_node, "perNode"
        in_namespace = len(snapshot.pods_in.get(namespace, ()))
        sent_there = window.in_namespace[make_place(namespace)]
        yield sent_there, window, budgets.per_namespace.resolve(in_namespace), "perNamespace"
        of_team = self._rules_of_team(namespace).budgets.per_namespace
        if of_team is not None:
            yield sent_there, window, of_team.resolve(in_namespace), f"perNamespace{OF_TEAM}"

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions against every rate, all of them or none; return the rate that does not allow them."""
        for number, eviction in enumerate(evictions):
            limit = self._reached(eviction)
            if limit is not None:
                self.give_back(evictions[:number])
                return limit
            self._window.add(eviction, self._now, self._unexecuted.get(eviction.pod.uid))
            self._minute.add(eviction, self._now, self._unexecuted.get(eviction.pod.uid))
            self._in_flight += eviction.pod.uid not in self._unexecuted
        return None

    def give_back(self, evictions: Sequence[Eviction]) -> None:
        """Take back the last evictions that were counted."""
        for counted in reversed(evictions):
            self._window.drop(counted, self._unexecuted.get(counted.pod.uid))
            self._minute.drop(counted, self._unexecuted.get(counted.pod.uid))
            self._in_flight -= counted.pod.uid not in self._unexecuted

    def _reached(self, eviction: Eviction) -> RateReached | TooManyInFlight | None:
        for sent, window, allowed, budget in self._rates_of(eviction):
            if len(sent) >= allowed and self._unexecuted.get(eviction.pod.uid) not in sent:
                if not sent:
                    return RateReached(budget, allowed)
                frees_at = min(sent) + window.span
                self.frees_at = min(frees_at, self.frees_at or frees_at)
                return RateReached(budget, allowed, frees_at - self._now)
        if eviction.pod.uid in self._unexecuted or self._in_flight < MOST_IN_FLIGHT:
            return None
        return TooManyInFlight(MOST_IN_FLIGHT)


class _Sent:
    """When evictions were sent in the last `span`: all of them, by node and by namespace; the newest are last.

    A request that repeats an earlier one (`before` says when that was) is counted once.
    """

    def __init__(self, now: datetime, span: timedelta, sent: Iterable[SentRequest]) -> None:
        self.span = span
        self.all: list[datetime] = []
        self.from_node: defaultdict[str, list[datetime]] = defaultdict(list)
        self.in_namespace: defaultdict[str, list[datetime]] = defaultdict(list)
        for request in sent:
            if now - request.at < span:
                self._note(request.at, request.node, request.namespace)

    def add(self, eviction: Eviction, now: datetime, before: datetime | None) -> None:
        """Count an eviction as sent now."""
        for times in self._lists_of(*_places_of(eviction)):
            if before not in times:
                times.append(now)

    def drop(self, eviction: Eviction, before: datetime | None) -> None:
        """Take back the last one that was added."""
        for times in self._lists_of(*_places_of(eviction)):
            if before not in times:
                times.pop()

    def _note(self, at: datetime, node: str, namespace: str) -> None:
        for times in self._lists_of(node, namespace):
            times.append(at)

    def _lists_of(self, node: str, namespace: str) -> Iterable[list[datetime]]:
        return self.all, self.from_node[node], self.in_namespace[namespace]


def _places_of(eviction: Eviction) -> tuple[str, str]:
    return make_place(eviction.pod.node or ""), make_place(eviction.pod.namespace)
