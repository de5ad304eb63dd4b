"""One cycle: snapshot to admission, each stage a pure function of the one before."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

import msgspec

from rebalancer.admission.admit import Admission, AdmissionContext, admit, remember_plan
from rebalancer.assessment.assess import Assessment, assess
from rebalancer.assessment.causes.attribution import remembered_causes
from rebalancer.assessment.causes.changes import changes
from rebalancer.assessment.domains import zones_seen
from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.reporting.documents.document import to_json
from rebalancer.reporting.documents.plan import plan_document
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.backoff import record_outcomes
from rebalancer.tracking.moves import observe_moves
from rebalancer.tracking.overlay import overlay_moves

Stopwatch = Callable[[str], AbstractContextManager[None]]
"""Given a phase's name, times what is done within; time comes in as an argument like everything else."""


def without_stopwatch(_: str) -> AbstractContextManager[None]:
    """Time nothing."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """Everything one cycle found out. `memory` is what is to be remembered of it."""

    snapshot: Snapshot
    assessment: Assessment
    plan: Plan
    admission: Admission
    memory: Memory
    circumstances: AdmissionContext

    @cached_property
    def plan_json(self) -> str:
        """The Plan document. Written once a cycle: it reads every pod of its namespaces, and is saved many times."""
        return to_json(plan_document(self.plan, self.snapshot)).decode()


def run_cycle(
    snapshot: Snapshot,
    profile: Profile,
    memory: Memory,
    circumstances: AdmissionContext,
    stopwatch: Stopwatch = without_stopwatch,
    before: Snapshot | None = None,
) -> Cycle:
    """Assess, plan and admit over one snapshot; `before` is the one that the last cycle was over."""
    moves = observe_moves(memory.moves, snapshot, circumstances.now)
    memory = record_outcomes(msgspec.structs.replace(memory, moves=moves), memory.moves, circumstances.now)
    zones = zones_seen(memory, snapshot, circumstances.policy.groups, circumstances.now)
    memory = msgspec.structs.replace(memory, zones=zones)
    with stopwatch("assess"):
        view = View(overlay_moves(snapshot, moves), profile)
        memory = msgspec.structs.replace(memory, changes=changes(memory, before, snapshot, _keys(view, circumstances)))
        assessment = assess(view, circumstances.policy, memory)
        memory = msgspec.structs.replace(memory, causes=remembered_causes(assessment.causes))
    with stopwatch("plan"):
        made = plan(view, assessment, circumstances.policy, memory)
    memory = remember_plan(memory, assessment, made, circumstances.now)
    with stopwatch("admit"):
        admission = admit(made, snapshot, memory, circumstances)
    return Cycle(
        snapshot=snapshot,
        assessment=assessment,
        plan=made,
        admission=admission,
        memory=memory,
        circumstances=circumstances,
    )


def _keys(view: View, circumstances: AdmissionContext) -> frozenset[str]:
    """Return the topology keys of the policy and of the constraints that workloads write themselves."""
    of_policy = {limit.topology_key for group in circumstances.policy.groups for limit in group.limits}
    templates = [each.template for each in view.snapshot.workloads if each.template is not None]
    constraints = {spread for spread in {each.spec.spread for each in templates} if spread}
    return frozenset(of_policy | {each.topology_key for spread in constraints for each in spread})
