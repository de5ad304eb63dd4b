"""Makes one entry for each zone that is lost or has come back."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import structs

from rebalancer.account.happened import Occurrence, ZoneLost, ZoneReturned
from rebalancer.history.words import cut
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.losses import DomainLoss
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import DomainName
from rebalancer.model.words import short_key


def zone_entries(happened: Iterable[Occurrence], now: datetime) -> Iterator[Entry]:
    """Yield the entries about zones."""
    for occurrence in happened:
        match occurrence:
            case ZoneLost(zone, lost):
                entry = _entry(EntryKind.ZONE_LOST, zone, 0, now)
                yield entry if lost is None else _told(entry, lost)
            case ZoneReturned(zone, since):
                yield _entry(EntryKind.ZONE_RETURNED, zone, seconds_of(since) if since is not None else 0, now)
            case _:
                pass


def _told(entry: Entry, lost: DomainLoss) -> Entry:
    """Return the entry with what the zone held and when its last node was lost, as every report says it."""
    at = seconds_of(lost.until) if lost.whole else entry.at
    return structs.replace(entry, at=at, number=lost.had, above=lost.pods)


def _entry(kind: EntryKind, zone: DomainName, since: int, now: datetime) -> Entry:
    return Entry(
        seq=0, at=seconds_of(now), kind=kind, what=cut(f"{short_key(zone.topology_key)} {zone.value}"), since=since
    )
