"""What a program is made of: players with pods to place, on cells of equal nodes.

By single nodes the players are the services themselves, with their rules. Where that is too large, one service plays
against all others, which are merged by requests and nodes: their rules are left out but for the most that they place
in each of few domains, which only leaves them more. Nodes are equal then that have the same left, take the same
players, are in the same of the service's few domains, and are closed by as many of its pods.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.resilience.closings import find_closings
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.exclusions import Exclusion
from rebalancer.resilience.rules import Rule
from rebalancer.resilience.takers import Takers


class Cap(NamedTuple):
    """No more pods of a player than this are placed on some cells."""

    player: int
    cells: Sequence[str]
    most: int


class Game(Struct, frozen=True, kw_only=True, eq=False):
    """Players by number, those of services by the service's, and cells by the name of one of their nodes.

    Of each cell `free` is what every node has left, `size` how many there are. `costs` are the pods of one service that
    close a node of a cell by rules that are not among `rules`, for the cells where any do.
    """

    pending: Mapping[int, int]
    requests: Mapping[int, Sequence[int]]
    places: Mapping[int, Sequence[str]]
    rules: Mapping[int, Sequence[Rule]]
    exclusions: Mapping[int, Sequence[Exclusion]]
    free: Mapping[str, Sequence[int]]
    size: Mapping[str, int]
    costs: Mapping[str, int]
    caps: Sequence[Cap]

    @property
    def columns(self) -> int:
        """How many numbers of pods are to be found."""
        return sum(map(len, self.places.values()))


def by_node(competition: Competition, members: Iterable[int]) -> Game:
    """Return the game of services on single nodes."""
    members = tuple(members)
    places = {number: find_open(number, competition) for number in members}
    nodes = {node for cells in places.values() for node in cells}
    return Game(
        pending={number: competition.services[number].pending for number in members},
        requests={number: competition.requests[number] for number in members},
        places=places,
        rules={number: competition.rules[number] for number in members},
        exclusions={number: competition.exclusions[number] for number in members},
        free={node: competition.free[node] for node in competition.nodes if node in nodes},
        size=dict.fromkeys(nodes, 1),
        costs={},
        caps=(),
    )


def find_open(number: int, competition: Competition) -> Sequence[str]:
    """Return the places of a service that no pod closes for good."""
    closed = [(one.domain, one.closed) for one in competition.exclusions[number] if one.closed]
    places = competition.places[number]
    return sorted(node for node in places if not any(domain.get(node) in full for domain, full in closed))


def by_group(number: int, competition: Competition, takers: Takers, most: int) -> Game | None:
    """Return the game of one service, alone in its rules, against all others; None where it has more columns."""
    grouping = _Grouping(number, competition, takers)
    if not grouping.closes_nodes:
        return None
    return grouping.make() if len(grouping.cells) * (1 + len(grouping.lots)) <= most else None


class _Grouping:
    """The cells of one service, and the lots of its competitors."""

    def __init__(self, number: int, competition: Competition, takers: Takers) -> None:
        self._number, self._competition, self._takers = number, competition, takers
        few, many = self._divide(competition.rules[number]), self._divide(competition.exclusions[number])
        self._rules: Final = [rule for rule in competition.rules[number] if rule.key in few]
        self._exclusions: Final = [one for one in competition.exclusions[number] if one.key in many]
        self._keys: Final = {rule.key: rule.domain for rule in self._rules}
        self._keys |= {one.key: one.domain for one in self._exclusions}
        closings = [one for one in find_closings(number, competition, None) if one.key not in self._keys]
        groups = competition.loss.after.nodes.groups
        self.closes_nodes: Final = all(
            not one.key or all(len(nodes) == 1 for nodes in groups(one.key).values()) for one in closings
        )
        self.lots: Final = takers.find_lots(number)
        self._values = [(takers.nodes.values(one.key), one) for one in closings]
        self.cells: Final[Mapping[str, Sequence[str]]] = self._find_cells() if self.closes_nodes else {}

    def _divide(self, rules: Iterable[Rule | Exclusion]) -> Collection[str]:
        """Return the keys with few values."""
        values = self._takers.nodes.values
        return {
            rule.key for rule in rules if rule.key and len({*values(rule.key).values()}) <= self._takers.sizes.domains
        }

    def _find_cells(self) -> Mapping[str, Sequence[str]]:
        competition = self._competition
        sets = {id(places): places for _, places in self.lots}
        found: defaultdict[object, list[str]] = defaultdict(list)
        for node in find_open(self._number, competition):
            domains = [domain.get(node) for domain in self._keys.values()]
            taking = [node in places for places in sets.values()]
            found[competition.free[node], self._cost(node), *domains, *taking].append(node)
        return {nodes[0]: nodes for nodes in found.values()}

    def _cost(self, node: str) -> int | None:
        """Return how many of the service's pods close a node, None where none do."""
        costs = [one.costs.get(values[node], one.others) for values, one in self._values if node in values]
        return min([cost for cost in costs if cost is not None], default=None)

    def make(self) -> Game:
        """Return the game. Players with negative numbers are the others."""
        number, competition = self._number, self._competition
        lots = {-1 - at: lot for at, lot in enumerate(self.lots.items())}
        service = competition.services[number]
        costs = {cell: self._cost(cell) for cell in self.cells}
        places = {at: [cell for cell in self.cells if cell in nodes] for at, ((_, nodes), _) in lots.items()}
        return Game(
            pending={number: service.pending} | {at: self._sum(members) for at, (_, members) in lots.items()},
            requests={number: competition.requests[number]} | {at: asked for at, ((asked, _), _) in lots.items()},
            places={number: [*self.cells]} | places,
            rules={number: self._rules},
            exclusions={number: self._exclusions},
            free={cell: competition.free[cell] for cell in self.cells},
            size={cell: len(nodes) for cell, nodes in self.cells.items()},
            costs={cell: cost for cell, cost in costs.items() if cost is not None},
            caps=[cap for at, (_, members) in lots.items() for cap in self._find_caps(at, members, places[at])],
        )

    def _sum(self, members: Iterable[int]) -> int:
        return sum(self._takers.cap(member, None) for member in members)

    def _find_caps(self, at: int, members: Iterable[int], cells: Sequence[str]) -> Iterable[Cap]:
        members = tuple(members)
        for key, domain in self._keys.items():
            inside: defaultdict[str, list[str]] = defaultdict(list)
            for cell in cells:
                if cell in domain:
                    inside[domain[cell]].append(cell)
            for value, there in inside.items():
                region = key, frozenset((value,))
                yield Cap(at, there, sum(self._takers.cap(member, region) for member in members))
