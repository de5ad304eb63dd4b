"""Constraints of other workloads that are satisfied now and violated once the manifests are deployed.

Problem: a spread constraint counts every pod that its selector matches, including pods of other workloads. But
kube-scheduler applies it only to pods that declare it.

Idea: simulate one order of the new pods. If the constraint is violated at its end, the violation may happen. It is
certain if no division of the new pods among the domains that they may use satisfies the constraint. Required
anti-affinity needs no check, because kube-scheduler keeps new pods away from pods that declare it.

Example: zones a, b and c have 1 pod each, maxSkew is 1, and the 3 new pods may go only to zone a: then it has 4.

Cost: each constraint whose selector matches pods of a manifest is counted twice.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rebalancer.assessment.controllers import members
from rebalancer.lint.doubts import count_not_replaced, has_unknown_priority
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground, namespace_of
from rebalancer.lint.manifest import ROOT, Manifest
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.words import name_list
from rebalancer.resilience.bounds import Bounds, find_bounds
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.reason import Reasons
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.pod_topology_spread import Counts, counts
from rebalancer.scheduling.preemption import has_lower_pods
from rebalancer.scheduling.spread_constraints import EffectiveConstraint, constraints_of


class _Shared(NamedTuple):
    """A constraint of another workload that counts pods of a manifest; `sample` is a pod that declares it."""

    other: Reference
    constraint: EffectiveConstraint
    sample: Pod
    manifest: Manifest


@dataclass(frozen=True)
class Arrivals:
    """The new pods that a constraint counts: between `least` and `most` pods arrive, only in these domains."""

    domains: frozenset[str]
    least: int
    most: int


def check_others(ground: Ground) -> Iterator[Finding]:
    """Yield the constraints of the cluster's other workloads that the manifests will or may violate."""
    shared = [*_find_shared(ground)]
    if not shared:
        return
    loss = lose(ground.deployed, frozenset(), Phase.GONE)
    played = Reasons(loss).after
    bounds = find_bounds(loss)
    doubtful = {namespace_of(one) for one in ground.by_workload.values() if _is_doubtful(one, ground)}
    for one in shared:
        before = counts(one.constraint, one.sample, ground.now)
        base, after = (counts(one.constraint, one.sample, view) for view in (ground.deployed, played))
        if before.violated:
            continue
        arrivals = _find_arrivals(one, base, loss, bounds) if one.sample.namespace not in doubtful else None
        if arrivals is not None and not _can_satisfy(base, arrivals):
            yield _describe(one, Severity.ERROR, _say_certain(arrivals))
        elif after.violated:
            yield _describe(one, Severity.WARNING, _say_likely(after))


def _is_doubtful(manifest: Manifest, ground: Ground) -> bool:
    """Return whether pods of a manifest keep their old template, or have an unknown priority."""
    return count_not_replaced(manifest, ground) > 0 or has_unknown_priority(manifest, ground)


def _find_shared(ground: Ground) -> Iterator[_Shared]:
    seen = set[tuple[str, EffectiveConstraint]]()
    changing = defaultdict[str, list[Manifest]](list)
    for reference in sorted(ground.changing):
        changing[reference.namespace].append(ground.by_workload[reference])
    for member in members(ground.now) if changing else ():
        sample = member.sample
        if sample is None or member.reference in ground.by_workload:
            continue
        for constraint in constraints_of(sample, ground.now).hard:
            own = changing.get(sample.namespace, ())
            manifest = next((one for one in own if _counts(constraint, one, ground)), None)
            if manifest is not None and (sample.namespace, constraint) not in seen:
                seen.add((sample.namespace, constraint))
                yield _Shared(member.reference, constraint, sample, manifest)


def _counts(constraint: EffectiveConstraint, manifest: Manifest, ground: Ground) -> bool:
    """Return whether a constraint counts a manifest's new pods, or the pods that they replace.

    A selector without requirements counts none. Source: `podtopologyspread/common.go` (countPodsMatchSelector).
    """
    if constraint.selector is None or not constraint.selector.requirements:
        return False
    template = manifest.workload.template if manifest.workload is not None else None
    rollout = ground.find_rollout(manifest)
    labels = [pod.labels for pod in rollout[1]] if rollout is not None else []
    labels += [template.labels] if template is not None else []
    return any(map(constraint.selector.matches, labels))


def _find_arrivals(shared: _Shared, base: Counts, loss: Loss, bounds: Sequence[Bounds]) -> Arrivals | None:
    """Return the new pods that a constraint counts; None if other pods may be deleted.

    Other pods are deleted in a scale-down, or if a new pod preempts them.
    """
    domains, least, most = set[str](), 0, 0
    values, selector = loss.after.nodes.values(shared.constraint.key), shared.constraint.selector
    for service, bound in zip(loss.services, bounds, strict=True):
        pod = service.sample
        if pod.namespace != shared.sample.namespace:
            continue
        if service.bound > service.wanted:  # a scale-down: which pods it deletes is unknown
            return None
        if selector is None or not selector.matches(pod.labels):
            continue
        if has_lower_pods(pod, loss.after):
            return None
        if service.pending:
            nodes = admissible(pod, loss.after)
            domains |= {values[node] for node in nodes & base.eligible.nodes}
            least += bound.guaranteed - service.bound if nodes <= base.eligible.nodes else 0
            most += service.pending
    return Arrivals(frozenset(domains), least, most)


def _can_satisfy(base: Counts, arrivals: Arrivals) -> bool:
    return can_satisfy(base.by_domain, base.constraint.max_skew, arrivals, floor_at_zero=base.floor_at_zero)


def can_satisfy(held: Mapping[str, int], max_skew: int, arrivals: Arrivals, *, floor_at_zero: bool = False) -> bool:
    """Return whether some division of the arriving pods among their domains satisfies a constraint.

    Suppose the emptiest domain holds `fewest` pods at the end. Then every other domain holds at least `fewest` pods,
    and at most maxSkew more. With `floor_at_zero` the emptiest domain counts as empty. `held` is the number of pods in
    each domain before.
    """
    free = arrivals.domains
    for fewest in range(1 if floor_at_zero else max(held.values(), default=0) + arrivals.most + 1):
        highest = fewest + max_skew
        closed = (number for domain, number in held.items() if domain not in free)
        if any(number > highest for number in held.values()) or any(number < fewest for number in closed):
            continue
        least = sum(max(0, fewest - held[domain]) for domain in free)
        most = sum(highest - held[domain] for domain in free)
        if least <= arrivals.most and arrivals.least <= most:
            return True
    return False


def _describe(shared: _Shared, severity: Severity, why: str) -> Finding:
    key, skew = shared.constraint.key, shared.constraint.max_skew
    verb = "is" if severity is Severity.ERROR else "may be"
    return Finding(
        rule=Rule.VIOLATES_OTHERS,
        severity=severity,
        manifest=shared.manifest,
        path=ROOT,
        message=f"the constraint of {shared.other} over {key} (maxSkew {skew}) counts these pods, too; it is satisfied "
        f"now, and {verb} violated once this is deployed: {why}",
    )


def _say_certain(arrivals: Arrivals) -> str:
    if not arrivals.domains:
        return "it counts none of the pods that replace the old ones"
    where = name_list(sorted(arrivals.domains))
    return f"new pods that it counts may go to {where} alone, and no placement of them satisfies it"


def _say_likely(after: Counts) -> str:
    by_domain = after.by_domain
    fullest = min(by_domain, key=lambda domain: (-by_domain[domain], domain))
    emptiest = min(by_domain, key=lambda domain: (by_domain[domain], domain))
    return (
        f"where kube-scheduler most likely places them, {fullest} has {by_domain[fullest]} pods and {emptiest} "
        f"{by_domain[emptiest]}"
    )
