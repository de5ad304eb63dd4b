"""Which program bounds a service that sums leave open: over single nodes where that is small, else over equal ones.

Only services that may stand on the same nodes compete, and those whose pods a rule of these counts. The size of a
program is known before it is made; what is too large for any is bounded by sums alone, and that is said.
"""

from typing import Final

from rebalancer.model.facts import Fact
from rebalancer.resilience.by_node import ByNode
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.takers import Takers

_MOST_COLUMNS: Final = 600
"""Services times nodes of a program over single nodes."""


class TooLarge(Fact):
    """So many services compete for so many nodes that no program is made of them."""

    services: int
    nodes: int
    columns: int
    most: int

    def __str__(self) -> str:
        return (
            f"{self.services} services compete for {self.nodes} nodes: a program of {self.columns} columns, "
            f"more than {self.most}"
        )


class Programs:
    """The programs of a loss, made when first needed."""

    def __init__(self, competition: Competition, takers: Takers, work: int) -> None:
        self._competition, self._takers, self._work = competition, takers, work
        self._made: dict[tuple[int, ...], ByNode] = {}
        self._members: dict[int, tuple[int, ...]] = {}

    def find_most(self, number: int, most: int) -> int:
        """Return the most pods of a service that are placed, at most as many as are known."""
        program = self._choose(number)
        return most if isinstance(program, Fact) else min(most, program.find_most(number))

    def find_fewest(self, number: int, least: int, most: int) -> tuple[int, Fact | None]:
        """Return the fewest, at least as many as are known, and why it is not better."""
        if least == most:
            return least, None
        program = self._choose(number)
        if isinstance(program, Fact):
            return least, program
        return max(least, program.find_fewest(number)), None

    def _choose(self, number: int) -> ByNode | TooLarge:
        places = self._competition.places
        members = self._find_members(number)
        columns = sum(len(places[member]) for member in members)
        if columns > _MOST_COLUMNS:
            return TooLarge(len(members), len(places[number]), columns, _MOST_COLUMNS)
        if members not in self._made:
            self._made[members] = ByNode(self._competition, members, self._work)
        return self._made[members]

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
