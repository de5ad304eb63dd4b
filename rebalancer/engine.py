"""One evaluation: the violations in a snapshot, and what to do about them.

Only `evaluate` assesses and plans a snapshot, for the controller, every command, simulations and tests. It is a pure
function: the time is `snapshot.taken_at`, and equal inputs give equal evaluations.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from msgspec import structs

from rebalancer.assessment.assess import Assessment, assess
from rebalancer.assessment.causes import Causes, find_causes
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.nodes import Node
from rebalancer.model.placeholders import without_placeholders
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.policy import Merged, Policy
from rebalancer.policy.team_maps import merge_team_maps
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.evicted import evictions_in
from rebalancer.tracking.moves import overlay_moves

Stopwatch = Callable[[str], AbstractContextManager[None]]
"""Times the block that it wraps, under the name of a phase; time is an argument like everything else."""


def without_stopwatch(_: str) -> AbstractContextManager[None]:
    """Time nothing."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What an evaluation depends on. With `only`, only repairs of these workloads are planned."""

    snapshot: Snapshot
    policy: Policy
    profile: Profile
    memory: Memory
    only: frozenset[Reference] | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Assessment and plan of one snapshot."""

    inputs: Inputs
    view: View
    """The snapshot as it was evaluated: the pods of moves in flight are terminating at least."""
    assessment: Assessment
    """Every constraint and every limit, with counts and state."""
    causes: Causes
    """What caused the violations."""
    plan: Plan
    """The next safe step of each repair, with the proof of its minimum, and why the rest waits."""
    team_problems: Mapping[str, str]
    """By namespace: what of its team policy is not in force, and why. Empty if the snapshot has no team policies."""
    valid_until: datetime
    """From this time on equal inputs may give another evaluation, because pods have aged or nodes have settled."""

    def serves(self, inputs: Inputs) -> bool:
        """Return whether evaluating other inputs, with a later snapshot, would give this evaluation."""
        own = self.inputs
        return (
            own.snapshot.taken_at <= inputs.snapshot.taken_at < self.valid_until
            and own.policy is inputs.policy
            and own.profile == inputs.profile
            and own.only == inputs.only
            and own.snapshot.holds_same(inputs.snapshot)  # before the memory, because it mostly differs and costs least
            and own.memory.planning == inputs.memory.planning
        )

    def at(self, inputs: Inputs) -> Self:
        """Return this evaluation for inputs that it serves, with their later snapshot."""
        made_at = inputs.snapshot.taken_at
        return replace(
            self,
            inputs=inputs,
            view=self.view.at(made_at),
            plan=structs.replace(self.plan, made_at=made_at, expires_at=made_at + inputs.policy.plan_ttl),
        )


def evaluate(
    snapshot: Snapshot,
    policy: Policy,
    *,
    profile: Profile | None = None,
    memory: Memory | None = None,
    only: Collection[Reference] | None = None,
    stopwatch: Stopwatch = without_stopwatch,
) -> Evaluation:
    """Assess and plan a snapshot, with the team policies in it.

    `profile` is the scheduler's configuration; None means as `policy.scheduler` says without a file. `memory` is what
    the controller has stored of earlier cycles, None where there is no controller. With `only`, a set of workloads,
    only repairs that some of them belong to are planned. Raises ValueError if the policy names `scheduler.configFile`
    and no profile is passed.
    """
    if profile is None:
        profile = default_profile(policy)
    # Every other pod can displace pods that hold capacity, so these count nowhere.
    snapshot = without_placeholders(snapshot, policy.capacity.namespace)
    if memory is None:  # only the pods in a snapshot from a file show what others evict
        memory = Memory(evicted_by_others=evictions_in(snapshot))
    merged = Merged(policy=policy, problems={})
    if snapshot.team_maps is not None:
        names = sorted({namespace.name for namespace in snapshot.namespaces} | snapshot.pods_in.keys())
        merged = merge_team_maps(policy.cluster, snapshot.team_maps, names)
        policy = merged.policy
    chosen = None if only is None else frozenset(only)
    with stopwatch("assess"):
        view = View(_mark_leaving(overlay_moves(snapshot, memory.moves), policy), profile)
        assessment = assess(view, policy, memory)
        causes = find_causes(assessment, view, memory)
    with stopwatch("plan"):
        made = plan(view, assessment, policy, memory, only=chosen)
    return Evaluation(
        inputs=Inputs(snapshot=snapshot, policy=policy, profile=profile, memory=memory, only=chosen),
        view=view,
        assessment=assessment,
        causes=causes,
        plan=made,
        team_problems=merged.problems,
        valid_until=view.clock.holds_until,
    )


def _mark_leaving(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """Return the snapshot in which nodes with a taint in nodes.leavingTaints are marked as leaving."""
    keys = frozenset(policy.nodes.leaving_taints)
    if not keys:
        return snapshot

    def mark(node: Node) -> Node:
        key = next((taint.key for taint in node.taints if taint.key in keys), "")
        return structs.replace(node, leaving_by_policy=key) if key else node

    return replace(snapshot, nodes=tuple(map(mark, snapshot.nodes)))


def default_profile(policy: Policy) -> Profile:
    """Return the profile of a policy that names no configuration file of the scheduler."""
    if policy.scheduler.config_file is not None:
        raise ValueError(f"scheduler.configFile is {policy.scheduler.config_file}: read it, and pass its profile")
    return replace(DEFAULT_PROFILE, name=policy.scheduler.name)
