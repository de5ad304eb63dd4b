"""Which sizes of a workload have a placement under its hard constraints, and which sizes pods reach one by one.

Problem: with hard constraints over nodes and zones, zones of unequal numbers of nodes leave sizes without a placement;
the next pod then waits forever. There are two verdicts. A size is *impossible* if no placement of that many pods
satisfies every constraint. It is *unreachable* if a placement does, but no sequence of pods, each on a node that the
constraints admit (`count + 1 - minimum <= maxSkew`), leads there from the current placement. A size that pods reach is
neither. A size that pods reach only beside the pods of other workloads is not impossible, although these pods may
violate a constraint.

Ideas. *Impossible*: with the minimum of each key fixed, a domain may hold the window [minimum, minimum + maxSkew], and
sums of windows are windows again. Each pair of minima gives an interval of sizes; their union is exact. *Unreachable*:
in a zone, the emptiest domain is as good as any choice. What one zone takes never keeps a pod from another zone, since
minima only rise. So all orders of zones end at the same size, and one order is simulated. With maxSkew 1 over the finer
key the scheduler has no other choice within a zone; above 1, its choices may strand pods earlier.

Example: zones of 2 and 1 nodes, maxSkew 1 over both keys. Five pods are 1,2 | 2. Six would be 3 and 3 by zone, and one
node of 3 beside one of 1: impossible. Seven could be 2,2 | 3, but only by way of six: unreachable.

Cost: in proportion to the size and the number of zones of different shape; equal domains are counted, not listed. The
tests compare both verdicts with a search over nodes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_MOST_CACHED: Final = 16_384
"""Up to this many verdicts are stored between cycles; equal workloads on equal nodes share a verdict."""


class Rule(NamedTuple):
    """A hard constraint over `domains` domains, open and closed. `max_skew` None: no constraint."""

    max_skew: int | None = None
    domains: int = 0
    min_domains: int = 1

    @property
    def floor_at_zero(self) -> bool:
        """Whether the minimum counts as 0, as it does while there are fewer domains than minDomains."""
        return self.domains < self.min_domains


NO_RULE: Final = Rule()


class Zone(NamedTuple):
    """A domain of the coarser key in which pods may be placed.

    `open` has rows (pods, number of domains) of the finer key's domains that take pods, the emptiest first. `others`
    are the other pods that the coarser constraint counts in the zone.
    """

    open: tuple[tuple[int, int], ...]
    others: int = 0


class Filling(NamedTuple):
    """Counted pods: those of each zone, and those in domains that count but take no pod of the workload."""

    zones: tuple[Zone, ...]
    closed_fine: tuple[int, ...] = ()
    closed_coarse: tuple[int, ...] = ()


class SizeProblem(NamedTuple):
    """The constraints of a workload and what they count. Sizes from `first` to `last` are evaluated."""

    fine: Rule
    coarse: Rule
    """`NO_RULE` without a coarser key; then everything is in one zone."""
    now: Filling
    """All counted pods."""
    foreign: Filling
    """Counted pods of other workloads, in the same zones; the first zone has the fewest open domains."""
    placed: int
    """Pods of the workload that have a node now."""
    first: int
    last: int


class SizeVerdict(NamedTuple):
    """The sizes without a placement, and the sizes whose placement pods do not reach one by one."""

    impossible: tuple[int, ...] = ()
    unreachable: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        """How many sizes are without a placement or unreachable."""
        return len(self.impossible) + len(self.unreachable)


@lru_cache(_MOST_CACHED)
def evaluate_sizes(problem: SizeProblem) -> SizeVerdict:
    """Return the verdicts about all sizes of a problem."""
    reached = problem.placed + _count_arrivals(problem, problem.now, problem.placed)
    from_none = _count_arrivals(problem, problem.foreign, 0)
    has_placement = _find_possible(problem)
    impossible, unreachable = [], []
    for size in range(problem.first, problem.last + 1):
        if problem.placed < size <= reached:
            continue
        if size > from_none and not has_placement[size]:
            impossible.append(size)
        elif size > reached:
            unreachable.append(size)
    return SizeVerdict(tuple(impossible), tuple(unreachable))


# Sizes with a placement


def _find_possible(problem: SizeProblem) -> Sequence[int]:
    """Return for each size up to the last one whether some placement satisfies every constraint."""
    foreign, most = problem.foreign, problem.last
    fixed = sum(_total(zone) for zone in foreign.zones)
    possible = bytearray(most + 1)
    domains = sum(times for zone in foreign.zones for _, times in zone.open)
    for least, top in _windows(problem.fine, foreign.closed_fine, most + fixed, domains):
        rooms = _rooms(foreign.zones, least, top)
        for low, high in _totals(problem.coarse, foreign.closed_coarse, rooms, most + fixed):
            first, last = max(0, low - fixed), min(most, high - fixed)
            if first <= last:
                possible[first : last + 1] = b"\1" * (last + 1 - first)
    return possible


def _windows(rule: Rule, closed: Sequence[int], pods: int, domains: int) -> Iterator[tuple[int, int]]:
    """Yield what a domain may hold at least and at most, for each minimum that `pods` pods in open domains allow."""
    if rule.max_skew is None:
        yield 0, pods
        return
    highest = 0 if rule.floor_at_zero else min((pods // domains, *closed))
    for least in range(max(0, max(closed, default=0) - rule.max_skew), highest + 1):
        yield least, least + rule.max_skew


def _rooms(zones: Sequence[Zone], least: int, top: int) -> Counter[tuple[int, int]]:
    """Count the zones by the least and the most that they can hold; empty if a domain holds more than `top`."""
    rooms: Counter[tuple[int, int]] = Counter()
    for zone in zones:
        if zone.open[-1][0] > top:
            return Counter()
        low = sum(times * max(held, least) for held, times in zone.open)
        high = sum(times for _, times in zone.open) * top
        rooms[low + zone.others, high + zone.others] += 1
    return rooms


def _totals(rule: Rule, closed: Sequence[int], rooms: Counter[tuple[int, int]], pods: int) -> Iterator[tuple[int, int]]:
    """Yield the least and the most that all zones can hold together, one pair for each minimum of the coarser key."""
    if not rooms:
        return
    for least, top in _windows(rule, closed, pods, rooms.total()):
        narrowed = [(max(low, least), min(high, top), zones) for (low, high), zones in rooms.items()]
        if all(low <= high for low, high, _ in narrowed):
            yield sum(low * zones for low, _, zones in narrowed), sum(high * zones for _, high, zones in narrowed)


# Sizes that pods reach one by one


def _count_arrivals(problem: SizeProblem, start: Filling, placed: int) -> int:
    """Return how many more than `placed` pods are placed one by one, at most as many as the last size needs."""
    board = _Board(problem, start)
    wanted = max(0, problem.last - placed)
    return next((number for number in range(wanted) if not board.place()), wanted)


class _Board:
    """The counts while pods arrive: in each zone the emptiest domain takes the next pod."""

    def __init__(self, problem: SizeProblem, start: Filling) -> None:
        zones = start.zones
        self._held = [dict(zone.open) for zone in zones]
        self._emptiest = [zone.open[0][0] for zone in zones]
        self._totals = [_total(zone) for zone in zones]
        self._fine, self._coarse = problem.fine, problem.coarse
        self._closed_fine = start.closed_fine
        self._closed_coarse = start.closed_coarse

    def place(self) -> bool:
        """Place a pod in the first zone that both constraints admit; False if no zone admits it."""
        most_fine = _most_held(self._fine, self._emptiest, self._closed_fine)
        most_coarse = _most_held(self._coarse, self._totals, self._closed_coarse)
        for number, (emptiest, total) in enumerate(zip(self._emptiest, self._totals, strict=True)):
            if (most_fine is None or emptiest <= most_fine) and (most_coarse is None or total <= most_coarse):
                self._fill(number)
                return True
        return False

    def _fill(self, number: int) -> None:
        held, emptiest = self._held[number], self._emptiest[number]
        self._totals[number] += 1
        held[emptiest + 1] = held.get(emptiest + 1, 0) + 1
        held[emptiest] -= 1
        if not held[emptiest]:
            del held[emptiest]
            self._emptiest[number] = emptiest + 1


def _most_held(rule: Rule, open_counts: Sequence[int], closed: Sequence[int]) -> int | None:
    """Return the most that a domain may hold and still take a pod; None without a bound."""
    if rule.max_skew is None:
        return None
    return rule.max_skew - 1 + (0 if rule.floor_at_zero else min((*open_counts, *closed)))


def _total(zone: Zone) -> int:
    return zone.others + sum(held * times for held, times in zone.open)


# Changes of a problem, and words


def add_domain(problem: SizeProblem) -> SizeProblem:
    """Return the problem with one more domain of the finer key, without a pod, in the first zone."""

    def grow(filling: Filling) -> Filling:
        first, *rest = filling.zones
        rows = dict(first.open)
        rows[0] = rows.get(0, 0) + 1
        return filling._replace(zones=(first._replace(open=tuple(sorted(rows.items()))), *rest))

    fine = problem.fine._replace(domains=problem.fine.domains + 1)
    return problem._replace(fine=fine, now=grow(problem.now), foreign=grow(problem.foreign))


def join_sizes(sizes: Sequence[int]) -> Sequence[tuple[int, int]]:
    """Join consecutive sizes into ranges, each with its first and its last size."""
    ranges: list[tuple[int, int]] = []
    for size in sizes:
        if ranges and ranges[-1][1] == size - 1:
            ranges[-1] = ranges[-1][0], size
        else:
            ranges.append((size, size))
    return ranges


def list_sizes(sizes: Sequence[int]) -> str:
    """Write sizes as people do: `6`, `6, 8-10`."""
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in join_sizes(sizes))
