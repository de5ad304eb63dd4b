"""An entry for each declaration by people."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import structs

from rebalancer.account.happened import Declared, Occurrence, WholeEnded
from rebalancer.history.words import cut
from rebalancer.model.history import UNKNOWN, Author, Entry, EntryKind
from rebalancer.model.moments import seconds_of


def people_entries(happened: Iterable[Occurrence], now: datetime) -> Iterator[Entry]:
    """Yield the entries; if no person is named, the field manager is."""
    for said in happened:
        if isinstance(said, Declared):
            at = min(said.at or seconds_of(now), seconds_of(now))
            entry = Entry(seq=0, at=at, kind=said.kind, what=cut(said.what), until=said.until, number=said.number)
            yield _with_author(structs.replace(entry, since=said.since), said.author)
        elif isinstance(said, WholeEnded):
            standing = said.standing
            entry = Entry(
                seq=0,
                at=seconds_of(now),
                kind=EntryKind.APPROVAL_ENDED,
                what=standing.plan,
                cause=cut(said.why),
                number=standing.left,
            )
            yield _with_author(entry, said.author)


def _with_author(entry: Entry, author: Author | None) -> Entry:
    if author is None:
        return entry
    entry = structs.replace(entry, who=cut(author.who or UNKNOWN))
    if author.who:
        return entry
    return structs.replace(entry, manager=cut(author.manager), since=entry.since or author.at)
