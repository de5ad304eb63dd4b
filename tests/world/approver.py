"""An operator who reads the proposed plan now and then, and approves it: at once, late, or an old one.

By its hash, which approves its evictions, or with its later steps, up to a number and until a time. Such an approval is
now and then withdrawn, soon or late, and applied again.
"""

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from rebalancer.admission.written import WholeApproval, Written
from rebalancer.documents.memory import parse_memory
from rebalancer.ports import MEMORY_KEY

if TYPE_CHECKING:
    from tests.world.world import World

LATE = 5.0
"""Seconds that a watch may take."""

LATEST = 400.0
"""Seconds that an approval may take."""


class Approver:
    """Reads what is stored, as `rebalancer` shows it, and writes approvals."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world, self._random = world, random
        self._seen: list[str] = []
        self._written: list[WholeApproval] = []
        self.prefers_whole = random.random() < 0.6  # of the worlds

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
            if self.prefers_whole and drawn < 0.6:
                self._approve_whole(proposal.hash)
            elif drawn < 0.5:
                self._approve(proposal.hash)
            elif drawn < 0.7:
                world.hub.after(random.uniform(20, LATEST), lambda: self._approve(proposal.hash))
            elif drawn < 0.85:
                self._approve(random.choice(self._seen))
        if self._written and random.random() < 0.08:
            self._write(None)
        elif self._written and random.random() < 0.1:
            self._write(random.choice(self._written))
        world.hub.after(random.uniform(5, 40), self._read)

    def _approve_whole(self, hash_: str) -> None:
        random, world = self._random, self._world
        until = world.cluster.now + timedelta(seconds=random.choice([15, 60, 300, 900]))
        namespaces = (random.choice(world.namespaces),) if random.random() < 0.2 else ()
        approval = WholeApproval(plan=hash_, evictions=random.randint(1, 12), until=until, namespaces=namespaces)
        self._written.append(approval)
        self._write(approval)
        if random.random() < 0.2:
            world.hub.after(random.uniform(3, 40), lambda: self._write(None))

    def _write(self, approval: WholeApproval | None) -> None:
        world = self._world
        world.api.written = Written(approval=approval)
        world.monitor.records.writes(approval)
        world.note(f"approval.yaml has {approval}")
        self._deliver()

    def _approve(self, hash_: str) -> None:
        world = self._world
        world.api.approved = hash_
        world.monitor.records.approves(hash_)
        world.note(f"plan {hash_} is approved")
        self._deliver()

    def _deliver(self) -> None:
        """Let the watches have what is written, at once or late."""
        world = self._world
        delay = self._random.choice([0.05, 0.05, LATE])
        for replica in world.living:
            world.hub.after(delay, replica.hear_approval)
