"""The judgement: for every group and constraint, and every limit of the policy, the counts and whether it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

from rebalancer.assessment.causes.attribution import Causes, causes
from rebalancer.assessment.deadlocks import Deadlock, deadlocks
from rebalancer.assessment.evaluated import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.findings import Finding, findings
from rebalancer.assessment.limit_groups import LimitGroup, gather
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.spread_groups import SpreadGroup, groups
from rebalancer.assessment.unmatched import Unmatched, unmatched
from rebalancer.model.moves import Memory
from rebalancer.policy import Policy
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.view import View

__all__ = ["Assessment", "EvaluatedConstraint", "EvaluatedGroup", "assess"]


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The judgement on every group and limit, in a stable order."""

    groups: tuple[EvaluatedGroup, ...]
    pod_groups: tuple[LimitGroup, ...] = ()
    """The pods of the policy's groups."""
    limits: tuple[EvaluatedLimit, ...] = ()
    """Every limit that is in force, once for each set of pods that it is about."""
    deadlocks: tuple[Deadlock, ...] = ()
    """Waiting pods whose own rules exclude each other."""
    seek_causes: Callable[[], Causes] = field(default=dict, compare=False, repr=False)
    seek_findings: Callable[[], tuple[Finding, ...]] = field(default=tuple, compare=False, repr=False)

    seek_unmatched: Callable[[], tuple[Unmatched, ...]] = field(default=tuple, compare=False, repr=False)

    @cached_property
    def causes(self) -> Causes:
        """What led to each violation; worked out when it is asked for, as planning does without it."""
        return self.seek_causes()

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong without being violated, or why something is; worked out when it is asked for."""
        return self.seek_findings()

    @cached_property
    def unmatched(self) -> tuple[Unmatched, ...]:
        """What the policy names and the cluster does not have; worked out when it is asked for."""
        return self.seek_unmatched()

    @property
    def violated(self) -> tuple[EvaluatedGroup, ...]:
        """The groups with a violated hard constraint."""
        return tuple(group for group in self.groups if group.violated)


def assess(view: View, policy: Policy, memory: Memory) -> Assessment:
    """Count and judge every constraint of every living workload, and every limit of the policy; find deadlocks."""
    gathered = gather(view, policy.groups)
    judged = tuple(_judge(group, view) for group in groups(view))
    limits = evaluate_limits(gathered, view, memory)
    seek_unmatched = cache(lambda: unmatched(policy.groups, gathered, view))
    return Assessment(
        groups=judged,
        pod_groups=gathered,
        limits=limits,
        deadlocks=deadlocks(view),
        seek_causes=lambda: causes(judged, limits, view, memory),
        seek_findings=lambda: findings(view, judged, gathered, limits, seek_unmatched()),
        seek_unmatched=seek_unmatched,
    )


def _judge(group: SpreadGroup, view: View) -> EvaluatedGroup:
    hard, soft = (
        tuple(EvaluatedConstraint(constraint=each, counts=counts(each, group.sample, view)) for each in listed)
        for listed in group.constraints
    )
    return EvaluatedGroup(group=group, hard=hard, soft=soft, violated=any(each.counts.violated for each in hard))
