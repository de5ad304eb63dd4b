"""Limits of a policy that also count pods of other workloads, and are satisfied until the manifests are deployed.

kube-scheduler does not know limits, so it is not certain where the pods go. One order of the pods is simulated, and the
limit is counted for its result as `report` would count it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limit_groups import find_limit_groups
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import ROOT
from rebalancer.model.labels import Labels
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.reasons import State
from rebalancer.model.words import name_list
from rebalancer.policy import Policy
from rebalancer.resilience.loss import lose
from rebalancer.resilience.reason import Reasons
from rebalancer.scheduling.view import View

_Key = tuple[str, str, str, Labels]


def check_others_limits(ground: Ground, policy: Policy) -> Iterator[Finding]:
    """Yield the limits that count both pods of the manifests and pods of others, and that the manifests violate."""
    before = _evaluate(ground.now, policy) if ground.changing else {}
    shared = {key for key, limit in before.items() if limit.headroom >= 0 and _find_owners(limit) - ground.changing}
    if not shared:
        return
    after = _evaluate(_play(ground), policy)
    for key in sorted(shared & after.keys(), key=lambda one: (one[:3], str(one[3]))):
        limit, owners = after[key], _find_owners(after[key]) | _find_owners(before[key])
        others, own = sorted(owners - ground.by_workload.keys()), sorted(owners & ground.changing)
        if limit.state is State.VIOLATED and others and own:
            yield Finding(
                rule=Rule.VIOLATES_OTHERS,
                severity=Severity.WARNING,
                manifest=ground.by_workload[own[0]],
                path=ROOT,
                message=f"limit {limit.group}/{limit.limit} counts pods of {name_list(map(str, others))}, too; it is "
                "satisfied now, and may be violated once this is deployed: where kube-scheduler most likely places "
                f"the pods, {limit.message}",
            )


def _play(ground: Ground) -> View:
    """Return the cluster in which the manifests are deployed, with the pods on the nodes that are most likely."""
    played = Reasons(lose(ground.deployed, frozenset(), Phase.GONE)).after
    pods = tuple(structs.replace(placed.pod, node=placed.node) for placed in played.placed_pods())
    return View(replace(ground.deployed.snapshot, pods=pods), ground.profile)


def _evaluate(view: View, policy: Policy) -> Mapping[_Key, EvaluatedLimit]:
    groups = find_limit_groups(view, policy.groups)
    limits = evaluate_limits(groups, view, NO_MEMORY, DomainKnowledge.of(view, policy, NO_MEMORY))
    return {(one.group, one.limit, one.namespace, one.key): one for one in limits}


def _find_owners(limit: EvaluatedLimit) -> set[Reference]:
    return {part.member.reference for part in limit.parts}
