"""The parts of a program: players with pods to place, on cells of equal nodes.

By single nodes the players are the services themselves, with their rules. Where that is too large, one service plays
against all others, which are merged by requests and nodes. Their rules are left out, except for the most pods that they
place in each domain of keys with few domains; that only gives them more choices. Nodes are equal then if they have the
same free resources, take the same players, are in the same domains of the service, and are closed by equal numbers of
its pods.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.resilience.closings import Closing, find_closings
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.exclusions import Exclusion
from rebalancer.resilience.rules import Rule
from rebalancer.resilience.takers import Takers


class Cap(NamedTuple):
    """A bound on the pods of one player that are placed on certain cells together."""

    player: int
    cells: Sequence[str]
    most: int


class Game(Struct, frozen=True, kw_only=True, eq=False):
    """Players by number, services by the service's number, and cells by the name of one of their nodes.

    For each cell, `free` is what every node has left, `size` how many nodes there are. `costs` are the pods of one
    service that close a node of a cell by rules outside `rules`, for the cells where any do.
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
        """How many pod counts the program determines."""
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
    """Return the places of a service that no pod closes permanently."""
    closed = [(one.domain, one.closed) for one in competition.exclusions[number] if one.closed]
    places = competition.places[number]
    return sorted(node for node in places if not any(domain.get(node) in full for domain, full in closed))


def by_group(number: int, groups: "Groups", most: int) -> Game | None:
    """Return the game of one service against all others; the rules of the service count only its own pods.

    Return None if the game has too many columns.
    """
    grouping = _Grouping(number, groups)
    lots = len(groups.takers.find_lots(number))
    if not grouping.closes_nodes or len(grouping.base) * lots > most:
        return None
    made = grouping.make()
    return made if made.columns <= most else None


class Groups:
    """Groups of nodes that are equal for many services."""

    def __init__(self, competition: Competition, takers: Takers) -> None:
        self.competition: Final = competition
        self.takers: Final = takers
        self._found: dict[tuple[int, tuple[str, ...]], Mapping[tuple[object, ...], Sequence[str]]] = {}

    def find(self, number: int, keys: Mapping[str, Mapping[str, str]]) -> Mapping[tuple[object, ...], Sequence[str]]:
        """Return a service's places in groups.

        The places of a group have equal free resources, domains of some keys, and services that may use them.
        """
        competition = self.competition
        places = competition.places[number]
        known = id(places), tuple(keys)
        if known not in self._found:
            sets = {id(nodes): nodes for _, nodes in self.takers.find_lots(number)}
            found: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
            for node in sorted(places):
                domains = [domain.get(node) for domain in keys.values()]
                taking = [node in nodes for nodes in sets.values()]
                found[competition.free[node], *domains, *taking].append(node)
            self._found[known] = found
        return self._found[known]


class _Grouping:
    """The cells of one service, and its competitors by lots."""

    def __init__(self, number: int, groups: Groups) -> None:
        self._number, self._competition, self._takers = number, groups.competition, groups.takers
        competition = groups.competition
        few, many = self._divide(competition.rules[number]), self._divide(competition.exclusions[number])
        self._rules: Final = [rule for rule in competition.rules[number] if rule.key in few]
        self._exclusions: Final = [one for one in competition.exclusions[number] if one.key in many]
        keys = {rule.key: rule.domain for rule in self._rules}
        self._keys: Final = keys | {one.key: one.domain for one in self._exclusions}
        self._closings: Final = [one for one in find_closings(number, competition, None) if one.key not in self._keys]
        self.closes_nodes: Final = all(map(self._is_of_nodes, self._closings))
        self.base: Final = groups.find(number, self._keys)

    def _divide(self, rules: Iterable[Rule | Exclusion]) -> Collection[str]:
        """Return the keys that have few values."""
        return {
            rule.key for rule in rules if rule.key and self._takers.nodes.has_few(rule.key, self._takers.sizes.domains)
        }

    def _is_of_nodes(self, closing: Closing) -> bool:
        """Return whether every node is a domain of its own."""
        return not closing.key or self._takers.nodes.are_nodes(closing.key)

    def _find_cells(self) -> Mapping[str, tuple[Sequence[str], int | None]]:
        """Return groups of equal open nodes, under the name of one of them.

        With each comes how many of the service's pods close such a node, None where none do.
        """
        usual = min([one.others for one in self._closings if one.others is not None], default=None)
        different = {node for one in self._closings for value in one.costs for node in self._find_nodes(one.key, value)}
        shut = {
            node
            for one in self._competition.exclusions[self._number]
            for value in one.closed
            for node in self._find_nodes(one.key, value)
        }
        found: dict[object, tuple[list[str], int | None]] = {}
        for what, nodes in self.base.items():
            left = [node for node in nodes if node not in different and node not in shut]
            if left:
                found[what] = left, usual
            for node in nodes if len(left) < len(nodes) else ():
                if node in different and node not in shut:
                    cost = self._find_cost(node)
                    found.setdefault((what, cost), ([], cost))[0].append(node)
        return {nodes[0]: (nodes, cost) for nodes, cost in found.values()}

    def _find_nodes(self, key: str, value: str) -> Iterable[str]:
        return self._competition.loss.after.nodes.groups(key).get(value, ()) if key else (value,)

    def _find_cost(self, node: str) -> int | None:
        values = self._takers.nodes.values
        costs = [one.costs.get(values(one.key)[node], one.others) for one in self._closings]
        return min([cost for cost in costs if cost is not None], default=None)

    def make(self) -> Game:
        """Return the game. Players with negative numbers are the other services."""
        number, competition = self._number, self._competition
        cells, lots = self._find_cells(), self._find_others()
        places = {at: [cell for cell in cells if cell in nodes] for at, (_, nodes, _) in lots.items()}
        return Game(
            pending={number: competition.services[number].pending}
            | {at: self._sum(members) for at, (_, _, members) in lots.items()},
            requests={number: competition.requests[number]} | {at: asked for at, (asked, _, _) in lots.items()},
            places={number: [*cells]} | places,
            rules={number: self._rules},
            exclusions={number: self._exclusions},
            free={cell: competition.free[cell] for cell in cells},
            size={cell: len(nodes) for cell, (nodes, _) in cells.items()},
            costs={cell: cost for cell, (_, cost) in cells.items() if cost is not None},
            caps=[cap for at, (_, _, members) in lots.items() for cap in self._find_caps(at, members, places[at])],
        )

    def _find_others(self) -> Mapping[int, tuple[Sequence[int], frozenset[str], Sequence[int]]]:
        others = [
            (asked, nodes, [member for member in members if member != self._number])
            for (asked, nodes), members in self._takers.find_lots(self._number).items()
        ]
        return {-1 - at: lot for at, lot in enumerate(others) if lot[2]}

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
