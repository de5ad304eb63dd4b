"""Assessment and plan of a snapshot; those of the last cycle are used again while they cannot have changed.

They follow from the objects, the policy, a part of the memory, and the time. Of the time only the view's clock is
asked, which knows until when its answers hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Self

from msgspec import structs

from rebalancer.assessment.assess import Assessment, assess
from rebalancer.assessment.causes import Causes, find_causes
from rebalancer.capacity.needs import Candidate, Need, RehearsedNeed, find_need
from rebalancer.capacity.placeholders import settle_nodes
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import DomainName, Memory, ZoneSeen
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.policy import Policy
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.overlay import overlay_moves


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is so and what is to be done; `view` is the snapshot as it was evaluated, with the moves in flight."""

    snapshot: Snapshot
    profile: Profile
    policy: Policy
    memory: Memory
    view: View
    assessment: Assessment
    causes: Causes
    _rehearsals: dict[tuple[str, tuple[DomainName, ...]], tuple[Memory, RehearsedNeed]] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan:
        """The plan, made at its first use."""
        return plan(self.view, self.assessment, self.policy, self.memory)

    def find_need(self, candidate: Candidate, memory: Memory) -> Need | None:
        """Rehearse a repair with more capacity, unless the last result still holds."""
        key, known_by = (candidate.token, candidate.names), take_what_matters(memory)
        before, last = self._rehearsals.get(key, (None, None))
        if last is None or before != known_by or self.view.clock.now >= last.holds_until:
            last = find_need(candidate, self.view, self.policy, memory)
            self._rehearsals[key] = known_by, last
        return last.need

    def holds(self, snapshot: Snapshot, profile: Profile, policy: Policy, memory: Memory) -> bool:
        """Return whether another evaluation would give the same."""
        clock = self.view.clock
        return (
            clock.now <= snapshot.taken_at < clock.holds_until
            and self.policy is policy
            and self.profile == profile
            and self.snapshot.holds_same(snapshot)  # before the memory: it mostly differs, and costs least
            and take_what_matters(self.memory) == take_what_matters(memory)
        )

    def at(self, snapshot: Snapshot, memory: Memory) -> Self:
        """Return the same at a later time."""
        made_at = snapshot.taken_at
        later = replace(self, snapshot=snapshot, memory=memory, view=self.view.at(made_at))
        made = structs.replace(self.plan, made_at=made_at, expires_at=made_at + self.policy.plan_ttl)
        later.__dict__["plan"] = made
        return later


def evaluate(
    snapshot: Snapshot, profile: Profile, policy: Policy, memory: Memory, last: Evaluation | None
) -> Evaluation:
    """Assess a snapshot, unless what was evaluated last still holds."""
    if last is not None and last.holds(snapshot, profile, policy, memory):
        return last.at(snapshot, memory)
    view = View(settle_nodes(overlay_moves(snapshot, memory.moves), memory.capacity), profile)
    assessment = assess(view, policy, memory)
    return Evaluation(
        snapshot=snapshot,
        profile=profile,
        policy=policy,
        memory=memory,
        view=view,
        assessment=assessment,
        causes=find_causes(assessment, view, memory),
    )


def take_what_matters(memory: Memory) -> Memory:
    """Return the part of a memory that assessment and plan read."""
    return Memory(
        moves=memory.moves,
        failed_predictions=memory.failed_predictions,
        zones=_forget_present(memory.zones),
        extra_evictions=memory.extra_evictions,
        changes=memory.changes,
        causes=memory.causes,
        capacity=memory.capacity,
        settling=memory.settling,
    )


def _forget_present(zones: Sequence[ZoneSeen]) -> tuple[ZoneSeen, ...]:
    """Leave out when those zones were seen that were seen last: they are there, and are seen in every cycle."""
    last: datetime = max((zone.last for zone in zones), default=ALWAYS)
    return tuple([structs.replace(zone, last=ALWAYS) if zone.last == last else zone for zone in zones])
