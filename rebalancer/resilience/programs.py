"""Which program bounds a service that sums leave open: over single nodes where that is small, else over equal nodes.

Only services that may use the same nodes compete, and services whose pods their rules count. The size of a program is
known before it is made. If it is too large for any program, the service is bounded by sums alone, and the answer says
so.
"""

from typing import Final

from rebalancer.model.facts import Fact
from rebalancer.model.words import plural
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.game_programs import GamePrograms
from rebalancer.resilience.games import Groups, by_group, by_node
from rebalancer.resilience.rules import Rule
from rebalancer.resilience.takers import Takers

_SHORTER: Final = 8
"""The share of another program's work that a program over groups may take: a large loss has many of these programs."""

_QUICKER: Final = 8
"""The most pods of this many services are found in the time that the fewest pods of one service take."""

_TO_MAKE: Final = 20
"""Solving for this many columns takes about as long as making a game of any size."""


class TooLarge(Fact):
    """Too many services compete for too many different nodes, so no program is made for them."""

    services: int
    nodes: int

    def __str__(self) -> str:
        services, nodes = plural(self.services, "service"), plural(self.nodes, "node")
        return f"{services} may be placed on {nodes}: too many to compare more than what is requested and what is free"


class Programs:
    """The programs of a loss, made when first needed; services that nothing tells apart share one."""

    def __init__(self, competition: Competition, takers: Takers, work: int) -> None:
        self._competition, self._takers, self._work = competition, takers, work
        self._made: dict[int, GamePrograms | None] = {}
        self._last: tuple[int, GamePrograms | TooLarge] | None = None
        self._groups = Groups(competition, takers)
        self._left, self._nodes_left = takers.sizes.all_groups, takers.sizes.all_nodes
        self._members: dict[int, tuple[int, ...]] = {}
        self._same: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._alone: dict[int, bool] = {}
        self._most: dict[object, int] = {}
        self._fewest: dict[object, tuple[int, Fact | None]] = {}

    def find_most(self, number: int, most: int) -> int:
        """Return the most pods of a service that are placed; the answer is never above the known bound."""
        if not most:
            return most
        known = self._describe(number)
        if known not in self._most:
            program = self._take(number, _QUICKER) or self._make_by_group(number)
            self._most[known] = most if isinstance(program, Fact) else min(most, program.find_most(number))
        return self._most[known]

    def find_fewest(self, number: int, least: int, most: int) -> tuple[int, Fact | None]:
        """Return the fewest pods, never below the known bound, and why the bound is not better."""
        if least == most:
            return least, None
        known = self._describe(number)
        if known not in self._fewest:
            self._fewest[known] = self._find_fewest(number, least, most)
        return self._fewest[known]

    def _find_fewest(self, number: int, least: int, most: int) -> tuple[int, Fact | None]:
        """Ask the program over groups first: it proves most of what the one over nodes would, many times faster."""
        program: GamePrograms | TooLarge | None = self._make_by_group(number)
        if isinstance(program, GamePrograms):
            least = max(least, program.find_fewest(number))
        if least == most:
            return least, None
        whole = self._take(number, 1)
        if whole is not None:
            return max(least, whole.find_fewest(number)), None
        return least, program if isinstance(program, Fact) else self._name_large(number)

    def _take(self, number: int, part: int) -> GamePrograms | None:
        """Return the program over single nodes if enough of the work for a service's fewest pods is left."""
        program = self._make_by_node(number)
        if program is None or self._nodes_left < program.size // part:
            return None
        self._nodes_left -= program.size // part
        return program

    def _name_large(self, number: int) -> TooLarge:
        return TooLarge(len(self._find_members(number)), len(self._competition.places[number]))

    def _describe(self, number: int) -> object:
        """Return everything that distinguishes services in a program.

        If rules count other services, the number of the service is part of the result. Without a program over nodes,
        the number is the result: thousands of nodes are domains, and comparing them takes longer than another program.
        """
        if self._make_by_node(number) is None:
            return number
        members = self._find_members(number)
        if id(members) not in self._alone:
            self._alone[id(members)] = all(self._takers.alone[member] for member in members)
        if not self._alone[id(members)]:
            return number
        competition, service = self._competition, self._competition.services[number]
        return (
            id(members),
            (
                service.pending,
                service.waiting,
                competition.creatable[number],
                competition.requests[number],
                id(competition.places[number]),
            ),
            tuple(_describe_rule(rule) for rule in competition.rules[number]),
            tuple((one.key, one.closed, one.itself) for one in competition.exclusions[number]),
        )

    def _make_by_node(self, number: int) -> GamePrograms | None:
        """Return the program over single nodes; None if it would be too large."""
        members = self._find_members(number)
        if id(members) not in self._made:
            columns = sum(len(self._competition.places[member]) for member in members)
            game = by_node(self._competition, members) if columns <= self._takers.sizes.by_node else None
            self._made[id(members)] = None if game is None else GamePrograms(game, self._competition, self._work)
        return self._made[id(members)]

    def _make_by_group(self, number: int) -> GamePrograms | TooLarge:
        """Return the program over equal nodes; the last one is cached."""
        if self._last is None or self._last[0] != number:
            most = min(self._takers.sizes.by_group, self._left)
            game = by_group(number, self._groups, most) if self._takers.alone[number] else None
            self._last = number, self._name_large(number)
            if game is not None:
                if self._make_by_node(number) is None:
                    self._left -= game.columns + _TO_MAKE
                self._last = number, GamePrograms(game, self._competition, self._work // _SHORTER)
        return self._last[1]

    def _find_members(self, number: int) -> tuple[int, ...]:
        """Return the services of a program: services on the same nodes, and services whose pods their rules count.

        Equal sets are one tuple, so thousands of numbers are hashed once instead of once for each service.
        """
        known = id(self._competition.places[number])
        if known not in self._members:
            members = {*self._takers.find_meeting(number), number}
            counted = [*members]
            while counted:
                for rule in self._competition.rules[counted.pop()]:
                    new = {*self._competition.counted(rule)} - members
                    members |= new
                    counted += new
            found = tuple(sorted(members))
            self._members[known] = self._same.setdefault(found, found)
        return self._members[known]


def _describe_rule(rule: Rule) -> object:
    """Return what a rule requires, without its selector.

    If only the service's own rules count its pods, the selector selects just those pods.
    """
    return (
        (rule.key, rule.max_skew, rule.itself, rule.uncounted, rule.always_floored, rule.floored),
        rule.eligible,
        frozenset(rule.base.items()),
        frozenset(rule.late.items()),
    )
