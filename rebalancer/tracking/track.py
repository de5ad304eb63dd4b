"""What the memory says after a snapshot: how moves ended, which zones exist, what changed in the cluster."""

from datetime import datetime

import msgspec

from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.tracking.backoff import record_outcomes
from rebalancer.tracking.changes import observe_changes
from rebalancer.tracking.holds import note_proof
from rebalancer.tracking.moves import observe_moves
from rebalancer.tracking.windows import grow_windows
from rebalancer.tracking.zones import zones_seen


def track(memory: Memory, before: Snapshot | None, snapshot: Snapshot, policy: Policy, now: datetime) -> Memory:
    """Return the memory after a snapshot; `before` is the snapshot of the last cycle, None in the first cycle."""
    keys = _topology_keys(snapshot, policy)
    observed = msgspec.structs.replace(
        memory,
        moves=observe_moves(memory.moves, before, snapshot, now, pending_for=policy.breaker.pending_for),
        zones=zones_seen(memory, snapshot, policy, keys, now),
        changes=observe_changes(memory, before, snapshot, keys),
    )
    arrived = note_proof(grow_windows(observed, memory.moves, now), now)
    return record_outcomes(arrived, memory.moves, now)


def _topology_keys(snapshot: Snapshot, policy: Policy) -> frozenset[str]:
    """Return the topology keys of the policy's limits and of the constraints in the workloads' templates."""
    limit_keys = {limit.topology_key for group in policy.groups for limit in group.limits}
    templates = [workload.template for workload in snapshot.workloads if workload.template is not None]
    spreads = {spread for spread in {template.spec.spread for template in templates} if spread}
    return frozenset(limit_keys | {constraint.topology_key for spread in spreads for constraint in spread})
