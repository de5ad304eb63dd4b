"""An operator who reads the proposed plan now and then, and approves it by its hash: at once, late, or an old one."""

from random import Random
from typing import TYPE_CHECKING

from rebalancer.ports import MEMORY_KEY
from rebalancer.reporting.documents.memory import parse_memory

if TYPE_CHECKING:
    from tests.world.world import World

LATEST = 400.0
"""Seconds that an approval may take."""


class Approver:
    """Reads what is stored, as `rebalancer` shows it, and writes approvals."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world, self._random = world, random
        self._seen: list[str] = []

    def start(self) -> None:
        """Begin to read."""
        self._world.hub.after(self._random.uniform(5, 40), self._read)

    def _read(self) -> None:
        random, world = self._random, self._world
        proposal = parse_memory(world.api.documents.get(MEMORY_KEY, "")).proposal
        if proposal is not None and not proposal.approved:
            if proposal.hash not in self._seen:
                self._seen.append(proposal.hash)
            drawn = random.random()
            if drawn < 0.5:
                self._approve(proposal.hash)
            elif drawn < 0.7:
                world.hub.after(random.uniform(20, LATEST), lambda: self._approve(proposal.hash))
            elif drawn < 0.85:
                self._approve(random.choice(self._seen))
        world.hub.after(random.uniform(5, 40), self._read)

    def _approve(self, hash_: str) -> None:
        world = self._world
        world.api.approved = hash_
        world.monitor.records.approves(hash_)
        delay = self._random.choice([0.05, 0.05, 5.0])
        world.note(f"plan {hash_} is approved, watched after {delay}s")
        for replica in world.living:
            world.hub.after(delay, replica.hear_approval)
