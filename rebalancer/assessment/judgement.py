"""The judgement: for every group and constraint the counts, the skew and whether it holds."""

from dataclasses import dataclass

from rebalancer.assessment.groups import Group, groups
from rebalancer.model.verdicts import State
from rebalancer.scheduling.pod_topology_spread import Counts, counts
from rebalancer.scheduling.spread_constraints import EffectiveConstraint
from rebalancer.scheduling.view import View


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One constraint of a group, counted. `state` is Satisfied or Violated; planning may know it to be worse."""

    constraint: EffectiveConstraint
    counts: Counts

    @property
    def state(self) -> State:
        """Whether it holds now."""
        return State.VIOLATED if self.counts.violated else State.SATISFIED


@dataclass(frozen=True, kw_only=True)
class JudgedGroup:
    """A group with its constraints counted, hard ones first, each in the pod's own order."""

    group: Group
    hard: tuple[Judged, ...]
    soft: tuple[Judged, ...]

    @property
    def violated(self) -> bool:
        """Whether a hard constraint is violated."""
        return any(judged.counts.violated for judged in self.hard)


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The judgement on every group, in a stable order."""

    groups: tuple[JudgedGroup, ...]

    @property
    def violated(self) -> tuple[JudgedGroup, ...]:
        """The groups with a violated hard constraint."""
        return tuple(group for group in self.groups if group.violated)


def assess(view: View) -> Assessment:
    """Count and judge every constraint of every living workload."""
    return Assessment(groups=tuple(_judge(group, view) for group in groups(view)))


def _judge(group: Group, view: View) -> JudgedGroup:
    hard, soft = (
        tuple(Judged(constraint=each, counts=counts(each, group.sample, view)) for each in listed)
        for listed in group.constraints
    )
    return JudgedGroup(group=group, hard=hard, soft=soft)
