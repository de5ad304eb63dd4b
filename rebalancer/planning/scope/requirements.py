"""Requirements on how pods are spread, each on one topology key: a constraint, or a limit of the policy."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limit_groups import workload_key
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import Labels, LabelSelector, Operator
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.scope.bounds import Bound
from rebalancer.policy import WORKLOAD, LimitAction
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread, ineffective
from rebalancer.scheduling.view import View

ActOn = tuple[WhenUnsatisfiable, ...]


class Requirement(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One constraint or limit over one set of pods.

    `domain` maps a node to its domain of `key`; other nodes do not count. `domains` is the number of domains of
    `nodes`. `counted` is the number of counted pods by node. `bound` is required of each domain.
    """

    source: EvaluatedConstraint | EvaluatedLimit
    key: str
    domain: Mapping[str, str]
    nodes: frozenset[str]
    counted: Mapping[str, int]
    domains: int
    bound: Bound

    def counts(self, labels: Labels, workload: Reference) -> bool:
        """Return whether a pod of a workload with these labels counts."""
        if isinstance(self.source, EvaluatedLimit):
            return _is_meant(self.source, labels, workload)
        selector = self.source.constraint.selector
        return selector is not None and selector.matches(labels)

    def required_labels(self) -> Iterator[tuple[str, str]]:
        """Yield the labels, with single values, that every counted pod must have; see `workload_label`."""
        if isinstance(self.source, EvaluatedLimit):
            group, key = self.source.gathered.policy_group, dict(self.source.key)
            if WORKLOAD in (*group.group_by, *(self.source.rule.group_by or ())):
                yield "", key.get("workload", "")
            yield from _single_values(group.selector.compiled)
        else:
            selector = self.source.constraint.selector
            assert selector is not None, "a constraint without a selector requires nothing"
            yield from _single_values(selector)

    @property
    def min_domains(self) -> int:
        """The constraint's minDomains, 1 for a limit."""
        return 1 if isinstance(self.source, EvaluatedLimit) else self.source.constraint.min_domains

    @property
    def terms(self) -> tuple[str, int, Bound]:
        """The requirement without its pods and nodes, for comparison."""
        return self.key, self.domains, self.bound

    @property
    def limit(self) -> str:
        """The name of a limit with its group, "" for a constraint."""
        source = self.source
        return f"{source.group}/{source.limit}" if isinstance(source, EvaluatedLimit) else ""

    @property
    def stated_bound(self) -> str:
        """The limit's bound as documents show it, a constraint's maxSkew."""
        return self.source.rule.bound if isinstance(self.source, EvaluatedLimit) else str(self.bound.max_skew)

    @property
    def violated(self) -> bool:
        return self.source.state is not State.SATISFIED

    def by_domain(self) -> Mapping[str, int]:
        """Count the pods by domain; domains without any are absent."""
        if not isinstance(self.source, EvaluatedLimit) and self.counted is self.source.counts.by_node:
            return self.source.counts.by_domain.filled
        held: Counter[str] = Counter()
        for node, count in self.counted.items():
            held[self.domain[node]] += count
        return held

    @property
    def emptiest(self) -> int:
        """The least count of a domain."""
        held = self.by_domain()
        return min(held.values()) if held and len(held) == self.domains and not self.bound.floor_at_zero else 0


def workload_label(workload: Reference) -> tuple[str, str]:
    """Return a label that stands for the workload; its empty key collides with no real label."""
    return "", workload_key(workload)["workload"]


def _single_values(selector: LabelSelector) -> Iterator[tuple[str, str]]:
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            yield requirement.key, requirement.values[0]


def _is_meant(limit: EvaluatedLimit, labels: Labels, workload: Reference) -> bool:
    rule, group = limit.rule, limit.gathered.policy_group
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


def requirements_of_group(evaluated: EvaluatedGroup, view: View, act_on: ActOn) -> tuple[Requirement, ...]:
    """Return the requirements of a group's constraints: hard always, soft if they are acted on."""
    constraints = [*evaluated.hard, *(evaluated.soft if WhenUnsatisfiable.SCHEDULE_ANYWAY in act_on else ())]
    return tuple([_requirement_of(constraint, view) for constraint in constraints if is_effective(constraint, view)])


def is_effective(evaluated: EvaluatedConstraint, view: View) -> bool:
    """Return whether a constraint can ever reject a node: a null selector, or `{}` on some versions, cannot."""
    return evaluated.constraint.selector is not None and not ineffective(evaluated.constraint, view)


def _requirement_of(evaluated: EvaluatedConstraint, view: View) -> Requirement:
    constraint, counts = evaluated.constraint, evaluated.counts
    domains = len(counts.by_domain)
    return Requirement(
        source=evaluated,
        key=constraint.key,
        domain=view.nodes.values(constraint.key),
        nodes=counts.eligible.nodes,
        counted=counts.by_node,
        domains=domains,
        bound=Bound(
            max_skew=constraint.max_skew,
            enforced=constraint.max_skew if constraint.hard and is_on(PodTopologySpread, view) else None,
            floor_at_zero=counts.floor_at_zero,
        ),
    )


def is_acted_on(limit: EvaluatedLimit) -> bool:
    """Return whether pods are evicted for a limit."""
    return limit.action is LimitAction.EVICT and limit.enforceable


def requirement_of_limit(limit: EvaluatedLimit, view: View) -> Requirement:
    """Return what a limit requires; if the limit cannot be satisfied, the nearest bound that can be."""
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
        domains=len(domains) - len(limit.deserted),
        bound=Bound(
            max_skew=limit.max_skew if limit.goal is None else None,
            enforced=None,
            cap=limit.goal if limit.min_pods is None else None,
            least=(limit.goal or 0) if limit.min_pods is not None else 0,
        ),
    )


def depends_on_pod_count(requirement: Requirement) -> bool:
    """Return whether what is required changes with the number of pods that count."""
    limit = requirement.source
    return isinstance(limit, EvaluatedLimit) and (limit.rule.max_share is not None or limit.rule.when.total is not None)


def requirement_for_count(requirement: Requirement, more: int) -> Requirement | None:
    """Return the requirement for `more` pods, also of a limit that the present number of pods cannot satisfy.

    None if that requirement is not known: a limit may not apply to that number of pods, be a share of the pods in a
    larger domain, or count a domain without nodes.
    """
    limit = requirement.source
    if not isinstance(limit, EvaluatedLimit):
        return requirement
    if limit.deserted:
        return None
    share, total = limit.rule.max_share, limit.total + more
    if depends_on_pod_count(requirement) and (
        limit.rule.within is not None or not (limit.rule.when.total is None or limit.rule.when.total.holds(total))
    ):
        return None
    cap = limit.cap if share is None else share.cap(total)
    bound = structs.replace(requirement.bound, cap=cap, least=limit.min_pods or 0)
    return structs.replace(requirement, bound=bound)
