"""The groups of pods that a scale-down may choose from, and the requirements on the remaining pods.

A group is the Ready pods of one ReplicaSet or ReplicationController: pods that are not Ready go before any cost. All
other pods are fixed. The rules of a group are

* the hard constraints of its next pod;
* the policy's limits that count its pods;
* the violated terms of podAntiAffinity that the policy acts on, so that conflicting pods go first.

Where constraints tell revisions apart (matchLabelKeys), the pods of an old ReplicaSet are not counted with the new
ones, and have no requirements.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeEvent
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.planning.scope.bounds import FREE, Bound
from rebalancer.planning.scope.requirements import is_effective
from rebalancer.policy import Limit, Policy
from rebalancer.policy.groups import When
from rebalancer.prevention.scale_down import UNCOUNTED, Rule, ScaleDown
from rebalancer.scheduling.view import View

CHOOSING_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController"})
"""Controllers that choose which pods they delete; a StatefulSet goes by ordinal, a Job deletes none."""

_FALLING: Final = frozenset({">", ">="})
"""Comparisons that hold from some total on: a limit not in force now is not in force for fewer pods, either."""


@dataclass(frozen=True, kw_only=True)
class PodGroup:
    """The pods of one controller that are Ready on a node, sorted by name, and the requirements on the remaining pods.

    `skipped` names limits that are not modelled, because they are a share of a larger domain's pods.
    """

    member: PodController
    owner: Workload
    pods: tuple[Pod, ...]
    problem: ScaleDown
    skipped: tuple[str, ...] = field(default=())
    relabelled: bool = False
    """Whether a node of these pods was relabelled recently, which may be a mistake."""

    @property
    def settled(self) -> bool:
        """Whether the controller has as many pods as it wants, all of them Ready, on nodes that stay where they are."""
        complete = len(self.pods) == len(self.member.pods) == self.owner.replicas
        return self.owner.observed and complete and not self.relabelled


# Many branches: one for each kind of owner, pod or rule that is left out.
def find_pod_groups(
    view: View,
    assessment: Assessment,
    policy: Policy,
    memory: Memory,
    kinds: frozenset[str] = CHOOSING_KINDS,
    workload: Reference | None = None,
) -> Iterator[PodGroup]:
    """Yield the groups with at least two pods and one rule, of all workloads or one, by namespace, kind and name."""
    if "Node" in view.snapshot.unknown:
        return
    constraints = _index_constraints(assessment, view)
    limits = _index_limits(view, assessment, policy, memory)
    terms = _index_terms(assessment, policy)
    avoided = _find_avoided(assessment)
    relabelled = {change.node for change in memory.node_changes if change.event is NodeEvent.RELABELLED}
    for member in members(view):
        owner = member.owner
        if owner is None or owner.kind not in kinds or len(member.pods) < 2:
            continue
        if workload is not None and member.reference != workload:
            continue
        mine, meant, apart = constraints.get(owner.uid, ()), limits.get(owner.uid, ()), terms.get(owner.uid, ())
        if not mine and not meant and not apart:
            continue
        pods = tuple([pod for pod in member.pods if pod.ready and pod.node is not None])
        if len(pods) < 2:
            continue
        rules = [_constraint_rule(evaluated, member.pods, pods, view) for evaluated in mine]
        rules += [*_more_rules(meant, apart, pods, view)]
        if any(bound is not None and bound != FREE for rule in rules for bound in rule.bounds):
            skipped = tuple(f"{limit.group}/{limit.limit}" for limit in meant if _is_share_within(limit))
            yield PodGroup(
                member=member,
                owner=owner,
                pods=pods,
                problem=_make_problem(rules, pods, avoided),
                skipped=skipped,
                relabelled=not relabelled.isdisjoint(pod.node for pod in pods),
            )


def _make_problem(rules: Iterable[Rule], pods: Sequence[Pod], avoided: frozenset[str]) -> ScaleDown:
    kept = frozenset([number for number, pod in enumerate(pods) if pod.uid in avoided]) if avoided else frozenset[int]()
    return ScaleDown(size=len(pods), rules=tuple(_sort_rules(rule for rule in rules if _matters(rule))), avoided=kept)


def _more_rules(
    limits: Iterable[EvaluatedLimit], terms: Iterable[tuple[EvaluatedTerm, Part]], pods: Sequence[Pod], view: View
) -> Iterator[Rule]:
    """Yield what limits require of pods, where that is modelled, and what violated terms require."""
    yield from filter(None, (_limit_rule(limit, pods, view) for limit in limits))
    yield from (_term_rule(term, part, pods, view) for term, part in terms)


def _index_constraints(assessment: Assessment, view: View) -> Mapping[str, Sequence[EvaluatedConstraint]]:
    """Return the hard constraints of the next pods, by the UID of the pods' controller."""
    by_owner: dict[str, Sequence[EvaluatedConstraint]] = {}
    for group in assessment.groups:
        hard = [evaluated for evaluated in group.hard if is_effective(evaluated, view)]
        if hard:
            for member in group.spread.members:
                if member.owner is not None:
                    by_owner[member.owner.uid] = hard
    return by_owner


def _index_limits(
    view: View, assessment: Assessment, policy: Policy, memory: Memory
) -> Mapping[str, Sequence[EvaluatedLimit]]:
    """Return the limits that count pods, by their controller's UID, including limits in force only for fewer pods."""
    limits = assessment.limits
    if any(_may_begin(limit) for group in policy.groups for limit in group.limits):
        # Evaluated as if every number of pods were meant; which numbers are is part of the rule.
        anyway = [
            structs.replace(
                gathered,
                policy_group=gathered.policy_group.model_copy(
                    update={"limits": _without_totals(gathered.policy_group.limits)}
                ),
            )
            for gathered in assessment.pod_groups
        ]
        limits = evaluate_limits(anyway, view, memory, DomainKnowledge.of(view, policy, memory))
    originals = {(group.name, limit.name): limit for group in policy.groups for limit in group.limits}
    by_owner: dict[str, list[EvaluatedLimit]] = {}
    for evaluated in limits:
        original = originals.get((evaluated.group, evaluated.limit), evaluated.rule)
        meant = evaluated if original is evaluated.rule else structs.replace(evaluated, rule=original)
        for part in evaluated.parts:
            if part.member.owner is not None and part.pods:
                by_owner.setdefault(part.member.owner.uid, []).append(meant)
    return by_owner


def _index_terms(assessment: Assessment, policy: Policy) -> Mapping[str, Sequence[tuple[EvaluatedTerm, Part]]]:
    """Return the violated terms that are acted on and the pods' part in them, by the UID of the pods' controller."""
    act_on = policy.anti_affinity.act_on
    by_owner: dict[str, list[tuple[EvaluatedTerm, Part]]] = {}
    for term in (*assessment.anti_affinity, *assessment.preferred):
        for part, pods in term.participants if term.violated and term.kind in act_on else ():
            if pods[0].owner is not None:
                by_owner.setdefault(pods[0].owner.uid, []).append((term, part))
    return by_owner


def _term_rule(term: EvaluatedTerm, part: Part, pods: Sequence[Pod], view: View) -> Rule:
    """Return the requirement of a term: one pod in a domain, or none beside the pods that it keeps away.

    For preferred terms, the pods are to be spread evenly.
    """
    key, mine = term.term.topology_key, {pod.uid for pod in pods}
    values = view.nodes.values(key)
    others = (Part.DECLARES, Part.SELECTED, Part.BOTH) if part is Part.BOTH else (Part(1 - part), Part.BOTH)
    concerned = [pod for other, those in term.participants if other in others for pod in those if pod.uid not in mine]
    beside = Counter(values[pod.node] for pod in concerned if pod.node is not None and pod.node in values)
    domains = [values.get(pod.node or "") for pod in pods]
    if part is not Part.BOTH:
        domains = [domain if domain in beside else None for domain in domains]
        bound, filled, many = Bound(cap=0), Counter(filter(None, domains)), len(beside)
    else:
        bound = Bound(max_skew=1) if term.weight else Bound(cap=1)
        filled, many = beside + Counter(filter(None, domains)), len(view.nodes.groups(key))
    own = Counter(filter(None, domains))
    return _make_rule(key, domains, own, filled, many, (bound,) * (len(pods) + 1))


def _may_begin(limit: Limit) -> bool:
    """Return whether a limit that is not in force can be in force for fewer pods."""
    return limit.when.total is not None and limit.when.total.comparison not in _FALLING


def _without_totals(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    return tuple(limit.model_copy(update={"when": When(zones=limit.when.zones)}) for limit in limits)


def _find_avoided(assessment: Assessment) -> frozenset[str]:
    """Return the UIDs of the pods that a group of the policy evicts last (`avoid`)."""
    avoided: set[str] = set()
    for gathered in assessment.pod_groups:
        selector = gathered.policy_group.avoid
        if selector is not None:
            avoided.update(pod.uid for pod in gathered.pods if selector.compiled.matches(pod.labels))
    return frozenset(avoided)


def _constraint_rule(evaluated: EvaluatedConstraint, living: Sequence[Pod], pods: Sequence[Pod], view: View) -> Rule:
    constraint, counts = evaluated.constraint, evaluated.counts
    selector = constraint.selector
    assert selector is not None, "a constraint without selector is not effective"
    values, eligible = view.nodes.values(constraint.key), counts.eligible.nodes
    matching: dict[Labels, bool] = {}

    def find_domain(pod: Pod) -> str | None:
        labels, node = pod.labels, pod.node
        matches = matching.get(labels)
        if matches is None:
            matches = matching[labels] = selector.matches(labels)
        return values[node] if matches and node is not None and node in eligible else None

    many = len(counts.by_domain)
    bound = Bound(max_skew=constraint.max_skew, floor_at_zero=counts.floor_at_zero)
    return _make_rule(
        constraint.key,
        [find_domain(pod) for pod in pods],
        Counter([domain for pod in living if (domain := find_domain(pod)) is not None]),
        counts.by_domain.filled,
        many,
        (bound,) * (len(pods) + 1),
    )


# Many branches: which pods a limit counts, and how its bound depends on their number.
def _limit_rule(limit: EvaluatedLimit, pods: Sequence[Pod], view: View) -> Rule | None:
    if _is_share_within(limit):
        return None
    own = {pod.uid: pod for part in limit.parts for pod in part.pods if pod.owner is not None}
    values = view.nodes.values(limit.topology_key)

    def find_domain(pod: Pod) -> str | None:
        domain = values.get(pod.node or "") if pod.uid in own else None
        return domain if domain is not None and domain in limit.counts.domains else None

    owner = pods[0].owner
    mine = [pod for pod in own.values() if pod.owner is owner or pod.owner == owner]
    uncounted = sum(pod.uid not in own for pod in pods)
    return _make_rule(
        limit.topology_key,
        [find_domain(pod) for pod in pods],
        Counter([domain for pod in mine if (domain := find_domain(pod)) is not None]),
        limit.counts.filled,
        len(limit.counts),
        tuple(
            [
                _bound_of(limit, limit.total - len(mine) + max(0, remaining - uncounted))
                for remaining in range(len(pods) + 1)
            ]
        ),
    )


def _bound_of(limit: EvaluatedLimit, total: int) -> Bound | None:
    """Return the requirement of a limit for `total` pods; None if the limit is not in force for them."""
    rule = limit.rule
    if total <= 0 or not (rule.when.total is None or rule.when.total.holds(total)):
        return None
    cap = rule.max_share.cap(total) if rule.max_share is not None else rule.max_pods
    return Bound(max_skew=rule.max_skew, cap=cap, least=rule.min_pods or 0)


def _is_share_within(limit: EvaluatedLimit) -> bool:
    return limit.rule.within is not None and limit.rule.max_share is not None


def _make_rule(
    key: str,
    domains: Sequence[str | None],
    own: Mapping[str, int],
    filled: Mapping[str, int],
    many: int,
    bounds: tuple[Bound | None, ...],
) -> Rule:
    """Make a rule; `own` are all living pods of the controller by domain, `filled` all pods that count."""
    positions: dict[str, int] = {}
    numbers = [UNCOUNTED if domain is None else positions.setdefault(domain, len(positions)) for domain in domains]
    lowest: int | None = None
    highest: int | None = None
    if many > len(positions):
        others = [count - own.get(domain, 0) for domain, count in filled.items() if domain not in positions]
        highest = max(others, default=0)
        lowest = 0 if many - len(positions) > len(others) else min(others, default=0)
    return Rule(
        topology_key=key,
        domains=tuple(numbers),
        fixed=tuple([max(0, filled.get(domain, 0) - own.get(domain, 0)) for domain in positions]),
        lowest=lowest,
        highest=highest,
        bounds=bounds,
    )


def _matters(rule: Rule) -> bool:
    """Return whether the choice of the remaining pods can make a difference."""
    return len(set(rule.domains)) > 1 and any(bound is not None and bound != FREE for bound in rule.bounds)


def _sort_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Sort rules by their number of domains, fewest first; of equal rules, keep one."""
    return sorted(dict.fromkeys(rules), key=lambda rule: len(rule.fixed))
