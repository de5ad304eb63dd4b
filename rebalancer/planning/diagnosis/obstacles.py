"""Why a component cannot be repaired: arithmetic, capacity, or pods that cannot move.

Each obstacle is removed in turn. If no placement exists even with every pod movable and unlimited capacity on every
node, the cause is arithmetic. If one exists only with unlimited capacity, it is capacity. Otherwise it is pods that
stay.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.controllers import PodController
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.causes import (
    DomainsCordoned,
    MinimumSearchLimit,
    NoCapacity,
    NoPlacement,
    NoPlacementOfClasses,
    OthersStay,
    PodsStay,
    Refusal,
    TooFewDomains,
)
from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement, requirement_for_count
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, Inner, count_domains, count_pods, map_leaves

Obstacle = tuple[State, Refusal]


def diagnose_single_class(
    layout: Layout, requirements: Sequence[Requirement], pods: PodPartition, cache: SearchCache
) -> Obstacle:
    """Return why no placement of equal pods satisfies everything."""
    root, bounds, pending = layout.root, layout.bounds, pods.missing
    total = count_pods(root, cache) + pending
    ideal = without_obstacles(root, cache, places=total)
    if min_evictions(ideal, bounds, pending, cache) is None:
        return State.INFEASIBLE, _diagnose_arithmetic(layout, requirements, ideal, total, cache)
    if min_evictions(without_obstacles(root, cache, places=None), bounds, pending, cache) is None:
        return State.UNFIXABLE, _diagnose_capacity(layout)
    return State.UNFIXABLE, _diagnose_staying(pods.refused)


def diagnose_multi_class(
    classes: PodClasses, unsolved: Unsolved, limits: SearchLimits, nearest: Solution | None
) -> Obstacle:
    """Return why no placement of several pod classes satisfies everything; `nearest` is the one that comes nearest."""
    limit_reached = State.VIOLATED, Refusal(Reason.NOT_FORCED, MinimumSearchLimit())
    if unsolved is Unsolved.LIMIT_REACHED:
        return limit_reached
    free = replace(classes, classes=tuple(replace(pod_class, fixed={}) for pod_class in classes.classes))
    without_staying = solve(free, limits)
    if isinstance(without_staying, Solution):
        return State.UNFIXABLE, _diagnose_staying(classes.pods.refused)
    total = classes.total
    widened = tuple(
        replace(free_class, cap=_unlimited(classes, free_class, total), now={}) for free_class in free.classes
    )
    with_capacity = solve(replace(free, classes=widened, view=None), limits)
    if isinstance(with_capacity, Solution):
        return State.UNFIXABLE, Refusal(Reason.NO_CAPACITY, NoCapacity())
    if Unsolved.LIMIT_REACHED in {without_staying, with_capacity}:
        return limit_reached
    proved = nearest is not None and nearest.evictions == nearest.bound
    cause = NoPlacementOfClasses(
        total,
        len(classes.classes),
        unplaced=nearest.unplaced if nearest is not None and proved else 0,
        excess=nearest.excess if nearest is not None and proved else 0,
    )
    return State.INFEASIBLE, Refusal(Reason.NO_ARRANGEMENT, cause)


def _unlimited(classes: PodClasses, pod_class: PodClass, total: int) -> dict[str, int]:
    """Return capacity for all pods, on every node that the requirements of a class count."""
    counting = (node for number in pod_class.requirements for node in classes.requirements[number].nodes)
    return dict.fromkeys(sorted({*pod_class.cap, *counting}), total)


def _diagnose_staying(refused: Sequence[tuple[Pod, PodController, Refusal]]) -> Refusal:
    """Return the most frequent reason why pods stay, with one of them."""
    reasons = Counter(refusal.reason for _, _, refusal in refused)
    if not reasons:
        return Refusal(Reason.NOT_EVICTABLE, OthersStay())
    reason, times = min(reasons.items(), key=lambda counted: (-counted[1], counted[0]))
    alike = [(pod, refusal) for pod, _, refusal in refused if refusal.reason is reason]
    pod, refusal = min(alike, key=lambda pair: pair[0].name)
    return Refusal(reason, PodsStay(times, pod.name, refusal.cause))


def without_obstacles(root: Inner, cache: SearchCache, *, places: int | None) -> Inner:
    """Return the placement with every pod movable and, if `places` is given, so much more capacity on every node."""
    known = cache.unobstructed.known.get((root, places))
    if known is not None:
        return known  # type: ignore[no-any-return]
    free = map_leaves(root, lambda leaf: (leaf[0], 0, leaf[2] if places is None else leaf[0] + places, leaf[3]))
    cache.unobstructed.store((root, places), free)
    return free


def _diagnose_arithmetic(
    layout: Layout, requirements: Sequence[Requirement], ideal: Inner, total: int, cache: SearchCache
) -> Refusal:
    """Explain with the nearest numbers of pods that can be placed as required."""
    feasible = tuple(_nearest_feasible(layout, requirements, ideal, total, cache))
    for level, bound in enumerate(layout.bounds, start=1):
        if bound.floor_at_zero:
            cause = TooFewDomains(count_domains(ideal, level), bound.max_skew or 0, total, feasible)
            return Refusal(Reason.TOO_FEW_DOMAINS, cause)
    return Refusal(Reason.NO_ARRANGEMENT, NoPlacement(total, feasible))


def _nearest_feasible(
    layout: Layout, requirements: Sequence[Requirement], ideal: Inner, total: int, cache: SearchCache
) -> list[int]:
    """Return the nearest numbers of pods below and above that can be placed as required."""

    def is_feasible(number: int) -> bool:
        bounds = _bounds_for(layout, requirements, number - total)
        empty = map_leaves(ideal, lambda _: (0, 0, number, 0))
        return bounds is not None and min_evictions(empty, bounds, number, cache) is not None

    far = cache.limits.feasible_count_distance
    directions = range(total - 1, max(0, total - 1 - far), -1), range(total + 1, total + 1 + far)
    nearest = (next((number for number in numbers if is_feasible(number)), None) for numbers in directions)
    return [number for number in nearest if number is not None]


def _bounds_for(layout: Layout, requirements: Sequence[Requirement], more: int) -> Bounds | None:
    """Return the bounds for `more` pods, whose shares are other numbers of pods; None where a bound is not known."""
    changed = [requirement_for_count(requirement, more) for requirement in requirements]
    known = [requirement for requirement in changed if requirement is not None]
    if len(known) < len(changed):
        return None
    bounds = []
    for key, bound in zip(layout.keys, layout.bounds, strict=True):
        caps = [other.bound.cap for other in known if other.key == key and other.bound.cap is not None]
        least = max((other.bound.least for other in known if other.key == key), default=0)
        bounds.append(structs.replace(bound, cap=min(caps, default=None), least=least))
    return tuple(bounds)


def _diagnose_capacity(layout: Layout) -> Refusal:
    """Name the coarsest domains that take no more of these pods, and whether they are cordoned."""
    for level, key in enumerate(layout.keys[:-1]):
        open_values = {path[level] for path in layout.topology.members if layout.takes_more(path)}
        closed = sorted(set(layout.topology.values(level)) - open_values)
        cordoned = tuple(value for value in closed if (level, value) in layout.topology.cordoned)
        if cordoned:
            return Refusal(Reason.ZONE_IN_MAINTENANCE, DomainsCordoned(key, cordoned))
        if closed:
            return Refusal(Reason.NO_CAPACITY, NoCapacity(key, tuple(closed)))
    return Refusal(Reason.NO_CAPACITY, NoCapacity())
