"""Which program bounds a service that sums leave open: over single nodes where that is small, else over equal ones.

Only services that may stand on the same nodes compete, and those whose pods a rule of these counts. The size of a
program is known before it is made; what is too large for any is bounded by sums alone, and that is said.
"""

from collections.abc import Sequence
from typing import Final

from rebalancer.model.facts import Fact
from rebalancer.model.words import plural
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.game_programs import GamePrograms
from rebalancer.resilience.games import Groups, by_group, by_node
from rebalancer.resilience.takers import Takers

_SHORTER: Final = 8
"""A program over groups is one of many of a large loss: it may take this part of the work of another."""

_TO_MAKE: Final = 20
"""Columns that take about as long to solve for as any game takes to make."""


class TooLarge(Fact):
    """So many services compete for so many different nodes that no program is made of them."""

    services: int
    nodes: int

    def __str__(self) -> str:
        services, nodes = plural(self.services, "service"), plural(self.nodes, "node")
        return f"{services} may be placed on {nodes}: too many for more than sums of what they request and what is left"


class Programs:
    """The programs of a loss, made when first needed."""

    def __init__(self, competition: Competition, takers: Takers, work: int) -> None:
        self._competition, self._takers, self._work = competition, takers, work
        self._made: dict[tuple[int, ...], GamePrograms | None] = {}
        self._last: tuple[int, GamePrograms | TooLarge] | None = None
        self._groups = Groups(competition, takers)
        self._left = takers.sizes.all_groups
        self._members: dict[int, tuple[int, ...]] = {}

    def find_most(self, number: int, most: int) -> int:
        """Return the most pods of a service that are placed, at most as many as are known."""
        program = self._choose(number) if most else None
        return min(most, program.find_most(number)) if isinstance(program, GamePrograms) else most

    def find_fewest(self, number: int, least: int, most: int) -> tuple[int, Fact | None]:
        """Return the fewest, at least as many as are known, and why it is not better."""
        if least == most:
            return least, None
        program = self._choose(number)
        if isinstance(program, Fact):
            return least, program
        return max(least, program.find_fewest(number)), None

    def _choose(self, number: int) -> GamePrograms | TooLarge:
        members = self._find_members(number)
        if members not in self._made:
            columns = sum(len(self._competition.places[member]) for member in members)
            game = by_node(self._competition, members) if columns <= self._takers.sizes.by_node else None
            self._made[members] = None if game is None else GamePrograms(game, self._competition, self._work)
        made = self._made[members]
        return self._make_by_group(number, members) if made is None else made

    def _make_by_group(self, number: int, members: Sequence[int]) -> GamePrograms | TooLarge:
        """Return the program over equal nodes, the last of which is kept."""
        if self._last is None or self._last[0] != number:
            most = min(self._takers.sizes.by_group, self._left)
            alone = self._takers.alone[number]
            game = by_group(number, self._groups, most) if alone else None
            self._last = number, TooLarge(len(members), len(self._competition.places[number]))
            if game is not None:
                self._left -= game.columns + _TO_MAKE
                self._last = number, GamePrograms(game, self._competition, self._work // _SHORTER)
        return self._last[1]

    def _find_members(self, number: int) -> tuple[int, ...]:
        """Return the services of a program: those on the same nodes, and whose pods rules of these count."""
        known = id(self._competition.places[number])
        if known not in self._members:
            members = {*self._takers.find_meeting(number), number}
            counted = [*members]
            while counted:
                for rule in self._competition.rules[counted.pop()]:
                    new = {*self._competition.counted(rule)} - members
                    members |= new
                    counted += new
            self._members[known] = tuple(sorted(members))
        return self._members[known]
