"""How many pods of each service are placed at most, in all and in each of few domains, and what these request."""

from collections.abc import Mapping, Sequence
from math import floor, log
from typing import Any, Final, NamedTuple

from rebalancer.resilience.competition import Competition
from rebalancer.resilience.kinds import Kind, Nodes, Region
from rebalancer.resilience.most import find_most
from rebalancer.resilience.sizes import SIZES, Sizes

_STEP: Final = 1.3
"""If there are many different requests, those of one kind differ by less than this factor."""

_TRIED: Final = 3
"""At most this many valuations of resources are tried for a kind."""


class Most(NamedTuple):
    """The most pods of a service, in all and for each value of the constraint keys that have few domains."""

    total: int
    by_key: Mapping[str, Mapping[str, int]]


class Takers:
    """The services of a loss by kind, and the most pods of each."""

    def __init__(self, competition: Competition, sizes: Sizes = SIZES) -> None:
        self.competition: Final = competition
        self.sizes: Final = sizes
        self.nodes: Final = Nodes(competition)
        lots: dict[tuple[Sequence[int], int], int] = {}
        for number in competition.active:
            lots.setdefault((competition.requests[number], id(competition.places[number])), len(lots))
        self._lot_of = {
            number: lots[competition.requests[number], id(competition.places[number])] for number in competition.active
        }
        self.kinds: Final[list[Kind]] = []
        self._kind_of: Final = self._sort_kinds()
        self.alone: Final = {number: competition.is_alone(number) for number in competition.active}
        self.most: Final = {number: self._find_most(number) for number in competition.active}
        numpy = self.nodes.numpy
        self._requests = numpy.array([requests or (0,) for requests, _ in lots], dtype=float)
        self._places = numpy.array([places for _, places in lots])
        self._order = numpy.array([self._lot_of[number] for number in competition.active], dtype=int)
        self._lots: dict[int, Mapping[tuple[Sequence[int], frozenset[str]], Sequence[int]]] = {}
        self._ways: dict[int, Sequence[int]] = {}
        self._taken: dict[Region, Any] = {}
        self._meeting: dict[int, Any] = {}
        self._prices: dict[tuple[int, int], Any] = {}
        self._paid: dict[tuple[int, int, Region], float] = {}

    def _sort_kinds(self) -> Mapping[int, int]:
        """Make the kinds, and return the kind of each service.

        If there are many different requests, similar ones share a kind.
        """
        competition = self.competition
        exact = len({*competition.requests.values()}) <= self.sizes.requests
        grouped: dict[object, list[int]] = {}
        for number in competition.active:
            requests = competition.requests[number]
            size = requests if exact else tuple(amount and 1 + floor(log(amount, _STEP)) for amount in requests)
            grouped.setdefault((size, id(competition.places[number])), []).append(number)
        for members in grouped.values():
            asked = [competition.requests[number] for number in members]
            least, most = (tuple(map(choose, zip(*asked, strict=True))) for choose in (min, max))
            self.kinds.append(Kind(self.nodes, most, least, competition.places[members[0]]))
        return {number: at for at, members in enumerate(grouped.values()) for number in members}

    def kind(self, number: int) -> Kind:
        """Return the kind of a service."""
        return self.kinds[self._kind_of[number]]

    def _find_most(self, number: int) -> Most:
        service, kind = self.competition.services[number], self.kind(number)
        total, by_key = float(self.competition.creatable[number]), dict[str, Mapping[str, int]]()
        for rule in self.competition.rules[number] if self.alone[number] else ():
            named, fit = kind.fit_by(rule.key)
            if len(named) <= self.sizes.domains:
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
        """Return the most pods of each lot in a region. A lot is the services with equal requests and places."""
        if region not in self._taken:
            caps = [self.cap(number, region) for number in self.competition.active]
            self._taken[region] = self.nodes.numpy.bincount(self._order, weights=caps, minlength=len(self._places))
        return self._taken[region]

    def pay(self, number: int, way: int, region: Region) -> float:
        """Return how much of a region the other services can fill at most, under the valuation of a service's kind."""
        at = self._kind_of[number]
        prices = self._find_prices(at, way)
        known = at, way, region
        if known not in self._paid:
            self._paid[known] = float(prices @ self._count(region))
        return self._paid[known] - float(prices[self._lot_of[number]]) * self.cap(number, region)

    def _find_prices(self, at: int, way: int) -> Any:
        """Return what the pods of each lot pay, if they may be placed on a node of a kind."""
        if (at, way) not in self._prices:
            kind = self.kinds[at]
            self._prices[at, way] = kind.prices(way, self._requests) * self._find_meeting(kind.places)
        return self._prices[at, way]

    def _find_meeting(self, places: frozenset[str]) -> Any:
        """Return which lots may use the same nodes."""
        if id(places) not in self._meeting:
            known = {id(other): other for other in self.competition.places.values()}
            meeting = {name: not places.isdisjoint(other) for name, other in known.items()}
            self._meeting[id(places)] = self.nodes.numpy.array([meeting[name] for name in self._places.tolist()])
        return self._meeting[id(places)]

    def find_ways(self, number: int) -> Sequence[int]:
        """Return the valuations of resources to try for a service's kind: those that leave most."""
        at = self._kind_of[number]
        if at not in self._ways:
            kind = self.kinds[at]
            left = {way: kind.total(way, None) - self.pay(number, way, None) for way in range(len(kind.weights))}
            self._ways[at] = sorted(left, key=lambda way: -left[way])[:_TRIED]
        return self._ways[at]

    def find_lots(self, number: int) -> Mapping[tuple[Sequence[int], frozenset[str]], Sequence[int]]:
        """Return the services that may use a service's nodes, by requests and places."""
        known = id(self.competition.places[number])
        if known not in self._lots:
            found: dict[tuple[Sequence[int], frozenset[str]], list[int]] = {}
            for other in self.find_meeting(number):
                lot = self.competition.requests[other], self.competition.places[other]
                found.setdefault(lot, []).append(other)
            self._lots[known] = found
        return self._lots[known]

    def find_meeting(self, number: int) -> Sequence[int]:
        """Return the services that may use a service's nodes."""
        meeting = self._find_meeting(self.competition.places[number])
        return [other for other in self.competition.active if meeting[self._lot_of[other]]]
