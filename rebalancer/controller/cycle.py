"""One cycle: snapshot to admission, each stage a pure function of the one before."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

import msgspec

from rebalancer.assessment.judgement import Assessment, assess
from rebalancer.guard.admission import Admission, Circumstances, admit, remembered
from rebalancer.guard.backoff import after_moves
from rebalancer.guard.moves import observed
from rebalancer.guard.overlay import overlaid
from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.planner import plan
from rebalancer.planning.plans import Plan
from rebalancer.reporting.documents import to_json
from rebalancer.reporting.plan_document import plan_document
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View

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
    circumstances: Circumstances

    @cached_property
    def plan_json(self) -> str:
        """The Plan document. Written once a cycle: it reads every pod of its namespaces, and is saved many times."""
        return to_json(plan_document(self.plan, self.snapshot)).decode()


def run_cycle(
    snapshot: Snapshot,
    profile: Profile,
    memory: Memory,
    circumstances: Circumstances,
    stopwatch: Stopwatch = without_stopwatch,
) -> Cycle:
    """Assess, plan and admit over one snapshot."""
    moves = observed(memory.moves, snapshot, circumstances.now)
    memory = after_moves(msgspec.structs.replace(memory, moves=moves), memory.moves, circumstances.now)
    with stopwatch("assess"):
        view = View(overlaid(snapshot, moves), profile)
        assessment = assess(view)
    memory = remembered(memory, assessment, circumstances.now)
    with stopwatch("plan"):
        made = plan(view, assessment, circumstances.policy, memory)
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
