"""Expected counts: pods by domain after the decided evictions and the placement of their replacements.

For groups of equal pods the plan has these counts. For other groups it has the domains in which each replacement may be
placed; the counts are known if that is a single domain.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.scope.components import Component, Counts, current_counts
from rebalancer.scheduling.pod_topology_spread import DomainCounts


def expected_counts(group: ComponentPlan, evictions: Sequence[Eviction], snapshot: Snapshot) -> Counts:
    """Return the counts by key and domain after the evictions; keys whose counts are not known are left out."""
    if not evictions:
        return current_counts(group.component)
    if group.after is not None:
        return group.after
    if any(eviction.cause is Cause.PLACEMENT_DEADLOCK for eviction in evictions):
        return {}  # the pending pod will be placed too, in an unknown domain
    after = {}
    for key, counts in current_counts(group.component).items():
        counted = [eviction for eviction in evictions if _is_counted(group.component, key, eviction.pod)]
        moved = _move_counts(counts, key, counted, snapshot)
        if moved is not None:
            after[key] = moved
    return after


def expected_worst(limit: EvaluatedLimit, evictions: Sequence[Eviction], snapshot: Snapshot) -> tuple[int, bool] | None:
    """Return the expected count of a limit's worst domain, and whether it is exact or an upper bound; None if unknown.

    The worst domain is the fullest, for minPods the emptiest. For maxSkew the difference of the two is returned.
    """
    limit_pods = {pod.uid for pod in limit.pods}
    counted = [eviction for eviction in evictions if eviction.pod.uid in limit_pods]
    if not counted or any(eviction.cause is Cause.PLACEMENT_DEADLOCK for eviction in evictions):
        return None
    key, counts = limit.topology_key, limit.counts
    moved = _move_counts(counts, key, counted, snapshot)
    if moved is not None:
        return _worst_count(limit, moved), True
    if limit.cap is None or not all(_target_domains(eviction, key) for eviction in counted):
        return None
    remaining = _remaining_counts(counts, key, counted, snapshot)
    arriving = Counter(domain for eviction in counted for domain in _target_domains(eviction, key))
    return max((number + arriving[domain] for domain, number in remaining.items()), default=0), False


def _worst_count(limit: EvaluatedLimit, counts: Mapping[str, int]) -> int:
    fullest, emptiest = max(counts.values(), default=0), min(counts.values(), default=0)
    if limit.cap is not None:
        return fullest
    return emptiest if limit.min_pods is not None else fullest - emptiest


def _is_counted(component: Component, key: str, pod: Pod) -> bool:
    """Return whether the counts of a key, from its first constraint or limit, include a pod."""
    for group in component.groups:
        for evaluated in (*group.hard, *group.soft):
            if evaluated.constraint.key == key and (evaluated.constraint.hard or evaluated.counts.violated):
                selector = evaluated.constraint.selector
                return selector is not None and selector.matches(pod.labels)
    return any(
        pod.uid == counted.uid for limit in component.limits if limit.topology_key == key for counted in limit.pods
    )


def _move_counts(
    counts: DomainCounts, key: str, evictions: Sequence[Eviction], snapshot: Snapshot
) -> Mapping[str, int] | None:
    """Move each evicted pod to the one domain of its replacement; None if a replacement may go to several domains."""
    arriving = Counter[str]()
    for eviction in evictions:
        domains = _target_domains(eviction, key)
        if len(domains) != 1:
            return None
        arriving[domains[0]] += 1
    return _remaining_counts(counts, key, evictions, snapshot).change(arriving)


def _remaining_counts(
    counts: DomainCounts, key: str, evictions: Sequence[Eviction], snapshot: Snapshot
) -> DomainCounts:
    """Return the counts without the evicted pods."""
    leaving = Counter[str]()
    for eviction in evictions:
        node = snapshot.node.get(eviction.pod.node or "")
        domain = node.labels.get(key) if node is not None else None
        if domain is not None:
            leaving[domain] -= 1
    return counts.change(leaving)


def _target_domains(eviction: Eviction, key: str) -> Sequence[str]:
    return next((target.values for target in eviction.targets if target.topology_key == key), ())
