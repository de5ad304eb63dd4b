"""The rates of the policy, counted down as evictions are admitted: by cycle, minute, node and namespace."""

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from rebalancer.admission.memory import MOST_IN_FLIGHT, RATE_WINDOW
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Memory, SentRequest, make_place
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import format_rest, plural
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Waits
from rebalancer.planning.scope.budgets import OF_TEAM
from rebalancer.policy import Policy
from rebalancer.tracking.moves import is_deferred


class TooManyInFlight(Refusal):
    """The number of evictions in flight has reached what the memory can hold."""

    reason = Reason.RATE_LIMITED
    ends = "when a move in flight has ended"
    allowed: int

    def __str__(self) -> str:
        return f"at most {plural(self.allowed, 'eviction')} may be in flight at once"


class RateReached(Refusal):
    """A rate of the policy's budgets is used up; `left` is how long it allows no more, None if it allows none."""

    reason = Reason.RATE_LIMITED
    budget: str
    allowed: int
    left: timedelta | None = None
    """How long the rate allows no more, None if it allows none at all."""
    is_behind: bool = False
    """Whether earlier evictions of the same repair take all known places when these become free."""
    waiting: int = 0
    """How many evictions wait for these places, if not all of them may go at this time."""
    last_at: datetime | None = None
    """The last of the waiting evictions does not go before this time."""

    def _end(self) -> End:
        if self.is_behind:
            return End(event=f"when budgets.{self.budget} allows it, too")
        return End(after=self.left)

    def __str__(self) -> str:
        if self.is_behind:
            return f"{self.timeless}; earlier evictions of the same repair go first"
        if self.left is None:
            return self.timeless
        return f"{self.timeless}: {format_rest(self.left)} {'at the earliest' if self.waiting > 1 else 'left'}"

    @property
    def timeless(self) -> str:
        said = f"budgets.{self.budget} allows {self.allowed}"
        if self.waiting < 2:
            return said
        last = f", the last not before {self.last_at:%Y-%m-%d %H:%M:%SZ}" if self.last_at is not None else ""
        return f"{said}, and {plural(self.waiting, 'eviction')} wait for it{last}"


_Places = tuple[str, int]
"""A rate, and the list of times that it counts: of a node, of a namespace, or of all evictions."""


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
        # An eviction that admission control deferred may be in flight the next moment, without a request.
        self._in_flight = len(memory.in_flight) + len(memory.unexecuted) + sum(map(is_deferred, memory.moves))
        self._window = _Sent(now, min(policy.interval, RATE_WINDOW), memory.sent)
        self._minute = _Sent(now, RATE_WINDOW, memory.sent)
        self._unexecuted = {move.uid: move.requested_at for move in memory.unexecuted}
        """When evictions that may be repeated were first admitted; the new request takes the first one's place."""
        self._free: dict[tuple[_Places, timedelta], int | None] = {}
        """By rate and span: how many places are free after the span, None if none becomes free then."""
        self.frees_at: datetime | None = None
        """When the first rate that has refused an eviction allows the next, None if none has, or if it never does."""

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

    def find_turn(self, eviction: Eviction) -> RateReached | None:
        """Return when the rates would allow an eviction at the earliest, None if now."""
        return self._find_last(eviction, Counter(), Counter(self._places_taken([eviction])))

    def find_turn_after(self, together: Sequence[Eviction], before: Counter[int]) -> RateReached | None:
        """Return when the rates allow evictions that go together, and add the places that they take to `before`."""
        needed = Counter(self._places_taken(together))
        turns = []
        for eviction in together:
            turns.append(self._find_last(eviction, before, needed))
            before.update(self._places_taken([eviction]))
        return max((turn for turn in turns if turn is not None), key=_rank, default=None)

    def find_places(self, eviction: Eviction, budget: str, left: timedelta) -> tuple[_Places, int] | None:
        """Return the list in which an eviction awaits a place of a rate, and how many places become free then.

        None if no place becomes free then, because another eviction of its step waits for it.
        """
        sent, span, allowed = self._find_rate(eviction, budget)
        places = budget, id(sent)
        if (places, left) not in self._free:
            ends = [at + span - self._now for at in sent]
            self._free[places, left] = allowed - sum(end > left for end in ends) if left in ends else None
        free = self._free[places, left]
        return (places, free) if free is not None else None

    def find_last_turn(self, eviction: Eviction, budget: str, number: int) -> datetime:
        """Return the earliest time for the last of this many evictions, if all share this eviction's rate."""
        sent, span, allowed = self._find_rate(eviction, budget)
        free_at = deque(sorted(at + span for at in sent)[-allowed:])
        turn = self._now
        for _ in range(number):
            turn = free_at.popleft() if len(free_at) >= allowed else turn
            free_at.append(turn + span)
        return turn

    def _find_rate(self, eviction: Eviction, budget: str) -> tuple[Sequence[datetime], timedelta, int]:
        """Return for a rate of this eviction the times of counted evictions, the window, and the allowed number."""
        rates = self._rates_of(eviction)
        return next((sent, window.span, allowed) for sent, window, allowed, name in rates if name == budget)

    def _places_taken(self, evictions: Iterable[Eviction]) -> Iterator[int]:
        """Yield the lists of times in which each eviction takes a place."""
        for one in evictions:
            yield from {id(sent) for sent, *_ in self._rates_of(one) if self._unexecuted.get(one.pod.uid) not in sent}

    def _find_last(
        self, eviction: Eviction, before: Mapping[int, int], needed: Mapping[int, int]
    ) -> RateReached | None:
        turns = (
            self._find_free(sent, window.span, budget, allowed, before.get(id(sent), 0), needed[id(sent)])
            for sent, window, allowed, budget in self._rates_of(eviction)
            if self._unexecuted.get(eviction.pod.uid) not in sent
        )
        return max((turn for turn in turns if turn is not None), key=_rank, default=None)

    def _find_free(
        self, sent: Sequence[datetime], span: timedelta, budget: str, allowed: int, before: int, needed: int
    ) -> RateReached | None:
        if allowed < needed:
            return RateReached(budget, allowed)
        place = len(sent) - allowed + before
        if place < 0:
            return None
        if place >= len(sent):
            return RateReached(budget, allowed, is_behind=True)
        return RateReached(budget, allowed, sorted(sent)[place] + span - self._now)

    def _reached(self, eviction: Eviction) -> RateReached | TooManyInFlight | None:
        for sent, window, allowed, budget in self._rates_of(eviction):
            if len(sent) >= allowed and self._unexecuted.get(eviction.pod.uid) not in sent:
                if not sent or allowed < 1:
                    return RateReached(budget, allowed)
                frees_at = min(sent) + window.span
                self.frees_at = min(frees_at, self.frees_at or frees_at)
                return RateReached(budget, allowed, frees_at - self._now)
        if eviction.pod.uid in self._unexecuted or self._in_flight < MOST_IN_FLIGHT:
            return None
        return TooManyInFlight(MOST_IN_FLIGHT)


def queue(fates: Fates, rates: Rates) -> Fates:
    """Say when each eviction that waits for a rate goes at the earliest; only the first of its repair goes then.

    All concurrent evictions of a step, and the later evictions of that step, wait for the last of them.
    """
    # Repairs take turns at the rates, another one first in each cycle, and changes in the cluster start cycles at any
    # time. So nobody knows whose turn is next: each repair gets the time at which a rate frees a place for one of them.
    rows = list(fates.rows)
    waiting: dict[str, deque[int]] = {}
    first_turn: dict[str, RateReached] = {}
    for place, fate in enumerate(rows):
        if isinstance(fate, Waits) and isinstance(fate.refusal, RateReached) and fate.refusal.left:
            waiting.setdefault(fate.eviction.group, deque()).append(place)
            first_turn.setdefault(fate.eviction.group, fate.refusal)
    gone = Counter(eviction.group for eviction in fates.going)
    for group, places in waiting.items():
        before, turn = Counter[int](), first_turn[group]
        needed = fates.rows[places[0]].eviction.needed - gone[group]
        while places:
            number = min(len(places), max(1, needed))
            needed -= number
            parts = [places.popleft() for _ in range(number)]
            own = rates.find_turn_after([rows[one].eviction for one in parts], before)
            turn = max((one for one in (turn, own) if one is not None), key=_rank)
            for one in parts:
                rows[one] = Waits(rows[one].eviction, turn)
    return Fates(tuple(rows))


def count_waiting(fates: Fates, rates: Rates) -> Fates:
    """Say how many evictions wait for a rate, if more have the same turn than the rate allows.

    Four evictions must not all read "in 40 s" if the rate allows one. So each also says the earliest time of the last.
    """
    rows = list(fates.rows)
    lists: defaultdict[_Places, list[tuple[int, int, RateReached]]] = defaultdict(list)
    for row, fate in enumerate(rows):
        turn = fate.refusal if isinstance(fate, Waits) else None
        if isinstance(turn, RateReached) and turn.left:
            places = rates.find_places(fate.eviction, turn.budget, turn.left)
            if places is not None:
                of, free = places
                lists[of].append((row, free, turn))
    for waiting in lists.values():
        times = sorted(turn.left for _, _, turn in waiting if turn.left)
        first, _, turn_of_first = waiting[0]
        last_at = rates.find_last_turn(rows[first].eviction, turn_of_first.budget, len(times))
        for row, free, turn in waiting:
            if turn.left and bisect_right(times, turn.left) > free:
                shared = structs.replace(turn, waiting=len(times), last_at=last_at)
                rows[row] = Waits(rows[row].eviction, shared)
    return Fates(tuple(rows))


def _rank(turn: RateReached) -> tuple[int, timedelta]:
    """Return a larger rank for a wait that ends later: at a time, after others, never."""
    if turn.left is not None:
        return 0, turn.left
    return (1 if turn.is_behind else 2), timedelta(0)


class _Sent:
    """The times of evictions in the last `span`: all, by node and by namespace, the newest last.

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
        """Take back the last eviction that was added."""
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
