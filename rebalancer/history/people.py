"""An entry for each thing that people have said."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import structs

from rebalancer.account.happened import Declared, Occurrence
from rebalancer.history.words import cut
from rebalancer.model.history import UNKNOWN, Entry
from rebalancer.model.moments import seconds_of


def people_entries(happened: Iterable[Occurrence], now: datetime) -> Iterator[Entry]:
    """Yield the entries; the field manager stands in for a person whom nothing names."""
    for said in happened:
        if not isinstance(said, Declared):
            continue
        entry = Entry(
            seq=0, at=seconds_of(now), kind=said.kind, what=cut(said.what), until=said.until, number=said.number
        )
        entry = structs.replace(entry, since=said.since)
        author = said.author
        if author is not None:
            entry = structs.replace(entry, who=cut(author.who or UNKNOWN))
            if not author.who:
                entry = structs.replace(entry, manager=cut(author.manager), since=said.since or author.at)
        yield entry
