"""How many pods of each service are placed at most, in all and in each of few domains, and what these request."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rebalancer.resilience.competition import Competition
from rebalancer.resilience.kinds import Kind, Nodes, Region
from rebalancer.resilience.most import find_most

FEW: Final = 8
"""Domains of a key by which the pods of services are told apart."""

_TRIED: Final = 3
"""Of a kind's ways to value resources so many are tried."""


class Most(NamedTuple):
    """The most pods of a service, and of each value of the keys of its constraints on few domains."""

    total: int
    by_key: Mapping[str, Mapping[str, int]]


class Takers:
    """The services of a loss by their kinds, and the most that each takes."""

    def __init__(self, competition: Competition) -> None:
        self.competition = competition
        self.nodes: Final = Nodes(competition)
        kinds: dict[tuple[Sequence[int], int], int] = {}
        self.kinds: Final[list[Kind]] = []
        self._kind_of: dict[int, int] = {}
        for number in competition.active:
            requests, places = competition.requests[number], competition.places[number]
            known = requests, id(places)
            if known not in kinds:
                kinds[known] = len(kinds)
                self.kinds.append(Kind(self.nodes, requests, places))
            self._kind_of[number] = kinds[known]
        self.alone: Final = {number: competition.is_alone(number) for number in competition.active}
        self.most: Final = {number: self._find_most(number) for number in competition.active}
        numpy = self.nodes.numpy
        self._requests = numpy.array([kind.requests or (0,) for kind in self.kinds], dtype=float)
        self._order = numpy.array([self._kind_of[number] for number in competition.active], dtype=int)
        self._taken: dict[Region, Any] = {}
        self._meets: dict[tuple[int, int], bool] = {}
        self._ways: dict[int, Sequence[int]] = {}
        self._paid: dict[tuple[int, int, Region], float] = {}

    def kind(self, number: int) -> Kind:
        """Return the kind of a service."""
        return self.kinds[self._kind_of[number]]

    def _find_most(self, number: int) -> Most:
        service, kind = self.competition.services[number], self.kind(number)
        total, by_key = float(service.pending), dict[str, Mapping[str, int]]()
        for rule in self.competition.rules[number] if self.alone[number] else ():
            named, fit = kind.fit_by(rule.key)
            if len(named) <= FEW:
                reached = [value for value in named if kind.reaches(rule.key, value)]
                most, total_of_rule = find_most(rule, service, reached)
                known = by_key.get(rule.key, most)
                rooms = dict(zip(named, fit, strict=False))
                by_key[rule.key] = {value: int(min(known[value], most[value], rooms[value])) for value in reached}
                total = min(total, total_of_rule, sum(by_key[rule.key].values()))
        for exclusion in self.competition.exclusions[number]:
            if exclusion.itself:
                total = min(total, kind.count_open(exclusion.key, exclusion.closed))
        return Most(int(min(total, kind.fit.sum())), by_key)

    def cap(self, number: int, region: Region) -> int:
        """Return the most pods of a service in a region."""
        most = self.most[number]
        if region is None:
            return most.total
        key, values = region
        if key in most.by_key:
            caps = most.by_key[key]
            return min(most.total, sum(caps.get(value, 0) for value in values))
        return int(min(most.total, self.kind(number).fit_inside(region)))

    def _count(self, region: Region) -> Any:
        """Return the most pods of each kind in a region."""
        if region not in self._taken:
            numpy = self.nodes.numpy
            caps = [self.cap(number, region) for number in self.competition.active]
            self._taken[region] = numpy.bincount(self._order, weights=caps, minlength=len(self.kinds))
        return self._taken[region]

    def pay(self, number: int, way: int, region: Region) -> float:
        """Return what the other services can fill of a region at most, valued as the kind of a service does."""
        at = self._kind_of[number]
        known = at, way, region
        if known not in self._paid:
            kind = self.kinds[at]
            meeting = [self._meet(at, other) for other in range(len(self.kinds))]
            prices = kind.prices(way, self._requests) * meeting
            self._paid[known] = float(prices @ self._count(region))
        return self._paid[known] - self.cap(number, region)

    def find_ways(self, number: int) -> Sequence[int]:
        """Return the ways to value resources that are tried for a service's kind: those by which most is left."""
        at = self._kind_of[number]
        if at not in self._ways:
            kind = self.kinds[at]
            left = {way: kind.total(way, None) - self.pay(number, way, None) for way in range(len(kind.weights))}
            self._ways[at] = sorted(left, key=lambda way: -left[way])[:_TRIED]
        return self._ways[at]

    def meet(self, number: int, other: int) -> bool:
        """Return whether two services may stand on the same nodes."""
        return self._meet(self._kind_of[number], self._kind_of[other])

    def _meet(self, one: int, other: int) -> bool:
        left, right = self.kinds[one].places, self.kinds[other].places
        known = id(left), id(right)
        if known not in self._meets:
            self._meets[known] = not left.isdisjoint(right)
        return self._meets[known]
