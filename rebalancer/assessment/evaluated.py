"""Constraints, judged: the counts that each sees, and whether it holds."""

from msgspec import Struct

from rebalancer.assessment.spread_groups import SpreadGroup
from rebalancer.model.reasons import State
from rebalancer.scheduling.pod_topology_spread import Counts
from rebalancer.scheduling.spread_constraints import EffectiveConstraint


class EvaluatedConstraint(Struct, frozen=True, kw_only=True, gc=False):
    """One constraint of a group, counted. `state` is Satisfied or Violated; planning may know it to be worse."""

    constraint: EffectiveConstraint
    counts: Counts

    @property
    def state(self) -> State:
        """Whether it holds now."""
        return State.VIOLATED if self.counts.violated else State.SATISFIED


class EvaluatedGroup(Struct, frozen=True, kw_only=True, gc=False):
    """A group with its constraints counted, hard ones first, each in the pod's own order."""

    group: SpreadGroup
    hard: tuple[EvaluatedConstraint, ...]
    soft: tuple[EvaluatedConstraint, ...]
    violated: bool
    """Whether a hard constraint is violated."""
