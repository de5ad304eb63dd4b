"""One evaluation: what is violated in a snapshot, and what is to be done about it.

`evaluate` is the only place where a snapshot is assessed and planned, for the controller, every command, simulations
and tests. It is a pure function: the time is `snapshot.taken_at`, and the same inputs give the same evaluation.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from msgspec import structs

from rebalancer.assessment.assess import Assessment, assess
from rebalancer.assessment.causes import Causes, find_causes
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import NO_MEMORY, Memory, Move, Reference, ZoneSeen
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.planning.scope.components import find_components, stuck_pods
from rebalancer.policy import Policy
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.moves import overlay_moves

Stopwatch = Callable[[str], AbstractContextManager[None]]
"""Times the block that it wraps, under the name of a phase; time is an argument like everything else."""


def without_stopwatch(_: str) -> AbstractContextManager[None]:
    """Time nothing."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What an evaluation depends on."""

    snapshot: Snapshot
    policy: Policy
    profile: Profile
    memory: Memory


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
    valid_until: datetime
    """From then on the same inputs may give another evaluation: pods have aged, nodes have settled."""

    def serves(self, inputs: Inputs, now: datetime) -> bool:
        """Return whether evaluating other inputs, at another time, would give the same."""
        own = self.inputs
        return (
            own.snapshot.taken_at <= now < self.valid_until
            and own.policy is inputs.policy
            and own.profile == inputs.profile
            and own.snapshot.holds_same(inputs.snapshot)  # before the memory: it mostly differs, and costs least
            and take_what_matters(own.memory) == take_what_matters(inputs.memory)
        )

    def at(self, inputs: Inputs) -> Self:
        """Return the evaluation of inputs that it serves, whose snapshot is later."""
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
    memory: Memory = NO_MEMORY,
    only: Collection[Reference] | None = None,
    stopwatch: Stopwatch = without_stopwatch,
) -> Evaluation:
    """Assess and plan a snapshot.

    `profile` is how the scheduler is configured, None: as `policy.scheduler` says without a file. `memory` is what the
    controller has stored of earlier cycles; a snapshot from a file has none. `only` names workloads: then nothing is
    planned but the repair that some of them belong to. Raises ValueError where the policy names `scheduler.configFile`
    and no profile is passed.
    """
    if profile is None:
        profile = default_profile(policy)
    with stopwatch("assess"):
        view = View(overlay_moves(snapshot, memory.moves), profile)
        assessment = assess(view, policy, memory)
        causes = find_causes(assessment, view, memory)
    with stopwatch("plan"):
        planned = assessment if only is None else _narrow(assessment, view, policy, only)
        made = plan(view, planned, policy, memory)
    return Evaluation(
        inputs=Inputs(snapshot=snapshot, policy=policy, profile=profile, memory=memory),
        view=view,
        assessment=assessment,
        causes=causes,
        plan=made,
        valid_until=view.clock.holds_until,
    )


def _narrow(assessment: Assessment, view: View, policy: Policy, only: Collection[Reference]) -> Assessment:
    """Return the assessment of the component of some workloads alone, an empty one where it needs no repair."""
    namespaces = {workload.namespace for workload in only}
    near = replace(
        assessment,
        groups=tuple(group for group in assessment.groups if group.spread.namespace in namespaces),
        limits=tuple(limit for limit in assessment.limits if limit.namespace in namespaces),
    )
    for component in find_components(near, stuck_pods(view), policy.spread.act_on):
        if not set(component.workloads).isdisjoint(only):
            return replace(near, groups=component.groups, limits=component.limits)
    return replace(near, groups=(), limits=())


def default_profile(policy: Policy) -> Profile:
    """Return the profile of a policy that names no configuration file of the scheduler."""
    if policy.scheduler.config_file is not None:
        raise ValueError(f"scheduler.configFile is {policy.scheduler.config_file}: read it, and pass its profile")
    return replace(DEFAULT_PROFILE, name=policy.scheduler.name)


def take_what_matters(memory: Memory) -> Memory:
    """Return the part of a memory that assessment and plan read."""
    return Memory(
        moves=tuple(map(_without_arrival, memory.moves)),
        failed_predictions=memory.failed_predictions,
        zones=_forget_present(memory.zones),
        extra_evictions=memory.extra_evictions,
        changes=memory.changes,
        causes=memory.causes,
        capacity=memory.capacity,
        settling=memory.settling,
        node_changes=memory.node_changes,
        domains_in_motion=memory.domains_in_motion,
    )


# What became of a move is read by admission alone.
_NOT_ARRIVED: Final[Mapping[str, Any]] = {
    "awaited_since": None,
    "uncreated": None,
    "bound_since": None,
    "arrived": False,
    "counted": False,
    "unstarted": None,
    "victim_seen": None,
}


def _without_arrival(move: Move) -> Move:
    """Leave out whether a replacement has arrived, and when that was seen: it changes in many cycles."""
    return structs.replace(move, **_NOT_ARRIVED)


def _forget_present(zones: Sequence[ZoneSeen]) -> tuple[ZoneSeen, ...]:
    """Leave out when those zones were seen that were seen last: they are there, and are seen in every cycle."""
    last: datetime = max((zone.last for zone in zones), default=ALWAYS)
    return tuple([structs.replace(zone, last=ALWAYS) if zone.last == last else zone for zone in zones])
