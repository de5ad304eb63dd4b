"""The memory after a snapshot: how moves ended, which zones exist, what has changed in the cluster."""

from datetime import datetime

import msgspec

from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.tracking.backoff import record_outcomes
from rebalancer.tracking.changes import observe_changes
from rebalancer.tracking.holds import note_proof
from rebalancer.tracking.losses import observe_losses
from rebalancer.tracking.motion import Look, observe_nodes
from rebalancer.tracking.moves import observe_moves
from rebalancer.tracking.windows import grow_windows
from rebalancer.tracking.zones import zones_seen


def track(
    memory: Memory,
    before: Snapshot | None,
    snapshot: Snapshot,
    policy: Policy,
    now: datetime,
    last: Look | None = None,
    profile: Profile = DEFAULT_PROFILE,
) -> Memory:
    """Return the memory after a snapshot; `before` is the last cycle's with a fresh view, None in the first.

    `last` is the last look at the nodes, also while another process led; None without one.
    """
    keys = _topology_keys(snapshot, policy, profile)
    followed = observe_nodes(memory, last, snapshot, policy, keys, now)
    observed = msgspec.structs.replace(
        followed,
        moves=observe_moves(memory.moves, before, snapshot, now, pending_for=policy.breaker.pending_for),
        zones=zones_seen(followed, snapshot, policy, keys, now),
        changes=observe_changes(memory, before, snapshot, keys),
        lost=observe_losses(memory.lost, before, snapshot, policy, now),
    )
    arrived = note_proof(grow_windows(observed, memory.moves, now), now)
    return record_outcomes(arrived, memory.moves, now)


def watch(
    memory: Memory, last: Look | None, snapshot: Snapshot, policy: Policy, now: datetime, profile: Profile
) -> Memory:
    """Return the memory of a process that does not lead, but soon may: it follows the changes of nodes."""
    return observe_nodes(memory, last, snapshot, policy, _topology_keys(snapshot, policy, profile), now)


def _topology_keys(snapshot: Snapshot, policy: Policy, profile: Profile) -> frozenset[str]:
    """Return the topology keys of the policy's limits and of all constraints: the templates' and the scheduler's."""
    limit_keys = {limit.topology_key for group in policy.groups for limit in group.limits}
    templates = [workload.template for workload in snapshot.workloads if workload.template is not None]
    spreads = {spread for spread in {template.spec.spread for template in templates} if spread}
    defaults = {constraint.topology_key for constraint in profile.default_constraints or ()}
    return frozenset(limit_keys | defaults | {constraint.topology_key for spread in spreads for constraint in spread})
