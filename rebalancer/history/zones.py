"""An entry for each zone that loses its last node, or has one again."""

from collections.abc import Collection, Iterator
from datetime import datetime

from rebalancer.history.outbox import seconds_of
from rebalancer.history.words import cut
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import Memory, ZoneSeen
from rebalancer.model.words import short_key


def note_zones(before: Memory, after: Memory, keys: Collection[str], now: datetime) -> Iterator[Entry]:
    """Yield an entry for each domain of these keys that was lost or has come back in between.

    Both memories list the domains that were seen lately; those of the last snapshot were all seen last. A key of which
    no domain is known before shows nothing: all of its domains are new.
    """
    if before.zones == after.zones:
        return
    known = {(zone.key, zone.zone): zone for zone in before.zones if zone.key in keys}
    had, has = _find_present(before), _find_present(after)
    for zone in before.zones:
        if zone.key in keys and zone.last == had and _find(after, zone) != has:
            yield _entry(EntryKind.ZONE_LOST, zone, 0, now)
    keys_known = {key for key, _ in known}
    for zone in after.zones:
        if zone.key in keys_known and zone.last == has:
            last = known.get((zone.key, zone.zone))
            if last is None or last.last != had:
                yield _entry(EntryKind.ZONE_RETURNED, zone, seconds_of(last.last) if last is not None else 0, now)


def _find_present(memory: Memory) -> datetime | None:
    return max((zone.last for zone in memory.zones), default=None)


def _find(memory: Memory, zone: ZoneSeen) -> datetime | None:
    return next((one.last for one in memory.zones if (one.key, one.zone) == (zone.key, zone.zone)), None)


def _entry(kind: EntryKind, zone: ZoneSeen, since: int, now: datetime) -> Entry:
    return Entry(seq=0, at=seconds_of(now), kind=kind, what=cut(f"{short_key(zone.key)} {zone.zone}"), since=since)
