"""The assessment: for spread groups, limits and terms of podAntiAffinity the counts, and whether they satisfy them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from msgspec import Struct

from rebalancer.assessment.anti_affinity.evaluate import evaluate_anti_affinity, evaluate_preferred
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.constraint_costs import TooCostly, share_out
from rebalancer.assessment.deadlocks import Deadlock, find_deadlocks
from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes, find_domains_without_nodes
from rebalancer.assessment.evicted import EvictedByOthers, find_evicted_by_others
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limit_groups import LimitGroup, find_limit_groups
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.sizes.find import WorkloadSizes, find_workload_sizes
from rebalancer.assessment.spread_groups import SpreadGroup, find_spread_groups
from rebalancer.assessment.starts import NodeWithoutStarts, find_nodes_without_starts
from rebalancer.assessment.too_large import TooLarge, find_too_large
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moments import Clock
from rebalancer.model.motion import DomainMotion
from rebalancer.model.moves import PlanningMemory, Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import Policy
from rebalancer.scheduling.pod_topology_spread import Counts, counts
from rebalancer.scheduling.spread_constraints import EffectiveConstraint
from rebalancer.scheduling.view import View
from rebalancer.tracking.motion import find_window


class UnsettledDomain(Refusal):
    """A domain that loses nodes, or has until a moment ago: no replacement may be placed in it.

    From `until` on replacements may be placed there, if nothing changes.
    """

    reason = Reason.DOMAIN_UNSETTLED
    motion: DomainMotion
    until: datetime

    def _end(self) -> End:
        """Return the moment if it is known exactly; an upper bound does not count."""
        if self.motion.lasting:
            return End(event=f"when its nodes have taken pods for a while, at the latest {self._latest}")
        return End(at=self.until)

    @property
    def _latest(self) -> str:
        return f"{self.until:%Y-%m-%d %H:%M:%SZ}"

    @property
    def sentence(self) -> str:
        """What has happened to its nodes, and until when nothing is moved there."""
        until = self._latest
        if self.motion.lasting:
            until = f"its nodes have taken pods again for a while, or until {until} at the latest"
        return f"{self.motion}: nothing is moved there until {until}"

    def __str__(self) -> str:
        where = f"{self.motion.key}={self.motion.value}"
        return f"a replacement may land in {where}, where {self.motion.cause}. Nothing is moved there yet"


class EvaluatedConstraint(Struct, frozen=True, kw_only=True, gc=False):
    """One constraint of a group with its counts."""

    constraint: EffectiveConstraint
    counts: Counts

    @property
    def topology_key(self) -> str:
        """The key of the domains."""
        return self.constraint.key

    @property
    def max_skew(self) -> int:
        """The largest skew that the constraint allows."""
        return self.constraint.max_skew

    @property
    def skew(self) -> int:
        """The skew: the greatest count of a domain less the global minimum."""
        return self.counts.skew

    @property
    def state(self) -> State:
        """Satisfied or Violated; planning may find a violation to be Infeasible or Unfixable."""
        return State.VIOLATED if self.counts.violated else State.SATISFIED


class EvaluatedGroup(Struct, frozen=True, kw_only=True, gc=False):
    """A spread group with its constraints evaluated, hard and soft in the order of the pod's specification."""

    spread: SpreadGroup
    hard: tuple[EvaluatedConstraint, ...]
    soft: tuple[EvaluatedConstraint, ...]
    violated: bool
    """Whether a hard constraint is violated."""

    @property
    def workloads(self) -> tuple[Reference, ...]:
        """The workloads by name, sorted, each once."""
        return self.spread.workloads


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Every spread group and limit, evaluated, in a stable order."""

    groups: tuple[EvaluatedGroup, ...]
    pod_groups: tuple[LimitGroup, ...] = ()
    """The pods of the policy's groups."""
    limits: tuple[EvaluatedLimit, ...] = ()
    """Every limit in force, once for each set of pods that it counts."""
    deadlocks: tuple[Deadlock, ...] = ()
    """Pending pods whose own rules exclude each other."""
    domains_without_nodes: tuple[DomainWithoutNodes, ...] = ()
    """Domains that constraints do not count because no node carries them, although they exist."""
    unsettled_domains: tuple[UnsettledDomain, ...] = ()
    """Domains that lose nodes, or have until a moment ago."""
    nodes_without_starts: tuple[NodeWithoutStarts, ...] = ()
    """Nodes where nothing that was bound lately starts, or nothing of one owner."""
    evicted_by_others: tuple[EvictedByOthers, ...] = ()
    """Workloads with a limit, or an acted-on constraint, whose pods others evict, or have until a moment ago."""
    too_costly: tuple[TooCostly, ...] = ()
    """Workloads whose constraints are not evaluated because their namespace's constraints exceed its share."""
    too_large: tuple[TooLarge, ...] = ()
    """Workloads whose pods have more constraints, terms or text than is read, or than `eligibility.maxTerms`."""
    sizes: tuple[WorkloadSizes, ...] = ()
    """For the workloads that a HorizontalPodAutoscaler scales: which sizes have no placement."""
    anti_affinity: tuple[EvaluatedTerm, ...] = ()
    """Every required term of podAntiAffinity."""
    preferred: tuple[EvaluatedTerm, ...] = ()
    """Every preferred term of podAntiAffinity."""

    @property
    def violated(self) -> tuple[EvaluatedGroup, ...]:
        """The groups with a violated hard constraint."""
        return tuple(group for group in self.groups if group.violated)


def assess(view: View, policy: Policy, memory: PlanningMemory) -> Assessment:
    """Evaluate every constraint and term of every living workload and every limit of the policy; find deadlocks."""
    limit_groups = find_limit_groups(view, policy.groups)
    knowledge = DomainKnowledge.of(view, policy, memory)
    shared = share_out(find_spread_groups(view), view)
    groups = tuple(_evaluate(group, view) for group in shared.groups)
    counted = [(group.spread, evaluated.counts) for group in groups for evaluated in (*group.hard, *group.soft)]
    limits = evaluate_limits(limit_groups, view, memory, knowledge)
    acts_on_soft = WhenUnsatisfiable.SCHEDULE_ANYWAY in policy.spread.act_on
    constrained = (workload for group in groups if group.hard or acts_on_soft for workload in group.workloads)
    limited = (part.member.reference for limit in limits for part in limit.parts)
    return Assessment(
        groups=groups,
        pod_groups=limit_groups,
        limits=limits,
        deadlocks=find_deadlocks(view),
        domains_without_nodes=find_domains_without_nodes(counted, view, knowledge),
        unsettled_domains=_find_unsettled(memory, policy, view.clock),
        nodes_without_starts=find_nodes_without_starts(view),
        evicted_by_others=tuple(find_evicted_by_others(memory, chain(constrained, limited))),
        too_costly=shared.left,
        too_large=tuple(find_too_large(view, policy.eligibility.max_terms)),
        sizes=find_sizes(groups, view, policy, knowledge),
        anti_affinity=evaluate_anti_affinity(view),
        preferred=evaluate_preferred(view),
    )


def find_sizes(
    groups: Sequence[EvaluatedGroup], view: View, policy: Policy, knowledge: DomainKnowledge, *, autoscaled: bool = True
) -> tuple[WorkloadSizes, ...]:
    """Return which sizes have no placement, for workloads with (`autoscaled`) or without a HorizontalPodAutoscaler."""
    counted = [(group.spread, [evaluated.counts for evaluated in group.hard]) for group in groups]
    return find_workload_sizes(counted, view, policy, knowledge, autoscaled=autoscaled)


def _find_unsettled(memory: PlanningMemory, policy: Policy, clock: Clock) -> tuple[UnsettledDomain, ...]:
    """Return the domains into which nothing is moved at present."""
    return tuple(domain for domain in _find_ends(memory, policy) if not clock.has_passed(domain.until))


def find_unreported_ends(memory: PlanningMemory, policy: Policy, now: datetime) -> tuple[UnsettledDomain, ...]:
    """Return the domains of a stored memory whose end was not reported: they have not settled, or settled afterwards.

    A settled domain is no longer stored, unless it still loses nodes after the longest time.
    """
    domains = _find_ends(memory, policy)
    return tuple(one for one in domains if now < one.until or one.until < one.motion.latest_end)


def _find_ends(memory: PlanningMemory, policy: Policy) -> Iterator[UnsettledDomain]:
    window = find_window(policy)
    return (UnsettledDomain(motion, motion.settles_at(window)) for motion in memory.domains_in_motion)


def _evaluate(group: SpreadGroup, view: View) -> EvaluatedGroup:
    hard, soft = (
        tuple(
            EvaluatedConstraint(constraint=constraint, counts=counts(constraint, group.sample, view))
            for constraint in constraints
        )
        for constraints in group.constraints
    )
    violated = any(constraint.counts.violated for constraint in hard)
    return EvaluatedGroup(spread=group, hard=hard, soft=soft, violated=violated)
