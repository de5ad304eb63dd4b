"""Which zones were seen within the last hour: losing a zone must not switch a limit to the rules for fewer zones."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from rebalancer.model.moves import Memory, ZoneSeen
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import PolicyGroup

ZONE_LIFETIME: Final = timedelta(hours=1)
"""How long a zone without nodes still counts for `when.zones`."""

_MOST_ZONES: Final = 200
"""Zones stored per key. A key with more values is no zone key."""


def zones_seen(
    memory: Memory, snapshot: Snapshot, groups: Iterable[PolicyGroup], now: datetime
) -> tuple[ZoneSeen, ...]:
    """Return the zones to store after a snapshot: those in it, and those seen within the hour before."""
    keys = {group.zone_key for group in groups}
    last_seen = {
        (zone.key, zone.zone): min(now, zone.last)
        for zone in memory.zones
        if zone.key in keys and now - zone.last < ZONE_LIFETIME
    }
    for key in keys:
        last_seen |= {(key, node.labels[key]): now for node in snapshot.nodes if key in node.labels}
    stored: list[ZoneSeen] = []
    for key in sorted(keys):
        newest = sorted(((moment, zone) for (of, zone), moment in last_seen.items() if of == key), reverse=True)
        stored += [ZoneSeen(key, zone, moment) for moment, zone in newest[:_MOST_ZONES]]
    return tuple(sorted(stored))
