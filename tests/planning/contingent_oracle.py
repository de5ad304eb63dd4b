"""The repair as a game against the scheduler, searched in full: what can be forced at all, and what with luck.

We evict one pod; the scheduler then places what is pending, one pod after the other, each on any feasible node, until
nothing is pending or no node admits a pod; then it is our turn again. We win at rest, with both constraints satisfied
and nothing pending. It shares no code with the planner and knows nothing of steps, certificates or budgets: only zones,
nodes and counts. A state is a tuple of zones, each a tuple of counts, all sorted, since names mean nothing here.
"""

from collections.abc import Callable, Iterable, Iterator

from tests.planning.states import Counts, feasible, satisfied

Zones = tuple[tuple[int, ...], ...]
Excess = tuple[int, int]
Rest = tuple[Zones, int]
"""Where the pods stand, and how many are pending; the scheduler has nothing left to do."""


def canonical(counts: Iterable[Iterable[int]]) -> Zones:
    """Return the state without names: equal up to the order of zones, and of nodes within them."""
    return tuple(sorted(tuple(sorted(zone)) for zone in counts))


class Game:
    """One pair of maxSkews, at most so many pods pending at once when we have evicted; answers are remembered.

    `out` is what budgets allow. Three are all that is worth having in small clusters.
    """

    def __init__(self, zone: int, host: int, *, out: int = 3, no_worse: bool = False) -> None:
        """With `no_worse`, neither constraint may be exceeded more at rest than when last nothing was pending."""
        self.zone = zone
        self.host = host
        self.out = out
        self.no_worse = no_worse
        self._ends: dict[Rest, frozenset[Rest]] = {}
        self._bounds: dict[Rest, int | None] = {}
        self._won: dict[tuple[Rest, bool, Excess], int] = {}
        self._lost: dict[tuple[Rest, bool, Excess], int] = {}

    def forced(self, counts: Counts, *, pending: int = 0, spare: int = 2) -> int | None:
        """Return the fewest evictions that win whatever nodes the scheduler picks.

        None where the distance and `spare` more are not enough.
        """
        return self._fewest(counts, pending, spare, every=True)

    def with_luck(self, counts: Counts, *, spare: int = 2) -> int | None:
        """Return the fewest evictions that win if the scheduler picks what we would; None as for `forced`."""
        return self._fewest(counts, 0, spare, every=False)

    def distance(self, counts: Counts, *, pending: int = 0) -> int | None:
        """Return the fewest evictions on paper; None where no placement satisfies both constraints."""
        return self._distance((canonical(counts), pending))

    def ends(self, counts: Counts, pending: int) -> frozenset[Rest]:
        """Return every state in which the scheduler can come to rest from here."""
        return self._rests((canonical(counts), pending))

    def _fewest(self, counts: Counts, pending: int, spare: int, *, every: bool) -> int | None:
        start = canonical(counts), pending
        least = self._distance(start)
        if least is None:
            return None
        verdict: Callable[[Iterable[bool]], bool] = all if every else any
        for evictions in range(least, least + spare + 1):
            if verdict(self._wins(end, evictions, self._excess(start[0]), every=every) for end in self._rests(start)):
                return evictions
        return None

    def _excess(self, state: Zones) -> Excess:
        """Return by how much each constraint is exceeded; always the same where that does not matter."""
        if not self.no_worse:
            return 0, 0
        totals, nodes = [sum(zone) for zone in state], [held for zone in state for held in zone]
        return max(0, max(totals) - min(totals) - self.zone), max(0, max(nodes) - min(nodes) - self.host)

    def _wins(self, now: Rest, evictions: int, worst: Excess, *, every: bool) -> bool:
        """Say whether so many evictions are enough from here."""
        state, pending = now
        if not pending and satisfied([list(zone) for zone in state], self.zone, self.host):
            return True
        least = self._distance(now)
        if least is None or least > evictions or evictions == 0 or pending >= self.out:
            return False
        if not pending:
            result = self._excess(state)
            if result[0] > worst[0] or result[1] > worst[1]:
                return False
            worst = result
        key = now, every, worst
        if self._won.get(key, evictions + 1) <= evictions:
            return True
        if self._lost.get(key, -1) >= evictions:
            return False
        verdict: Callable[[Iterable[bool]], bool] = all if every else any
        choices = [(after, pending + 1) for after in _without_one(state)]
        choices = [choice for choice in choices if (self._distance(choice) or 0) < evictions]
        choices.sort(key=lambda choice: (len(self._rests(choice)), self._distance(choice)))
        for choice in choices:
            if verdict(self._wins(end, evictions - 1, worst, every=every) for end in self._rests(choice)):
                self._won[key] = evictions
                return True
        self._lost[key] = evictions
        return False

    def _rests(self, start: Rest) -> frozenset[Rest]:
        result = self._ends.get(start)
        if result is None:
            state, pending = start
            following = set(self._with_one(state)) if pending else set()
            if following:
                result = frozenset().union(*(self._rests((after, pending - 1)) for after in following))
            else:
                result = frozenset({start})
            self._ends[start] = result
        return result

    def _with_one(self, state: Zones) -> Iterator[Zones]:
        shaped = [list(zone) for zone in state]
        for place, node in feasible(shaped, self.zone, self.host):
            shaped[place][node] += 1
            yield canonical(shaped)
            shaped[place][node] -= 1

    def _distance(self, now: Rest) -> int | None:
        if now not in self._bounds:
            self._bounds[now] = least_moves(now[0], now[1], self.zone, self.host)
        return self._bounds[now]


def _without_one(state: Zones) -> set[Zones]:
    results = set()
    for place, zone in enumerate(state):
        for node in range(len(zone)):
            if zone[node]:
                shaped = [list(nodes) for nodes in state]
                shaped[place][node] -= 1
                results.add(canonical(shaped))
    return results


def least_moves(state: Zones, pending: int, zone: int, host: int) -> int | None:
    """Return the fewest pods that must leave their nodes so that all, pending ones too, can be placed as required.

    For each pair of minima: what is over on a node must leave, then what is over in a zone, then what the zones that
    are too low still need. The pairs that can matter are few; all are tried.
    """
    total = pending + sum(map(sum, state))
    many = sum(map(len, state))
    results = [
        _moves(state, total, (low_zone, low_zone + zone), (low_host, low_host + host))
        for low_zone in range(max(0, -(-total // len(state)) - zone), total // len(state) + 1)
        for low_host in range(max(0, -(-total // many) - host), total // many + 1)
    ]
    return min((moves for moves in results if moves is not None), default=None)


def _moves(state: Zones, total: int, zone: tuple[int, int], host: tuple[int, int]) -> int | None:
    """Return the fewest pods that must leave where every zone and node holds a number within these limits."""
    moves = stay = least = most = 0
    for nodes in state:
        low, high = max(zone[0], len(nodes) * host[0]), min(zone[1], len(nodes) * host[1])
        if low > high:
            return None
        remaining = sum(min(held, host[1]) for held in nodes)
        filled = sum(min(max(held, host[0]), host[1]) for held in nodes)
        moves += sum(nodes) - remaining + max(0, filled - high)
        stay += min(max(filled, low), high)
        least, most = least + low, most + high
    if not least <= total <= most:
        return None
    return moves + max(0, stay - total)
