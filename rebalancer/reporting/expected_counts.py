"""What the counts will be once what is decided has landed well.

For groups of equal pods planning shows one such way; elsewhere it says where replacements may land, and the counts
follow where that is one domain.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import ComponentPlan, Counts, Eviction, Plan
from rebalancer.planning.scope.components import Component, current_counts


def decided(plan: Plan) -> Mapping[str, Sequence[Eviction]]:
    """Return the evictions of a plan, those that go and those that wait, by the name of what they repair."""
    found: dict[str, list[Eviction]] = {}
    for eviction in (*plan.evictions, *(waiting.eviction for waiting in plan.waiting)):
        found.setdefault(eviction.group, []).append(eviction)
    return found


def after(group: ComponentPlan, evictions: Sequence[Eviction], snapshot: Snapshot) -> Counts:
    """Return the counts by key and domain after the evictions; a key of which they are not known is left out."""
    before = current_counts(group.component)
    if group.after != before or not evictions:
        return group.after
    if any(each.cause is Cause.PLACEMENT_DEADLOCK for each in evictions):
        return {}  # who was waiting comes in, nobody says where
    found = {}
    for key, counts in before.items():
        counted = [each for each in evictions if _counted(group.component, key, each.pod)]
        landed = _landed(counts, key, counted, snapshot)
        if landed is not None:
            found[key] = landed
    return found


def worst_after(limit: EvaluatedLimit, evictions: Sequence[Eviction], snapshot: Snapshot) -> tuple[int, bool] | None:
    """Return what the worst domain of a limit will hold, and whether that is certain or a bound; None if unknown.

    The worst is the fullest, for minPods the emptiest, for maxSkew the difference between the two.
    """
    ours = {pod.uid for pod in limit.pods}
    counted = [each for each in evictions if each.pod.uid in ours]
    if not counted or any(each.cause is Cause.PLACEMENT_DEADLOCK for each in evictions):
        return None
    key, counts = limit.topology_key, {domain: limit.counts[domain] for domain in limit.counts}
    landed = _landed(counts, key, counted, snapshot)
    if landed is not None:
        fullest, emptiest = max(landed.values(), default=0), min(landed.values(), default=0)
        if limit.cap is not None:
            return fullest, True
        return (emptiest, True) if limit.min_pods is not None else (fullest - emptiest, True)
    if limit.cap is None:
        return None
    left = _left(counts, key, counted, snapshot)
    coming = Counter(value for each in counted for value in _targets(each, key))
    if not all(_targets(each, key) for each in counted):
        return None
    return max((number + coming[domain] for domain, number in left.items()), default=0), False


def _counted(component: Component, key: str, pod: Pod) -> bool:
    """Say whether a pod is among those that the counts of a key are of: the first constraint's, or limit's, on it."""
    for judged in component.groups:
        for each in (*judged.hard, *judged.soft):
            if each.constraint.key == key and (each.constraint.hard or each.counts.violated):
                return each.constraint.selector is not None and each.constraint.selector.matches(pod.labels)
    return any(pod.uid == each.uid for limit in component.limits if limit.topology_key == key for each in limit.pods)


def _landed(
    counts: Mapping[str, int], key: str, evictions: Sequence[Eviction], snapshot: Snapshot
) -> dict[str, int] | None:
    """Move each victim to the one domain where its replacement lands; None where there are several for one."""
    found = _left(counts, key, evictions, snapshot)
    for eviction in evictions:
        values = _targets(eviction, key)
        if len(values) != 1:
            return None
        if values[0] in found:
            found[values[0]] += 1
    return found


def _left(counts: Mapping[str, int], key: str, evictions: Sequence[Eviction], snapshot: Snapshot) -> dict[str, int]:
    found = dict(counts)
    for eviction in evictions:
        node = snapshot.node.get(eviction.pod.node or "")
        domain = node.labels.get(key) if node is not None else None
        if domain in found:
            found[domain] -= 1
    return found


def _targets(eviction: Eviction, key: str) -> Sequence[str]:
    return next((target.values for target in eviction.targets if target.topology_key == key), ())
