"""A constraint or a limit with its counts, its bounds and the pods beyond these: the input of rows, lanes and zones."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.bounds import DomainBounds, constraint_bounds, count_above, limit_bounds
from rebalancer.documents.state_reasons import StateReason, StateReasons, limit_workloads
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import Policy
from rebalancer.scheduling.pod_topology_spread import DomainCounts


class Rule(NamedTuple):
    """A constraint of a group, or a limit; `above` pods are beyond the bounds of their domains, `short` are missing."""

    group: EvaluatedGroup | None
    source: EvaluatedConstraint | EvaluatedLimit
    counts: DomainCounts
    bounds: DomainBounds
    above: int
    short: int

    @property
    def key(self) -> str:
        """The topology key of its domains."""
        return self.source.topology_key

    @property
    def violated(self) -> bool:
        """Whether it is violated, by the counts alone."""
        return self.source.state is not State.SATISFIED

    def state(self, states: StateReasons) -> StateReason:
        """Return its state according to a plan, with the reason."""
        if isinstance(self.source, EvaluatedLimit):
            return states.for_limit(self.source)
        assert self.group is not None, "a constraint is one of a group"
        return states.for_constraint(self.group, self.source)


def constraint_rule(group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> Rule:
    """Return the rule of a group's constraint."""
    return _rule(group, evaluated, evaluated.counts.by_domain, constraint_bounds(evaluated.counts))


def limit_rule(limit: EvaluatedLimit) -> Rule:
    """Return the rule of a limit."""
    return _rule(None, limit, limit.counts, limit_bounds(limit))


def violated_rules(assessment: Assessment, policy: Policy) -> Iterator[tuple[tuple[Reference, ...], Rule]]:
    """Yield each violated rule, with the workloads whose pods it counts.

    These are hard constraints, soft constraints that the policy acts on, and limits that count pods in a domain.
    """
    acts_on_soft = WhenUnsatisfiable.SCHEDULE_ANYWAY in policy.spread.act_on
    for group in assessment.groups:
        for evaluated in (*group.hard, *(group.soft if acts_on_soft else ())):
            if evaluated.counts.violated:
                yield group.workloads, constraint_rule(group, evaluated)
    for limit in assessment.limits:
        if limit.state is not State.SATISFIED and limit.counts:
            yield tuple(sorted(limit_workloads(limit))), limit_rule(limit)


def _rule(
    group: EvaluatedGroup | None,
    source: EvaluatedConstraint | EvaluatedLimit,
    counts: DomainCounts,
    bounds: DomainBounds,
) -> Rule:
    held = counts.filled.values()
    above = count_above(held, bounds)
    short = sum(bounds.min - pods for pods in held if pods < bounds.min) + bounds.min * (len(counts) - len(held))
    return Rule(group, source, counts, bounds, above, short)
