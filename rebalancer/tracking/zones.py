"""Recently seen domains: a domain that has lost its nodes is still reported, and still counts as a zone.

Losing a zone must not switch a limit to the rules for fewer zones, so the zone counts for `when.zones` for an hour.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from rebalancer.model.motion import NodeEvent
from rebalancer.model.moves import Memory, ZoneSeen
from rebalancer.model.nodes import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy

ZONE_LIFETIME: Final = timedelta(hours=1)
"""How long a zone without nodes still counts for `when.zones`."""

_MOST_ZONES: Final = 200
"""The most domains that are stored for a key. A key with more values is not a zone key."""

_MOST_KEYS: Final = 20
"""The most keys whose domains are stored, the cluster policy's first; templates and teams may name further ones."""

_LARGE: Final = frozenset({ZONE, REGION, BETA_ZONE, BETA_REGION})
"""Keys whose domains usually hold many nodes, even if each holds only one in a small cluster."""


def find_zone_keys(policy: Policy) -> frozenset[str]:
    """Return the zone keys of a policy's groups."""
    return frozenset(group.zone_key for group in policy.groups)


def is_node_key(key: str, values: Collection[str], zone_keys: Collection[str]) -> bool:
    """Return whether the domains of a key are single nodes, like host names; `values` has one value for each node.

    Such a domain exists only as long as its node, so no domain is ever missing.
    """
    if key == HOSTNAME:
        return True
    return key not in _LARGE and key not in zone_keys and bool(values) and len(set(values)) == len(values)


def zones_seen(
    memory: Memory, snapshot: Snapshot, policy: Policy, keys: Iterable[str], now: datetime
) -> tuple[ZoneSeen, ...]:
    """Return the domains to store after a snapshot: those in it, and earlier ones for as long as they matter.

    `keys` are the topology keys in use; the zone keys of the policy are always among them.
    """
    lifetime = max(ZONE_LIFETIME, policy.topology.remember)
    stored: list[ZoneSeen] = []
    for key, values in _stored_keys(memory, snapshot, policy, keys).items():
        last_seen = {
            zone.zone: min(now, zone.last) for zone in memory.zones if zone.key == key and now - zone.last < lifetime
        }
        last_seen |= dict.fromkeys(values, now)
        newest = sorted(((moment, zone) for zone, moment in last_seen.items()), reverse=True)
        stored += [ZoneSeen(key, zone, moment) for moment, zone in newest[:_MOST_ZONES]]
    return tuple(sorted(stored))


def _stored_keys(memory: Memory, snapshot: Snapshot, policy: Policy, keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys whose domains are stored, with the value of each node.

    A key that no node has, or had lately, has no domains to store, and takes no other key's place.
    """
    zone_keys = find_zone_keys(policy)
    own = {limit.topology_key for group in policy.cluster.groups for limit in group.limits}
    remembered = {zone.key for zone in memory.zones}
    chosen: dict[str, list[str]] = {}
    for key in sorted(zone_keys.union(keys), key=lambda key: (key not in zone_keys, key not in own, key)):
        values = [node.labels[key] for node in snapshot.nodes if key in node.labels]
        if not values and key not in remembered:
            continue
        if key in zone_keys or (len(chosen) < _MOST_KEYS and not is_node_key(key, values, zone_keys)):
            chosen[key] = _settled_values(memory, snapshot, key) if memory.node_changes else values
    return chosen


def _settled_values(memory: Memory, snapshot: Snapshot, key: str) -> list[str]:
    """Return the values of a key without values that nodes have just received, which may be mistakes."""
    changed = {(change.node, change.key) for change in memory.node_changes if change.event is NodeEvent.RELABELLED}
    named = (node for node in snapshot.nodes if key in node.labels and (node.name, key) not in changed)
    return [node.labels[key] for node in named]
