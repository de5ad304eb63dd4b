"""Thousands of entries and three processes that lead in turn, killed around every kind of write.

What is checked is what the ConfigMaps have ever had: each thing that was observed is there once, and no object is ever
larger than its bound.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from random import Random

import pytest
from msgspec import structs

from rebalancer.controller.history_writer import HistoryWriter
from rebalancer.controller.state import HistoryStored, LoopEvent
from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.history import ring
from rebalancer.history.contents import NO_CONTENTS, Contents, Write
from rebalancer.history.outbox import MOST_WAITING, add_entries, begin_term, forget_stored
from rebalancer.history.ring import parse_segment, read_ring
from rebalancer.history.trend import MOST_SAMPLES, parse_trend
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.ports import HistoryError
from tests.drawing import scaled

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


class Fault(Enum):
    """What becomes of a write."""

    NONE = auto()
    KILLED_BEFORE = auto()
    KILLED_AFTER = auto()
    REFUSED = auto()
    ANSWER_LOST = auto()


class Killed(BaseException):
    """The process has ended."""


class Cluster:
    """What outlives the processes: the memory, the ConfigMaps with their versions, and all that they ever had."""

    def __init__(self, seed: int, faults: tuple[Fault, ...], rate: float) -> None:
        self.random = Random(seed)
        self.faults, self.rate = faults, rate
        self.now = START
        self.memory = memory_text(NO_MEMORY)
        self.memory_version = 0
        self.contents = NO_CONTENTS
        self.versions: Counter[str] = Counter()
        self.entries: dict[int, Entry] = {}
        self.written_by: Counter[str] = Counter()

    def fault(self) -> Fault:
        return self.random.choice(self.faults) if self.random.random() < self.rate else Fault.NONE

    def carry_out(self, apply: Callable[[], None]) -> None:
        """Apply a write, or not, and answer it, or not."""
        fault = self.fault()
        if fault is Fault.KILLED_BEFORE:
            raise Killed
        if fault is Fault.REFUSED:
            raise HistoryError("refused")
        apply()
        if fault is Fault.KILLED_AFTER:
            raise Killed
        if fault is Fault.ANSWER_LOST:
            raise HistoryError("no answer")

    def store(self, write: Write) -> None:
        assert len(write.text.encode()) <= ring.SEGMENT_BYTES
        self.contents = self.contents.after(write)
        self.versions[write.name] += 1
        for entry in (*parse_segment(write.text),) if write.key.endswith("l") else ():
            assert self.entries.setdefault(entry.seq, entry) == entry, "a number is that of one entry"


class Store:
    """The ConfigMaps as one process knows them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.versions: dict[str, int] = {}

    def read(self) -> Contents:
        self.versions = dict(self.cluster.versions)
        return self.cluster.contents

    def write(self, write: Write) -> None:
        def apply() -> None:
            if self.versions.get(write.name, 0) != self.cluster.versions[write.name]:
                raise HistoryError("changed since it was read")
            self.cluster.store(write)

        self.cluster.carry_out(apply)
        self.versions[write.name] = self.cluster.versions[write.name]


class Process:
    """A leader: it observes numbers one after the other, and stores how far it has come with the entries of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.version = cluster.memory_version
        self.memory = begin_term(parse_memory(cluster.memory), cluster.now)
        self.leads = True
        self.writer = HistoryWriter(Store(cluster), leads=lambda: self.leads, tell=self.take)

    def take(self, event: LoopEvent) -> None:
        assert isinstance(event, HistoryStored)
        self.memory = forget_stored(self.memory, event.stored)

    def observe(self, numbers: int) -> None:
        """Make an entry for each of the next numbers; each tenth is a sample."""
        first = self.memory.noted.violated
        made = [self._entry(number) for number in range(first, first + numbers)]
        memory = structs.replace(self.memory, noted=structs.replace(self.memory.noted, violated=first + numbers))
        self.memory = add_entries(memory, made)

    def _entry(self, number: int) -> Entry:
        at = int(self.cluster.now.timestamp())
        if number % 10 == 0:
            return Entry(seq=0, at=at, kind=EntryKind.SAMPLE, number=number)
        return Entry(seq=0, at=at, kind=EntryKind.MOVED, what=str(number), pod=f"pod-{number}", uid="0" * 36)

    def save(self) -> None:
        """Store the memory if nobody else has; what was stored is handed to the writer."""

        def apply() -> None:
            if self.version != self.cluster.memory_version:
                raise HistoryError("changed since it was read")
            self.cluster.memory = memory_text(self.memory)
            self.version = self.cluster.memory_version = self.cluster.memory_version + 1

        self.cluster.carry_out(apply)
        self.writer.take(self.memory.outbox)

    def write(self) -> None:
        self.writer._skipped = 0
        self.writer.poll()


def run(cluster: Cluster, total: int, *, takeovers: float = 0.02, most: int = 40) -> None:
    """Let processes lead in turn until all numbers are observed and stored; the deposed ones go on for a while."""
    deposed: list[Process] = []
    process = Process(cluster)
    for _ in range(total):
        if process.memory.noted.violated == total and not process.memory.outbox:
            return
        cluster.now += timedelta(seconds=10)
        left = total - process.memory.noted.violated
        try:
            for old in deposed:  # it may not know yet that it does not lead any more
                old.write()
            process.observe(min(left, cluster.random.randint(0, most)))
            process.save()
            process.write()
        except HistoryError:
            continue  # the memory is not saved: its entries wait
        except Killed:
            deposed = deposed[-2:]
            process = Process(cluster)
        if left == 0:
            cluster.rate = 0.0
            deposed = []
        elif cluster.random.random() < takeovers:
            deposed = [*deposed[-1:], process]
            process = Process(cluster)
    raise AssertionError("entries wait for ever")


KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_nothing_is_lost_or_doubled(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of all writes kill the process, or have no answer; each number is in the history once, in order.

    Where fewer than ten thousand are written, texts are smaller by as much, so that all of them are begun anew.
    """
    total = scaled(10_000)
    monkeypatch.setattr(ring, "SEGMENT_BYTES", min(ring.SEGMENT_BYTES, scaled(ring.SEGMENT_BYTES)))
    cluster = Cluster(seed, (*KILLS, Fault.REFUSED, Fault.ANSWER_LOST), rate=0.3)
    run(cluster, total)
    numbers = [int(entry.what) for _, entry in sorted(cluster.entries.items()) if entry.kind == EntryKind.MOVED]
    assert numbers == [number for number in range(total) if number % 10]
    assert not [entry for entry in cluster.entries.values() if entry.kind == EntryKind.DROPPED]
    assert scaled(3_000) <= len(read_ring(cluster.contents.segments)) < len(numbers), "all texts were begun anew"
    samples = parse_trend(cluster.contents.trend).samples
    assert samples[0].violated == 0
    assert samples[-1].violated == total - 10
    assert len(samples) <= MOST_SAMPLES
    assert len({sample.violated for sample in samples}) == len(samples), "none is doubled"


@pytest.mark.parametrize("fault", KILLS)
def test_killed_at_each_write(fault: Fault) -> None:
    """Wherever the process ends: each single write of a short history is its last one, in turn."""
    for fatal in range(24):
        cluster = Cluster(fatal, (fault,), rate=0.0)
        count = 0

        def strike(limit: int = fatal, kill: Fault = fault) -> Fault:
            nonlocal count
            count += 1
            return kill if count == limit + 1 else Fault.NONE

        cluster.fault = strike  # type: ignore[method-assign]
        run(cluster, 100, most=20)
        numbers = [int(entry.what) for _, entry in sorted(cluster.entries.items())]
        assert numbers == [number for number in range(100) if number % 10]
        assert [one.violated for one in parse_trend(cluster.contents.trend).samples] == list(range(0, 100, 10))


def test_a_leader_recovers_by_itself() -> None:
    """After a write without an answer, or one that is refused, the same process reads what is stored and goes on."""
    cluster = Cluster(1, (Fault.REFUSED, Fault.ANSWER_LOST), rate=0.3)
    run(cluster, 1_000, takeovers=0.0)
    numbers = [int(entry.what) for _, entry in sorted(cluster.entries.items())]
    assert numbers == [number for number in range(1_000) if number % 10]


def test_what_the_bound_drops_is_counted() -> None:
    """While nothing can be written, the outbox keeps the newest entries, and says how many it has dropped."""
    cluster = Cluster(1, (Fault.NONE,), rate=0.0)
    process = Process(cluster)
    for _ in range(40):
        process.observe(50)
        assert len(process.memory.outbox) <= MOST_WAITING
        process.save()
    process.write()
    entries = read_ring(cluster.contents.segments)
    samples = parse_trend(cluster.contents.trend).samples
    assert entries[0].kind == EntryKind.DROPPED
    assert entries[0].number + len(entries) - 1 + len(samples) == 2_000
    assert entries[-1].what == "1999"
    assert process.memory.outbox == ()


def test_a_lost_memory_doubles_no_number() -> None:
    """A leader without a memory begins with greater numbers, also if its clock is behind: nothing is taken for old."""
    cluster = Cluster(1, (Fault.NONE,), rate=0.0)
    run(cluster, 50)
    stored = read_ring(cluster.contents.segments)
    for back in (timedelta(0), timedelta(days=365)):
        cluster.now -= back
        cluster.memory = memory_text(Memory())
        process = Process(cluster)
        process.observe(5)
        for _ in range(3):
            process.save()
            process.write()
        entries = read_ring(cluster.contents.segments)
        assert [entry.what for entry in entries] == [*(entry.what for entry in stored), "1", "2", "3", "4"]
        assert process.memory.outbox == ()
        stored = entries
