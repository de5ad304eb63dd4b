"""One cycle: snapshot to admission, each stage a pure function of the one before."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

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
