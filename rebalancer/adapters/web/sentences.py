"""Sentences that several rows share are shown once, above the rows. Others are folded in their row under a name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rebalancer.documents.report import ReportedFinding
from rebalancer.model.words import shorten_keys

_END = ". "


class Saying(NamedTuple):
    """A sentence and the name by which a row refers to it: a reason or a cause."""

    name: str
    text: str


class Shared(NamedTuple):
    """A sentence that `number` rows share, counting rows that refer to it by its name."""

    name: str
    text: str
    number: int

    def is_among(self, others: "Iterable[Shared]") -> bool:
        """Return whether the sentence is among others."""
        return any((one.name, one.text) == (self.name, self.text) for one in others)


class FindingGroup(NamedTuple):
    """Findings of one kind, each with its object and message; `shared` is the common end of all messages."""

    kind: str
    findings: Sequence[tuple[str, str]]
    shared: str


def find_shared(rows: Iterable[Iterable[Saying]], named: Iterable[Iterable[str]] = ()) -> Sequence[Shared]:
    """Return the sentences that several rows have, in the order in which they come first.

    `named` are the names in each row's line. If a name has only one sentence, it counts for every row with that name.
    """
    numbers = Counter(said for row in rows for said in dict.fromkeys(row))
    texts = Counter(said.name for said in numbers)
    names = Counter(name for row in named for name in dict.fromkeys(row) if texts[name] == 1)
    return [Shared(*said, max(number, names[said.name])) for said, number in numbers.items() if number > 1]


def leave_out(sayings: Iterable[Saying], shared: Iterable[Shared]) -> list[str]:
    """Return the texts that are not shared."""
    known = {(one.name, one.text) for one in shared}
    return list(dict.fromkeys(said.text for said in sayings if said not in known))


def group_findings(findings: Iterable[ReportedFinding]) -> Sequence[FindingGroup]:
    """Group findings by kind."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for one in findings:
        kinds.setdefault(one.kind, []).append((shorten_keys(one.object), shorten_keys(one.message)))
    return [_group(kind, entries) for kind, entries in kinds.items()]


def _group(kind: str, entries: Sequence[tuple[str, str]]) -> FindingGroup:
    ends = {message.rpartition(_END)[2] for _, message in entries}
    if len(entries) == 1 or len(ends) > 1 or any(_END not in message for _, message in entries):
        return FindingGroup(kind, entries, "")
    return FindingGroup(kind, [(of, message.rpartition(_END)[0]) for of, message in entries], ends.pop())
