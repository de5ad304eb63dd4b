"""What is asked of how pods stand, each thing on one topology key: a constraint of theirs, or a limit of the policy."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, structs

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limit_groups import workload_key
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import WORKLOAD, LimitAction
from rebalancer.scheduling.pod_topology_spread import ineffective
from rebalancer.scheduling.view import View

ActOn = tuple[WhenUnsatisfiable, ...]


class Requirement(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One thing asked. `domain` gives a node's domain; nodes that are not in it take no part.

    `max_skew` is asked, None for any; `enforced` is the maxSkew to which the scheduler holds the pods of the group
    whose constraint it is, None for a soft constraint and for limits. `cap` and `least` bound each domain.
    `counted` are the pods that count, by node.
    """

    source: EvaluatedConstraint | EvaluatedLimit
    key: str
    domain: Mapping[str, str]
    nodes: frozenset[str]
    counted: Mapping[str, int]
    many: int
    """How many domains there are."""
    max_skew: int | None = None
    enforced: int | None = None
    floor_at_zero: bool = False
    cap: int | None = None
    least: int = 0

    def counts(self, labels: Labels, workload: Reference) -> bool:
        """Say whether a pod of a workload with these labels counts."""
        if isinstance(self.source, EvaluatedLimit):
            return _meant(self.source, labels, workload)
        selector = self.source.constraint.selector
        return selector is not None and selector.matches(labels)

    @property
    def asked(self) -> tuple[str, int, int | None, int | None, bool, int | None, int]:
        """All that is asked but for whom and where, to compare by."""
        return self.key, self.many, self.max_skew, self.enforced, self.floor_at_zero, self.cap, self.least

    @property
    def violated(self) -> bool:
        """Whether it does not hold now."""
        return self.source.state is not State.SATISFIED

    def by_domain(self) -> Mapping[str, int]:
        """Count the pods by domain; those without any are absent."""
        held: Counter[str] = Counter()
        for node, count in self.counted.items():
            held[self.domain[node]] += count
        return held

    @property
    def emptiest(self) -> int:
        """The least count of a domain."""
        held = self.by_domain()
        return min(held.values()) if held and len(held) == self.many and not self.floor_at_zero else 0

    @property
    def text(self) -> str:
        """Say what is asked, for a sentence."""
        if isinstance(self.source, EvaluatedLimit):
            return f"limit {self.source.group}/{self.source.limit} ({self.source.rule.bound})"
        return f"maxSkew is {self.max_skew}"


def _meant(limit: EvaluatedLimit, labels: Labels, workload: Reference) -> bool:
    rule, group = limit.rule, limit.gathered.group
    key = dict(limit.key)
    if WORKLOAD in (*group.group_by, *(rule.group_by or ())) and workload_key(workload) != {
        "workload": key.pop("workload", "")
    }:
        return False
    if not group.selector.compiled.matches(labels):
        return False
    if rule.selector is not None and not rule.selector.compiled.matches(labels):
        return False
    return all(labels.get(name) == value for name, value in key.items() if name != rule.within)


def requirements_of_group(judged: EvaluatedGroup, view: View, act_on: ActOn) -> tuple[Requirement, ...]:
    """Return what a group's constraints ask: hard ones always, soft ones if they are acted on."""
    found = [_of_constraint(each, view, soft=False) for each in judged.hard if is_effective(each, view)]
    if WhenUnsatisfiable.SCHEDULE_ANYWAY in act_on:
        found += [_of_constraint(each, view, soft=True) for each in judged.soft if is_effective(each, view)]
    return tuple(found)


def is_effective(judged: EvaluatedConstraint, view: View) -> bool:
    """Say whether a constraint can ever reject a node: a null selector, or `{}` on some versions, cannot."""
    return judged.constraint.selector is not None and not ineffective(judged.constraint, view)


def _of_constraint(judged: EvaluatedConstraint, view: View, *, soft: bool) -> Requirement:
    constraint, counts = judged.constraint, judged.counts
    many = len(counts.by_domain)
    return Requirement(
        source=judged,
        key=constraint.key,
        domain=view.nodes.values(constraint.key),
        nodes=counts.eligible.nodes,
        counted=counts.by_node,
        many=many,
        max_skew=constraint.max_skew,
        enforced=None if soft else constraint.max_skew,
        floor_at_zero=many < constraint.min_domains,
    )


def is_acted_on(limit: EvaluatedLimit) -> bool:
    """Say whether pods are evicted for a limit."""
    return limit.action is LimitAction.EVICT and limit.enforceable


def requirement_of_limit(limit: EvaluatedLimit, view: View) -> Requirement:
    """Return what a limit asks; where it cannot be met, the least that comes near it."""
    domains = limit.counts.domains
    counted: dict[str, int] = {}
    nodes = view.memo(("nodes of a limit", id(domains)), lambda: (domains, frozenset().union(*domains.values())))[1]
    for pod in limit.pods:
        if pod.node is not None and pod.node in nodes:
            counted[pod.node] = counted.get(pod.node, 0) + 1
    return Requirement(
        source=limit,
        key=limit.topology_key,
        domain=view.nodes.values(limit.topology_key),
        nodes=nodes,
        counted=counted,
        many=len(domains),
        max_skew=limit.max_skew,
        cap=limit.goal if limit.cap is not None else None,
        least=(limit.goal or 0) if limit.min_pods is not None else 0,
    )


def depends_on_pod_count(demand: Requirement) -> bool:
    """Say whether what is asked changes with the number of pods that count."""
    limit = demand.source
    return isinstance(limit, EvaluatedLimit) and (limit.rule.max_share is not None or limit.rule.when.total is not None)


def requirement_for_count(demand: Requirement, more: int) -> Requirement | None:
    """Return what is asked of so many pods more, also by a limit that is out of reach of those that there are.

    None where it is not known: a limit might not be meant for so many, or be a share of what a larger domain holds.
    """
    limit = demand.source
    if not isinstance(limit, EvaluatedLimit):
        return demand
    share, total = limit.rule.max_share, limit.total + more
    if depends_on_pod_count(demand) and (
        limit.rule.within is not None or not (limit.rule.when.total is None or limit.rule.when.total.holds(total))
    ):
        return None
    cap = limit.cap if share is None else share.cap(total)
    return structs.replace(demand, cap=cap, least=limit.min_pods or 0)
